//! `castell lab`: hosts that share nothing they should not, a network between them, and nothing left.
//! What runs on them is mostly Python, which knows sockets and shared memory by name.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "lab/wireshark.rs"]
mod wireshark;

use skipped::skip;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// Whether labs can be made here; else the test counts as skipped.
fn labs_are_possible() -> bool {
    let output = lab(&["1"], "true");
    if output.status.success() {
        return true;
    }
    let said = text(&output.stderr);
    assert!(said.contains("namespaces cannot be made") || said.contains("not installed"), "{said}");
    skip("lab", &said);
    false
}

fn command(options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(CASTELL);
    command.arg("lab").args(options).arg("--").args(words).stdin(Stdio::null()).env("CASTELL", CASTELL);
    command
}

fn lab(options: &[&str], script: &str) -> Output {
    command(options, &["sh", "-c", script]).output().expect("castell runs")
}

#[track_caller]
fn fine(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `castell lab --on`, for scripts.
const ON: &str = r#""$CASTELL" lab --on"#;

#[test]
fn hosts_have_names_folders_and_clocks_of_their_own() {
    if !labs_are_possible() {
        return;
    }
    let script = format!(
        "hostname; echo $CASTELL_LAB_HOSTS; pwd; touch /tmp/mine /dev/shm/mine; {ON} h2 -- hostname; {ON} h2 -- pwd; {ON} h2 -- ls /tmp /dev/shm"
    );
    let said = fine(&lab(&["3"], &script));
    let here = std::env::current_dir().expect("a folder").display().to_string();
    assert_eq!(said, format!("h1\nh1,h2,h3\n{here}\nh2\n{here}\n/dev/shm:\n\n/tmp:\n"));
    let clock = "import time; print(int(time.clock_gettime(time.CLOCK_MONOTONIC)), int(time.time()))";
    let clocks = fine(&lab(&["2"], &format!("python3 -c '{clock}'; {ON} h2 -- python3 -c '{clock}'")));
    let numbers: Vec<i64> = clocks.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [here, then, there, later] = numbers[..] else { panic!("{clocks}") };
    assert!(there - here - (later - then) > 1000, "the clocks since boot are apart: {clocks}");
}

/// A process of h2 shows a secret in every kind of memory that processes can share, and h1 tries to get it.
#[test]
fn hosts_share_no_memory() {
    if !labs_are_possible() {
        return;
    }
    const SHOW: &str = r#"
import ctypes, sys, os, time
from multiprocessing import shared_memory
libc = ctypes.CDLL(None, use_errno=True)
secret = ctypes.create_string_buffer(b"castell's secret")
named = shared_memory.SharedMemory(name="castell-secret", create=True, size=64)
named.buf[:16] = b"castell's secret"
key = libc.shmget(0x6361, 4096, 0o1666)
assert key >= 0
print(os.getpid(), ctypes.addressof(secret), flush=True)
sys.stdin.read()
"#;
    const STEAL: &str = r#"
import ctypes, os, sys
from multiprocessing import shared_memory
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
def read(pid, at):
    into = ctypes.create_string_buffer(16)
    here, there = Vector(ctypes.addressof(into), 16), Vector(at, 16)
    got = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return into.raw[:max(got, 0)]
pid, at = map(int, sys.argv[1:])
own = ctypes.create_string_buffer(b"castell's secret")
assert read(os.getpid(), ctypes.addressof(own)) == b"castell's secret", "the call works"
for other in [int(name) for name in os.listdir("/proc") if name.isdigit()] + [pid]:
    assert read(other, at) != b"castell's secret", other
try:
    shared_memory.SharedMemory(name="castell-secret")
    sys.exit("the named memory is there")
except FileNotFoundError:
    pass
assert libc.shmget(0x6361, 4096, 0) == -1, "the System V memory is there"
print("nothing")
"#;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (show, steal) = (folder.path().join("show.py"), folder.path().join("steal.py"));
    std::fs::write(&show, SHOW).expect("a file");
    std::fs::write(&steal, STEAL).expect("a file");
    let (show, steal, pipes) = (show.display(), steal.display(), folder.path().display());
    let script = format!(
        "mkfifo {pipes}/out {pipes}/in; {ON} h2 -- python3 {show} <{pipes}/in >{pipes}/out & exec 3>{pipes}/in; \
         read pid at <{pipes}/out; python3 {steal} $pid $at && {{ exec 3>&-; wait; }}"
    );
    assert_eq!(fine(&lab(&["2"], &script)), "nothing\n");
}

/// What h1 says to h2, and h2 answers, `times` times at most, each in a frame of its own. Prints how many answers came and how many did not,
/// after the first of both, and the shortest time there and back in microseconds.
const TALK: &str = r#"
import socket, subprocess, sys, os, time
times = int(sys.argv[1])
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("0.0.0.0", 0))
there = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 0))
print(s.getsockname()[1], flush=True)
while True:
    text, sender = s.recvfrom(2000)
    s.sendto(text, sender)
"""
child = subprocess.Popen([os.environ["CASTELL"], "lab", "--on", "h2", "--", "python3", "-c", there], stdout=subprocess.PIPE)
port = int(child.stdout.readline())
got, lost, best = 0, 0, 10**9
here.settimeout(float(sys.argv[2]))
for at in range(times):
    since = time.monotonic()
    here.sendto(b"castell says %d" % at, ("h2", port))
    try:
        while here.recvfrom(2000)[0] != b"castell says %d" % at: pass
        got += 1
        best = min(best, int((time.monotonic() - since) * 1e6))
    except TimeoutError:
        lost += 1
    if got and lost: break
child.kill()
print(got, lost, best)
"#;

fn talk(options: &[&str], times: u32, patience_s: f64) -> [u64; 3] {
    let all = [&["2"], options].concat();
    let output =
        command(&all, &["python3", "-c", TALK, &times.to_string(), &patience_s.to_string()]).output();
    let said = fine(&output.expect("castell runs"));
    let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn frames_are_kept_back_lost_and_written_down() {
    if !labs_are_possible() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let capture = folder.path().join("frames.pcap");
    let path = capture.to_str().expect("a path");
    assert_eq!(talk(&["--capture", path], 3, 60.0)[..2], [3, 0]);
    let frames = std::fs::read(&capture).expect("a capture");
    assert!(frames.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1]), "it is a capture");
    let said = frames.windows(14).filter(|bytes| *bytes == b"castell says 2").count();
    assert_eq!(said, 2, "there and back");
    let [got, _, best_us] = talk(&["--delay", "20ms", "--rate", "50mbit"], 3, 60.0);
    assert!(got == 3 && best_us >= 40_000, "{got} answers, the fastest after {best_us} us");
    let [got, lost, _] = talk(&["--loss", "50%", "--seed", "3"], 1000, 0.05);
    assert!(got > 0 && lost > 0, "{got} answers came and {lost} did not");
}

/// Which of their addresses hear each other: of h1 and h2, and of h1 and h3.
const REACH: &str = r#"
for host in h2 h3; do for segment in 0 1 2; do
  address=$("$CASTELL" lab --on $host -- ip -4 -o address show dev eth$segment 2>/dev/null | awk '{ sub("/.*", "", $4); print $4 }')
  [ -n "$address" ] || { echo $host eth$segment none; continue; }
  python3 - $address <<'END' && echo $host eth$segment heard || echo $host eth$segment silent
import os, socket, subprocess, sys
there = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((%r, 4711)); print(flush=True)\nwhile True: s.sendto(*s.recvfrom(100))"
host = "h" + sys.argv[1].split(".")[3]
child = subprocess.Popen([os.environ["CASTELL"], "lab", "--on", host, "--", "python3", "-c", there % sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.settimeout(0.02)
for at in range(200):
    try:
        here.sendto(b"?", (sys.argv[1], 4711))
        here.recv(100)
        code = 0
        break
    except OSError:
        code = 1
child.kill()
sys.exit(code)
END
done; done
"#;

/// Hosts are on segments that know nothing of each other, each with its own losses.
#[test]
fn hosts_may_be_on_several_segments() {
    if !labs_are_possible() {
        return;
    }
    let segments = ["--segment", "all", "--segment", "h1,h3"];
    let reach = |options: &[&str]| fine(&lab(&[&["3"], &segments[..], options].concat(), REACH));
    let all = "h2 eth0 heard\nh2 eth1 heard\nh2 eth2 none\nh3 eth0 heard\nh3 eth1 heard\nh3 eth2 heard\n";
    assert_eq!(reach(&[]), all);
    let losses = ["--loss", "20%", "--loss", "eth1=100%", "--seed", "3"];
    assert_eq!(reach(&losses), all.replace("eth1 heard", "eth1 silent"));
    let stranger = lab(&["2", "--segment", "h1,h3"], "true");
    assert!(text(&stranger.stderr).contains("cannot have host h3: this lab has 2"), "{stranger:?}");
    let many = [&["2"][..], &["--segment", "all"].repeat(8)].concat();
    assert!(text(&lab(&many, "true").stderr).contains("up to 8 segments"));
}

#[test]
fn codes_and_refusals() {
    if !labs_are_possible() {
        return;
    }
    let code = |options: &[&str], script: &str| lab(options, script).status.code();
    assert_eq!(code(&["1"], "exit 7"), Some(7));
    assert_eq!(code(&["2"], &format!("{ON} h2 -- sh -c 'kill -9 $$'")), Some(137));
    assert_eq!(code(&["1"], "kill -TERM $$"), Some(143));
    let missing = command(&["1"], &["no-such-program"]).output().expect("castell runs");
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("`no-such-program` was not found on this host of the lab"));
    let stranger = lab(&["2"], &format!("{ON} h3 -- true"));
    assert!(text(&stranger.stderr).contains("the hosts of this lab are h1,h2"), "{}", text(&stranger.stderr));
    let within = lab(&["2"], &format!("{} lab 1 -- true", env!("CARGO_BIN_EXE_castell")));
    assert!(
        text(&within.stderr).contains("no lab within a lab: the hosts of this one are h1,h2"),
        "{}",
        text(&within.stderr)
    );
    let outside = command(&["--on", "h1"], &["true"]).output().expect("castell runs");
    assert!(text(&outside.stderr).contains("this process is not in a lab"), "{}", text(&outside.stderr));
    for bad in
        [&["0"][..], &["251"], &["2", "--rate", "5"], &["2", "--loss", "200%"], &["2", "--delay", "2h"], &[]]
    {
        assert_eq!(command(bad, &["true"]).output().expect("castell runs").status.code(), Some(2), "{bad:?}");
    }
}

fn processes_with(mark: &str) -> HashSet<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok());
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        text(&environment).contains(mark)
    };
    numbers.filter(has_mark).collect()
}

/// Root is not needed where user namespaces are allowed.
#[test]
fn everybody_may_make_a_lab() {
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", CASTELL]).args(words);
        command.current_dir("/").stdin(Stdio::null()).env("CASTELL", CASTELL).output()
    };
    if !as_nobody(&["--version"]).is_ok_and(|output| output.status.success()) {
        skip(
            "another-user",
            "only root becomes another user, and the program may lie where others may not look",
        );
        return;
    }
    let script = format!("hostname; {ON} h2 -- hostname");
    let output = as_nobody(&["lab", "2", "--", "sh", "-c", &script]).expect("castell runs");
    if output.status.code() == Some(1) {
        skip("lab-without-root", &text(&output.stderr));
        return;
    }
    assert_eq!(fine(&output), "h1\nh2\n");
}

/// Whoever makes a lab is killed, and all of it ends: also what hides behind sessions of its own.
#[test]
fn nothing_is_left_of_a_killed_lab() {
    if !labs_are_possible() {
        return;
    }
    let mark = format!("CASTELL_TEST_MARK={}", std::process::id());
    let script = format!("setsid sleep 1000 & {ON} h2 -- sh -c 'setsid sleep 1000 & echo there; sleep 1000'");
    let mut command = command(&["2"], &["sh", "-c", &script]);
    let (name, value) = mark.split_once('=').expect("it has one");
    let mut child = command.env(name, value).stdout(Stdio::piped()).spawn().expect("castell runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "there\n");
    assert!(processes_with(&mark).len() >= 7, "the lab lives");
    let networks_of = |pids: &HashSet<u32>| -> HashSet<_> {
        pids.iter().filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()).collect()
    };
    assert!(networks_of(&processes_with(&mark)).len() >= 3, "two hosts, and what is between them");
    child.kill().expect("a signal");
    child.wait().expect("its end");
    let start = Instant::now();
    while !processes_with(&mark).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "left: {:?}", processes_with(&mark));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Programs that look which networks there are leave out one whose other end is not there as yet.
#[test]
fn lines_are_up_when_the_command_begins() {
    if !labs_are_possible() {
        return;
    }
    for options in [&["3"][..], &["3", "--delay", "1us"]] {
        let states =
            lab(options, &format!("for host in h1 h2 h3; do {ON} $host -- ip -br link show eth0; done"));
        let said = fine(&states);
        let states: Vec<_> = said.lines().map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(states, [Some("UP"); 3], "{options:?}: {said}");
    }
}
