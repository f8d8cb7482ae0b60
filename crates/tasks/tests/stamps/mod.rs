//! When tasks ran in other processes, as these say it line by line, and how many ran at the same time.

use castell_host::topology::Processors;
use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

/// When a task ran, nanoseconds of the monotonic clock.
pub type Stamp = (u64, u64);

/// Those of the lines `ran BEGIN END`.
pub fn read(text: &str) -> Vec<Stamp> {
    let stamp = |line: &str| {
        let (begin, end) = line.strip_prefix("ran ")?.split_once(' ')?;
        Some((begin.parse().expect("a number"), end.parse().expect("a number")))
    };
    text.lines().filter_map(stamp).collect()
}

/// A program that says so has begun.
pub fn has_begun(mut child: Child) -> Child {
    let mut lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text") == "begins"));
    child
}

/// A program that reads its input until there is no more of it ends well.
pub fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
}

/// The most that ran at the same time.
pub fn overlap(stamps: &[Stamp]) -> usize {
    let begins = stamps.iter().map(|stamp| (stamp.0, 1));
    let ends = stamps.iter().map(|stamp| (stamp.1, -1));
    let mut events: Vec<(u64, i64)> = begins.chain(ends).collect();
    events.sort_unstable();
    let mut running = 0;
    let after = events.into_iter().map(|(_, change)| {
        running += change;
        running
    });
    after.max().unwrap_or(0) as usize
}

/// Until something is so, for a minute at most.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How many this process may use.
pub fn processors() -> usize {
    Processors::usable().count()
}
