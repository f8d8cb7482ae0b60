//! `castell bench progress`: who carries runs on, the process's own thread or the peers, for as many ranks as cores and for
//! more.

use crate::group::Group;
use crate::measure;
use crate::report::{Params, Sample};
use crate::workload::{Subject, Workload};
use anyhow::anyhow;
use castell_comm::Comm;
use castell_comm::job::{JobOptions, Progress};

/// The workload.
pub struct ProgressWays;

const BARRIER: &str = "barrier";
const RELAY: &str = "relay past computing ranks";

impl Workload for ProgressWays {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn cases(&self, _bytes: Option<&[u64]>) -> Vec<Params> {
        let case = |pattern: &str, ranks: u64| Params::new().with("pattern", pattern).with("ranks", ranks);
        let barriers = [2, 4, 8, 16, 32].map(|ranks| case(BARRIER, ranks));
        let relays = [2, 4, 8].map(|ranks| case(RELAY, ranks));
        barriers.into_iter().chain(relays).collect()
    }

    fn samples(&self) -> u32 {
        20
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let names = ["castell", "castell, own thread", "castell, peers"];
        let subject = |(progress, name): (Progress, &'static str)| -> Box<dyn Subject> {
            Box::new(Ways { name, progress })
        };
        Ok(Progress::ALL.into_iter().zip(names).map(subject).collect())
    }

    fn peer_ranks(&self) -> Option<u32> {
        None
    }
}

struct Ways {
    name: &'static str,
    progress: Progress,
}

impl Subject for Ways {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let Some(ranks) = case.number("ranks") else { return Ok(None) };
        let options = JobOptions { progress: self.progress, ..JobOptions::new(ranks as u32) };
        Group { name: self.name(), options, measure }.measure(case, samples)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let taken = match case.word("pattern") {
        Some(BARRIER) => measure::barriers(comm, samples),
        Some(RELAY) => measure::relays(comm, samples),
        _ => return Ok(None),
    };
    taken.map(Some).map_err(|error| anyhow!(error))
}
