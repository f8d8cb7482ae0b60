//! C programs and a real daemon: with a strategy of their own, with kernels for a device, and tasks with versions.

mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, output, root};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Killed with this.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon of a node with these resources, and where it listens.
fn start(installed: &Installed, resources: &[&str]) -> (Daemon, PathBuf) {
    let socket = installed.prefix.join("daemon.sock");
    let mut daemon = Command::new(installed.prefix.join("bin/castell"));
    daemon.args(["daemon", "--socket"]).arg(&socket);
    daemon.args(resources.iter().flat_map(|resource| ["--resource", resource]));
    let mut daemon = Daemon(daemon.stderr(Stdio::piped()).spawn().expect("castell can be started"));
    let mut said = String::new();
    let mut lines = BufReader::new(daemon.0.stderr.take().expect("piped"));
    lines.read_line(&mut said).expect("text");
    assert!(said.contains("listens at"), "{said}");
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    (daemon, socket)
}

/// All numbers in a text.
fn numbers(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// Processors, PoCL on the same processors, a GPU of CUDA's where there is one, and a device that only takes its time: programs share them.
#[test]
fn kernels_run_on_devices_where_the_daemon_says() {
    let installed = Installed::new("capi-kernels-on-devices");
    let (_daemon, socket) = start(&installed, &["one_core", "all_cores", "gpu"]);
    let start = |source: &str, words: &[&str]| {
        let program = installed.compile(&root().join("examples/kernels").join(source));
        let mut command = Command::new(program);
        command.args(words).env("CASTELL_DAEMON", &socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it was compiled")
    };
    let times = root().join("vectors/strategy/kernel-times.csv");
    let paced = start("paced.c", &[times.to_str().expect("text"), "0.002", "matrix_multiply", "60"]);
    let matrices = ["opencl", "cuda"].map(|api| start("matrix.c", &["96", "80", "70", api]));
    let paced = paced.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&paced.stdout);
    assert!(paced.status.success() && said.starts_with("60 matrix_multiply, by the daemon: "), "{paced:?}");
    assert_eq!(numbers(&said)[1..4].iter().sum::<u32>(), 60, "{said}");
    for (matrix, (key, api)) in matrices.into_iter().zip([("opencl", "OpenCL"), ("cuda", "CUDA")]) {
        let matrix = matrix.wait_with_output().expect("it ends");
        if String::from_utf8_lossy(&matrix.stderr).contains("there is no device of CUDA") {
            skipped::skip(key, "there is none");
            continue;
        }
        let said = String::from_utf8_lossy(&matrix.stdout);
        assert!(matrix.status.success() && said.starts_with("80 products, by the daemon: "), "{matrix:?}");
        assert_eq!(numbers(&said)[1..4].iter().sum::<u32>(), 80, "{said}");
        assert!(said.contains(&format!(" on the GPU through {api} (alone ")), "{said}");
    }
}

#[test]
fn a_c_program_brings_its_own_strategy() {
    let installed = Installed::new("capi-own-strategy");
    let program = installed.compile(&root().join("crates/capi/tests/c/daemon/own.c"));
    let (_daemon, socket) = start(&installed, &["one_core", "gpu"]);

    let file = |name: &str, text: &str| -> PathBuf {
        let path = installed.prefix.join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let run_many = |strategy: &str, many: &str| {
        let mut program = Command::new(&program);
        output(program.args([strategy, many]).env("CASTELL_DAEMON", &socket))
    };
    let run = |strategy: &str| run_many(strategy, "50");
    let gpu = file(
        "gpu.luau",
        "return { choose = function(node) if node.resource.gpu.free then return node.waiting[1], 'gpu' end end }",
    );
    let said = run(gpu.to_str().expect("text"));
    assert!(said.starts_with("brought 0, state 3, daemon 1: 0 on one core, 100 on the GPU;"), "{said}");
    // Of those that come with castell this one costs no more than one core does.
    let said = run("constraint:limit_high=3");
    assert!(said.starts_with("brought 0, state 3, daemon 1: 100 on one core, 0 on the GPU;"), "{said}");
    let said = run("no-such-strategy");
    assert!(said.starts_with("brought -1, state 4, daemon 1: 100 on one core"), "{said}");
    assert!(said.contains("no strategy `no-such-strategy` comes with castell"), "{said}");
    let late = file(
        "late.luau",
        "local n = 0 return { choose = function(node) n += 1 if n > 120 then while true do end end
        if node.resource.gpu.free then return node.waiting[1], 'gpu' end end }",
    );
    let said = run_many(late.to_str().expect("text"), "150");
    assert!(
        said.starts_with("brought 0, state 4, daemon 1: ") && said.contains("steps: does a loop"),
        "{said}"
    );
    let numbers = numbers(&said);
    assert_eq!(numbers[3] + numbers[4], 300, "no step is lost: {said}");
    assert!(numbers[3] > 0 && numbers[4] > 0, "first by its own, then by the daemon's: {said}");
    // Nobody can read it, and the program runs by its ranking.
    let alone = output(Command::new(&program).arg(&gpu).arg("50").env("CASTELL_DAEMON", "none"));
    assert!(alone.starts_with("brought 0, state 1, daemon 0: 100 on one core, 0 on the GPU;"), "{alone}");
}

/// What tasks have of a node: the processors, the device of kind 1, and what the program calls the one of kind 7.
const OF_TASKS: [&str; 3] = ["one_core", "gpu", "fpga"];

/// Starts random graphs of tasks with versions, and reads what they say.
fn random_tasks(program: &std::path::Path, socket: &std::path::Path, words: [u32; 3]) -> Child {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "300"]).arg(program).args(words.map(|word| word.to_string()));
    command.env("CASTELL_DAEMON", socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it was compiled")
}

fn are_all_done(child: Child, tasks: u32) -> String {
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(numbers(&said)[0], tasks, "{said}");
    assert_eq!(numbers(&said)[1..].iter().sum::<u32>(), tasks, "{said}");
    said
}

fn trials() -> u32 {
    std::env::var("CASTELL_TEST_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(1)
}

/// Asks the daemon something.
fn ask(installed: &Installed, words: &[&str]) -> String {
    let mut command = Command::new(installed.prefix.join("bin/castell"));
    output(command.arg("strategy").args(words).arg("--socket").arg(installed.prefix.join("daemon.sock")))
}

/// Each task is a collection of the daemon's, whichever strategy decides.
#[test]
fn versions_of_tasks_run_where_the_daemon_says() {
    let installed = Installed::new("capi-versions");
    let program = installed.compile(&root().join("crates/capi/tests/c/daemon/versions.c"));
    let (_daemon, socket) = start(&installed, &OF_TASKS);
    let seed = std::process::id();
    let mut rounds = 0;
    for _ in 0..trials() {
        let mut child = random_tasks(&program, &socket, [seed + rounds, 200, 10]);
        rounds += 10;
        let mut strategies = ["long-term", "plan-ahead", "short-term"].iter().cycle();
        while child.try_wait().expect("a child").is_none() {
            ask(&installed, &["load", strategies.next().expect("endless")]);
        }
        let said = are_all_done(child, 2000);
        assert!(numbers(&said)[1..].iter().all(|runs| *runs > 0), "the daemon knows all three: {said}");
    }
    let alone =
        Command::new(&program).args(["1", "200", "2", "none"]).env("CASTELL_DAEMON", &socket).output();
    let alone = alone.expect("it was compiled");
    assert!(alone.status.success(), "{alone:?}");
    let status = ask(&installed, &["status", "--json"]);
    let done = status.split("\"done\":").nth(1).and_then(|rest| numbers(rest).first().copied());
    assert_eq!(done, Some(200 * rounds), "{status}");
    assert!(status.contains("\"faults\":0") || status.contains("\"faults\": 0"), "{status}");
}

/// Daemons are killed and others come: no task is lost or run twice.
#[test]
fn versions_of_tasks_outlive_daemons() {
    let installed = Installed::new("capi-versions-killed");
    let program = installed.compile(&root().join("crates/capi/tests/c/daemon/versions.c"));
    let seed = std::process::id();
    for trial in 0..trials() {
        let (mut daemon, socket) = start(&installed, &OF_TASKS);
        let mut child = random_tasks(&program, &socket, [seed + trial, 300, 12]);
        let mut kills = 0;
        while child.try_wait().expect("a child").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(40 + 30 * (kills % 5)));
            drop(daemon);
            // One time in four it stays away for so long that the tasks are decided without it.
            std::thread::sleep(std::time::Duration::from_millis(if kills % 4 == 3 { 2500 } else { 20 }));
            daemon = start(&installed, &OF_TASKS).0;
            kills += 1;
        }
        are_all_done(child, 3600);
        assert!(kills > 0, "it was over before a daemon was killed");
    }
}
