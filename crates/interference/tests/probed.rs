//! What follows from meetings with a probe for programs that have never met each other.

mod truths;

use castell_cachesim::machine::Chip;
use castell_cachesim::programs::kernels::kernels;
use castell_cachesim::programs::probe::probe;
use castell_interference::learn::{Basis, Learner, MEETINGS_MAX, Met, Observation, STILL_S_MAX, Told};
use castell_interference::simulated::measure;
use proptest::prelude::*;
use truths::assert_good;

/// Each program by what it feels of a probe, and by how much it presses one; two probes slow each other by so much.
fn met(probes: f64, programs: &[(&str, f64, f64)]) -> Learner {
    let mut learner = Learner::new();
    for _ in 0..MEETINGS_MAX {
        learner.probes_meet(probes);
        for (program, feels, presses) in programs {
            let met = Met { presses: Some(*presses), feels: Some(*feels), still_s: 0.03 };
            learner.meet(0, program, &met);
        }
    }
    learner
}

fn beside(program: &str, neighbour: &str, slowdown: f64) -> Observation {
    let [program, neighbour] = [program, neighbour].map(str::to_owned);
    Observation { program, neighbour, instead_of: None, slowdown, others: 0 }
}

fn near(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

#[test]
fn a_pair_that_never_met_is_foretold_until_it_is_seen() {
    let mut learner = met(1.6, &[("stream", 1.5, 1.6), ("spin", 1.0, 1.0), ("chase", 1.4, 1.2)]);
    let told = learner.predict("chase", "stream");
    assert!(
        told.is_foretold() && near(told.slowdown, 1.4),
        "who presses as a probe does what a probe does: {told:?}"
    );
    assert!(told.to_string().ends_with("(never seen together, foretold by a probe)"), "{told}");
    assert!(told.cannot_tell(), "half of what is foretold is in doubt: {told}");
    for (program, neighbour) in [("chase", "spin"), ("spin", "chase"), ("spin", "stream")] {
        assert!(learner.predict(program, neighbour).is_no_effect(), "{program} beside {neighbour}");
    }
    assert_eq!(learner.predict("chase", "unknown").basis(), None);
    for _ in 0..40 {
        learner.learn(1, &beside("chase", "stream", 2.0)).expect("a slowdown");
    }
    let told = learner.predict("chase", "stream");
    assert!(!told.is_foretold() && (1.95..2.01).contains(&told.slowdown), "{told:?}");
}

#[test]
fn what_turns_out_to_be_right_is_in_doubt_no_longer() {
    let names: Vec<String> = (0..10).map(|at| format!("p{at}")).collect();
    let programs: Vec<(&str, f64, f64)> = names.iter().map(|name| (name.as_str(), 1.5, 1.6)).collect();
    let mut learner = met(1.6, &programs);
    assert!(learner.predict("p8", "p9").cannot_tell());
    let pairs =
        (0..8).flat_map(|one| (0..8).map(move |other| (one, other))).filter(|(one, other)| one != other);
    pairs.for_each(|(one, other)| _ = learner.learn(1, &beside(&names[one], &names[other], 1.5)));
    let told = learner.predict("p8", "p9");
    assert!(told.is_foretold() && !told.cannot_tell() && near(told.slowdown, 1.5), "{told:?}");
}

#[test]
fn where_probes_do_nothing_to_each_other_only_nothing_can_follow() {
    let learner = met(1.0, &[("a", 1.0, 1.0), ("b", 1.3, 1.0)]);
    let told = learner.predict("a", "b");
    assert!(told.is_foretold() && told.is_no_effect() && told.slowdown == 1.0, "{told:?}");
    assert_eq!(
        learner.predict("b", "a").basis(),
        None,
        "it feels something, of which nobody can say what it is"
    );
    assert_eq!(Learner::new().predict("a", "b").basis(), None);
}

#[test]
fn a_program_is_probed_until_it_is_known_or_has_stood_long_enough() {
    let mut learner = Learner::new();
    assert!(learner.wants_probe("new") && learner.wants_probes());
    learner.learn(0, &beside("seen", "other", 1.1)).expect("a slowdown");
    assert!(!learner.wants_probe("seen"), "others tell more");
    let still_s = STILL_S_MAX / 4.0;
    for meeting in 0..4 {
        assert!(learner.wants_probe("new"), "{meeting}");
        learner.meet(0, "new", &Met { presses: None, feels: None, still_s });
    }
    assert!(!learner.wants_probe("new") && learner.predict("new", "new").basis() != Some(Basis::Probe));
    let learner = met(1.5, &[("met", 1.1, 1.1)]);
    assert!(!learner.wants_probe("met") && !learner.wants_probes());
    let written = serde_json::to_string(&learner).expect("JSON");
    let read: Learner = serde_json::from_str(&written).expect("the same");
    assert_eq!(read.predict("met", "met"), learner.predict("met", "met"));
    assert_eq!(read.probes(), learner.probes());
    let old = r#"{"programs":{},"window":[{"program":"a","neighbour":"b","slowdown":1.5,"priors":[{"slowdown":1.2,"basis":"median"}]}],"hours":[],"observed":1}"#;
    assert!(serde_json::from_str::<Learner>(old).is_ok(), "what was learned before there was a probe");
}

/// Of the 24 kernels on the simulated chip: each meets a probe of three quarters of the cache. The truth of all pairs against what follows.
#[test]
fn on_the_simulated_chip_pairs_are_foretold_better_than_by_the_median() {
    let chip = Chip::xeon_e5_4620(32);
    let window = (chip.llc_ps + chip.transfer_ps + chip.memory_ps).div_ceil(chip.transfer_ps) as usize;
    let mut programs = kernels(&chip);
    let count = programs.len();
    programs.push(probe(chip.llc.blocks() * 3 / 4, 1, window));
    let measured = measure(&chip, &programs, |_| ()).expect("all ways");
    let pairs = measured.pairs(|| ()).expect("all ways");
    let truth = |one: usize, other: usize| pairs[one * programs.len() + other].slowdown;
    let names: Vec<String> = (0..count).map(|at| at.to_string()).collect();
    let of = |at: usize| (names[at].as_str(), truth(at, count), truth(count, at));
    let learner = met(truth(count, count), &(0..count).map(of).collect::<Vec<_>>());
    let all: Vec<(f64, Told)> = (0..count * count)
        .map(|at| (truth(at / count, at % count), learner.predict(&names[at / count], &names[at % count])))
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|(truth, _)| *truth).collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    assert!(all.iter().all(|(_, told)| told.is_foretold()));
    assert_good(&all, median);
}

proptest! {
    #[test]
    fn more_pressure_and_more_feeling_never_foretell_less(
        probes in 1.05f64..3.0,
        feels in 0.9f64..3.0,
        presses in 0.9f64..3.0,
        more in 1.0f64..1.5,
    ) {
        let learner = met(probes, &[("a", feels, 1.0), ("b", 1.0, presses), ("c", feels * more, presses * more)]);
        let told = learner.predict("a", "b");
        prop_assert!(told.slowdown >= 1.0 && told.low <= told.slowdown && told.slowdown <= told.high);
        prop_assert!(learner.predict("c", "b").slowdown >= told.slowdown);
        prop_assert!(learner.predict("a", "c").slowdown >= told.slowdown);
    }

    #[test]
    fn noise_widens_the_limits_and_no_meeting_does_harm(
        meetings in proptest::collection::vec((0.0f64..200.0, -1.0f64..200.0), 0..40),
        quiet in 1.0f64..2.0,
        noise in 0.01f64..0.3,
    ) {
        let mut learner = met(1.5, &[("quiet", quiet, 1.5)]);
        for turn in 0..MEETINGS_MAX {
            let swing = if turn % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
            learner.meet(0, "noisy", &Met { presses: None, feels: Some(quiet * swing), still_s: 0.0 });
        }
        let width = |told: Told| told.high / told.low;
        prop_assert!(width(learner.predict("noisy", "quiet")) >= width(learner.predict("quiet", "quiet")) - 1e-9);
        for (presses, feels) in &meetings {
            learner.meet(0, "wild", &Met { presses: Some(*presses), feels: Some(*feels), still_s: -1.0 });
        }
        let told = learner.predict("wild", "quiet");
        prop_assert!(told.slowdown.is_finite() && told.low > 0.0 && told.low <= told.high);
    }
}
