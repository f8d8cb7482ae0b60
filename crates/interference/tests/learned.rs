//! What a learner keeps, says and forgets; and what looks around changes tell.

use castell_interference::learn::{
    Basis, Changes, Learner, Look, NotLearned, Observation, PROGRAMS_MAX, Windows,
};
use castell_interference::{Class, Readings};
use proptest::prelude::*;

const HOUR: u64 = 3_600;

/// Somebody came, and it was so much slower.
fn beside(program: &str, neighbour: &str, slowdown: f64) -> Observation {
    let [program, neighbour] = [program, neighbour].map(str::to_owned);
    Observation { program, neighbour, instead_of: None, slowdown, others: 0 }
}

fn readings(class: Class) -> Readings {
    // GB/s into L1, L2 and the last-level cache.
    let [l1, l2, llc] = match class {
        Class::S => [9e9, 8e9, 7e9],
        Class::C => [30e9, 20e9, 1e9],
        Class::N => [0.1e9, 0.0, 0.0],
    };
    Readings::new(l1, l2, llc).expect("flows")
}

/// Of each class `count` programs that were watched alone: s0, s1, … c0, … n0, …
fn with_classes(count: usize) -> Learner {
    let mut learner = Learner::new();
    for class in Class::ALL {
        for at in 0..count {
            let id = format!("{}{at}", class.to_string().to_lowercase());
            learner.read(0, &id, &readings(class), 4, 60.0, true);
            assert_eq!(learner.programs()[&id].class(), Some(class));
        }
    }
    learner
}

#[test]
fn who_has_seen_nothing_cannot_tell() {
    let told = Learner::new().predict("a", "b");
    assert!(told.cannot_tell() && told.slowdown == 1.0 && !told.is_no_effect(), "{told:?}");
    assert_eq!(told.to_string(), "I can't tell: nothing was seen yet");
    assert_eq!(Learner::new().among("a", []).slowdown, 1.0);
}

#[test]
fn classes_stand_in_for_pairs_that_were_never_seen_until_they_are() {
    let mut learner = with_classes(10);
    for at in 0..9 {
        for other in 0..9 {
            learner.learn(0, &beside(&format!("c{at}"), &format!("s{other}"), 2.0)).expect("a slowdown");
            learner.learn(0, &beside(&format!("n{at}"), &format!("s{other}"), 1.0)).expect("a slowdown");
        }
    }
    let told = learner.predict("c9", "s9");
    assert!(told.basis() == Some(Basis::Classes) && told.seen == 0, "{told:?}");
    assert!((told.slowdown - 2.0).abs() < 1e-6 && !told.cannot_tell(), "{told:?}");
    assert!(learner.predict("n9", "s9").is_no_effect());
    // This one is not as its class is.
    let mut last = told.slowdown;
    for _ in 0..10 {
        learner.learn(HOUR, &beside("c9", "s9", 4.0)).expect("a slowdown");
        let now = learner.predict("c9", "s9").slowdown;
        assert!(now > last && now < 4.0 + 1e-9, "{last} {now}");
        last = now;
    }
    assert!(last > 3.8, "{last}");
    assert!(learner.programs()["c9"].estimate("s9").expect("ten of them").is_effect());
    // Two neighbours at once.
    let both = learner.among("c9", ["s9", "s2"]);
    assert!((both.slowdown / (last * learner.predict("c9", "s2").slowdown) - 1.0).abs() < 1e-9);
}

#[test]
fn a_pair_that_was_never_seen_follows_from_how_both_did_with_others() {
    let mut learner = Learner::new();
    // What each feels, and what each does.
    let all: [(&str, f64, f64); 4] = [("a", 0.0, 0.1), ("b", 1.0, 0.5), ("c", 2.0, 0.3), ("d", 0.5, 0.6)];
    let cost = |own: usize, other: usize| (all[own].1 * all[other].2).exp();
    for own in (0..4).cycle().take(20) {
        for other in (0..4).filter(|other| (own, *other) != (2, 3)) {
            let _ =
                learner.learn(0, &beside(all[own].0, all[other].0, cost(own, other))).expect("a slowdown");
        }
    }
    let told = learner.predict("c", "d");
    assert!(told.seen == 0 && told.basis() == Some(Basis::Others), "{told:?}");
    assert!((told.slowdown / cost(2, 3)).ln().abs() < 0.25, "{told:?}, {}", cost(2, 3));
}

#[test]
fn two_streams_find_the_bandwidth_that_they_share() {
    let mut learner = Learner::new();
    let flow = |at: usize| 2e9 + 1e9 * at as f64;
    for at in 0..6 {
        let readings = Readings::new(1.2 * flow(at), 1.1 * flow(at), flow(at)).expect("flows");
        learner.read(0, &at.to_string(), &readings, 1, 60.0, true);
    }
    for at in 0..6 {
        for other in 0..6 {
            let slowdown = ((flow(at) + flow(other)) / 8e9).max(1.0);
            learner.learn(0, &beside(&at.to_string(), &other.to_string(), slowdown)).expect("a slowdown");
        }
    }
    let link = learner.scn().expect("pairs").bytes_per_second_max;
    assert!((0.9..1.1).contains(&(link / 8e9)), "{link}");
}

#[test]
fn each_observation_is_predicted_before_it_is_learned_and_the_error_is_kept_by_the_hour() {
    let mut learner = Learner::new();
    let first = learner.learn(5 * HOUR, &beside("a", "b", 2.0)).expect("a slowdown");
    assert_eq!(first.slowdown, 1.0);
    learner.learn(5 * HOUR + 10, &beside("a", "b", 2.0)).expect("a slowdown");
    for _ in 0..30 {
        learner.learn(7 * HOUR, &beside("a", "b", 2.0)).expect("a slowdown");
    }
    // A clock that goes back: it is counted where it was last.
    learner.learn(0, &beside("a", "b", 2.0)).expect("a slowdown");
    let hours: Vec<_> = learner.hours().iter().collect();
    assert_eq!(hours.iter().map(|hour| (hour.hour, hour.observed)).collect::<Vec<_>>(), [(5, 2), (7, 31)]);
    assert!((hours[0].ours() - 0.25).abs() < 0.01, "half off, then not at all: {:?}", hours[0]);
    assert!(hours[1].ours() < 0.01 && hours[1].below() == [1.0, 1.0], "{:?}", hours[1]);
    assert!((hours[1].no_contention() - 0.475).abs() < 1e-9);
    assert_eq!((learner.observed(), hours[0].untold), (33, 2));
}

#[test]
fn where_one_comes_instead_of_another_each_tells_about_the_other() {
    let mut learner = Learner::new();
    let swap = |old: &str, new: &str, slowdown| Observation {
        instead_of: Some(old.to_owned()),
        ..beside("it", new, slowdown)
    };
    (0..6).for_each(|_| _ = learner.learn(0, &swap("old", "new", 1.5)).expect("a slowdown"));
    assert!(learner.predict("it", "new").cannot_tell(), "nothing is known of either");
    let told = learner.learn(0, &swap("old", "new", 1.5)).expect("a slowdown");
    assert!((told.slowdown - 1.5).abs() < 0.01 && !told.cannot_tell(), "the quotient is: {told:?}");
    (0..6).for_each(|_| _ = learner.learn(0, &beside("it", "old", 2.0)).expect("a slowdown"));
    let told = learner.predict("it", "new");
    assert!((told.slowdown - 3.0).abs() < 0.1 && !told.cannot_tell() && told.seen == 7, "{told:?}");
    // And back, through what was known first.
    (0..6).for_each(|_| _ = learner.learn(0, &swap("new", "third", 0.5)).expect("a slowdown"));
    assert!((learner.predict("it", "third").slowdown - 1.5).abs() < 0.1);
}

#[test]
fn what_is_no_slowdown_changes_nothing() {
    let mut learner = with_classes(1);
    let before = learner.clone();
    for slowdown in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e9] {
        assert!(matches!(learner.learn(9, &beside("s0", "x", slowdown)), Err(NotLearned::NoSlowdown(_))));
    }
    let state = |learner: &Learner| serde_json::to_string(learner).expect("text for keys");
    assert_eq!(state(&learner), state(&before));
}

#[test]
fn programs_that_were_not_seen_for_longest_are_forgotten() {
    let mut learner = Learner::new();
    for at in 0..3 * PROGRAMS_MAX as u64 {
        learner.see(at, &at.to_string(), "program");
        learner.learn(at, &beside(&at.to_string(), &(at / 2).to_string(), 1.5)).expect("a slowdown");
        assert!(learner.programs().len() <= PROGRAMS_MAX);
    }
    assert!(learner.programs().contains_key("767") && !learner.programs().contains_key("0"));
    let json = serde_json::to_string(&learner).expect("text for keys");
    assert!(!json.contains("\"0\""), "nor is it anybody's neighbour");
    assert!(json.len() < 4 << 20, "{}", json.len());
    assert!(learner.forget("767") && !learner.forget("767"));
}

proptest! {
    /// Whatever comes in whatever order: numbers, limits around them, and the same again from what was written down.
    #[test]
    fn predictions_are_numbers_within_their_limits_and_survive_writing(
        seen in prop::collection::vec((0..6usize, 0..6usize, 0.1..20.0f64, 0..200_000u64), 0..120),
    ) {
        let mut learner = with_classes(2);
        let id = |at: usize| ["s0", "s1", "c0", "c1", "n0", "n1"][at];
        for (program, neighbour, slowdown, now) in &seen {
            let said = learner.predict(id(*program), id(*neighbour));
            let told = learner.learn(*now, &beside(id(*program), id(*neighbour), *slowdown)).expect("a slowdown");
            prop_assert!(told.slowdown.is_finite() && told.low <= told.slowdown && told.slowdown <= told.high);
            prop_assert!(said.slowdown.is_finite() && said.seen == told.seen);
        }
        let hours: u64 = learner.hours().iter().map(|hour| u64::from(hour.observed)).sum();
        prop_assert_eq!(hours, seen.len() as u64);
        let json = serde_json::to_string(&learner).expect("text for keys");
        let again: Learner = serde_json::from_str(&json).expect("what was written");
        prop_assert_eq!(again.programs().len(), learner.programs().len());
        for program in 0..6 {
            for neighbour in 0..6 {
                let told = again.predict(id(program), id(neighbour));
                prop_assert!(told.slowdown.is_finite() && told.low > 0.0 && told.high.is_finite());
            }
        }
    }

    /// A pace that drifts by itself, slowly, moves what is said of a neighbour by no more than it drifts within the windows.
    #[test]
    fn a_neighbours_cost_is_found_whatever_the_hour(cost in 1.0..4.0f64, drift in 0.9995..1.0005f64, begin in 20..200u64) {
        let mut changes = Changes::new(Windows::default());
        let (mut work, mut pace, mut found) = (0.0, 1e9, Vec::new());
        for second in 0..begin + 100 {
            let is_beside = (begin..begin + 30).contains(&second);
            pace *= drift;
            work += if second > begin && second <= begin + 30 { pace / cost } else { pace };
            found.extend(changes.look(second as f64, looks(second, work, is_beside)));
        }
        let of_it: Vec<&Observation> = found.iter().filter(|seen| seen.program == "it").collect();
        prop_assert_eq!(of_it.len(), 2);
        for seen in of_it {
            prop_assert!((seen.slowdown / cost - 1.0).abs() < 0.005, "{:?} {}", seen, cost);
            prop_assert_eq!((seen.neighbour.as_str(), seen.others), ("other", 0));
        }
    }
}

fn looks(second: u64, work: f64, is_beside: bool) -> Vec<Look> {
    let look =
        |session, program: &str, work, cpu_s| Look { session, program: program.to_owned(), work, cpu_s };
    let mut all = vec![look(1, "it", work, second as f64)];
    if is_beside {
        all.push(look(2, "other", second as f64 * 1e9, second as f64));
    }
    all
}

#[test]
fn what_cannot_be_compared_is_not() {
    // By second: whether the neighbour is there, and what the program has done until then.
    let observed = |is_beside: fn(u64) -> bool, work: fn(u64) -> f64, at: fn(u64) -> f64| {
        let mut changes = Changes::new(Windows::default());
        let all = (0..60)
            .flat_map(|second| changes.look(at(second), looks(second, work(second), is_beside(second))));
        all.filter(|seen| seen.program == "it").count()
    };
    let steady = |second: u64| second as f64;
    let usual = |second: u64| second as f64;
    assert_eq!(observed(|second| second >= 30, steady, usual), 1);
    let another = |from: u64, to: u64| {
        let mut changes = Changes::new(Windows::default());
        let mut found = Vec::new();
        for second in 0..60 {
            let mut all = looks(second, second as f64, second < to);
            all.extend((second >= from).then(|| Look {
                session: 3,
                program: "third".into(),
                ..all[0].clone()
            }));
            found.extend(changes.look(second as f64, all).into_iter().filter(|seen| seen.program == "it"));
        }
        found.into_iter().map(|seen| (seen.neighbour, seen.instead_of, seen.others)).collect::<Vec<_>>()
    };
    assert_eq!(another(30, 30), [("third".to_owned(), Some("other".to_owned()), 0)]);
    assert_eq!(another(10, 40), [("third".to_owned(), None, 1), ("other".to_owned(), None, 1)]);
    // It is there for too short a time, or nothing changes.
    assert_eq!(observed(|second| (30..33).contains(&second), steady, usual), 0);
    assert_eq!(observed(|_| true, steady, usual), 0);
    // The program changes its own pace within a window.
    assert_eq!(observed(|second| second >= 30, |second| (second.min(28) + 9 * second) as f64, usual), 1);
    assert_eq!(observed(|second| second >= 30, |second| (9 * second.min(28) + second) as f64, usual), 0);
    // The machine slept in between.
    assert_eq!(
        observed(
            |second| second >= 30,
            steady,
            |second| if second > 31 { 1e4 + second as f64 } else { second as f64 }
        ),
        0
    );
}
