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

/// Where memory is limited there are no buffers that all ranks can read, which this benchmark wants: its ranks say so, and end with a code.
const LIMITED: &str = "ulimit -v 60000000; exec \"$0\" bench overlap --matrix 64 --ranks 2 --bytes 64 --no-peers --rounds 1 --samples 1";

#[test]
fn a_rank_that_ends_by_itself_is_named_with_its_code_and_what_it_said() {
    let mut command = Command::new("sh");
    command.args(["-c", LIMITED, env!("CARGO_BIN_EXE_castell")]).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (code, out, err) = ended(child);
    assert_eq!(code, Some(1), "{out}{err}");
    let lines: Vec<&str> = err.lines().collect();
    // What the rank printed, that it ended and how, and what the benchmark makes of it.
    let is_one_rank = |rank: u32| {
        let begins = |start: String, part: &str| {
            lines.iter().any(|line| line.starts_with(&start) && line.contains(part))
        };
        begins(format!("castell: rank {rank}: "), "this job has no memory that all ranks can read")
            && begins(format!("castell: rank {rank} (process "), ") ended with exit code 1")
            && lines
                .iter()
                .any(|line| line.ends_with(&format!("castell: rank {rank} of 2 ended with exit code 1")))
    };
    assert!((0..2).any(is_one_rank), "{err}");
}

/// Every write to standard error is a whole line, so that those of several processes do not mix.
#[test]
fn lines_are_single_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program.goal");
    let program =
        "num_ranks 2\nrank 0 {\nx: send 8b to 1 tag 4\n}\nrank 1 {\nwrong: recv 9b from 0 tag 4\n}\n";
    std::fs::write(&file, program).expect("a file");
    let file = file.to_str().expect("a path");
    let launch = "exec \"$0\" launch -n 3 --verbose -- sh -c 'exit $CASTELL_RANK'";
    let run = format!("exec \"$0\" run --no-check {file}");
    for (script, said) in [(launch, 4), (&run, 2), (LIMITED, 3)] {
        let lines = writes(script);
        assert!(lines.len() >= said, "{script}: {lines:?}");
        for text in &lines {
            let is_whole = text.starts_with("castell: ") && text.ends_with('\n');
            assert!(is_whole && text.matches('\n').count() == 1, "{script}: {text:?} of {lines:?}");
        }
        assert!(lines.iter().any(|line| line.contains(" ended with exit code ")), "{script}: {lines:?}");
    }
}

/// What a command that fails writes to standard error, write by write.
fn writes(script: &str) -> Vec<String> {
    let (ours, theirs) = UnixDatagram::pair().expect("sockets");
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_castell")]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    assert_eq!(command.status().expect("it starts").code().map(|code| code > 0), Some(true), "{script}");
    drop(command);
    ours.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 4096];
    let mut writes = Vec::new();
    while let Ok(bytes) = ours.recv(&mut buffer)
        && bytes > 0
    {
        writes.push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
    }
    writes
}
