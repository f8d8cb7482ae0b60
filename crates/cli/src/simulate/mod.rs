//! `castell simulate`: a program on a machine that a cost model describes.

mod report;
mod watch;

use crate::source;
use crate::timeline::TimelineArgs;
use anyhow::{Context, bail};
use castell_base::{Rank, Time};
use castell_collectives::generator::{GENERATORS, Generator, GeneratorError, Options};
use castell_collectives::pattern::Pattern;
use castell_goal::file::Contents;
use castell_model::Model;
use castell_sim::instruments::{Bandwidth, Counts, CriticalPath, Queues, Recorder, Waits};
use castell_sim::{Machine, Outcome, Schedules, Simulation, Source};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use watch::Watch;

/// Simulate a program on a machine that a cost model describes
///
/// Prints when each rank is done. The program is a file, or a pattern by name; `castell simulate --list` lists those.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell simulate examples/goal/wavefront.goal
  castell simulate bcast:binomial --ranks 1024 --model loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535 --json
  castell simulate allreduce:m1g2a3,n1g3a2 --ranks 7 --compute 10ns \\
      --model plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns --timeline allreduce.svg
  castell simulate trace.bin --model loggops:o=1us --measure --critical-path")]
pub struct Args {
    /// A file (GOAL text, LogGOPSim's binary format, compiled schedules; `-` is standard input), or a pattern's name
    #[arg(required_unless_present = "list")]
    program: Option<String>,
    /// The cost model and its parameters, e.g. plb:alpha_p=880ns,alpha_r=380ns; a name alone has documented defaults
    #[arg(long, default_value = "loggops", value_parser = Model::parse)]
    model: Model,
    #[command(flatten)]
    pattern: PatternArgs,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Count messages and bytes, bandwidth, waiting and queues
    #[arg(long)]
    measure: bool,
    /// Print the chain of operations and messages that the end had to wait for
    #[arg(long)]
    critical_path: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Leave the ranks' end times out
    #[arg(long)]
    summary: bool,
    /// List the patterns that have a name, and stop
    #[arg(long)]
    list: bool,
}

/// What patterns need to know.
#[derive(clap::Args)]
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
        report::list(GENERATORS);
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.program.as_deref().unwrap_or_default();
    let program = load(name, &args.pattern)?;
    let schedules = Schedules::new(program.source()).with_context(|| name.to_string())?;
    let machine = Machine::new(args.model.clone());
    let started = Instant::now();
    let watched = simulate(&args, &schedules, &machine).with_context(|| name.to_string())?;
    let report = Report {
        name,
        model: args.model.to_string(),
        schedules: &schedules,
        outcome: &watched.outcome,
        wall_ns: started.elapsed().as_nanos() as u64,
        measures: watched.measures.as_ref(),
        path: watched.path.as_ref(),
        summary: args.summary,
    };
    let mut written = None;
    if let Some(recorder) = &watched.recorder {
        let mut timeline = recorder.timeline(&schedules);
        timeline.title = title(name);
        timeline.subtitle = args.model.to_string();
        written = args.timeline.write(&timeline)?;
    }
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
        if let Some(line) = written {
            println!("{line}");
        }
    }
    if watched.outcome.unreceived > 0 {
        eprintln!("castell: warning: {} messages were never received", watched.outcome.unreceived);
    }
    Ok(ExitCode::SUCCESS)
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
fn load(name: &str, args: &PatternArgs) -> anyhow::Result<Loaded> {
    let path = Path::new(name);
    if name == "-" || path.exists() {
        let contents = source::contents(path)?;
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
            "{name} is neither a file that there is nor a pattern (castell simulate --list tells all patterns)"
        );
    }
    Ok(Loaded::Pattern(pattern?))
}

/// A run and what was watched of it.
struct Watched {
    outcome: Outcome,
    recorder: Option<Recorder>,
    measures: Option<Measures>,
    path: Option<CriticalPath>,
}

type Measures = ((Counts, Bandwidth), (Waits, Queues));

fn simulate(
    args: &Args,
    schedules: &Schedules<'_>,
    machine: &Machine,
) -> Result<Watched, castell_sim::SimError> {
    let operations = schedules.iter().map(|(_, schedule)| schedule.len() as u64).sum();
    let mut watch = Watch::new(operations);
    let mut recorder = args.timeline.timeline.is_some().then(Recorder::default);
    let mut measures = args.measure.then(Measures::default);
    let mut path = args.critical_path.then(CriticalPath::default);
    let simulation = Simulation::new(schedules, machine);
    let outcome = simulation.run_with(((&mut watch, &mut recorder), (&mut measures, &mut path)))?;
    watch.finish();
    Ok(Watched { outcome, recorder, measures, path })
}

fn title(name: &str) -> String {
    let path = PathBuf::from(name);
    match path.exists() {
        true => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        false => name.to_string(),
    }
}
