//! `castell place`: pairs, proofs, counts, splits, and what is refused.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn place(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("place").args(arguments).stdin(Stdio::null()).output().expect("castell can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    let output = place(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// a computes only, b is bound by memory, c in between.
const TABLE: &str = "program,a,b,c\na,1,1,1\nb,0%,100%,20%\nc,1,1.3,1.05\n";

#[test]
fn the_optimum_is_proved_explained_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = file(folder.path(), "table.csv", TABLE);
    let svg = folder.path().join("nodes.svg").display().to_string();
    let output = place(&["a:2,b:2", "--slowdowns", &table, "--svg", &svg]);
    let printed = text(&output.stdout);
    assert!(
        printed.contains("0.00 % on average") && printed.contains("no placement has a smaller"),
        "{printed}"
    );
    assert!(printed.contains("neither a nor b suffers") && printed.contains("first-fit"), "{printed}");
    let drawn = std::fs::read_to_string(&svg).expect("a drawing");
    assert!(drawn.starts_with("<svg") && drawn.contains("2 nodes, each"));
    let answer = json(&["a:2,b:2", "--slowdowns", &table]);
    assert_eq!((&answer["proved_optimum"], &answer["twins"]), (&true.into(), &0.into()));
    assert_eq!(answer["other_rules"]["first-fit"]["average"], 1.5);
    let four = json(&["a:4,b:2,c:2", "--slowdowns", &table, "--per-node", "4"]);
    assert!(four["average_at_least"].as_f64() <= four["slowdown"]["average"].as_f64(), "{four}");
}

#[test]
fn a_limit_is_kept_or_refused_with_what_would_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = file(folder.path(), "table.csv", TABLE);
    let limited = ["b:3,c:1", "--slowdowns", &table, "--max-slowdown", "25%"];
    let output = place(&limited);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("4 nodes are enough"), "{}", text(&output.stderr));
    let answer = json(&[&limited[..], &["--nodes", "4"]].concat());
    assert_eq!(answer["slowdown"]["worst"], 1.0);
}

#[test]
fn twins_are_apart_whatever_the_seed() {
    for seed in 0..20 {
        let answer = json(&["10x2", "--rule", "twins", "--seed", &seed.to_string()]);
        assert_eq!(answer["twins"], 0);
    }
    assert_eq!(json(&["a:5,b:1", "--rule", "twins"])["twins"], 2);
}

#[test]
fn all_ways_are_counted_and_evaluated() {
    let counted = json(&["10x2", "--all"]);
    assert_eq!((&counted["ways"], &counted["ways_without_twins"]), (&"1436714".into(), &"499194".into()));
    let hundred = json(&["100x2", "--all"]);
    assert!(hundred["ways"].as_str().is_some_and(|ways| ways.len() > 150), "{hundred}");
    let folder = tempfile::tempdir().expect("a folder");
    let table = file(folder.path(), "table.csv", TABLE);
    let answer = json(&["a:2,b:2,c:2", "--all", "--slowdowns", &table, "--group", "high=b", "--bin", "5"]);
    assert_eq!(answer["bin"], 0.05);
    let sets = &answer["sets"];
    assert_eq!(
        answer["ways"].as_str().map(str::to_owned),
        sets["all"]["ways"].as_u64().map(|n| n.to_string())
    );
    assert_eq!(sets["high_twins"]["ways"], 2);
    let optimum = json(&["a:2,b:2,c:2", "--slowdowns", &table]);
    let best = |value: &Value| value.as_f64().expect("a number");
    assert!((best(&sets["all"]["best"]) - best(&optimum["slowdown"]["average"])).abs() < 1e-9);
    let spare = json(&["a:1,b:2", "--all", "--slowdowns", &table, "--nodes", "3"]);
    assert_eq!(spare["sets"]["all"]["best"], 1.0);
}

#[test]
fn predictions_choose_and_a_table_tells_what_comes_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("profiles").display().to_string();
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_castell"));
    simulate.args(["predict", "--simulate", "kernels", "--scale", "64", "--json", "--keep", &store]);
    assert!(simulate.output().expect("castell can be started").status.success());
    let jobs = "triad:2,chase:2,options:2,hash_s:2,random_numbers:2";
    let table = format!("{store}/slowdowns.csv");
    let truth = json(&[jobs, "--slowdowns", &table]);
    let predicted = json(&[jobs, "--slowdowns", &table, "--rule", "predicted", "--profiles", &store]);
    let average = |value: &Value| value["slowdown"]["average"].as_f64().expect("a factor") - 1.0;
    // What was predicted is not what is true, but who goes beside whom is nearly the same.
    assert!(average(&predicted) < average(&truth) + 0.01, "{predicted:#}");
    assert_eq!(predicted["proved_optimum"], false);
    assert_eq!(json(&[jobs, "--profiles", &store])["rule"], "predicted");
    // Nothing is known of a third: it is kept from its twin.
    let some = json(&["triad:2,options:2,unknown:2", "--profiles", &store]);
    assert_eq!((&some["twins"], &some["knowledge"][2]["by"]), (&0.into(), &Value::Null), "{some:#}");
    let lonely = text(&place(&["unknown:2", "--profiles", &store]).stdout);
    assert!(lonely.contains("there is nobody else for unknown"), "{lonely}");
    std::fs::remove_file(format!("{store}/machine.json")).expect("it was there");
    let refused = text(&place(&[jobs, "--profiles", &store]).stderr);
    assert!(refused.contains("`castell profiles machine` measures them"), "{refused}");
}

#[test]
fn cores_are_split_where_both_gain() {
    let folder = tempfile::tempdir().expect("a folder");
    let saturated = file(folder.path(), "lama.csv", "cores,seconds\n1,8\n2,4\n3,3.9\n4,3.9\n");
    let parallel = file(folder.path(), "blast.csv", "1,8\n2,4\n3,2.7\n4,2\n");
    let answer = json(&["--split", &saturated, &parallel]);
    assert_eq!(answer["best"]["cores"], serde_json::json!([2, 2]));
    assert!(answer["best"]["combined"].as_f64() > Some(1.4));
}

#[test]
fn cores_are_split_by_what_is_measured_and_by_what_is_simulated() {
    // Neither needs a processor: side by side both are as fast as alone, whatever else runs here.
    let answer =
        json(&["--split", "sleep 0.{cores}", "sleep 0.1", "--measure", "--cores", "2", "--runs", "1"]);
    assert_eq!(answer["best"]["cores"], serde_json::json!([1, 1]));
    assert!(answer["best"]["seconds"][0].as_f64() >= Some(0.1), "{answer}");
    let failed = place(&["--split", "exit 3", "sleep 1", "--measure"]);
    let said = text(&failed.stderr);
    assert!(
        failed.status.code() == Some(1) && said.contains("exit 3") && said.contains("exit code 3"),
        "{said}"
    );
    let answer = json(&["--split", "cg:200", "cg:100", "--simulate", "--cores", "4"]);
    let shares = answer["shares"].as_array().expect("shares");
    assert_eq!(shares.len(), 3, "{answer}");
    // Four times the work: it needs three of the four cores to be as fast.
    let seconds = |share: &Value, at: usize| share["seconds"][at].as_f64().expect("a time");
    assert!(
        seconds(&shares[2], 0) < seconds(&shares[0], 0) && seconds(&shares[0], 1) < seconds(&shares[2], 1)
    );
    let refused = text(&place(&["--split", "lama", "cg:100", "--simulate"]).stderr);
    assert!(refused.contains("\"lama\" is no program to simulate"), "{refused}");
}

#[test]
fn wrong_input_is_told_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = file(folder.path(), "table.csv", "program,a\na,fast\n");
    let good = file(folder.path(), "good.csv", TABLE);
    let jobs = file(folder.path(), "jobs.csv", "a,2\nb,many\n");
    for (arguments, expected) in [
        (vec!["a:2", "--slowdowns", &table], "line 2 of the slowdowns: \"fast\""),
        (vec!["a:2,z:1", "--slowdowns", &good], "no row or column for \"z\""),
        (vec![&jobs[..]], "line 2 of the jobs: \"many\""),
        (vec!["a:5", "--nodes", "2"], "5 jobs need more than the 4 slots"),
        (vec!["a:2", "--rule", "optimum"], "the optimum needs slowdowns"),
        (vec!["missing.csv"], "there is no file missing.csv"),
        (vec!["a:0"], "there are no jobs"),
        (vec!["99999999x99"], "more than a million"),
        (vec!["2000x2", "--all"], "1000 programs"),
    ] {
        let output = place(&arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
