//! `castell bench sim`: simulators side by side, each in processes of its own.
//!
//! Every measurement is a child process, so that its memory is its own: castell starts itself again (`child`),
//! LogGOPSim is a program that the user has (`loggopsim`), SimGrid's driver is compiled where the library is installed
//! (`simgrid`). The subjects take turns, round after round; events are LogGOPSim's count: operations and arrivals. Whoever
//! simulates the same model should come to the same end; where one does not, a line says so. (LogGOPSim sorts the operations
//! that are released together in an order of its C++ library's choice once there are more than 16, as at the root of a
//! binomial tree of 2^17 ranks.)

mod child;
mod loggopsim;
mod peak;
mod simgrid;

use crate::bar::bar;
use crate::report::{Doubts, Measurement, Params, Sample};
use crate::workload::Effort;
use anyhow::Context as _;
use castell_host::threads::Lent;
use castell_sim::Threads as _;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::PathBuf;

/// What `castell bench sim` takes besides.
#[derive(clap::Args)]
#[command(next_help_heading = "For sim")]
pub struct SimArgs {
    /// Group sizes, also for collectives and overlap (default: the workload's)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<Vec<u32>>,
    /// A LogGOPSim to compare with
    #[arg(long, value_name = "PATH")]
    loggopsim: Option<PathBuf>,
    /// LogGOPSim's text-to-binary program, timed too; without it castell writes the binary files
    #[arg(long, value_name = "PATH", requires = "loggopsim")]
    txt2bin: Option<PathBuf>,
    /// A program in a file, simulated besides the patterns
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// SimGrid simulates groups up to this size
    #[arg(long, value_name = "N", default_value_t = 16384)]
    simgrid_max: u32,
    /// LogGOPSim simulates groups up to this size
    #[arg(long, value_name = "N", default_value_t = 1_048_576)]
    loggopsim_max: u32,
    /// Windows run on so many threads, besides one (default: one a processor)
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// What one of castell's processes does
    #[arg(long, hide = true, value_name = "JSON")]
    one: Option<String>,
}

impl SimArgs {
    /// Whether this process measures for another one.
    pub(crate) fn is_child(&self) -> bool {
        self.one.is_some()
    }
}

/// The patterns that are measured.
const PATTERNS: [&str; 3] = ["bcast:binomial", "barrier:dissemination", "allreduce:recursive-doubling"];
/// Their messages' size.
const BYTES: u64 = 8;

/// What is simulated: a pattern on so many ranks, or a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    name: String,
    /// 0 for a file, which tells.
    ranks: u32,
}

impl Program {
    fn params(&self) -> Params {
        let params = Params::new().with("program", self.name.as_str());
        if self.is_file() { params } else { params.with("ranks", self.ranks).with("bytes", BYTES) }
    }

    fn is_file(&self) -> bool {
        self.ranks == 0
    }
}

/// What a process says of its simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    /// Each simulation, without loading.
    run_ns: Vec<f64>,
    /// A simulation's time on processors, where that is known.
    #[serde(default)]
    cpu_ns: Option<f64>,
    /// Until the program could be simulated.
    load_ns: f64,
    events: u64,
    /// `None`: another model's end.
    makespan_ps: Option<f64>,
    /// Peak above the program without work.
    memory_bytes: u64,
}

/// Somebody who simulates.
trait Simulator {
    fn name(&self) -> String;

    /// `None`: not this one.
    fn run(&mut self, program: &Program, samples: u32) -> anyhow::Result<Option<Run>>;

    /// Forgets what was prepared for the last program.
    fn tidy(&mut self) {}
}

/// A row of the result.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    measurement: Measurement,
    events: u64,
    events_per_second: f64,
    /// On processors, all threads together: what others on the machine disturb least.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<f64>,
    load_ns: f64,
    memory_bytes: u64,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    subject: String,
}

/// Carries the command out.
pub fn run(args: &SimArgs, effort: Effort) -> anyhow::Result<()> {
    let (rounds, samples) = (effort.rounds, effort.samples(3));
    if let Some(one) = &args.one {
        return child::run(one);
    }
    let engines = child::Engine::all(Lent::new(args.threads).count());
    let mut simulators: Vec<Box<dyn Simulator>> =
        engines.into_iter().map(|engine| Box::new(engine) as Box<dyn Simulator>).collect();
    if let Some(path) = &args.loggopsim {
        simulators.push(Box::new(loggopsim::LogGopSim::new(
            path,
            args.txt2bin.as_deref(),
            args.loggopsim_max,
        )?));
    }
    if effort.peers {
        match simgrid::SimGrid::compile(args.simgrid_max) {
            Ok(simgrid) => simulators.push(Box::new(simgrid)),
            Err(error) => castell_host::say(&format!("{error:#}")),
        }
    }
    let of_size = |&ranks: &u32| PATTERNS.map(|name| Program { name: name.into(), ranks });
    let files = args.trace.iter().map(|path| Program { name: path.to_string_lossy().into_owned(), ranks: 0 });
    let ranks = args.ranks.as_deref().unwrap_or(&[16384, 262_144, 1_048_576]);
    let programs: Vec<Program> = ranks.iter().flat_map(of_size).chain(files).collect();
    let steps = programs.len() as u64 * u64::from(rounds) * simulators.len() as u64;
    let progress = bar(steps);
    // Its ranks are simulated: however many there are, they share no processors.
    let (mut before, doubts) = ("[\n", Doubts::from_now());
    for program in &programs {
        let rows = measure(program, &mut simulators, rounds, samples, &progress)?;
        // What has been measured is told at once: the next program may take long.
        progress.suspend(|| -> anyhow::Result<()> {
            match effort.json {
                true => {
                    for row in rows {
                        let measurement = row.measurement.doubted(doubts.of(None));
                        let row = Row { measurement, ..row };
                        print!("{before}{}", serde_json::to_string(&row)?);
                        before = ",\n";
                    }
                    std::io::stdout().flush()?;
                }
                false => print_table(&rows),
            }
            Ok(())
        })?;
    }
    progress.finish_and_clear();
    match (effort.json, before) {
        (true, "[\n") => println!("[]"),
        (true, _) => println!("\n]"),
        _ => {}
    }
    Ok(())
}

/// One program, the simulators taking turns.
fn measure(
    program: &Program,
    simulators: &mut [Box<dyn Simulator>],
    rounds: u32,
    samples: u32,
    progress: &indicatif::ProgressBar,
) -> anyhow::Result<Vec<Row>> {
    let mut taken: Vec<Vec<Run>> = vec![Vec::new(); simulators.len()];
    for _ in 0..rounds {
        for (simulator, taken) in simulators.iter_mut().zip(&mut taken) {
            progress.set_message(format!("{}: {}", program.params(), simulator.name()));
            let run = simulator.run(program, samples);
            taken.extend(run.with_context(|| format!("{}: {}", simulator.name(), program.params()))?);
            progress.inc(1);
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut end: Option<(f64, String)> = None;
    for (simulator, taken) in simulators.iter_mut().zip(&taken) {
        simulator.tidy();
        let Some(run) = taken.first() else { continue };
        if let Some(makespan) = run.makespan_ps {
            let (first, who) = end.get_or_insert_with(|| (makespan, simulator.name()));
            if *first != makespan {
                let (params, name) = (program.params(), simulator.name());
                castell_host::say(&format!(
                    "{params}: ends after {makespan} ps for {name}, after {first} ps for {who}"
                ));
            }
        }
        rows.push(Row::new(program, simulator.name(), taken));
    }
    Ok(rows)
}

impl Row {
    fn new(program: &Program, subject: String, taken: &[Run]) -> Row {
        let samples: Vec<Sample> = taken.iter().map(|run| Sample::of(run.run_ns.clone())).collect();
        let sample = Sample::over_rounds(&samples).expect("there are runs");
        let loads = Sample::of(taken.iter().map(|run| run.load_ns).collect());
        let events = taken[0].events;
        let cpu: Vec<f64> = taken.iter().filter_map(|run| run.cpu_ns).collect();
        Row {
            events,
            cpu_ns: (!cpu.is_empty()).then(|| Sample::of(cpu).median_ns.round()),
            events_per_second: (events as f64 / sample.median_ns * 1e9).round(),
            load_ns: loads.median_ns.round(),
            memory_bytes: taken.iter().map(|run| run.memory_bytes).max().unwrap_or(0),
            title: format!("{}: {events} events", program.params()),
            measurement: Measurement::new("sim", subject.clone(), &program.params(), sample),
            subject,
        }
    }
}

/// A table a program; the last columns compare with the first peer in it.
fn print_table(rows: &[Row]) {
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0).max("subject".len());
    for case in rows.chunk_by(|a, b| a.title == b.title) {
        println!("{}", case[0].title);
        println!(
            "  {:width$}  {:>11}  {:>11}  {:>11}  {:>11}  {:>9}  {:>7}  {:>7}  {:>7}",
            "subject", "run", "load", "M events/s", "a CPU s", "memory", "speed", "a CPU s", "memory"
        );
        let peer = case.iter().find(|row| row.subject == loggopsim::NAME);
        for row in case {
            let of_processor = |row: &Row| row.cpu_ns.map(|cpu_ns| row.events as f64 / cpu_ns * 1e3);
            let rate = of_processor(row).map_or(String::new(), |rate| format!("{rate:.2}"));
            let ratio = peer.and_then(|peer| Some(of_processor(row)? / of_processor(peer)?));
            let on_processors = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x"));
            let against = |ratio: fn(&Row, &Row) -> f64| {
                peer.map_or(String::new(), |peer| format!("{:.2}x", ratio(row, peer)))
            };
            println!(
                "  {:width$}  {:>11}  {:>11}  {:>11.2}  {rate:>11}  {:>6.1} MB  {:>7}  {on_processors:>7}  {:>7}",
                row.subject,
                milliseconds(row.events as f64 / row.events_per_second * 1e9),
                milliseconds(row.load_ns),
                row.events_per_second / 1e6,
                row.memory_bytes as f64 / 1e6,
                against(|row, peer| row.events_per_second / peer.events_per_second),
                against(|row, peer| row.memory_bytes as f64 / peer.memory_bytes.max(1) as f64),
            );
        }
        println!();
    }
}

fn milliseconds(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}
