//! `castell bench messages`: the time of a message when many are in flight from one rank to another.

use crate::group::{Group, Measure};
use crate::measure;
use crate::report::Params;
use crate::workload::{Subject, Workload};
use castell_comm::Comm;

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

    fn in_job(&self) -> Option<(u32, Measure)> {
        Some((2, measure))
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(2)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let Some(bytes) = case.number("bytes") else { return Ok(None) };
    let taken = match (case.number("window"), case.number("ahead")) {
        (Some(window), _) => measure::messages_in_windows(comm, bytes, window, samples),
        (_, Some(count)) => measure::messages_ahead(comm, bytes, count, samples),
        _ => return Ok(None),
    };
    taken.map(Some).map_err(|error| anyhow::anyhow!(error))
}
