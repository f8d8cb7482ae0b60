//! `castell bench tasks`: the task runtime beside others, on programs whose tasks do next to nothing.
//!
//! castell and rayon run in this process; the others are the programs of `benches/tasks`, compiled where their library is
//! found. Who does not know a program has no figure for it.

mod case;
pub mod metg;
pub mod programs;
mod rayon;
mod table;

pub use case::Case;

use crate::bar::bar;
use crate::report::{Doubts, Measurement, Params, Sample};
use crate::workload::{Effort, Subject, measure};
use castell::tasks::Runtime;
use castell::tasks::workloads::Prepared;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// What `castell bench tasks` and `castell bench metg` take besides.
#[derive(clap::Args)]
#[command(next_help_heading = "For tasks and metg")]
pub struct TaskArgs {
    /// Workers of each runtime
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: u32,
    /// castell's scheduler, as tree or central:fifo; several times: each is a subject
    #[arg(long, value_name = "NAME", default_values_t = ["tree".to_owned()])]
    scheduler: Vec<String>,
    /// A Taskflow to compare with: the folder in which taskflow/taskflow.hpp lies
    #[arg(long, value_name = "DIR")]
    taskflow: Option<PathBuf>,
    /// A oneTBB to compare with instead of the system's: the folder of include/ and lib/
    #[arg(long, value_name = "DIR")]
    tbb: Option<PathBuf>,
    /// A Nanos6 to compare with: the folder of its include/ and lib/
    #[arg(long, value_name = "DIR")]
    nanos6: Option<PathBuf>,
}

impl TaskArgs {
    /// The libraries that the user names.
    fn given(&self) -> programs::Given<'_> {
        programs::Given {
            taskflow: self.taskflow.as_deref(),
            tbb: self.tbb.as_deref(),
            nanos6: self.nanos6.as_deref(),
        }
    }
}

/// A row of the result.
#[derive(Debug, Serialize)]
pub struct Row {
    workload: &'static str,
    subject: String,
    params: Params,
    tasks: u64,
    ns_per_task: f64,
    min_ns_per_task: f64,
    samples: u64,
}

/// Carries the command out.
pub fn run(cases: &[Case], args: &TaskArgs, effort: Effort) -> anyhow::Result<()> {
    let cases = if cases.is_empty() { Case::all() } else { cases.to_vec() };
    let mut subjects = subjects(args, effort.peers);
    let (progress, doubts) = (bar(cases.len() as u64 * turns(&subjects, effort)), Doubts::from_now());
    let mut rows = Vec::new();
    for case in &cases {
        let asked = case.arguments().with("workers", args.workers);
        let measured =
            measure(case.name(), &asked, &mut subjects, effort.rounds, effort.samples(3), &|| {
                progress.inc(1)
            })?;
        progress.suspend(|| tell(&asked, &measured));
        for measured in measured {
            let Sample { median_ns, min_ns, samples, .. } = measured.sample;
            rows.push(Row {
                workload: case.name(),
                subject: measured.subject,
                params: case.params().with("workers", args.workers),
                tasks: case.workload().tasks(),
                ns_per_task: median_ns,
                min_ns_per_task: min_ns,
                samples,
            });
        }
    }
    progress.finish_and_clear();
    if effort.json {
        doubts.print_json(&rows, |_| Some(args.workers.into()))?;
    } else {
        print!("{}", table::table(&rows));
    }
    Ok(())
}

/// Says on the standard error what was measured, as the table comes last: who interrupts a long run has that much.
pub fn tell(case: &Params, measured: &[Measurement]) {
    let times: Vec<String> =
        measured.iter().map(|row| format!("{} {:.1} ns", row.subject, row.sample.median_ns)).collect();
    castell_host::say::raw(&format!("{case}: {}\n", times.join(", ")));
}

/// How often a case is measured.
pub fn turns(subjects: &[Box<dyn Subject>], effort: Effort) -> u64 {
    subjects.len() as u64 * u64::from(effort.rounds)
}

/// castell under each scheduler, then who else is there.
fn subjects(args: &TaskArgs, peers: bool) -> Vec<Box<dyn Subject>> {
    let castell = |scheduler: &String| {
        let (scheduler, workers) = (scheduler.clone(), args.workers as usize);
        Box::new(Castell { scheduler, workers }) as Box<dyn Subject>
    };
    let mut subjects: Vec<_> = args.scheduler.iter().map(castell).collect();
    subjects.push(Box::new(Again { workers: args.workers as usize }));
    if peers {
        subjects.push(Box::new(rayon::Rayon));
        subjects.extend(programs::programs(&args.given()));
    }
    subjects
}

/// Our runtime. One is built a round, so that nobody's idle workers disturb the next subject.
struct Castell {
    scheduler: String,
    workers: usize,
}

impl Subject for Castell {
    fn name(&self) -> String {
        format!("castell, {}", self.scheduler)
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let Some(case) = Case::of(case) else { return Ok(None) };
        let runtime = Runtime::builder().workers(self.workers).scheduler(&self.scheduler).build()?;
        let mut prepared = match case.workload().prepare() {
            Ok(prepared) => prepared,
            Err(reason) => {
                castell_host::say(&format!("{} is left out: {reason}", case.name()));
                return Ok(None);
            }
        };
        time(&runtime, &mut prepared)?; // warms up
        let mut taken = Vec::new();
        for _ in 0..samples {
            taken.push(time(&runtime, &mut prepared)? / case.workload().tasks() as f64);
        }
        prepared.check().map_err(anyhow::Error::msg)?;
        Ok(Some(Sample::of(taken)))
    }
}

/// Our runtime with graphs whose dependences were found before.
struct Again {
    workers: usize,
}

impl Subject for Again {
    fn name(&self) -> String {
        "castell, graph run again".to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let Some(workload) = Case::of(case).map(|case| case.workload()) else { return Ok(None) };
        let Some(mut graph) = workload.graph() else { return Ok(None) };
        let runtime = Runtime::builder().workers(self.workers).build()?;
        runtime.run(|context| graph.run(context, 1))??; // finds the dependences
        let mut taken = Vec::new();
        for _ in 0..samples {
            let ns = runtime.run(|context| {
                let start = Instant::now();
                graph.run(context, 1).map(|()| start.elapsed().as_nanos() as f64)
            })??;
            taken.push(ns / workload.tasks() as f64);
        }
        Ok(Some(Sample::of(taken)))
    }
}

/// One run, in nanoseconds.
fn time(runtime: &Runtime, prepared: &mut Prepared) -> anyhow::Result<f64> {
    prepared.reset();
    Ok(runtime.run(|context| {
        let start = Instant::now();
        prepared.run(context).map(|()| start.elapsed().as_nanos() as f64)
    })??)
}
