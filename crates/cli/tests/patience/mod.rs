//! What a command said, and waiting for what has to happen.

use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

/// On both of its outputs.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// No time is asserted: what has not happened in a minute never will.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}
