//! Sessions in the node's daemon: it may be killed while they run, gets those that somebody else keeps, and what stands still gets no
//! kernels.

mod beside;
#[path = "with_daemon/held.rs"]
mod held;
mod patience;
mod with_daemon;

use beside::Beside;
use castell_kernels::Application;
use held::{Held, held};
use patience::{said, until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{fs, thread};
use with_daemon::{Daemon, kernel, start};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// Where this test, started once more as a program of a session, finds its folder.
const FOLDER: &str = "CASTELL_TEST_FOLDER";

/// The program of a session: two steps on the gpu, of which the first waits for a file.
#[test]
fn program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let application = Application::open("program").expect("opens");
    until("it has a daemon", || application.has_daemon());
    let collection = application.register(&[kernel("gpu")], &[]).expect("a kernel");
    let run = collection.run(2, |step| {
        fs::write(folder.join(format!("step-{}", step.step)), "").expect("a file");
        while step.step == 0 && !folder.join("go").exists() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    run.expect("it runs");
}

struct World {
    daemon: Daemon,
}

impl World {
    fn new() -> World {
        World { daemon: Daemon::start(&["--session-policy", "surpass"]) }
    }

    fn folder(&self) -> &Path {
        self.daemon.folder.path()
    }

    fn sessions_at(&self) -> PathBuf {
        self.folder().join("daemon.sessions.sock")
    }

    fn run(&self, command: &[&str]) -> Beside {
        let known = self.sessions().len();
        let mut session = Command::new(CASTELL);
        session.args(["session", "run", "--socket"]).arg(self.sessions_at()).arg("--").args(command);
        session.env(FOLDER, self.folder()).env("CASTELL_DAEMON", self.daemon.socket());
        session.current_dir(self.folder()).stdin(Stdio::null());
        let session = Beside(session.spawn().expect("castell starts"));
        until("it is there", || self.sessions().len() > known);
        session
    }

    /// This test's program as a session.
    fn program(&self) -> Beside {
        let test = std::env::current_exe().expect("a test");
        self.run(&[test.to_str().expect("text"), "program", "--exact"])
    }

    fn session(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("session").args(arguments).arg("--socket").arg(self.sessions_at());
        command.output().expect("castell starts")
    }

    #[track_caller]
    fn does(&self, arguments: &[&str]) {
        let output = self.session(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }

    fn sessions(&self) -> Vec<Value> {
        let output = self.session(&["list", "--json"]);
        let list: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        list.and_then(|list| list["sessions"].as_array().cloned()).unwrap_or_default()
    }

    /// Whether there are sessions, and all of their runners have come back to this daemon.
    fn has_runners(&self) -> bool {
        let sessions = self.sessions();
        !sessions.is_empty() && sessions.iter().all(|session| session["awaited"] == false)
    }

    fn states(&self) -> Vec<String> {
        self.sessions().iter().map(|session| session["state"].as_str().unwrap_or("").to_owned()).collect()
    }

    fn has(&self, file: &str) -> bool {
        self.folder().join(file).exists()
    }

    fn make(&self, file: &str) {
        fs::write(self.folder().join(file), "").expect("a file");
    }

    /// What the daemon says of the application with this name.
    fn is_parked(&self, name: &str) -> Option<bool> {
        let status = self.daemon.status();
        let all = status["applications"].as_array()?.clone();
        all.iter().find(|application| application["application"] == name)?["parked"].as_bool()
    }

    /// What is left of programs of sessions, running or not.
    fn processes(&self) -> Vec<PathBuf> {
        let ours = [FOLDER.as_bytes(), b"=", self.folder().as_os_str().as_encoded_bytes()].concat();
        let entries = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        let is_ours = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == ours)
        };
        entries.filter(is_ours).collect()
    }

    /// What runs on the gpu.
    fn on_gpu(&self) -> Option<String> {
        let status = self.daemon.status();
        let all = status["resources"].as_array()?.clone();
        let gpu = all.into_iter().find(|resource| resource["resource"] == "gpu")?;
        gpu["running"].as_str().map(str::to_owned)
    }
}

#[test]
fn who_stands_still_leaves_its_resource_to_others() {
    let world = World::new();
    let program = world.program();
    until("its first step runs", || world.has("step-0"));
    assert_eq!((world.on_gpu().as_deref(), world.is_parked("program")), (Some("program#1"), Some(false)));
    let other = Application::open_at("other", Some(&world.daemon.socket())).expect("opens");
    until("it is with the daemon", || other.has_daemon());
    let collection = other.register(&[kernel("gpu")], &[]).expect("a kernel");
    let Held { has_begun, end, runs } = held(collection);
    until("the other one waits", || {
        world.daemon.status()["waiting"].as_array().is_some_and(|all| all.len() == 1)
    });
    world.does(&["stop", "1"]);
    has_begun.recv().expect("it runs where the program stands still");
    assert_eq!(world.is_parked("program"), Some(true));
    world.does(&["resume", "1"]);
    until("it is taken in again", || world.is_parked("program") == Some(false));
    world.make("go");
    until("its second step waits", || {
        world.daemon.status()["waiting"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert!(!world.has("step-1"), "the other one has the resource");
    end.send(()).expect("it runs");
    runs.join().expect("no panic").expect("it has run");
    assert_eq!(program.code(), Some(0));
    assert!(world.has("step-1"));
    drop(other);
    until("all is forgotten", || world.daemon.is_empty() && world.sessions().is_empty());
}

#[test]
fn sessions_outlive_a_daemon_that_is_killed() {
    let mut world = World::new();
    let long = world.program();
    until("its first step runs", || world.has("step-0"));
    let short = world.run(&["sh", "-c", "while ! [ -e end ]; do sleep 0.01; done; exit 7"]);
    until("it is suspended", || world.states() == ["suspended", "running"]);
    let rounds =
        3 * std::env::var("CASTELL_TEST_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for round in 0..rounds {
        let before = world.sessions();
        world.daemon.child.kill().expect("it is ours");
        world.daemon.child.wait().expect("it was started");
        if round % 10 == 2 {
            // Nobody starts one: a runner does, and the daemon gets the sessions from it.
            until("somebody keeps the sessions", || world.sessions().len() == 2);
        }
        world.daemon.child = start(&world.daemon.socket(), &["--session-policy", "wait"]);
        until("all are back", || world.has_runners() && world.states() == ["suspended", "running"]);
        let known = |all: &[Value]| all.iter().map(|one| one["pid"].clone()).collect::<Vec<_>>();
        assert_eq!(known(&world.sessions()), known(&before));
    }
    assert_eq!(world.on_gpu(), None, "the daemon has not heard of who stands still");
    world.make("end");
    assert_eq!(short.code(), Some(7));
    until("its turn comes", || world.states() == ["running"]);
    until("its step is known", || world.on_gpu().is_some());
    world.make("go");
    assert_eq!(long.code(), Some(0));
    until("all is forgotten", || world.daemon.is_empty() && world.sessions().is_empty());
    let left = world.processes();
    println!(
        "trial: {rounds} daemons killed while sessions run; sessions 0, applications 0, processes {}",
        left.len()
    );
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn no_sessions_where_none_are_wanted() {
    let daemon = Daemon::start(&["--sessions", "none"]);
    assert!(!daemon.folder.path().join("daemon.sessions.sock").exists());
    let output = Command::new(CASTELL).args(["daemon", "--session-policy", "none"]).output().expect("starts");
    assert!(!output.status.success() && said(&output).contains("no policy"), "{}", said(&output));
}
