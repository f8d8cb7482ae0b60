//! `castell tune`: measures this machine, chooses algorithms, and keeps the choice for the library.

mod doubt;
mod export;
mod hosts;
mod knobs;
mod report;
mod rules;

pub use hosts::{RankArgs, live};

use crate::doubts;
use anyhow::{Context, bail};
use castell_base::{Rank, Time};
use castell_bench::collectives::candidates;
use castell_bench::collectives::ours::{self, Candidate, Timing};
use castell_bench::collectives::{Plan, operation};
use castell_bench::multicasts::{self, Fitted, Multicasts};
use castell_bench::peers::{self, Peer};
use castell_bench::report::Sample;
use castell_collectives::collective::Memory;
use castell_collectives::decision::{Operation, TuningFile};
use castell_comm::tuning;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_host::conditions::{Conditions, Doubt, Setup};
use castell_host::topology::Processors;
use castell_model::fit::Estimator;
use castell_model::{Model, Plb};
use castell_trace::{SvgOptions, write_svg};
use clap::Subcommand;
use doubt::doubt;
use report::{Case, Tried};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an operation's processes may hold together; larger cases are left out. Bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// A peer that takes longer for a round, as where more of its ranks spin than there are processors, is asked once.
const SLOW: Duration = Duration::from_secs(4);

/// Measure this machine and choose the fastest collective algorithms
///
/// Measures what messages cost, fits a model to it, picks algorithms for each operation, number of ranks and size,
/// simulates them, and runs all of them for real, taking turns with the MPI implementations that are installed. What was
/// fastest is kept in a tuning file, which castell's library uses from then on (CASTELL_TUNING=off: it does not). What the file
/// says of calls that are not measured now stays; calls that nobody measured are left to the built-in choice.
///
/// In the table, times are in microseconds; `second` is the next best of castell's algorithms, and `ratio` the time of
/// the best peer over that of the choice.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  castell tune\n  castell tune --ops allreduce --ranks 2,4 --bytes 8,65536 --all\n  castell tune --json --output tuning.toml\n  castell tune export --openmpi rules.txt --mpich tuning.json"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Which operations
    #[arg(long, value_name = "OPS", value_delimiter = ',', value_parser = operation, default_value = "barrier,bcast,reduce,allreduce,gather,allgather,alltoall")]
    ops: Vec<Operation>,
    /// On how many ranks (default: 2,4,8, and on as many as there are processors if that is more)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=1024))]
    ranks: Option<Vec<u32>>,
    /// Which sizes of vectors, or of each rank's block
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 30), default_value = "8,4096,65536,1048576")]
    bytes: Vec<u64>,
    /// Rounds in which castell and the MPI implementations take turns; one of these that takes over 4 s for a round has one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Leave the MPI implementations out
    #[arg(long)]
    no_peers: bool,
    /// Print everything that was tried, not only what was chosen
    #[arg(long)]
    all: bool,
    /// Print one JSON object: {"machine", "model", "r_squared", "doubt", "model_of_medians", "file", "backup", "rules", "timeline", "cases": [{"operation", "ranks", "bytes", "choice", "predicted_us", "simulated_us", "measured_us", "recursive_doubling_us", "peers_us", "ratio", "tried"}]}
    #[arg(long)]
    json: bool,
    /// Write the tuning file here (default: where the library looks for it)
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Draw the chosen allreduce of the smallest size here (default: beside the tuning file)
    #[arg(long, value_name = "FILE.svg|png|pdf", value_parser = crate::picture::file)]
    timeline: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    Export(export::Args),
    Hosts(hosts::Args),
    Knobs(Box<knobs::Args>),
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::Export(args)) => return export::run(&args),
        Some(Command::Hosts(args)) => return hosts::run(&args),
        Some(Command::Knobs(args)) => return knobs::run(*args),
        None => {}
    }
    let machine = tuning::here();
    let path = match args.output.clone().or_else(tuning::own_path) {
        Some(path) => path,
        None => bail!("no place for the tuning file: neither XDG_CONFIG_HOME nor HOME is set; give --output"),
    };
    check_outputs(&path, args.timeline.as_deref())?;
    let ranks = args.ranks.clone().unwrap_or_else(|| default_ranks(Processors::usable().count() as u32));
    let mut peers = if args.no_peers { Vec::new() } else { peers::peers()? };
    let steps = 1 + ranks.len() as u64 * (1 + u64::from(args.rounds) * (1 + peers.len() as u64));
    let most_ranks = ranks.iter().copied().max().unwrap_or(2);
    let conditions = Conditions::before(Setup { ranks: most_ranks, is_bound: true });
    let progress = castell_bench::bar::bar(steps).with_message("multicasts");
    progress.tick();
    let multicasts =
        multicasts::measure(&sizes(&args.bytes), (most_ranks - 1).clamp(2, multicasts::PEERS_MAX))?;
    progress.inc(1);
    let [fitted, of_medians] =
        [Estimator::Minimum, Estimator::Median].map(|estimator| multicasts::fitted(&multicasts, estimator));
    let (fitted, of_medians) = (fitted?, of_medians?);
    let mut cases = Vec::new();
    for &ranks in &ranks {
        let call =
            Round { args: &args, ranks, plb: fitted.as_ref().map(|fitted| &fitted.plb), progress: &progress };
        cases.extend(call.cases(&mut peers)?);
    }
    progress.finish_and_clear();
    cases.sort_by_key(|case| {
        (Operation::ALL.iter().position(|&op| op == case.operation), case.ranks, case.bytes)
    });
    let rules = rules::rules(&cases)?;
    let doubt = fitted.as_ref().and_then(|fitted| {
        let tried = cases.iter().flat_map(|case| &case.tried);
        doubt(fitted.r_squared, tried.filter_map(|tried| Some(tried.measured_us / tried.predicted_us?)))
    });
    let model = fitted.as_ref().filter(|_| doubt.is_none()).map(|fitted| fitted.plb.clone());
    let mut file = TuningFile { castell: env!("CARGO_PKG_VERSION").into(), machine, model, rules };
    let measured = file.rules.len();
    let backup = keep_earlier(&mut file, &path)?;
    write(&path, file.to_toml().as_bytes())?;
    let timeline = draw(&args, &cases, &path)?;
    let peers = !peers.is_empty();
    report(
        &args,
        &Outcome {
            file,
            measured,
            fitted,
            doubt,
            of_medians,
            multicasts,
            cases,
            path,
            backup,
            timeline,
            peers,
            doubts: conditions.after(),
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Before minutes are spent: whether the results can be written.
fn check_outputs(file: &Path, timeline: Option<&Path>) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    // What was tuned before is added to, and kept beside it.
    castell_host::check_writable(file).with_context(|| format!("cannot write {}", file.display()))?;
    timeline.map_or(Ok(()), crate::output::check)
}

struct Outcome {
    file: TuningFile,
    /// How many of its rules were measured now.
    measured: usize,
    fitted: Option<Fitted>,
    /// Why the model is not kept.
    doubt: Option<String>,
    of_medians: Option<Fitted>,
    multicasts: Multicasts,
    cases: Vec<Case>,
    path: PathBuf,
    /// The file as it was before.
    backup: Option<PathBuf>,
    timeline: Option<PathBuf>,
    peers: bool,
    /// Why the measurements are doubtful.
    doubts: Vec<Doubt>,
}

/// What was tuned here before stays where nothing was measured now, and the file as it was is kept beside; its name.
fn keep_earlier(file: &mut TuningFile, path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    if text.is_empty() {
        return Ok(None);
    }
    match TuningFile::parse(&text) {
        Ok(earlier) => match earlier.clone().decisions_on(&file.machine) {
            Ok(_) => file.merge(earlier),
            Err(foreign) => castell_host::say(&format!("{} is not added to: {foreign}", path.display())),
        },
        Err(error) => castell_host::say(&format!("{} is not added to: {error}", path.display())),
    }
    let backup = path.with_extension("toml.last");
    write(&backup, text.as_bytes())?;
    Ok(Some(backup))
}

/// 2, 4, 8 and the number of processors.
fn default_ranks(processors: u32) -> Vec<u32> {
    let mut ranks = vec![2, 4, 8];
    if processors > 8 {
        ranks.push(processors.min(64));
    }
    ranks
}

/// The sizes that multicasts are measured with: 8 bytes among them, which the drawing needs.
fn sizes(bytes: &[u64]) -> Vec<u64> {
    let mut sizes: Vec<u64> = bytes.iter().copied().chain([8]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// All operations and sizes on one number of ranks.
struct Round<'a> {
    args: &'a Args,
    ranks: u32,
    plb: Option<&'a Plb>,
    progress: &'a indicatif::ProgressBar,
}

impl Round<'_> {
    fn cases(&self, peers: &mut [Peer]) -> anyhow::Result<Vec<Case>> {
        let ranks = self.ranks;
        let timing = Timing { samples: 3, budget_us: 500, limit_ms: 40, in_a_row: false, started: false };
        // A peer is asked for all operations of the same sizes at once.
        let holds =
            |&bytes: &u64| bytes.saturating_mul(u64::from(ranks)).saturating_mul(2 * u64::from(ranks));
        let bytes: Vec<u64> =
            self.args.bytes.iter().copied().filter(|bytes| holds(bytes) <= MEMORY_BYTES_MAX).collect();
        let plan = Plan { operations: self.args.ops.clone(), bytes, timing };
        let calls = plan.cases();
        let sets: Vec<Vec<Candidate>> = calls
            .iter()
            .map(|&(operation, bytes)| candidates::candidates(operation, ranks, bytes, self.plb))
            .collect();
        let mut ours: Vec<Vec<Vec<Sample>>> = sets.iter().map(|set| vec![Vec::new(); set.len()]).collect();
        let mut theirs: Vec<Vec<Vec<Sample>>> = peers.iter().map(|_| vec![Vec::new(); calls.len()]).collect();
        let mut is_slow = vec![false; peers.len()];
        for _ in 0..self.args.rounds {
            self.step(&format!("{ranks} ranks: castell"));
            let samples = ours::measure(ranks, &sets, timing)?;
            for (all, samples) in ours.iter_mut().flatten().zip(samples.into_iter().flatten()) {
                all.push(samples);
            }
            for ((peer, theirs), is_slow) in peers.iter_mut().zip(&mut theirs).zip(&mut is_slow) {
                self.step(&format!("{ranks} ranks: {}", peer.name()));
                if *is_slow {
                    continue;
                }
                let began = Instant::now();
                let samples = plan.measure_peer(peer, ranks)?;
                *is_slow = began.elapsed() > SLOW;
                theirs.iter_mut().zip(samples).for_each(|(all, sample)| all.push(sample));
            }
        }
        self.step(&format!("{ranks} ranks: simulating"));
        let us = |samples: &[Sample]| {
            Sample::over_rounds(samples).map_or(f64::NAN, |sample| sample.median_ns / 1e3)
        };
        let mut cases = Vec::new();
        for (index, (operation, bytes)) in calls.into_iter().enumerate() {
            let tried = sets[index].iter().zip(&ours[index]);
            let mut tried: Vec<Tried> = tried
                .map(|(candidate, samples)| self.tried(candidate, us(samples)))
                .collect::<anyhow::Result<_>>()?;
            tried.sort_by(|a, b| a.measured_us.total_cmp(&b.measured_us));
            let peer =
                |(peer, theirs): (&Peer, &Vec<Vec<Sample>>)| (peer.name().to_owned(), us(&theirs[index]));
            let peers = peers.iter().zip(&theirs).map(peer).collect();
            cases.push(Case { operation, ranks, bytes, tried, peers });
        }
        Ok(cases)
    }

    fn tried(&self, candidate: &Candidate, measured_us: f64) -> anyhow::Result<Tried> {
        let us = |time: Time| time.as_ns_f64() / 1e3;
        let predicted_us = self.plb.and_then(|plb| candidates::predicted(candidate, self.ranks, plb)).map(us);
        let simulated = self.plb.map(|plb| candidates::simulated(candidate, self.ranks, plb)).transpose()?;
        Ok(Tried { candidate: candidate.clone(), predicted_us, simulated_us: simulated.map(us), measured_us })
    }

    fn step(&self, message: &str) {
        self.progress.set_message(message.to_owned());
        self.progress.inc(1);
    }
}

fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let what = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(what)?;
    }
    // Whole or not at all, also where ranks read it at this moment.
    castell_host::replace_file(path, contents, 0o666).with_context(what)
}

/// Runs the chosen allreduce of the smallest size once, on the most ranks that a drawing is readable with, and draws it.
fn draw(args: &Args, cases: &[Case], path: &Path) -> anyhow::Result<Option<PathBuf>> {
    const RANKS_MAX: u32 = 16;
    let drawn = cases.iter().filter(|case| case.operation == Operation::Allreduce && case.ranks <= RANKS_MAX);
    let Some(case) = drawn.max_by_key(|case| (case.ranks, std::cmp::Reverse(case.bytes))) else {
        return Ok(None);
    };
    let collective = case.choice().candidate.collective(case.ranks)?;
    let element = if case.bytes.is_multiple_of(8) { ElementType::F64 } else { ElementType::U8 };
    let add = Arithmetic::new(Operator::Add, element)?;
    let mut schedules = Vec::new();
    for rank in (0..case.ranks).map(Rank) {
        let [input, output, temporary] =
            [0, 1, 2].map(|at| Place::scratch(at * case.bytes.next_multiple_of(64)));
        let memory = Memory { input, output, temporary, in_place: false, combine: &add };
        let mut graph = Graph::new();
        graph.allocate_scratchpad(2 * case.bytes.next_multiple_of(64));
        collective.weave(rank, &memory, &mut graph)?;
        schedules.push(Arc::new(graph.compile()?));
    }
    let title = format!(
        "{} of {} bytes on {} ranks",
        case.choice().candidate.choice.algorithm,
        case.bytes,
        case.ranks
    );
    let timeline = crate::run::record(&schedules, &title)?;
    let path = args.timeline.clone().unwrap_or_else(|| path.with_extension("svg"));
    let mut svg = Vec::new();
    write_svg(&timeline, &SvgOptions::default(), &mut svg)?;
    crate::picture::write(&path, svg)?;
    Ok(Some(path))
}

fn report(args: &Args, outcome: &Outcome) -> anyhow::Result<()> {
    let Outcome { file, fitted, doubt, of_medians, multicasts, cases, path, backup, timeline, .. } = outcome;
    let text = |fitted: &Option<Fitted>| {
        fitted.as_ref().map(|fitted| (Model::Plb(fitted.plb.clone()).to_string(), fitted.r_squared))
    };
    if args.json {
        let machine = &file.machine;
        let object = json!({
            "machine": {"host": machine.host, "processor": machine.processor, "processors": machine.processors, "transport": machine.transport},
            "model": text(fitted).map(|model| model.0), "r_squared": text(fitted).map(|model| model.1), "doubt": doubt,
            "model_of_medians": text(of_medians).map(|model| model.0), "multicasts": multicasts.samples.len(),
            "file": path, "backup": backup, "rules": file.rules.len(), "timeline": timeline, "doubts": doubts::json(&outcome.doubts), "cases": cases.iter().map(Case::json).collect::<Vec<_>>(),
        });
        println!("{object}");
        return Ok(());
    }
    println!("{}", file.machine);
    match text(fitted) {
        Some((model, r_squared)) => println!(
            "fitted to {} multicasts, their minima: {model} (R² {r_squared:.3})",
            multicasts.samples.len()
        ),
        None => println!("no machine has the parameters that fit the multicasts: tuned without a model"),
    }
    if let Some((model, r_squared)) = text(of_medians) {
        println!("their medians: {model} (R² {r_squared:.3})");
    }
    if let Some(doubt) = doubt {
        println!("warning: the model is not kept: {doubt}; choices rest on measurements alone");
    }
    doubts::say(&outcome.doubts);
    println!("\n{}", report::table(cases, args.all));
    let tried: usize = cases.iter().map(|case| case.tried.len()).sum();
    println!(
        "choice: what took least when run for real, for {} calls of {tried} that were tried{}",
        cases.len(),
        if args.all { "" } else { " (--all lists them)" }
    );
    if !outcome.peers && !args.no_peers {
        println!("{}", peers::NONE_FOUND);
    }
    println!(
        "tuning file: {} ({} rules, {} of them from before; castell's collectives use it from now on)",
        path.display(),
        file.rules.len(),
        file.rules.len() - outcome.measured
    );
    if let Some(backup) = backup {
        println!("as it was before: {}", backup.display());
    }
    if let Some(timeline) = timeline {
        println!("timeline: {} (open it in a browser)", timeline.display());
    }
    Ok(())
}
