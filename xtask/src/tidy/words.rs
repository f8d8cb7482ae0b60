//! Words that mean "not done yet", switched-off checks, and paths of somebody's machine.

use super::source::is_word;
use super::{File, Finding};

/// (what must not stand there, whether it must stand as a whole word, what to do).
const FORBIDDEN: [(&str, bool, &str); 12] = [
    ("todo!(", false, "finish it, or leave the function out"),
    ("unimplemented!(", false, "finish it, or leave the function out"),
    ("dbg!(", false, "take it out"),
    ("FIXME", true, "mend it, or open an issue"),
    ("XXX", true, "mend it, or open an issue"),
    ("#[ignore", false, "mend the test or take it out"),
    ("#[allow(dead_code", false, "take the dead code out"),
    ("assert!(true)", false, "assert something"),
    ("pytest.mark.skip", false, "mend the test or take it out"),
    ("/root/", true, "a path of one machine: make it relative or an argument"),
    ("/home/", true, "a path of one machine: make it relative or an argument"),
    ("/work/", true, "a path of one machine: make it relative or an argument"),
];

/// This file has to name them.
const OWN_PATH: &str = "xtask/src/tidy/words.rs";

/// None of the forbidden words, in any text file.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.path == OWN_PATH {
        return findings;
    }
    for (number, line) in file.text.lines().enumerate() {
        for (word, whole, advice) in FORBIDDEN {
            if contains(line, word, whole) {
                findings.push(Finding::new(&file.path, number + 1, format!("`{word}`: {advice}")));
            }
        }
    }
    findings
}

fn contains(line: &str, word: &str, whole: bool) -> bool {
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(at + word.len()).copied();
        // A path starts here if no longer path goes on: `target/work/` is nobody's home.
        let inside_path =
            word.starts_with('/') && before.is_some_and(|byte| is_word(byte) || b".-}$".contains(&byte));
        let inside_word =
            !word.starts_with('/') && (before.is_some_and(is_word) || after.is_some_and(is_word));
        !whole || !(inside_path || inside_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named() {
        let text = "ok\n// FIXME later\nmkstemp(\"/tmp/aXXXXXX\")\n$OUT/work/x\ncd \"/home/me\"\n".to_owned();
        let findings = check(&File { path: "a.c".to_owned(), text });
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 5]);
    }
}
