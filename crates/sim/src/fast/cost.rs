//! What operations and messages cost: worked out once for each size, or drawn for each message.

use super::encode::TIME_MAX;
use super::flat::Flat;
use crate::cost::{self, Occasion};
use crate::machine::Machine;
use castell_base::random::Key;
use castell_base::{Rank, Time};
use castell_model::LogGops;
use castell_model::noise::{Detours, Noise, Parameter};

/// What a message costs one of its two ranks, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    /// The processor.
    pub cpu: u64,
    /// The network interface in the message's direction.
    pub nic: u64,
}

/// Which operation something is asked about.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// The rank whose operation it is, for an arrival the sender.
    pub owner: u32,
    /// The operation's place among its shape's.
    pub op: u32,
    /// The rank that pays.
    pub rank: u32,
    pub now: u64,
}

/// What an engine asks. Sizes are known by their place in the program's table.
pub(super) trait Charges {
    /// Whether arrivals depend on their sender.
    const DRAWN: bool;

    /// What a send costs, and how long after its start the message arrives.
    fn send(&self, size: u64, about: About) -> (Charge, u64);

    /// Whether every send occupies its processor or interface for a time.
    fn sends_take_time(&self) -> bool {
        false
    }

    fn arrival(&self, size: u64, about: About) -> Charge;

    /// Whether an arrival waits for the receiver's processor and interface.
    fn arrival_waits(&self) -> bool;

    /// How long computing of nominally `ps` takes.
    fn compute(&self, ps: u64, about: About) -> u64;

    fn rendezvous(&self, size: u64) -> bool;
}

#[derive(Clone, Copy, Debug)]
struct OfSize {
    send: Charge,
    /// From the start of a send to the arrival, in ps.
    flight: u64,
    arrival: Charge,
    rendezvous: bool,
}

/// The same each time.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// In the order of the program's sizes.
    of_size: Vec<OfSize>,
    arrival_waits: bool,
}

impl Costs {
    /// The costs of the sizes that the program has, in a model where nothing but the size matters.
    pub fn new(flat: &Flat, model: &impl cost::Costs) -> Costs {
        let of_size = |&bytes: &u64| {
            let occasion = Occasion { bytes, ..Occasion::of(Rank(0), Rank(0), 0, Time::ZERO) };
            let (send, arrival) = (model.send(&occasion), model.arrival(&occasion));
            OfSize {
                send: Charge { cpu: send.processor.0, nic: send.interface.0 },
                flight: send.transit.0,
                arrival: Charge { cpu: arrival.processor.0, nic: arrival.interface.0 },
                rendezvous: model.rendezvous(bytes),
            }
        };
        let of_size = flat.sizes.iter().map(of_size).collect();
        Costs { of_size, arrival_waits: model.arrival_waits() }
    }

    /// Whether no sum with a time that the engine counts with wraps around.
    pub fn are_small(&self) -> bool {
        let charges = self.of_size.iter().flat_map(|cost| {
            let OfSize { send, flight, arrival, .. } = *cost;
            [flight, send.cpu, send.nic, arrival.cpu, arrival.nic]
        });
        charges.max().unwrap_or(0) <= TIME_MAX
    }

    /// The shortest time that a message takes.
    pub fn flight_min(&self) -> u64 {
        self.of_size.iter().map(|cost| cost.flight).min().unwrap_or(TIME_MAX)
    }
}

impl Charges for Costs {
    const DRAWN: bool = false;

    #[inline(always)]
    fn send(&self, size: u64, _: About) -> (Charge, u64) {
        let cost = &self.of_size[size as usize];
        (cost.send, cost.flight)
    }

    fn sends_take_time(&self) -> bool {
        self.of_size.iter().all(|cost| cost.send.cpu.max(cost.send.nic) > 0)
    }

    #[inline(always)]
    fn arrival(&self, size: u64, _: About) -> Charge {
        self.of_size[size as usize].arrival
    }

    #[inline(always)]
    fn arrival_waits(&self) -> bool {
        self.arrival_waits
    }

    #[inline(always)]
    fn compute(&self, ps: u64, _: About) -> u64 {
        ps
    }

    #[inline(always)]
    fn rendezvous(&self, size: u64) -> bool {
        self.of_size[size as usize].rendezvous
    }
}

/// What a model of the reference engine says, asked anew for each operation.
pub(super) struct Asked<'a> {
    flat: &'a Flat,
    model: Box<dyn cost::Costs + Sync + 'a>,
    arrival_waits: bool,
}

impl<'a> Asked<'a> {
    pub fn new(flat: &'a Flat, model: impl cost::Costs + Sync + 'a) -> Asked<'a> {
        Asked { flat, arrival_waits: model.arrival_waits(), model: Box::new(model) }
    }

    fn occasion(&self, size: Option<u64>, about: About) -> Occasion {
        let number = self.flat.number(about.owner, about.op);
        let occasion = Occasion::of(Rank(about.owner), Rank(about.rank), u64::from(number), Time(about.now));
        Occasion { bytes: size.map_or(0, |size| self.flat.sizes[size as usize]), ..occasion }
    }
}

impl Charges for Asked<'_> {
    const DRAWN: bool = true;

    fn send(&self, size: u64, about: About) -> (Charge, u64) {
        let cost = self.model.send(&self.occasion(Some(size), about));
        (Charge { cpu: clamped(cost.processor), nic: clamped(cost.interface) }, clamped(cost.transit))
    }

    fn arrival(&self, size: u64, about: About) -> Charge {
        let cost = self.model.arrival(&self.occasion(Some(size), about));
        Charge { cpu: clamped(cost.processor), nic: clamped(cost.interface) }
    }

    fn arrival_waits(&self) -> bool {
        self.arrival_waits
    }

    fn compute(&self, ps: u64, about: About) -> u64 {
        clamped(self.model.compute(&self.occasion(None, about), Time(ps)))
    }

    fn rendezvous(&self, size: u64) -> bool {
        self.model.rendezvous(self.flat.sizes[size as usize])
    }
}

/// As the reference engine numbers an operation's draws.
const AT_SENDER: u8 = 0;
const AT_RECEIVER: u8 = 1;

/// Drawn for each operation, and lengthened by detours: the same numbers as in the reference engine.
pub(super) struct Drawn<'a> {
    flat: &'a Flat,
    model: &'a LogGops,
    noise: &'a Noise,
    detours: Option<&'a Detours>,
    /// Where each rank starts in the detours.
    phases: Vec<Time>,
    seed: u64,
    /// What the bytes after the first cost at most, at the sender, the receiver and the interfaces; where that does not vary.
    of_bytes: Option<Vec<[Time; 3]>>,
}

impl<'a> Drawn<'a> {
    pub fn new(flat: &'a Flat, model: &'a LogGops, machine: &'a Machine, seed: u64) -> Drawn<'a> {
        let phase = |(detours, together): &(Detours, bool)| {
            (0..flat.ranks).map(|rank| detours.phase(seed, Rank(rank), *together)).collect()
        };
        let noise = &machine.noise;
        let varies = noise.varies(Parameter::GapPerByte) || noise.varies(Parameter::OverheadPerByte);
        let of_bytes = |&bytes: &u64| {
            let (overhead, gap) = (model.overhead_per_byte.of(bytes - 1), model.gap_per_byte.of(bytes - 1));
            [overhead, overhead.max(gap), gap]
        };
        // An empty message is cheaper than the first byte.
        let same = !varies && flat.sizes.iter().all(|&bytes| bytes > 0);
        Drawn {
            flat,
            model,
            noise,
            detours: machine.detours.as_ref().map(|(detours, _)| detours),
            phases: machine.detours.as_ref().map(phase).unwrap_or_default(),
            seed,
            of_bytes: same.then(|| flat.sizes.iter().map(of_bytes).collect()),
        }
    }

    fn key(&self, about: About) -> Key {
        let operation = u64::from(self.flat.number(about.owner, about.op));
        Key { seed: self.seed, rank: Rank(about.owner), operation }
    }

    /// With what the operating system adds.
    fn delayed(&self, length: Time, about: About) -> u64 {
        let delay = self
            .detours
            .map(|detours| detours.delay(self.phases[about.rank as usize], Time(about.now), length));
        clamped(length + delay.unwrap_or(Time::ZERO))
    }

    fn time(&self, parameter: Parameter, base: Time, key: Key, event: u8) -> Time {
        if self.noise.varies(parameter) { self.noise.time(parameter, base, key, event) } else { base }
    }
}

/// Not so long that sums wrap around; longer ones are noticed.
fn clamped(time: Time) -> u64 {
    time.0.min(TIME_MAX + 1)
}

impl Charges for Drawn<'_> {
    const DRAWN: bool = true;

    fn send(&self, size: u64, about: About) -> (Charge, u64) {
        let key = self.key(about);
        let (cpu, nic, flight) = match &self.of_bytes {
            Some(of_bytes) => {
                let [at_sender, _, at_interface] = of_bytes[size as usize];
                let [latency, overhead] = self.noise.times(
                    [Parameter::Latency, Parameter::Overhead],
                    [self.model.latency, self.model.overhead],
                    key,
                    AT_SENDER,
                );
                let gap = self.time(Parameter::Gap, self.model.gap, key, AT_SENDER);
                (overhead + at_sender, gap + at_interface, overhead + latency)
            }
            None => {
                let (model, bytes) =
                    (self.noise.loggops(self.model, key, AT_SENDER), self.flat.sizes[size as usize]);
                (model.send_busy(bytes), model.interface_busy(bytes), model.flight())
            }
        };
        (Charge { cpu: self.delayed(cpu, about), nic: clamped(nic) }, clamped(flight))
    }

    fn arrival(&self, size: u64, about: About) -> Charge {
        let key = self.key(about);
        let (cpu, nic) = match &self.of_bytes {
            Some(of_bytes) => {
                let [_, at_receiver, at_interface] = of_bytes[size as usize];
                let overhead = self.time(Parameter::Overhead, self.model.overhead, key, AT_RECEIVER);
                let gap = self.time(Parameter::Gap, self.model.gap, key, AT_RECEIVER);
                (overhead + at_receiver, gap + at_interface)
            }
            None => {
                let (model, bytes) =
                    (self.noise.loggops(self.model, key, AT_RECEIVER), self.flat.sizes[size as usize]);
                (model.arrival_busy(bytes), model.interface_busy(bytes))
            }
        };
        Charge { cpu: self.delayed(cpu, about), nic: clamped(nic) }
    }

    fn arrival_waits(&self) -> bool {
        true
    }

    fn compute(&self, ps: u64, about: About) -> u64 {
        let time = match self.noise.varies(Parameter::Compute) {
            true => self.noise.compute(Time(ps), self.key(about)),
            false => Time(ps),
        };
        self.delayed(time, about)
    }

    fn rendezvous(&self, size: u64) -> bool {
        !self.model.is_eager(self.flat.sizes[size as usize])
    }
}
