//! `castell predict`: simulated programs, kept as files, and read again.

mod json_page;

use castell_cachesim::trace::{Event, TraceWriter};
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

/// A trace of a loop over so many blocks, a block touched `times` times.
fn write_loop(path: &str, blocks: u64, times: u64) {
    let mut writer = TraceWriter::new(std::fs::File::create(path).expect("a file"), 6).expect("written");
    for block in 0..blocks {
        writer.write(Event::Block(block)).expect("written");
        writer.write(Event::Repeats(times - 1)).expect("written");
    }
    writer.finish().expect("written");
}

/// A program beside itself, in these ways.
fn ways(trace: &str, ways: &str) -> Vec<String> {
    ["--trace", trace, "--scale", "64", "--ways", ways, "small", "small"].map(str::to_owned).to_vec()
}

#[test]
fn programs_that_were_observed_run_on_the_simulated_chip() {
    let folder = tempfile::tempdir().expect("a folder");
    let [small, large, cut] =
        ["small.trace", "large.trace", "cut.trace"].map(|name| path(folder.path(), name));
    // The chip's shared cache has 4,096 blocks.
    write_loop(&small, 3000, 2);
    write_loop(&large, 12_000, 2);
    let (one, other) = (format!("small={small},window=1"), format!("large={large},ps=200"));
    let chip = ["--trace", &one, "--trace", &other, "--scale", "64"];
    let pair = json(&[&chip[..], &["--json", "small", "large"]].concat());
    let [small_alone, large_alone] = [0, 1].map(|at| pair["programs"][at].clone());
    assert_eq!((small_alone["class"].as_str(), large_alone["class"].as_str()), (Some("C"), Some("S")));
    let simulated = |of: &Value| of["simulated"].as_f64().expect("it was simulated");
    assert!(simulated(&small_alone) > 2.0 && simulated(&large_alone) < 1.2, "{pair:#}");
    // How long an access takes is as it was said: a program that computes for longer is slowed down less.
    let slower = format!("small={small},window=1,ps=50000");
    let pair = json(&["--trace", &slower, "--trace", &other, "--scale", "64", "--json", "small", "large"]);
    assert!(simulated(&pair["programs"][0]) < simulated(&small_alone) - 0.5, "{pair:#}");

    let beside = predict(&["--simulate", "kernels", "--trace", &one, "--scale", "64", "small", "triad"]);
    let text = String::from_utf8_lossy(&beside.stdout).into_owned();
    assert!(text.contains("small (C) beside triad") && text.contains("simulated"), "{text}");

    // A stream that is kept to a quarter of the ways leaves the other one most of what it lives by.
    let apart = ["--ways", "large=0-3", "--json", "small", "large"];
    let pair = json(&[&chip[..], &apart].concat());
    let in_ways = pair["programs"][0]["simulated_in_ways"].as_f64().expect("it was simulated");
    assert!(in_ways < 0.6 * simulated(&pair["programs"][0]), "{pair:#}");
    json_page::stands_on_the_page("predict", &pair);

    let bytes = std::fs::read(&small).expect("the trace");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).expect("a file");
    let twice = format!("triad={small}");
    for (arguments, code, with) in [
        (vec!["--trace".to_owned(), format!("small={cut}")], 1, "cut.trace: the trace was cut off"),
        (
            vec!["--simulate".into(), "kernels".into(), "--trace".into(), twice],
            1,
            "two programs of the name triad",
        ),
        (vec!["--trace".into(), "small".into()], 2, "write NAME=FILE"),
        (vec!["--train".into(), "dir".into(), "--trace".into(), one.clone()], 2, "cannot be used with"),
        (ways(&one, "small=16"), 1, "a cache of 16 ways"),
        (ways(&one, "other=1"), 1, "other is none of the programs"),
        (vec!["--scale".into(), "4".into(), "--train".into(), "dir".into()], 2, "--simulate <SUITE>|--trace"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = predict(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(with), "{arguments:?}: {said}");
    }
}
