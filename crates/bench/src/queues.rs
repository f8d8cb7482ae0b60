//! `castell bench queues`: the receive queues without an engine, the four designs beside each other.
//!
//! Cases with `bytes` are one way of a ping-pong between two processes. Cases with `producers` are the insertion of eight
//! 8-byte messages into one queue by as many processes at once; ranks are described as nodes of eight for `msgq`.
//! `experiments/receive-queues` takes the same measurements with quantiles.

use crate::measure::queues::{Load, Way, insertion, latency};
use crate::report::{Params, Sample};
use crate::workload::{Subject, Workload};
use castell_queues::{Geometry, QueueKind};

const RANKS_PER_NODE: u32 = 8;

/// The workload (Rüfenacht 2020, section 6.4).
pub struct Queues;

impl Workload for Queues {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let bytes = bytes.unwrap_or(&[8, 1024]).iter().map(|&bytes| Params::new().with("bytes", bytes));
        let producers = [1, 2, 4, 8, 16, 31].map(|producers| Params::new().with("producers", producers));
        bytes.chain(producers).collect()
    }

    fn samples(&self) -> u32 {
        2000
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        Ok(Way::ALL.into_iter().map(|way| Box::new(Design(way)) as Box<dyn Subject>).collect())
    }

    fn peer_ranks(&self) -> Option<u32> {
        None
    }
}

struct Design(Way);

impl Subject for Design {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let times = match (case.number("bytes"), case.number("producers"), self.0) {
            (Some(bytes), _, way) => latency(way, bytes as usize, samples)?,
            (_, Some(producers), Way::Queue(kind)) => {
                let producers = producers as u32;
                let rounds = samples.div_ceil(producers);
                Some(insertion(queue(kind, producers + 1), Load::Rounds, producers, rounds)?.times)
            }
            _ => None,
        };
        Ok(times.map(|times| Sample::of(times.samples().to_vec())))
    }
}

fn queue(kind: QueueKind, ranks: u32) -> Geometry {
    Geometry { ranks_per_node: RANKS_PER_NODE, ..Geometry::new(kind, ranks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_design_knows_its_cases() {
        let scmp = Way::Queue(QueueKind::Scmp);
        let small = Params::new().with("bytes", 8);
        let many = Params::new().with("producers", 3);
        for (way, case, known) in [(scmp, &small, true), (scmp, &many, true), (Way::Ring, &many, false)] {
            let sample = Design(way).measure(case, 10).expect("it can be measured");
            assert_eq!(sample.is_some_and(|sample| sample.samples >= 10), known);
        }
    }
}
