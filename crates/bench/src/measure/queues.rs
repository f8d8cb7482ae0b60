//! Measures the queues themselves, without an engine: insertion under many-to-one load, and ping-pong.
//!
//! Each rank is a process, bound to one processor after the other, as ranks of a job are: where ranks are more than
//! processors, they take turns, and waiting yields. For `castell bench queues` and `experiments/receive-queues`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use castell_base::Rank;
use castell_host::clock::now_ns;
use castell_host::process::{self, Birth, Ended, Process};
use castell_host::shm::Segment;
use castell_host::{HostError, topology::Processors};

use castell_queues::memory::QueueMemory;
use castell_queues::{Consumer, Geometry, Producer, QueueKind};
use castell_shm::queue::Header;
use castell_shm::ring::{RING_PAYLOAD_MAX, RING_POOL_BYTES, RingReceiver, RingSender};

/// Messages whose insertion is one sample of [`insertion`].
pub const MESSAGES: u32 = 8;
/// Round trips whose mean is one sample of [`latency`].
pub const ROUND_TRIPS: u32 = 10;
/// Looks at a word before a waiting process yields.
const SPINS: u32 = 200;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The system refused something.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A measuring process ended early.
    #[error("a measuring process {0} before it was done; what it printed says more")]
    Lost(Ended),
}

/// Measured times in nanoseconds, sorted.
#[derive(Clone, Debug)]
pub struct Times(Vec<f64>);

impl Times {
    fn new(mut ns: Vec<f64>) -> Times {
        ns.sort_by(f64::total_cmp);
        Times(ns)
    }

    /// The value below which the fraction `q` of the samples lies.
    pub fn quantile(&self, q: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * q).round() as usize]
    }

    /// All samples, sorted.
    pub fn samples(&self) -> &[f64] {
        &self.0
    }
}

/// What the processes of a measurement share besides the queues.
struct Board {
    segment: Segment,
}

impl Board {
    fn create(results: usize) -> Result<Board, HostError> {
        Ok(Board { segment: Segment::create("castell-measure", 192 + results * 8)? })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index * 8 < self.segment.len());
        // SAFETY: inside the segment, aligned; all access is atomic.
        unsafe { &*self.segment.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// The round that may begin.
    fn round(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Samples that are taken, a count over all rounds and senders.
    fn done(&self) -> &AtomicU64 {
        self.word(8)
    }

    /// How long all of it took, for the receiver.
    fn whole_ns(&self) -> &AtomicU64 {
        self.word(16)
    }

    fn result(&self, index: usize) -> &AtomicU64 {
        self.word(24 + index)
    }

    fn times(&self, count: usize, scale: f64) -> Times {
        Times::new((0..count).map(|i| self.result(i).load(Ordering::Relaxed) as f64 * scale).collect())
    }
}

/// Looks for something, ever less eagerly.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        self.0 += 1;
        if self.0 > SPINS {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Runs `body(rank)` in a process for each rank and waits for all of them.
fn on_ranks(ranks: u32, body: impl Fn(u32)) -> Result<(), MeasureError> {
    let cpus = Processors::usable().cpus;
    let mut children = Vec::new();
    for rank in 0..ranks {
        let cpu = cpus[rank as usize % cpus.len()];
        let birth = Birth { cpus: vec![cpu], parent_death_signal: Some(libc::SIGKILL), ..Birth::default() };
        // SAFETY: the child prints nothing; glibc keeps its allocator usable in a forked child.
        let child = unsafe {
            process::fork_with(&birth, || {
                body(rank);
                0
            })
        };
        children.push(child?);
    }
    wait_for(children)
}

/// An error, and an end of the others, once one of the processes fails.
fn wait_for(mut children: Vec<Process>) -> Result<(), MeasureError> {
    while !children.is_empty() {
        // Seldom: looking takes time from those that are measured.
        std::thread::sleep(Duration::from_millis(5));
        let (ended, running) = children.into_iter().partition::<Vec<_>, _>(Process::has_ended);
        children = running;
        for child in ended {
            let how = child.wait()?;
            if !how.is_success() {
                for child in &children {
                    child.signal(libc::SIGKILL)?;
                    child.wait()?;
                }
                return Err(MeasureError::Lost(how));
            }
        }
    }
    Ok(())
}

/// How the senders of [`insertion`] go on after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// They begin the next one together, when the receiver has everything: no time is spent waiting for the receiver.
    Rounds,
    /// They go on at once: the queue is full most of the time, and the receiver's speed limits everybody's.
    Flood,
}

/// What [`insertion`] measured.
#[derive(Clone, Debug)]
pub struct Insertion {
    /// One sample a sender and round: the time to insert [`MESSAGES`] messages.
    pub times: Times,
    /// Messages that the receiver took in a second.
    pub messages_per_second: f64,
}

/// How long it takes a sender to insert [`MESSAGES`] messages of 8 bytes while all others do the same: `producers`
/// processes, `rounds` samples each.
pub fn insertion(
    geometry: Geometry,
    load: Load,
    producers: u32,
    rounds: u32,
) -> Result<Insertion, MeasureError> {
    assert!(geometry.ranks > producers, "the receiver and each producer is a rank");
    let memory = QueueMemory::create(geometry, 1)?;
    let board = Board::create((producers * rounds) as usize)?;
    // Some more at first, to warm up: at least once through both halves, with all pages mapped.
    let warm_up = rounds / 10;
    on_ranks(producers + 1, |rank| match rank {
        0 => receive_rounds(&memory, &board, load, producers, rounds + warm_up),
        _ => insert_rounds(&memory, &board, rank, rounds, warm_up),
    })?;
    let messages = u64::from(rounds + warm_up) * u64::from(producers) * u64::from(MESSAGES);
    let seconds = board.whole_ns().load(Ordering::Relaxed) as f64 * 1e-9;
    let times = board.times((producers * rounds) as usize, 1.0);
    Ok(Insertion { times, messages_per_second: messages as f64 / seconds })
}

fn receive_rounds(memory: &QueueMemory, board: &Board, load: Load, producers: u32, rounds: u32) {
    // SAFETY: the only consumer.
    let mut consumer = unsafe { memory.consumer(Rank(0)) };
    memory.populate();
    let begin = now_ns();
    let mut received = 0;
    let mut round = 0;
    while round < u64::from(rounds) {
        round = if load == Load::Rounds { round + 1 } else { rounds.into() };
        board.round().store(round, Ordering::Release);
        let inserted = round * u64::from(producers);
        let mut patience = Patience::default();
        while received < inserted * u64::from(MESSAGES) || board.done().load(Ordering::Acquire) < inserted {
            match consumer.poll(64, &mut |_, _| received += 1) {
                0 => patience.wait(),
                _ => patience = Patience::default(),
            }
        }
    }
    board.whole_ns().store(now_ns() - begin, Ordering::Relaxed);
}

fn insert_rounds(memory: &QueueMemory, board: &Board, me: u32, rounds: u32, warm_up: u32) {
    // SAFETY: one producer a rank.
    let mut end = unsafe { memory.producer(Rank(me), Rank(0)) };
    memory.populate();
    let mut header = Header { kind: 1, bytes: 8, source: me, ..Header::default() };
    for round in 1..=rounds + warm_up {
        let mut patience = Patience::default();
        while board.round().load(Ordering::Acquire) < u64::from(round) {
            patience.wait();
        }
        let begin = now_ns();
        for _ in 0..MESSAGES {
            while end.try_insert(&header, &begin.to_ne_bytes()).is_err() {
                std::thread::yield_now();
            }
            header.sequence = header.sequence.wrapping_add(1);
        }
        let took = now_ns() - begin;
        if round > warm_up {
            let index = (me - 1) * rounds + round - warm_up - 1;
            board.result(index as usize).store(took, Ordering::Relaxed);
        }
        board.done().fetch_add(1, Ordering::AcqRel);
    }
}

/// A way from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through a receive queue.
    Queue(QueueKind),
    /// Through a ring.
    Ring,
}

impl Way {
    /// The four queues and the ring.
    pub const ALL: [Way; 5] = [
        Way::Queue(QueueKind::Scmp),
        Way::Queue(QueueKind::Smsg),
        Way::Queue(QueueKind::Msgq),
        Way::Queue(QueueKind::Rlock),
        Way::Ring,
    ];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Queue(kind) => kind.fmt(f),
            Way::Ring => f.write_str("ring"),
        }
    }
}

enum Sender {
    Queue(Producer),
    Ring(RingSender),
}

enum Receiver {
    Queue(Consumer),
    Ring(RingReceiver),
}

impl Sender {
    #[inline(always)]
    fn send(&mut self, header: &Header, payload: &[u8]) {
        let mut patience = Patience::default();
        while !match self {
            Sender::Queue(end) => end.try_insert(header, payload).is_ok(),
            Sender::Ring(end) => end.try_send(header, payload),
        } {
            patience.wait();
        }
    }
}

impl Receiver {
    /// Waits for message `sequence` and copies its payload, as a receiver does.
    #[inline(always)]
    fn receive(&mut self, sequence: u32, buffer: &mut [u8]) {
        let mut patience = Patience::default();
        let mut take = |got: &Header, payload: &[u8]| {
            assert_eq!(got.sequence, sequence);
            buffer.copy_from_slice(payload);
        };
        while match self {
            Receiver::Queue(end) => end.poll(1, &mut take),
            Receiver::Ring(end) => end.poll(1, &mut take),
        } == 0
        {
            patience.wait();
        }
    }
}

/// Half the time of a round trip between two processes with payloads of `bytes` bytes, `samples` samples of
/// [`ROUND_TRIPS`] round trips each; `None` where such a message does not fit the way.
pub fn latency(way: Way, bytes: usize, samples: u32) -> Result<Option<Times>, MeasureError> {
    let kind = if let Way::Queue(kind) = way { kind } else { QueueKind::Scmp };
    // Rings as large as a half: what is compared is the protocol, not the room.
    let geometry = Geometry::new(kind, 2);
    let geometry = Geometry { ring_slots: geometry.slots, ..geometry };
    if bytes > if way == Way::Ring { RING_PAYLOAD_MAX } else { geometry.message_bytes_max() } {
        return Ok(None);
    }
    let memory = QueueMemory::create(geometry, 2)?;
    let board = Board::create(samples as usize)?;
    let pools = Segment::create("castell-rings", 2 * RING_POOL_BYTES)?;
    let ends = |me: u32| {
        // SAFETY: each of the two ranks makes its ends once, in its own process, and drops them before the memory; the
        // pools lie one behind the other.
        unsafe {
            let pool = |rank: u32| pools.as_ptr().add(rank as usize * RING_POOL_BYTES);
            let (me, peer) = (Rank(me), Rank(1 - me));
            match way {
                Way::Queue(_) => {
                    (Sender::Queue(memory.producer(me, peer)), Receiver::Queue(memory.consumer(me)))
                }
                Way::Ring => (
                    Sender::Ring(RingSender::claim(pool(peer.0), me).expect("nobody else claims a ring")),
                    Receiver::Ring(RingReceiver::attach(pool(me.0))),
                ),
            }
        }
    };
    let warm_up = samples / 10;
    on_ranks(2, |me| {
        let (mut sender, mut receiver) = ends(me);
        memory.populate();
        let (payload, mut buffer) = (vec![1; bytes], vec![0; bytes]);
        for sample in 0..samples + warm_up {
            let begin = now_ns();
            for sequence in sample * ROUND_TRIPS..(sample + 1) * ROUND_TRIPS {
                if me == 0 {
                    sender.send(&ping(0, sequence, bytes), &payload);
                    receiver.receive(sequence, &mut buffer);
                } else {
                    receiver.receive(sequence, &mut buffer);
                    sender.send(&ping(1, sequence, bytes), &payload);
                }
            }
            if me == 0 && sample >= warm_up {
                board.result((sample - warm_up) as usize).store(now_ns() - begin, Ordering::Relaxed);
            }
        }
    })?;
    Ok(Some(board.times(samples as usize, 1.0 / f64::from(2 * ROUND_TRIPS))))
}

fn ping(source: u32, sequence: u32, bytes: usize) -> Header {
    Header { kind: 1, bytes: bytes as u32, source, sequence, ..Header::default() }
}

/// Processors that this process may use: with more ranks than that, ranks take turns.
pub fn processors() -> usize {
    Processors::usable().count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_design_can_be_measured() {
        for kind in QueueKind::ALL {
            let geometry = Geometry { ranks_per_node: 3, ..Geometry::new(kind, 6) };
            for load in [Load::Rounds, Load::Flood] {
                let Insertion { times, messages_per_second } =
                    insertion(geometry, load, 5, 20).expect("five senders");
                assert_eq!(times.samples().len(), 100);
                assert!(times.quantile(0.0) > 0.0 && times.quantile(0.5) <= times.quantile(1.0));
                assert!(messages_per_second > 0.0);
            }
        }
        for way in Way::ALL {
            let times = latency(way, 8, 10).expect("two processes").expect("8 bytes fit everywhere");
            assert_eq!(times.samples().len(), 10);
        }
        assert!(latency(Way::Ring, 100, 10).expect("two processes").is_none());
    }
}
