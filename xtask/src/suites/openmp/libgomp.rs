//! The tests that come with GCC's OpenMP library: how each is built and run stands in its comments.

use super::sources::{compiled, sources};
use super::{How, Test, words};
use anyhow::Context as _;
use std::path::Path;

/// Programs that are to run, with the options and variables that their comments ask for; those for accelerators are left out.
pub(super) fn tests(folder: &Path, how: &How<'_>) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    let kinds: [(&str, &[&str]); 4] = [
        ("libgomp.c", &[""]),
        ("libgomp.c-c++-common", &["", " as C++"]),
        ("libgomp.c++", &[""]),
        ("libgomp.fortran", &[""]),
    ];
    for (kind, marks) in kinds.iter().filter(|(kind, _)| folder.join(kind).is_dir()) {
        for (source, text) in sources(&folder.join(kind), &["c", "C", "f90", "f"], how)? {
            let is_left_out = [
                "dg-do compile",
                "dg-do link",
                "dg-shouldfail",
                "dg-additional-sources",
                "offload_device",
                "offload_target",
            ]
            .iter()
            .any(|word| text.contains(word));
            if is_left_out {
                continue;
            }
            let options: Vec<String> =
                asked(&text, "options").chain(asked(&text, "additional-options")).flat_map(words).collect();
            for mark in *marks {
                let options: Vec<String> = options
                    .iter()
                    .filter(|option| mark.is_empty() || !option.starts_with("-std="))
                    .cloned()
                    .collect();
                let mut test = compiled("libgomp", (&source, &folder), &options, how, mark)?;
                test.variables = variables(&text);
                found.push(test);
            }
        }
    }
    Ok(found)
}

/// What stands in quotes behind `{ dg-WHAT`, unless it is for some targets only.
fn asked<'a>(text: &'a str, what: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("{{ dg-{what} \"");
    text.lines().filter(|line| !line.contains("target ")).filter_map(move |line| {
        let (_, behind) = line.split_once(begin.as_str())?;
        behind.split('"').next()
    })
}

/// `{ dg-set-target-env-var OMP_CANCELLATION "true" }`.
fn variables(text: &str) -> Vec<String> {
    let of = |line: &str| {
        let (_, behind) = line.split_once("dg-set-target-env-var ")?;
        let (name, value) = behind.trim().split_once(' ')?;
        Some(format!("{}={}", name.trim_matches('"'), value.split('"').nth(1)?))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_say_how_a_test_is_built_and_run() {
        let text = "/* { dg-do run } */\n/* { dg-options \"-O2 -std=c99\" } */\n\
            /* { dg-additional-options \"-msse2\" { target sse2_runtime } } */\n\
            /* { dg-set-target-env-var OMP_CANCELLATION \"true\" } */\n";
        assert_eq!(asked(text, "options").collect::<Vec<_>>(), ["-O2 -std=c99"]);
        assert_eq!(asked(text, "additional-options").count(), 0);
        assert_eq!(variables(text), ["OMP_CANCELLATION=true"]);
    }
}
