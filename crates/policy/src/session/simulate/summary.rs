//! What came of a workload, in the numbers by which schedulers are compared.

use super::Outcome;
use crate::session::resources::Cluster;
use crate::session::workload::{Role, Workload};

/// Shorter sessions count as this long in bounded slowdowns.
const BOUND_MS: u64 = 10_000;

/// Means over all sessions that ran, times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many ran.
    pub jobs: usize,
    /// How many could never have fit.
    pub refused: usize,
    /// From asking to starting.
    pub wait_ms: f64,
    /// From starting to the end, with the time of being suspended.
    pub execution_ms: f64,
    /// From asking to the end.
    pub response_ms: f64,
    /// Response over the time that it takes alone.
    pub slowdown: f64,
    /// The same with times alone of at least ten seconds, and at least 1.
    pub bounded_slowdown: f64,
    /// Below it are 95 % of bounded slowdowns.
    pub bounded_slowdown_p95: f64,
    /// The largest.
    pub bounded_slowdown_max: f64,
    /// Jain's index of bounded slowdowns: 1 where all are slowed down alike, 1/n where one is and the others are nothing to it.
    pub fairness: f64,
    /// Jain's index of the shares of full speed that sessions got from asking to the end (1 over the bounded slowdown).
    pub fairness_of_speeds: f64,
    /// From the first asking to the last end.
    pub makespan_ms: u64,
    /// Work done over what all slots could have done in that time.
    pub utilisation: f64,
    /// How often somebody was suspended.
    pub suspensions: u64,
    /// The coefficients of djsb, where there are simulations and analyses.
    pub djsb: Option<Djsb>,
    /// Of all starts and ends: equal where all are.
    pub fingerprint: u64,
}

/// What djsb compares with: the constants are not in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// The slowdowns that are expected of the simulation and of analyses.
    pub expected: (f64, f64),
    /// The constant in the wait coefficient; where none, the time that an analysis takes alone.
    pub wait_constant_ms: Option<f64>,
}

impl Default for Coefficients {
    fn default() -> Coefficients {
        Coefficients { expected: (1.0, 1.0), wait_constant_ms: None }
    }
}

/// The benchmark's coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Djsb {
    /// Expected over real slowdown of the simulation.
    pub e_simulation: f64,
    /// The same of the analyses.
    pub e_analysis: f64,
    /// The wait coefficient of the analyses, with a static wait of nothing.
    pub w: f64,
    /// The dynamicity ratio: their product.
    pub d: f64,
}

impl Summary {
    /// Counts and divides. The same bits everywhere: sums are of whole numbers, or in the order of the sessions.
    pub fn new(
        workload: &Workload,
        cluster: &Cluster,
        outcome: &Outcome,
        coefficients: &Coefficients,
    ) -> Summary {
        let (mut wait, mut execution, mut response, mut work, mut suspensions) =
            (0u128, 0u128, 0u128, 0u128, 0u64);
        let (mut slowdown, mut squares, mut last) = (0.0, 0.0, 0);
        let mut bounded: Vec<f64> = Vec::with_capacity(workload.jobs.len());
        let mut fingerprint = 0xcbf2_9ce4_8422_2325_u64;
        let mut first = u64::MAX;
        for (job, fate) in workload.jobs.iter().zip(&outcome.fates) {
            let Some(start) = fate.start_ms else { continue };
            let took = fate.end_ms - job.submit_ms;
            wait += u128::from(start - job.submit_ms);
            execution += u128::from(fate.end_ms - start);
            response += u128::from(took);
            let slots = u128::from(job.request.processes) * u128::from(job.request.threads);
            work += u128::from(job.run_ms) * slots;
            suspensions += u64::from(fate.suspensions);
            slowdown += took as f64 / job.run_ms as f64;
            bounded.push((took as f64 / job.run_ms.max(BOUND_MS) as f64).max(1.0));
            (first, last) = (first.min(job.submit_ms), last.max(fate.end_ms));
            for word in [start, fate.end_ms] {
                fingerprint = (fingerprint ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
            }
        }
        let jobs = bounded.len();
        let mean = |sum: u128| sum as f64 / jobs.max(1) as f64;
        bounded.iter().for_each(|one| squares += one * one);
        let sum: f64 = bounded.iter().sum();
        let (mut speeds, mut speeds_squared) = (0.0, 0.0);
        bounded.iter().for_each(|one| {
            (speeds, speeds_squared) = (speeds + 1.0 / one, speeds_squared + 1.0 / (one * one))
        });
        bounded.sort_by(f64::total_cmp);
        let makespan_ms = last.saturating_sub(first);
        let there = cluster.num_slots() as f64 * makespan_ms as f64;
        Summary {
            jobs,
            refused: outcome.refused.len(),
            wait_ms: mean(wait),
            execution_ms: mean(execution),
            response_ms: mean(response),
            slowdown: slowdown / jobs.max(1) as f64,
            bounded_slowdown: sum / jobs.max(1) as f64,
            bounded_slowdown_p95: bounded
                .get((jobs * 95).div_ceil(100).saturating_sub(1))
                .copied()
                .unwrap_or(0.0),
            bounded_slowdown_max: bounded.last().copied().unwrap_or(0.0),
            fairness: jain(jobs, sum, squares),
            fairness_of_speeds: jain(jobs, speeds, speeds_squared),
            makespan_ms,
            utilisation: if makespan_ms == 0 { 0.0 } else { work as f64 / there },
            suspensions,
            djsb: djsb(workload, outcome, coefficients),
            fingerprint,
        }
    }
}

/// Jain's index of values with this sum and sum of squares.
fn jain(count: usize, sum: f64, squares: f64) -> f64 {
    if count == 0 { 1.0 } else { sum * sum / (count as f64 * squares) }
}

fn djsb(workload: &Workload, outcome: &Outcome, coefficients: &Coefficients) -> Option<Djsb> {
    let of = |role: Role| {
        let pairs = workload.jobs.iter().zip(&outcome.fates).filter(move |(job, _)| job.role == role);
        let (mut alone, mut real, mut wait, mut count) = (0u64, 0u64, 0u64, 0u64);
        for (job, fate) in pairs {
            let start = fate.start_ms?;
            alone += job.run_ms;
            real += fate.end_ms - start;
            wait += start - job.submit_ms;
            count += 1;
        }
        (count > 0)
            .then(|| (real as f64 / alone as f64, wait as f64 / count as f64, alone as f64 / count as f64))
    };
    let ((simulation, ..), (analysis, wait, alone)) = (of(Role::Simulation)?, of(Role::Analysis)?);
    let (e_simulation, e_analysis) =
        (coefficients.expected.0 / simulation, coefficients.expected.1 / analysis);
    let constant = coefficients.wait_constant_ms.unwrap_or(alone);
    let w = if constant + wait == 0.0 { 1.0 } else { constant / (wait + constant) };
    Some(Djsb { e_simulation, e_analysis, w, d: e_simulation * e_analysis * w })
}
