//! Random patterns on groups of threads: every byte is where a serial execution puts it, over every queue.
//!
//! `CASTELL_TEST_SEED=n` repeats what failed, `CASTELL_TEST_SECONDS=n` goes on for longer.

use crate::group::group_with;
use crate::pattern::draw::{CALLS, Draw};
use crate::pattern::{Part, Pattern};
use castell_comm::job::{JobOptions, Progress};
use castell_comm::{Comm, Handle};
use castell_goal::schedule::Schedule;
use rand::Rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Seconds of a usual test run.
const SECONDS: u64 = 8;
/// How long a group may take; nothing here takes a hundredth of it.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn random_patterns_end_as_serial_ones() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let asked = number("CASTELL_TEST_SEED");
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
    let seconds = number("CASTELL_TEST_SECONDS").unwrap_or(SECONDS);
    let (start, mut groups) = (Instant::now(), 0);
    let mut seed = asked.unwrap_or(now % 1_000_000_007);
    while groups == 0 || start.elapsed() < Duration::from_secs(seconds) {
        try_one(seed);
        groups += 1;
        seed += 1;
    }
    println!("{groups} groups, the last with seed {}", seed - 1);
}

/// One group, several patterns at once, twice.
fn try_one(seed: u64) {
    let mut draw = Draw::new(seed);
    let ranks = draw.0.random_range(1..=6);
    let options = JobOptions {
        queue_slots: draw.of(&[16, 32, 256, 2048]),
        rings: draw.one_in(2),
        progress: draw.of(&Progress::ALL),
        eager_bytes: draw.of(&[64, 1000, 8192, 8192, 60_000]),
        ..JobOptions::new(ranks)
    };
    let count = draw.0.random_range(1..=3);
    let mut patterns: Vec<Pattern> = (0..count)
        .map(|at| {
            let (steps, open) = (draw.0.random_range(5..=50), draw.one_in(4));
            Pattern::draw(&mut draw, ranks, steps, at * 100_000, open)
        })
        .collect();
    // Mostly so small that senders have to hold their messages now and then.
    let budget = draw.of(&[0, 1000, 100_000, 64 << 20]);
    let what = format!("seed {seed}: {count} patterns, budget {budget}, {options:?}");
    let rounds = 2;
    let calls: u64 = patterns.iter().flat_map(|pattern| &pattern.parts).map(|part| part.calls).sum();
    let calls_before = CALLS.load(Ordering::SeqCst);
    let open: Vec<bool> = patterns.iter().map(|pattern| pattern.open).collect();
    // Rank by rank, each pattern's part.
    let parts: Vec<Mutex<Vec<Part>>> = (0..ranks)
        .map(|_| Mutex::new(patterns.iter_mut().map(|pattern| pattern.parts.remove(0)).collect()))
        .collect();
    let watchdog = Watchdog::new(&what);
    group_with(&options, |comm| {
        watchdog.watch(comm);
        comm.set_unexpected_budget(budget);
        let mut parts = parts[comm.rank().index()].lock().expect("one thread a rank");
        run(comm, &mut parts, &open, rounds, seed, &what);
    });
    drop(watchdog);
    assert_eq!(CALLS.load(Ordering::SeqCst) - calls_before, calls * rounds, "{what}: calls");
}

fn run(comm: &Comm, parts: &mut [Part], open: &[bool], rounds: u64, seed: u64, what: &str) {
    let mut draw = Draw::new(seed ^ u64::from(comm.rank().0 + 1) << 40);
    let schedules: Vec<Arc<Schedule>> =
        parts.iter().map(|part| Arc::new(part.graph.compile().expect("compiles"))).collect();
    for round in 0..rounds {
        for part in parts.iter_mut() {
            part.real.copy_from_slice(&part.before);
        }
        let mut handles: Vec<(usize, Handle)> = Vec::new();
        for (at, schedule) in schedules.iter().enumerate() {
            let handle = if open[at] {
                // SAFETY: the parts keep the memory; nobody looks at it before the run has ended.
                unsafe { comm.run_open(schedule) }
            } else {
                // SAFETY: as above.
                unsafe { comm.run(schedule) }
            };
            handles.push((at, handle.expect("starts")));
            if draw.one_in(8) {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        draw.shuffle(&mut handles);
        for (at, handle) in &handles {
            while draw.one_in(2) && !handle.is_done() {
                std::thread::sleep(Duration::from_micros(100));
            }
            handle.wait().unwrap_or_else(|failure| panic!("{what}: pattern {at}, round {round}: {failure}"));
            let part = &parts[*at];
            let wrong = part.real.iter().zip(&part.after).position(|(real, model)| real != model);
            assert_eq!(
                wrong,
                None,
                "{what}: pattern {at}, round {round}, rank {}: first wrong byte",
                comm.rank()
            );
        }
    }
}

/// Ends the test with its seed and who waits for whom when a group takes too long, or when a rank fails while others
/// wait for it.
struct Watchdog {
    what: Arc<String>,
    ends: Arc<AtomicU64>,
}

impl Watchdog {
    fn new(what: &str) -> Watchdog {
        Watchdog { what: Arc::new(what.to_string()), ends: Arc::default() }
    }

    fn watch(&self, comm: &Comm) {
        if comm.rank().0 > 0 {
            return;
        }
        let (comm, what, ends) = (comm.clone(), Arc::clone(&self.what), Arc::clone(&self.ends));
        std::thread::spawn(move || {
            let start = Instant::now();
            while ends.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(5));
                if start.elapsed() > PATIENCE {
                    comm.job().request_stall_report();
                    std::thread::sleep(Duration::from_millis(500));
                    eprintln!("nothing ends: {what}");
                    std::process::abort();
                }
            }
        });
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.ends.store(1, Ordering::SeqCst);
    }
}
