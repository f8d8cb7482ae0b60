//! What this transport costs: multicasts through our own interface, and a model fitted to them (thesis, section 4.3).

use crate::collectives::ours::{barrier, in_group};
use crate::measure::{self, Multicast};
use anyhow::{Context, anyhow};
use castell_base::{PerByte, Rank};
use castell_comm::Comm;
use castell_host::shm::Segment;
use castell_model::fit::{self, Estimator, Options, Sample, Template};
use castell_model::{Model, Plb};
use std::sync::atomic::Ordering;

/// The most ranks that a message is sent to.
pub const PEERS_MAX: u32 = 7;
/// Multicasts of each size to each number of ranks.
const SAMPLES: usize = 40;
/// The vector with which summing up is measured. Bytes.
const REDUCED_BYTES: u64 = 64 << 10;

/// The times of multicasts.
pub struct Multicasts {
    /// Every measurement.
    pub samples: Vec<Sample>,
    /// Time to reduce a byte.
    pub gamma: PerByte,
}

/// Measures multicasts of each size to 1 to `peers` ranks, and the time to reduce a byte.
pub fn measure(sizes: &[u64], peers: u32) -> anyhow::Result<Multicasts> {
    let ranks = peers + 1;
    let cases: Vec<(u64, u32)> =
        sizes.iter().flat_map(|&bytes| (1..=peers).map(move |peers| (bytes, peers))).collect();
    let words = cases.len() * SAMPLES;
    // For each rank its time stamps; behind them, the time to reduce.
    let table = Segment::create("castell-multicasts", 8 * (ranks as usize * words + 1))?;
    let entry = |rank: u32, case: usize, sample: usize| {
        &table.words()[rank as usize * words + case * SAMPLES + sample]
    };
    let reduced = &table.words()[ranks as usize * words];
    in_group(ranks, &|comm: &Comm| {
        let barrier = barrier(comm)?;
        let wait = || barrier.batch(comm, 1).map_err(|error| anyhow!(error));
        for (case, &(bytes, peers)) in cases.iter().enumerate() {
            let mut multicast = Multicast::new(comm, bytes, peers).map_err(|error| anyhow!(error))?;
            for sample in 0..SAMPLES {
                wait()?;
                let stamp = multicast.stamp_ns(comm).map_err(|error| anyhow!(error))?;
                entry(comm.rank().0, case, sample).store(stamp.to_bits(), Ordering::Release);
            }
        }
        wait()?;
        if comm.rank() == Rank(0) {
            let taken = measure::reductions(comm, REDUCED_BYTES, 20).map_err(|error| anyhow!(error))?;
            let least = taken.into_iter().fold(f64::INFINITY, f64::min);
            reduced.store(least.to_bits(), Ordering::Release);
        }
        wait().map(|_| ())
    })?;
    let stamp = |rank, case, sample| f64::from_bits(entry(rank, case, sample).load(Ordering::Acquire));
    let mut samples = Vec::new();
    for (case, &(bytes, peers)) in cases.iter().enumerate() {
        for sample in 0..SAMPLES {
            let last = (1..=peers).map(|rank| stamp(rank, case, sample)).fold(0.0, f64::max);
            let time_ps = 1e3 * (last - stamp(0, case, sample));
            samples.push(Sample { bytes, messages: u64::from(peers), time_ps: time_ps.max(0.0) });
        }
    }
    let gamma_ps = 1e3 * f64::from_bits(reduced.load(Ordering::Acquire)) / REDUCED_BYTES as f64;
    Ok(Multicasts { samples, gamma: PerByte::from_ps_f64(gamma_ps) })
}

/// A model and how much of the multicasts' variance it explains.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model.
    pub plb: Plb,
    /// 1 is all; of fits size by size the worst.
    pub r_squared: f64,
}

/// PLB fitted to the minima and to the medians; `None` where no machine has such parameters.
pub fn fitted(multicasts: &Multicasts, estimator: Estimator) -> anyhow::Result<Option<Fitted>> {
    let template = Template::parse(&format!("plb:gamma={}", multicasts.gamma))?;
    let options = Options { estimator, ..Options::default() };
    let by_size = fit::fit_by_size(&template, &multicasts.samples, options).context("multicasts")?;
    let worst = by_size.sizes.iter().filter(|(_, fit)| fit.model.is_some()).map(|(_, fit)| fit.r_squared);
    let (model, r_squared) = match by_size.model {
        Some(model) => (Some(model), worst.fold(1.0, f64::min)),
        None => {
            let fit = fit::fit(&template, &multicasts.samples, options).context("multicasts")?;
            (fit.model, fit.r_squared)
        }
    };
    Ok(model.and_then(|model| match model {
        Model::Plb(plb) => Some(Fitted { plb, r_squared }),
        _ => None,
    }))
}
