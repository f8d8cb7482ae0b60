//! `castell predict`: simulated programs, kept as files, and read again.

mod json_page;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn predict(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).arg("predict").args(arguments).output().expect("castell runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = predict(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn what_was_simulated_is_kept_and_trained_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("kept").display().to_string();
    let simulated = json(&["--simulate", "kernels", "--scale", "64", "--keep", &dir, "--json"]);
    json_page::stands_on_the_page("predict", &simulated);
    let (table, drawing) = (path(folder.path(), "table.csv"), path(folder.path(), "classes.svg"));
    let trained =
        json(&["--train", &dir, "--json", "--table", &table, "--by", "measured", "--svg", &drawing]);
    for (one, other) in simulated["predictors"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(trained["predictors"].as_array().expect("a list"))
    {
        assert_eq!(
            one["pairs"].as_u64() == Some(576),
            !one["name"].as_str().is_some_and(|name| name.contains("tells"))
        );
        // Files are sorted by name, so that pairs fall into other fifths.
        let near =
            |key: &str| (one[key].as_f64().expect("a number") - other[key].as_f64().expect("a number")).abs();
        assert!(near("mean_error") < 0.03 && near("below_30_percent") < 0.05, "{one} {other}");
    }
    let table = std::fs::read_to_string(table).expect("the table");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 25 && lines[0].starts_with("program,alignment,atax,"), "{}", lines[0]);
    assert!(lines.iter().all(|line| line.split(',').count() == 25));
    assert!(std::fs::read_to_string(drawing).expect("the drawing").contains("Mean slowdown by class"));

    let pair = json(&["--train", &dir, "--json", "chase", "triad"]);
    let chase = &pair["programs"][0];
    assert_eq!((chase["class"].as_str(), chase["beside"][0].as_str()), (Some("C"), Some("triad")));
    assert!(chase["sharing"]["slowdown"].as_f64().expect("a number") > 5.0, "{chase}");
    let of_file = path(Path::new(&dir), "chase.json");
    let three = predict(&["--train", &dir, &of_file, "triad", "options"]);
    let text = String::from_utf8_lossy(&three.stdout).into_owned();
    assert!(text.contains("chase (C) beside triad, options") && text.contains("by distances"), "{text}");
    wrong_files(Path::new(&dir));
}

/// What is wrong is said with its file and line.
fn wrong_files(dir: &Path) {
    let train = dir.display().to_string();
    let fails = |arguments: &[&str], with: &str| {
        let output = predict(&[&["--train", &train], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(with), "{said}");
    };
    fails(&["chase"], "one program has no neighbour");
    fails(&["chase", "nobody"], "nobody: neither a file nor one of alignment, atax");
    let slowdowns = dir.join("slowdowns.csv");
    for (table, with) in [
        ("program,chase\nchase,fast\n", "slowdowns.csv:2: \"fast\" is no slowdown"),
        ("program,chase\nnobody,1\n", "slowdowns.csv:2: nobody has no profile"),
        ("program,chase\nchase,1,2\n", "slowdowns.csv:2: 2 numbers, but the head names 1"),
        ("", "slowdowns.csv: empty"),
    ] {
        std::fs::write(&slowdowns, table).expect("a file");
        fails(&["chase", "triad"], with);
    }
    std::fs::remove_file(&slowdowns).expect("a file");
    fails(&[], "no measured pairs");
    std::fs::write(dir.join("bad.json"), r#"{"distances": {"distances_blocks": [[4, 2, 1]]}}"#)
        .expect("a file");
    fails(&[], "is no bucket");
    std::fs::write(dir.join("bad.json"), "{}").expect("a file");
    fails(&[], "bad.json: neither bytes a second");
    std::fs::remove_file(dir.join("machine.json")).expect("a file");
    fails(&[], "machine.json");
}
