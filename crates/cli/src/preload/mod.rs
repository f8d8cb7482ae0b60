//! What `castell mpi` and `castell omp` have in common: which program a command line starts in the end and what that loads, where
//! castell's library for it lies, and how it comes to be loaded before the others.

pub mod elf;
pub mod launcher;
pub mod loader;
pub mod program;

use anyhow::Context as _;
use castell_host::descriptor::wait_readable;
use castell_host::process::{Pid, Process};
use castell_host::signal::{Signals, restore_defaults_in};
use launcher::{Kind, Launcher};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{io, iter};

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
        not_started(first, &error)
    }

    /// Runs the command to its end, and passes signals on to it meanwhile.
    ///
    /// # Errors
    /// Signals or the command cannot be waited for.
    pub fn wait(self) -> anyhow::Result<ExitCode> {
        let (first, rest) = self.words.split_first().expect("clap requires a word");
        let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        let mut command = Command::new(first);
        command.args(rest).envs(self.environment);
        restore_defaults_in(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(not_started(first, &error)),
        };
        let pid = rustix::process::Pid::from_child(&child);
        let process = Process::open(Pid::from_raw(child.id() as i32).context("no process")?)?;
        while !process.has_ended() {
            // Who pressed a key has told the whole group.
            for arrived in iter::from_fn(|| signals.next()).filter(|arrived| !arrived.from_kernel) {
                let signal = rustix::process::Signal::from_named_raw(arrived.signal).context("no signal")?;
                // It may just have ended.
                let _ = rustix::process::kill_process(pid, signal);
            }
            wait_readable(&[process.as_fd(), signals.as_fd()], 1000)?;
        }
        let status = child.wait()?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(ExitCode::from(code as u8))
    }
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    castell_host::say(&format!("{}: {error}", Path::new(program).display()));
    let is_there = executable(program).is_some() || error.kind() != io::ErrorKind::NotFound;
    ExitCode::from(if is_there { 126 } else { 127 })
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
