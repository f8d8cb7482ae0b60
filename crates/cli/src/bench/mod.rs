//! `castell bench`: measures this machine, castell beside its peers, in interleaved rounds.
//!
//! A [`Workload`] lists its cases (message sizes, say) and its subjects: castell first, then plain code where that is
//! the yardstick. MPI implementations found on the machine join with the program of the same name below
//! `benches/mpi/`. Every subject measures a case once a round, A B A B …, so that a machine that slows down slows
//! down all of them; the figures are the median of the rounds' medians and the minimum of their minima.

pub mod collectives;
mod group;
mod localops;
mod messages;
mod overlap;
mod parse;
pub mod peers;
mod pingpong;
mod plain;
mod progress;
mod queues;
mod report;
mod sim;
mod startup;
mod tasks;

use anyhow::Context as _;
use castell_comm::tuning::Tuning;
use peers::Peer;
use report::{Measurement, Report};
pub use report::{Params, Sample};
use std::process::ExitCode;

/// Measure this machine, side by side with peers
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell bench pingpong                            beside the MPI implementations found here
  castell bench collectives --ops allreduce,barrier --ranks 2,4 --bytes 8,4096
  castell bench collectives --no-peers --algorithm all --ops bcast --bytes 65536
  castell bench overlap --matrix 192                a collective beside a computation
  castell bench tasks chain fib --json              beside libgomp, libomp, oneTBB, StarPU, rayon
  castell bench metg --workers 2                    how small tasks may be (Task Bench)

On a machine that is busy with something else, compare only what one run says.")]
pub struct Args {
    /// What to measure
    #[arg(value_parser = names())]
    workload: String,
    /// For tasks: which programs, with their sizes, as chain or axpy:block=1024 (default: all)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<tasks::Case>,
    /// Print JSON: one object a case and subject
    #[arg(long)]
    json: bool,
    /// Measure the peers on this machine too: MPI implementations, task runtimes (the default)
    #[arg(long, overrides_with = "no_peers")]
    peers: bool,
    /// Leave the peers out
    #[arg(long)]
    no_peers: bool,
    /// Samples a round, case and subject (default: the workload's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Rounds in which the subjects take turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Sizes to measure, as 8,4096 (default: the workload's)
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    bytes: Option<Vec<u64>>,
    #[command(flatten)]
    collectives: collectives::CollectivesArgs,
    #[command(flatten)]
    overlap: overlap::OverlapArgs,
    #[command(flatten)]
    sim: sim::SimArgs,
    #[command(flatten)]
    tasks: tasks::TaskArgs,
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

/// The workloads that castell can measure.
const WORKLOADS: [&dyn Workload; 7] = [
    &pingpong::PingPong,
    &messages::Messages,
    &localops::LocalOps,
    &queues::Queues,
    &startup::StartUp,
    &progress::ProgressWays,
    &parse::Parse,
];

/// The workloads' names, and those that go their own ways.
fn names() -> Vec<&'static str> {
    WORKLOADS
        .iter()
        .map(|workload| workload.name())
        .chain(["collectives", "overlap", "sim", "tasks", "metg"])
        .collect()
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.programs.is_empty() && args.workload != "tasks" {
        anyhow::bail!("only `castell bench tasks` takes the names of programs");
    }
    let samples = args.samples.unwrap_or(3);
    match args.workload.as_str() {
        "tasks" => {
            return tasks::run(&args.programs, &args.tasks, !args.no_peers, args.json, args.rounds, samples);
        }
        "metg" => return tasks::metg::run(&args.tasks, !args.no_peers, args.json, args.rounds, samples),
        _ => (),
    }
    if args.workload == "sim" {
        return sim::run(&args.sim, !args.no_peers, args.json, args.rounds, args.samples.unwrap_or(3));
    }
    if args.workload == "collectives" {
        let Args { json, no_peers, rounds, samples, ref bytes, .. } = args;
        return collectives::run(
            &args.collectives,
            bytes.as_deref(),
            args.sim.ranks.as_deref(),
            !no_peers,
            json,
            rounds,
            samples.unwrap_or(10),
        );
    }
    if args.workload == "overlap" {
        let Args { json, no_peers, rounds, samples, ref bytes, .. } = args;
        let (bytes, ranks) = (bytes.as_deref(), args.sim.ranks.as_deref());
        let samples = samples.unwrap_or(20);
        return overlap::run(&args.overlap, bytes, ranks, !no_peers, json, rounds, samples);
    }
    let workload = WORKLOADS.iter().find(|workload| workload.name() == args.workload);
    let workload = *workload.context("clap accepts only the names of workloads")?;
    let mut subjects = workload.subjects()?;
    if let Some(ranks) = workload.peer_ranks().filter(|_| !args.no_peers) {
        let peers = peers::wanted(true)?;
        subjects.extend(peers.into_iter().map(|peer| at_ranks(peer, workload.name(), ranks)));
    }
    let samples = args.samples.unwrap_or_else(|| workload.samples());
    let cases = workload.cases(args.bytes.as_deref());
    let steps = cases.len() as u64 * u64::from(args.rounds) * subjects.len() as u64;
    let mut report = Report::new(args.json, steps);
    for case in &cases {
        let rows = measure(workload.name(), case, &mut subjects, args.rounds, samples, &|| report.step())?;
        report.rows(rows);
    }
    report.end()?;
    Ok(ExitCode::SUCCESS)
}

/// The choices that calls make on this machine; says why a tuning file is not used.
fn load_tuning() -> Tuning {
    let tuning = Tuning::load();
    if let Some(reason) = &tuning.reason {
        eprintln!("castell: {reason}");
    }
    tuning
}

fn at_ranks(peer: Peer, workload: &'static str, ranks: u32) -> Box<dyn Subject> {
    Box::new(peers::PeerSubject { peer, workload, ranks })
}

/// A case, the subjects taking turns; a subject that does not know the case has no row for it.
fn measure(
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
