//! `castell simulate`: a program on a machine that a cost model describes.

mod links;
mod report;
mod sweep;
mod watch;

use crate::loaded::{PatternArgs, load};
use crate::timeline::TimelineArgs;
use crate::{afford, model, patterns};
use anyhow::{Context, bail};
use castell_base::Time;
use castell_bench::bar::waiting;
use castell_comm::hosts::place::{self, HostSlots};
use castell_host::threads::Lent;
use castell_model::Model;
use castell_model::noise::{Detours, NoisyModel};
use castell_model::topology::Topology;
use castell_sim::instruments::{Bandwidth, Counts, Links, Queues, Recorder, Waits};
use castell_sim::{Machine, Outcome, Schedules, SimError, Simulation, Source, Threads as _, Within};
use links::Loads;
use report::{Path, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use watch::Watch;

/// Simulate a program on a machine that a cost model describes
///
/// Prints when each rank is done. The program is a file, or a pattern by name; `castell simulate --list` lists those.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("drawn").multiple(true), after_help = "Examples:
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
  castell simulate alltoall:pairwise --ranks 16 --bytes 65536 --network torus:dims=4x4 --links links.svg
  castell simulate barrier:dissemination barrier:linear --sweep ranks=2..1024 --svg growth.svg
  castell simulate allreduce:two-level --ranks 8 --hosts 2 --within plb:alpha_p=400ns,alpha_r=200ns --model plb:alpha_p=20us
  castell simulate allreduce:two-level --hosts a:4,b:4 --levels levels.toml    # as castell tune hosts writes it
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
    /// Which ranks share a host: how many hosts there are, which get the ranks evenly, or as castell launch has it, a:4,b:4. Patterns of two
    /// levels go by it, and with --within messages cost by it
    #[arg(long, value_name = "N|HOST:N,...", value_parser = hosts)]
    hosts: Option<HostList>,
    /// What messages between ranks of one host cost; --model says it for those between hosts
    #[arg(long, value_name = "MODEL", value_parser = model::constant, requires = "hosts")]
    within: Option<Model>,
    /// Both from a file, with its hosts, if --hosts names no others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "within"])]
    levels: Option<PathBuf>,
    /// Links that messages share, e.g. torus:dims=4x4x4,link=10ns,G=0.1ns (fattree, dragonfly, mesh, hypercube,
    /// butterfly, star, file:NAME)
    #[arg(long, value_parser = model::network)]
    network: Option<Arc<Topology>>,
    /// Draw the network with the load of each of its links, the busiest ones by name
    #[arg(long, value_name = "FILE.svg|png|pdf", requires = "network", group = "drawn", value_parser = crate::picture::file)]
    links: Option<PathBuf>,
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
    #[arg(conflicts_with_all = ["timeline", "links", "measure", "critical_path", "detours", "list"])]
    sweep: Option<sweep::Sweep>,
    /// Draw the makespans of a sweep; of repeated runs with a band from the shortest to the longest
    #[arg(long, value_name = "FILE.svg|png|pdf", requires = "sweep", group = "drawn", value_parser = crate::picture::file)]
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

/// Hosts, in a type of its own: to the parser of arguments a list would be several values.
#[derive(Clone, Debug)]
struct HostList(Vec<HostSlots>);

fn hosts(text: &str) -> anyhow::Result<HostList> {
    let Ok(count) = text.parse::<u32>() else { return Ok(HostList(place::parse_hosts(text)?)) };
    if !(1..=1 << 20).contains(&count) {
        bail!("{count} hosts are too few or too many");
    }
    Ok(HostList((1..=count).map(|at| HostSlots { host: format!("h{at}"), slots: None }).collect()))
}

impl Args {
    /// With what a file of two levels says.
    fn with_levels(mut self) -> anyhow::Result<Args> {
        let Some(file) = &self.levels else { return Ok(self) };
        let levels = model::levels(file)?;
        if let (None, Some(named)) = (&self.hosts, &levels.hosts) {
            self.hosts = Some(hosts(named).with_context(|| file.display().to_string())?);
        }
        if self.hosts.is_none() {
            bail!("{} names no hosts: which ranks share one? Give --hosts", file.display());
        }
        (self.model, self.within) = (levels.between.into(), Some(levels.within));
        Ok(self)
    }

    fn host_list(&self) -> Option<&[HostSlots]> {
        self.hosts.as_ref().map(|hosts| &hosts.0[..])
    }

    /// The models in words.
    fn models(&self) -> String {
        match &self.within {
            None => self.model.to_string(),
            Some(within) => format!("{} between hosts, {within} within", self.model),
        }
    }
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        patterns::list(args.json);
        return Ok(ExitCode::SUCCESS);
    }
    let args = args.with_levels()?;
    if let Some(sweep) = &args.sweep {
        return sweep.run(&args);
    }
    args.timeline.check()?;
    args.links.as_deref().map_or(Ok(()), crate::output::check)?;
    let [name] = &args.programs[..] else {
        bail!("one program at a time, or several patterns with --sweep ranks=2..64");
    };
    let threads = Lent::new(args.threads);
    let mut program = load(name, &args.pattern, args.host_list(), &threads)?;
    if args.timeline.tells_lines() {
        program.name_lines();
    }
    let machine = on_hosts(machine(&args)?, &args, program.source().ranks())?;
    insist_on_memory(&args, program.source()).with_context(|| name.to_string())?;
    let started = Instant::now();
    let watched = simulate(&args, program.source(), &machine, &threads).with_context(|| name.to_string())?;
    let line = waiting("putting the timeline together");
    let timeline = match (&watched.recorder, &watched.schedules) {
        (Some(recorder), Some(schedules)) => Some(recorder.timeline(schedules)),
        _ => None,
    };
    let path = timeline.as_ref().filter(|_| args.critical_path).map(Path::of);
    drop(line);
    let loads = args.network.as_ref().zip(watched.links.as_ref()).map(|(network, links)| Loads {
        network,
        links,
        makespan: watched.outcome.makespan(),
    });
    let report = Report {
        name,
        model: args.models(),
        watched: &watched,
        loads: loads.as_ref(),
        path,
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
    if let (Some(file), Some(loads)) = (&args.links, &loads) {
        loads.draw((&title(name), &args.models()), &args.timeline.look.look(), file)?;
        if !args.json {
            println!("links: {}", file.display());
        }
    }
    if let Some(mut timeline) = timeline {
        timeline.title = title(name);
        timeline.subtitle = match &args.network {
            Some(network) => format!("{}; {network}", args.models()),
            None => args.models(),
        };
        let is_of_tasks = timeline.ranks == 1 && timeline.spans.len() > 1 && timeline.messages.is_empty();
        if let (Some(line), false) = (args.timeline.write(timeline)?, args.json) {
            println!("{line}");
            if is_of_tasks {
                println!(
                    "  (one rank has one row; a row for each worker: castell tasks simulate {name} --timeline FILE)"
                );
            }
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

/// The machine for so many ranks.
fn on_hosts(machine: Machine, args: &Args, ranks: u32) -> anyhow::Result<Machine> {
    let (Some(hosts), Some(within)) = (args.host_list(), &args.within) else { return Ok(machine) };
    let host_of = place::place(hosts, Some(ranks))?.into();
    Ok(machine.with_hosts(Within { model: within.clone(), host_of }))
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

/// A run, what was watched of it, and the runs after it.
struct Watched<'a> {
    outcome: Outcome,
    /// Where anything was watched.
    schedules: Option<Schedules<'a>>,
    recorder: Option<Recorder>,
    measures: Option<Measures>,
    links: Option<Links>,
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
    let recorded = args.timeline.timeline.is_some() || args.critical_path;
    let mut recorder = recorded.then(Recorder::default);
    let mut measures = args.measure.then(Measures::default);
    let mut links = (args.network.is_some() && (args.measure || args.links.is_some())).then(Links::default);
    let watches = recorder.is_some() || measures.is_some() || links.is_some();
    let schedules = if watches || args.repeat > 1 { Some(Schedules::new(source)?) } else { None };
    let source = schedules.as_ref().map_or(source, Source::from);
    let mut progress = Watch::new(source, args.repeat, args.sweep.is_some());
    let tell = progress.teller();
    let first = Simulation::new(source, machine).with_seed(args.seed).with_threads(threads);
    let first = first.with_progress(&tell);
    let outcome = match watches {
        true => first.run_with((&mut progress, (&mut recorder, (&mut measures, &mut links))))?,
        false => first.run_fast_or_with(&mut progress)?,
    };
    let mut repeats = vec![(outcome.makespan(), outcome.skew())];
    repeats.extend(repeat(args, source, machine, threads, &progress)?);
    progress.finish();
    Ok(Watched { outcome, schedules, recorder, measures, links, repeats })
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
