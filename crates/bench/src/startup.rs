//! `castell bench startup`: what it costs to begin: the library, and a schedule with a single operation.

use crate::group::Group;
use crate::measure;
use crate::report::Params;
use crate::workload::{Subject, Workload};
use castell_comm::Comm;

/// The workload.
pub struct StartUp;

impl Workload for StartUp {
    fn name(&self) -> &'static str {
        "startup"
    }

    fn cases(&self, _bytes: Option<&[u64]>) -> Vec<Params> {
        ["operation", "message", "init"].map(|what| Params::new().with("what", what)).into()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        Ok(vec![Group::castell(1, measure)])
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(1)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let taken = match case.word("what") {
        Some("init") => measure::joins(samples),
        Some("operation") => measure::starts_of_a_local_operation(comm, samples),
        Some("message") => measure::starts_of_a_message(comm, samples),
        _ => return Ok(None),
    };
    taken.map(Some).map_err(|error| anyhow::anyhow!(error))
}
