//! Answers what is asked in mailboxes: between them and the node's books.

mod own;

use crate::KernelsError;
use crate::mailbox::{Mailbox, SLOTS, Slot, State};
use crate::protocol::{OnResource, SHAPES_MAX, Shape, ShownApplication, ShownOwn, Status};
use castell_base::Moment;
use castell_host::futex;
use castell_strategy::own::Told;
use castell_strategy::{
    CollectionId, Event, Happened, Input, Keeper, Kernels, NodeError, Place, ResourceId, ResourceKind,
    Strategy,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// An application has written into its mailbox what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot} of the mailbox is in a state that it cannot be in")]
pub struct Violation {
    /// Where.
    pub slot: usize,
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Collections that were carried out.
    pub done: u64,
    /// Steps that were run.
    pub steps: u64,
    /// What strategies have decided.
    pub decisions: u64,
    /// Strategies that were stopped since they failed.
    pub faults: u64,
    /// For how long collections have waited for their first step, together, in nanoseconds.
    pub waited_ns: u64,
}

/// Where an application's mailbox is.
#[derive(Clone, Debug)]
pub struct Held {
    /// What people call the application.
    pub name: Arc<str>,
    /// Its process.
    pub pid: u32,
    /// The user that its process runs as.
    pub user: u32,
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
}

/// What the books know of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// A collection of this shape, which had done so many steps when it was registered.
    Collection {
        id: CollectionId,
        shape: u32,
        done_before: u32,
        /// Steps that are not in the books as yet: about each of them the application's own strategy decides.
        after: u32,
    },
    /// The application's own strategy has not said where the next step is to run.
    Own {
        shape: u32,
        steps_done: u32,
        steps_left: u32,
        since: Moment,
    },
    /// A step that runs although the books have no place for it: another desk has granted it.
    Stray,
}

struct Registered {
    kernels: Arc<Kernels>,
    /// Which of the application's kernels each of those is.
    numbers: Vec<u32>,
    /// With one of its kernels only, as the application's own strategy sends it somewhere; made once, since whoever knows kernels knows
    /// them by their address.
    only: BTreeMap<ResourceId, Arc<Kernels>>,
}

struct Member {
    held: Held,
    shapes: Vec<Option<Registered>>,
    slots: [Kept; SLOTS],
    /// What stands in its mailbox counts: all of its shapes are registered, and it does not stand still.
    is_in: bool,
    /// What its own strategy has to be told, if it has one.
    own: Option<own::Books>,
    /// What there is to say of that one, also when it was stopped.
    shown_own: Option<ShownOwn>,
    /// It is stopped.
    is_parked: bool,
}

/// A node's keeper with the mailboxes of its applications.
///
/// It is told when to look; whoever owns it has the clock, the sockets and the bells. Until it is [opened](Desk::open) it only takes
/// in applications: those that have been with another desk before, which has granted what runs now.
pub struct Desk {
    keeper: Keeper,
    members: BTreeMap<u64, Member>,
    whose: BTreeMap<CollectionId, (u64, usize)>,
    is_open: bool,
    counts: Counts,
    log: Vec<Event>,
    /// What has happened from outside, where somebody wants to know.
    inputs: Option<Vec<(Moment, Input)>>,
    /// Of collections that own strategies know.
    next_ticket: u64,
    /// Members whose own strategies have to be told something.
    with_news: BTreeSet<u64>,
}

impl Desk {
    /// With this keeper, which has no collections yet.
    pub fn new(keeper: Keeper) -> Desk {
        Desk {
            keeper,
            members: BTreeMap::new(),
            whose: BTreeMap::new(),
            is_open: false,
            counts: Counts::default(),
            log: Vec::new(),
            inputs: None,
            next_ticket: 0,
            with_news: BTreeSet::new(),
        }
    }

    /// Who decides, and on what.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The node gets a resource of this name, if it has none.
    pub fn add_resource(&mut self, name: &str) {
        self.keeper.node_mut().add_resource(name, ResourceKind::of(name));
    }

    /// Something else happens to the node than collections: the governor, a sensor, a tick.
    pub fn change(&mut self, now: impl Into<Moment>, input: Input) {
        let (now, is_for_own) = (now.into(), !matches!(input, Input::Tick));
        // They can always happen.
        let _ = self.apply(now, input);
        self.decide();
        if is_for_own {
            self.node_changed(now);
        }
    }

    /// Another strategy takes over.
    pub fn replace(&mut self, now: impl Into<Moment>, strategy: Box<dyn Strategy>) {
        self.keeper.replace(now, strategy);
        self.answer();
    }

    /// From now on what happens from outside is kept for [`take_inputs`](Desk::take_inputs).
    pub fn keep_inputs(&mut self) {
        self.inputs.get_or_insert_default();
    }

    /// What has happened from outside since this was called last, if it is kept: with the strategies, all that decisions follow from.
    pub fn take_inputs(&mut self) -> Vec<(Moment, Input)> {
        self.inputs.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What has happened on the node since this was called last.
    pub fn take_log(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.log)
    }

    /// An application comes, under a number of its own.
    pub fn join(&mut self, member: u64, held: Held) {
        let (slots, shapes) = ([Kept::Nothing; SLOTS], Vec::new());
        let joined =
            Member { held, shapes, slots, is_in: false, is_parked: false, own: None, shown_own: None };
        self.members.insert(member, joined);
    }

    /// The application has gone: what it had asked for is forgotten, and where it ran others may run.
    pub fn leave(&mut self, member: u64, now: impl Into<Moment>) {
        let Some(gone) = self.members.remove(&member) else { return };
        let now = now.into();
        self.with_news.remove(&member);
        for kept in gone.slots {
            if let Kept::Collection { id, .. } = kept {
                self.withdraw(now, id);
            }
        }
    }

    /// An application is stopped, or its session: others may run where it runs, and nothing is granted to it until it is [taken in](Desk::take_in) again.
    /// Then what runs goes on where it is, beside whoever has come there meanwhile, and what waits waits anew.
    pub fn park(&mut self, now: impl Into<Moment>, member: u64) {
        let now = now.into();
        // What it has said before it was stopped counts; whether it must not say that is seen when it goes on.
        let _ = self.serve(now, member);
        let Some(parked) = self.members.get_mut(&member) else { return };
        (parked.is_in, parked.is_parked) = (false, true);
        let slots = std::mem::replace(&mut parked.slots, [Kept::Nothing; SLOTS]);
        for (slot, kept) in slots.into_iter().enumerate() {
            self.own_is_over(member, slot, Told::Gone);
            if let Kept::Collection { id, .. } = kept {
                self.withdraw(now, id);
            }
        }
    }

    /// An application registers the kernels of a computation, under the next number.
    ///
    /// # Errors
    /// A sentence about what is wrong with them. They have their number nevertheless.
    pub fn register(&mut self, member: u64, shape: &Shape) -> Result<(), KernelsError> {
        let Some(member) = self.members.get_mut(&member) else { return Ok(()) };
        if member.shapes.len() >= SHAPES_MAX {
            return Err(KernelsError::Registration(format!(
                "an application can register {SHAPES_MAX} computations"
            )));
        }
        let registered = shape.on(self.keeper.node());
        let (kept, answer) = match registered {
            Ok((kernels, numbers)) => {
                (Some(Registered { kernels: Arc::new(kernels), numbers, only: BTreeMap::new() }), Ok(()))
            }
            Err(reason) => (None, Err(KernelsError::Registration(reason))),
        };
        member.shapes.push(kept);
        answer
    }

    /// Whether decisions are made.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// From now on decisions are made, first about what the applications that were taken in so far have in their mailboxes: what runs
    /// goes on where it is, what waits waits in its order.
    ///
    /// # Errors
    /// Applications that have written what they must not.
    pub fn open(&mut self, now: impl Into<Moment>) -> Vec<(u64, Violation)> {
        self.is_open = true;
        let members = self.members.iter().filter(|(_, member)| member.is_in);
        self.take_over(now.into(), &members.map(|(number, _)| *number).collect::<Vec<_>>())
    }

    /// All shapes of an application are registered that it had so far: from now on its mailbox counts, with what another desk may have
    /// left there.
    ///
    /// # Errors
    /// It has written what it must not.
    pub fn take_in(&mut self, now: impl Into<Moment>, member: u64) -> Result<(), Violation> {
        if let Some(member) = self.members.get_mut(&member) {
            (member.is_in, member.is_parked) = (true, false);
        }
        match self.is_open {
            true => {
                self.take_over(now.into(), &[member]).pop().map_or(Ok(()), |(_, violation)| Err(violation))
            }
            false => Ok(()),
        }
    }

    fn take_over(&mut self, now: Moment, members: &[u64]) -> Vec<(u64, Violation)> {
        let mut slots = Vec::new();
        let mut wrong = Vec::new();
        for member in members {
            let Some(found) = self.members.get(member) else { continue };
            let mailbox = found.held.mailbox.clone();
            let words = mailbox.words();
            words.take_pending();
            for slot in 0..SLOTS {
                let said = words.slot(slot);
                // Who has answered last may have been killed before it woke whoever sleeps there.
                if matches!(said.state, Some(State::Granted | State::Done | State::Refused)) {
                    wake(Some(words.state_word(slot)));
                }
                match said.state {
                    // Nothing of it runs any more: it waits for its next step, if it has one.
                    Some(State::Ended | State::Abandoned) => self.keep(*member, slot, Kept::Stray),
                    Some(State::Granted | State::Asked) => {}
                    Some(State::Free | State::Done | State::Refused) => continue,
                    None => {
                        wrong.push((*member, Violation { slot }));
                        continue;
                    }
                }
                slots.push((said.state == Some(State::Asked), said.asked_ns, *member, slot, said));
            }
        }
        slots.sort_unstable_by_key(|(waits, asked_ns, member, slot, _)| (*waits, *asked_ns, *member, *slot));
        // All that runs first, before anything is decided: where it runs nothing else may.
        for (.., member, slot, said) in slots.iter().filter(|(.., said)| said.state == Some(State::Granted)) {
            self.adopt(now, *member, *slot, *said);
        }
        self.answer();
        for (_, _, member, slot, _) in slots {
            // An application may have gone on meanwhile.
            if let Err(violation) = self.hear(now, member, slot) {
                wrong.push((member, violation));
            }
        }
        wrong
    }

    fn adopt(&mut self, now: Moment, member: u64, slot: usize, said: Slot) {
        let Some(found) = self.members.get(&member) else { return };
        let name = found.held.name.clone();
        let shape = found.shapes.get(said.shape as usize).and_then(Option::as_ref);
        let place = shape.and_then(|shape| {
            let at = shape.numbers.iter().position(|number| *number == said.kernel)?;
            Some((shape.kernels.clone(), shape.kernels.all()[at].resource))
        });
        let steps = said.steps.saturating_sub(said.steps_done);
        let adopted = place.and_then(|(kernels, on)| {
            self.apply(now, Input::Adopt { application: name, kernels, steps, on }).ok().flatten()
        });
        let (shape, done_before) = (said.shape, said.steps_done);
        let kept = adopted.map_or(Kept::Stray, |id| Kept::Collection { id, shape, done_before, after: 0 });
        self.keep(member, slot, kept);
        self.whose.extend(adopted.map(|id| (id, (member, slot))));
    }

    /// Looks at what the application has said since the last time; whether there was anything.
    ///
    /// # Errors
    /// It has written what it must not: [`Desk::leave`] is next.
    pub fn serve(&mut self, now: impl Into<Moment>, member: u64) -> Result<bool, Violation> {
        if !self.is_open {
            return Ok(false);
        }
        let Some(found) = self.members.get(&member).filter(|member| member.is_in) else { return Ok(false) };
        let now = now.into();
        let mailbox = found.held.mailbox.clone();
        let pending = mailbox.words().take_pending();
        let mut slots: Vec<usize> = (0..SLOTS).filter(|slot| pending >> slot & 1 == 1).collect();
        // What has ended makes room for what is asked, so it comes first.
        slots.sort_by_key(|slot| mailbox.words().slot(*slot).state == Some(State::Asked));
        for slot in slots {
            self.hear(now, member, slot)?;
        }
        Ok(pending != 0)
    }

    /// Carries out what a slot says.
    fn hear(&mut self, now: Moment, member: u64, slot: usize) -> Result<(), Violation> {
        let Some(found) = self.members.get_mut(&member) else { return Ok(()) };
        let (mailbox, kept) = (found.held.mailbox.clone(), found.slots[slot]);
        let words = mailbox.words();
        let said = words.slot(slot);
        match (said.state, kept) {
            (None, _) => return Err(Violation { slot }),
            // Said before, and heard.
            (Some(State::Free | State::Granted | State::Done | State::Refused), _) => {}
            (Some(State::Asked), Kept::Nothing) => self.ask(now, member, slot, said, 0),
            (Some(State::Asked), Kept::Collection { id, .. }) if self.runs_on(id).is_none() => {}
            (Some(State::Asked | State::Ended), Kept::Own { .. }) => {}
            // If it runs nowhere, that was heard before, and it waits for its next step.
            (Some(State::Ended), Kept::Collection { id, .. }) => {
                if let Some(on) = self.runs_on(id) {
                    self.apply(now, Input::Ended(on)).expect("it runs there");
                    self.decide();
                    self.go_on_without_own(now, member, slot);
                }
            }
            (Some(State::Ended), Kept::Stray) => {
                self.keep(member, slot, Kept::Nothing);
                self.counts.steps += 1;
                match said.steps_ended {
                    done if done >= said.steps => {
                        self.counts.done += 1;
                        wake(words.finish(slot));
                    }
                    done => self.ask(now, member, slot, said, done),
                }
            }
            (Some(State::Abandoned), kept) => {
                self.keep(member, slot, Kept::Nothing);
                self.own_is_over(member, slot, Told::Gone);
                if let Kept::Collection { id, .. } = kept {
                    self.withdraw(now, id);
                }
                wake(words.finish(slot));
            }
            (Some(State::Asked), Kept::Collection { .. } | Kept::Stray)
            | (Some(State::Ended), Kept::Nothing) => {
                return Err(Violation { slot });
            }
        }
        Ok(())
    }

    fn keep(&mut self, member: u64, slot: usize, kept: Kept) {
        if let Some(member) = self.members.get_mut(&member) {
            member.slots[slot] = kept;
        }
    }

    fn ask(&mut self, now: Moment, member: u64, slot: usize, said: Slot, steps_done: u32) {
        let Some(found) = self.members.get(&member) else { return };
        let shape = found.shapes.get(said.shape as usize).and_then(Option::as_ref);
        let (name, kernels) = (found.held.name.clone(), shape.map(|shape| shape.kernels.clone()));
        let steps = said.steps.saturating_sub(steps_done);
        let mailbox = found.held.mailbox.clone();
        if kernels.is_some() && steps > 0 && found.own.is_some() {
            let kept = Kept::Own { shape: said.shape, steps_done, steps_left: steps, since: now };
            self.hold(member, slot, kept);
            return;
        }
        let came = kernels.and_then(|kernels| {
            self.apply(now, Input::Register { application: name, kernels, steps }).ok().flatten()
        });
        match came {
            Some(id) => {
                let (shape, done_before) = (said.shape, steps_done);
                self.keep(member, slot, Kept::Collection { id, shape, done_before, after: 0 });
                self.whose.insert(id, (member, slot));
                self.decide();
            }
            None => wake(mailbox.words().refuse(slot)),
        }
    }

    fn withdraw(&mut self, now: Moment, id: CollectionId) {
        self.whose.remove(&id);
        // It can always happen.
        let _ = self.apply(now, Input::Withdraw(id));
        self.decide();
    }

    fn apply(&mut self, now: Moment, input: Input) -> Result<Option<CollectionId>, NodeError> {
        match &mut self.inputs {
            None => self.keeper.apply(now, input),
            Some(inputs) => {
                let came = self.keeper.apply(now, input.clone())?;
                inputs.push((now, input));
                Ok(came)
            }
        }
    }

    /// Tells applications each decision before the strategy is asked for the next one: a script takes longer than all the rest.
    fn decide(&mut self) {
        self.answer();
        while self.keeper.decide() {
            self.answer();
        }
    }

    fn runs_on(&self, id: CollectionId) -> Option<ResourceId> {
        match self.keeper.node().collection(id)?.place {
            Place::Running(on) => Some(on),
            Place::Waiting | Place::Queued(_) => None,
        }
    }

    /// Tells applications what the keeper has decided.
    fn answer(&mut self) {
        for event in self.keeper.take_events() {
            match event.what {
                Happened::Started(start) => {
                    self.grant(start.collection, start.resource);
                    self.count_wait(event.at, start.collection);
                }
                Happened::Decided(_) => self.counts.decisions += 1,
                Happened::Fault(_) => self.counts.faults += 1,
                Happened::Ended { collection, is_done, .. } => {
                    self.counts.steps += 1;
                    if is_done && let Some((member, slot)) = self.whose.remove(&collection) {
                        self.end(event.at, member, slot);
                    }
                }
                _ => {}
            }
            self.log.push(event);
        }
    }

    /// A collection is out of the books: it is over, or its next step is its own strategy's.
    fn end(&mut self, now: Moment, number: u64, slot: usize) {
        let member = self.members.get_mut(&number).expect("who has collections is there");
        match member.slots[slot] {
            Kept::Collection { shape, done_before, after, .. } if after > 0 => {
                let (steps_done, steps_left) = (done_before + 1, after);
                self.own_ended(number, slot, Kept::Own { shape, steps_done, steps_left, since: now });
            }
            _ => {
                member.slots[slot] = Kept::Nothing;
                wake(member.held.mailbox.words().finish(slot));
                self.counts.done += 1;
                self.own_is_over(number, slot, Told::Ended);
            }
        }
    }

    fn grant(&mut self, id: CollectionId, on: ResourceId) {
        let Some(&(number, slot)) = self.whose.get(&id) else { return };
        self.own_began(number, slot);
        let (Some(member), Some(collection)) = (self.members.get(&number), self.keeper.node().collection(id))
        else {
            return;
        };
        let words = member.held.mailbox.words();
        let Kept::Collection { shape, done_before, .. } = member.slots[slot] else { return };
        let shape = member.shapes[shape as usize].as_ref().expect("it was registered with that");
        let at = shape.kernels.all().iter().position(|kernel| kernel.resource == on);
        let number = shape.numbers[at.expect("it runs where it has a kernel")];
        wake(words.grant(slot, number, done_before + collection.steps_done));
    }

    fn count_wait(&mut self, at: Moment, id: CollectionId) {
        let is_first = |(member, slot): &(u64, usize)| {
            let kept = self.members.get(member).map(|member| member.slots[*slot]);
            !matches!(kept, Some(Kept::Collection { done_before: 1.., .. }))
        };
        let collection = self.keeper.node().collection(id).filter(|collection| collection.steps_done == 0);
        if let Some(collection) = collection.filter(|_| self.whose.get(&id).is_none_or(is_first)) {
            self.counts.waited(at, collection.arrived);
        }
    }

    /// Applications that run where a collection of another one waits to run.
    pub fn in_the_way(&self) -> BTreeSet<u64> {
        let node = self.keeper.node();
        let member_of = |id: &CollectionId| self.whose.get(id).map(|(member, _)| *member);
        let queued = node.resources().iter().flat_map(|resource| &resource.queue);
        let waiting: Vec<_> =
            node.waiting().iter().chain(queued).filter_map(|id| node.collection(*id)).collect();
        let holders = node.resources().iter().enumerate().filter_map(|(at, resource)| {
            let holder = resource.running.as_ref().and_then(member_of)?;
            let is_waited_for = waiting.iter().any(|collection| {
                let mut kernels = collection.kernels.all().iter();
                kernels.any(|kernel| kernel.resource == ResourceId(at))
                    && member_of(&collection.id) != Some(holder)
            });
            is_waited_for.then_some(holder)
        });
        holders.collect()
    }

    /// Who is there.
    pub fn members(&self) -> impl Iterator<Item = (u64, &Held)> {
        self.members.iter().map(|(number, member)| (*number, &member.held))
    }

    /// For people.
    pub fn status(&self) -> Status {
        self.status_of(|_| true)
    }

    /// For one user, without the names of others' applications.
    pub fn status_for(&self, user: u32) -> Status {
        self.status_of(|member| member.held.user == user)
    }

    fn status_of(&self, is_shown: impl Fn(&Member) -> bool) -> Status {
        let node = self.keeper.node();
        let shown = |member: &Member| match is_shown(member) {
            true => member.held.name.to_string(),
            false => "(another user's)".into(),
        };
        let name = |id: &CollectionId| {
            let member = self.whose.get(id).and_then(|(member, _)| self.members.get(member));
            format!("{}#{}", member.map_or_else(String::new, shown), id.0)
        };
        let names = |ids: &mut dyn Iterator<Item = &CollectionId>| ids.map(name).collect::<Vec<_>>();
        let resources = node.resources().iter().map(|resource| OnResource {
            resource: resource.name.clone(),
            running: resource.running.as_ref().map(name),
            queue: names(&mut resource.queue.iter()),
            forbidden: resource.is_forbidden,
        });
        let applications = self.members.values().map(|member| ShownApplication {
            application: shown(member),
            pid: member.held.pid,
            collections: member.slots.iter().filter(|kept| **kept != Kept::Nothing).count() as u64,
            strategy: member.shown_own.clone(),
            parked: member.is_parked,
        });
        Status {
            strategy: self.keeper.strategy().into(),
            governor: node.governor().into(),
            resources: resources.collect(),
            waiting: names(&mut node.waiting().iter()),
            applications: applications.collect(),
            done: self.counts.done,
            steps: self.counts.steps,
            decisions: self.counts.decisions,
            faults: self.counts.faults,
            waited_ns: self.counts.waited_ns,
            shown: self.keeper.shown(),
            sensors: node.sensors().clone(),
        }
    }
}

fn wake(word: Option<&AtomicU32>) {
    if let Some(word) = word {
        futex::wake(word, i32::MAX, u32::MAX);
    }
}
