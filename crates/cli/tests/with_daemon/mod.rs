//! A daemon to talk to, and applications that have kernels run by it.

use castell_kernels::{Application, Collection, Kernel};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub const RESOURCES: [&str; 3] = ["one_core", "all_cores", "gpu"];

/// A daemon in a folder of its own. It is killed with this.
pub struct Daemon {
    pub folder: tempfile::TempDir,
    pub child: Child,
}

impl Daemon {
    pub fn start(options: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let child = start(&folder.path().join("daemon.sock"), options);
        Daemon { folder, child }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    pub fn signal(&self, signal: &str) {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
    }

    pub fn open(&self, name: &str) -> Application {
        let application = Application::open_at(name, Some(&self.socket())).expect("opens");
        wait_until("it is with the daemon", || application.has_daemon());
        application
    }

    pub fn strategy(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.arg("strategy").args(arguments).arg("--socket").arg(self.socket());
        command.output().expect("castell can be started")
    }

    pub fn status(&self) -> Value {
        let output = self.strategy(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// Nobody is registered, and nothing runs.
    pub fn is_empty(&self) -> bool {
        let status = self.status();
        let resources = status["resources"].as_array().expect("resources");
        status["applications"].as_array().is_some_and(Vec::is_empty)
            && status["waiting"].as_array().is_some_and(Vec::is_empty)
            && resources.iter().all(|on| on["running"].is_null() && on["queue"] == Value::Array(Vec::new()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start(socket: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["daemon", "--socket"]).arg(socket);
    command.args(RESOURCES.iter().flat_map(|resource| ["--resource", resource]));
    let mut child = command.args(options).stderr(Stdio::piped()).spawn().expect("castell can be started");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains("listens at"), "{line}");
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    child
}

pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    // No time is asserted: whoever waits for ever is a hang.
    for round in 0.. {
        if holds() {
            return;
        }
        assert!(round < 60_000, "{what}: not in a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

pub fn kernel(resource: &str) -> Kernel {
    Kernel { resource: resource.into(), step_ns: Some(1_000) }
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
            let (ends, application) = (&ends, daemon.open(&format!("application {number}")));
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
