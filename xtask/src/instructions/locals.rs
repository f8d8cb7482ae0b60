//! What the compiler made of our functions: a local that one reads and never writes.
//!
//! No source says that. rustc 1.95 and its neighbours do it to a comparison whose result is read and then branched on
//! (`count += u32::from(is_fine); if is_fine`), once functions are inlined: they take the comparison away and leave the read
//! (rust-lang/rust#158206). Such a count stands still in release builds and in no other, so tests do not see it. Here it is seen
//! in what the compiler says of each function, `--emit=mir`.

use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What makes the compiler say it.
pub const FLAG: (&str, &str) = ("CARGO_ENCODED_RUSTFLAGS", "--emit=mir");

/// An error that names the functions of ours, among the crates compiled to `folder`, that read what they never write.
pub fn check(folder: &Path) -> anyhow::Result<()> {
    let mut newest: BTreeMap<String, (SystemTime, PathBuf)> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((of, _)) = name.split_once('-')
            && of.starts_with("castell")
            && name.ends_with(".mir")
        {
            let written = entry.metadata()?.modified()?;
            let found = newest.entry(of.to_owned()).or_insert((written, entry.path()));
            if found.0 < written {
                *found = (written, entry.path());
            }
        }
    }
    if newest.is_empty() {
        bail!("{} has nothing that the compiler wrote of our crates", folder.display());
    }
    let mut wrong = Vec::new();
    for (_, path) in newest.values() {
        let text = std::fs::read(path).with_context(|| path.display().to_string())?;
        wrong.extend(functions_with_unwritten(&String::from_utf8_lossy(&text)));
    }
    if !wrong.is_empty() {
        bail!(
            "the compiler has lost values that these functions read: write them so that nothing is both compared, counted and \
             branched on (xtask/src/instructions/locals.rs):\n{}",
            wrong.join("\n")
        );
    }
    Ok(())
}

/// The functions that read a local which they do not write, with that local.
fn functions_with_unwritten(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut of: Option<(&str, Locals)> = None;
    for line in text.lines() {
        match &mut of {
            None if line.starts_with("fn ") => of = Some((line, Locals::default())),
            None => {}
            Some((name, locals)) if line.starts_with('}') => {
                locals.note_written(name);
                found.extend(locals.unwritten().map(|local| format!("  _{local} in {name}")));
                of = None;
            }
            Some((_, locals)) => locals.note(line.trim_start()),
        }
    }
    found
}

/// The locals of a function by what happens to them.
#[derive(Default)]
struct Locals<'a> {
    read: BTreeSet<&'a str>,
    written: BTreeSet<&'a str>,
}

impl<'a> Locals<'a> {
    /// A line of the function's body.
    fn note(&mut self, line: &'a str) {
        if line.starts_with("let ") || line.starts_with("debug ") {
            return;
        }
        for (before, local) in locals(line) {
            if before.ends_with("copy ") || before.ends_with("move ") {
                self.read.insert(local);
            } else if !before.ends_with("StorageLive(") && !before.ends_with("StorageDead(") {
                // Or lent to somebody who may write it, or read in part: then nothing is said of it.
                self.written.insert(local);
            }
        }
    }

    /// All locals of a line have a value: those of the function's head.
    fn note_written(&mut self, line: &'a str) {
        self.written.extend(locals(line).map(|(_, local)| local));
    }

    fn unwritten(&self) -> impl Iterator<Item = &'a str> {
        self.read.difference(&self.written).copied()
    }
}

/// The numbers of the locals that a line names, each with what stands before it.
fn locals(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices('_').filter_map(|(at, _)| {
        let (before, rest) = (&line[..at], &line[at + 1..]);
        let is_inside = |character: char| character.is_alphanumeric() || character == '_';
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let is_local = digits > 0 && !before.ends_with(is_inside) && !rest[digits..].starts_with(is_inside);
        is_local.then(|| (before, &rest[..digits]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came of `if !way.try_send() { .. }`, where that counts what was sent.
    const LOST: &str = "\
fn ask(_1: &mut Way, _2: u32) -> u8 {
    let mut _0: u8;
    let mut _3: bool;
    scope 1 {
        debug sent => _3;
    }

    bb0: {
        StorageLive(_3);
        _4 = inner(copy _2) -> [return: bb1, unwind continue];
    }

    bb1: {
        _5 = discriminant(_4);
        _7 = copy _3 as u32 (IntToInt);
        ((*_1).1: u32) = Add(copy ((*_1).1: u32), copy _7);
        switchInt(copy _5) -> [0: bb2, otherwise: bb3];
    }
}
";

    #[test]
    fn a_value_that_got_lost_is_found() {
        let found = functions_with_unwritten(LOST);
        assert_eq!(found, ["  _3 in fn ask(_1: &mut Way, _2: u32) -> u8 {"]);
        let kept = LOST.replace("_7 = copy", "_3 = Eq(copy _5, const 0_isize);\n        _7 = copy");
        assert!(functions_with_unwritten(&kept).is_empty());
    }

    #[test]
    fn names_with_numbers_are_no_locals() {
        let found: Vec<_> = locals("_1 = f_2(move _30, const 0_usize, _x4) as _5_").collect();
        assert_eq!(found.iter().map(|(_, local)| *local).collect::<Vec<_>>(), ["1", "30"]);
    }
}
