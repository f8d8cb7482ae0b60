//! What messages cost within a host and between hosts, from one clock: a rank sends some to another one, which answers when it has all.
//!
//! Multicasts ([`crate::multicasts`]) are seen to arrive by the receivers' clocks, which different hosts do not have in common, and comparing
//! them is less exact than messages are quick. Here all times are the sender's. The answer, of the smallest size, takes as long as one such
//! message there and back does by half.

use crate::multicasts::{Fitted, Multicasts, fitted};
use anyhow::{Context, anyhow};
use castell_base::{PerByte, Rank, Tag};
use castell_comm::Comm;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use castell_goal::schedule::Schedule;
use castell_host::clock::now_ns;
use castell_model::fit::{Estimator, Sample};
use std::sync::Arc;

/// Messages that are sent one after the other.
pub const COUNTS: [u64; 3] = [1, 2, 4];
/// Times that this is done in a row, and how often that is measured.
const IN_A_ROW: usize = 10;
const SAMPLES: usize = 16;

/// How long it took to send so many messages of a size and to hear of it. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Size of each.
    pub bytes: u64,
    /// How many.
    pub count: u64,
    /// From the first send until the answer was there.
    pub time_ns: f64,
}

/// Measures between two ranks, the first of which gets the times; all ranks of the group call it.
///
/// # Errors
/// A run failed.
pub fn measure(comm: &Comm, [sender, receiver]: [Rank; 2], sizes: &[u64]) -> anyhow::Result<Vec<Heard>> {
    let mut all = Vec::new();
    let smallest = *sizes.iter().min().context("no size")?;
    for &bytes in sizes {
        for count in COUNTS {
            let peers = [sender, receiver];
            let schedule = Arc::new(rounds(comm.rank(), peers, (bytes, count), smallest)?);
            comm.world().barrier().map_err(|error| anyhow!("{error}"))?;
            if !peers.contains(&comm.rank()) {
                continue;
            }
            for sample in 0..=SAMPLES {
                let start_ns = now_ns();
                comm.execute_without_addresses(&schedule)??;
                let time_ns = (now_ns() - start_ns) as f64 / IN_A_ROW as f64;
                // The first is there to warm up.
                if sample > 0 && comm.rank() == sender {
                    all.push(Heard { bytes, count, time_ns });
                }
            }
        }
    }
    comm.world().barrier().map_err(|error| anyhow!("{error}"))?;
    Ok(all)
}

/// A rank's part.
fn rounds(
    me: Rank,
    [sender, receiver]: [Rank; 2],
    (bytes, count): (u64, u64),
    smallest: u64,
) -> anyhow::Result<Schedule> {
    const DATA: Tag = Tag(0);
    const ANSWER: Tag = Tag(1);
    let mut graph = Graph::new();
    let mut last: Option<Vertex> = None;
    for _ in 0..IN_A_ROW {
        let mut messages = Vec::new();
        for _ in 0..count {
            let message = match me {
                _ if me == sender => graph.send(Place::VOID, bytes, receiver, DATA)?,
                _ if me == receiver => graph.recv(Place::VOID, bytes, Some(sender), Some(DATA))?,
                _ => continue,
            };
            // Receives are there before what they are for.
            if let Some(last) = last.filter(|_| me == sender) {
                graph.requires(last, message)?;
            }
            messages.push(message);
        }
        if me == sender {
            last = Some(graph.recv(Place::VOID, smallest, Some(receiver), Some(ANSWER))?);
        } else if me == receiver {
            let answer = graph.send(Place::VOID, smallest, sender, ANSWER)?;
            for message in messages {
                graph.requires(message, answer)?;
            }
        }
    }
    Ok(graph.compile()?)
}

/// The time to reduce a byte, on this processor. Nothing is sent.
///
/// # Errors
/// A run failed.
pub fn reduction(comm: &Comm) -> anyhow::Result<PerByte> {
    const BYTES: u64 = 64 << 10;
    let taken = crate::measure::reductions(comm, BYTES, 20).map_err(|error| anyhow!(error))?;
    Ok(PerByte::from_ps_f64(1e3 * taken.into_iter().fold(f64::INFINITY, f64::min) / BYTES as f64))
}

/// PLB fitted to what was heard, given the time to reduce a byte; `None` where no machine has such parameters.
///
/// # Errors
/// Too little was measured.
pub fn fit(heard: &[Heard], gamma: PerByte) -> anyhow::Result<Option<Fitted>> {
    let smallest = heard.iter().map(|one| one.bytes).min().context("nothing was measured")?;
    let alone = heard.iter().filter(|one| (one.bytes, one.count) == (smallest, 1));
    let answer_ns = alone.map(|one| one.time_ns / 2.0).fold(f64::INFINITY, f64::min);
    let samples = heard.iter().map(|one| Sample {
        bytes: one.bytes,
        messages: one.count,
        time_ps: ((one.time_ns - answer_ns) * 1e3).max(0.0),
    });
    fitted(&Multicasts { samples: samples.collect(), gamma }, Estimator::Minimum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_model::{Model, Plb};
    use castell_sim::{Machine, Simulation};

    /// What the simulator says of these graphs under a model leads back to it.
    #[test]
    fn a_model_is_found_again() {
        let text = "plb:alpha_p=20us,alpha_r=table(8:2us,4096:5us),beta=0ns";
        let machine = Machine::new(Model::parse(text).expect("a model"));
        let mut heard = Vec::new();
        for bytes in [8, 4096] {
            for count in COUNTS {
                let part = |rank| rounds(rank, [Rank(0), Rank(1)], (bytes, count), 8).expect("a graph");
                let parts = [part(Rank(0)), part(Rank(1))];
                let outcome = Simulation::new(&parts[..], &machine).run().expect("it ends");
                let time_ns = outcome.end[0].as_ns_f64() / IN_A_ROW as f64;
                heard.push(Heard { bytes, count, time_ns });
            }
        }
        let Plb { alpha_p, alpha_r, .. } =
            fit(&heard, PerByte::from_ps_f64(0.0)).expect("enough").expect("a machine").plb;
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.01 * expected;
        assert!(near(alpha_p.of(8).as_ns_f64(), 20e3) && near(alpha_p.of(4096).as_ns_f64(), 20e3));
        assert!(near(alpha_r.of(8).as_ns_f64(), 2e3) && near(alpha_r.of(4096).as_ns_f64(), 5e3));
    }
}
