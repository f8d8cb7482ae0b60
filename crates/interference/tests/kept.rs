//! What follows from profiles that are kept for programs that were never seen beside each other.

mod truths;

use castell_cachesim::machine::Chip;
use castell_cachesim::programs::kernels::kernels;
use castell_interference::learn::{Basis, Learner, Observation, Profiles, Told};
use castell_interference::scn::median;
use castell_interference::simulated::measure;
use std::sync::Arc;
use truths::assert_good;

/// Of 24 kernels on the simulated chip, what profiles say of all pairs, against the truth.
#[test]
fn pairs_are_foretold_by_their_profiles_until_they_are_seen() {
    let chip = Chip::xeon_e5_4620(32);
    let measured = measure(&chip, &kernels(&chip), |_| ()).expect("all ways");
    let pairs = measured.pairs(|| ()).expect("all ways");
    let names: Vec<String> = (0..measured.profiles.len()).map(|at| at.to_string()).collect();
    let profiles = names.iter().cloned().zip(measured.profiles.clone());
    let mut learner = Learner::new();
    assert_eq!((learner.predict("0", "1").basis(), learner.class("0")), (None, None));
    learner.know(Arc::new(Profiles::new(measured.host, profiles)));
    let all: Vec<(f64, Told)> = pairs
        .iter()
        .map(|pair| (pair.slowdown, learner.predict(&names[pair.program], &names[pair.neighbour])))
        .collect();
    assert!(all.iter().all(|(_, told)| told.is_foretold() && told.basis() == Some(Basis::Profiles)));
    assert!(all[0].1.to_string().ends_with("(never seen together, from their profiles)"), "{}", all[0].1);
    let median = median(&pairs).expect("pairs");
    assert_good(&all, median);

    let class = measured.profiles[3].class;
    assert_eq!(learner.class("3"), Some(class), "nothing of it was counted here");
    assert_eq!(learner.predict("0", "unknown").basis(), None);
    // What is seen counts for more in the end.
    let seen = Observation {
        program: "0".into(),
        neighbour: "1".into(),
        instead_of: None,
        slowdown: 2.0 * all[1].0,
        others: 0,
    };
    (0..40).for_each(|_| _ = learner.learn(1, &seen).expect("a slowdown"));
    let now = learner.predict("0", "1");
    assert!(!now.is_foretold() && (now.slowdown / seen.slowdown - 1.0).abs() < 0.05, "{now}");
    // Profiles are not learned: what is written has nothing of them.
    let written = serde_json::to_string(&learner).expect("JSON");
    let read: Learner = serde_json::from_str(&written).expect("the same");
    assert_eq!((read.class("3"), read.predict("2", "3").is_foretold()), (None, false));
}
