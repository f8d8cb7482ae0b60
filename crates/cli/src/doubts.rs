//! Tells of what makes measurements doubtful.

use crate::colour::Stream;
use castell_host::conditions::Doubt;
use serde_json::{Value, json};

/// On standard error, a line each.
pub fn say(doubts: &[Doubt]) {
    let stream = Stream::error();
    for doubt in doubts {
        castell_host::say(&format!("{} {}", stream.yellow("warning:"), doubt.text));
    }
}

/// For programs.
pub fn json(doubts: &[Doubt]) -> Vec<Value> {
    doubts.iter().map(|doubt| json!({"kind": doubt.kind, "text": doubt.text})).collect()
}
