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
        let of = |name: &'static str, count: fn(u64) -> u64| {
            sizes.iter().map(move |&bytes| Params::new().with("bytes", bytes).with(name, count(bytes)))
        };
        of("window", window).chain(of("ahead", ahead)).collect()
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

/// Messages of a window: fewer where they are long, so that what is under way fits in 4 MiB.
pub(crate) fn window(bytes: u64) -> u64 {
    (4_u64 << 20).checked_div(bytes).unwrap_or(u64::MAX).clamp(2, 64)
}

/// Messages that are sent ahead, in 64 MiB at most, but for very long ones.
fn ahead(bytes: u64) -> u64 {
    (64_u64 << 20).checked_div(bytes).unwrap_or(u64::MAX).clamp(2, 10_000)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_fewer() {
        assert_eq!([0, 8, 1024, 1 << 20, u64::MAX].map(window), [64, 64, 64, 4, 2]);
        assert_eq!([0, 8, 1024, 1 << 20, u64::MAX].map(ahead), [10_000, 10_000, 10_000, 64, 2]);
    }
}
