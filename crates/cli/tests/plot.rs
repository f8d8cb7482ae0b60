//! `castell plot`: charts from JSON as SVG, PNG and PDF, and what is said of those that cannot be drawn.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const CHART: &str = r#"{"title": "Own title", "x": {"unit": "s"}, "series": [{"name": "a < b", "points": [[1, 2], [2, 3]]}]}"#;

fn castell(arguments: &[&str], folder: &Path, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("castell starts");
    // Whoever refuses something does not have to read it.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("chart.json"), CHART).expect("a file");
    let path = folder.path().to_owned();
    (folder, path)
}

#[track_caller]
fn drawn(arguments: &[&str], folder: &Path, file: &str) -> Vec<u8> {
    let output = castell(arguments, folder, CHART);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""), "{arguments:?}");
    assert!(output.stdout.is_empty());
    std::fs::read(folder.join(file)).expect("a drawing")
}

#[track_caller]
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[track_caller]
fn refused(chart: &str) -> String {
    let (_folder, folder) = folder();
    std::fs::write(folder.join("chart.json"), chart).expect("a file");
    let output = castell(&["plot", "chart.json", "-o", "chart.svg"], &folder, "");
    assert_eq!(output.status.code(), Some(1), "{chart}");
    assert!(!folder.join("chart.svg").exists(), "nothing is written");
    let said = text(output.stderr);
    assert!(said.contains("chart.json") && !said.contains("panicked"), "{said}");
    said
}

#[test]
fn options_change_the_drawing() {
    let (_folder, folder) = folder();
    let svg = |more: &[&str]| {
        let arguments = [&["plot", "chart.json", "--output", "chart.svg"], more].concat();
        text(drawn(&arguments, &folder, "chart.svg"))
    };
    let plain = svg(&[]);
    assert!(
        plain.starts_with("<svg ")
            && plain.contains("width=\"900\"")
            && plain.contains("prefers-color-scheme")
    );
    assert!(plain.contains("<title>Own title</title>") && plain.contains(">a &lt; b</text>"), "{plain}");
    assert!(svg(&["--width", "500"]).contains("width=\"500\""));
    assert!(svg(&["--font", "Charter"]).contains("'Charter'"));
    let titled = svg(&["--title", "Another"]);
    assert!(titled.contains("<title>Another</title>") && !titled.contains("Own title"));
    let (light, dark) = (svg(&["--theme", "light"]), svg(&["--theme", "dark"]));
    assert!(light != dark && !light.contains("prefers-color-scheme"));
}

#[test]
fn standard_input_becomes_a_png_and_a_pdf() {
    let (_folder, folder) = folder();
    assert!(drawn(&["plot", "-", "-o", "chart.png"], &folder, "chart.png").starts_with(b"\x89PNG"));
    assert!(drawn(&["plot", "-", "-o", "chart.pdf"], &folder, "chart.pdf").starts_with(b"%PDF-1."));
    let output = castell(&["plot", "-", "-o", "chart.svg"], &folder, "{\"titles\": 1}");
    let said = text(output.stderr);
    assert!(
        said.contains("standard input:1:3: unknown field `titles`") && said.contains("did you mean `title`?"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let said = refused("{\"title\": \"t\",\n \"series\": [{\"kind\": \"bar\", \"points\": [[1, 2]]}]}");
    assert!(
        said.contains("chart.json:2:23: unknown variant `bar`") && said.contains("did you mean `bars`?"),
        "{said}"
    );
    assert!(said.contains("     2 |  \"series\""), "the line is shown: {said}");
    let said = refused("{\"series\": [{\"points\": [[1, NaN]]}]}");
    assert!(said.contains("chart.json:1:") && said.contains("null where there is none"), "{said}");
    for (chart, part) in [
        ("", "EOF while parsing"),
        ("[]", "there is nothing to draw"),
        ("{}", "there is nothing to draw"),
        ("{\"series\": []}", "there is nothing to draw"),
        ("{\"series\": [{\"name\": \"it\"}]}", "series `it` has no point"),
        ("{\"series\": [{\"points\": [[1, \"a\"], [2, 3]]}]}", "`y` has names and numbers"),
        ("{\"x\": {\"scale\": \"log10\"}, \"series\": [{\"points\": [[0, 1]]}]}", "0 has no place on `x`"),
    ] {
        let said = refused(chart);
        assert!(said.contains(part), "{chart}: {said}");
    }
}

#[test]
fn files_that_are_somebody_elses_stay() {
    let (_folder, folder) = folder();
    std::fs::write(folder.join("letter.svg"), "Dear all").expect("a file");
    let output = castell(&["plot", "chart.json", "-o", "letter.svg"], &folder, "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).contains("--force"));
    for wrong in [
        &["plot", "chart.json"][..],
        &["plot", "chart.json", "-o", "chart.gif"],
        &["plot", "chart.json", "-o", "a.svg", "--width", "1"],
    ] {
        assert_eq!(castell(wrong, &folder, "").status.code(), Some(2), "{wrong:?}");
    }
    let output = castell(&["plot", "nothing.json", "-o", "chart.svg"], &folder, "");
    assert!(output.status.code() == Some(1) && text(output.stderr).contains("cannot read nothing.json"));
}
