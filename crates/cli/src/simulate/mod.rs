//! `castell simulate`: a program on a machine that a cost model describes.

mod report;
mod sweep;
mod watch;

use crate::timeline::{TimelineArgs, svg_file};
use crate::{afford, model, patterns, source};
use anyhow::{Context, bail};
use castell_base::{Rank, Time};
use castell_collectives::generator::{GENERATORS, Generator, GeneratorError, Options};
use castell_collectives::pattern::Pattern;
use castell_goal::file::Contents;
use castell_host::threads::Lent;
use castell_model::noise::{Detours, NoisyModel};
use castell_model::topology::Topology;
use castell_sim::instruments::{Bandwidth, Counts, CriticalPath, Queues, Recorder, Waits};
use castell_sim::{Machine, Outcome, Schedules, SimError, Simulation, Source, Threads as _};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use watch::Watch;

/// Simulate a program on a machine that a cost model describes
///
/// Prints when each rank is done. The program is a file, or a pattern by name; `castell simulate --list` lists those.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell simulate examples/goal/wavefront.goal
  castell simulate bcast:binomial --ranks 1024 --json \\
      --model loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535
  castell simulate allreduce:m1g2a3,n1g3a2 --ranks 7 --compute 10ns \\
      --model plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns \\
      --timeline allreduce.svg
  castell simulate barrier:dissemination --ranks 64 --repeat 100 --seed 7 \\
      --model 'loggops:o=normal(1500ns,100ns)'
  castell simulate alltoall:linear --ranks 64 --bytes 100000 \\
      --network torus:dims=4x4x4,link=10ns,G=0.1ns
  castell simulate barrier:dissemination barrier:linear --sweep ranks=2..1024 --svg growth.svg
  castell simulate trace.bin --model loggops:o=1us --measure --critical-path")]
pub struct Args {
    /// A file (GOAL text, LogGOPSim's binary format, compiled schedules; `-` is standard input), or a pattern's name;
    /// with --sweep any number of patterns
    #[arg(required_unless_present = "list", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// The cost model and its parameters, e.g. plb:alpha_p=880ns,alpha_r=380ns; a name alone has documented defaults.
    /// Parameters may vary: loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns). Or a file: model.toml
    #[arg(long, default_value = "loggops", value_parser = model::noisy)]
    model: NoisyModel,
    /// Links that messages share, e.g. torus:dims=4x4x4,link=10ns,G=0.1ns (fattree, dragonfly, mesh, hypercube,
    /// butterfly, star, file:NAME)
    #[arg(long, value_parser = model::network)]
    network: Option<Arc<Topology>>,
    /// What the operating system takes: a file with lines `START DURATION` in nanoseconds, as netgauge writes them
    #[arg(long, value_name = "FILE")]
    detours: Option<PathBuf>,
    /// Detours are made at the same time on all ranks
    #[arg(long, requires = "detours")]
    detours_together: bool,
    /// Simulate so many times with different random numbers, and print statistics
    #[arg(long, default_value_t = 1, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// What random numbers start from: the same seed gives the same results
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many threads share a large run, or repeated runs (default: one a processor); results do not depend on it
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Count messages and bytes, bandwidth, waiting and queues
    #[arg(long)]
    measure: bool,
    /// Print the chain of operations and messages that the end had to wait for
    #[arg(long)]
    critical_path: bool,
    /// Simulate patterns for each of a range of ranks, bytes, segment or ways: doubled from one to the next
    /// (ranks=2..1024), or by another step (ranks=2..64:+2, bytes=1K..16M:*4)
    #[arg(long, value_name = "WHAT=LOW..HIGH[:STEP]", value_parser = sweep::Sweep::parse)]
    #[arg(conflicts_with_all = ["timeline", "measure", "critical_path", "detours", "list"])]
    sweep: Option<sweep::Sweep>,
    /// Draw the makespans of a sweep; of repeated runs with a band from the shortest to the longest
    #[arg(long, value_name = "FILE.svg", requires = "sweep", value_parser = svg_file)]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Leave the ranks' end times out
    #[arg(long)]
    summary: bool,
    /// List the patterns that have a name, and stop
    #[arg(long)]
    list: bool,
    // Last: its heading would stand above all that follows.
    #[command(flatten)]
    pattern: PatternArgs,
}

/// What patterns need to know.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Patterns")]
struct PatternArgs {
    /// Size of the group
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// Size of a message, or of what each rank contributes
    #[arg(long, default_value_t = 8, value_name = "B")]
    bytes: u64,
    /// How long a rank computes a stage
    #[arg(long, default_value = "0ns", value_name = "TIME", value_parser = Time::parse, allow_hyphen_values = true)]
    compute: Time,
    /// Where broadcasts begin and reductions end
    #[arg(long, default_value_t = 0, value_name = "RANK")]
    root: u32,
    /// Size of a piece, for what goes in pieces
    #[arg(long, default_value_t = 65536, value_name = "B")]
    segment: u64,
    /// Messages that a rank sends a round, for what has a choice
    #[arg(long, default_value_t = 1, value_name = "K")]
    ways: u32,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        patterns::list(args.json);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(sweep) = &args.sweep {
        return sweep.run(&args);
    }
    args.timeline.check()?;
    let [name] = &args.programs[..] else {
        bail!("one program at a time, or several patterns with --sweep ranks=2..64");
    };
    let threads = Lent::new(args.threads);
    let program = load(name, &args.pattern, &threads)?;
    let machine = machine(&args)?;
    insist_on_memory(&args, program.source()).with_context(|| name.to_string())?;
    let started = Instant::now();
    let watched = simulate(&args, program.source(), &machine, &threads).with_context(|| name.to_string())?;
    let report = Report {
        name,
        model: args.model.to_string(),
        watched: &watched,
        network: args.network.as_ref().map(|network| network.to_string()),
        seed: args.seed,
        wall_ns: started.elapsed().as_nanos() as u64,
        summary: args.summary,
    };
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    if let (Some(recorder), Some(schedules)) = (&watched.recorder, &watched.schedules) {
        let mut timeline = recorder.timeline(schedules);
        timeline.title = title(name);
        timeline.subtitle = match &args.network {
            Some(network) => format!("{}; {network}", args.model),
            None => args.model.to_string(),
        };
        if let (Some(line), false) = (args.timeline.write(timeline)?, args.json) {
            println!("{line}");
        }
    }
    if watched.outcome.unreceived > 0 {
        castell_host::say(&format!("warning: {} messages were never received", watched.outcome.unreceived));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what cannot be simulated here, however it is done: a rank has a state, an operation a record, a link the time from which on
/// it is free.
fn insist_on_memory(args: &Args, source: Source<'_>) -> anyhow::Result<()> {
    const RANK_BYTES: u128 = 64;
    const RANK_IN_ROUNDS_BYTES: u128 = 16;
    const OPERATION_BYTES: u128 = 24;
    const LINK_BYTES: u128 = 8;
    let (ranks, links) = (source.ranks(), args.network.as_ref().map_or(0, |network| network.links()));
    afford::insist(&format!("a network of {links} links"), links as u128 * LINK_BYTES)?;
    if matches!(source, Source::Pattern(pattern) if pattern.rounds().is_some()) {
        return afford::insist(&format!("{ranks} ranks"), u128::from(ranks) * RANK_IN_ROUNDS_BYTES);
    }
    afford::insist(&format!("{ranks} ranks"), u128::from(ranks) * RANK_BYTES)?;
    let operations = watch::operations_of(source);
    let bytes = u128::from(ranks) * RANK_BYTES + u128::from(operations) * OPERATION_BYTES;
    afford::insist(&format!("{operations} operations of {ranks} ranks"), bytes)
}

fn machine(args: &Args) -> anyhow::Result<Machine> {
    let mut machine = Machine::from(args.model.clone());
    if let Some(network) = &args.network {
        machine = machine.with_network(network.clone());
    }
    if let Some(file) = &args.detours {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let detours = Detours::parse(&text).with_context(|| file.display().to_string())?;
        machine = machine.with_detours(detours, args.detours_together);
    }
    if args.repeat > 1 && machine.is_quiet() {
        bail!(
            "all {} runs would be the same; let a parameter vary, as in --model 'loggops:o=normal(1500ns,100ns)', or leave --repeat out",
            args.repeat
        );
    }
    Ok(machine)
}

/// What is simulated.
enum Loaded {
    File(Box<Contents>),
    Pattern(Box<dyn Pattern>),
}

impl Loaded {
    fn source(&self) -> Source<'_> {
        match self {
            Loaded::File(contents) => match &**contents {
                Contents::Program(program) => Source::Program(program),
                Contents::Schedules(set) => Source::Set(set),
            },
            Loaded::Pattern(pattern) => Source::from(pattern),
        }
    }
}

/// A file where there is one of that name, else a pattern.
fn load(name: &str, args: &PatternArgs, threads: &Lent) -> anyhow::Result<Loaded> {
    let path = Path::new(name);
    if name == "-" || path.exists() {
        let contents = source::contents_on(path, threads)?;
        let program = Loaded::File(Box::new(contents));
        let ranks = program.source().ranks();
        if let Some(asked) = args.ranks.filter(|&asked| asked != ranks) {
            bail!(
                "{name} is a program of {ranks} ranks and cannot be simulated with {asked}; leave --ranks out"
            );
        }
        return Ok(program);
    }
    let options = Options {
        ranks: args.ranks.unwrap_or(1),
        bytes: args.bytes,
        compute: args.compute,
        root: Rank(args.root),
        segment_bytes: args.segment,
        ways: args.ways,
    };
    let named = |pattern: &Generator| pattern.name == name || pattern.alias == name;
    let known = GENERATORS.iter().any(named) || name.contains(':');
    if args.ranks.is_none() && known {
        bail!("{name} is no file, and a pattern needs a number of ranks; give --ranks");
    }
    let pattern = Generator::parse(name, &options);
    if matches!(pattern, Err(GeneratorError::Unknown { .. })) {
        bail!(
            "{name} is neither a file that there is nor a pattern{} (castell simulate --list tells all patterns)",
            patterns::meant(name)
        );
    }
    Ok(Loaded::Pattern(pattern?))
}

/// A run, what was watched of it, and the runs after it.
struct Watched<'a> {
    outcome: Outcome,
    /// Where anything was watched.
    schedules: Option<Schedules<'a>>,
    recorder: Option<Recorder>,
    measures: Option<Measures>,
    path: Option<CriticalPath>,
    /// Makespan and skew of each run, the first one too.
    repeats: Vec<(Time, Time)>,
}

type Measures = ((Counts, Bandwidth), (Waits, Queues));

fn simulate<'a>(
    args: &Args,
    source: Source<'a>,
    machine: &Machine,
    threads: &Lent,
) -> Result<Watched<'a>, SimError> {
    let mut recorder = args.timeline.timeline.is_some().then(Recorder::default);
    let mut measures = args.measure.then(Measures::default);
    let mut path = args.critical_path.then(CriticalPath::default);
    let watches = recorder.is_some() || measures.is_some() || path.is_some();
    let schedules = if watches || args.repeat > 1 { Some(Schedules::new(source)?) } else { None };
    let source = schedules.as_ref().map_or(source, Source::from);
    let mut progress = Watch::new(source, args.repeat, args.sweep.is_some());
    let tell = progress.teller();
    let first = Simulation::new(source, machine).with_seed(args.seed).with_threads(threads);
    let first = first.with_progress(&tell);
    let outcome = match watches {
        true => first.run_with((&mut progress, (&mut recorder, (&mut measures, &mut path))))?,
        false => first.run_fast_or_with(&mut progress)?,
    };
    let mut repeats = vec![(outcome.makespan(), outcome.skew())];
    repeats.extend(repeat(args, source, machine, threads, &progress)?);
    progress.finish();
    Ok(Watched { outcome, schedules, recorder, measures, path, repeats })
}

/// Makespan and skew of each run after the first, in order, whichever thread has simulated it.
fn repeat(
    args: &Args,
    source: Source<'_>,
    machine: &Machine,
    threads: &Lent,
    progress: &Watch,
) -> Result<Vec<(Time, Time)>, SimError> {
    let runs = u64::from(args.repeat);
    let one = |repetition: u64| {
        let seed = castell_base::random::repetition_seed(args.seed, repetition);
        let tell = progress.teller();
        let run = Simulation::new(source, machine).with_seed(seed).with_progress(&tell);
        run.run_fast_or_with(progress.clone()).map(|outcome| (outcome.makespan(), outcome.skew()))
    };
    let threads = (threads.count() as u64).min(runs - 1);
    if threads <= 1 {
        return (1..runs).map(one).collect();
    }
    let next = AtomicU64::new(1);
    let share = || {
        let taken = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        taken.take_while(|&repetition| repetition < runs).map(|at| (at, one(at))).collect::<Vec<_>>()
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|taken| taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(repetition, _)| *repetition);
    done.into_iter().map(|(_, run)| run).collect()
}

fn title(name: &str) -> String {
    let path = PathBuf::from(name);
    match path.exists() {
        true => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        false => name.to_string(),
    }
}
