//! Crowds of endpoints in all weathers, from seeds.

use super::programs::Programs;
use super::{Counts, MS, SECOND, Segment, US, Weather, Wires};
use castell_esp::{Settings, What};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Steps of one crowd; more is a hang.
const STEPS_MAX: u64 = 4_000_000;
/// So long in virtual time; all waits of the protocol are shorter.
const PATIENCE_NS: u64 = 60 * SECOND;

/// What crowds have done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Connections that programs have begun.
    pub connections: u64,
    /// Connections that were made and closed by both sides.
    pub closed: u64,
    /// Sides that were told of a failure: their peer had died.
    pub failed: u64,
    pub restarts: u64,
    pub counts: Counts,
}

impl Outcome {
    pub fn add(&mut self, other: Outcome) {
        self.connections += other.connections;
        self.closed += other.closed;
        self.failed += other.failed;
        self.restarts += other.restarts;
        let (mine, its) = (&mut self.counts, other.counts);
        mine.frames += its.frames;
        mine.lost += its.lost;
        mine.overflowed += its.overflowed;
        mine.damaged += its.damaged;
        mine.forged += its.forged;
    }
}

/// The weather of a seed: a third calm, the others with everything at once.
fn weather(segment: &mut Segment) -> Weather {
    if segment.below(3) == 0 {
        return Weather::default();
    }
    let mut up_to = |most: u64| segment.below(most + 1) as u32;
    Weather {
        lost: up_to(300),
        doubled: up_to(100),
        late: up_to(200),
        late_ns: u64::from(up_to(300)) * US,
        cut: up_to(30),
        flipped: up_to(30),
        forged: up_to(50),
        repeated: up_to(50),
    }
}

/// Crowds of these seeds, on all processors; of one that fails the seed is told.
pub fn crowds(seeds: Range<u64>, connections: u32) -> Outcome {
    let next = AtomicU64::new(seeds.start);
    let some = || {
        let mut all = Outcome::default();
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let outcome = std::panic::catch_unwind(|| crowd(seed, connections));
            all.add(outcome.unwrap_or_else(|_| {
                panic!("seed {seed} fails: cargo run --release -p castell-esp --example storm -- {connections} {seed}")
            }));
        }
        all
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let mut all = some();
        for other in others {
            all.add(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

/// One crowd: so many connections between a few hosts, some of which die and start anew in between.
pub fn crowd(seed: u64, connections: u32) -> Outcome {
    let mut settings = Settings { receive_bytes: 48 * 1024, send_bytes: 16 * 1024, ..Settings::default() };
    let wires = Wires { delay_ns: 10 * US, ..Wires::SHORT };
    let mut segment = Segment::new(0, seed, wires, Weather::default(), &settings);
    let small = segment.below(4) == 0;
    if small {
        // Much waits for room, and for readers.
        settings = Settings { mtu_bytes: 300, receive_bytes: 4000, send_bytes: 1000, ..settings };
    }
    let hosts = 2 + segment.below(6) as usize;
    segment = Segment::new(hosts, seed, wires, Weather::default(), &settings);
    segment.weather = weather(&mut segment);
    let restarts = segment.below(4) == 0;
    let mut programs = Programs::new(if segment.below(8) == 0 { 40_000 } else { 3000 });
    programs.slow_in_thousand = if segment.below(4) == 0 { 300 } else { 0 };
    programs.write_bytes_max = 1 + segment.below(3000);
    let mut outcome = Outcome::default();
    // A communicator may be wanted before it is there.
    let opens_at = segment.now + segment.below(2) * segment.below(20 * MS);
    let until = segment.now + PATIENCE_NS;
    let (mut begun, mut is_open, mut next_begin, mut next_read) = (0, false, segment.now, segment.now);
    let mut restart_at = if restarts { segment.now + segment.below(5 * MS) } else { u64::MAX };
    for steps in 0.. {
        assert!(steps < STEPS_MAX, "seed {seed} does not end: {:?}", programs.sides);
        assert!(segment.now < until, "seed {seed} takes for ever: {:?}", programs.sides);
        if !is_open && segment.now >= opens_at {
            is_open = true;
            open_all(&mut segment, hosts, connections);
        }
        if segment.now >= restart_at {
            outcome.restarts += 1;
            let host = segment.below(hosts as u64) as usize;
            programs.restart(&mut segment, host);
            if is_open {
                open_all(&mut segment, hosts, connections);
            }
            restart_at = if outcome.restarts < 3 { segment.now + segment.below(20 * MS) } else { u64::MAX };
        }
        while begun < connections && segment.now >= next_begin {
            let host = segment.below(hosts as u64) as usize;
            let peer = (host + 1 + segment.below(hosts as u64 - 1) as usize) % hosts;
            programs.connect(&mut segment, host, peer, u64::from(begun));
            if segment.below(10) == 0 {
                // Both want it.
                programs.connect(&mut segment, peer, host, u64::from(begun));
            }
            begun += 1;
            next_begin = segment.now + segment.below(200 * US);
        }
        if programs.slow_in_thousand > 0 && segment.now >= next_read {
            programs.read_slowly(&mut segment);
            next_read = segment.now + 300 * US;
        }
        let is_busy = begun < connections || !is_open || restart_at != u64::MAX;
        if !is_busy && programs.are_all_over() {
            break;
        }
        // What is waited for outside of the segment.
        let mut next = u64::MAX;
        for (waits, at) in [
            (begun < connections, next_begin),
            (!is_open, opens_at),
            (restart_at != u64::MAX, restart_at),
            (programs.slow_in_thousand > 0, next_read),
        ] {
            next = if waits { next.min(at.max(segment.now)) } else { next };
        }
        segment.step(next.min(until));
        programs.react(&mut segment, hosts);
    }
    programs.check(outcome.restarts > 0);
    outcome.connections = u64::from(begun);
    outcome.closed = programs.sides.iter().filter(|side| side.end == Some(What::Closed)).count() as u64 / 2;
    outcome.failed =
        programs.sides.iter().filter(|side| matches!(side.end, Some(What::Down(_)))).count() as u64;
    outcome.counts = segment.counts;
    outcome
}

fn open_all(segment: &mut Segment, hosts: usize, communicators: u32) {
    let now = segment.now;
    for host in 0..hosts {
        for communicator in 0..communicators {
            segment.at(host).open(castell_esp::Communicator(u64::from(communicator)), now);
        }
    }
}
