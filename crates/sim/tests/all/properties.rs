//! What holds for every program: labels don't matter, waiting for more ends no earlier, noise without variance is none.

use crate::programs;
use crate::programs::on_random_programs;
use castell_base::{Rank, Time};
use castell_goal::graph::Vertex;
use castell_model::Model;
use castell_model::noise::NoisyModel;
use castell_sim::instrument::Blind;
use castell_sim::instruments::{Counts, Queues, Recorder, Waits};
use castell_sim::{Machine, Outcome, Simulation, Source, Ties};
use castell_trace::{Timeline, path};
use rand::prelude::*;

const MODELS: [&str; 9] =
    ["bsp", "lb", "logp", "loggp", "loggps", "loggops:O=1ns", "lop", "logfp", "plb:beta=0.4ns"];

fn run<'a>(source: impl Into<Source<'a>>, machine: &'a Machine) -> Outcome {
    Simulation::new(source, machine).run_with(Blind).unwrap_or_else(|error| panic!("{error}"))
}

/// Relabelling the ranks relabels the ends, where nothing depends on the order of ranks: receives name their sender,
/// and ties go by kind and place in the rank. Messages of different senders that arrive at the same time at a processor
/// that they occupy are served in the order of senders; so models whose receivers are occupied are left out, and so is
/// LogGOPSim's order of insertion, which goes through the ranks in ascending order.
#[test]
fn permuting_labels_permutes_results() {
    on_random_programs(0..150, |recipe, random| {
        let mut labels: Vec<u32> = (0..recipe.ranks).collect();
        labels.shuffle(random);
        let (plain, permuted) = (recipe.plain(), recipe.program(&labels));
        for model in ["bsp", "lb", "plb", "plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns"] {
            let machine = Machine::new(Model::parse(model).unwrap());
            let (before, after) = (run(&plain, &machine), run(&permuted, &machine));
            for (rank, &label) in labels.iter().enumerate() {
                assert_eq!(before.end[rank], after.end[label as usize], "{model}, {recipe:?}, {labels:?}");
            }
        }
    });
}

/// Where no resource is ever wanted by two operations (a machine on which neither sends nor computing occupy anybody),
/// waiting for more makes nothing happen earlier. Where something is, it can: an operation that is held back lets another
/// one go first (Graham's anomalies), so the property is stated for PLB with α_r = 0 and computing of no length.
#[test]
fn a_dependency_more_makes_nothing_earlier() {
    on_random_programs(0..300, |recipe, random| {
        let mut recipe = recipe.clone();
        for action in &mut recipe.actions {
            if let programs::Action::Compute(_, ns) = action {
                *ns = 0;
            }
        }
        let machine = Machine::new(Model::parse("plb:alpha_p=500ns,alpha_r=0,beta=0.4ns").unwrap());
        let program = recipe.plain();
        let before = run(&program, &machine);
        let mut more = program.clone();
        let rank = Rank(random.random_range(0..recipe.ranks));
        let len = program.rank(rank).len() as u32;
        if len < 2 {
            return;
        }
        let target = random.random_range(1..len);
        let prerequisite = Vertex(random.random_range(0..target));
        more.rank_mut(rank).requires(prerequisite, Vertex(target)).unwrap();
        let after = run(&more, &machine);
        for (rank, (before, after)) in before.end.iter().zip(&after.end).enumerate() {
            assert!(after >= before, "rank {rank} ends at {after} instead of {before}, {recipe:?}");
        }
    });
}

const BESIDE: &str = "bsp:l=exponential(1us)";
const BESIDE_BSP: &str = "plb:alpha_p=exponential(1us)";

#[test]
fn noise_without_variance_is_no_noise() {
    let pairs = [
        ("loggops:O=1ns", "loggops:o=normal(1500ns,0ns),L=2500ns+exponential(0ns),G=6ns*normal(1,0),O=1ns"),
        ("plb", "plb:alpha_r=uniform(380ns,380ns),alpha_p=880ns*lognormal(1,0),compute=normal(1,0)"),
        ("lb", "lb:alpha=1260ns+exponential(0ns)"),
        ("logfp", "logfp:o_min=500ns+exponential(0ns)"),
        ("lop", "lop:L=2500ns+exponential(0ns)"),
        ("bsp", "bsp:l=5us+exponential(0ns),compute=normal(1,0)"),
    ];
    let none = &mut |file: &str| Err(format!("no {file}"));
    let machines = pairs.map(|(quiet, noisy)| {
        let noisy = NoisyModel::parse(noisy, none).unwrap_or_else(|error| panic!("{noisy}: {error}"));
        // Noise of a parameter that the model does not have has everything drawn, and changes nothing.
        let other = NoisyModel::parse(if quiet == "bsp" { BESIDE_BSP } else { BESIDE }, none).unwrap();
        assert!(!other.noise.is_none());
        let quiet = Machine::new(Model::parse(quiet).unwrap());
        let drawn = Machine { noise: other.noise, ..quiet.clone() };
        (quiet, Machine::from(noisy), drawn)
    });
    on_random_programs(0..60, |recipe, random| {
        let program = recipe.plain();
        for (quiet, noisy, drawn) in &machines {
            for machine in [noisy, drawn] {
                let outcome = Simulation::new(&program, machine).with_seed(random.random()).run().unwrap();
                assert_eq!(run(&program, quiet), outcome, "{} {recipe:?}", quiet.model);
            }
        }
    });
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let text = "loggops:o=normal(1500ns,300ns),L=exponential(2500ns),compute=normal(1,0.2)";
    let machine = Machine::from(NoisyModel::parse(text, &mut |_| Err(String::new())).unwrap());
    let different = std::cell::Cell::new(0);
    on_random_programs(0..40, |recipe, _| {
        let program = recipe.plain();
        let run = |seed| Simulation::new(&program, &machine).with_seed(seed).run().unwrap();
        assert_eq!(run(7), run(7));
        if run(7) != run(8) {
            different.set(different.get() + 1);
        }
    });
    assert!(different.get() > 30);
}

/// Instruments see all of it, and change none of it.
#[test]
fn instruments_change_nothing_and_agree() {
    on_random_programs(0..60, |recipe, _| {
        let program = recipe.plain();
        for model in MODELS {
            let machine = Machine::new(Model::parse(model).unwrap());
            let blind = run(&program, &machine);
            let (mut recorder, mut counts) = (Recorder::default(), Counts::default());
            let (mut waits, mut queues) = (Waits::default(), Queues::default());
            let instruments = ((&mut recorder, &mut counts), (&mut waits, &mut queues));
            let watched = Simulation::new(&program, &machine).run_with(instruments).unwrap();
            assert_eq!(blind, watched, "{model}");
            let timeline = recorder.timeline(&castell_sim::Schedules::new(&program).unwrap());
            assert_eq!(timeline.messages.len() as u64, counts.messages());
            assert!(timeline.spans.iter().all(|span| Time(span.end_ps) <= watched.makespan()), "{model}");
            the_path_is_whole(&timeline, watched.makespan(), &format!("{model} {recipe:?}"));
            for rank in 0..recipe.ranks {
                assert!(waits.waiting(Rank(rank), watched.end[rank as usize]) <= watched.end[rank as usize]);
            }
        }
    });
}

/// From the beginning to the end without a gap, and of each message it is known what its time went into.
fn the_path_is_whole(timeline: &Timeline, makespan: Time, what: &str) {
    let steps = path::critical_path(timeline);
    let told = || {
        let step = |step: &path::Step| {
            format!("{} {} {}..{}\n", step.name(timeline), step.rank, step.start_ps, step.end_ps)
        };
        steps.iter().map(step).collect::<String>()
    };
    assert_eq!(steps.last().map_or(0, |step| step.end_ps), makespan.0, "{what}\n{}", told());
    assert_eq!(steps.first().map_or(0, |step| step.start_ps), 0, "{what}\n{}", told());
    assert!(steps.windows(2).all(|pair| pair[0].end_ps == pair[1].start_ps), "{what}\n{}", told());
    for step in &steps {
        let may_wait = step.part != path::Part::Others || what.starts_with("bsp");
        assert!(may_wait && step.part != path::Part::Gap, "{what}\n{}", told());
        assert!(!matches!(step.part, path::Part::Message(_)) || step.travel(timeline).is_some(), "{what}");
    }
}

/// Under every model and both rules of ties programs run to their end, with the same events; whatever is in them.
#[test]
fn every_model_and_rule_of_ties_runs_every_program() {
    on_random_programs(300..420, |recipe, random| {
        let recipe = recipe.clone().with_everything(random);
        let program = recipe.plain();
        for model in MODELS {
            for ties in [Ties::Insertion, Ties::Rank] {
                let machine = Machine::new(Model::parse(model).unwrap()).with_ties(ties);
                let mut counts = Counts::default();
                let outcome = Simulation::new(&program, &machine).run_with(&mut counts);
                let outcome = outcome.unwrap_or_else(|error| panic!("{model} {ties:?} {recipe:?}: {error}"));
                // Under BSP a get needs no question.
                let messages = if model == "bsp" { counts.messages() } else { recipe.messages() };
                assert_eq!(counts.messages(), messages, "{model} {ties:?}");
                assert_eq!(outcome.events, program.operations() + messages, "{model} {ties:?}");
                assert_eq!(run(&program, &machine), outcome);
            }
        }
    });
}
