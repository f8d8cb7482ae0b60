//! What was said of pairs, against the truth.

use castell_interference::learn::Told;

/// Asserts that what was said of each pair beside its truth is much better than the median, that its limits hold, and that most pairs get an
/// answer.
pub fn assert_good(all: &[(f64, Told)], median: f64) {
    // Of logarithms: a factor of two too much is as bad as one too little.
    let off = |said: &dyn Fn(&Told) -> f64| {
        let squares = all.iter().map(|(truth, told)| (said(told) / truth).ln().powi(2)).sum::<f64>();
        (squares / all.len() as f64).sqrt()
    };
    let (ours, medians) = (off(&|told| told.slowdown), off(&|_| median));
    let inside = all.iter().filter(|(truth, told)| (told.low..=told.high).contains(truth)).count();
    let told = all.iter().filter(|(_, told)| !told.cannot_tell()).count();
    let inside = inside as f64 / all.len() as f64;
    println!(
        "off by {ours:.3}, the median by {medians:.3}; {inside:.3} within limits, {told} of {} are told",
        all.len()
    );
    assert!(ours < 0.8 * medians && inside > 0.85 && told > all.len() / 2);
}
