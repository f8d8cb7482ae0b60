//! castell's own engines, each run in a process that castell starts of itself.

use super::{BYTES, Program, Run, Simulator, peak};
use anyhow::{Context as _, anyhow, bail};
use castell_collectives::generator::{Generator, Options};
use castell_collectives::pattern::Pattern;
use castell_goal::file::Contents;
use castell_model::LogGops;
use castell_sim::fast::{Finished, Flat};
use castell_sim::{Source, rounds};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The engines by name: every event of every rank in order; one rank for all.
pub const ENGINES: [&str; 2] = ["castell, every event", "castell, rounds"];

/// What a process is to do.
#[derive(Serialize, Deserialize)]
struct Task {
    engine: String,
    program: Program,
    samples: u32,
}

/// An engine as a subject.
pub fn engine(name: &'static str) -> Box<dyn Simulator> {
    Box::new(Engine { name })
}

struct Engine {
    name: &'static str,
}

impl Simulator for Engine {
    fn name(&self) -> String {
        self.name.into()
    }

    fn run(&mut self, program: &Program, samples: u32) -> anyhow::Result<Option<Run>> {
        if self.name == ENGINES[1] && (program.is_file() || !in_rounds(program)?) {
            return Ok(None);
        }
        let task = Task { engine: self.name.into(), program: program.clone(), samples };
        let castell = std::env::current_exe().context("castell does not know where it lies")?;
        let mut command = Command::new(castell);
        command.args(["bench", "sim", "--one", &serde_json::to_string(&task)?]).stdin(Stdio::null());
        let output = command.output().context("could not start castell again")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).map(Some).context("no measurement")
    }
}

/// Carries one task out and prints what there is to say of it.
pub fn run(task: &str) -> anyhow::Result<()> {
    let Task { engine, program, samples } = serde_json::from_str(task)?;
    let before = peak::of_this_process();
    let model = LogGops::default();
    let began = Instant::now();
    let mut simulate: Box<dyn FnMut() -> anyhow::Result<Finished>> = if engine == ENGINES[0] {
        let flat = flatten(&program)?;
        Box::new(move || flat.run(&model).map_err(|declined| anyhow!("declined: {declined:?}")))
    } else {
        let pattern = pattern(&program)?;
        Box::new(move || rounds::run(&*pattern, &model).map_err(|declined| anyhow!("declined: {declined:?}")))
    };
    let load_ns = began.elapsed().as_nanos() as f64;
    let (mut run_ns, mut last) = (Vec::new(), None);
    for _ in 0..samples {
        let began = Instant::now();
        let finished = simulate()?;
        run_ns.push(began.elapsed().as_nanos() as f64);
        last = Some(finished);
    }
    let finished = last.context("at least one sample")?;
    let makespan_ps = finished.end.iter().max().map(|end| end.0 as f64);
    let memory_bytes = peak::of_this_process() - before;
    let run = Run { run_ns, load_ns, events: finished.events, makespan_ps, memory_bytes };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
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
    match crate::source::contents(Path::new(&program.name))? {
        Contents::Program(program) => Flat::new(Source::from(&program)).map_err(declined),
        Contents::Schedules(set) => Flat::new(Source::from(&set)).map_err(declined),
    }
}
