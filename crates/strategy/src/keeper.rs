//! Asks a strategy, carries out what it says, and goes on with the last good one where it fails.

use crate::collection::{CollectionId, Kernels};
use crate::input::Input;
use crate::node::{Decision, Node, NodeError, Refusal, ResourceId, Start};
use castell_base::{Moment, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Decides which collection goes where.
pub trait Strategy: Send {
    /// What people call it.
    fn name(&self) -> &str;

    /// The interval of its ticks; `None` if it wants none. It is asked anew after every call.
    fn tick(&self) -> Option<Time>;

    /// One decision, or none for now. It is asked again, with the decision carried out, until it has none or nothing waits any more.
    ///
    /// # Errors
    /// It fails; says where and why.
    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault>;

    /// A tick.
    ///
    /// # Errors
    /// It fails; says where and why.
    fn on_tick(&mut self, node: &Node) -> Result<(), Fault>;

    /// Numbers of its own that people want to see, such as a budget, by name.
    fn shown(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}

/// What a strategy was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// It was read.
    Load,
    /// `choose`.
    Choose,
    /// `on_tick`.
    Tick,
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["load", "choose", "on_tick"][*self as usize])
    }
}

/// What a strategy did wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (in {during} of {strategy})")]
pub struct Fault {
    /// Its name.
    pub strategy: String,
    /// In what.
    pub during: During,
    /// File and line where they are known, what is wrong and what to do.
    pub message: String,
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// What.
    pub what: Happened,
}

impl Event {
    /// As a line of a log, by the names of collections and resources; the same event gives the same line, to the byte.
    pub fn line(
        &self,
        name: impl Fn(CollectionId) -> String,
        resource: impl Fn(ResourceId) -> String,
    ) -> String {
        let at = |start: &Start| format!("{} on {}", name(start.collection), resource(start.resource));
        let what = match &self.what {
            Happened::Arrived(id) => format!("arrived {}", name(*id)),
            Happened::Decided(to) => format!("decided {} -> {}", name(to.collection), resource(to.resource)),
            Happened::Started(start) => format!("started {}", at(start)),
            Happened::Adopted(start) => format!("taken over {}", at(start)),
            Happened::Ended { collection, resource: on, is_done } => {
                let what = if *is_done { "done" } else { "step done" };
                format!("{what} {} on {}", name(*collection), resource(*on))
            }
            Happened::Withdrawn(id) => format!("withdrawn {}", name(*id)),
            Happened::Governor(level) => format!("governor {level}"),
            Happened::Strategy(name) => format!("strategy {name}"),
            Happened::Fault(fault) => format!("fault {fault}"),
        };
        format!("{} {what}", self.at)
    }
}

/// What can happen on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A collection was registered.
    Arrived(CollectionId),
    /// The strategy decided.
    Decided(Decision),
    /// A step began.
    Started(Start),
    /// A collection was taken over with the step that runs, as its last keeper left it.
    Adopted(Start),
    /// A step ended; whether it was its collection's last.
    Ended {
        /// Whose.
        collection: CollectionId,
        /// Where.
        resource: ResourceId,
        /// The collection is done.
        is_done: bool,
    },
    /// A collection's application has gone.
    Withdrawn(CollectionId),
    /// The governor has another level.
    Governor(String),
    /// A strategy took over.
    Strategy(String),
    /// A strategy failed.
    Fault(Fault),
}

/// Where no strategy is left: each collection, in turn, onto the free resource that it likes best.
pub struct FirstFit;

impl Strategy for FirstFit {
    fn name(&self) -> &str {
        "first-fit"
    }

    fn tick(&self) -> Option<Time> {
        None
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        for &collection in node.waiting() {
            let kernels = &node.collection(collection).expect("it waits").kernels;
            let free = |id: &&ResourceId| node.resources()[id.0].is_free();
            if let Some(&resource) = kernels.rankings()[0].order.iter().find(free) {
                return Ok(Some(Decision { collection, resource }));
            }
        }
        Ok(None)
    }

    fn on_tick(&mut self, _: &Node) -> Result<(), Fault> {
        Ok(())
    }
}

/// A node with the strategy that decides there.
///
/// Whoever keeps it tells it what happens and when, and reads from the events what to start: a simulator in virtual time, a daemon by
/// its clock. A strategy that fails is taken out; the last one that did not goes on with the queues as they are.
///
/// The methods named after what happens decide all that there is to decide then. Who wants to start what is decided before the strategy
/// is asked for more calls [`apply`](Keeper::apply), and [`decide`](Keeper::decide) until it says no.
pub struct Keeper {
    node: Node,
    strategy: Box<dyn Strategy>,
    last_good: Option<Box<dyn Strategy>>,
    next_tick: Option<Moment>,
    interval: Option<Time>,
    events: Vec<Event>,
    /// While there may be something to decide: how many decisions are too many.
    moves_left: Option<usize>,
}

impl Keeper {
    /// The node's time is where it begins.
    pub fn new(node: Node, strategy: Box<dyn Strategy>) -> Keeper {
        let mut keeper = Keeper {
            node,
            strategy,
            last_good: None,
            next_tick: None,
            interval: None,
            events: Vec::new(),
            moves_left: None,
        };
        keeper.follow_interval();
        keeper
    }

    /// The node as it is.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// For what needs no decision: forbidden resources, sensors at the start.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// The strategy that decides now.
    pub fn strategy(&self) -> &str {
        self.strategy.name()
    }

    /// What that one shows of itself.
    pub fn shown(&self) -> BTreeMap<String, f64> {
        self.strategy.shown()
    }

    /// When the next tick is due.
    pub fn next_tick(&self) -> Option<Moment> {
        self.next_tick
    }

    /// What has happened since this was called last.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Another strategy takes over, with all queues as they are; the one before it is kept for the case that it fails.
    pub fn replace(&mut self, now: impl Into<Moment>, strategy: Box<dyn Strategy>) {
        self.node.set_now(now.into());
        self.last_good = Some(std::mem::replace(&mut self.strategy, strategy));
        self.taken_over();
        self.begin();
        self.settle();
    }

    /// Something happens, and nothing is decided as yet. The number of the collection, where one comes.
    ///
    /// # Errors
    /// See [`Node::register`], [`Node::adopt`] and [`Node::ended`]; nothing has changed then.
    pub fn apply(&mut self, now: impl Into<Moment>, input: Input) -> Result<Option<CollectionId>, NodeError> {
        let now = now.into();
        self.node.set_now(now);
        let mut came = None;
        match input {
            Input::Register { application, kernels, steps } => {
                let id = self.node.register(application, kernels, steps)?;
                self.note(Happened::Arrived(id));
                came = Some(id);
            }
            Input::Adopt { application, kernels, steps, on } => {
                let collection = self.node.adopt(application, kernels, steps, on)?;
                self.note(Happened::Adopted(Start { collection, resource: on }));
                // Others may follow, and where those run nothing else may: the next input decides.
                return Ok(Some(collection));
            }
            Input::Ended(resource) => {
                let (ended, start) = self.node.ended(resource)?;
                let (collection, is_done) = (ended.collection, ended.is_done);
                self.note(Happened::Ended { collection, resource, is_done });
                start.into_iter().for_each(|start| self.note(Happened::Started(start)));
            }
            Input::Withdraw(id) if self.node.collection(id).is_some() => {
                let start = self.node.withdraw(id);
                self.note(Happened::Withdrawn(id));
                start.into_iter().for_each(|start| self.note(Happened::Started(start)));
            }
            Input::Withdraw(_) => return Ok(None),
            Input::Governor(level) => {
                self.node.set_governor(&level);
                self.note(Happened::Governor(level));
            }
            Input::Sensor(name, value) => self.node.set_sensor(&name, value),
            Input::Tick if self.has_ticked(now) => {}
            Input::Tick => return Ok(None),
        }
        self.begin();
        Ok(came)
    }

    /// Asks the strategy for one decision and carries it out; whether there may be another one. One that only moves collections to and
    /// fro is stopped.
    pub fn decide(&mut self) -> bool {
        let Some(moves_left) = self.moves_left else { return false };
        // Where nothing waits there is nothing to say, and calls of scripts cost most of what a decision costs.
        let chosen = if self.node.has_choice() { self.strategy.choose(&self.node) } else { Ok(None) };
        let carried_out =
            match chosen {
                Ok(None) => {
                    self.moves_left = None;
                    self.follow_interval();
                    return false;
                }
                Ok(Some(decision)) if moves_left > 0 => self.carry_out(decision),
                Ok(Some(_)) => Err(self
                    .fault("it decides without end: collections are moved to and fro between queues".into())),
                Err(fault) => Err(fault),
            };
        self.moves_left = Some(moves_left.saturating_sub(1));
        if let Err(fault) = carried_out {
            self.fall_back(fault);
            self.begin();
        }
        true
    }

    /// A collection is registered.
    ///
    /// # Errors
    /// See [`Node::register`].
    pub fn register(
        &mut self,
        now: impl Into<Moment>,
        application: Arc<str>,
        kernels: Arc<Kernels>,
        steps: u32,
    ) -> Result<CollectionId, NodeError> {
        let came = self.apply(now, Input::Register { application, kernels, steps })?;
        self.settle();
        Ok(came.expect("a collection that was registered has a number"))
    }

    /// The step that ran on a resource has ended.
    ///
    /// # Errors
    /// Nothing runs there.
    pub fn ended(&mut self, now: impl Into<Moment>, resource: ResourceId) -> Result<(), NodeError> {
        self.apply(now, Input::Ended(resource))?;
        self.settle();
        Ok(())
    }

    /// A collection's application has gone.
    pub fn withdraw(&mut self, now: impl Into<Moment>, id: CollectionId) {
        self.happens(now.into(), Input::Withdraw(id));
    }

    /// The governor has another level.
    pub fn set_governor(&mut self, now: impl Into<Moment>, level: &str) {
        self.happens(now.into(), Input::Governor(level.into()));
    }

    /// A sensor says something else.
    pub fn set_sensor(&mut self, now: impl Into<Moment>, name: &str, value: f64) {
        self.happens(now.into(), Input::Sensor(name.into(), value));
    }

    /// A tick, if one is due.
    pub fn tick(&mut self, now: impl Into<Moment>) {
        self.happens(now.into(), Input::Tick);
    }

    fn happens(&mut self, now: Moment, input: Input) {
        self.apply(now, input).expect("only collections and resources can be wrong");
        self.settle();
    }

    fn begin(&mut self) {
        self.moves_left = Some(4 * self.node.collections().len() + 16);
    }

    fn settle(&mut self) {
        while self.decide() {}
    }

    /// Whether a tick was due.
    fn has_ticked(&mut self, now: Moment) -> bool {
        let (Some(due), Some(interval)) = (self.next_tick, self.interval) else { return false };
        if due > now {
            return false;
        }
        // Ticks that were missed, because the clock jumped, are not made up for.
        let interval = u128::from(interval.0);
        let missed = (now.0 - due.0) / interval;
        self.next_tick = Some(Moment(due.0 + interval * (missed + 1)));
        if let Err(fault) = self.strategy.on_tick(&self.node) {
            self.fall_back(fault);
        }
        true
    }

    fn carry_out(&mut self, decision: Decision) -> Result<(), Fault> {
        let start = self.node.apply(decision).map_err(|refusal: Refusal| self.fault(refusal.to_string()))?;
        self.note(Happened::Decided(decision));
        start.into_iter().for_each(|start| self.note(Happened::Started(start)));
        Ok(())
    }

    fn fault(&self, message: String) -> Fault {
        Fault { strategy: self.strategy.name().into(), during: During::Choose, message }
    }

    /// The last good strategy goes on, or the one that needs nobody.
    fn fall_back(&mut self, fault: Fault) {
        self.note(Happened::Fault(fault));
        self.strategy = self.last_good.take().unwrap_or_else(|| Box::new(FirstFit));
        self.taken_over();
    }

    fn taken_over(&mut self) {
        let name = self.strategy.name().to_owned();
        self.note(Happened::Strategy(name));
        self.interval = None;
        self.next_tick = None;
        self.follow_interval();
    }

    /// The next tick is an interval away when the interval changes.
    fn follow_interval(&mut self) {
        let wanted = self.strategy.tick().filter(|interval| *interval > Time::ZERO);
        if wanted != self.interval {
            self.interval = wanted;
            self.next_tick = wanted.map(|interval| self.node.now() + interval);
        }
    }

    fn note(&mut self, what: Happened) {
        self.events.push(Event { at: self.node.now(), what });
    }
}
