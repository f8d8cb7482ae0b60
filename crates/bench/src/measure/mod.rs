//! What the benchmarks time: patterns of one group, each run through a schedule with a time stamp at each end.
//!
//! `unsafe` is what reads stamps between runs, from memory whose address the schedule holds.

mod collectives;
mod copies;
pub mod queues;

pub use collectives::{Multicast, Repeated, reductions};
pub use copies::{CopiesError, Lies, copies};

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::job::{Job, JobOptions};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_host::clock::now_ns;
use std::error::Error;
use std::sync::Arc;

/// Ping-pongs of one schedule (ESPGOAL, section 6.3).
pub const ROUND_TRIPS: u32 = 100;
/// Windows of one schedule.
pub const WINDOWS: u64 = 100;
/// Starts that are timed together.
const BATCH: u32 = 100;

const DATA: Tag = Tag(0);
const ACKNOWLEDGE: Tag = Tag(1);
const GO: Tag = Tag(2);

/// Samples in nanoseconds.
pub type Samples = Result<Vec<f64>, Box<dyn Error + Send + Sync>>;

/// Half round trips between ranks 0 and 1, each the mean over [`ROUND_TRIPS`].
///
/// # Errors
/// A run failed.
pub fn ping_pongs(comm: &Comm, bytes: u64, samples: u32) -> Samples {
    let mut payload = vec![1_u8; bytes as usize];
    let payload = Place::user(payload.as_mut_ptr() as u64);
    let warm_up = samples / 10;
    let mut taken = stamped(comm, warm_up + samples, f64::from(2 * ROUND_TRIPS), |stamps| {
        ping_pong(comm.rank(), payload, bytes, stamps)
    })?;
    Ok(taken.split_off(warm_up as usize))
}

/// Time a message from rank 0 to rank 1 over [`WINDOWS`] windows of `window` messages.
///
/// # Errors
/// A run failed.
pub fn messages_in_windows(comm: &Comm, bytes: u64, window: u64, samples: u32) -> Samples {
    let mut memory = vec![1_u8; (bytes * window) as usize];
    let pattern = Pattern { me: comm.rank(), bytes, memory: memory.as_mut_ptr() as u64 };
    stamped(comm, samples, (window * WINDOWS) as f64, |stamps| pattern.windows(window, stamps))
}

/// Time a message from rank 0 to rank 1 when `count` sends start before the first receive is posted.
///
/// # Errors
/// A run failed.
pub fn messages_ahead(comm: &Comm, bytes: u64, count: u64, samples: u32) -> Samples {
    let mut memory = vec![1_u8; (bytes * count) as usize];
    let pattern = Pattern { me: comm.rank(), bytes, memory: memory.as_mut_ptr() as u64 };
    stamped(comm, samples, count as f64, |stamps| pattern.ahead(count, stamps))
}

/// Barriers by dissemination, one after the other: time of one, over batches that all ranks run through together.
///
/// # Errors
/// A run failed.
pub fn barriers(comm: &Comm, samples: u32) -> Samples {
    let (me, ranks) = (comm.rank().0, comm.size());
    let mut graph = Graph::new();
    let mut before: Option<Vertex> = None;
    let mut shift = 1;
    while shift < ranks {
        let send = graph.send(Place::VOID, 0, Rank((me + shift) % ranks), Tag(shift))?;
        let recv = graph.recv(Place::VOID, 0, Some(Rank((me + ranks - shift) % ranks)), Some(Tag(shift)))?;
        if let Some(before) = before {
            graph.requires(before, send)?;
        }
        (before, shift) = (Some(recv), 2 * shift);
    }
    run_and_wait(comm, &graph, samples)
}

/// A token that goes round all ranks [`ROUND_TRIPS`] times through scratchpads, while every rank but the first computes
/// and does not call castell: time of a hop.
///
/// # Errors
/// A run failed.
pub fn relays(comm: &Comm, samples: u32) -> Samples {
    let (me, ranks) = (comm.rank().0, comm.size());
    let (next, previous) = (Rank((me + 1) % ranks), Rank((me + ranks - 1) % ranks));
    let mut graph = Graph::new();
    graph.allocate_scratchpad(8);
    let token = Place::scratch(0);
    let mut before: Option<Vertex> = None;
    for round in 0..ROUND_TRIPS {
        let tag = Tag(round);
        let (send, recv) =
            (graph.send(token, 8, next, tag)?, graph.recv(token, 8, Some(previous), Some(tag))?);
        let (first, second) = if me == 0 { (send, recv) } else { (recv, send) };
        graph.requires(first, second)?;
        if let Some(before) = before {
            graph.requires(before, first)?;
        }
        before = Some(second);
    }
    let schedule = Arc::new(graph.compile()?);
    let mut taken = Vec::with_capacity(samples as usize);
    for round in 0..=samples {
        let start = now_ns();
        // SAFETY: the schedule names no address.
        let handle = unsafe { comm.run(&schedule) }?;
        if me != 0 {
            // The application's computing.
            while !handle.is_done() {
                std::hint::black_box((0..1000_u64).sum::<u64>());
            }
        }
        handle.wait()?;
        if round > 0 {
            taken.push((now_ns() - start) as f64 / f64::from(ROUND_TRIPS * ranks));
        }
    }
    Ok(taken)
}

/// From starting a schedule with one local operation on one double to the end of waiting for it.
///
/// # Errors
/// A run failed.
pub fn starts_of_a_local_operation(comm: &Comm, samples: u32) -> Samples {
    let (mut one, mut sum) = (1.0_f64, 0.0_f64);
    let add = Arithmetic::new(Operator::Add, ElementType::F64)?;
    let mut graph = Graph::new();
    let (one, sum) = (place_of(&mut one), place_of(&mut sum));
    graph.local(one, sum, sum, add, 1)?;
    run_and_wait(comm, &graph, samples)
}

/// The same with a message of one double to oneself.
///
/// # Errors
/// A run failed.
pub fn starts_of_a_message(comm: &Comm, samples: u32) -> Samples {
    let (mut from, mut to) = (1.0_f64, 0.0_f64);
    let me = comm.rank();
    let mut graph = Graph::new();
    graph.recv(place_of(&mut to), 8, Some(me), Some(DATA))?;
    graph.send(place_of(&mut from), 8, me, DATA)?;
    run_and_wait(comm, &graph, samples)
}

/// Making a group of one, joining it and leaving it.
///
/// # Errors
/// No memory for the group.
pub fn joins(samples: u32) -> Samples {
    let once = |_| {
        let start = now_ns();
        let comm = Comm::join(Job::create(&JobOptions::new(1))?, Rank(0));
        comm.finalize();
        Ok((now_ns() - start) as f64)
    };
    (0..samples).map(once).collect()
}

/// Runs a graph that writes two time stamps once more than `count` times; nanoseconds between the stamps, divided by
/// `parts`, for all but the first.
fn stamped(
    comm: &Comm,
    count: u32,
    parts: f64,
    build: impl FnOnce(&mut [f64; 2]) -> Result<Graph, Box<dyn Error + Send + Sync>>,
) -> Samples {
    let mut stamps = Box::new([0.0_f64; 2]);
    let schedule = Arc::new(build(&mut stamps)?.compile()?);
    let stamps = Box::into_raw(stamps);
    let mut taken = Vec::with_capacity(count as usize);
    let mut run = || -> Result<(), Box<dyn Error + Send + Sync>> {
        for round in 0..=count {
            // SAFETY: the callers keep the graph's buffers until this function has returned.
            unsafe { comm.execute(&schedule) }??;
            // SAFETY: the run that wrote the stamps has ended.
            let [start, end] = unsafe { stamps.read() };
            if round > 0 {
                taken.push(1e9 * (end - start) / parts);
            }
        }
        Ok(())
    };
    let outcome = run();
    // SAFETY: it came from `into_raw` above, and no run is going on.
    drop(unsafe { Box::from_raw(stamps) });
    outcome.map(|()| taken)
}

/// Nanoseconds from `run` to the end of `wait`, each the mean over a batch.
fn run_and_wait(comm: &Comm, graph: &Graph, samples: u32) -> Samples {
    let schedule = Arc::new(graph.compile()?);
    let batch = || -> Result<f64, Box<dyn Error + Send + Sync>> {
        let start = now_ns();
        for _ in 0..BATCH {
            // SAFETY: the callers keep the graph's buffers until this function has returned; every run is waited for.
            unsafe { comm.run(&schedule) }?.wait()?;
        }
        Ok((now_ns() - start) as f64 / f64::from(BATCH))
    };
    for _ in 0..=samples / 10 {
        batch()?;
    }
    (0..samples).map(|_| batch()).collect()
}

/// A variable as a buffer.
fn place_of<T>(variable: &mut T) -> Place {
    Place::user(std::ptr::from_mut(variable) as u64)
}

/// One rank's part: a time stamp, the ping-pongs one after the other, a time stamp.
fn ping_pong(
    me: Rank,
    payload: Place,
    bytes: u64,
    stamps: &mut [f64; 2],
) -> Result<Graph, Box<dyn Error + Send + Sync>> {
    let mut graph = Graph::new();
    let peer = Rank(1 - me.0);
    let [first, second] = stamps;
    let mut last = graph.wtime(place_of(first))?;
    for _ in 0..ROUND_TRIPS {
        let send = graph.send(payload, bytes, peer, Tag(0))?;
        let recv = graph.recv(payload, bytes, Some(peer), Some(Tag(0)))?;
        let (one, other) = if me == Rank(0) { (send, recv) } else { (recv, send) };
        graph.requires(last, one)?;
        graph.requires(one, other)?;
        last = other;
    }
    let end = graph.wtime(place_of(second))?;
    graph.requires(last, end)?;
    Ok(graph)
}

/// One rank's part of either pattern.
struct Pattern {
    me: Rank,
    bytes: u64,
    /// `bytes` for each message in flight.
    memory: u64,
}

impl Pattern {
    /// Windows of `window` sends and receives; each side starts a window when its own last one is through.
    fn windows(&self, window: u64, stamps: &mut [f64; 2]) -> Result<Graph, Box<dyn Error + Send + Sync>> {
        let mut graph = Graph::new();
        let [first, second] = stamps;
        let mut last = graph.wtime(place_of(first))?;
        for _ in 0..WINDOWS {
            let joint = graph.proxy()?;
            for at in 0..window {
                let message = self.message(&mut graph, at)?;
                graph.requires(last, message)?;
                graph.requires(message, joint)?;
            }
            last = joint;
        }
        self.finish(&mut graph, last, second)?;
        Ok(graph)
    }

    /// All sends, then one behind them; the receives are posted when that one has arrived.
    fn ahead(&self, count: u64, stamps: &mut [f64; 2]) -> Result<Graph, Box<dyn Error + Send + Sync>> {
        let mut graph = Graph::new();
        let [first, second] = stamps;
        let start = graph.wtime(place_of(first))?;
        let joint = graph.proxy()?;
        let sends = self.me == Rank(0);
        let go = if sends {
            graph.send(Place::VOID, 0, Rank(1), GO)?
        } else {
            graph.recv(Place::VOID, 0, Some(Rank(0)), Some(GO))?
        };
        for at in 0..count {
            let message = self.message(&mut graph, at)?;
            if sends {
                graph.requires(start, message)?;
                // Behind it in the stream to the receiver, though nothing waits for it to be taken.
                graph.irequires(message, go)?;
            } else {
                graph.requires(go, message)?;
            }
            graph.requires(message, joint)?;
        }
        self.finish(&mut graph, joint, second)?;
        Ok(graph)
    }

    fn message(&self, graph: &mut Graph, at: u64) -> Result<Vertex, Box<dyn Error + Send + Sync>> {
        let place = Place::user(self.memory + at * self.bytes);
        Ok(if self.me == Rank(0) {
            graph.send(place, self.bytes, Rank(1), DATA)?
        } else {
            graph.recv(place, self.bytes, Some(Rank(0)), Some(DATA))?
        })
    }

    /// The acknowledgement, and the second time stamp at the sender.
    fn finish(
        &self,
        graph: &mut Graph,
        last: Vertex,
        stamp: &mut f64,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.me == Rank(0) {
            let acknowledged = graph.recv(Place::VOID, 0, Some(Rank(1)), Some(ACKNOWLEDGE))?;
            graph.requires(last, acknowledged)?;
            let end = graph.wtime(place_of(stamp))?;
            graph.requires(acknowledged, end)?;
        } else {
            let acknowledge = graph.send(Place::VOID, 0, Rank(0), ACKNOWLEDGE)?;
            graph.requires(last, acknowledge)?;
        }
        Ok(())
    }
}
