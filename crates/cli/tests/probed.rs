//! A daemon probes programs that it does not know: with real programs, and through a death.

mod beside;
mod json_page;
mod patience;

use beside::Beside;
use castell_daemon::learn::{Knowledge, Step, this_machine};
use castell_interference::learn::{MEETINGS_MAX, Met, STILL_S_MAX};
use castell_prof::binary::Binary;
use json_page::stands_on_the_page;
use patience::{said, until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Whoever measures has the machine for itself.
static ALONE: Mutex<()> = Mutex::new(());

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// A folder with a daemon's socket and what it has learned.
struct World {
    folder: tempfile::TempDir,
}

/// A daemon, which is killed with this.
struct Daemon(Child);

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn daemon(&self) -> Daemon {
        let mut command = Command::new(CASTELL);
        command.args(["daemon", "--session-policy", "overbook", "--learn", "probe", "--socket"]);
        command.arg(self.path("daemon.sock")).arg("--learned").arg(self.path("learned"));
        let said = std::fs::File::create(self.path("said")).expect("a file");
        let daemon = Daemon(command.stderr(said).spawn().expect("it starts"));
        until("the daemon listens", || {
            std::fs::read_to_string(self.path("said")).is_ok_and(|text| text.contains("listens at"))
        });
        daemon
    }

    fn session(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("session").args(arguments).arg("--socket").arg(self.path("daemon.sessions.sock"));
        command.output().expect("castell starts")
    }

    fn run(&self, options: &[&str], program: &[&str]) -> Beside {
        let mut session = Command::new(CASTELL);
        session.args(["session", "run", "--slots", "1", "--socket"]).arg(self.path("daemon.sessions.sock"));
        session.args(options).arg("--").args(program).stdin(Stdio::null()).stdout(Stdio::null());
        Beside(session.spawn().expect("castell starts"))
    }

    fn learned(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("learned").args(arguments).arg("--learned").arg(self.path("learned"));
        command.output().expect("castell starts")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.learned(&["--json"]).stdout).unwrap_or_default()
    }

    /// What is known of a program and a probe.
    fn probed(&self, name: &str) -> Value {
        let all = self.json();
        let programs = all["programs"].as_array().into_iter().flatten();
        programs
            .into_iter()
            .find(|program| program["name"] == name)
            .map_or(Value::Null, |it| it["probed"].clone())
    }

    /// Two small programs of the same make: one goes through memory that no cache holds, one only computes. They write now and then, which is
    /// their pace where instructions cannot be counted. As long as the file is there that they are given, they sleep.
    fn programs(&self) -> [String; 2] {
        let source = self.path("kernel.c");
        std::fs::write(&source, KERNEL).expect("a file");
        [("stream", 0), ("spin", 1)].map(|(name, kernel)| {
            let program = self.path(name);
            let mut compiler = Command::new("cc");
            compiler.arg("-O2").arg(format!("-DKERNEL={kernel}")).arg("-o").arg(&program).arg(&source);
            assert!(compiler.status().expect("a C compiler").success());
            program.display().to_string()
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const KERNEL: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count != 2) return 2;
    int null = open("/dev/null", O_WRONLY);
    size_t n = (size_t)128 << 20, at = 0;
    volatile unsigned char *memory = KERNEL == 0 ? calloc(n, 1) : 0;
    volatile uint64_t state = 1;
    for (;;) {
        for (int i = 0; i < 1 << 14; i++) {
            if (KERNEL == 0) at = (at + 64) % n, memory[at]++;
            else state = state * 6364136223846793005u + 1442695040888963407u;
        }
        if (write(null, "", 1) != 1) return 1;
        while (access(words[1], F_OK) == 0) usleep(10000);
    }
}
"#;

/// So long nobody may be stopped after a daemon or a program has begun, of whose time that is to be a hundredth: there is no need to compute.
const CALM_S: f64 = 4.0;
/// Then programs compute for so long, and sleep for as long: whoever has found no processor for a probe tries again later.
const BUSY_S: f64 = 2.0;

/// The file for which programs sleep.
struct Calm {
    file: PathBuf,
    since: Instant,
}

impl Calm {
    fn begins(world: &World) -> Calm {
        let file = world.path("calm");
        std::fs::write(&file, "").expect("a file");
        Calm { file, since: Instant::now() }
    }

    /// Makes the programs sleep and compute; whether they compute, for a moment already.
    fn is_over(&self) -> bool {
        let computes_s = (self.since.elapsed().as_secs_f64() - CALM_S) % (2.0 * BUSY_S);
        if (0.0..BUSY_S).contains(&computes_s) {
            let _ = std::fs::remove_file(&self.file);
        } else {
            std::fs::write(&self.file, "").expect("a file");
        }
        (0.1..BUSY_S).contains(&computes_s)
    }
}

/// The process that runs a program.
fn process(program: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let mut numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file == Path::new(program))
    };
    numbers.find(is_it)
}

/// What the system says of a process, from its state on.
fn state(process: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let fields = stat[stat.rfind(')').expect("a name") + 1..].split_ascii_whitespace();
    fields.map(str::to_owned).collect()
}

/// Ticks of processor time.
fn ticks(process: u32) -> u64 {
    state(process)[11].parse().expect("a number")
}

/// On a busy machine a probe has no processor, and nobody is stopped: what was measured within so long has to do.
const ENOUGH: Duration = Duration::from_secs(25);

#[test]
fn unknown_programs_are_probed_and_go_on_whoever_is_killed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let [stream, spin] = world.programs();
    let mut daemon = world.daemon();
    // As many meetings of two probes as it takes, if the machine is idle enough for any.
    let begun = Instant::now();
    while world.json()["probes"].is_null() && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_secs(1));
    }
    for (name, program) in [("spin", &spin), ("stream", &stream)] {
        let mut calm = Calm::begins(&world);
        let session = world.run(&[], &[program, calm.file.to_str().expect("text")]);
        until("it runs", || process(program).is_some());
        let pid = process(program).expect("it runs");
        let (begun, mut looked, mut kills) = (Instant::now(), Instant::now(), 0);
        while begun.elapsed() < ENOUGH {
            // One that never waits, and does not run, stands still.
            if calm.is_over() && kills < 3 && state(pid)[0] != "R" {
                drop(daemon);
                kills += 1;
                let before = ticks(pid);
                until("it goes on", || ticks(pid) > before + 2);
                (calm, daemon) = (Calm::begins(&world), world.daemon());
            }
            if looked.elapsed() > Duration::from_secs(3) {
                looked = Instant::now();
                // So many daemons leave too little time for all meetings; that one was kept will do.
                if kills == 3 && world.probed(name)["meetings"].as_u64() > Some(0) {
                    break;
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        println!("{name}: {kills} daemons killed while it stood still; {}", world.probed(name));
        drop(session);
    }
    judge(&world);
    refuses(&world, &spin);
    drop(daemon);
}

/// What was measured is as it has to be, however much that was.
fn judge(world: &World) {
    let probes = world.json()["probes"].clone();
    let factor = |value: &Value, key: &str| value[key].as_f64();
    for name in ["spin", "stream"] {
        let probed = world.probed(name);
        let still_s = factor(&probed, "still_s").unwrap_or(0.0);
        assert!(
            still_s <= STILL_S_MAX + 0.1 && probed["meetings"].as_u64().unwrap_or(0) <= MEETINGS_MAX as u64,
            "{probed}"
        );
    }
    let [spin, stream] = ["spin", "stream"].map(|name| world.probed(name)["presses"].clone());
    // Where two probes slow each other and both programs have met one often enough, who takes memory presses more than who does not.
    let is_measurable = factor(&probes, "low").is_some_and(|low| low > 1.1);
    if let (true, Some(spin), Some(stream)) =
        (is_measurable, factor(&spin, "slowdown"), factor(&stream, "slowdown"))
    {
        assert!(stream > spin, "{stream} {spin}");
    }
    let told = said(&world.learned(&["predict", "spin", "stream"]));
    println!("two probes: {probes}; {told}");
    assert!(!told.contains("seen once"), "{told}");
}

/// A program that has refused is not probed, although nobody knows it.
fn refuses(world: &World, program: &str) {
    assert!(world.learned(&["forget", "spin"]).status.success() || world.probed("spin").is_null());
    let calm = Calm::begins(world);
    let session = world.run(&["--no-probe"], &[program, calm.file.to_str().expect("text")]);
    until("it computes", || calm.is_over());
    // Longer than it takes until one is stopped that has not refused.
    thread::sleep(Duration::from_secs(5));
    assert_eq!(world.run(&["--no-probe"], &["sh", "-c", "exit 7"]).code(), Some(7));
    assert!(world.probed("spin").is_null(), "{}", world.probed("spin"));
    drop(session);
}

/// A program has met a probe, which was as much slower beside it as it was beside the probe.
fn met(knowledge: &mut Knowledge, program: &str, factor: f64) {
    let id = Binary::of_command(&[program.to_owned()]).expect("it is installed").sha256;
    knowledge.take(1, Step::Seen(id.clone(), program.to_owned()));
    for _ in 0..MEETINGS_MAX {
        let met = Met { presses: Some(factor), feels: Some(factor), still_s: 0.02 };
        knowledge.take(1, Step::Met(id.clone(), met));
    }
}

#[test]
fn what_is_foretold_is_shown_and_decides_who_waits() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let mut knowledge = Knowledge::open(&world.path("learned"), &this_machine());
    (0..MEETINGS_MAX).for_each(|_| knowledge.take(1, Step::ProbesMet(2.0)));
    met(&mut knowledge, "sha256sum", 4.0);
    met(&mut knowledge, "md5sum", 4.0);
    knowledge.keep();
    let told = said(&world.learned(&["predict", "sha256sum", "md5sum"]));
    assert!(told.contains("(never seen together, foretold by a probe)"), "{told}");
    let all = world.json();
    stands_on_the_page("learned", &all);
    assert!(all["probes"]["slowdown"].as_f64().is_some_and(|both| (both - 2.0).abs() < 1e-9), "{all}");
    let text = said(&world.learned(&[]));
    assert!(
        text.contains("a probe beside it 4.00") && text.contains("a probe beside another one 2.00"),
        "{text}"
    );
    let _daemon = world.daemon();
    assert!(world.session(&["set", "--max-slowdown", "1.3"]).status.success());
    let one = world.run(&[], &["sha256sum", "/dev/zero"]);
    let states = || {
        let list: Value =
            serde_json::from_slice(&world.session(&["list", "--json"]).stdout).unwrap_or_default();
        let states = list["sessions"].as_array().into_iter().flatten().map(|it| it["state"].to_string());
        states.collect::<Vec<_>>()
    };
    until("the first one runs", || states() == ["\"running\""]);
    let two = world.run(&[], &["md5sum", "/dev/zero"]);
    until("the second one waits", || states() == ["\"running\"", "\"waiting\""]);
    let explained = said(&world.session(&["explain", "2"]));
    assert!(explained.contains("foretold by a probe"), "{explained}");
    assert!(world.session(&["set", "--max-slowdown", "any"]).status.success());
    until("now it may", || states() == ["\"running\"", "\"running\""]);
    let explained: Value =
        serde_json::from_slice(&world.session(&["explain", "1", "--json"]).stdout).expect("JSON");
    let slows = &explained["beside"][0]["slows"];
    assert!(slows["foretold"] == true && slows["comparisons"] == 0, "{explained}");
    drop((one, two));
}
