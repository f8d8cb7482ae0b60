//! Assertions about time that has passed: a busy machine breaks them. Only the limit that ends a hang may stand in one.

use super::source::{code_only, is_word, line_of, words};
use super::{File, Finding};

const MACROS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];
/// A limit that ends a hang is many times what a busy machine takes. Seconds.
const HANG_SECONDS_MIN: u64 = 20;
/// What a name stands for is looked for in so many lines above the assertion.
const LINES_ABOVE: usize = 80;

/// No assertion asks how much time has passed, but for `since.elapsed() < limit` in a wait.
pub fn check(file: &File) -> Vec<Finding> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let asserted = MACROS.iter().flat_map(|name| words(&code, name).map(move |at| (at, *name)));
    let timed = asserted.filter(|(at, name)| {
        conditions(&code[at + name.len()..], name.ends_with("_eq") || name.ends_with("_ne"))
            .is_some_and(|condition| is_timed(condition) || names_time(&code, *at, condition))
    });
    timed
        .map(|(at, _)| {
            let message = format!(
                "an assertion about time that has passed: assert what has happened instead; a wait that must end has \
                 `since.elapsed() < limit` with at least {HANG_SECONDS_MIN} s, or a constant"
            );
            Finding::new(&file.path, line_of(&code, at), message)
        })
        .collect()
}

/// What is asserted, without the words behind it: the first argument, or the first two.
fn conditions(behind: &str, has_two: bool) -> Option<&str> {
    let inside = behind.strip_prefix('!')?.trim_start().strip_prefix(['(', '[', '{'])?;
    let (mut depth, mut commas) = (0, 0);
    let end = inside.bytes().position(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => commas += 1,
            _ => {}
        }
        depth < 0 || commas > usize::from(has_two)
    });
    Some(&inside[..end?])
}

fn is_timed(condition: &str) -> bool {
    if words(condition, "elapsed").next().is_none() {
        return false;
    }
    let limit = condition.split_once(".elapsed() < ").map(|(_, limit)| limit.trim());
    let ends_a_hang = limit.is_some_and(|limit| {
        let seconds = limit.strip_prefix("Duration::from_secs(").and_then(|rest| rest.strip_suffix(')'));
        let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
        let is_constant = limit.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        is_constant || seconds.is_some_and(|seconds| seconds >= HANG_SECONDS_MIN)
    });
    !ends_a_hang
}

/// Whether a name in the condition is that of a time that has passed: `let took = since.elapsed();` a few lines above.
fn names_time(code: &str, at: usize, condition: &str) -> bool {
    let above: Vec<&str> = code[..at].lines().rev().take(LINES_ABOVE).collect();
    let names = above.iter().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("let ")?.split_once(" = ")?;
        let is_name = name.bytes().all(is_word);
        let (_, unit) = value.trim_end_matches(';').rsplit_once(".elapsed()")?;
        // A number of some unit, but nothing that is computed from it.
        let is_number = |rest: &str| rest.bytes().all(|byte| is_word(byte) || b" ()".contains(&byte));
        let is_whole = unit.is_empty() || unit.strip_prefix(".as_").is_some_and(is_number);
        (is_name && is_whole && !value.contains("UNIX_EPOCH")).then_some(name)
    });
    names.into_iter().any(|name| words(condition, name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = File { path: "a.rs".to_owned(), text: text.to_owned() };
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn times_that_have_passed_are_named() {
        let timed = "assert!(a.elapsed() < Duration::from_millis(90), \"late\");\n\
                     assert!(x > 0 && b.elapsed() >= SECOND);\n\
                     let took = since.elapsed().as_secs_f64();\n\
                     let other = took;\n\
                     assert!(\n    took < 2.5,\n    \"{took}\"\n);\n\
                     assert_eq!(1, since.elapsed().as_secs());\n\
                     assert!(a.elapsed() < Duration::from_secs(19));\n";
        let mut found = lines(timed);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 5, 9, 10]);
    }

    #[test]
    fn what_ends_a_hang_may_stand_and_so_may_what_is_only_said() {
        let fine = "while !done() {\n    assert!(a.elapsed() < Duration::from_secs(60), \"waited for {what}\");\n\
                    assert!(since.elapsed() < PATIENCE, \"{:?}\", since.elapsed());\n}\n\
                    assert_eq!(count, 3, \"after {:?}\", since.elapsed());\n\
                    // assert!(a.elapsed() < limit);\n\
                    let may_be = 5 + begin.elapsed().as_millis() as u64 * A_SECOND / 1_000;\nassert!(answers < may_be);\n\
                    let now = SystemTime::UNIX_EPOCH.elapsed().as_secs();\n\
                    assert!(kept_s <= now);\n";
        assert_eq!(lines(fine), [0_usize; 0]);
    }
}
