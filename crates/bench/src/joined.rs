//! `castell bench` as the ranks of a job that is there already: `castell launch -n 4 --isolate 4 -- castell bench pingpong`.

use crate::group::Measure;
use crate::report::{Measurement, Params, Report, Sample};
use crate::workload::{Effort, Subject, Workload, measure};
use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_comm::Comm;
use castell_comm::bootstrap::JOB_FD_VARIABLE;
use std::process::ExitCode;
use std::rc::Rc;

/// Whether this process is a rank of a job that castell has launched.
pub(crate) fn is_rank() -> bool {
    std::env::var_os(JOB_FD_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// All ranks of the job do this; rank 0 reports.
pub(crate) fn run(
    workload: &dyn Workload,
    bytes: Option<&[u64]>,
    effort: Effort,
) -> anyhow::Result<(ExitCode, Vec<Measurement>)> {
    let name = workload.name();
    let Some((ranks, body)) = workload.in_job() else {
        bail!("`castell bench {name}` starts its own processes: run it without `castell launch`");
    };
    let comm = Rc::new(Comm::init().context("this process was started as a rank")?);
    if comm.size() < ranks {
        bail!("`castell bench {name}` needs {ranks} ranks, and this job has {}", comm.size());
    }
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(Joined { comm: Rc::clone(&comm), ranks, body })];
    let cases = workload.cases(bytes);
    let samples = effort.samples(workload.samples());
    let steps = cases.len() as u64 * u64::from(effort.rounds);
    let mut report = (comm.rank() == Rank(0)).then(|| Report::new(effort.json, steps));
    for case in &cases {
        let step = || report.iter().for_each(Report::step);
        let rows = measure(name, case, &mut subjects, effort.rounds, samples, &step)?;
        if let Some(report) = &mut report {
            report.rows(rows);
        }
    }
    let rows = report.map_or(Ok(Vec::new()), Report::end)?;
    drop(subjects);
    if let Ok(comm) = Rc::try_unwrap(comm) {
        comm.finalize();
    }
    Ok((ExitCode::SUCCESS, rows))
}

/// The first ranks of the job measure, the others wait.
struct Joined {
    comm: Rc<Comm>,
    ranks: u32,
    body: Measure,
}

impl Subject for Joined {
    fn name(&self) -> String {
        let job = self.comm.job();
        let domains = (0..self.ranks).filter_map(|rank| Some(job.domain_of(Rank(rank))?.to_string()));
        let domains = domains.collect::<Vec<_>>().join(" and ");
        let ranks = (0..self.ranks).map(|rank| rank.to_string()).collect::<Vec<_>>().join(" and ");
        let among = format!("castell, ranks {ranks} of {}", job.ranks());
        if domains.is_empty() { among } else { format!("{among}, in domains {domains}") }
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let meet = || self.comm.world().barrier().map_err(|error| anyhow::anyhow!("{error}"));
        meet()?;
        let taken =
            if self.comm.rank().0 < self.ranks { (self.body)(&self.comm, case, samples)? } else { None };
        meet()?;
        Ok(taken.filter(|_| self.comm.rank() == Rank(0)).map(Sample::of))
    }
}
