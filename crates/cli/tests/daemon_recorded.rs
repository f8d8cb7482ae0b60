//! What a daemon records, decided once more.

#[path = "with_daemon/applications.rs"]
mod applications;
mod json_page;
mod with_daemon;

use applications::{Seen, applications, signal, wait_until};
use castell_kernels::Application;
use json_page::stands_on_the_page;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use with_daemon::{Daemon, kernel};

/// All that decides stands in a recording: strategies that are exchanged, a bad one, the governor, a sensor, applications that go.
#[test]
fn a_recorded_day_is_decided_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("day.jsonl");
    let day = path.to_str().expect("text");
    let options =
        ["--record", day, "--strategy", "plan-ahead", "--forbid", "low:gpu", "--sensor", "power=0.1"];
    let mut daemon = Daemon::start(&options);
    let bad = folder.path().join("bad.luau");
    std::fs::write(&bad, "local n = 0 return { choose = function(node) n += 1 if n > 400 then error('enough') end return node.waiting[1], 'gpu' end }")
        .expect("written");
    let seen = Seen::default();
    applications(&daemon, 3, &seen, || {
        let runs = |more: u64| {
            let until = seen.runs.load(Ordering::Relaxed) + more;
            wait_until("runs", || seen.runs.load(Ordering::Relaxed) >= until);
        };
        runs(100);
        for command in [
            &["governor", "low"][..],
            &["sensor", "power", "0.30000000000000004"],
            &["load", "banking"],
            &["load", "long-term"],
            &["governor", "high"],
            &["load", "constraint:limit_high=12"],
        ] {
            let done = daemon.strategy(command);
            assert!(done.status.success(), "{command:?}: {done:?}");
            let short = daemon.strategy(&["load", "short-term"]);
            assert!(short.status.success(), "{short:?}");
            runs(30);
        }
        // Refused or taken out again: both are in the recording as they were.
        let _ = daemon.strategy(&["load", bad.to_str().expect("text")]);
        runs(300);
    });
    let replay = |path: &str| castell(&["strategy", "replay", path, "--json"]);
    let told = |output: &Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    wait_until("all have gone", || daemon.is_empty());
    let status = daemon.status();
    stands_on_the_page("strategy status", &status);
    let done = status["done"].clone();
    // It has no end as yet.
    let running = told(&replay(day));
    assert_eq!((&running["difference"], &running["is_cut"]), (&Value::Null, &Value::Bool(true)));
    signal(&daemon, "-TERM");
    daemon.child.wait().expect("it ends");
    let whole = replay(day);
    assert!(whole.status.success(), "{whole:?}");
    let whole = told(&whole);
    assert_eq!((&whole["difference"], &whole["is_cut"]), (&Value::Null, &Value::Bool(false)), "{whole}");
    assert!(whole["inputs"].as_u64() > Some(1_000) && whole["events"].as_u64() > Some(3_000), "{whole}");

    // Another decision is found, wherever it is; and a line that is cut off is no end.
    let text = std::fs::read_to_string(&path).expect("it is there");
    let decided = text.rfind("decided #").expect("something was decided");
    let other = folder.path().join("other.jsonl");
    std::fs::write(&other, format!("{}decided #9{}", &text[..decided], &text[decided + 9..]))
        .expect("written");
    let found = replay(other.to_str().expect("text"));
    assert_eq!(found.status.code(), Some(1));
    let line = 1 + text[..decided].matches('\n').count();
    assert_eq!(told(&found)["difference"]["line"], line);
    stands_on_the_page("strategy replay", &told(&found));
    std::fs::write(&other, &text[..decided]).expect("written");
    let cut = told(&replay(other.to_str().expect("text")));
    assert_eq!((&cut["difference"], &cut["is_cut"]), (&Value::Null, &Value::Bool(true)));

    // The same day under other strategies.
    let simulated =
        castell(&["strategy", "simulate", "short-term", "plan-ahead", "--recorded", day, "--json"]);
    let simulated = told(&simulated);
    assert_eq!(simulated["instances"], done);
    assert_eq!(simulated["strategies"].as_array().map(Vec::len), Some(2));
}

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).args(arguments).output().expect("castell can be started")
}

/// A recording is not overwritten; a disk that is full ends it, and not the daemon.
#[test]
fn a_recording_that_cannot_be_written_costs_no_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there");
    std::fs::write(&there, "mine").expect("written");
    let socket = folder.path().join("s");
    let refused = castell(&[
        "daemon",
        "--record",
        there.to_str().expect("text"),
        "--socket",
        socket.to_str().expect("text"),
    ]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("not overwritten"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).expect("it is there"), "mine");

    // A limit on the size of files is like a full disk.
    let record = folder.path().join("day.jsonl");
    let mut child = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" daemon --socket \"$1\" --record \"$2\""])
        .arg(env!("CARGO_BIN_EXE_castell"))
        .args([&socket, &record])
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    assert!(next().contains("listens at"));
    let application = Application::open_at("many", Some(&socket)).expect("opens");
    let collection = application.register(&[kernel("one_core")], &[]).expect("registered");
    (0..1_000).for_each(|_| collection.run(1, |_| ()).expect("it can run"));
    assert!(next().contains("ends here"));
    assert!(application.has_daemon());
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
}
