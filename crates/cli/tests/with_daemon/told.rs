//! What `castell daemon` was told, after it was killed.

use crate::applications::{signal, wait_until};
use crate::with_daemon::{Daemon, start, start_heard};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::{fs, thread};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// The daemon's end without notice, and the next one at its place: what that one says first.
fn follow(daemon: &mut Daemon, options: &[&str]) -> String {
    daemon.child.kill().expect("it is ours");
    daemon.child.wait().expect("it was started");
    let (child, mut said) = start_heard(&daemon.socket(), options);
    daemon.child = child;
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    line
}

fn end(child: &mut Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill").success());
    assert!(child.wait().expect("it was started").success());
}

fn does(daemon: &Daemon, arguments: &[&str]) {
    let output = daemon.strategy(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Who decides, the governor's level, what the sensor says.
fn is(daemon: &Daemon) -> (String, String, f64) {
    let status = daemon.status();
    let text = |name: &str| status[name].as_str().expect("text").to_owned();
    (text("strategy"), text("governor"), status["sensors"]["x"].as_f64().expect("a number"))
}

#[test]
fn what_a_daemon_was_told_outlives_it() {
    let options = ["--strategy", "plan-ahead", "--governor", "middle", "--sensor", "x=1"];
    let mut daemon = Daemon::start(&options);
    let script = daemon.folder.path().join("mine.luau");
    let text = castell_luau::shipped::named("short-term").expect("shipped").text;
    fs::write(&script, text.replace("name = \"short-term\"", "name = \"mine\"")).expect("written");
    does(&daemon, &["load", script.to_str().expect("text")]);
    does(&daemon, &["governor", "low"]);
    does(&daemon, &["sensor", "x", "0.1"]);
    // The text of the script is kept, not where it was.
    fs::remove_file(&script).expect("it is there");
    let day = daemon.folder.path().join("day.jsonl");
    let mut with_day = options.to_vec();
    with_day.extend(["--record", day.to_str().expect("text")]);
    let said = follow(&mut daemon, &with_day);
    assert!(said.contains("mine.luau, governor low and sensor x 0.1, as before"), "{said}");
    assert_eq!(is(&daemon), ("mine".into(), "low".into(), 0.1));
    does(&daemon, &["governor", "high"]);
    end(&mut daemon.child);
    let replayed = Command::new(CASTELL).args(["strategy", "replay", "--json"]).arg(&day).output();
    let replayed: Value = serde_json::from_slice(&replayed.expect("castell starts").stdout).expect("JSON");
    assert_eq!((&replayed["difference"], &replayed["is_cut"]), (&Value::Null, &Value::Bool(false)));
    let first = fs::read_to_string(&day).expect("a recording");
    let first: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&first["recording"]["governor"], &first["recording"]["sensors"][0][1]),
        (&"low".into(), &"0.1".into())
    );
    // That one ended as was wished: the command line counts.
    daemon.child = start(&daemon.socket(), &options);
    assert_eq!(is(&daemon), ("plan-ahead".into(), "middle".into(), 1.0));
}

#[test]
fn a_signal_has_the_command_line_s_strategy_decide_again() {
    let options = ["--strategy", "plan-ahead", "--sensor", "x=1"];
    let mut daemon = Daemon::start(&options);
    does(&daemon, &["load", "long-term"]);
    does(&daemon, &["governor", "low"]);
    signal(&daemon, "-HUP");
    wait_until("it decides", || is(&daemon).0 == "plan-ahead");
    let said = follow(&mut daemon, &["--strategy", "banking", "--sensor", "x=1"]);
    assert!(said.contains(": governor low, as before"), "{said}");
    assert_eq!(is(&daemon), ("banking".into(), "low".into(), 1.0));
}

/// What a daemon has found out of the machine's power is nothing that it was told: the next one finds out how it is then.
#[test]
fn what_the_machine_says_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mains = |online: &str| {
        let supply = folder.path().join("class/power_supply/AC");
        fs::create_dir_all(&supply).expect("a folder");
        fs::write(supply.join("type"), "Mains").expect("a file");
        fs::write(supply.join("online"), online).expect("a file");
        let battery = folder.path().join("class/power_supply/BAT0");
        fs::create_dir_all(&battery).expect("a folder");
        for (name, says) in [("type", "Battery"), ("status", "Discharging"), ("capacity", "70")] {
            fs::write(battery.join(name), says).expect("a file");
        }
    };
    mains("0");
    let root = folder.path().to_str().expect("text");
    let options = ["--on-battery", "low", "--sys", root, "--sensor", "x=1"];
    let mut daemon = Daemon::start(&options);
    wait_until("it is on battery", || is(&daemon).1 == "low");
    does(&daemon, &["sensor", "x", "3"]);
    mains("1");
    let said = follow(&mut daemon, &options);
    assert!(said.contains(": sensor x 3, as before"), "{said}");
    assert_eq!(is(&daemon).1, "high");
}

#[test]
fn a_disk_that_is_full_costs_the_memory_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("daemon.sock");
    // No file may have a byte, as where the disk is full.
    let mut child = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" daemon --sessions none --socket \"$1\""])
        .arg(CASTELL)
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    assert!(next().contains("listens at"));
    let strategy = |arguments: &[&str]| -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("strategy").args(arguments).arg("--socket").arg(&socket).output().expect("castell starts")
    };
    for level in ["low", "middle"] {
        assert!(strategy(&["governor", level]).status.success());
    }
    let first = next();
    assert!(first.contains("what people told the daemon cannot be written"), "{first}");
    assert!(next().contains("governor low") && next().contains("governor middle"), "it is said once");
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    assert!(!Path::new(&socket.with_extension("told.state")).exists());
}
