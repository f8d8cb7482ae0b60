//! The Rust examples under `castell launch`.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn rust_examples_check_themselves_in_groups_of_any_size() {
    for example in
        examples(&["hello_graph", "barrier_dissemination", "collectives", "allreduce_recursive_doubling"])
    {
        for ranks in ["1", "2", "3", "4", "8"] {
            let mut launcher = Command::new(env!("CARGO_BIN_EXE_castell"));
            launcher.args(["launch", "--timeout", "60s", "-n", ranks, "--"]).arg(&example);
            let run = launcher.output().expect("castell can be started");
            let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            let what = format!("{} as a group of {ranks}", example.display());
            assert!(run.status.success(), "{what} ended with {}:\n{out}{err}", run.status);
            assert!(!out.is_empty(), "{what} said nothing");
        }
    }
}

#[test]
fn task_examples_check_themselves() {
    let names = ["cholesky", "heat", "multiaxpy", "multisort", "nqueens", "sparselu"];
    for example in examples(&names.map(|name| format!("tasks_{name}"))) {
        let run = Command::new(&example).output().expect("the example can be started");
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{} ended with {}:\n{out}{err}", example.display(), run.status);
    }
}

/// Builds the examples of the crate `castell` beside this test, which lies in `<target>/<profile>/deps`.
fn examples(names: &[impl AsRef<str>]) -> Vec<PathBuf> {
    let test = std::env::current_exe().expect("a program knows its path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests lie in deps");
    let mut build = Command::new(env!("CARGO"));
    // As `cargo test --workspace` has built them already: the crate alone has other features, and would be built again.
    build.args(["build", "--quiet", "--locked", "--workspace", "--examples"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let target = folder.parent().expect("profiles lie in the target folder");
    let status = build.env("CARGO_TARGET_DIR", target).current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(status.expect("cargo can be started").success(), "the examples cannot be built");
    names.iter().map(|name| folder.join("examples").join(name.as_ref())).collect()
}
