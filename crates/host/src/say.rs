//! What is said on standard error.

use std::io::Write as _;

/// Says a text, `castell: ` in front of each line, in one write: what other processes say at the same time gets in between, not
/// into it.
pub fn say(text: &str) {
    let lines: String = text.lines().map(|line| format!("castell: {line}\n")).collect();
    raw(&lines);
}

/// The same as it is, for what has its lines already.
pub fn raw(text: &str) {
    // Where nobody can be told, nobody is.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
