//! Workloads as of a supercomputer, made from a seed: the model of Lublin and Feitelson ("The workload on parallel supercomputers:
//! modeling the characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63, 2003) with its parameters for
//! jobs of one kind. Sizes are serial, powers of two or others, two-stage uniform in their logarithm; run times are
//! hyper-gamma in their logarithm, longer for larger jobs; gaps between arrivals are gamma in their logarithm, and follow the day.

use super::{Job, Role, Workload, WorkloadError, number, settings, wrong};
use crate::session::request::Request;
use castell_base::Rank;
use castell_base::random::Key;
use rand_core::RngCore;

const EXAMPLE: &str = "lublin:jobs=10000,processors=256,seed=1,load=0.8,overestimate=3";

/// What a workload is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lublin {
    /// How many jobs.
    pub jobs: u32,
    /// Of how large a machine.
    pub processors: u32,
    /// Where random numbers start.
    pub seed: u64,
    /// Work offered per time and processor: arrivals are moved closer or apart to reach it; none leaves them as they are.
    pub load: Option<f64>,
    /// Estimates are uniform between the run time and this many run times more.
    pub overestimate: f64,
}

impl Default for Lublin {
    fn default() -> Lublin {
        Lublin { jobs: 10_000, processors: 256, seed: 1, load: Some(0.8), overestimate: 3.0 }
    }
}

/// Shares of serial jobs and of powers of two.
const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
/// The logarithm of sizes: the smallest, how far below the largest the knee is, the share below it.
const SIZE_LOW: f64 = 0.8;
const SIZE_KNEE_BELOW: f64 = 2.5;
const SIZE_BELOW_KNEE: f64 = 0.86;
/// The logarithm of run times in seconds: two gamma distributions (shape, scale), and the share of the first by size.
const RUN: [(f64, f64); 2] = [(4.2, 0.94), (312.0, 0.03)];
const RUN_SHARE: (f64, f64) = (-0.0054, 0.78);
const RUN_MAX: f64 = 12.0;
/// The logarithm of gaps in seconds at busy hours, stretched for the other hours.
const GAP: (f64, f64) = (10.2303 * 1.0225, 0.4871);
const GAP_MAX: f64 = 13.0;
/// How many jobs come in which half hour of the day, which begins at eleven half hours past midnight.
const DAY: (f64, f64) = (8.1737, 3.9631);
const HALF_HOURS: usize = 48;
const DAY_BEGINS: usize = 11;
const HALF_HOUR_S: f64 = 1_800.0;

impl Lublin {
    /// Reads `key=value,…`; what is not named is as in [`Lublin::default`], and `load=0` leaves arrivals as the model has them.
    ///
    /// # Errors
    /// Unknown keys, values out of bounds.
    pub fn parse(text: &str) -> Result<Lublin, WorkloadError> {
        let mut lublin = Lublin::default();
        for setting in settings(text, EXAMPLE) {
            let (key, value) = setting?;
            match key {
                "jobs" => lublin.jobs = number(value, 1.0, 1e7, EXAMPLE)? as u32,
                "processors" => lublin.processors = number(value, 2.0, 1e6, EXAMPLE)? as u32,
                "seed" => {
                    let seed = value.parse();
                    lublin.seed = seed.map_err(|_| wrong(value, "a seed is a whole number", EXAMPLE))?;
                }
                "load" => {
                    lublin.load = Some(number(value, 0.0, 100.0, EXAMPLE)?).filter(|load| *load > 0.0);
                }
                "overestimate" => lublin.overestimate = number(value, 0.0, 1e6, EXAMPLE)?,
                _ => return Err(wrong(key, "there is no such key", EXAMPLE)),
            }
        }
        Ok(lublin)
    }

    /// The sessions of it: the same for the same numbers, on any machine.
    pub fn workload(self) -> Workload {
        let day = day();
        let (mut bucket, mut now_s, mut into_bucket) = (0, 0.0, 0.0);
        let mut jobs = Vec::with_capacity(self.jobs as usize);
        for index in 0..u64::from(self.jobs) {
            let mut draw = Draws(Key { seed: self.seed, rank: Rank(0), operation: index }.stream(0));
            let mut gap = draw.bounded(|draw| draw.gamma(GAP.0, GAP.1), GAP_MAX);
            gap = libm::exp(gap) / HALF_HOUR_S;
            // A gap passes through half hours, faster where more jobs come.
            into_bucket += gap;
            while into_bucket > day[bucket] {
                into_bucket -= day[bucket];
                bucket = (bucket + 1) % HALF_HOURS;
                now_s += HALF_HOUR_S;
            }
            let submit_s = now_s + HALF_HOUR_S * into_bucket / day[bucket];
            let processes = self.size(&mut draw);
            let first = (RUN_SHARE.0 * f64::from(processes) + RUN_SHARE.1).clamp(0.0, 1.0);
            let (shape, scale) = RUN[usize::from(draw.uniform() > first)];
            let run_s = libm::exp(draw.bounded(|draw| draw.gamma(shape, scale), RUN_MAX));
            let run_ms = (run_s * 1e3) as u64 + 1;
            let estimate = run_ms + (run_ms as f64 * self.overestimate * draw.uniform()) as u64;
            let request = Request { estimate: Some(estimate), ..Request::new(processes) };
            let submit_ms = (submit_s * 1e3) as u64;
            jobs.push(Job { number: index + 1, submit_ms, run_ms, request, role: Role::Other });
        }
        if let Some(load) = self.load {
            self.scale(&mut jobs, load);
        }
        let name = format!("Lublin-Feitelson, seed {}", self.seed);
        Workload { name, jobs, processors: Some(self.processors), ..Workload::default() }
    }

    fn size(self, draw: &mut Draws) -> u32 {
        let kind = draw.uniform();
        if kind <= SERIAL {
            return 1;
        }
        let high = libm::log2(f64::from(self.processors));
        let knee = (high - SIZE_KNEE_BELOW).max(SIZE_LOW);
        let (from, to) = match draw.uniform() <= SIZE_BELOW_KNEE {
            true => (SIZE_LOW, knee),
            false => (knee, high),
        };
        let mut logarithm = from + (to - from) * draw.uniform();
        if kind <= SERIAL + POWER_OF_TWO {
            logarithm = libm::floor(logarithm + 0.5);
        }
        ((libm::exp2(logarithm) + 0.5) as u32).clamp(1, self.processors)
    }

    /// Moves arrivals so that so much work comes per time.
    fn scale(self, jobs: &mut [Job], load: f64) {
        let work: u128 =
            jobs.iter().map(|job| u128::from(job.run_ms) * u128::from(job.request.processes)).sum();
        let span = jobs.last().map_or(0, |job| job.submit_ms);
        if span == 0 {
            return;
        }
        let wanted = work as f64 / (f64::from(self.processors) * load);
        let factor = wanted / span as f64;
        jobs.iter_mut().for_each(|job| job.submit_ms = (job.submit_ms as f64 * factor) as u64);
    }
}

/// How many times the mean each half hour of a day has; the first is that at midnight.
fn day() -> [f64; HALF_HOURS] {
    let mut day = [0.0; HALF_HOURS];
    for place in DAY_BEGINS..DAY_BEGINS + HALF_HOURS {
        let middle = place as f64;
        day[(place - 1) % HALF_HOURS] = gamma_below(middle + 0.5, DAY) - gamma_below(middle - 0.5, DAY);
    }
    let mean = day.iter().sum::<f64>() / HALF_HOURS as f64;
    // Never nothing, or a gap would take for ever.
    day.map(|share| (share / mean).max(1e-3))
}

/// The share of a gamma distribution below `x`: the series of the incomplete gamma function.
fn gamma_below(x: f64, (shape, scale): (f64, f64)) -> f64 {
    let x = x / scale;
    let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
    for step in 1..500 {
        term *= x / (shape + f64::from(step));
        sum += term;
    }
    sum * libm::exp(shape * libm::log(x) - x - libm::lgamma(shape))
}

/// Random numbers of one job.
struct Draws(castell_base::random::Philox);

impl Draws {
    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(2.0 * std::f64::consts::PI * angle)
    }

    /// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); for shapes of 1 and more.
    fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v * scale;
            }
        }
    }

    /// Draws again while it is too large.
    fn bounded(&mut self, mut draw: impl FnMut(&mut Draws) -> f64, most: f64) -> f64 {
        loop {
            let drawn = draw(self);
            if drawn <= most {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_are_those_of_the_model() {
        let lublin = Lublin { jobs: 20_000, ..Lublin::default() };
        let workload = lublin.workload();
        assert_eq!(workload, lublin.workload());
        let share = |is: &dyn Fn(u32) -> bool| {
            let count = workload.jobs.iter().filter(|job| is(job.request.processes)).count();
            count as f64 / workload.jobs.len() as f64
        };
        assert!((share(&|size| size == 1) - SERIAL).abs() < 0.02);
        assert!(share(&|size| size.is_power_of_two()) > SERIAL + POWER_OF_TWO - 0.02);
        assert!(workload.jobs.iter().all(|job| job.request.processes <= 256));
        assert!(workload.jobs.iter().all(|job| job.request.estimate >= Some(job.run_ms)));
        assert!(workload.jobs.is_sorted_by_key(|job| job.submit_ms));
        let work: f64 =
            workload.jobs.iter().map(|job| job.run_ms as f64 * f64::from(job.request.processes)).sum();
        let span = workload.jobs[workload.jobs.len() - 1].submit_ms as f64;
        assert!((work / (span * 256.0) - 0.8).abs() < 0.01);
        assert_ne!(workload.jobs, Lublin { seed: 2, ..lublin }.workload().jobs);
    }

    #[test]
    fn gamma_distributions_are_right() {
        // Of shape 1 it is the exponential distribution.
        assert!((gamma_below(2.0, (1.0, 1.0)) - (1.0 - libm::exp(-2.0))).abs() < 1e-12);
        let mut draw = Draws(Key { seed: 1, rank: Rank(0), operation: 0 }.stream(0));
        let drawn: Vec<f64> = (0..20_000).map(|_| draw.gamma(4.2, 0.94)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 4.2 * 0.94).abs() < 0.05, "{mean}");
        let below = drawn.iter().filter(|x| **x < 3.0).count() as f64 / drawn.len() as f64;
        assert!((below - gamma_below(3.0, (4.2, 0.94))).abs() < 0.02);
    }
}
