//! The program that a command line starts in the end: behind launchers, wrappers and scripts.

use super::elf::{Elf, machine_of};
use super::executable;
use super::launcher::Launcher;
pub use super::loader::Loader;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// What somebody looks for in programs.
pub trait Wanted {
    /// What is known of a program for which there is a library of castell's.
    type Served;

    /// What an ELF file is: served, or why not; nothing where it has nothing to do with what is looked for.
    fn program(&self, path: &Path, elf: &Elf) -> Option<Result<Self::Served, String>>;

    /// The same of a Python interpreter that shows nothing by itself.
    fn python(&self, interpreter: &Path) -> Result<Self::Served, String>;

    /// What is said where nothing was found: of the first candidate, if there is any.
    fn nothing(&self, candidate: Option<&str>) -> String;
}

/// Looks for the program behind the launcher, or behind nothing.
///
/// # Errors
/// The reason why there is none that is served.
pub fn find<W: Wanted>(
    words: &[OsString],
    launcher: Option<&Launcher>,
    wanted: &W,
) -> Result<W::Served, String> {
    let candidates = match launcher {
        Some(launcher) => Launcher::programs(words, launcher.at),
        None => (0..words.len()).filter(|at| executable(&words[*at]).is_some()).collect(),
    };
    let mut reason = None;
    for &at in &candidates {
        let path = executable(&words[at]).expect("it was one a moment ago");
        match look_at(&path, true, wanted) {
            Some(Ok(served)) => return Ok(served),
            // The nearest to the launcher says it best.
            Some(Err(why)) => reason = reason.or(Some(why)),
            None => {}
        }
    }
    let first = candidates.first().map(|at| words[*at].to_string_lossy());
    Err(reason.unwrap_or_else(|| wanted.nothing(first.as_deref())))
}

/// What a file says; nothing where it has nothing to do with what is wanted. Scripts are read once, not what they call.
fn look_at<W: Wanted>(path: &Path, may_be_script: bool, wanted: &W) -> Option<Result<W::Served, String>> {
    let elf = Elf::of_file(path);
    if let Some(machine) =
        machine_of(path).filter(|_| elf.as_ref().is_none_or(|elf| !elf.is_for_this_machine()))
    {
        return Some(Err(format!(
            "{} is a program for {machine}, and this castell is for {}: compile it for this machine, or use castell on that one",
            path.display(),
            std::env::consts::ARCH
        )));
    }
    if let Some(elf) = elf {
        return wanted.program(path, &elf).or_else(|| is_python(path).then(|| wanted.python(path)));
    }
    let text = script(path).filter(|_| may_be_script)?;
    let first: Vec<&str> = text.lines().next()?.strip_prefix("#!")?.split_whitespace().collect();
    let interpreter =
        first.iter().filter_map(|word| executable(OsStr::new(word))).find(|path| is_python(path));
    if let Some(interpreter) = interpreter {
        return Some(wanted.python(&interpreter));
    }
    let words: BTreeSet<&str> = text.split(|c: char| c.is_whitespace() || "\"'`;()|&=".contains(c)).collect();
    let mut others = None;
    for word in words {
        // Most words are no files, and programs with the names of common words (test, true) are soon looked through.
        let Some(path) = executable(OsStr::new(word)) else { continue };
        match look_at(&path, false, wanted) {
            // A launcher that loads its own MPI is not the program yet.
            Some(Ok(_)) if is_launcher(&path) => {}
            Some(Ok(served)) => return Some(Ok(served)),
            Some(Err(why)) => others = others.or(Some(Err(why))),
            None => {}
        }
    }
    others
}

fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn is_launcher(path: &Path) -> bool {
    Launcher::of(&[path.as_os_str().to_owned()]).is_some()
}

/// The beginning of a text file that is a program.
fn script(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(b"#!").then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a library's file name is one of these, with any version behind it.
pub fn is_version_of(name: &str, library: &str) -> bool {
    name.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A program, the library that decides about it, and where that lies.
#[derive(Debug, PartialEq)]
pub struct Loads<T> {
    /// What the library is to whoever looks.
    pub kind: T,
    /// The program.
    pub program: PathBuf,
    /// The library's name.
    pub library: String,
    /// Where it lies.
    pub place: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters() {
        for (name, expected) in
            [("python", true), ("python3.11", true), ("pythonic", false), ("/x/pypy3", true)]
        {
            assert_eq!(is_python(Path::new(name)), expected, "{name}");
        }
    }
}
