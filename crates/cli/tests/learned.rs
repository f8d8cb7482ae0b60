//! A daemon learns how much sessions slow each other: with real programs, and through a death.

mod beside;
mod patience;

use beside::Beside;
use patience::{said, until};
use serde_json::Value;
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
        let words: Vec<&str> = before.iter().copied().chain([CASTELL]).collect();
        let said = self.path(name);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["daemon", "--session-policy", "overbook", "--socket"]);
        command.arg(self.path("daemon.sock")).arg("--learned").arg(self.path("learned"));
        command.stderr(std::fs::File::create(&said).expect("a file"));
        let daemon = Daemon { child: command.spawn().expect("it starts"), said };
        until("the daemon listens", || daemon.says("listens at"));
        daemon
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
    let one = world.run(&["sha256sum", "/dev/zero"]);
    until("a program is known by its name", || world.knows("sha256sum"));
    // A shell that waits for its program is not the program; a neighbour comes and goes, as often as it takes.
    world.compare("a first comparison", &["sh", "-c", "md5sum /dev/zero; true"]);
    assert!(world.knows("md5sum") && !world.knows("sh") && !world.knows("dash"));
    drop(daemon);
    let before = world.comparisons();
    let _next = world.daemon(&[], "second");
    world.compare("the next one goes on from there", &["md5sum", "/dev/zero"]);
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
    assert!(text.contains("sha256sum") && text.contains("beside md5sum") && text.contains("h UTC"), "{text}");
    let told = world.json(&["predict", "sha256sum", "md5sum", "--json"]).expect("JSON");
    let pair = &told["predictions"][0]["pairs"][0];
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/json.md"))
        .expect("a page");
    keys(&all, &mut |key| assert!(page.contains(&format!("`{key}`")), "docs/src/json.md lacks {key}"));
    keys(&told, &mut |key| assert!(page.contains(&format!("`{key}`")), "docs/src/json.md lacks {key}"));
    assert!(pair["beside_name"] == "md5sum" && pair["said"]["comparisons"].as_u64() > Some(0), "{told}");
    let drawing = world.path("error.svg");
    let drawn = world.learned(&["--svg", drawing.to_str().expect("text")]);
    assert!(drawn.status.success() && Path::new(&drawing).exists(), "{}", said(&drawn));
    assert!(world.learned(&["forget", "md5sum"]).status.success());
    let gone = world.learned(&["predict", "sha256sum", "md5sum"]);
    assert!(
        !gone.status.success() && said(&gone).contains("nothing was learned of md5sum"),
        "{}",
        said(&gone)
    );
}

/// All keys in it.
fn keys(value: &Value, take: &mut impl FnMut(&str)) {
    if let Value::Object(object) = value {
        object.keys().for_each(|key| take(key));
    }
    let inner: Vec<&Value> = match value {
        Value::Object(object) => object.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().for_each(|value| keys(value, take));
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
