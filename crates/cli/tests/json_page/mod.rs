//! The page about JSON in the book, beside what commands print.

use serde_json::Value;
use std::collections::BTreeSet;

/// Words of keys whose numbers are times.
const TIMES: [&str; 24] = [
    "time",
    "times",
    "wall",
    "makespan",
    "skew",
    "latency",
    "wait",
    "waited",
    "waiting",
    "response",
    "execution",
    "duration",
    "elapsed",
    "took",
    "delay",
    "end",
    "started",
    "finished",
    "interval",
    "left",
    "ran",
    "estimate",
    "cost",
    "for",
];
/// The units with which such keys end.
const UNITS: [&str; 6] = ["ns", "us", "ps", "ms", "s", "seconds"];
/// Those that count something else.
const NO_TIMES: [&str; 3] = ["left_out", "left_out_bytes", "waiting"];

pub const PAGE: &str = include_str!("../../../../docs/src/json.md");

/// Every key of what a command has printed is in the page's rows about it.
#[track_caller]
pub fn stands_on_the_page(command: &str, printed: &Value) {
    let mut found = BTreeSet::new();
    keys(printed, &mut found);
    let mut times = BTreeSet::new();
    numbers(printed, "", &mut times);
    assert_eq!(times_without_unit(), [""; 0], "times on the page whose keys do not end with a unit");
    let without_unit: Vec<&String> = times.iter().filter(|key| is_time(key) && !has_unit(key)).collect();
    assert!(without_unit.is_empty(), "{command}: times whose keys do not end with a unit: {without_unit:?}");
    assert!(!found.is_empty(), "{command}: {printed}");
    let rows = rows(command);
    for key in found.iter().filter(|key| *key != "error") {
        let is_there = rows.iter().any(|row| row.contains(&format!("`{key}`")));
        assert!(is_there, "{command}: `{key}` is not in the command's rows of json.md");
    }
}

/// Whether a key is called as a time is.
fn is_time(key: &str) -> bool {
    !NO_TIMES.contains(&key) && key.split('_').any(|word| TIMES.contains(&word))
}

fn has_unit(key: &str) -> bool {
    key.rsplit('_').next().is_some_and(|last| UNITS.contains(&last))
}

/// The keys that have numbers, or lists of them.
fn numbers(value: &Value, key: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Number(_) => _ = into.insert(key.to_owned()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, key, into)),
        Value::Object(object) => object.iter().for_each(|(key, value)| numbers(value, key, into)),
        _ => {}
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

/// The rows of the page that are about a command, and those that these refer to: "as in `session list`", "as `profile` prints it".
fn rows(command: &str) -> Vec<&'static str> {
    let is_about = |row: &&str, command: &str| {
        names(row).any(|name| command.starts_with(name.split(" --").next().unwrap_or_default()))
    };
    let of = |command: &str| {
        let rows = PAGE.lines().filter(|row| row.starts_with("| `"));
        rows.filter(|row| is_about(row, command)).collect::<Vec<_>>()
    };
    let own = of(command);
    let behind = |mark| {
        own.iter().flat_map(move |row| row.split(mark).skip(1)).filter_map(|rest| rest.split_once('`'))
    };
    // What stands behind a mere "as" may be a key.
    let printed = behind("as `").filter(|(_, rest)| rest.starts_with(" prints it"));
    let others: Vec<&str> = behind("as in `").chain(printed).flat_map(|(name, _)| of(name)).collect();
    own.into_iter().chain(others).collect()
}

/// The commands that a row is about, with the options that it needs.
pub fn names(row: &str) -> impl Iterator<Item = &str> {
    let names = row.strip_prefix("| ").and_then(|row| row.split(" | ").next()).unwrap_or_default();
    names.split(", ").map(|name| name.trim_matches('`'))
}

/// Keys of the page that are called as times are and do not end with a unit, whether somebody prints them or not. Some names on it are values, or keys
/// of objects.
fn times_without_unit() -> Vec<&'static str> {
    const NO_NUMBERS: [&str; 6] = ["finished", "latency", "left", "makespan", "skew", "started"];
    let keys =
        PAGE.lines().filter(|row| row.starts_with("| `")).flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_key = |key: &&str| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let keys: BTreeSet<&str> = keys.filter(is_key).collect();
    assert!(keys.len() > 300, "{} keys", keys.len());
    keys.into_iter().filter(|key| is_time(key) && !has_unit(key) && !NO_NUMBERS.contains(key)).collect()
}
