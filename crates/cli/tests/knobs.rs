//! `castell tune knobs` with real commands, whose knobs are files and variables.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NOTES: &str = "state/castell/knobs";
/// A knob that is a file, `a`: what is set, and what is measured.
const FILE: [&str; 8] = [
    "--knob",
    "a=1..99",
    "--get",
    "echo a=$(cat a)",
    "--set",
    "echo $a > a",
    "--measure",
    "sleep 0.02; cat a",
];

fn castell(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["tune", "knobs"]).args(words).current_dir(folder);
    command.env("XDG_STATE_HOME", folder.join("state")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, words: &[&str]) -> Output {
    castell(folder, words).output().expect("castell runs")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn file(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("a")).expect("it is there").trim().to_owned()
}

fn notes(folder: &Path) -> usize {
    std::fs::read_dir(folder.join(NOTES)).map_or(0, |entries| entries.count())
}

/// Starts a run whose knob is a file, and waits until it has been set.
fn begin(folder: &Path) -> Child {
    std::fs::write(folder.join("a"), "1000\n").expect("written");
    let child = castell(folder, &FILE).spawn().expect("castell runs");
    let start = Instant::now();
    while file(folder) == "1000" {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is set");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn the_best_setting_is_found_and_what_matters_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    // One knob that matters, one that does not.
    let measure = "echo took $(( ($A - 30) * ($A - 30) + 5 + $B_B % 2 )) ";
    let words = ["--knob", "A=0..100", "--knob", "B-B=64..4096:*2", "--measure", measure, "--seed", "3"];
    let more = [
        "--samples",
        "30",
        "--budget",
        "90",
        "--rounds",
        "3",
        "--json",
        "--svg",
        "out.svg",
        "--csv",
        "out.csv",
    ];
    let found = json(
        &castell(folder.path(), &words)
            .args(more)
            .env("A", "90")
            .env("B_B", "64")
            .output()
            .expect("castell runs"),
    );
    assert_eq!(
        (&found["samples"], &found["searched"], &found["failed"]),
        (&30.into(), &90.into(), &0.into())
    );
    let finals = found["finals"].as_array().expect("a list");
    assert_eq!(finals.len(), 4, "{found}");
    let best = finals[0]["setting"]["A"].as_i64().expect("a number");
    assert!((25..=35).contains(&best), "{found}");
    assert!(finals[0]["setting"]["B-B"].as_i64().is_some_and(|b| b.count_ones() == 1), "{found}");
    // As it was: what the environment says.
    let before = finals.iter().find(|one| one["setting"].is_null()).expect("it took its turn");
    assert_eq!((&before["median"], &before["count"]), (&3605.0.into(), &3.into()), "{found}");
    assert_eq!(found["knobs"][0]["effect"]["significant"], true, "{found}");
    assert_eq!(found["knobs"][1]["effect"]["significant"], false, "{found}");
    let drawing = std::fs::read_to_string(folder.path().join("out.svg")).expect("drawn");
    assert!(drawing.contains("measured, over B-B"), "{drawing}");
    let table = std::fs::read_to_string(folder.path().join("out.csv")).expect("written");
    assert_eq!((table.lines().next(), table.lines().count()), (Some("part,A,B-B,measured"), 121), "{table}");
    // The same seed, the same settings; people get the same as text.
    let few = ["--samples", "30", "--budget", "0", "--rounds", "1"];
    let mut again = castell(folder.path(), &words);
    let text = again.args(few).env("A", "90").env("B_B", "64").output().expect("castell runs");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in [
        "30 random settings, 0 by cross-entropy search; seed 3",
        "a linear model",
        "as it was",
        "the best setting comes to",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_was_set_before_is_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a"), "1000\n").expect("written");
    let few = ["--samples", "4", "--budget", "3", "--rounds", "2", "--most", "--json"];
    let found = json(&run(folder, &[&FILE[..], &few].concat()));
    assert_eq!(
        found["finals"][0],
        serde_json::json!({ "setting": null, "median": 1000.0, "least": 1000.0, "most": 1000.0, "count": 2 })
    );
    assert_eq!((file(folder).as_str(), notes(folder)), ("1000", 0));
    for (name, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let child = begin(folder);
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((file(folder).as_str(), notes(folder)), ("1000", 0), "{name}");
    }
    // Killed: the next one does it.
    let mut child = begin(folder);
    child.kill().expect("killed");
    child.wait().expect("it has ended");
    assert_eq!(notes(folder), 1);
    let undone = run(folder, &["--undo"]);
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert!(String::from_utf8_lossy(&undone.stderr).contains("put back what a run had left"));
    assert_eq!((file(folder).as_str(), notes(folder)), ("1000", 0));
}

/// ESPGOAL's search, and a command of one's own for the end.
#[test]
fn generations_are_bred_and_the_users_command_puts_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a"), "1000\n").expect("written");
    let search = ["--search", "genetic", "--population", "4", "--generations", "2", "--samples", "6"];
    let more = ["--repeats", "2", "--rounds", "1", "--restore", "echo 77 > a", "--json"];
    let found = json(&run(folder, &[&FILE[..], &search, &more].concat()));
    assert_eq!((&found["search"], &found["searched"]), (&"genetic".into(), &8.into()), "{found}");
    assert_eq!((file(folder).as_str(), notes(folder)), ("77", 0));
}

#[test]
fn a_run_that_lives_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = begin(folder.path());
    assert!(run(folder.path(), &["--undo"]).status.success());
    assert_eq!(notes(folder.path()), 1);
    signal(&child, "-INT");
    child.wait_with_output().expect("it ends");
    assert_eq!((file(folder.path()).as_str(), notes(folder.path())), ("1000", 0));
}

#[test]
fn what_goes_wrong_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let few = ["--samples", "6", "--budget", "0", "--rounds", "1"];
    for (words, code, part) in [
        (&["--knob", "a=1..9"][..], 2, "--measure"),
        (&["--knob", "a=9..1", "--measure", "echo 1"], 2, "has no values"),
        (&["--measure", "echo 1"], 1, "there is no knob"),
        (&["--knob", "a=1..9", "--knob", "a=1..3", "--measure", "echo 1"], 1, "knob `a` is there twice"),
        (&["--knob", "a=1..9", "--measure", "echo fine"], 1, "prints no number"),
        (&["--knob", "a=1..9", "--measure", "echo no such file >&2; false"], 1, "no such file"),
        (&["--knob", "a=1..9", "--measure", "echo 1", "--pointer", "/a/0"], 1, "has no number at /a/0"),
        (&["--knob", "a=1..9", "--measure", "sleep 9; echo 1", "--timeout", "1"], 1, "took more than 1 s"),
        (&["--knob", "a=1..9", "--measure", "echo 1", "--set", "true"], 1, "--set needs --get"),
        (
            &["--knob", "a=1..9", "--measure", "echo 1", "--set", "true", "--get", "echo b=1"],
            1,
            "does not say what a is now",
        ),
        (&["--profile", "ethtool=;reboot", "--measure", "echo 1"], 2, "neither busy-poll nor ethtool"),
        (&["--undo", "--measure", "echo 1"], 2, "--undo"),
    ] {
        let output = run(folder, &if code == 1 { [words, &few].concat() } else { words.to_vec() });
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
        assert_eq!(notes(folder), 0, "{words:?}");
    }
    // Time that passes counts, whatever is printed.
    let words = ["--knob", "a=1..2", "--measure", "sleep 0.0$a; echo 7", "--seconds", "--json"];
    let found = json(&run(folder, &[&words[..], &few].concat()));
    let seconds = found["finals"][0]["median"].as_f64().expect("a number");
    assert!(seconds > 0.0 && seconds != 7.0, "{found}");
    // Some settings fail: they are counted, and the others go on.
    let words = [
        "--knob",
        "a=1..9",
        "--measure",
        "test $a -gt 3 && echo '{\"us\": [7.5]}'",
        "--pointer",
        "/us/0",
        "--json",
    ];
    let found =
        json(&run(folder, &[&words[..], &["--samples", "40", "--budget", "0", "--seed", "1"]].concat()));
    let failed = found["failed"].as_u64().expect("a number");
    assert!((1..40).contains(&failed), "{found}");
    assert_eq!(found["finals"][0]["median"], 7.5, "{found}");
}
