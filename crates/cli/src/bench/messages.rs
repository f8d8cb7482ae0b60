//! `castell bench messages`: the time of a message when many are in flight from one rank to another.

use super::group::{Group, place_of, repeat};
use super::{Params, Subject, Workload};
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use std::ptr;

const WINDOWS: u64 = 100;
const DATA: Tag = Tag(0);
const ACKNOWLEDGE: Tag = Tag(1);
const GO: Tag = Tag(2);

/// The workload: windows of sends that meet posted receives, and sends far ahead of their receives.
pub struct Messages;

impl Workload for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let sizes = bytes.unwrap_or(&[8, 1024]);
        let of = |name: &'static str, count: u64| {
            sizes.iter().map(move |bytes| Params::new().with("bytes", *bytes).with(name, count))
        };
        of("window", 64).chain(of("ahead", 10_000)).collect()
    }

    fn samples(&self) -> u32 {
        20
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        Ok(vec![Group::castell(2, measure)])
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(2)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let Some(bytes) = case.number("bytes") else { return Ok(None) };
    let mut stamps = [0.0_f64; 2];
    let (in_flight, windows) = match (case.number("window"), case.number("ahead")) {
        (Some(window), _) => (window, WINDOWS),
        (_, Some(count)) => (count, 1),
        _ => return Ok(None),
    };
    let messages = in_flight * windows;
    let mut memory = vec![1_u8; (bytes * in_flight) as usize];
    let pattern = Pattern { me: comm.rank(), bytes, memory: memory.as_mut_ptr() as u64 };
    let graph = match case.number("window") {
        Some(window) => pattern.windows(window, &mut stamps)?,
        None => pattern.ahead(in_flight, &mut stamps)?,
    };
    let mut taken = Vec::with_capacity(samples as usize);
    let stamps = &raw const stamps;
    repeat(comm, &graph, samples, || {
        // SAFETY: the run that wrote the stamps has ended.
        let [start, end] = unsafe { ptr::read_volatile(stamps) };
        taken.push(1e9 * (end - start) / messages as f64);
    })?;
    Ok(Some(taken))
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
    fn windows(&self, window: u64, stamps: &mut [f64; 2]) -> anyhow::Result<Graph> {
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
    fn ahead(&self, count: u64, stamps: &mut [f64; 2]) -> anyhow::Result<Graph> {
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

    fn message(&self, graph: &mut Graph, at: u64) -> anyhow::Result<Vertex> {
        let place = Place::user(self.memory + at * self.bytes);
        Ok(if self.me == Rank(0) {
            graph.send(place, self.bytes, Rank(1), DATA)?
        } else {
            graph.recv(place, self.bytes, Some(Rank(0)), Some(DATA))?
        })
    }

    /// The acknowledgement, and the second time stamp at the sender.
    fn finish(&self, graph: &mut Graph, last: Vertex, stamp: &mut f64) -> anyhow::Result<()> {
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
