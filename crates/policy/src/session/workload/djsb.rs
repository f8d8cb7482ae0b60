//! The workload of the Dynamic Job Scheduler Benchmark: a long simulation, and short analyses beside it.

use super::{Job, Role, Workload, WorkloadError, milliseconds, number, settings, wrong};
use crate::session::request::Request;

const EXAMPLE: &str = "djsb:simulation=160x1x1000,analysis=32x1x50,analyses=4,first=100,every=200";

/// A simulation and analyses, each of processes × threads × seconds alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Djsb {
    /// Processes and threads of the simulation.
    pub simulation: (u32, u32),
    /// How long it runs alone.
    pub simulation_ms: u64,
    /// Processes and threads of an analysis.
    pub analysis: (u32, u32),
    /// How long it runs alone.
    pub analysis_ms: u64,
    /// How many analyses.
    pub analyses: u32,
    /// When the first is asked for.
    pub first_ms: u64,
    /// From one to the next.
    pub every_ms: u64,
}

impl Default for Djsb {
    /// The processes of the paper on 160 slots; it does not tell the times.
    fn default() -> Djsb {
        Djsb {
            simulation: (160, 1),
            simulation_ms: 1_000_000,
            analysis: (32, 1),
            analysis_ms: 50_000,
            analyses: 4,
            first_ms: 100_000,
            every_ms: 200_000,
        }
    }
}

impl Djsb {
    /// Reads `key=value,…`; what is not named is as in [`Djsb::default`].
    ///
    /// # Errors
    /// Unknown keys, values out of bounds.
    pub fn parse(text: &str) -> Result<Djsb, WorkloadError> {
        let mut djsb = Djsb::default();
        for setting in settings(text, EXAMPLE) {
            let (key, value) = setting?;
            match key {
                "simulation" => (djsb.simulation, djsb.simulation_ms) = size(value)?,
                "analysis" => (djsb.analysis, djsb.analysis_ms) = size(value)?,
                "analyses" => djsb.analyses = number(value, 0.0, 1e6, EXAMPLE)? as u32,
                "first" => djsb.first_ms = number(value, 0.0, 1e9, EXAMPLE).map(ms)?,
                "every" => djsb.every_ms = number(value, 0.0, 1e6, EXAMPLE).map(ms)?,
                _ => return Err(wrong(key, "there is no such key", EXAMPLE)),
            }
        }
        Ok(djsb)
    }

    /// The sessions of it.
    pub fn workload(self) -> Workload {
        let job = |number: u64, submit_ms, run_ms, (processes, threads), role| {
            let request = Request { threads, estimate: Some(run_ms), ..Request::new(processes) };
            Job { number, submit_ms, run_ms, request, role }
        };
        let mut jobs = vec![job(0, 0, self.simulation_ms, self.simulation, Role::Simulation)];
        jobs.extend((0..u64::from(self.analyses)).map(|index| {
            let submit_ms = self.first_ms + index * self.every_ms;
            job(index + 1, submit_ms, self.analysis_ms, self.analysis, Role::Analysis)
        }));
        jobs.sort_by_key(|job| job.submit_ms);
        Workload { name: "djsb".into(), jobs, ..Workload::default() }
    }
}

fn ms(seconds: f64) -> u64 {
    milliseconds(seconds).unwrap_or(0)
}

/// `160x1x1000`: processes, threads, seconds.
fn size(text: &str) -> Result<((u32, u32), u64), WorkloadError> {
    let parts: Vec<&str> = text.split('x').collect();
    let [processes, threads, seconds] = parts[..] else {
        return Err(wrong(text, "expected processes, threads and seconds with `x` between them", EXAMPLE));
    };
    let count = |text| number(text, 1.0, 1e6, EXAMPLE).map(|count| count as u32);
    Ok(((count(processes)?, count(threads)?), number(seconds, 0.001, 1e9, EXAMPLE).map(ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions() {
        let workload =
            Workload::describe("djsb:analysis=8x4x2.5,analyses=2").expect("it is djsb").expect("right");
        assert_eq!(workload.jobs.len(), 3);
        assert_eq!((workload.jobs[2].run_ms, workload.jobs[2].submit_ms), (2_500, 300_000));
        assert!(Workload::describe("trace.swf").is_none());
        for bad in ["djsb:x", "djsb:what=3", "djsb:analysis=8x4", "djsb:analyses=-1", "djsb:simulation=0x1x1"]
        {
            let error = Workload::describe(bad).expect("it is djsb").unwrap_err().to_string();
            assert!(error.contains("write it as in"), "{error}");
        }
    }
}
