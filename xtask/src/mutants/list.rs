//! Which mutants there are: cargo-mutants knows.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::path::Path;

/// Line and column, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// What is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Genre {
    BinaryOperator,
    UnaryOperator,
    /// What a function does, by a value.
    FnValue,
    /// An arm, by none.
    MatchArm,
    MatchArmGuard,
    /// Another one, which has no switch.
    #[default]
    Other,
}

/// A small mistake.
#[derive(Clone, Debug, Default)]
pub struct Mutant {
    /// From 1 on, in the order of the list.
    pub number: usize,
    /// Place and change, in words.
    pub name: String,
    /// From the root of the repository on.
    pub file: String,
    pub genre: Genre,
    pub replacement: String,
    pub start: Place,
    pub end: Place,
    /// Its function gives back a type that only its body names.
    pub is_opaque: bool,
}

/// All mutants of these files of a package, but those that .cargo/mutants.toml leaves out.
///
/// # Errors
/// cargo-mutants cannot be started, or fails.
pub fn list(root: &Path, package: &str, files: &str) -> anyhow::Result<Vec<Mutant>> {
    let mut cargo = crate::command::cargo();
    cargo.args(["mutants", "--list", "--json", "--package", package, "--file", files]).current_dir(root);
    let output = cargo.output().context("cargo-mutants cannot be started")?;
    if !output.status.success() {
        bail!("cargo mutants --list: {}", String::from_utf8_lossy(&output.stderr));
    }
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).context("cargo mutants --list --json")?;
    let read = |(index, value)| Mutant::read(index + 1, value).context("cargo mutants --list --json");
    all.iter().enumerate().map(read).collect()
}

impl Mutant {
    fn read(number: usize, value: &Value) -> Option<Mutant> {
        let place = |end: &str| {
            let of = |key: &str| value["span"][end][key].as_u64().map(|number| number as usize);
            Some(Place { line: of("line")?, column: of("column")? })
        };
        let genre = match value["genre"].as_str()? {
            "BinaryOperator" => Genre::BinaryOperator,
            "UnaryOperator" => Genre::UnaryOperator,
            "FnValue" => Genre::FnValue,
            "MatchArm" => Genre::MatchArm,
            "MatchArmGuard" => Genre::MatchArmGuard,
            _ => Genre::Other,
        };
        Some(Mutant {
            number,
            name: value["name"].as_str()?.to_owned(),
            file: value["file"].as_str()?.to_owned(),
            genre,
            replacement: value["replacement"].as_str()?.to_owned(),
            start: place("start")?,
            end: place("end")?,
            is_opaque: value["function"]["return_type"].as_str().is_some_and(|text| text.contains("impl ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mutants_are_read() {
        let value = json!({
            "name": "crates/a/src/lib.rs:3:9: replace + with - in f",
            "file": "crates/a/src/lib.rs",
            "genre": "BinaryOperator",
            "replacement": "-",
            "function": {"return_type": "-> impl Iterator<Item = u8>"},
            "span": {"start": {"line": 3, "column": 9}, "end": {"line": 3, "column": 10}},
        });
        let mutant = Mutant::read(4, &value).expect("whole");
        assert_eq!((mutant.number, mutant.genre, mutant.is_opaque), (4, Genre::BinaryOperator, true));
        assert_eq!((mutant.start.line, mutant.end.column), (3, 10));
        assert!(Mutant::read(4, &json!({"name": "x"})).is_none());
    }
}
