//! `castell schedule` as a user meets it: output, messages, exit codes.

use serde_json::Value;
use std::process::{Command, Output};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).arg("schedule").args(arguments).output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = castell(arguments);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

#[track_caller]
fn fails(code: i32, arguments: &[&str]) -> String {
    let output = castell(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    said
}

const THESIS: &str = "plb:alpha_p=2911ps,alpha_r=1000ps";

#[test]
fn the_choice_is_one_object() {
    let arguments = ["allreduce", "--ranks", "44", "--model", THESIS, "--heuristic-limit", "12", "--json"];
    let choice: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    assert_eq!(choice["ranks"], 44);
    assert_eq!(choice["heuristic"]["schedule"], "a4,a11");
    assert_eq!(choice["best"]["schedule"], "m8g9a4,a3,n8g12a3");
    assert_eq!(choice["best"]["cost_ps"], 3 * 2911 + 9 * 1000);
    assert_eq!(choice["recursive_doubling"]["schedule"], "c24m2,a2,a2,a2,a2,a2,e24m2");
    assert!((choice["b_opt"].as_f64().unwrap() - 3.258).abs() < 0.001, "{choice}");
    assert!((choice["b_upper"].as_f64().unwrap() - 11.206).abs() < 0.001, "{choice}");
    assert!(choice["best"]["messages"].as_u64().unwrap() > 0);
}

#[test]
fn all_schedules_are_listed_by_cost() {
    let arguments = ["allreduce", "--ranks", "12", "--model", THESIS, "--all", "--json"];
    let choice: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    let costs: Vec<u64> =
        choice["all"].as_array().unwrap().iter().map(|one| one["cost_ps"].as_u64().unwrap()).collect();
    assert!(costs.is_sorted() && costs[0] == choice["best"]["cost_ps"].as_u64().unwrap(), "{costs:?}");
    let table = succeeds(&arguments[..6]);
    assert!(table.contains("recursive doubling  c8m2,a2,a2,a2,e8m2"), "{table}");
}

#[test]
fn words_are_checked_and_drawn() {
    let text = succeeds(&["check", "m1g2a3,n1g3a2", "--ranks", "7", "--diagram", "--cuboid"]);
    assert!(text.contains("fits 7 ranks") && text.contains("↔ 2 3 ← 0"), "{text}");
    assert!(text.contains("serves operators that commute"), "{text}");
    let text = succeeds(&["check", "m1g2a3,n1g3a2", "--ranks", "7", "--non-commutative", "--json"]);
    let checked: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&checked["messages"], &checked["keeps_order"]), (&Value::from(23), &Value::from(true)));
    let file = tempfile::Builder::new().suffix(".svg").tempfile().unwrap();
    succeeds(&["check", "a4", "--ranks", "4", "--svg", file.path().to_str().unwrap()]);
    assert!(std::fs::read_to_string(file.path()).unwrap().starts_with("<svg"));
    // Lines of more ranks could not be told apart.
    succeeds(&["check", "a32,a32", "--ranks", "1024", "--svg", file.path().to_str().unwrap()]);
    let squares = std::fs::read_to_string(file.path()).unwrap();
    assert!(
        squares.contains("a cell is 16 by 16 ranks") && squares.contains("1024 ranks, 2 stages"),
        "{squares}"
    );
    let many = ["check", "a20000", "--ranks", "20000", "--svg", file.path().to_str().unwrap()];
    assert!(fails(1, &many).contains("--svg counts up to 100000000 messages, and these are 399980000"));
}

/// Drawings take the same options, and look alike.
#[test]
fn drawings_have_a_theme_a_font_and_a_title() {
    let folder = tempfile::tempdir().unwrap();
    let [stages, graph, links, timeline] =
        ["stages.svg", "graph.svg", "links.svg", "timeline.svg"].map(|name| folder.path().join(name));
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/goal/pingpong.goal");
    let look = ["--theme", "dark", "--font", "Fira Sans", "--title", "Figure <3>"];
    for (command, file) in [
        (&["schedule", "check", "a4", "--ranks", "4", "--svg"][..], &stages),
        (&["goal", "dump", program, "--svg"], &graph),
        (
            &[
                "simulate",
                program,
                "--network",
                "star:ranks=2",
                "--timeline",
                timeline.to_str().unwrap(),
                "--links",
            ],
            &links,
        ),
    ] {
        let mut castell = Command::new(env!("CARGO_BIN_EXE_castell"));
        let output = castell.args(command).arg(file).args(look).output().expect("castell starts");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for file in [stages, graph, links, timeline] {
        let svg = std::fs::read_to_string(&file).unwrap();
        assert!(svg.contains(">Figure &lt;3&gt;<"), "{}: {svg}", file.display());
        assert!(svg.contains("font-family:'Fira Sans',"), "{}", file.display());
        assert!(svg.contains(".paper{fill:#14171c}") && !svg.contains("#ffffff}text"), "{}", file.display());
        assert!(!svg.contains("prefers-color-scheme"), "{}", file.display());
    }
    assert!(fails(2, &["check", "a4", "--ranks", "4", "--title", "X"]).contains("--svg"));
}

#[test]
fn wrong_input_is_explained() {
    assert!(fails(1, &["check", "a4", "--ranks", "8"]).contains("ranks 0 and 4 would disagree"));
    assert!(fails(1, &["check", "a4,q", "--ranks", "8"]).contains("character 4: expected a stage"));
    assert!(fails(1, &["allreduce", "--ranks", "8", "--model", "loggops"]).contains("chosen under plb"));
    assert!(fails(2, &["allreduce", "--ranks", "0"]).contains("--ranks"));
    assert!(succeeds(&["list"]).contains("barrier:dissemination"));
}
