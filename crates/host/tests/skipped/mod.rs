//! How a test says that it, or a part of it, cannot run here.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names a file that gets a line for each skip. `cargo xtask ci` sets it, and fails for whatever `xtask/may-be-missing.toml`
/// does not allow to be missing.
const FILE: &str = "CASTELL_SKIPS";

/// `what` is a key of that list; `why` is for people.
pub fn skip(what: &str, why: &str) {
    println!("skipped: {what}: {why}");
    if let Some(path) = std::env::var_os(FILE) {
        let line = format!("{what}: {}\n", why.trim().replace('\n', " "));
        let written = OpenOptions::new().create(true).append(true).open(path);
        written.and_then(|mut file| file.write_all(line.as_bytes())).expect("skips are told");
    }
}
