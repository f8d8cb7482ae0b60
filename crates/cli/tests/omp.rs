//! `castell omp` as a user types it: what the program finds, and what is said where it cannot be done.

use std::process::{Command, Output};

fn castell(library: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("omp").args(arguments).env_remove("LD_PRELOAD").env_remove("CASTELL_OMP_LIBRARY");
    command.envs(library.map(|library| ("CASTELL_OMP_LIBRARY", library)));
    command.output().expect("castell was built with this test")
}

/// A library that does nothing.
fn empty_library() -> String {
    let path = format!("{}/libempty.so", env!("CARGO_TARGET_TMPDIR"));
    let compiled = Command::new("gcc").args(["-shared", "-x", "c", "/dev/null", "-o", &path]).status();
    assert!(compiled.expect("gcc is installed by `cargo xtask setup`").success());
    path
}

#[test]
fn the_program_finds_library_and_threads() {
    let library = empty_library();
    let output = castell(Some(&library), &["-v", "--threads", "3", "--", "env"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let library = std::fs::canonicalize(library).expect("it was made").display().to_string();
    assert!(said.lines().any(|line| line == format!("LD_PRELOAD={library}")), "{said}");
    assert!(said.lines().any(|line| line == "OMP_NUM_THREADS=3"), "{said}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told, format!("castell: {library} is loaded before libgomp\n"));
}

#[test]
fn the_programs_exit_code_is_castells() {
    let library = empty_library();
    assert_eq!(castell(Some(&library), &["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = castell(Some(&library), &["--", "/nowhere/program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(
        String::from_utf8_lossy(&missing.stderr).starts_with("castell: /nowhere/program: "),
        "{missing:?}"
    );
    assert_eq!(castell(Some(&library), &["--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_missing_library_is_told_of() {
    let output = castell(Some("/nowhere/libcastell_omp.so"), &["--", "env"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "castell: CASTELL_OMP_LIBRARY names /nowhere/libcastell_omp.so, which is no file\n");
}
