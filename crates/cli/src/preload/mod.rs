//! What `castell mpi` and `castell omp` have in common: which program a command line starts in the end and what that loads, where
//! castell's library for it lies, and how it comes to be loaded before the others.

pub mod elf;
pub mod launcher;
pub mod loader;
pub mod program;

use launcher::{Kind, Launcher};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A file that a word of a command line names, directly or on the path, and that may be executed.
pub fn executable(word: &OsStr) -> Option<PathBuf> {
    let may = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if word.is_empty() {
        return None;
    }
    if word.to_string_lossy().contains('/') {
        return Some(PathBuf::from(word)).filter(|path| may(path));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| may(path))
}

/// Where a library of castell's lies: in the folder that was asked for, or beside castell as it was installed or built. If it is nowhere, the
/// folders that were looked through.
pub fn library(name: &str, asked: Option<&Path>) -> Result<PathBuf, String> {
    let folders = match asked {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let program = std::env::current_exe().and_then(|program| program.canonicalize());
            let folder =
                program.ok().and_then(|program| program.parent().map(Path::to_owned)).unwrap_or_default();
            let below = ["../lib", "../lib64", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu", "."];
            below.map(|below| folder.join(below)).to_vec()
        }
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!("there is no {name} in {}", folders.join(", "))
    })
}

/// `LD_PRELOAD` with a library in front of those that stand there already.
pub fn variable(library: &Path) -> (String, OsString) {
    ("LD_PRELOAD".to_owned(), in_front(library, std::env::var_os("LD_PRELOAD")))
}

/// What has a program lend its processors while it waits: a board that stands there already is kept.
pub fn shared() -> (String, OsString) {
    let board = std::env::var_os("CASTELL_SHARE").filter(|board| board.as_encoded_bytes().contains(&b'/'));
    ("CASTELL_SHARE".to_owned(), board.unwrap_or_else(|| "1".into()))
}

fn in_front(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// A command line, and what is set in its environment.
pub struct Start {
    words: Vec<OsString>,
    environment: Vec<(String, OsString)>,
}

impl Start {
    /// Without a library.
    pub fn plain(words: &[OsString]) -> Start {
        Start { words: words.to_vec(), environment: Vec::new() }
    }

    /// With these variables, which the launcher hands on if there is one; and how, for people.
    pub fn with(
        words: &[OsString],
        launcher: Option<Launcher>,
        variables: &[(String, OsString)],
    ) -> (Start, &'static str) {
        let launcher = launcher.unwrap_or(Launcher { at: 0, kind: Kind::Inherits });
        let way = Launcher::way(launcher.kind);
        let (words, environment) = launcher.hand_on(words, variables);
        (Start { words, environment }, way)
    }

    /// Becomes the command, or only shows it.
    pub fn go(self, is_shown_only: bool) -> ExitCode {
        let Start { words, environment } = self;
        if is_shown_only {
            let set = environment
                .iter()
                .map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())));
            let line: Vec<String> =
                set.chain(words.iter().map(|word| quoted(&word.to_string_lossy()))).collect();
            println!("{}", line.join(" "));
            return ExitCode::SUCCESS;
        }
        let (first, rest) = words.split_first().expect("clap requires a word");
        let error = Command::new(first).args(rest).envs(environment).exec();
        castell_host::say(&format!("{}: {error}", Path::new(first).display()));
        let is_there = executable(first).is_some() || error.kind() != std::io::ErrorKind::NotFound;
        ExitCode::from(if is_there { 126 } else { 127 })
    }
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stay_preloaded() {
        let preloaded = |others: Option<&str>| in_front(Path::new("/lib/a.so"), others.map(OsString::from));
        assert_eq!(preloaded(None), "/lib/a.so");
        assert_eq!(preloaded(Some("")), "/lib/a.so");
        assert_eq!(preloaded(Some("/lib/b.so")), "/lib/a.so:/lib/b.so");
    }
}
