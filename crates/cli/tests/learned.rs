//! A daemon learns how much sessions slow each other: with real programs, and through a death.

mod beside;
mod json_page;
mod patience;

use beside::Beside;
use castell_daemon::learn::{Knowledge, Step, this_machine};
use castell_interference::learn::Observation;
use castell_prof::binary::Binary;
use castell_prof::kept::{MACHINE, Store, write};
use json_page::stands_on_the_page;
use patience::{said, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// Runs a command without `perf_event_open`: a filter answers EPERM (number 298 on x86-64, 241 elsewhere).
const WITHOUT_COUNTERS: &str = r#"
import ctypes, os, platform, struct, sys
number = 298 if platform.machine() == "x86_64" else 241
def step(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = step(0x20, 0, 0, 0) + step(0x15, 0, 1, number) + step(6, 0, 0, 0x00050001) + step(6, 0, 0, 0x7fff0000)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.byref(Filter(4, program)), 0, 0): sys.exit(3)
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// A program that reads, all the time for a while and then a quarter of it: how fast it does is seen as well in less, and flows are looked at
/// where there is more. Built under two names it is two programs.
const READER: &str = r#"
#include <fcntl.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>
static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
int main(void) {
    static unsigned char bytes[1 << 16];
    const char *volatile name = NAME;
    volatile unsigned long sum = name[0];
    int zero = open("/dev/zero", O_RDONLY);
    for (double begun = now(CLOCK_MONOTONIC), last = now(CLOCK_PROCESS_CPUTIME_ID);;) {
        if (read(zero, bytes, sizeof bytes) != sizeof bytes) return 1;
        for (size_t i = 0; i < sizeof bytes; i++) sum += bytes[i];
        double computed = now(CLOCK_PROCESS_CPUTIME_ID);
        if (computed - last < 0.002) continue;
        last = computed;
        if (now(CLOCK_MONOTONIC) - begun > 4) usleep(6000);
    }
}
"#;

/// A folder with a daemon's socket and what it has learned.
struct World {
    folder: tempfile::TempDir,
}

/// A daemon, which is killed with this.
struct Daemon {
    child: Child,
    said: PathBuf,
}

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a daemon; `before` are words that start it.
    fn daemon(&self, before: &[&str], name: &str) -> Daemon {
        self.daemon_with(before, name, &[])
    }

    fn daemon_with(&self, before: &[&str], name: &str, options: &[&str]) -> Daemon {
        let words: Vec<&str> = before.iter().copied().chain([CASTELL]).collect();
        let said = self.path(name);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["daemon", "--session-policy", "overbook", "--socket"]);
        command.arg(self.path("daemon.sock")).arg("--learned").arg(self.path("learned")).args(options);
        command.stderr(std::fs::File::create(&said).expect("a file"));
        let daemon = Daemon { child: command.spawn().expect("it starts"), said };
        until("the daemon listens", || daemon.says("listens at"));
        daemon
    }

    /// What a command about sessions says.
    fn session(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("session").args(arguments).arg("--socket").arg(self.path("daemon.sessions.sock"));
        command.output().expect("castell starts")
    }

    /// A reader under this name.
    fn reader(&self, name: &str) -> String {
        let (source, program) = (self.path("reader.c"), self.path(name));
        std::fs::write(&source, READER).expect("a file");
        let mut compiler = Command::new("cc");
        compiler.arg("-O1").arg(format!("-DNAME=\"{name}\"")).arg("-o").arg(&program).arg(&source);
        assert!(compiler.status().expect("a C compiler").success());
        program.display().to_string()
    }

    fn states(&self) -> Vec<String> {
        let list: Value =
            serde_json::from_slice(&self.session(&["list", "--json"]).stdout).unwrap_or_default();
        let states = list["sessions"].as_array().into_iter().flatten().map(|session| &session["state"]);
        states.map(|state| state.as_str().unwrap_or_default().to_owned()).collect()
    }

    fn run(&self, program: &[&str]) -> Beside {
        let mut session = Command::new(CASTELL);
        session.args(["session", "run", "--slots", "1", "--socket"]).arg(self.path("daemon.sessions.sock"));
        session.arg("--").args(program).stdin(Stdio::null()).stdout(Stdio::null());
        Beside(session.spawn().expect("castell starts"))
    }

    fn learned(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("learned").args(arguments).arg("--learned").arg(self.path("learned"));
        command.output().expect("castell starts")
    }

    fn json(&self, arguments: &[&str]) -> Option<Value> {
        serde_json::from_slice(&self.learned(arguments).stdout).ok()
    }

    fn comparisons(&self) -> u64 {
        self.json(&["--json"]).and_then(|all| all["comparisons"].as_u64()).unwrap_or(0)
    }

    /// A neighbour comes and goes, as often as it takes: on a busy machine paces may move too much by themselves.
    #[track_caller]
    fn compare(&self, what: &str, neighbour: &[&str]) {
        let before = self.comparisons();
        for _ in 0..20 {
            let other = self.run(neighbour);
            thread::sleep(Duration::from_secs(7));
            drop(other);
            thread::sleep(Duration::from_secs(7));
            if self.comparisons() > before {
                return;
            }
        }
        panic!("{what}: {}", said(&self.learned(&[])));
    }

    fn knows(&self, name: &str) -> bool {
        let all = self.json(&["--json"]).unwrap_or_default();
        all["programs"].as_array().is_some_and(|all| all.iter().any(|program| program["name"] == name))
    }
}

impl Daemon {
    fn says(&self, what: &str) -> bool {
        std::fs::read_to_string(&self.said).is_ok_and(|text| text.contains(what))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_learned_outlives_the_daemon_that_learned_it() {
    let world = World::new();
    let daemon = world.daemon(&[], "first");
    let (reader, neighbour) = (world.reader("reader"), world.reader("neighbour"));
    let one = world.run(&[&reader]);
    until("a program is known by its name", || world.knows("reader"));
    // A shell that waits for its program is not the program; a neighbour comes and goes, as often as it takes.
    world.compare("a first comparison", &["sh", "-c", &format!("{neighbour}; true")]);
    assert!(world.knows("neighbour") && !world.knows("sh") && !world.knows("dash"));
    drop(daemon);
    let before = world.comparisons();
    let _next = world.daemon(&[], "second");
    world.compare("the next one goes on from there", &[&neighbour]);
    drop(one);
    looks(&world, before);
}

/// What the command shows of it.
fn looks(world: &World, before: u64) {
    let all = world.json(&["--json"]).expect("JSON");
    let hours: u64 =
        all["hours"].as_array().expect("hours").iter().filter_map(|hour| hour["comparisons"].as_u64()).sum();
    assert_eq!(Some(hours), all["comparisons"].as_u64());
    assert!(hours > before);
    let text = said(&world.learned(&[]));
    assert!(text.contains("reader") && text.contains("beside neighbour") && text.contains("h UTC"), "{text}");
    let told = world.json(&["predict", "reader", "neighbour", "--json"]).expect("JSON");
    let pair = &told["predictions"][0]["pairs"][0];
    stands_on_the_page("learned", &all);
    stands_on_the_page("learned predict", &told);
    assert!(pair["beside_name"] == "neighbour" && pair["said"]["comparisons"].as_u64() > Some(0), "{told}");
    let drawing = world.path("error.svg");
    let drawn = world.learned(&["--svg", drawing.to_str().expect("text")]);
    assert!(drawn.status.success() && Path::new(&drawing).exists(), "{}", said(&drawn));
    let forgotten = world.json(&["forget", "neighbour", "--json"]).expect("JSON");
    stands_on_the_page("learned forget", &forgotten);
    let gone = world.learned(&["predict", "reader", "neighbour"]);
    assert!(
        !gone.status.success() && said(&gone).contains("nothing was learned of neighbour"),
        "{}",
        said(&gone)
    );
}

#[test]
fn where_counters_may_not_be_read_sessions_run_all_the_same() {
    let world = World::new();
    let daemon = world.daemon(&["python3", "-c", WITHOUT_COUNTERS], "denied");
    assert_eq!(world.run(&["sh", "-c", "exit 7"]).code(), Some(7));
    until("it says why nothing is learned", || daemon.says("nothing is learned of what runs here"));
    assert!(daemon.says("EPERM"), "{:?}", std::fs::read_to_string(&daemon.said));
    assert_eq!(world.run(&["sh", "-c", "exit 5"]).code(), Some(5));
    let text = said(&world.learned(&[]));
    assert!(text.contains("there is no"), "{text}");
}

/// A program's slowdown beside another one was seen so often that there is no doubt.
fn seen(knowledge: &mut Knowledge, pair: [&str; 2], slowdown: f64) {
    let [program, neighbour] =
        pair.map(|name| Binary::of_command(&[name.to_owned()]).expect("it is installed").sha256);
    for _ in 0..40 {
        let (program, neighbour) = (program.clone(), neighbour.clone());
        let seen = Observation { program, neighbour, instead_of: None, slowdown, others: 0 };
        knowledge.take(1, Step::Compared(seen));
    }
}

#[test]
fn who_would_slow_another_one_too_much_waits_also_for_the_next_daemon() {
    let world = World::new();
    let mut knowledge = Knowledge::open(&world.path("learned"), &this_machine());
    seen(&mut knowledge, ["sha256sum", "md5sum"], 2.0);
    seen(&mut knowledge, ["md5sum", "sha256sum"], 1.0);
    knowledge.keep();
    let daemon = world.daemon(&[], "first");
    assert!(world.session(&["set", "--max-slowdown", "0.5"]).status.code() == Some(2), "nobody runs faster");
    let set = world.session(&["set", "--max-slowdown", "1.3"]);
    assert!(said(&set).contains("under overbook (max-slowdown 1.3)"), "{}", said(&set));
    let one = world.run(&["sha256sum", "/dev/zero"]);
    until("the first one runs", || world.states() == ["running"]);
    let two = world.run(&["sh", "-c", "exec md5sum /dev/zero"]);
    until("of a shell nothing is known", || world.states() == ["running", "running"]);
    drop(two);
    until("it has ended", || world.states() == ["running"]);
    let two = world.run(&["env", "md5sum", "/dev/zero"]);
    until("the second one waits", || world.states() == ["running", "waiting"]);
    let explained = said(&world.session(&["explain", "3"]));
    assert!(explained.contains("somebody would be slowed down too much"), "{explained}");
    assert!(explained.contains("it does not start beside session 1: session 1 would take"), "{explained}");
    assert!(explained.contains("session 3: no measurable effect"), "{explained}");
    drop(daemon);
    let _next = world.daemon(&[], "second");
    until("the runners come back, and it waits still", || world.states() == ["running", "waiting"]);
    assert!(world.session(&["set", "3", "--max-slowdown", "4"]).status.success());
    assert_eq!(
        world.states(),
        ["running", "waiting"],
        "the first one is not to be slowed down so much, either"
    );
    assert!(world.session(&["set", "--max-slowdown", "any"]).status.success());
    until("now it may", || world.states() == ["running", "running"]);
    told_of_those_who_run(&world);
    drop((one, two));
}

/// Keeps the profile of a program that streams: seven tenths of what memory carries.
fn keeps(folder: &Path, program: &str) {
    let binary = Binary::of_command(&[program.to_owned()]).expect("it is installed").to_json();
    let distances = json!({"distances_blocks": [[1_000_000, 2_000_000, 1000]], "first_accesses": 1});
    let value = json!({
        "name": program, "binary": binary, "class": "S", "distances": distances, "accesses_per_second": 1.1e8,
        "private_bytes": 1 << 20, "kept_s": 1, "slowdown": null,
    });
    Store::keep(folder, &value).expect("it is kept");
}

#[test]
fn profiles_that_are_kept_say_what_nobody_has_seen() {
    let world = World::new();
    let profiles = world.path("profiles");
    keeps(&profiles, "sha256sum");
    keeps(&profiles, "md5sum");
    let machine =
        json!({"llc_bytes": 1 << 25, "block_bytes": 64, "llc_ns": 20, "memory_ns": 100, "bytes_s_max": 1e10});
    write(&profiles.join(MACHINE), &machine).expect("it is kept");
    let _daemon = world.daemon_with(&[], "first", &["--profiles", profiles.to_str().expect("text")]);
    let _one = world.run(&["sha256sum", "/dev/zero"]);
    let _two = world.run(&["md5sum", "/dev/zero"]);
    let explained = |id: &str| -> Value {
        serde_json::from_slice(&world.session(&["explain", id, "--json"]).stdout).unwrap_or_default()
    };
    until("it is foretold", || explained("1")["shown"]["slowdown"]["foretold"] == true);
    let told = explained("1");
    assert_eq!(told["shown"]["class"], "S", "{told}");
    let slowdown = &told["shown"]["slowdown"];
    assert!(slowdown["slowdown"].as_f64() > Some(1.2), "{told}");
    assert!(slowdown["because"].as_str().is_some_and(|why| why.ends_with("from their profiles)")), "{told}");
    stands_on_the_page("session explain", &told);
    let text = said(&world.session(&["explain", "1"]));
    assert!(text.contains("it is of class S: it streams from memory"), "{text}");
    let mut top = Command::new(CASTELL);
    let top = top.args(["top", "--once", "--socket"]).arg(world.path("daemon.sessions.sock")).output();
    let text = said(&top.expect("castell starts"));
    let row = text.lines().find(|line| line.ends_with("md5sum /dev/zero")).unwrap_or_default();
    assert_eq!(row.split_whitespace().rev().nth(3), Some("S"), "{text}");
}

/// Session 1 runs beside session 3, which slows it down.
fn told_of_those_who_run(world: &World) {
    let explained: Value =
        serde_json::from_slice(&world.session(&["explain", "1", "--json"]).stdout).expect("JSON");
    let factor = |value: &Value| value["slowdown"].as_f64().expect("a factor");
    assert!((1.6..2.4).contains(&factor(&explained["shown"]["slowdown"])), "{explained}");
    let beside = &explained["beside"][0];
    assert!(
        beside["session"] == 3 && factor(&beside["slows"]) > 1.6 && factor(&beside["slowed"]) < 1.2,
        "{explained}"
    );
    stands_on_the_page("session explain", &explained);
    let mut top = Command::new(CASTELL);
    top.args(["top", "--once", "--socket"]).arg(world.path("daemon.sessions.sock"));
    let text = said(&top.output().expect("castell starts"));
    let row = text.lines().find(|line| line.ends_with("sha256sum /dev/zero")).unwrap_or_default().to_owned();
    let slower = row.split_whitespace().rev().nth(2).and_then(|word| word.parse::<f64>().ok());
    let has_room = row.find("sha256sum").is_some_and(|column| column <= 65);
    assert!(has_room && slower.is_some_and(|factor| (1.6..2.4).contains(&factor)), "{text}");
}
