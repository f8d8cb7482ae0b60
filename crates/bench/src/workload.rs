//! What is measured, and who is.

use crate::group::Measure;
use crate::report::{Measurement, Params, Sample};
use anyhow::Context as _;

/// How much is measured, of whom, and how it is told.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The peers, too.
    pub peers: bool,
    /// JSON instead of tables.
    pub json: bool,
    /// In which the subjects take turns.
    pub rounds: u32,
    /// A round, case and subject, if the user says how many.
    pub samples: Option<u32>,
}

impl Effort {
    /// Samples a round, case and subject: `usual` unless the user says.
    pub fn samples(&self, usual: u32) -> u32 {
        self.samples.unwrap_or(usual)
    }
}

/// Something to measure.
pub trait Workload: Sync {
    /// Its name on the command line, in reports, and of the peers' program.
    fn name(&self) -> &'static str;

    /// What to measure; `bytes` are the sizes asked for, if any.
    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params>;

    /// Samples a round unless the user says otherwise.
    fn samples(&self) -> u32;

    /// Who is measured, castell first. Peers are added by the caller.
    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>>;

    /// How many ranks of a job that is there already measure this, and how; `None`: it starts processes of its own.
    fn in_job(&self) -> Option<(u32, Measure)> {
        None
    }

    /// Processes that the MPI program needs; `None`: there is none.
    fn peer_ranks(&self) -> Option<u32>;
}

/// Somebody who can carry a workload out.
pub trait Subject {
    /// As reports call it.
    fn name(&self) -> String;

    /// Takes `samples` samples of one case; `None` if it does not know the case.
    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>>;
}

/// A case, the subjects taking turns; a subject that does not know the case has no row for it.
pub fn measure(
    workload: &str,
    case: &Params,
    subjects: &mut [Box<dyn Subject>],
    rounds: u32,
    samples: u32,
    step: &dyn Fn(),
) -> anyhow::Result<Vec<Measurement>> {
    let mut taken = vec![Vec::new(); subjects.len()];
    for _ in 0..rounds {
        for (subject, taken) in subjects.iter_mut().zip(&mut taken) {
            let sample = subject.measure(case, samples);
            taken.extend(sample.with_context(|| format!("{workload}, {case}: {}", subject.name()))?);
            step();
        }
    }
    let mut rows = Vec::new();
    for (subject, taken) in subjects.iter().zip(&taken) {
        let sample = Sample::over_rounds(taken);
        rows.extend(sample.map(|sample| Measurement::new(workload, subject.name(), case, sample)));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Recorded {
        name: &'static str,
        calls: Rc<RefCell<Vec<String>>>,
        knows: u64,
    }

    impl Subject for Recorded {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
            self.calls.borrow_mut().push(format!("{} {case}", self.name));
            let bytes = case.number("bytes").expect("the cases have sizes");
            Ok((bytes <= self.knows).then(|| Sample::of(vec![bytes as f64; samples as usize])))
        }
    }

    #[test]
    fn subjects_take_turns() {
        let calls = Rc::new(RefCell::new(Vec::new()));
        let subject =
            |name, knows| Box::new(Recorded { name, calls: calls.clone(), knows }) as Box<dyn Subject>;
        let mut subjects = [subject("a", 64), subject("b", 8)];
        let cases = [8, 64].map(|bytes| Params::new().with("bytes", bytes));
        let mut measurements = Vec::new();
        for case in &cases {
            measurements.extend(measure("w", case, &mut subjects, 2, 3, &|| {}).expect("both can measure"));
        }
        let order = ["a bytes 8", "b bytes 8", "a bytes 8", "b bytes 8", "a bytes 64", "b bytes 64"];
        assert_eq!(calls.borrow()[..6], order);
        let rows = serde_json::to_value(&measurements).expect("measurements are plain data");
        assert_eq!(rows.as_array().map(Vec::len), Some(3), "b has no row for the case it does not know");
        assert_eq!(
            rows[2],
            serde_json::json!({"workload": "w", "subject": "a", "params": {"bytes": 64}, "median_ns": 64.0, "min_ns": 64.0, "samples": 6})
        );
    }
}
