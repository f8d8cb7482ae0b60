//! BSP: all ranks go from barrier to barrier.
//!
//! In a superstep each rank does whatever it can without messages of the same superstep; then all messages are exchanged,
//! and after the barrier they are there. A rank takes part in as many messages as it sends or receives, whichever is
//! more. Operations of one rank are computed one after the other, `concurrent` or not. Gets read what was there when the
//! barrier began, before puts are written. Computing after the last messages needs no barrier.

use super::Setting;
use super::memory::Memory;
use crate::error::SimError;
use crate::instrument::{Cause, Flight, Instrument as _, Watcher};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::source::Schedules;
use crate::{deadlock, deadlock::Stuck};
use castell_base::random;
use castell_base::{Rank, Tag, Time};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use castell_goal::schedule::Schedule;
use castell_goal::stepper::Stepper;
use castell_matching::{Key, Matcher, Pattern};
use castell_model::noise::Parameter;
use castell_model::{Bsp, Work};
use castell_trace::{Activity, Travel};

struct Supersteps<'a> {
    schedules: &'a Schedules<'a>,
    model: Bsp,
    machine: &'a Machine,
    seed: u64,
    instrument: Watcher<'a>,
    memory: Option<Memory>,
    ranks: Vec<RankState>,
    /// Messages of this superstep, with their data.
    outgoing: Vec<(Flight, Vec<u8>)>,
    /// When this superstep began.
    began: Time,
    departed: u64,
    events: u64,
    supersteps: u64,
}

struct RankState {
    stepper: Stepper,
    /// Operations in the order of their records, where noise needs their numbers.
    ids: Vec<OpId>,
    matcher: Matcher<OpId, (Flight, Vec<u8>)>,
    /// Computed in this superstep.
    computed: Time,
    sent: (u64, u64),
    received: (u64, u64),
    end: Time,
}

impl<'a> Setting<'a> {
    /// Runs to the end under BSP.
    pub fn run_supersteps(
        self,
        model: Bsp,
        machine: &'a Machine,
        seed: u64,
        instrument: Watcher<'a>,
    ) -> Result<Outcome, SimError> {
        let schedules = self.schedules;
        let memory = self.memory.map(|bytes| Memory::new(schedules, bytes)).transpose()?;
        let rank = |schedule: &Schedule| RankState {
            stepper: Stepper::new(schedule),
            ids: if machine.is_quiet() { Vec::new() } else { schedule.operations().collect() },
            matcher: Matcher::new(),
            computed: Time::ZERO,
            sent: (0, 0),
            received: (0, 0),
            end: Time::ZERO,
        };
        let ranks = schedules.iter().map(|(_, schedule)| rank(schedule)).collect();
        let supersteps = Supersteps {
            schedules,
            model,
            machine,
            seed,
            instrument,
            memory,
            supersteps: 0,
            ranks,
            outgoing: Vec::new(),
            began: Time::ZERO,
            departed: 0,
            events: 0,
        };
        supersteps.run()
    }
}

impl Supersteps<'_> {
    fn run(mut self) -> Result<Outcome, SimError> {
        loop {
            for rank in (0..self.schedules.ranks()).map(Rank) {
                self.compute(rank)?;
            }
            if self.outgoing.is_empty() {
                return self.finished();
            }
            self.communicate()?;
        }
    }

    fn finished(self) -> Result<Outcome, SimError> {
        if self.ranks.iter().any(|state| !state.stepper.is_finished()) {
            let stuck = self.ranks.iter().map(|state| Stuck {
                unfinished: state.stepper.unfinished(),
                posted: state.matcher.posted().map(|(pattern, &op)| (pattern, op)).collect(),
            });
            return Err(deadlock::report(self.schedules, stuck.collect(), Vec::new()));
        }
        Ok(Outcome {
            ranks: self.schedules.ranks(),
            events: self.events,
            end: self.ranks.iter().map(|state| state.end).collect(),
            unreceived: self.ranks.iter().map(|state| state.matcher.unexpected_len() as u64).sum(),
            memory: self.memory.map(Memory::into_bytes),
        })
    }

    /// Does what a rank can do before the next barrier.
    fn compute(&mut self, rank: Rank) -> Result<(), SimError> {
        while let Some(operation) = self.ranks[rank.index()].stepper.take_ready() {
            let schedules = self.schedules;
            let schedule = schedules.of(rank);
            self.events += 1;
            let now = self.now(rank);
            self.instrument.ready(rank, operation, now, Cause::Start);
            self.instrument.started(rank, operation, now);
            self.ranks[rank.index()].stepper.start(schedule, operation);
            match schedule.op(operation) {
                Op::Send { bytes, dest, tag, .. } => {
                    self.send(rank, operation, (rank, dest), tag, bytes)?;
                    self.complete(rank, operation);
                }
                // Finished after the barrier.
                Op::Put { bytes, dest, .. } => self.send(rank, operation, (rank, dest), Tag(0), bytes)?,
                Op::Get { bytes, source, .. } => {
                    self.send(rank, operation, (source, rank), Tag(0), bytes)?;
                }
                Op::Recv { source, tag, .. } => {
                    let pattern = Pattern { context: 0, source, tag };
                    let message = self.ranks[rank.index()].matcher.post(pattern, operation);
                    if let Some((flight, data)) = message {
                        self.receive(&flight, operation, &data)?;
                    }
                }
                Op::Calc { ns } => self.occupy(rank, operation, Time::from_ns(ns), Activity::Compute)?,
                Op::Sleep { ns } => self.occupy(rank, operation, Time::from_ns(ns), Activity::Wait)?,
                Op::Proxy | Op::Local { .. } | Op::Wtime { .. } | Op::Call { .. } => {
                    self.occupy(rank, operation, Time::ZERO, Activity::Other)?;
                }
            }
        }
        Ok(())
    }

    fn now(&self, rank: Rank) -> Time {
        self.began + self.ranks[rank.index()].computed
    }

    fn occupy(
        &mut self,
        rank: Rank,
        operation: OpId,
        time: Time,
        activity: Activity,
    ) -> Result<(), SimError> {
        let start = self.now(rank);
        let time =
            if activity == Activity::Wait { time } else { self.lengthen(rank, operation, start, time) };
        if let Some(memory) = &mut self.memory {
            memory.execute(self.schedules, rank, operation, start);
        }
        self.ranks[rank.index()].computed += time;
        if start + time == Time::MAX {
            return Err(SimError::Overflow { operation: self.schedules.name(rank, operation) });
        }
        self.instrument.busy(rank, Some(0), activity, (rank, operation), start, start + time);
        self.complete(rank, operation);
        Ok(())
    }

    /// What noise and detours make of a computation.
    fn lengthen(&self, rank: Rank, operation: OpId, start: Time, time: Time) -> Time {
        let Ok(number) = self.ranks[rank.index()].ids.binary_search(&operation) else { return time };
        let key = random::Key { seed: self.seed, rank, operation: number as u64 };
        let time = self.machine.noise.compute(time, key);
        let delay =
            self.machine.detours.as_ref().map(|(detours, together)| {
                detours.delay(detours.phase(self.seed, rank, *together), start, time)
            });
        time + delay.unwrap_or(Time::ZERO)
    }

    /// The parameters of this superstep's communication.
    fn drawn(&mut self) -> Bsp {
        let (noise, base) = (&self.machine.noise, &self.model);
        let key = random::Key { seed: self.seed, rank: Rank(u32::MAX), operation: self.supersteps };
        self.supersteps += 1;
        Bsp {
            gap: noise.time(Parameter::Gap, base.gap, key, 0),
            gap_per_byte: noise.per_byte(Parameter::GapPerByte, base.gap_per_byte, key, 0),
            barrier: noise.time(Parameter::Barrier, base.barrier, key, 0),
        }
    }

    fn complete(&mut self, rank: Rank, operation: OpId) {
        let now = self.now(rank);
        self.instrument.finished(rank, operation, now);
        let state = &mut self.ranks[rank.index()];
        state.stepper.finish(self.schedules.of(rank), operation);
        state.end = state.end.max(now);
    }

    /// Notes a message of this superstep; `rank` asked for it.
    fn send(
        &mut self,
        rank: Rank,
        operation: OpId,
        (from, to): (Rank, Rank),
        tag: Tag,
        bytes: u64,
    ) -> Result<(), SimError> {
        // What a get asks for is read when all have sent.
        let data = match &self.memory {
            Some(memory) => memory.gather(self.schedules, rank, operation),
            None => Vec::new(),
        };
        // Gets are written down from the side that asks: the operation is there.
        let flight = Flight {
            number: self.departed,
            from: rank,
            to: if from == rank { to } else { from },
            tag,
            bytes,
            operation,
            started: self.now(rank),
        };
        self.departed += 1;
        self.events += 1;
        for (state, sends) in [(from, true), (to, false)] {
            let state = &mut self.ranks[state.index()];
            let (messages, total) = if sends { &mut state.sent } else { &mut state.received };
            *messages += 1;
            *total = total.saturating_add(bytes);
        }
        self.outgoing.push((flight, data));
        Ok(())
    }

    /// The end of a superstep: all messages are exchanged.
    fn communicate(&mut self) -> Result<(), SimError> {
        let model = self.drawn();
        let work = self.ranks.iter().map(|state| Work {
            compute: state.computed,
            messages: state.sent.0.max(state.received.0),
            bytes: state.sent.1.max(state.received.1),
        });
        let after = self.began + model.superstep(work);
        let computed = self.ranks.iter().map(|state| state.computed).max().unwrap_or(Time::ZERO);
        let departs = self.began + computed;
        for state in &mut self.ranks {
            (state.computed, state.sent, state.received) = (Time::ZERO, (0, 0), (0, 0));
        }
        self.began = after;
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for (flight, data) in &mut outgoing {
            if after == Time::MAX {
                return Err(SimError::Overflow {
                    operation: self.schedules.name(flight.from, flight.operation),
                });
            }
            self.instrument.departed(flight, departs);
            let is_get = matches!(self.schedules.of(flight.from).op(flight.operation), Op::Get { .. });
            if let (true, Some(memory)) = (is_get, &self.memory) {
                *data = memory.read_get(self.schedules, flight)?;
            }
        }
        for (flight, data) in outgoing {
            self.instrument.arrived(&flight, after, after);
            let latency = model.barrier.min(after - departs);
            let bandwidth_ps = (after - departs - latency).0;
            self.instrument
                .travelled(&flight, Travel { latency_ps: latency.0, bandwidth_ps, receiving_ps: 0 });
            self.deliver(flight, data)?;
        }
        Ok(())
    }

    fn deliver(&mut self, flight: Flight, data: Vec<u8>) -> Result<(), SimError> {
        let (rank, operation) = (flight.from, flight.operation);
        match self.schedules.of(rank).op(operation) {
            Op::Put { .. } => {
                if let Some(memory) = &mut self.memory {
                    memory.write_put(self.schedules, &flight, &data)?;
                }
                self.complete(rank, operation);
            }
            Op::Get { .. } => {
                if let Some(memory) = &mut self.memory {
                    memory.scatter(self.schedules, rank, operation, &data);
                }
                self.complete(rank, operation);
            }
            _ => {
                let key = Key { context: 0, source: flight.from, tag: flight.tag };
                let matcher = &mut self.ranks[flight.to.index()].matcher;
                let mut data = Some(data);
                let posted = matcher.arrive(key, || (flight, data.take().unwrap_or_default()));
                if let Some(receive) = posted {
                    self.receive(&flight, receive, &data.unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    /// A message and its receive have found each other.
    fn receive(&mut self, flight: &Flight, receive: OpId, data: &[u8]) -> Result<(), SimError> {
        self.schedules.check_sizes(flight, receive)?;
        if let Some(memory) = &mut self.memory {
            memory.scatter(self.schedules, flight.to, receive, data);
        }
        let now = self.now(flight.to);
        self.instrument.received(flight, receive, now, now);
        self.complete(flight.to, receive);
        Ok(())
    }
}
