//! `castell tune knobs`: any integers that can be set, and what they do to anything that can be measured.

mod commands;
mod first;
mod left;
mod measured;
mod profile;
mod report;

use crate::look::LookArgs;
use anyhow::bail;
use castell_host::signal::Signals;
use castell_knobs::{CrossEntropy, Genetic, Goal, Knob, Space, cross_entropy, genetic, random};
use clap::ValueEnum;
use commands::Commands;
use first::First;
use measured::Measured;
use profile::Profile;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell tune knobs --knob BLOCK=16..4096:*2 --knob THREADS=1..8 --measure './program $BLOCK $THREADS' --seconds
  castell tune knobs --knob OMP_NUM_THREADS=1..16 --most --measure './stream | awk \"/Triad/ {print \\$2}\"' --svg threads.svg
  castell tune knobs --profile busy-poll --measure 'castell bench messages --json' --pointer /0/median_ns
  castell tune knobs --profile ethtool=eth0 --measure ./ping-pong --search genetic
  castell tune knobs --undo                    puts back what a killed run has left

Each knob is a variable in the environment of all commands, with `_` for `-`. `--set` may need to do more: it runs before each
measurement. What was set before is put back at the end, also after Ctrl-C; after a kill by the next `castell tune knobs`.

Exit code: 0; 1 if nothing could be measured or put back; 2 for wrong usage; 130 after Ctrl-C.";

/// Find out which settings of any knobs matter, and which are best
///
/// Random settings are measured first: a linear model of them says which knob matters, by how much, and how certain that is.
/// Then a search looks for the best setting. The best ones are measured again, in turns with what was set before.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command that measures, for sh: the last number that it prints counts
    #[arg(long, value_name = "CMD", required_unless_present = "undo")]
    measure: Option<String>,
    /// A knob and its values, as rx-usecs=1..1023, BLOCK=16..4096:*2 or THREADS=2..64:2 (repeatable)
    #[arg(long = "knob", value_name = "NAME=LO..HI[:STEP]", value_parser = Knob::parse)]
    knobs: Vec<Knob>,
    /// The command that sets the knobs, before each measurement (default: they are in the environment of --measure)
    #[arg(long, value_name = "CMD")]
    set: Option<String>,
    /// The command that prints what is set now, NAME=VALUE for each knob: --set puts it back
    #[arg(long, value_name = "CMD", requires = "set")]
    get: Option<String>,
    /// The command that puts back what was set, instead of --set with what --get has printed
    #[arg(long, value_name = "CMD", requires = "set")]
    restore: Option<String>,
    /// Knobs that are known, with --get and --set: `busy-poll`, or `ethtool=INTERFACE` (its interrupt coalescing)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["set", "get", "restore"])]
    profile: Option<Profile>,
    /// More is better, as with a rate
    #[arg(long)]
    most: bool,
    /// The measurement prints JSON, and this is where the number stands (RFC 6901), as /0/median_ns
    #[arg(long, value_name = "POINTER")]
    pointer: Option<String>,
    /// The seconds that the command takes count, and not what it prints
    #[arg(long, conflicts_with = "pointer")]
    seconds: bool,
    /// Measurements of each setting, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Random settings, for the linear model
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
    /// How the best setting is looked for
    #[arg(long, value_enum, default_value = "cross-entropy")]
    search: Search,
    /// Settings that the search measures (default: 150; genetic: --population times --generations)
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
    /// Settings of a generation of the genetic search
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    population: u32,
    /// Its generations
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    generations: u32,
    /// Rounds in which the best settings take turns with what was set before
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Of all random numbers (default: another one each time)
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds after which a command is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Draw what was measured over each knob's values: boxes from quartile to quartile
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Write all measurements
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Only put back what killed runs have left
    #[arg(long, exclusive = true)]
    undo: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Search {
    /// Normal distributions that move to where the best settings lay
    CrossEntropy,
    /// Roulette wheel, uniform crossover, mutation: as in ESPGOAL's chapter 6.2
    Genetic,
    /// No plan
    Random,
}

impl Search {
    fn name(self) -> &'static str {
        match self {
            Search::CrossEntropy => "cross-entropy",
            Search::Genetic => "genetic",
            Search::Random => "random",
        }
    }
}

/// Best settings that take turns at the end.
const FINALISTS: usize = 3;

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Before there is another thread: the signals are looked for where something is waited for.
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
    let timeout = Duration::from_secs(args.timeout);
    left::put_back(timeout)?;
    let Some(measure) = args.measure.clone() else { return Ok(ExitCode::SUCCESS) };
    for path in args.svg.iter().chain(&args.csv) {
        crate::output::check(path)?;
    }
    let (space, set) = wanted(&args)?;
    let goal = if args.most { Goal::Most } else { Goal::Least };
    let commands =
        Commands { measure, set, pointer: args.pointer.clone(), seconds: args.seconds, timeout, signals };
    let first = First::of(&space, &commands, &args)?;
    let seed = args.seed.unwrap_or_else(|| {
        std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 % 1_000_000)
    });
    let mut measured = Measured::new(&space, &commands, goal, args.repeats, limits(&args));
    let searched = search(&args, &space, goal, seed, &mut measured);
    let finals = searched.and_then(|()| measured.finals(&first, FINALISTS, args.rounds));
    // Whatever happened: first of all it is as it was.
    first.put_back(&commands)?;
    let outcome = report::Outcome {
        space: &space,
        goal,
        seed,
        search: args.search,
        measured: &measured,
        finals: &finals,
    };
    let exit = match &finals {
        Ok(_) => ExitCode::SUCCESS,
        Err(measured::Stop::Signal(signal)) => ExitCode::from(128 + *signal as u8),
        Err(measured::Stop::Nothing(why)) => bail!("nothing can be measured: {why}"),
    };
    report::write(&args, &outcome)?;
    Ok(exit)
}

/// The knobs, and the command that sets them.
fn wanted(args: &Args) -> anyhow::Result<(Space, Option<String>)> {
    let (mut knobs, set) = match &args.profile {
        Some(profile) => (profile.knobs(), Some(profile.set())),
        None => (Vec::new(), args.set.clone()),
    };
    // One that is given has other values than the profile says.
    knobs.retain(|known| args.knobs.iter().all(|given| given.variable() != known.variable()));
    knobs.extend(args.knobs.iter().cloned());
    if set.is_some() && args.profile.is_none() && args.get.is_none() && args.restore.is_none() {
        bail!("--set needs --get, which prints what is set now, or --restore, which puts it back");
    }
    Ok((Space::new(knobs)?, set))
}

/// How many settings are measured at random, and by the search.
fn limits(args: &Args) -> (u64, u64) {
    let usual = match args.search {
        Search::Genetic => u64::from(args.population) * u64::from(args.generations),
        _ => 150,
    };
    (args.samples.into(), args.budget.map_or(usual, u64::from))
}

fn search(
    args: &Args,
    space: &Space,
    goal: Goal,
    seed: u64,
    measured: &mut Measured,
) -> Result<(), measured::Stop> {
    measured.begin(measured::Part::Samples);
    // It ends where measuring does.
    let _ = random(space, seed, |setting| measured.measure(setting));
    measured.stopped()?;
    measured.begin(measured::Part::Search);
    let (population, generations) = (args.population as usize, args.generations as usize);
    let numbers = Genetic { population, generations, ..Genetic::default() };
    let _ = match args.search {
        Search::CrossEntropy => {
            cross_entropy(space, goal, CrossEntropy::default(), seed + 1, |setting| measured.measure(setting))
        }
        Search::Genetic => genetic(space, goal, numbers, seed + 1, |setting| measured.measure(setting)),
        Search::Random => random(space, seed + 1, |setting| measured.measure(setting)),
    };
    measured.stopped()
}
