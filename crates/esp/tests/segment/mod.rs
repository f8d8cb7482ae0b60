//! A switched segment in virtual time, from a seed: frames get lost, doubled, delayed, cut, damaged, forged and said again; links and the queues
//! before receivers have a rate and a length. What happens follows from the seed alone.

#![allow(dead_code, reason = "each test uses its part")]

pub mod programs;
pub mod storm;

use castell_base::Rank;
use castell_base::random::Philox;
use castell_esp::{Address, Endpoint, Key, Mac, Settings};
use rand_core::RngCore;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds that a byte takes at 1 Gbit/s.
pub const GIGABIT: u64 = 8;

/// Frames that may be said again later.
const MEMORY_FRAMES: usize = 24;

/// What happens to a frame: so many times in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u32,
    pub doubled: u32,
    /// Delayed by up to `late_ns`, so that others overtake it.
    pub late: u32,
    pub late_ns: u64,
    pub cut: u32,
    pub flipped: u32,
    /// Something of this port's that nobody of the job has sent.
    pub forged: u32,
    /// An old frame comes once more.
    pub repeated: u32,
}

/// How long and how fast the wires are.
#[derive(Clone, Copy, Debug)]
pub struct Wires {
    pub delay_ns: u64,
    /// 0: any number of bytes at once.
    pub byte_ns: u64,
    /// Frames of full length that wait before a receiver.
    pub queue_frames: u64,
}

impl Wires {
    pub const SHORT: Wires = Wires { delay_ns: 10 * US, byte_ns: 0, queue_frames: 0 };
    pub const GIGABIT: Wires = Wires { delay_ns: 5 * US, byte_ns: GIGABIT, queue_frames: 64 };
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub frames: u64,
    pub lost: u64,
    pub overflowed: u64,
    pub damaged: u64,
    pub forged: u64,
}

struct Host {
    endpoint: Endpoint,
    /// Until when its link and the queue before it are busy.
    link_until: u64,
    queue_until: u64,
}

/// Sees each frame that goes out; false: it gets lost.
pub type Watch = Box<dyn FnMut(&[u8]) -> bool>;

/// On its way to a host.
type Flight = Reverse<(u64, u64, usize, Vec<u8>)>;

pub struct Segment {
    pub now: u64,
    pub random: Philox,
    pub weather: Weather,
    pub wires: Wires,
    pub counts: Counts,
    pub settings: Settings,
    hosts: Vec<Host>,
    flights: BinaryHeap<Flight>,
    flown: u64,
    memory: VecDeque<(usize, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    instances: u64,
    pub watch: Option<Watch>,
}

pub fn address(host: usize) -> Address {
    Address { mac: Mac([2, 0xE5, 0, 0, (host >> 8) as u8, host as u8]), port: 7 }
}

pub fn key() -> Key {
    Key::new(b"known to the job")
}

impl Segment {
    pub fn new(hosts: usize, seed: u64, wires: Wires, weather: Weather, settings: &Settings) -> Segment {
        let mut segment = Segment {
            now: SECOND,
            random: Philox::new(seed, Rank(0), 11, 0),
            weather,
            wires,
            counts: Counts::default(),
            settings: *settings,
            hosts: Vec::new(),
            flights: BinaryHeap::new(),
            flown: 0,
            memory: VecDeque::new(),
            spare: Vec::new(),
            instances: 0,
            watch: None,
        };
        for host in 0..hosts {
            let endpoint = segment.endpoint_at(host);
            segment.hosts.push(Host { endpoint, link_until: 0, queue_until: 0 });
        }
        segment
    }

    fn endpoint_at(&mut self, host: usize) -> Endpoint {
        let mut nonce = [0; 16];
        self.instances += 1;
        nonce[..8].copy_from_slice(&self.instances.to_le_bytes());
        self.random.fill_bytes(&mut nonce[8..]);
        Endpoint::new(address(host), key(), &nonce, &self.settings)
    }

    /// A host's program starts anew: nothing is left of what it knew.
    pub fn restart(&mut self, host: usize) {
        self.hosts[host].endpoint = self.endpoint_at(host);
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    pub fn happens(&mut self, in_thousand: u32) -> bool {
        in_thousand > 0 && self.random.next_u32() % 1000 < in_thousand
    }

    pub fn at(&mut self, host: usize) -> &mut Endpoint {
        &mut self.hosts[host].endpoint
    }

    fn fly(&mut self, at: u64, to: usize, frame: Vec<u8>) {
        self.flown += 1;
        self.flights.push(Reverse((at, self.flown, to, frame)));
    }

    fn copy_of(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        copy
    }

    /// A frame leaves its sender's link at `at`.
    fn switch(&mut self, mut frame: Vec<u8>, at: u64) {
        self.counts.frames += 1;
        let to = usize::from(frame[4]) << 8 | usize::from(frame[5]);
        if self.watch.as_mut().is_some_and(|watch| !watch(&frame)) {
            self.counts.lost += 1;
            return;
        }
        let weather = self.weather;
        if weather.repeated > 0 {
            if self.memory.len() == MEMORY_FRAMES {
                self.memory.pop_front();
            }
            self.memory.push_back((to, frame.clone()));
            if self.happens(weather.repeated) {
                let which = self.below(self.memory.len() as u64) as usize;
                let (to, old) = self.memory[which].clone();
                self.fly(at + self.wires.delay_ns, to, old);
            }
        }
        if self.happens(weather.forged) {
            self.forge(&frame, at, to);
        }
        if self.happens(weather.lost) {
            self.counts.lost += 1;
            self.spare.push(frame);
            return;
        }
        if self.happens(weather.cut) {
            let left = self.below(frame.len() as u64) as usize;
            frame.truncate(left);
            self.counts.damaged += 1;
        }
        if self.happens(weather.flipped) && !frame.is_empty() {
            let bit = self.below(8 * frame.len() as u64) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
            self.counts.damaged += 1;
        }
        if self.happens(weather.doubled) {
            let copy = self.copy_of(&frame);
            let late = self.below(weather.late_ns.max(1));
            self.fly(at + self.wires.delay_ns + late, to, copy);
        }
        let late = if self.happens(weather.late) { self.below(weather.late_ns.max(1)) } else { 0 };
        let arrives = at + self.wires.delay_ns + late;
        let took = frame.len() as u64 * self.wires.byte_ns;
        let queue_ns = self.wires.queue_frames * 1514 * self.wires.byte_ns;
        let Some(host) = self.hosts.get_mut(to) else { return };
        if self.wires.byte_ns > 0 && host.queue_until > arrives + queue_ns {
            self.counts.overflowed += 1;
            return;
        }
        host.queue_until = host.queue_until.max(arrives) + took;
        let arrives = if took > 0 { host.queue_until } else { arrives };
        self.fly(arrives, to, frame);
    }

    /// Somebody else on the segment makes frames: of bytes that it has seen, and of its own.
    fn forge(&mut self, seen: &[u8], at: u64, to: usize) {
        self.counts.forged += 1;
        let mut frame = self.copy_of(seen);
        for _ in 0..1 + self.below(4) {
            // Whose card and which port and which layout it has right.
            let byte = 15 + self.below(frame.len() as u64 - 15) as usize;
            if !(26..30).contains(&byte) {
                frame[byte] = self.below(256) as u8;
            }
        }
        if frame != seen {
            self.fly(at + self.wires.delay_ns, to, frame);
        }
    }

    /// All hosts send what they can now.
    pub fn pump(&mut self) {
        for host in 0..self.hosts.len() {
            self.pump_host(host);
        }
    }

    fn pump_host(&mut self, host: usize) {
        let longest = self.settings.frame_bytes_max();
        loop {
            let now = self.now;
            if self.hosts[host].link_until > now || !self.hosts[host].endpoint.has_frames() {
                return;
            }
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.resize(longest, 0);
            let Some(length) = self.hosts[host].endpoint.transmit(&mut frame, now) else {
                self.spare.push(frame);
                return;
            };
            frame.truncate(length);
            let leaves = now + length as u64 * self.wires.byte_ns;
            self.hosts[host].link_until = leaves;
            self.switch(frame, leaves);
        }
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<u64> {
        let flight = self.flights.peek().map(|Reverse((at, ..))| *at);
        let of_hosts = self.hosts.iter().flat_map(|host| {
            let link = host.endpoint.has_frames().then_some(host.link_until.max(self.now));
            [host.endpoint.next_time(), link]
        });
        of_hosts.flatten().chain(flight).min()
    }

    /// Goes on to what happens next, but not beyond `until`; the hosts that it happened to.
    pub fn step(&mut self, until: u64) -> bool {
        self.pump();
        let Some(next) = self.next_time().filter(|next| *next <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        while self.flights.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, to, frame))) = self.flights.pop() else { break };
            let now = self.now;
            if let Some(host) = self.hosts.get_mut(to) {
                host.endpoint.receive(&frame, now);
                // What it has to say at once goes out before it hears more.
                self.pump_host(to);
            }
            self.spare.push(frame);
        }
        for host in 0..self.hosts.len() {
            let now = self.now;
            self.hosts[host].endpoint.tick(now);
        }
        self.pump();
        true
    }
}
