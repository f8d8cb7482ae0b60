//! The reference engine: every operation, model and network, one event after the other.
//!
//! It drives goal's stepper and matcher for each rank and keeps the events of all ranks in one queue, ordered by time
//! and, where times are equal, by the machine's rule of ties. Start at [`Engine::run`]; `messages` has what happens to
//! sends, arrivals and receives, `memory` the bytes where data are carried.

mod memory;
mod messages;
mod queue;
mod supersteps;

use crate::cost::{Costs, Occasion};
use crate::deadlock;
use crate::error::SimError;
use crate::instrument::{Cause, Flight, Instrument as _, Watcher};
use crate::machine::Ties;
use crate::network::Traffic;
use crate::outcome::Outcome;
use crate::source::Schedules;
use castell_base::{Rank, Time};
use castell_goal::op::Op;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use castell_matching::Matcher;
use castell_trace::Activity;
use memory::Memory;
use messages::Message;
use queue::{Event, Place, Queue, Waiting};
use std::collections::VecDeque;

/// A run under way.
struct Engine<'a> {
    schedules: &'a Schedules<'a>,
    /// Whose they are is told at run time: what that costs hardly shows here, and to compile an engine for each model does.
    costs: Box<dyn Costs + 'a>,
    instrument: Watcher<'a>,
    ties: Ties,
    /// Operations start no earlier than what they wait for has happened; without it, LogGOPSim's rule, which looks at
    /// nothing but the operation's own processor.
    causal: bool,
    /// What waits for an operation is released when that has finished; without it, when it has been decided when that
    /// will be, which is how LogGOPSim counts insertions.
    releases_at_end: bool,
    traffic: Option<Traffic<'a>>,
    memory: Option<Memory>,
    ranks: Vec<RankState>,
    messages: Vec<Message>,
    free_messages: Vec<u32>,
    queue: Queue,
    /// Events created so far.
    created: u64,
    departed: u64,
    /// Ranks at which something may have become ready in this step, with its cause.
    touched: Vec<(Rank, Cause)>,
    ready: Vec<OpId>,
    outcome: Outcome,
}

/// One rank.
struct RankState {
    stepper: Stepper,
    matcher: Matcher<OpId, u32>,
    /// When each processor is free.
    processors: Vec<Time>,
    /// When each interface can send.
    sending: Vec<Time>,
    /// When each interface can receive.
    receiving: Vec<Time>,
    /// Who waits for these, in the order of [`Kind`].
    waiting: [Vec<Waiting>; 3],
    /// All operations in the order of their records, to number them; empty where nobody asks.
    ids: Vec<OpId>,
    sends: Burst,
    /// Messages sent by this rank so far.
    sent: u64,
    /// Messages on their way from and to this rank.
    in_flight: [u32; 2],
    /// Sends that wait until fewer are on their way from, and to, this rank; first come, first served.
    stalled: [VecDeque<(Event, Place)>; 2],
    end: Time,
}

/// What operations and messages wait for.
#[derive(Clone, Copy)]
enum Kind {
    Processor,
    Sending,
    Receiving,
}

/// One of a rank's, by its number.
#[derive(Clone, Copy)]
struct Lane {
    rank: Rank,
    kind: Kind,
    number: u8,
}

/// Messages that were handled one directly behind the other.
#[derive(Clone, Copy, Default)]
struct Burst {
    since: Time,
    until: Time,
    count: u32,
}

impl Burst {
    /// The burst that a message belongs to that is handled now.
    fn at(self, now: Time) -> Burst {
        if self.until == now { self } else { Burst { since: now, until: now, count: 0 } }
    }
}

/// What a run starts from besides costs.
pub(crate) struct Setting<'a> {
    pub schedules: &'a Schedules<'a>,
    pub ties: Ties,
    pub traffic: Option<Traffic<'a>>,
    /// Initial scratchpads, where data are carried.
    pub memory: Option<Vec<Vec<u8>>>,
}

impl<'a> Setting<'a> {
    /// Runs to the end.
    pub fn run(self, costs: impl Costs + 'a, instrument: Watcher<'a>) -> Result<Outcome, SimError> {
        Engine::new(self, Box::new(costs), instrument)?.run()
    }
}

impl<'a> Engine<'a> {
    fn new(
        setting: Setting<'a>,
        costs: Box<dyn Costs + 'a>,
        instrument: Watcher<'a>,
    ) -> Result<Self, SimError> {
        let schedules = setting.schedules;
        let lanes = Lanes::of(schedules);
        let memory = setting.memory.map(|bytes| Memory::new(schedules, bytes)).transpose()?;
        let ranks = schedules.iter().map(|(_, schedule)| RankState {
            stepper: Stepper::new(schedule),
            matcher: Matcher::new(),
            processors: vec![Time::ZERO; lanes.processors],
            sending: vec![Time::ZERO; lanes.interfaces],
            receiving: vec![Time::ZERO; lanes.interfaces],
            waiting: [lanes.processors, lanes.interfaces, lanes.interfaces]
                .map(|lanes| std::iter::repeat_with(Waiting::default).take(lanes).collect()),
            ids: if costs.keyed() { schedule.operations().collect() } else { Vec::new() },
            sends: Burst::default(),
            sent: 0,
            in_flight: [0; 2],
            stalled: [VecDeque::new(), VecDeque::new()],
            end: Time::ZERO,
        });
        let releases_at_end = setting.ties == Ties::Rank || lanes.beyond_loggopsim;
        Ok(Engine {
            ranks: ranks.collect(),
            schedules,
            costs,
            instrument,
            ties: setting.ties,
            causal: releases_at_end || lanes.processors == 1,
            releases_at_end,
            traffic: setting.traffic,
            memory,
            messages: Vec::new(),
            free_messages: Vec::new(),
            queue: Queue::default(),
            created: 0,
            departed: 0,
            touched: Vec::new(),
            ready: Vec::new(),
            outcome: Outcome { ranks: schedules.ranks(), ..Outcome::default() },
        })
    }

    fn run(mut self) -> Result<Outcome, SimError> {
        for rank in (0..self.schedules.ranks()).map(Rank) {
            self.release(rank, Time::ZERO, Cause::Start)?;
        }
        while let Some((now, place, event)) = self.queue.pop() {
            let mut lanes = self.lanes_of(event);
            for lane in &mut lanes {
                lane.take_if(|lane| !self.waiting(*lane).is_turn(now, place));
            }
            match event {
                Event::Operation(rank, operation, together) => {
                    self.operation((rank, operation), together, now, place)?;
                }
                Event::Arrival(message) => self.arrival(message, now, place)?,
                Event::Finish(rank, operation) => self.finish(rank, operation),
                Event::Hop(message) => self.hop(message, now, place)?,
            }
            for lane in lanes.into_iter().flatten() {
                self.let_next(lane, now)?;
            }
            self.release_touched(now)?;
        }
        self.finished()
    }

    /// What an event may have waited for.
    fn lanes_of(&self, event: Event) -> [Option<Lane>; 2] {
        let (rank, kind, (processor, interface)) = match event {
            Event::Operation(rank, operation, _) => {
                let traits = self.schedules.of(rank).traits(operation);
                (rank, Kind::Sending, (traits.cpu, traits.nic))
            }
            Event::Arrival(message) => {
                let message = &self.messages[message as usize];
                (message.flight.to, Kind::Receiving, (message.processor, message.interface))
            }
            Event::Finish(..) | Event::Hop(_) => return [None; 2],
        };
        let lanes =
            [Lane { rank, kind: Kind::Processor, number: processor }, Lane { rank, kind, number: interface }];
        lanes.map(Some)
    }

    fn waiting(&mut self, Lane { rank, kind, number }: Lane) -> &mut Waiting {
        &mut self.ranks[rank.index()].waiting[kind as usize][number as usize]
    }

    /// When it is free.
    fn free(&self, Lane { rank, kind, number }: Lane) -> Time {
        let state = &self.ranks[rank.index()];
        let lanes = match kind {
            Kind::Processor => &state.processors,
            Kind::Sending => &state.sending,
            Kind::Receiving => &state.receiving,
        };
        lanes[number as usize]
    }

    /// Whether an event has to wait for the later one of these that is not free; then it comes again.
    fn waits(
        &mut self,
        lanes: [Option<Lane>; 2],
        event: Event,
        now: Time,
        place: Place,
    ) -> Result<bool, SimError> {
        let free =
            lanes.into_iter().flatten().map(|lane| (self.free(lane), lane)).max_by_key(|(free, _)| *free);
        let Some((free, lane)) = free.filter(|(free, _)| *free > now) else { return Ok(false) };
        if self.waiting(lane).comes(free, place, event) {
            self.push(free, place, event, self.cause_of(event))?;
        }
        Ok(true)
    }

    /// Who waited first has had its turn.
    fn let_next(&mut self, lane: Lane, now: Time) -> Result<(), SimError> {
        let free = self.free(lane).max(now);
        match self.waiting(lane).next(free) {
            Some((place, event)) => self.push(free, place, event, self.cause_of(event)),
            None => Ok(()),
        }
    }

    /// The operation that an event is about.
    fn cause_of(&self, event: Event) -> (Rank, OpId) {
        match event {
            Event::Operation(rank, operation, _) | Event::Finish(rank, operation) => (rank, operation),
            Event::Arrival(message) | Event::Hop(message) => {
                let flight = &self.messages[message as usize].flight;
                (flight.from, flight.operation)
            }
        }
    }

    fn finished(self) -> Result<Outcome, SimError> {
        if self.ranks.iter().any(|state| !state.stepper.is_finished()) {
            let states = self.ranks.iter().map(|state| deadlock::Stuck {
                unfinished: state.stepper.unfinished(),
                posted: state.matcher.posted().map(|(pattern, &op)| (pattern, op)).collect(),
            });
            let waiting = self.ranks.iter().flat_map(|state| state.matcher.unexpected());
            let waiting = waiting.map(|(_, &index)| &self.messages[index as usize]);
            let waiting = waiting.map(|message| message.flight);
            let waits =
                |flight: &Flight| self.costs.rendezvous_between(flight.bytes, (flight.from, flight.to));
            let waiting = waiting.filter(waits).collect();
            return Err(deadlock::report(self.schedules, states.collect(), waiting));
        }
        let mut outcome = self.outcome;
        outcome.unreceived = self.ranks.iter().map(|state| state.matcher.unexpected_len() as u64).sum();
        let last = |state: &RankState| state.processors.iter().copied().fold(state.end, Time::max);
        outcome.end = self.ranks.iter().map(last).collect();
        outcome.memory = self.memory.map(Memory::into_bytes);
        Ok(outcome)
    }

    /// Releases what became ready at the ranks of this step, lowest rank first.
    fn release_touched(&mut self, now: Time) -> Result<(), SimError> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let mut touched = std::mem::take(&mut self.touched);
        keep_first_causes(&mut touched);
        for &(rank, cause) in &touched {
            self.release(rank, now, cause)?;
        }
        touched.clear();
        self.touched = touched;
        Ok(())
    }

    /// Makes events of the operations of a rank that are ready.
    fn release(&mut self, rank: Rank, now: Time, cause: Cause) -> Result<(), SimError> {
        let state = &mut self.ranks[rank.index()];
        let schedule = self.schedules.of(rank);
        let mut ready = std::mem::take(&mut self.ready);
        while let Some(operation) = state.stepper.take_ready() {
            ready.push(operation);
        }
        let together = put_in_order(schedule, &mut ready) as u32;
        for &operation in &ready {
            let (op, traits) = (schedule.op(operation), schedule.traits(operation));
            let state = &self.ranks[rank.index()];
            let mut at = if self.causal { now } else { Time::ZERO };
            if !traits.concurrent {
                at = at.max(state.processors[traits.cpu as usize]);
            }
            if Class::of(op) == Class::Send {
                at = at.max(state.sending[traits.nic as usize]);
            }
            self.instrument.ready(rank, operation, at, cause);
            let place = self.place_of(rank, operation);
            self.push(at, place, Event::Operation(rank, operation, together), (rank, operation))?;
        }
        ready.clear();
        self.ready = ready;
        Ok(())
    }

    /// The place of a new event about an operation among those of its time.
    fn place_of(&mut self, rank: Rank, operation: OpId) -> Place {
        self.outcome.events += 1;
        match self.ties {
            Ties::Insertion => self.next_place(),
            Ties::Rank => {
                let class = match Class::of(self.schedules.of(rank).op(operation)) {
                    Class::Recv => 2,
                    Class::Send => 3,
                    Class::Compute => 4,
                };
                ((u64::from(rank.0) << 8) | class, u64::from(operation.0))
            }
        }
    }

    fn next_place(&mut self) -> Place {
        self.created += 1;
        (self.created, 0)
    }

    fn push(
        &mut self,
        time: Time,
        place: Place,
        event: Event,
        (rank, operation): (Rank, OpId),
    ) -> Result<(), SimError> {
        if time == Time::MAX {
            return Err(SimError::Overflow { operation: self.schedules.name(rank, operation) });
        }
        self.queue.push(time, place, event);
        Ok(())
    }

    fn operation(
        &mut self,
        (rank, operation): (Rank, OpId),
        together: u32,
        now: Time,
        place: Place,
    ) -> Result<(), SimError> {
        let schedules = self.schedules;
        match schedules.of(rank).op(operation) {
            Op::Send { .. } | Op::Put { .. } | Op::Get { .. } => {
                self.send((rank, operation), together, now, place)
            }
            Op::Recv { .. } => self.receive(rank, operation, now),
            Op::Calc { ns } => {
                let time = self.costs.compute(&self.occasion(rank, operation, rank, now), from_ns(ns));
                self.compute((rank, operation), now, place, time, Activity::Compute)
            }
            Op::Sleep { ns } => self.compute((rank, operation), now, place, from_ns(ns), Activity::Wait),
            Op::Local { arithmetic, count, .. } => {
                let bytes = count.saturating_mul(arithmetic.element().bytes());
                let time = self.costs.local(&self.occasion(rank, operation, rank, now), bytes);
                self.compute((rank, operation), now, place, time, Activity::Other)
            }
            Op::Proxy | Op::Wtime { .. } | Op::Call { .. } => {
                self.start(rank, operation, now);
                self.execute_locally(rank, operation, now);
                self.complete(rank, operation, now, now)
            }
        }
    }

    /// An operation that occupies the processor for `time`.
    fn compute(
        &mut self,
        (rank, operation): (Rank, OpId),
        now: Time,
        place: Place,
        time: Time,
        activity: Activity,
    ) -> Result<(), SimError> {
        let traits = self.schedules.of(rank).traits(operation);
        let end = now + time;
        if !traits.concurrent {
            let lane = Lane { rank, kind: Kind::Processor, number: traits.cpu };
            if self.waits([Some(lane), None], Event::Operation(rank, operation, 0), now, place)? {
                return Ok(());
            }
            self.ranks[rank.index()].processors[traits.cpu as usize] = end;
        }
        let processor = (!traits.concurrent).then_some(traits.cpu);
        self.start(rank, operation, now);
        self.execute_locally(rank, operation, now);
        self.instrument.busy(rank, processor, activity, (rank, operation), now, end);
        if traits.concurrent {
            self.complete_later(rank, operation, end)
        } else {
            self.complete(rank, operation, now, end)
        }
    }

    fn execute_locally(&mut self, rank: Rank, operation: OpId, now: Time) {
        if let Some(memory) = &mut self.memory {
            memory.execute(self.schedules, rank, operation, now);
        }
    }

    fn start(&mut self, rank: Rank, operation: OpId, now: Time) {
        self.instrument.started(rank, operation, now);
        self.ranks[rank.index()].stepper.start(self.schedules.of(rank), operation);
        self.touched.push((rank, Cause::Operation(operation)));
    }

    /// The operation has finished, or will have at `end`, when its processor is free.
    fn complete(&mut self, rank: Rank, operation: OpId, now: Time, end: Time) -> Result<(), SimError> {
        if self.releases_at_end && end > now {
            return self.complete_later(rank, operation, end);
        }
        if end == Time::MAX {
            return Err(SimError::Overflow { operation: self.schedules.name(rank, operation) });
        }
        self.instrument.finished(rank, operation, end);
        self.finish(rank, operation);
        let state = &mut self.ranks[rank.index()];
        if self.causal {
            state.end = state.end.max(end);
        }
        Ok(())
    }

    fn complete_later(&mut self, rank: Rank, operation: OpId, end: Time) -> Result<(), SimError> {
        self.instrument.finished(rank, operation, end);
        let place = match self.ties {
            Ties::Insertion => self.next_place(),
            Ties::Rank => (u64::from(rank.0) << 8, u64::from(operation.0)),
        };
        let state = &mut self.ranks[rank.index()];
        state.end = state.end.max(end);
        self.push(end, place, Event::Finish(rank, operation), (rank, operation))
    }

    fn finish(&mut self, rank: Rank, operation: OpId) {
        self.ranks[rank.index()].stepper.finish(self.schedules.of(rank), operation);
        self.touched.push((rank, Cause::Operation(operation)));
    }

    /// What costs may depend on, for an operation of `owner` that `rank` pays for.
    fn occasion(&self, owner: Rank, operation: OpId, rank: Rank, now: Time) -> Occasion {
        let number = match self.costs.keyed() {
            true => self.ranks[owner.index()].ids.binary_search(&operation).expect("an operation"),
            false => 0,
        };
        Occasion::of(owner, rank, number as u64, now)
    }
}

/// What goes first among operations of one rank that become ready, or could start, at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Send,
    Recv,
    Compute,
}

impl Class {
    fn of(op: Op<'_>) -> Class {
        match op {
            Op::Send { .. } | Op::Put { .. } | Op::Get { .. } => Class::Send,
            Op::Recv { .. } => Class::Recv,
            _ => Class::Compute,
        }
    }
}

/// Puts ranks that something happened at in order, each once.
fn keep_first_causes(touched: &mut Vec<(Rank, Cause)>) {
    // Stable: of several causes at one rank the first one counts.
    touched.sort_by_key(|&(rank, _)| rank);
    touched.dedup_by_key(|&mut (rank, _)| rank);
}

/// Puts operations of a rank that became ready in the order in which they go; how many send.
fn put_in_order(schedule: &Schedule, ready: &mut [OpId]) -> usize {
    let class = |&operation: &OpId| Class::of(schedule.op(operation));
    // Stable: within a class in the order in which they became ready.
    ready.sort_by_key(class);
    ready.partition_point(|operation| class(operation) == Class::Send)
}

/// How many processors and interfaces each rank has, and whether there are operations that LogGOPSim does not know.
struct Lanes {
    processors: usize,
    interfaces: usize,
    beyond_loggopsim: bool,
}

impl Lanes {
    fn of(schedules: &Schedules<'_>) -> Lanes {
        let mut lanes = Lanes { processors: 1, interfaces: 1, beyond_loggopsim: false };
        for (_, schedule) in schedules.iter() {
            for operation in schedule.operations() {
                let traits = schedule.traits(operation);
                lanes.processors = lanes.processors.max(traits.cpu as usize + 1);
                lanes.interfaces = lanes.interfaces.max(traits.nic as usize + 1);
                let known =
                    matches!(schedule.op(operation), Op::Send { .. } | Op::Recv { .. } | Op::Calc { .. });
                lanes.beyond_loggopsim |= !known || traits.concurrent || traits.any.is_some();
            }
        }
        lanes
    }
}

fn from_ns(ns: u64) -> Time {
    Time::from_ns(ns)
}
