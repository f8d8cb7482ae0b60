//! What the command says when something goes wrong.

use crate::colour::Stream;
use crate::excerpt::Problems;
use castell_goal::file::ReadError;
use serde_json::json;

/// What went wrong and why. A cause whose text the sentence before has already is not said twice, as libraries print their
/// causes with their errors.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// What would steer a terminal is not for it: commands and applications are called what somebody likes.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// For people: with the lines that it is about, if it is about a text.
fn with_excerpts(error: &anyhow::Error) -> Option<String> {
    let stream = Stream::error();
    if let Some(problems) = error.chain().find_map(|cause| cause.downcast_ref::<Problems>()) {
        return Some(problems.with_excerpts(stream));
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<ReadError>())? {
        ReadError::Text(errors) => Some(Problems::of(errors).with_excerpts(stream)),
        _ => None,
    }
}

/// Says it on standard error, `castell: ` in front of each line, in one write; for whoever asked for JSON also as an object on
/// standard output.
pub fn failure(error: &anyhow::Error, as_json: bool) {
    let text = describe(error);
    castell_host::say(&with_excerpts(error).unwrap_or_else(|| text.clone()));
    if as_json {
        println!("{}", json!({ "error": text }));
    }
}

/// Of `known`, what somebody who wrote `name` may have meant: no more than a third of its letters are others.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|known| (distance(name, known), known));
    distances.filter(|(distance, known)| 3 * distance <= known.len()).min().map(|(_, known)| known)
}

/// Letters to add, take away or replace (Levenshtein's distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, &found) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(found != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn nothing_is_said_twice() {
        let missing = std::io::Error::from_raw_os_error(libc::ENOENT);
        let error = Err::<(), _>(anyhow::anyhow!("cannot read x: {missing}")).context("y").unwrap_err();
        assert_eq!(describe(&error), "y: cannot read x: No such file or directory (os error 2)");
        let twice = Err::<(), _>(missing).context("cannot read x: No such file or directory (os error 2)");
        assert_eq!(describe(&twice.unwrap_err()), "cannot read x: No such file or directory (os error 2)");
    }

    #[test]
    fn what_was_meant_is_near() {
        let known = ["bcast:binomial", "bcast:linear", "barrier:linear"];
        assert_eq!(nearest("bcast:binomal", known), Some("bcast:binomial"));
        assert_eq!(nearest("missing.goal", known), None);
    }
}
