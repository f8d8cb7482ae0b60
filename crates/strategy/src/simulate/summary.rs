//! An outcome in numbers.

use super::{Machine, Outcome, Stretch};
use castell_base::Time;

/// How much a resource had to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Its name.
    pub resource: String,
    /// Steps that ran there.
    pub steps: usize,
    /// How long something ran.
    pub time: Time,
}

/// What strategies are compared by. Times are virtual.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// From 0 to the last step's end.
    pub makespan: Time,
    /// From a registration to the end, without the time that it ran: mean over all collections, in seconds.
    pub wait_s: f64,
    /// From registration to end: mean, in seconds.
    pub response_s: f64,
    /// How long a collection ran: median.
    pub execution_median: Time,
    /// Each resource.
    pub busy: Vec<Busy>,
    /// Steps that ran elsewhere than the one before.
    pub moves: u64,
    /// Joules until the end, if the power of all resources is known.
    pub energy_j: Option<f64>,
    /// Stands for all starts and ends: equal, if they are.
    pub fingerprint: u64,
}

impl Summary {
    /// Sums an outcome up.
    pub fn new(machine: &Machine, outcome: &Outcome) -> Summary {
        let mut busy: Vec<_> = machine
            .resources
            .iter()
            .map(|resource| Busy { resource: resource.name.clone(), steps: 0, time: Time::ZERO })
            .collect();
        let mut fingerprint = 0xcbf2_9ce4_8422_2325;
        for stretch in &outcome.stretches {
            let busy = &mut busy[stretch.resource.0];
            busy.steps += 1;
            busy.time += stretch.to - stretch.from;
            let Stretch { job, resource, from, to } = *stretch;
            fingerprint = fnv(fingerprint, [job as u64, resource.0 as u64, from.0, to.0]);
        }
        let count = outcome.jobs.len().max(1) as f64;
        let mean_s = |ps: &dyn Fn(usize) -> u64| {
            let sum: u128 = (0..outcome.jobs.len()).map(|job| u128::from(ps(job))).sum();
            sum as f64 / 1e12 / count
        };
        let response = |job: usize| (outcome.jobs[job].ended - outcome.jobs[job].arrived).0;
        let mut ran: Vec<_> = outcome.jobs.iter().map(|job| job.ran).collect();
        ran.sort_unstable();
        let energy = machine.resources.iter().zip(&busy).map(|(resource, busy)| {
            let (active_w, idle_w) = resource.power?;
            let active_s = busy.time.0 as f64 / 1e12;
            Some(active_w * active_s + idle_w * (outcome.makespan.0 as f64 / 1e12 - active_s))
        });
        Summary {
            makespan: outcome.makespan,
            wait_s: mean_s(&|job| response(job) - outcome.jobs[job].ran.0),
            response_s: mean_s(&response),
            execution_median: ran.get(ran.len() / 2).copied().unwrap_or_default(),
            moves: outcome.jobs.iter().map(|job| u64::from(job.moves)).sum(),
            energy_j: energy.sum(),
            busy,
            fingerprint,
        }
    }
}

/// The FNV-1a hash of words, byte by byte, continued.
fn fnv(hash: u64, words: [u64; 4]) -> u64 {
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
