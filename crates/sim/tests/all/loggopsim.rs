//! Under LogGOPS the simulator gives LogGOPSim's own end times.
//!
//! How LogGOPSim made the vectors, and how to make them again: `vectors/sim/README.md`.

use castell_base::Time;
use castell_collectives::generator::{Generator, Options};
use castell_goal::file;
use castell_model::Model;
use castell_sim::instrument::Blind;
use castell_sim::{Machine, Outcome, Simulation, Source};
use std::path::Path;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/sim");

fn loggopsim() -> Machine {
    Machine::new(Model::parse("loggops").unwrap())
}

fn run<'a>(source: Source<'a>, machine: &'a Machine) -> Outcome {
    let reference =
        Simulation::new(source, machine).run_with(Blind).unwrap_or_else(|error| panic!("{error}"));
    let fastest = Simulation::new(source, machine).run().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reference, fastest);
    reference
}

#[test]
fn generated_patterns_end_when_loggopsim_says() {
    let text = std::fs::read_to_string(Path::new(VECTORS).join("loggopsim-golden.csv")).unwrap();
    let mut compared = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, ranks, bytes, events, end_ns] = fields[..] else { panic!("{line}") };
        let (Ok(events), Ok(end_ns)) = (events.parse::<u64>(), end_ns.parse()) else { continue };
        let mut options = Options::new(ranks.parse().unwrap());
        options.bytes = bytes.parse().unwrap();
        options.segment_bytes = 1;
        let pattern = Generator::parse(name, &options).unwrap_or_else(|error| panic!("{line}: {error}"));
        let outcome = run(Source::from(&pattern), &loggopsim());
        assert_eq!((outcome.makespan(), outcome.events), (Time::from_ns(end_ns), events), "{line}");
        compared += 1;
    }
    assert!(compared > 40, "only {compared} lines were compared");
}

/// A trace of four processes of Sweep3D, a real MPI program.
#[test]
fn a_trace_of_sweep3d_ends_when_loggopsim_says() {
    let bytes = std::fs::read(Path::new(VECTORS).join("sweep3d-4.goal")).unwrap();
    let program = file::read(&bytes, "sweep3d-4.goal", false).unwrap().into_program();
    let outcome = run(Source::from(&program), &loggopsim());
    assert_eq!(outcome.makespan(), Time::from_ns(42_441_527_748));
}

/// Random programs of ours with rendezvous, wildcards, several processors and interfaces, and `irequires`.
#[test]
fn random_programs_end_when_loggopsim_says() {
    let folder = Path::new(VECTORS).join("loggopsim");
    let table = std::fs::read_to_string(folder.join("ends.csv")).unwrap();
    let mut compared = 0;
    for line in table.lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, l, o, g, gap_per_byte, overhead_per_byte, s, events, end] = fields[..] else {
            panic!("{line}")
        };
        let name = format!("{name}.goal");
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        let program = file::read(&bytes, &name, false).unwrap().into_program();
        let model =
            format!("loggops:L={l}ns,o={o}ns,g={g}ns,G={gap_per_byte}ns,O={overhead_per_byte}ns,S={s}");
        let machine = Machine::new(Model::parse(&model).unwrap());
        let ends: Vec<Time> = end.split(' ').map(|end| Time::from_ns(end.parse().unwrap())).collect();
        for outcome in [
            Simulation::new(&program, &machine).run().unwrap(),
            Simulation::new(&program, &machine).run_with(Blind).unwrap(),
        ] {
            assert_eq!(
                (outcome.end, outcome.events),
                (ends.clone(), events.parse().unwrap()),
                "{name} {model}"
            );
        }
        compared += 1;
    }
    assert_eq!(compared, 72);
}
