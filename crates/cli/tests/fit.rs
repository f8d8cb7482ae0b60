//! `castell fit` as a user meets it: output, messages, exit codes.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).arg("fit").args(arguments).output().unwrap()
}

/// Runs something that has to end with `code`; what it prints, and what it says about errors.
#[track_caller]
fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let output = castell(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

fn data(folder: &tempfile::TempDir, name: &str, lines: &[String]) -> String {
    let path = folder.path().join(name);
    fs::write(&path, lines.join("\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Multicasts of 8 and 2048 bytes under PLB, in microseconds, three measurements a point.
fn multicasts(alpha_p_us: f64) -> Vec<String> {
    let mut lines = vec!["# put and flag".to_owned(), "bytes,messages,time_us".to_owned()];
    for (bytes, alpha_r_us) in [(8, 0.38), (2048, 0.79)] {
        for messages in 1..=8 {
            let time_us = alpha_p_us + f64::from(messages) * alpha_r_us;
            lines.extend([0.0, 0.05, 0.3].map(|late| format!("{bytes},{messages},{}", time_us + late)));
        }
    }
    lines
}

#[test]
fn a_model_is_found_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let file = data(&folder, "puts.csv", &multicasts(0.88));
    let (out, err) = ends(0, &["--model", "plb", "--bytes", "8", &file]);
    assert_eq!(err, "");
    assert!(out.starts_with("plb:alpha_p=880ns,alpha_r=380ns,beta=0ns,gamma=0ns\n"), "{out}");
    assert!(out.contains("8 points from 24 measurements"), "{out}");
    assert!(
        out.contains("beta") && out.contains("not fitted: these measurements don't tell it apart"),
        "{out}"
    );
    let (out, _) = ends(0, &["--model", "plb", "--bytes", "8", "--estimator", "median", &file]);
    assert!(out.starts_with("plb:alpha_p=930ns,alpha_r=380ns"), "{out}");
}

#[test]
fn tables_by_size_are_written_as_toml() {
    let folder = tempfile::tempdir().unwrap();
    let file = data(&folder, "puts.csv", &multicasts(0.88));
    let toml = folder.path().join("model.toml");
    let (out, _) = ends(0, &["--model", "plb", "--by-size", "-o", toml.to_str().unwrap(), &file]);
    let expected =
        "plb:alpha_p=table(8:880ns,2048:880ns),alpha_r=table(8:380ns,2048:790ns),beta=0ns,gamma=0ns";
    assert!(out.starts_with(expected), "{out}");
    let toml = fs::read_to_string(toml).unwrap();
    assert!(toml.contains("alpha_r = { 8 = \"380ns\", 2048 = \"790ns\" }"), "{toml}");
}

#[test]
fn json_has_what_the_text_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = data(&folder, "puts.csv", &multicasts(0.88));
    let (out, _) = ends(0, &["--model", "plb:beta=0ns", "--bytes", "2048", "--json", &file]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["model"], "plb:alpha_p=880ns,alpha_r=790ns,beta=0ns,gamma=0ns");
    let fit = &json["fits"][0];
    assert_eq!(fit["points"], 8);
    assert_eq!(fit["parameters"][1]["name"], "alpha_r");
    assert!((fit["parameters"][1]["value"].as_f64().unwrap() - 790_000.0).abs() < 1.0);
    assert!(fit["r_squared"].as_f64().unwrap() > 0.999);
    assert!(fit["parameters"][0]["low"].as_f64().unwrap() <= 880_001.0);
}

#[test]
fn a_table_of_parameters_is_taken_as_it_is() {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/model/plb-xc30.csv");
    let file = file.to_str().unwrap();
    let (out, _) = ends(0, &["--model", "plb", file]);
    assert!(out.starts_with("plb:alpha_p=table(8:880ns,64:890ns,"), "{out}");
    assert!(out.contains("negative there: 131072, 524288 bytes"), "{out}");
    let (out, _) = ends(0, &["--model", "plb", "--bytes", "512", file]);
    assert!(out.starts_with("plb:alpha_p=960ns,alpha_r=460ns,"), "{out}");
}

#[test]
fn a_negative_parameter_is_shown_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = data(&folder, "blocking.csv", &multicasts(-0.3));
    let (out, err) = ends(1, &["--model", "plb", "--bytes", "8", &file]);
    assert!(out.contains("alpha_p") && out.contains("-300ns"), "{out}");
    assert!(err.contains("alpha_p is negative"), "{err}");
    let (out, _) = ends(1, &["--model", "plb", "--bytes", "8", "--json", &file]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert!(json["model"].is_null());
}

#[test]
fn wrong_files_and_wrong_usage_have_their_codes() {
    let folder = tempfile::tempdir().unwrap();
    let good = data(&folder, "good.csv", &multicasts(0.88));
    let bad = data(&folder, "bad.csv", &["bytes,messages,time_us".to_owned(), "8,x,1".to_owned()]);
    for (code, arguments, message) in [
        (1, ["--model", "plb", bad.as_str()], "line 2: messages: expected a whole number, found `x`"),
        (1, ["--model", "plb", "missing.csv"], "cannot read missing.csv"),
        (1, ["--model", "plb", "--bytes=5"], "no measurements with 5 bytes"),
        (2, ["--model", "lop", good.as_str()], "lop is not linear in its parameters"),
        (2, ["--model", "plp", good.as_str()], "unknown model `plp`: expected one of bsp"),
        (2, ["--model", "plb:alpha_p=1ns,alpha_r=1ns,beta=0", good.as_str()], "nothing to fit"),
        (1, ["--model", "lb", "--by-size"], "only plb has"),
    ] {
        let mut arguments = arguments.to_vec();
        if arguments[2].starts_with("--") {
            arguments.push(&good);
        }
        let (_, err) = ends(code, &arguments);
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
    assert!(ends(2, &[]).1.contains("--model"));
}
