//! Over a simulated day the error of predictions falls.

#[path = "../examples/learned_day/day.rs"]
mod day;

use castell_cachesim::machine::Chip;
use castell_cachesim::programs::kernels::kernels;
use castell_interference::simulated::measure;
use day::{Day, Hour, Options, day};

/// Means over some hours: the learner, the median so far, 1.05, all against the truth; and how many observations there were.
fn over(hours: &[Hour]) -> ([f64; 3], u32) {
    let count: u32 = hours.iter().map(|hour| hour.observed).sum();
    let mean = |at: usize| {
        hours.iter().map(|hour| hour.truth[at] * f64::from(hour.observed)).sum::<f64>() / f64::from(count)
    };
    ([0, 1, 2].map(mean), count)
}

#[test]
fn the_error_falls_over_a_day_and_ends_far_below_what_is_always_the_same() {
    let chip = Chip::xeon_e5_4620(32);
    let measured = measure(&chip, &kernels(&chip), |_| ()).expect("all ways");
    let pairs = measured.pairs(|| ()).expect("all ways");
    let of = |seed| day(&measured, &pairs, Options { sessions: 600, seed, noise: 0.1, drift: 0.5 });
    for seed in 1..=3 {
        let Day { hours, learner, sessions } = of(seed);
        let ([first, ..], begun) = over(&hours[..8]);
        let (last, ended) = over(&hours[16..]);
        assert!(sessions > 300 && begun > 50 && ended > 50, "{sessions} {begun} {ended}");
        assert!(last[0] < 0.8 * first, "seed {seed}: from {first} to {last:?}");
        assert!(last[0] < 0.5 * last[1] && last[0] < 0.5 * last[2], "seed {seed}: {last:?}");
        let known: u32 = learner.hours().iter().map(|hour| hour.observed).sum();
        assert_eq!(known, hours.iter().map(|hour| hour.observed).sum::<u32>());
    }
    let (one, other) = (of(1), of(1));
    assert_eq!(format!("{:?}", one.hours), format!("{:?}", other.hours), "the same seed is the same day");
}
