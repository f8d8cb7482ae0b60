//! The page about JSON in the book, beside what commands print.

use serde_json::Value;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/src/json.md");

/// Every key of what a command has printed is in the page's rows about it.
#[track_caller]
pub fn stands_on_the_page(command: &str, printed: &Value) {
    let mut found = BTreeSet::new();
    keys(printed, &mut found);
    assert!(!found.is_empty(), "{command}: {printed}");
    let rows = rows(command);
    for key in found.iter().filter(|key| *key != "error") {
        let is_there = rows.iter().any(|row| row.contains(&format!("`{key}`")));
        assert!(is_there, "{command}: `{key}` is not in the command's rows of json.md");
    }
}

/// The keys of all objects in it, but not of those whose keys are the user's.
fn keys(value: &Value, into: &mut BTreeSet<String>) {
    const OF_THE_USER: [&str; 10] = [
        "params",
        "peers_us",
        "functions",
        "counts",
        "defaults",
        "sensors",
        "shown",
        "sets",
        "setting",
        "other_rules",
    ];
    match value {
        Value::Array(values) => values.iter().for_each(|value| keys(value, into)),
        Value::Object(object) => {
            // Numbers are threads'.
            for (key, value) in object.iter().filter(|(key, _)| key.parse::<u32>().is_err()) {
                into.insert(key.clone());
                if !OF_THE_USER.contains(&key.as_str()) {
                    keys(value, into);
                }
            }
        }
        _ => {}
    }
}

/// The rows of the page that are about a command.
fn rows(command: &str) -> Vec<&'static str> {
    let is_about = |row: &&str| {
        let names = row.strip_prefix("| ").and_then(|row| row.split(" | ").next()).unwrap_or_default();
        names.split(", ").any(|name| {
            let name = name.trim_matches('`');
            command.starts_with(name.split(" --").next().unwrap_or_default())
        })
    };
    PAGE.lines().filter(|row| row.starts_with("| `")).filter(is_about).collect()
}
