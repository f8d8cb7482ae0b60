//! Applications that have kernels run by a daemon.

use crate::with_daemon::{Daemon, RESOURCES, kernel};
use castell_kernels::{Application, Collection};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub fn signal(daemon: &Daemon, signal: &str) {
    let killed = Command::new("kill").args([signal, &daemon.child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
}

pub fn open(daemon: &Daemon, name: &str) -> Application {
    let application = Application::open_at(name, Some(&daemon.socket())).expect("opens");
    wait_until("it is with the daemon", || application.has_daemon());
    application
}

pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    // No time is asserted: whoever waits for ever is a hang. Whoever asks by starting a command does not do it all the time.
    for pause_ms in (1..).map(|round| u64::min(round, 20)) {
        if holds() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not in a minute");
        thread::sleep(Duration::from_millis(pause_ms));
    }
}

/// What runs where, as the kernels themselves see it, in all applications.
#[derive(Default)]
pub struct Seen {
    busy: [AtomicBool; 3],
    pub runs: AtomicU64,
}

impl Seen {
    /// One run of a few steps, each of which has its resource for itself.
    fn run(&self, collection: &Collection, random: &mut ChaCha8Rng) {
        let (steps, naps_us) = (random.random_range(1..4), random.random_range(0..300));
        let mut next = 0;
        let run = collection.run(steps, |step| {
            assert_eq!(step.step, next, "each step runs once, in order");
            next += 1;
            assert!(!self.busy[step.kernel].swap(true, Ordering::AcqRel), "two on one resource");
            thread::sleep(Duration::from_micros(naps_us));
            self.busy[step.kernel].store(false, Ordering::Release);
        });
        run.expect("it can run");
        assert_eq!(next, steps);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }
}

/// Applications with threads, until `during` is over: how many runs there were.
pub fn applications(daemon: &Daemon, count: u64, seen: &Seen, during: impl FnOnce()) {
    let seed = castell_host::clock::now_ns();
    println!("seed {seed}");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..count {
            let (ends, application) = (&ends, open(daemon, &format!("application {number}")));
            scope.spawn(move || {
                let collection =
                    application.register(&RESOURCES.map(kernel), &[]).expect("kernels for what is there");
                thread::scope(|scope| {
                    for thread in 0..3 {
                        let collection = &collection;
                        scope.spawn(move || {
                            let mut random = ChaCha8Rng::seed_from_u64(seed ^ (number * 10 + thread));
                            while !ends.load(Ordering::Acquire) {
                                seen.run(collection, &mut random);
                            }
                        });
                    }
                });
            });
        }
        // What panics here must not leave the others running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
        ends.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
