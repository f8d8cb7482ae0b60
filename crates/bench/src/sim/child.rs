//! castell's own engines, each run in a process that castell starts of itself.

use super::{BYTES, Program, Run, Simulator, peak};
use anyhow::{Context as _, anyhow, bail};
use castell_base::OwnThread;
use castell_collectives::generator::{Generator, Options};
use castell_collectives::pattern::Pattern;
use castell_goal::file::Contents;
use castell_host::threads::Lent;
use castell_model::LogGops;
use castell_model::noise::NoisyModel;
use castell_sim::fast::{Declined, Finished, Flat};
use castell_sim::{Machine, Source, rounds};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How castell simulates.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Engine {
    /// Every event of all ranks in order; with noise if so.
    EveryEvent { noise: bool },
    /// One rank for all; so many threads look whether it may.
    Rounds { threads: usize },
    /// Each rank from its begin to its end, on so many threads; with noise if so.
    RankByRank { noise: bool, threads: usize },
    /// Windows of time, on so many threads; with noise if so.
    Windows { noise: bool, threads: usize },
}

/// What varies where there is noise.
const NOISE: &str = "loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns)";

impl Engine {
    /// All of them, on one thread and on `threads`.
    pub fn all(threads: usize) -> Vec<Engine> {
        let counts = [1, threads];
        let counts = if threads > 1 { &counts[..] } else { &counts[..1] };
        let windows = |noise| counts.iter().map(move |&threads| Engine::Windows { noise, threads });
        let ranks = |noise| counts.iter().map(move |&threads| Engine::RankByRank { noise, threads });
        let rounds = counts.iter().map(|&threads| Engine::Rounds { threads });
        let quiet = [Engine::EveryEvent { noise: false }].into_iter().chain(rounds);
        let quiet = quiet.chain(ranks(false)).chain(windows(false));
        quiet.chain([Engine::EveryEvent { noise: true }]).chain(ranks(true)).chain(windows(true)).collect()
    }
}

impl Engine {
    fn has_noise(self) -> bool {
        match self {
            Engine::Rounds { .. } => false,
            Engine::EveryEvent { noise } => noise,
            Engine::RankByRank { noise, .. } | Engine::Windows { noise, .. } => noise,
        }
    }
}

/// What a process is to do.
#[derive(Serialize, Deserialize)]
struct Task {
    engine: Engine,
    program: Program,
    samples: u32,
}

impl Simulator for Engine {
    fn name(&self) -> String {
        let noisy = |noise| if noise { ", noise" } else { "" };
        match *self {
            Engine::EveryEvent { noise } => format!("castell, every event{}", noisy(noise)),
            Engine::Rounds { threads: 1 } => "castell, rounds".into(),
            Engine::Rounds { threads } => format!("castell, rounds, {threads} threads"),
            Engine::RankByRank { noise, threads: 1 } => format!("castell, rank by rank{}", noisy(noise)),
            Engine::RankByRank { noise, threads } => {
                format!("castell, rank by rank, {threads} threads{}", noisy(noise))
            }
            Engine::Windows { noise, threads: 1 } => format!("castell, windows{}", noisy(noise)),
            Engine::Windows { noise, threads } => {
                format!("castell, windows, {threads} threads{}", noisy(noise))
            }
        }
    }

    fn run(&mut self, program: &Program, samples: u32) -> anyhow::Result<Option<Run>> {
        if matches!(self, Engine::Rounds { .. }) && (program.is_file() || !in_rounds(program)?) {
            return Ok(None);
        }
        let task = Task { engine: *self, program: program.clone(), samples };
        let castell = std::env::current_exe().context("castell does not know where it lies")?;
        let mut command = Command::new(castell);
        command.args(["bench", "sim", "--one", &serde_json::to_string(&task)?]).stdin(Stdio::null());
        castell_host::process::ends_with_this(&mut command);
        let output = command.output().context("could not start castell again")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("no measurement")
    }
}

/// Carries one task out and prints what there is to say of it.
pub fn run(task: &str) -> anyhow::Result<()> {
    let Task { engine, program, samples } = serde_json::from_str(task)?;
    let before = peak::of_this_process();
    let began = Instant::now();
    let mut simulate = prepare(engine, &program)?;
    let load_ns = began.elapsed().as_nanos() as f64;
    let processor_ns = || peak::processor_ns(std::process::id());
    let (mut run_ns, mut last) = (Vec::new(), None);
    let cpu_began = processor_ns();
    for _ in 0..samples {
        let began = Instant::now();
        let finished = match simulate() {
            Ok(finished) => finished,
            // A program for the other engines: there is no row of it.
            Err(
                Declined::Lookahead | Declined::Sparse | Declined::Machine | Declined::Turns | Declined::Ties,
            ) => {
                println!("null");
                return Ok(());
            }
            Err(declined) => bail!("{}: declined: {declined:?}", program.name),
        };
        run_ns.push(began.elapsed().as_nanos() as f64);
        last = Some(finished);
    }
    let cpu_ns = peak::processor_ns_between(cpu_began, processor_ns()).map(|ns| ns / f64::from(samples));
    let finished = last.context("at least one sample")?;
    let quiet = !engine.has_noise();
    let makespan_ps = finished.end.iter().max().map(|end| end.0 as f64).filter(|_| quiet);
    let memory_bytes = peak::of_this_process() - before;
    let run = Run { run_ns, cpu_ns, load_ns, events: finished.events, makespan_ps, memory_bytes };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}

type Simulate = Box<dyn FnMut() -> Result<Finished, Declined>>;

/// Loads a program for an engine.
fn prepare(engine: Engine, program: &Program) -> anyhow::Result<Simulate> {
    /// Where random numbers start from.
    const SEED: u64 = 1;
    let text = if engine.has_noise() { NOISE } else { "loggops" };
    let machine =
        Machine::from(NoisyModel::parse(text, &mut |name| Err(format!("no file {name} is read here")))?);
    let model = LogGops::default();
    Ok(match engine {
        Engine::Rounds { threads } => {
            let (pattern, threads) = (pattern(program)?, Lent::of(threads));
            Box::new(move || rounds::run_on(&*pattern, &model, &threads))
        }
        Engine::EveryEvent { noise } => {
            let flat = flatten(program)?;
            Box::new(move || match noise {
                false => flat.run(&model),
                true => flat.run_with_noise(&model, &machine, SEED),
            })
        }
        Engine::RankByRank { threads, .. } => {
            let (flat, threads) = (flatten(program)?, Lent::of(threads));
            Box::new(move || flat.run_rank_by_rank(&machine, SEED, &threads))
        }
        Engine::Windows { threads, .. } => {
            let (flat, threads) = (flatten(program)?, Lent::of(threads));
            Box::new(move || flat.run_in_windows(&machine, SEED, &threads))
        }
    })
}

/// The pattern of a program.
pub fn pattern(program: &Program) -> anyhow::Result<Box<dyn Pattern>> {
    let options = Options { bytes: BYTES, ..Options::new(program.ranks) };
    Ok(Generator::parse(&program.name, &options)?)
}

fn in_rounds(program: &Program) -> anyhow::Result<bool> {
    Ok(pattern(program)?.rounds().is_some())
}

fn flatten(program: &Program) -> anyhow::Result<Flat> {
    let declined = |declined| anyhow!("{} is not for this engine: {declined:?}", program.name);
    if !program.is_file() {
        return Flat::new(Source::from(&pattern(program)?)).map_err(declined);
    }
    match contents(&program.name)? {
        Contents::Program(program) => Flat::new(Source::from(&program)).map_err(declined),
        Contents::Schedules(set) => Flat::new(Source::from(&set)).map_err(declined),
    }
}

/// What a file holds.
pub fn contents(file: &str) -> anyhow::Result<Contents> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {file}"))?;
    Ok(castell_goal::file::read_on(&bytes, file, true, &OwnThread)?)
}
