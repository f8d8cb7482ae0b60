//! `castell launch` with programs that know nothing of castell (mostly `sh`): codes, signals, output, nothing left.

use castell_host::process::{Pid, Process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn castell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("launch").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    castell(arguments).output().expect("castell runs")
}

fn shell(options: &[&str], script: &str) -> Output {
    run(&[options, &["--", "sh", "-c", script]].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(String::from).collect();
    lines.sort();
    lines
}

/// A number of seconds that no other command line has, by which left-overs are found.
fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("3{:07}{:02}.5", std::process::id() % 10_000_000, COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Processes whose command line (each argument ends with a zero byte) `fits`.
fn processes(fits: impl Fn(&str) -> bool) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok());
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| fits(&text(line))).count()
}

fn processes_with(mark: &str) -> usize {
    processes(|line| line.contains(mark))
}

fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn wait_for_sleepers(count: usize, mark: &str) {
    let sleeper = format!("sleep\0{mark}\0");
    wait_until("all sleep", || processes(|line| line == sleeper) == count);
}

/// A launcher that is running; killed where a test fails.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("castell runs"))
    }

    fn signal(&self, signal: i32) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process number");
        Process::open(pid).and_then(|process| process.signal(signal)).expect("a signal");
    }

    fn output(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("piped"))
    }

    fn messages(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().expect("piped"))
    }

    fn code(&mut self) -> Option<i32> {
        self.0.wait().expect("castell ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_rank_runs_and_knows_its_number() {
    let output = shell(&["-n", "5"], "echo $CASTELL_RANK; test -e /proc/self/fd/$CASTELL_JOB_FD");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(sorted_lines(&output.stdout), ["0", "1", "2", "3", "4"]);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn exit_codes_are_passed_on() {
    let code = |script: &str| shell(&["-n", "3"], script).status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert!(matches!(code("exit $((CASTELL_RANK * 7))"), Some(7 | 14)));
    // The first one wins.
    assert_eq!(code("if [ $CASTELL_RANK = 2 ]; then exit 5; fi; sleep 0.3; exit 6"), Some(5));
    let output = shell(&["-n", "3"], "if [ $CASTELL_RANK = 1 ]; then kill -SEGV $$; fi");
    assert_eq!(output.status.code(), Some(128 + 11));
    let message = text(&output.stderr);
    assert!(message.contains("rank 1 (process ") && message.contains("SIGSEGV"), "{message}");
}

#[test]
fn wrong_usage_is_explained() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["-n", "0", "--", "true"], 2, "0 is not in 1..=65536"),
        (&["-n", "100000", "--", "true"], 2, "100000 is not in 1..=65536"),
        (&["-n", "2"], 2, "PROGRAM"),
        (&["--", "true"], 2, "--ranks"),
        (&["-n", "2", "--bind", "5-2", "--", "true"], 2, "goes backwards"),
        (&["-n", "2", "--bind", "8000", "--", "true"], 1, "processor 8000 may not be used here"),
        (&["-n", "2", "--", "no-such-program"], 127, "`no-such-program` was not found"),
        (&["-n", "2", "--", "/etc/passwd"], 126, "cannot be executed"),
    ];
    for (arguments, code, message) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(text(&run(&["--help"]).stdout).contains("castell launch -n 4 --prefix -- ./program"));
}

#[test]
fn prefixed_output_keeps_lines_whole() {
    let script = "i=0; while [ $i -lt 200 ]; do printf 'a%s' $i; printf 'b%s\\n' $CASTELL_RANK; i=$((i+1)); done; \
                  echo oops >&2; printf end";
    let output = shell(&["-n", "4", "--prefix"], script);
    assert_eq!(output.status.code(), Some(0));
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), 4 * 201);
    for rank in 0..4 {
        let mine: Vec<&str> =
            lines.lines().filter_map(|line| line.strip_prefix(&format!("[{rank}] "))).collect();
        let expected: Vec<String> = (0..200).map(|i| format!("a{i}b{rank}")).chain(["end".into()]).collect();
        assert_eq!(mine, expected);
    }
    assert_eq!(sorted_lines(&output.stderr), ["[0] oops", "[1] oops", "[2] oops", "[3] oops"]);
}

#[test]
fn a_reader_that_leaves_ends_the_writers() {
    let mut launcher = Running::start(&mut castell(&["-n", "2", "--prefix", "--", "yes"]));
    let mut line = String::new();
    launcher.output().read_line(&mut line).expect("a line");
    assert!(line.ends_with("] y\n"), "{line}");
    assert_eq!(launcher.code(), Some(128 + libc::SIGPIPE));
}

#[test]
fn input_goes_to_rank_0() {
    for options in [&["-n", "3"][..], &["-n", "3", "--prefix"]] {
        let arguments = [options, &["--", "sh", "-c", "echo \"$CASTELL_RANK read $(cat)\""]].concat();
        let mut launcher = Running::start(castell(&arguments).stdin(Stdio::piped()));
        launcher.0.stdin.take().expect("piped").write_all(b"hello").expect("write");
        let mut lines = String::new();
        launcher.output().read_to_string(&mut lines).expect("text");
        assert!(
            lines.contains("0 read hello\n") && lines.contains("1 read \n") && lines.contains("2 read \n")
        );
    }
}

#[test]
fn binding() {
    let masks = |options: &[&str]| -> Vec<String> {
        let output = shell(options, "grep Cpus_allowed_list /proc/self/status");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let last_word = |line: &String| line.split_whitespace().last().unwrap_or_default().to_string();
        sorted_lines(&output.stdout).iter().map(last_word).collect()
    };
    let all = masks(&["-n", "1"]);
    let first = all[0].split([',', '-']).next().expect("a processor").to_string();
    assert_eq!(masks(&["-n", "2", "--bind", &first]), [first.clone(), first.clone()]);
    let cores = masks(&["-n", "6", "--bind", "core"]);
    assert!(cores.iter().any(|cpus| cpus.split([',', '-']).next() == Some(&first)), "{cores:?}");
}

#[test]
fn interrupts_leave_nothing_behind() {
    for (number, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mark = mark();
        // The shells wait for children of theirs, one of which has a session of its own. (A shell lets its
        // background processes ignore SIGINT: only the end of the job reaches them.)
        let script = format!("sleep {mark} & setsid sleep {mark} & wait");
        let mut launcher = Running::start(&mut castell(&["-n", "3", "--", "sh", "-c", &script]));
        wait_for_sleepers(6, &mark);
        launcher.signal(number);
        assert_eq!(launcher.code(), Some(code));
        assert_eq!(processes_with(&mark), 0);
    }
}

#[test]
fn those_who_ignore_signals_are_killed() {
    let mark = mark();
    let script = format!("trap '' INT TERM; sleep {mark}; sleep {mark}");
    let mut launcher =
        Running::start(&mut castell(&["-n", "2", "--grace", "200ms", "--", "sh", "-c", &script]));
    wait_for_sleepers(2, &mark);
    launcher.signal(libc::SIGINT);
    let mut messages = launcher.messages();
    let mut message = String::new();
    messages.read_line(&mut message).expect("a message");
    assert!(message.contains("2 ranks still run 0.2 s later: terminating them"), "{message}");
    // The second signal does not wait for the two seconds.
    launcher.signal(libc::SIGINT);
    messages.read_to_string(&mut message).expect("more messages");
    assert!(message.contains("SIGINT again: killing"), "{message}");
    assert_eq!(launcher.code(), Some(137));
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_failure_ends_the_others_after_the_grace_time() {
    let mark = mark();
    let script = format!(
        "if [ $CASTELL_RANK = 1 ]; then echo no fuel; echo no air >&2; exit 4; fi; exec sleep {mark}"
    );
    let output = shell(&["-n", "4", "--grace", "50ms"], &script);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(text(&output.stdout), "no fuel\n", "what it printed is shown");
    let message = text(&output.stderr);
    assert!(message.contains("rank 1 (process ") && message.contains("ended with exit code 4"), "{message}");
    assert!(message.contains("no air\n") && message.contains("3 ranks still run 0.05 s later"), "{message}");
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let mark = mark();
    let output = run(&["-n", "2", "--timeout", "50ms", "--", "sleep", &mark]);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_killed_launcher_leaves_no_ranks() {
    let mark = mark();
    let mut launcher = Running::start(&mut castell(&["-n", "3", "--", "sleep", &mark]));
    wait_for_sleepers(3, &mark);
    launcher.signal(libc::SIGKILL);
    assert_eq!(launcher.code(), None);
    wait_until("nobody sleeps", || processes_with(&mark) == 0);
}

#[test]
fn what_the_ranks_leave_running_is_ended() {
    let mark = mark();
    let output = shell(&["-n", "2", "--prefix"], &format!("setsid sleep {mark} & echo bye"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(sorted_lines(&output.stdout), ["[0] bye", "[1] bye"]);
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_start_that_fails_half_way_is_cleaned_up() {
    let mark = mark();
    // Two descriptors a rank for the output, one for the process: the limit is hit after a few ranks.
    let script = format!("ulimit -n 40; exec \"$0\" launch -n 50 --prefix -- sleep {mark}");
    let output =
        Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_castell")]).output().expect("sh runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("of 50 could not be started") && message.contains("ulimit -n"), "{message}");
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn limits_and_signals_of_the_launcher_are_not_the_programs() {
    let script =
        "ulimit -S -n 123; exec \"$0\" launch -n 1 -- sh -c 'ulimit -S -n; grep SigBlk /proc/self/status'";
    let output =
        Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_castell")]).output().expect("sh runs");
    assert_eq!(text(&output.stdout), "123\nSigBlk:\t0000000000000000\n");
}

#[test]
fn verbose_tells_about_the_job() {
    let message = text(&run(&["-n", "100", "-v", "--", "true"]).stderr);
    assert!(message.contains("100 ranks on") && message.contains("more ranks than processors"), "{message}");
}

#[test]
fn asking_who_waits_harms_nobody() {
    let script = "echo ready; sleep 0.2; exit 9";
    let mut launcher = Running::start(&mut castell(&["-n", "2", "--", "sh", "-c", script]));
    let mut lines = launcher.output().lines();
    assert!(lines.next().is_some() && lines.next().is_some());
    launcher.signal(libc::SIGUSR1);
    assert_eq!(launcher.code(), Some(9));
}

#[test]
fn one_signal_to_the_process_and_its_group_counts_once() {
    // As timeout does it.
    let script = "trap 'sleep 0.1; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut launcher = Running::start(castell(&["-n", "2", "--", "sh", "-c", script]).process_group(0));
    let mut lines = launcher.output().lines();
    assert!(lines.next().is_some() && lines.next().is_some());
    let group = launcher.0.id().to_string();
    launcher.signal(libc::SIGTERM);
    let kill = Command::new("sh").args(["-c", "kill -s TERM -- -$0", &group]).status().expect("sh runs");
    assert!(kill.success());
    assert_eq!(launcher.code(), Some(7));
}

#[test]
fn a_timeline_of_a_program_without_castell_says_why_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.svg");
    let run = shell(&["-n", "2", "--timeline", file.to_str().expect("a path")], "exit 3");
    assert_eq!(run.status.code(), Some(3), "the program's code counts");
    assert!(text(&run.stderr).contains("no timeline: no process of the program has joined the group"));
    assert!(!file.exists());
    let run = shell(&["-n", "2", "--timeline", "/nowhere/out.svg"], "echo ran");
    assert_eq!((run.status.code(), &*text(&run.stdout)), (Some(1), ""), "it is known before");
}
