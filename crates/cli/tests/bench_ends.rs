//! How `castell bench` ends before its time: who failed is told.

use castell_host::process::{Pid, Process};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A benchmark that would take hours, with folders of its own below `temporary`.
fn bench(workload: &str, temporary: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["bench", workload, "--no-peers", "--samples", "100000000", "--rounds", "1"]);
    command.env("TMPDIR", temporary).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Looks again and again.
fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn signal(pid: u32, signal: i32) {
    let process = Pid::from_raw(pid as i32).map(Process::open).expect("a number").expect("alive");
    process.signal(signal).expect("a signal");
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_rank_that_dies_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = bench("pingpong", folder.path());
    wait_until("two ranks", || children(bench.id()).len() == 2);
    signal(children(bench.id())[1], libc::SIGABRT);
    let (code, out, err) = ended(bench);
    assert_eq!(code, Some(1), "{out}{err}");
    // The launcher says it at once, and the benchmark what it was about.
    assert!(err.contains(") was killed by SIGABRT"), "{err}");
    assert!(err.contains("pingpong, bytes 8: castell: rank 1 of 2 was killed by SIGABRT"), "{err}");
}

#[test]
fn a_key_press_ends_it_with_the_shells_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = bench("pingpong", folder.path());
    wait_until("two ranks", || children(bench.id()).len() == 2);
    // As a terminal does: to all.
    let ranks = children(bench.id());
    ranks.iter().chain([&bench.id()]).for_each(|pid| signal(*pid, libc::SIGINT));
    let (code, out, err) = ended(bench);
    assert_eq!(code, Some(128 + libc::SIGINT), "{out}{err}");
    assert!(err.contains("interrupted by SIGINT"), "{err}");
}

/// Whatever it was about: making a folder, compiling in it, running what it has compiled there.
#[test]
fn killed_it_leaves_no_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries =
        |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["bench", "tasks", "fib:number=20", "--samples", "1", "--rounds", "1000000", "--json"]);
    command.env("TMPDIR", folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let runs_there = |path: &Path| {
        let programs = entries(Path::new("/proc")).filter_map(|process| process.join("exe").read_link().ok());
        programs.into_iter().any(|program| program.starts_with(path))
    };
    let moments: [&dyn Fn() -> bool; 3] = [
        &|| entries(folder.path()).next().is_some(),
        &|| entries(folder.path()).any(|path| entries(&path).next().is_some()),
        &|| runs_there(folder.path()),
    ];
    for (number, moment) in moments.iter().enumerate() {
        let mut bench = command.spawn().expect("it starts");
        wait_until(&format!("moment {number}"), || moment() || bench.try_wait().expect("a child").is_some());
        assert!(bench.try_wait().expect("a child").is_none(), "it ended by itself");
        bench.kill().expect("it runs");
        bench.wait().expect("it ends");
        wait_until(&format!("no folder after moment {number}"), || entries(folder.path()).next().is_none());
    }
}

/// Every write to standard error is a whole line, so that those of several processes do not mix.
#[test]
fn lines_are_single_writes() {
    let (ours, theirs) = UnixDatagram::pair().expect("sockets");
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["launch", "-n", "3", "--verbose", "--", "sh", "-c", "exit $CASTELL_RANK"]);
    command.stdin(Stdio::null()).stderr(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    assert_eq!(command.status().expect("it starts").code().map(|code| code > 0), Some(true));
    drop(command);
    ours.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 4096];
    let mut lines = 0;
    while let Ok(bytes) = ours.recv(&mut buffer)
        && bytes > 0
    {
        let text = String::from_utf8_lossy(&buffer[..bytes]);
        assert!(text.starts_with("castell: ") && text.ends_with('\n'), "{text:?}");
        lines += 1;
    }
    assert!(lines >= 4, "{lines} lines");
}
