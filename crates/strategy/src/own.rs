//! An application's own strategy: it says onto which resource each of the application's collections goes, and in which order; the node's
//! says when.
//!
//! What the application's strategy starts on [the application's own node](Node::of_application) is in line at the node's keeper, one
//! collection a resource. Whoever has both in hand carries what one says to the other: [`News`] in, [`Chosen`] out.

use crate::collection::{CollectionId, Kernels, Place};
use crate::input::Input;
use crate::keeper::{Fault, Happened, Keeper, Strategy};
use crate::node::{Node, ResourceId};
use castell_base::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A collection of the application's, as long as it is not done, between its own node and the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What has happened since the own strategy was told last.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// In this order.
    pub told: Vec<Told>,
    /// On which resources others run now.
    pub busy: Vec<ResourceId>,
    /// The governor's level.
    pub governor: String,
    /// What sensors said last, by name.
    pub sensors: BTreeMap<String, f64>,
}

/// What happens to a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It waits to be sent somewhere.
    Came {
        /// Which.
        ticket: Ticket,
        /// Whose.
        application: Arc<str>,
        /// What can run where.
        kernels: Arc<Kernels>,
        /// In how many steps.
        steps: u32,
    },
    /// It stood in line, and its step has begun.
    Began(Ticket),
    /// Its step has ended; if it was not the last, it waits to be sent somewhere again.
    Ended(Ticket),
    /// It stood in line for what is forbidden by now, and waits to be sent somewhere again.
    Back(Ticket),
    /// It is given up.
    Gone(Ticket),
}

/// A collection's next step is to run there, behind all that was chosen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which.
    pub ticket: Ticket,
    /// Where.
    pub resource: ResourceId,
}

/// An application's own node with the strategy that decides there.
pub struct Own {
    keeper: Keeper,
    ids: BTreeMap<Ticket, CollectionId>,
    tickets: BTreeMap<CollectionId, Ticket>,
}

impl Own {
    /// For an application of this node.
    pub fn new(node: &Node, strategy: Box<dyn Strategy>) -> Own {
        let mut keeper = Keeper::new(node.of_application(), strategy);
        keeper.take_events();
        Own { keeper, ids: BTreeMap::new(), tickets: BTreeMap::new() }
    }

    /// When its next tick is due.
    pub fn next_tick(&self) -> Option<Moment> {
        self.keeper.next_tick()
    }

    /// What it shows of itself.
    pub fn shown(&self) -> BTreeMap<String, f64> {
        self.keeper.shown()
    }

    /// Something has happened: what it chooses now.
    ///
    /// # Errors
    /// It fails. It has no say any more then.
    pub fn hear(&mut self, now: impl Into<Moment>, news: News) -> Result<Vec<Chosen>, Fault> {
        let now = now.into();
        let node = self.keeper.node_mut();
        node.set_now(now);
        node.set_busy(&news.busy);
        news.sensors.iter().for_each(|(name, value)| node.set_sensor(name, *value));
        for told in news.told {
            self.hear_one(now, told);
        }
        // Also where it is the same level: something else may have happened, so that it is asked.
        self.settle(now, Input::Governor(news.governor))
    }

    /// A tick, if one is due: what it chooses now.
    ///
    /// # Errors
    /// See above.
    pub fn tick(&mut self, now: Moment) -> Result<Vec<Chosen>, Fault> {
        self.settle(now, Input::Tick)
    }

    fn hear_one(&mut self, now: Moment, told: Told) {
        let input = match told {
            Told::Came { ticket, application, kernels, steps } => {
                let input = Input::Register { application, kernels, steps };
                // The node has taken it in, so this one does.
                if let Ok(Some(id)) = self.keeper.apply(now, input) {
                    self.ids.insert(ticket, id);
                    self.tickets.insert(id, ticket);
                }
                return;
            }
            Told::Began(ticket) => {
                self.in_line(ticket).into_iter().for_each(|on| self.keeper.node_mut().began(on));
                return;
            }
            Told::Back(ticket) => {
                self.in_line(ticket).into_iter().for_each(|on| self.keeper.node_mut().came_back(on));
                return;
            }
            Told::Ended(ticket) => self.in_line(ticket).map(Input::Ended),
            Told::Gone(ticket) => self.ids.get(&ticket).copied().map(Input::Withdraw),
        };
        // What is not known is nothing to be told about.
        let _ = input.map(|input| self.keeper.apply(now, input));
        if let Told::Ended(ticket) | Told::Gone(ticket) = told
            && let Some(id) = self.ids.get(&ticket).copied()
            && self.keeper.node().collection(id).is_none()
        {
            self.ids.remove(&ticket);
            // What it has chosen before it went is still among the events.
        }
    }

    /// For which resource it stands in line, or where it runs.
    fn in_line(&self, ticket: Ticket) -> Option<ResourceId> {
        match self.keeper.node().collection(*self.ids.get(&ticket)?)?.place {
            Place::Running(on) => Some(on),
            Place::Waiting | Place::Queued(_) => None,
        }
    }

    fn settle(&mut self, now: Moment, input: Input) -> Result<Vec<Chosen>, Fault> {
        // It can always happen.
        let _ = self.keeper.apply(now, input);
        while self.keeper.decide() {}
        let mut chosen = Vec::new();
        for event in self.keeper.take_events() {
            match event.what {
                Happened::Started(start) => {
                    let ticket = self.tickets.get(&start.collection);
                    chosen.extend(ticket.map(|ticket| Chosen { ticket: *ticket, resource: start.resource }));
                }
                Happened::Fault(fault) => return Err(fault),
                _ => {}
            }
        }
        self.tickets.retain(|id, _| self.keeper.node().collection(*id).is_some());
        Ok(chosen)
    }
}
