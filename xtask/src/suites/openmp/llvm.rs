//! The tests that come with LLVM's OpenMP library: each says in its comments by which commands it is built and run.

use super::sources::sources;
use super::{Compiler, How, Test};
use anyhow::Context as _;
use std::path::Path;

/// Those that compare what is printed, or look at the library by its interface for tools, which knows of no task that is castell's, are
/// left out.
pub(super) fn tests(folder: &Path, how: &How<'_>) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    for (source, text) in sources(&folder, &["c", "cpp"], how)? {
        let commands = commands(&text);
        let is_left_out = text.contains("REQUIRES: ompt") || commands.is_empty();
        if is_left_out || ["FileCheck", "%T", "%S", "%python", "|"].iter().any(|word| commands.contains(word))
        {
            continue;
        }
        let name = source.strip_prefix(&folder).unwrap_or(&source).display().to_string();
        let below = how.folder("LLVM", &name)?;
        let script = |run: &str| {
            let script = filled(&commands, &source, &folder, how.compiler, run);
            ["sh", "-ec", script.as_str()].map(str::to_owned).to_vec()
        };
        let test =
            Test::of(&how.suite("LLVM"), &name, script("env LD_PRELOAD=\"$CASTELL_DOOR\" ./program"), &below);
        found.push(Test { compile: script("true"), door: "CASTELL_DOOR", ..test });
    }
    Ok(found)
}

/// What stands behind `RUN:`, a line a command; one that ends in a backslash goes on in the next.
fn commands(text: &str) -> String {
    let lines = text.lines().filter_map(|line| Some(line.split_once("RUN:")?.1.trim()));
    lines.fold(String::new(), |text, line| match line.strip_suffix('\\') {
        Some(begun) => text + begun,
        None => text + line + "\n",
    })
}

/// The commands, with what is known here in place of names; programs are run by `run`.
fn filled(commands: &str, source: &Path, folder: &Path, compiler: Compiler, run: &str) -> String {
    let (c, cpp) = match compiler {
        Compiler::Gcc => ("gcc -foffload=disable", "g++ -foffload=disable"),
        Compiler::Clang => ("clang", "clang++"),
    };
    let flags = format!("-w -I{}", folder.display());
    let source = source.display().to_string();
    let end = format!("-fopenmp {flags} {source} -o program -lm -pthread");
    let names = [
        ("%libomp-compile-and-run", "%libomp-compile && %libomp-run".to_owned()),
        ("%libomp-cxx-compile-and-run", "%libomp-cxx-compile && %libomp-run".to_owned()),
        ("%libomp-cxx-compile", format!("{cpp} -std=c++11 {end}")),
        ("%libomp-compile", format!("{c} {end}")),
        ("%libomp-run", run.to_owned()),
        ("%clangXX", cpp.to_owned()),
        ("%clang", c.to_owned()),
        ("%openmp_flags", "-fopenmp".to_owned()),
        ("%flags", flags),
        ("%s", source),
        ("%t", "./program".to_owned()),
    ];
    names.iter().fold(commands.to_owned(), |text, (name, known)| text.replace(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_filled_in() {
        let text = "// RUN: %libomp-compile -DFEW && env A=1 \\\n// RUN:   %libomp-run 3\n// RUN: %libomp-run\nint x;\n";
        let commands = commands(text);
        assert_eq!(commands, "%libomp-compile -DFEW && env A=1 %libomp-run 3\n%libomp-run\n");
        let filled = filled(&commands, Path::new("/suite/a.c"), Path::new("/suite"), Compiler::Clang, "true");
        assert_eq!(
            filled,
            "clang -fopenmp -w -I/suite /suite/a.c -o program -lm -pthread -DFEW && env A=1 true 3\ntrue\n"
        );
    }
}
