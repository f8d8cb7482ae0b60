//! Whatever is said, measured or asked for: no setting lies outside its knobs' values, and nothing panics.

use castell_knobs::{
    Boxes, CrossEntropy, Effects, Ended, Genetic, Goal, Knob, Space, cross_entropy, genetic,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_text_is_a_knob_or_an_error(
        text in "[a-z_-]{0,3}=?[0-9-]{0,20}(\\.\\.)?[0-9-]{0,20}:?[*+]?[0-9-]{0,20}",
    ) {
        if let Ok(knob) = Knob::parse(&text) {
            let (low, high) = knob.range();
            for number in [0, 1, knob.count() / 2, knob.count() - 1, u64::MAX] {
                prop_assert!((low..=high).contains(&knob.value(number)));
            }
            prop_assert_eq!((knob.value(0), knob.value(knob.count() - 1)), (low, high));
            prop_assert_eq!(Knob::parse(&knob.to_string()), Ok(knob));
        }
    }

    #[test]
    fn searches_stay_inside_whatever_is_measured(
        ranges in prop::collection::vec((-1000_i64..1000, 0_i64..100_000, 1_i64..100), 1..5),
        measured in prop::collection::vec(prop::option::weighted(0.9, prop::num::f64::NORMAL), 200),
        seed: u64,
        is_genetic: bool,
        most: bool,
    ) {
        let knob = |(at, (low, more, step)): (usize, &(i64, i64, i64))| {
            Knob::parse(&format!("k{at}={low}..{}:{step}", low + more)).expect("a knob")
        };
        let space = Space::new(ranges.iter().enumerate().map(knob).collect()).expect("a space");
        let mut all = Vec::new();
        let measure = |setting: Vec<i64>| {
            let is_inside = |(value, knob): (&i64, &Knob)| (knob.range().0..=knob.range().1).contains(value);
            assert!(setting.iter().zip(space.knobs()).all(is_inside), "{setting:?}");
            let Some(value) = measured.get(all.len()) else { return Err(Ended) };
            all.push((setting, *value));
            Ok(*value)
        };
        let goal = if most { Goal::Most } else { Goal::Least };
        let ended = if is_genetic {
            let numbers = Genetic { population: 20, generations: 1000, ..Genetic::default() };
            genetic(&space, goal, numbers, seed, measure)
        } else {
            cross_entropy(&space, goal, CrossEntropy::default(), seed, measure)
        };
        prop_assert_eq!(ended, Err(Ended));
        prop_assert_eq!(Effects::of(&space, &all).knobs.len(), space.knobs().len());
        for (place, knob) in space.knobs().iter().enumerate() {
            let boxes = Boxes::of(knob, place, &all, 10);
            let counts = boxes.parts.iter().filter_map(|(_, _, found)| found.map(|found| found.count));
            prop_assert_eq!(counts.sum::<usize>(), all.iter().filter(|(_, value)| value.is_some()).count());
        }
    }
}
