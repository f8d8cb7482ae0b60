//! `castell session stop`, `resume`, `end`, `set` and `explain`, on sessions that run on this host.

mod beside;
mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use beside::Beside;
use json_page::stands_on_the_page;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// An agent's folder, and what is run there.
struct World {
    folder: tempfile::TempDir,
    socket: String,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("s.sock").to_string_lossy().into_owned();
        World { folder, socket }
    }

    /// The next session, which `name` stands for, until there is the file `go`.
    fn run(&self, options: &[&str], name: &str) -> Beside {
        let known = self.sessions().len();
        let script = format!("touch {name}; while ! [ -e go ]; do sleep .05; done");
        let mut command = Command::new(CASTELL);
        command.args(["session", "run", "--socket", &self.socket]).args(options);
        command.args(["--", "sh", "-c", &script, name]).current_dir(self.folder.path());
        let session =
            Beside(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("castell starts"));
        until("it is there", || self.sessions().len() > known);
        session
    }

    fn castell(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CASTELL);
        command.arg("session").args(arguments).args(["--socket", &self.socket]);
        command.output().expect("castell starts")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.castell(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.castell(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.castell(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
        said(&output)
    }

    fn sessions(&self) -> Vec<Value> {
        self.json(&["list"])["sessions"].as_array().expect("a list").clone()
    }

    fn started(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    fn go(&self) {
        fs::write(self.folder.path().join("go"), "").expect("a file");
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn stopped_resumed_and_ended() {
    let world = World::new();
    let one = world.run(&["--policy", "wait"], "one");
    until("it runs", || world.started("one"));
    let stopped = world.json(&["stop", "1"]);
    assert_eq!((stopped["state"].as_str(), stopped["stopped"].as_bool()), (Some("suspended"), Some(true)));
    stands_on_the_page("session stop", &stopped);
    assert!(world.text(&["list"]).contains("(stopped by its user)"));
    assert!(world.text(&["explain", "1"]).contains("session 1 is suspended by its user"));
    let two = world.run(&[], "two");
    let waits = world.text(&["resume", "1"]);
    assert!(waits.contains("running"), "{waits}");
    assert!(world.refused(&["resume", "1"]).contains("session 1 is not stopped: it runs"));
    assert!(world.refused(&["resume", "2"]).contains("session 2 is not stopped: it waits for its turn"));
    stands_on_the_page("session set", &world.json(&["set", "2", "--priority", "3"]));
    assert_eq!(world.text(&["end", "1"]), "session 1 has ended\n");
    assert_eq!(one.code(), Some(143));
    until("the next one runs", || world.started("two"));
    world.text(&["stop", "2"]);
    stands_on_the_page("session resume", &world.json(&["resume", "2"]));
    let ended = world.json(&["end", "2"]);
    assert_eq!(ended["state"].as_str(), Some("ended"));
    stands_on_the_page("session end", &ended);
    assert_eq!(two.code(), Some(143));
}

#[test]
fn why_one_waits_and_what_changes_it() {
    let world = World::new();
    let one = world.run(&["--policy", "wait", "--estimate", "1h"], "one");
    until("it runs", || world.started("one"));
    let two = world.run(&["--estimate", "10m"], "two");
    let three = world.run(&[], "three");
    let explained = world.json(&["explain", "3"]);
    assert_eq!(
        (&explained["shown"]["state"], &explained["before"]),
        (&"waiting".into(), &serde_json::json!([2]))
    );
    let begins = explained["begins_in_ms"].as_u64().expect("both say how long they take");
    assert!((3_600_000..=4_200_000).contains(&begins), "{begins}");
    let holder = &explained["holders"][0];
    assert_eq!(
        (holder["session"].as_u64(), explained["holders"].as_array().map(Vec::len)),
        (Some(1), Some(1))
    );
    let text = world.text(&["explain", "3"]);
    for part in
        ["session 3 has waited for", "before it: 2", "policy wait: ", "by the estimates it begins in 1 h"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(world.text(&["explain", "1"]).contains("session 1 has run for"));
    stands_on_the_page("session explain", &explained);
    stands_on_the_page("session list", &world.json(&["list"]));
    stands_on_the_page("session list", &world.json(&["set", "3", "--priority", "0"]));
    assert_eq!(world.json(&["set", "3", "--priority", "5"])["priority"].as_i64(), Some(5));
    assert_eq!(world.json(&["explain", "3"])["before"], serde_json::json!([]));
    assert!(world.json(&["set", "1", "--no-estimate"])["state"] == "running");
    assert_eq!(world.json(&["explain", "3"])["begins_in_ms"], Value::Null);
    assert!(world.text(&["explain", "3"]).contains("when it begins does not follow from the estimates"));
    // Under surpass it need not wait, and goes before the other one.
    assert_eq!(world.text(&["set", "--policy", "surpass"]), "the sessions are under surpass\n");
    until("it runs", || world.started("three"));
    let suspended = world.json(&["explain", "1"]);
    assert_eq!(
        (&suspended["shown"]["state"], &suspended["suspended_by"]),
        (&"suspended".into(), &serde_json::json!([3]))
    );
    let text = world.text(&["explain", "1"]);
    assert!(text.contains("suspended once by others (last by 3), never stopped by its user"), "{text}");
    assert!(world.refused(&["set", "--policy", "wait"]).contains("processors in common"));
    world.go();
    assert_eq!([one, two, three].map(Beside::code), [Some(0); 3]);
}

#[test]
fn what_cannot_be_is_told() {
    let world = World::new();
    for words in [
        &["stop", "1"][..],
        &["explain", "1"],
        &["set", "1", "--priority", "2"],
        &["set", "--policy", "wait"],
    ] {
        let said = world.refused(words);
        assert!(said.contains("there are no sessions here: no agent listens at"), "{words:?}: {said}");
    }
    let _one = world.run(&["--policy", "wait"], "one");
    for words in [
        &["stop", "7"][..],
        &["resume", "7"],
        &["end", "7"],
        &["explain", "7"],
        &["set", "7", "--priority", "2"],
    ] {
        let said = world.refused(words);
        assert!(
            said.contains("there is no session 7: `castell session list` shows which there are"),
            "{words:?}: {said}"
        );
    }
    assert!(world.refused(&["set", "1"]).contains("what is to be set?"));
    for words in
        [&["set"][..], &["set", "1", "--policy", "wait"], &["set", "--policy", "polite"], &["stop", "one"]]
    {
        assert_eq!(world.castell(words).status.code(), Some(2), "{words:?}");
    }
    let json: Value = serde_json::from_slice(&world.castell(&["stop", "7", "--json"]).stdout).expect("JSON");
    assert!(json["error"].as_str().is_some_and(|error| error.starts_with("there is no session 7")), "{json}");
}

/// As root: another user may look for the socket, and not speak to who listens there.
#[test]
fn another_users_agent_is_left_alone() {
    let world = World::new();
    let _one = world.run(&["--policy", "wait"], "one");
    let folder = world.folder.path().to_string_lossy().into_owned();
    let open = Command::new("chmod").args(["755", &folder]).status().expect("chmod starts");
    assert!(open.success());
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", CASTELL]).args(words);
        command.current_dir("/").stdin(Stdio::null()).output()
    };
    if !as_nobody(&["--version"]).is_ok_and(|output| output.status.success()) {
        // This is no root, or the program lies where others may not look.
        skipped::skip("another-user", "this process cannot become another user who may run castell");
        return;
    }
    for words in [&["list"][..], &["stop", "1"], &["explain", "1"]] {
        let words = [&["session"], words, &["--socket", &world.socket]].concat();
        let output = as_nobody(&words).expect("castell starts");
        let said = said(&output);
        assert!(!output.status.success() && said.contains("is another user's"), "{words:?}: {said}");
    }
    assert_eq!(world.sessions()[0]["state"], "running");
}
