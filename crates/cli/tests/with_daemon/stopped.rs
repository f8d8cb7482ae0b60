//! Applications that are stopped while they have what others wait for.

use crate::applications::{Seen, applications, wait_until};
use crate::had::Had;
use crate::held::{Held, held};
use crate::trials;
use crate::with_daemon::{Daemon, RESOURCES, kernel, start_heard};
use castell_host::process::{Pid, Process};
use castell_kernels::Application;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{fs, thread};

/// Where this test program, started once more as an application, finds the daemon and its files.
const FOLDER: &str = "CASTELL_TEST_STOPPED";
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// A process with this test of this program.
fn application(daemon: &Daemon, test: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this one"));
    command.args(["--exact", &format!("stopped::{test}"), "--nocapture"]).stdout(Stdio::piped());
    command.env(FOLDER, daemon.folder.path()).spawn().expect("starts")
}

fn signal(child: &Child, signal: i32) {
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    Process::open(pid).and_then(|process| process.signal(signal)).expect("it is ours");
    wait_until("the signal is there", || pid.is_stopped() == (signal == STOP));
}

/// Two steps on the gpu, of which the first waits for a file.
#[test]
fn has_the_gpu() {
    let Some(folder) = folder() else { return };
    let application = Application::open_at("program", Some(&folder.join("daemon.sock"))).expect("opens");
    wait_until("it has a daemon", || application.has_daemon());
    let collection = application.register(&[kernel("gpu")], &[]).expect("a kernel");
    let run = collection.run(2, |step| {
        fs::write(folder.join(format!("step-{}", step.step)), "").expect("a file");
        wait_until("it may end", || step.step == 1 || folder.join("go").exists());
    });
    run.expect("it runs");
}

/// Runs short steps, as many as there can be, until there is a file; says how often.
#[test]
fn runs_until_its_end() {
    let Some(folder) = folder() else { return };
    let application = Application::open_at("stopped", Some(&folder.join("daemon.sock"))).expect("opens");
    wait_until("it has a daemon", || application.has_daemon());
    let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
    let runs = AtomicU64::new(0);
    thread::scope(|scope| {
        for steps in 1..=4 {
            let (collection, runs, folder) = (&collection, &runs, &folder);
            scope.spawn(move || {
                while !folder.join("end").exists() {
                    for _ in 0..20 {
                        let mut next = 0;
                        let run = collection.run(steps, |step| {
                            assert_eq!(step.step, next, "each step runs once, in order");
                            next += 1;
                        });
                        run.expect("it runs");
                        assert_eq!(next, steps);
                        runs.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("runs: {}", runs.load(Ordering::Relaxed));
}

fn is_parked(daemon: &Daemon, name: &str) -> bool {
    let status = daemon.status();
    let all = status["applications"].as_array().expect("a list");
    let found = all.iter().find(|one| one["application"] == name).expect("it is registered");
    found["parked"].as_bool().expect("yes or no")
}

fn on_gpu(daemon: &Daemon) -> Option<String> {
    let status = daemon.status();
    let all = status["resources"].as_array().expect("a list");
    all.iter().find(|on| on["resource"] == "gpu")?["running"].as_str().map(str::to_owned)
}

fn waiting(daemon: &Daemon) -> usize {
    daemon.status()["waiting"].as_array().map_or(0, Vec::len)
}

/// How often a process has gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let status =
        fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a number")
}

#[test]
fn who_is_stopped_leaves_its_resource_to_who_waits() {
    let daemon = Daemon::start(&["--sessions", "none"]);
    let mut program = application(&daemon, "has_the_gpu");
    let has = |file: &str| daemon.folder.path().join(file).exists();
    wait_until("its first step runs", || has("step-0"));
    signal(&program, STOP);
    // Nobody waits, so nobody looks: the daemon sleeps.
    assert!(!is_parked(&daemon, "program"));
    let before = sleeps(daemon.child.id());
    thread::sleep(Duration::from_millis(1_500));
    let after = sleeps(daemon.child.id());
    assert!(after <= before + 2, "it woke {} times", after - before);
    let other = Application::open_at("other", Some(&daemon.socket())).expect("opens");
    wait_until("it is with the daemon", || other.has_daemon());
    let collection = other.register(&[kernel("gpu")], &[]).expect("a kernel");
    let Held { has_begun, end, runs } = held(collection);
    has_begun.recv_timeout(Duration::from_secs(60)).expect("it runs where the program stands still");
    assert!(is_parked(&daemon, "program") && on_gpu(&daemon).is_some_and(|on| on.starts_with("other#")));
    signal(&program, CONTINUE);
    wait_until("it is taken in again", || !is_parked(&daemon, "program"));
    fs::write(daemon.folder.path().join("go"), "").expect("a file");
    wait_until("its second step waits", || waiting(&daemon) == 1);
    assert!(!has("step-1"), "the other one has the resource");
    end.send(()).expect("it runs");
    runs.join().expect("no panic").expect("it has run");
    assert!(program.wait().expect("it was started").success() && has("step-1"));
    drop(other);
    wait_until("all is forgotten", || daemon.is_empty());
}

/// Processes are stopped and go on at any moment, also in the middle of what they say: nothing is lost, nothing runs twice, nobody is sent
/// away, and who is never stopped has each resource for itself.
#[test]
fn applications_may_be_stopped_in_any_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, mut said) = start_heard(&folder.path().join("daemon.sock"), &["--sessions", "none"]);
    let daemon = Daemon { folder, child };
    let (words, heard) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        while said.read_line(&mut line).is_ok_and(|count| count > 0) {
            let _ = words.send(std::mem::take(&mut line));
        }
    });
    let (seen, before) = (Seen::default(), Had::by(&daemon));
    let seed = castell_host::clock::now_ns();
    println!("seed of stops {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut runs, mut parked) = (0, 0);
    applications(&daemon, 2, &seen, || {
        let mut children: Vec<_> =
            (0..3).map(|_| (application(&daemon, "runs_until_its_end"), false)).collect();
        wait_until("all are there", || {
            daemon.status()["applications"].as_array().is_some_and(|all| all.len() == 5)
        });
        for _ in 0..trials(60) {
            let at = random.random_range(0..children.len());
            let (child, is_stopped) = &mut children[at];
            *is_stopped = !*is_stopped;
            signal(child, if *is_stopped { STOP } else { CONTINUE });
            if random.random_range(0..4) == 0 {
                let status = daemon.status();
                let all = status["applications"].as_array().expect("a list");
                parked += all.iter().filter(|one| one["parked"] == true).count();
            }
            thread::sleep(Duration::from_micros(random.random_range(0..120_000)));
            let before = seen.runs.load(Ordering::Relaxed);
            wait_until("the others go on", || seen.runs.load(Ordering::Relaxed) > before + 2);
        }
        fs::write(daemon.folder.path().join("end"), "").expect("a file");
        for (child, is_stopped) in &mut children {
            if *is_stopped {
                signal(child, CONTINUE);
            }
            let mut told = String::new();
            child.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
            assert!(child.wait().expect("it was started").success(), "{told}");
            let line = told.lines().find_map(|line| line.split_once("runs: "));
            runs += line.expect("it says how often it ran").1.parse::<u64>().expect("a number");
        }
    });
    wait_until("all have gone", || daemon.is_empty());
    assert_eq!(daemon.status()["done"], runs + seen.runs.load(Ordering::Relaxed));
    assert!(parked > 0, "nobody was seen parked");
    let said: Vec<String> = heard.try_iter().collect();
    assert!(said.is_empty(), "{said:?}");
    println!("{runs} runs of those that were stopped, {parked} times seen parked");
    before.report(&daemon, trials(60), "times applications stopped or continued");
}
