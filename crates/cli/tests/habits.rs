//! What people expect of any program: completions, manual pages, colours, places shown, and what the machine is like.

mod terminal;
#[path = "terminal/until.rs"]
mod until;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use terminal::Terminal;

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

fn castell(arguments: &[&str]) -> Command {
    let mut command = Command::new(CASTELL);
    command.args(arguments).stdin(Stdio::null()).current_dir(root());
    command.env_remove("NO_COLOR").env_remove("CASTELL_TUNING");
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(arguments: &[&str]) -> Output {
    castell(arguments).output().expect("castell starts")
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a real bash offers for the last of these words.
fn completed_by_bash(words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("castell.bash");
    std::fs::write(&script, printed(&["completions", "bash"])).expect("a file");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words.len() - 1, words[words.len() - 2]);
    // As bash itself calls what `complete -F` has registered.
    let line = format!(
        "source {}; complete -p castell >&2; COMP_WORDS=({}); COMP_CWORD={last}; \
         _castell castell '{}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words[last]
    );
    let output = Command::new("bash").args(["--norc", "-c", &line]).output().expect("bash starts");
    assert!(text(&output.stderr).contains("-F _castell"), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    assert_eq!(completed_by_bash(&["castell", "goal", "ch"]), ["check"]);
    assert!(completed_by_bash(&["castell", "sim"]).contains(&"simulate".to_owned()));
    let options = completed_by_bash(&["castell", "run", "--rep"]);
    assert_eq!(options, ["--repeat"]);
    assert_eq!(completed_by_bash(&["castell", "--color", "al"]), ["always"]);
}

#[test]
fn other_shells_have_scripts_too() {
    assert!(printed(&["completions", "zsh"]).starts_with("#compdef castell"));
    assert!(printed(&["completions", "fish"]).contains("complete -c castell"));
    assert_eq!(output(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("man1");
    printed(&["man", "--all", place.to_str().expect("a path")]);
    for name in ["castell", "castell-goal", "castell-goal-check", "castell-run", "castell-tune-export"] {
        let page = std::fs::read_to_string(place.join(format!("{name}.1"))).expect("a page");
        assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let page = printed(&["man", "goal", "check"]);
    assert!(page.contains("castell\\-goal\\-check") || page.contains("castell-goal-check"), "{page}");
    let wrong = output(&["man", "gaol"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("no command `gaol`"), "{}", text(&wrong.stderr));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    const ESCAPE: &str = "\x1b[";
    let file = "vectors/goal/check/deadlock.goal";
    let with = |arguments: &[&str], no_color: bool| {
        let mut command = castell(arguments);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let output = command.output().expect("castell starts");
        text(&output.stdout) + &text(&output.stderr)
    };
    assert!(!with(&["goal", "check", file], false).contains(ESCAPE), "a pipe is no terminal");
    assert!(with(&["goal", "check", file, "--color", "always"], false).contains(ESCAPE));
    assert!(with(&["--color=always", "run", file], true).contains(ESCAPE), "who asks, gets");
    assert!(!with(&["goal", "check", file, "--color", "never"], false).contains(ESCAPE));
    // clap's own texts follow, too.
    assert!(with(&["--color", "always", "run", "--help"], false).contains(ESCAPE));
    assert!(!with(&["--color", "never", "run", "--nonsense"], false).contains(ESCAPE));
    // Behind `--` it is the program's.
    assert_eq!(with(&["launch", "-n", "1", "--", "echo", "--color=always"], false), "--color=always\n");
}

#[test]
fn a_wrong_line_is_shown_with_a_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.goal");
    std::fs::write(&file, "num_ranks 1\nrank 0 {\n  a: calc 1\n  b: sned 8b to 0\n}\n").expect("a file");
    let file = file.to_str().expect("a path");
    let refused = output(&["goal", "check", file]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("wrong.goal:4:6: "), "{said}");
    assert!(said.contains("castell:      4 |   b: sned 8b to 0\n"), "{said}");
    assert!(said.contains("castell:        |      ^^^^\n"), "{said}");
    // Programs get the message without.
    let refused = output(&["run", file, "--json"]);
    let told: Value = serde_json::from_slice(&refused.stdout).expect("one object");
    assert!(!told["error"].as_str().expect("a text").contains('|'), "{told}");
    // What the check finds is shown as well, by whichever command.
    std::fs::write(file, "num_ranks 2\nrank 0 {\n  lost: send 8b to 1\n}\nrank 1 {\n}\n").expect("a file");
    let checked = text(&output(&["goal", "check", file]).stdout);
    assert!(checked.contains("     3 |   lost: send 8b to 1\n"), "{checked}");
    let refused = text(&output(&["run", file]).stderr);
    assert!(refused.contains("castell:      3 |   lost: send 8b to 1\n"), "{refused}");
}

#[test]
fn info_tells_what_is_there_and_what_is_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("tuning.toml");
    std::fs::write(&wrong, "format = 99\n").expect("a file");
    let told = |tuning: &str| -> Value {
        let output = castell(&["info", "--json"]).env("CASTELL_TUNING", tuning).output().expect("it starts");
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let info = told("off");
    assert_eq!(info["castell"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        info["machine"]["processors"].as_u64() >= Some(1) && info["limits"]["open_files"].is_object(),
        "{info}"
    );
    assert!(info["shared_memory"]["bytes"].as_u64() > Some(0), "{info}");
    assert!(
        info["kernel"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|one| one["name"] == "memfd" && one["has"] == true)
    );
    let tuning = &info["tuning"];
    assert_eq!(
        (&tuning["in_force"], &tuning["because"]),
        (&"built-in".into(), &"CASTELL_TUNING is off".into())
    );
    let variables = info["variables"].as_array().expect("a list");
    let set = variables.iter().find(|variable| variable["name"] == "CASTELL_TUNING").expect("it is known");
    assert!(set["value"] == "off" && set["meaning"].as_str().is_some_and(|text| !text.is_empty()), "{set}");
    // A file that is named and refused is told with the reason.
    let refused = told(wrong.to_str().expect("a path"));
    assert_eq!(refused["tuning"]["in_force"], "built-in");
    assert!(
        refused["tuning"]["refused"].as_str().is_some_and(|why| why.contains("format is 99")),
        "{refused}"
    );
    // For people.
    let shown = printed(&["info"]);
    for part in
        ["machine", "limits", "kernel", "MPI", "fabrics", "OpenMP", "tuning", "variables that are set"]
    {
        assert!(shown.lines().any(|line| line.starts_with(part)), "{part}: {shown}");
    }
    assert!(printed(&["info", "--variables"]).contains("| `CASTELL_RANK` |"));
}

#[test]
fn a_program_is_run_several_times() {
    let program = "examples/goal/pingpong.goal";
    let object: Value =
        serde_json::from_str(&printed(&["run", program, "--repeat", "7", "--warmup", "2", "--json"]))
            .expect("JSON");
    let repeat = &object["repeat"];
    assert_eq!((repeat["times_ns"].as_array().expect("a list").len(), &repeat["warmup"]), (7, &2.into()));
    let number = |key: &str| repeat[key].as_f64().expect("a number");
    assert!(
        0.0 < number("min_ns")
            && number("min_ns") <= number("median_ns")
            && number("median_ns") <= number("max_ns")
    );
    // What is counted is one execution's, however many there were.
    let once: Value = serde_json::from_str(&printed(&["run", program, "--json"])).expect("JSON");
    assert_eq!((&object["messages"], &object["bytes"]), (&once["messages"], &once["bytes"]));
    assert!(once["repeat"].is_null() && once["doubts"].is_array(), "{once}");
    let shown = printed(&["run", program, "--repeat", "3", "--bind", "core"]);
    assert!(shown.contains("3 rounds, 1 before them to warm up\n") && shown.contains("median"), "{shown}");
}

/// More ranks than there are processors, on every machine.
#[test]
fn crowded_and_unbound_runs_are_said_to_be_so() {
    let ranks = 2 * std::thread::available_parallelism().map_or(2, usize::from) as u32;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("many.goal");
    let blocks: String = (0..ranks).map(|rank| format!("rank {rank} {{ calc 10 }}\n")).collect();
    std::fs::write(&file, format!("num_ranks {ranks}\n{blocks}")).expect("a file");
    let file = file.to_str().expect("a path");
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let object: Value =
            serde_json::from_str(&printed(&[&["run", file, "--json"], arguments].concat())).expect("JSON");
        let doubts = object["doubts"].as_array().expect("a list").iter();
        doubts.map(|doubt| doubt["kind"].as_str().expect("a name").to_owned()).collect()
    };
    let crowd = "more-ranks-than-processors".to_owned();
    assert!(kinds(&[]).contains(&crowd));
    assert!(kinds(&["--bind", "core"]).contains(&crowd));
    assert!(!kinds(&["--bind", "core"]).contains(&"not-bound".to_owned()));
    let said = text(&output(&["run", file, "--repeat", "2"]).stderr);
    assert!(said.contains("warning: ") && said.contains(" share "), "{said}");
    let once = text(&output(&["run", file]).stderr);
    assert!(once.contains("--repeat 20"), "{once}");
}

#[test]
fn what_takes_long_says_how_long() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("slow.goal");
    std::fs::write(&program, "num_ranks 1\nrank 0 { calc 100000000 }\n").expect("a file");
    let mut run = castell(&["run", "--repeat", "30"]);
    run.arg(&program).env("TERM", "xterm-256color");
    let mut terminal = Terminal::start(&mut run, 120, 40);
    terminal.until("/31 executions");
    terminal.until(", about ");
    assert_eq!(terminal.wait(), Some(0));
    assert!(!terminal.was_ours(), "it has a line");
    terminal.until("30 rounds, 1 before them");
    assert!(!terminal.text().contains("executions"), "{}", terminal.text());
}

#[test]
fn a_list_of_many_schedules_says_how_far_it_is() {
    let mut list = castell(&["schedule", "allreduce", "--ranks", "720720", "--all"]);
    let mut terminal = Terminal::start(list.env("TERM", "xterm-256color"), 120, 40);
    terminal.until("/100000 schedules ");
    assert_eq!(terminal.wait(), Some(0));
}

/// Rows of each kind: those of collective calls have a place for doubts, those of tasks are given one.
#[test]
fn benches_of_more_ranks_or_workers_than_processors_are_said_to_be_doubtful() {
    let many = (2 * std::thread::available_parallelism().map_or(2, usize::from)).to_string();
    let once = ["--no-peers", "--json", "--rounds", "1", "--samples", "1"];
    for (what, words) in [
        (" ranks share ", &["collectives", "--ops", "barrier", "--ranks", &many][..]),
        (" workers share ", &["tasks", "chain:tasks=10", "--workers", &many]),
    ] {
        let output = output(&[&["bench"], words, &once].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = rows.as_array().expect("a list");
        let is_told = |row: &Value| {
            let doubts = row["doubts"].as_array().expect("there are doubts");
            doubts.iter().any(|kind| kind == "more-ranks-than-processors")
        };
        assert!(!rows.is_empty() && rows.iter().all(is_told), "{rows:?}");
        let said = text(&output.stderr);
        assert!(said.contains("warning: ") && said.contains(what), "{said}");
    }
}

/// A program that nobody has written to its end yet: a pipe with a name.
fn slow_program(folder: &Path) -> PathBuf {
    let pipe = folder.join("pipe.goal");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a pipe");
    pipe
}

#[test]
fn what_does_not_know_how_far_it_is_says_what_it_does_until_it_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = slow_program(folder.path());
    let mut dump = castell(&["goal", "dump"]);
    let mut terminal = Terminal::start(dump.arg(&pipe).env("TERM", "xterm-256color"), 200, 40);
    terminal.until("reading ");
    terminal.until("pipe.goal 2s");
    std::fs::write(&pipe, "num_ranks 1\nrank 0 { calc 1 }\n").expect("it is read");
    assert_eq!(terminal.wait(), Some(0));
    terminal.until("calc 1");
    assert!(!terminal.text().contains("reading "), "{}", terminal.text());
}

#[test]
fn files_get_no_lines_that_say_what_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = slow_program(folder.path());
    let check = castell(&["goal", "check", "--json"])
        .arg(&pipe)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let check = check.expect("castell starts");
    // Longer than a terminal would have waited for a line.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    std::fs::write(&pipe, "num_ranks 1\nrank 0 { calc 1 }\n").expect("it is read");
    let output = check.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
    assert!(text(&output.stdout).starts_with("{\"ok\":true"), "{}", text(&output.stdout));
}

#[test]
fn simulations_that_are_watched_and_tasks_say_how_far_they_are() {
    let mut watched = castell(&["simulate", "barrier:dissemination", "--ranks", "65536", "--critical-path"]);
    let terminal = Terminal::start(watched.env("TERM", "xterm-256color"), 120, 40);
    terminal.until(" operations ");
    terminal.until(", about ");
    let folder = tempfile::tempdir().expect("a folder");
    let tasks = folder.path().join("tasks.goal");
    let calcs: String = (0..50_000).map(|task| format!("t{task}: calc 1000\n")).collect();
    std::fs::write(&tasks, format!("num_ranks 1\nrank 0 {{\n{calcs}}}\n")).expect("a file");
    let mut simulate = castell(&["tasks", "simulate", "--machine", "cpu:8", "--machine", "cpu:2"]);
    let mut terminal = Terminal::start(simulate.arg(&tasks).env("TERM", "xterm-256color"), 120, 40);
    terminal.until("/100000 pieces ");
    assert_eq!(terminal.wait(), Some(0));
    assert!(!terminal.text().contains("/100000"), "{}", terminal.text());
}
