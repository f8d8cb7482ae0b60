//! The seed's table 2, and properties of the tree.

use castell_interference::class::{Question, classify};
use castell_interference::{Class, Readings, Thresholds};
use proptest::prelude::*;

/// Table 2 of Haritatos et al.: bytes a second into the LLC, the columns CR_llc and CR_l2 as they are printed, the class.
fn table() -> Vec<(String, f64, f64, f64, Class)> {
    let text = include_str!("../../../vectors/interference/applications.csv");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines
        .map(|line| {
            let mut fields = line.split(',');
            let name = fields.next().expect("a name").to_owned();
            let numbers: Vec<f64> =
                fields.by_ref().take(4).map(|field| field.parse().expect("a number")).collect();
            let class = fields.next().expect("a class").parse().expect("N, C or S");
            (name, numbers[0] * 1e9, numbers[1], numbers[2], class)
        })
        .collect()
}

#[test]
fn the_seeds_table_is_met_with_its_columns_exchanged() {
    let table = table();
    assert_eq!(table.len(), 19);
    // As printed, mm_t (3.04 GB/s into L1) is C below its flow and N, as it should be, above.
    for (threshold, right_as_printed) in [(0.7e9, 8), (3.0e9, 8), (3.1e9, 9), (8.8e9, 9)] {
        let thresholds = Thresholds { l1_active: (threshold, threshold), ..Thresholds::of_cores(4) };
        let class = |llc: f64, reuse_llc: f64, reuse_l2: f64| {
            classify(&Readings::from_reuse(llc, reuse_llc, reuse_l2).expect("flows"), &thresholds).class
        };
        let as_printed =
            table.iter().filter(|(_, flow, llc, l2, own)| class(*flow, *llc, *l2) == *own).count();
        let missed: Vec<&str> = table
            .iter()
            .filter(|(_, flow, llc, l2, own)| class(*flow, *l2, *llc) != *own)
            .map(|row| row.0.as_str())
            .collect();
        assert_eq!((as_printed, missed), (right_as_printed, vec!["syr2k"]), "threshold {threshold}");
    }
}

#[test]
fn of_the_seeds_table_only_syr2k_is_ambiguous() {
    let ambiguous: Vec<String> = table()
        .into_iter()
        .filter(|(_, flow, llc, l2, _)| {
            let readings = Readings::from_reuse(*flow, *l2, *llc).expect("flows");
            classify(&readings, &Thresholds::of_cores(4)).is_ambiguous()
        })
        .map(|row| row.0)
        .collect();
    assert_eq!(ambiguous, ["syr2k"]);
}

#[test]
fn a_decision_tells_its_way_and_what_would_change_it() {
    let readings = Readings::from_reuse(5.883e9, 2.00, 2.07).expect("flows");
    let decision = classify(&readings, &Thresholds::of_cores(4));
    let questions: Vec<(Question, bool)> =
        decision.path.iter().map(|step| (step.question, step.yes)).collect();
    assert_eq!(
        questions,
        [(Question::Activity, true), (Question::Reuse, true), (Question::InLastLevel, false)]
    );
    assert_eq!(
        decision.because(),
        "N since data is reused mostly in the private caches: CR 2.07, in the LLC 2.00"
    );
    assert_eq!(
        decision.what_would_change_it(),
        [
            "S if the largest CR, 2.070, were below 2.000 (-3 %)",
            "C if the CR of the LLC, 2.000, were from 2.070 (+3 %)"
        ]
    );
}

#[test]
fn nothing_flows_is_class_n_and_no_flow_is_an_error() {
    let idle = classify(&Readings::new(0.0, 0.0, 0.0).expect("flows"), &Thresholds::of_cores(1));
    assert_eq!((idle.class, idle.confidence), (Class::N, 1.0));
    for wrong in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(Readings::new(1.0, wrong, 0.0).is_err());
    }
    // All that the core takes was in the LLC before.
    let resident = Readings::new(50e9, 40e9, 0.0).expect("flows");
    assert_eq!(classify(&resident, &Thresholds::of_cores(1)).class, Class::C);
}

#[test]
fn a_reading_that_may_be_far_off_leaves_the_class_open() {
    // What flows into L2 decides between C and N: of a coarse sample it is hardly known.
    let readings = Readings::new(13e9, 10e9, 0.07e9).expect("flows");
    let sure = Thresholds::of_cores(1);
    assert!(classify(&readings, &sure).confidence > 0.99);
    for (reading_errors, is_open) in [([0.05, 2.6, 0.05], true), ([0.05, 0.05, 0.5], false)] {
        let decision = classify(&readings, &Thresholds { reading_errors, ..sure });
        assert_eq!(
            (decision.class, decision.confidence < 0.9),
            (Class::C, is_open),
            "{}",
            decision.confidence
        );
    }
}

proptest! {
    /// Where a question on the way is what a change turns, readings moved across its threshold have the class that was named.
    #[test]
    fn what_is_said_to_change_the_class_changes_it(
        flow in 1e6..5e10f64, llc in 0.5..300.0f64, l2 in 0.5..300.0f64,
    ) {
        let thresholds = Thresholds::of_cores(4);
        let decision = classify(&Readings::from_reuse(flow, llc, l2).unwrap(), &thresholds);
        for step in &decision.path {
            let factor = step.threshold / step.value * if step.yes { 0.999 } else { 1.001 };
            let moved = match step.question {
                Question::Activity => Readings::from_reuse(flow * factor, llc, l2),
                // Both are moved: below 2 both must be.
                Question::Reuse => Readings::from_reuse(
                    decision.path[0].value / (llc * l2 * factor * factor), llc * factor, l2 * factor,
                ),
                Question::InLastLevel => Readings::from_reuse(decision.path[0].value / (llc * factor * l2), llc * factor, l2),
            }.unwrap();
            let then = classify(&moved, &thresholds).class;
            // The threshold of reuse can be met on the way to equality.
            if step.question != Question::InLastLevel || step.threshold.max(step.value * factor) >= 2.0 {
                prop_assert_eq!(then, step.class_otherwise, "{:?}", step);
            }
        }
        prop_assert!((0.0..=1.0).contains(&decision.confidence));
    }
}
