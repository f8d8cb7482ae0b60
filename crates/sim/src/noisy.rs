//! Cost models whose parameters vary, and processors that an operating system takes away now and then.

use crate::cost::{ArrivalCost, Costs, Occasion, SendCost};
use crate::costs::LogCosts;
use crate::machine::Machine;
use castell_base::random::Key;
use castell_base::{Rank, Time};
use castell_model::noise::{Detours, Noise, Parameter};
use castell_model::{ByCount, Lb, LogfP, Lop, Plb};

/// Draws of one operation: at the sender, at the receiver, for the answer of a get.
const AT_SENDER: u8 = 0;
const AT_RECEIVER: u8 = 1;
const FOR_ANSWER: u8 = 2;

/// A model whose costs can be drawn anew for each operation.
pub(crate) trait Drawn: Clone {
    /// The costs that this draw gives, for a message of the occasion.
    fn drawn(&self, noise: &Noise, occasion: &Occasion, key: Key, event: u8) -> impl Costs;
    /// The same without noise.
    fn quiet(&self) -> impl Costs;
}

/// Costs with noise.
pub(crate) struct Noisy<'a, M> {
    model: M,
    machine: &'a Machine,
    seed: u64,
    /// Where each rank starts in the detours.
    phases: Vec<Time>,
}

impl<'a, M: Drawn> Noisy<'a, M> {
    pub fn new(model: M, machine: &'a Machine, seed: u64, ranks: u32) -> Noisy<'a, M> {
        let phase = |(detours, together): &(Detours, bool)| {
            (0..ranks).map(|rank| detours.phase(seed, Rank(rank), *together)).collect()
        };
        Noisy { model, machine, seed, phases: machine.detours.as_ref().map(phase).unwrap_or_default() }
    }

    fn key(&self, occasion: &Occasion) -> Key {
        Key { seed: self.seed, rank: occasion.owner, operation: occasion.operation }
    }

    /// What the operating system adds to `length` at a rank.
    fn delay(&self, occasion: &Occasion, length: Time) -> Time {
        match &self.machine.detours {
            Some((detours, _)) => detours.delay(self.phases[occasion.rank.index()], occasion.now, length),
            None => Time::ZERO,
        }
    }
}

impl<M: Drawn> Costs for Noisy<'_, M> {
    fn keyed(&self) -> bool {
        true
    }

    fn send(&self, occasion: &Occasion) -> SendCost {
        let event = if occasion.rank == occasion.owner { AT_SENDER } else { FOR_ANSWER };
        let costs = self.model.drawn(&self.machine.noise, occasion, self.key(occasion), event);
        let cost = costs.send(occasion);
        // The message is on its way before the processor comes back from a detour, as in LogGOPSim.
        SendCost { processor: cost.processor + self.delay(occasion, cost.processor), ..cost }
    }

    fn arrival(&self, occasion: &Occasion) -> ArrivalCost {
        let costs = self.model.drawn(&self.machine.noise, occasion, self.key(occasion), AT_RECEIVER);
        let cost = costs.arrival(occasion);
        ArrivalCost { processor: cost.processor + self.delay(occasion, cost.processor), ..cost }
    }

    fn arrival_waits(&self) -> bool {
        self.model.quiet().arrival_waits()
    }

    fn rendezvous(&self, bytes: u64) -> bool {
        self.model.quiet().rendezvous(bytes)
    }

    fn compute(&self, occasion: &Occasion, time: Time) -> Time {
        let time = self.machine.noise.compute(time, self.key(occasion));
        time + self.delay(occasion, time)
    }

    fn local(&self, occasion: &Occasion, bytes: u64) -> Time {
        let key = self.key(occasion);
        let time = self.model.drawn(&self.machine.noise, occasion, key, AT_SENDER).local(occasion, bytes);
        let time = self.machine.noise.compute(time, key);
        time + self.delay(occasion, time)
    }

    fn capacity(&self) -> Option<u32> {
        self.model.quiet().capacity()
    }

    fn bytes_paid(&self, bytes: u64) -> Time {
        self.model.quiet().bytes_paid(bytes)
    }
}

impl Drawn for LogCosts {
    fn drawn(&self, noise: &Noise, _: &Occasion, key: Key, event: u8) -> impl Costs {
        LogCosts { model: noise.loggops(&self.model, key, event), ..self.clone() }
    }

    fn quiet(&self) -> impl Costs {
        self.clone()
    }
}

impl Drawn for Plb {
    fn drawn(&self, noise: &Noise, occasion: &Occasion, key: Key, event: u8) -> impl Costs {
        noise.plb(self, occasion.bytes, key, event)
    }

    fn quiet(&self) -> impl Costs {
        self.clone()
    }
}

impl Drawn for Lb {
    fn drawn(&self, noise: &Noise, _: &Occasion, key: Key, event: u8) -> impl Costs {
        Lb {
            alpha: noise.time(Parameter::Alpha, self.alpha, key, event),
            beta: noise.per_byte(Parameter::Beta, self.beta, key, event),
            gamma: noise.per_byte(Parameter::Gamma, self.gamma, key, event),
        }
    }

    fn quiet(&self) -> impl Costs {
        self.clone()
    }
}

impl Drawn for LogfP {
    fn drawn(&self, noise: &Noise, _: &Occasion, key: Key, event: u8) -> impl Costs {
        LogfP {
            latency: noise.time(Parameter::Latency, self.latency, key, event),
            overhead_min: noise.time(Parameter::OverheadMin, self.overhead_min, key, event),
            overhead_max: noise.time(Parameter::OverheadMax, self.overhead_max, key, event),
            gap: noise.time(Parameter::Gap, self.gap, key, event),
            free_messages: self.free_messages,
        }
    }

    fn quiet(&self) -> impl Costs {
        self.clone()
    }
}

impl Drawn for Lop {
    fn drawn(&self, noise: &Noise, occasion: &Occasion, key: Key, event: u8) -> impl Costs {
        let time = |parameter, of_count: &ByCount| -> ByCount {
            noise.time(parameter, of_count.of(occasion.together.into()), key, event).into()
        };
        Lop {
            latency: noise.time(Parameter::Latency, self.latency, key, event),
            overhead_send: time(Parameter::OverheadSend, &self.overhead_send),
            overhead_receive: time(Parameter::OverheadReceive, &self.overhead_receive),
            hardware_send: time(Parameter::HardwareSend, &self.hardware_send),
            hardware_receive: time(Parameter::HardwareReceive, &self.hardware_receive),
        }
    }

    fn quiet(&self) -> impl Costs {
        self.clone()
    }
}
