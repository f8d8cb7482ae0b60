//! Crowds in all weathers: everything comes once and in order, or an error is told once. A million connections here, others by `cargo xtask storm --seed`.

mod segment;

use segment::storm::crowds;

const CONNECTIONS: u32 = 16;
const CROWDS: u64 = 62_500;

#[test]
fn whatever_the_weather_everything_comes_once_or_an_error_is_told_once() {
    let all = crowds(0..CROWDS, CONNECTIONS);
    println!("seeds 0 to {CROWDS}: {all:?}");
    assert_eq!(all.connections, CROWDS * u64::from(CONNECTIONS));
    assert!(all.restarts > 0 && all.failed > 0, "{all:?}");
    assert!(all.counts.lost > 0 && all.counts.damaged > 0 && all.counts.forged > 0, "{all:?}");
}

/// What storms of a million connections have found.
#[test]
fn seeds_that_once_failed() {
    // The peer had forgotten the connection and said so, which ended it; the acknowledgement of its end came behind.
    crowds(33_445..33_446, CONNECTIONS);
}
