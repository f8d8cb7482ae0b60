//! `castell bench pingpong`: half a round trip, through one schedule of 100 ping-pongs with a time stamp at each end.

use crate::group::{Group, Measure};
use crate::measure;
use crate::report::Params;
use crate::workload::{Subject, Workload};
use castell_comm::Comm;
use castell_comm::job::JobOptions;

/// The workload (ESPGOAL, section 6.3).
pub struct PingPong;

impl Workload for PingPong {
    fn name(&self) -> &'static str {
        "pingpong"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let bytes = bytes.unwrap_or(&[8, 64, 1024, 4096, 65_536, 1 << 20]);
        bytes.iter().map(|bytes| Params::new().with("bytes", *bytes)).collect()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let variant = |name: &str, options: JobOptions| -> Box<dyn Subject> {
            Box::new(Group { name: format!("castell, {name}"), options, measure })
        };
        Ok(vec![
            Group::castell(2, measure),
            variant("no rings", JobOptions { rings: false, ..JobOptions::new(2) }),
            variant("no pipes", JobOptions { pipes: false, ..JobOptions::new(2) }),
        ])
    }

    fn in_job(&self) -> Option<(u32, Measure)> {
        Some((2, measure))
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(2)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let Some(bytes) = case.number("bytes") else { return Ok(None) };
    measure::ping_pongs(comm, bytes, samples).map(Some).map_err(|error| anyhow::anyhow!(error))
}
