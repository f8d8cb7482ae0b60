//! What a run that is killed leaves: a file that says how its knobs are put back. The next run does so before anything else.

use super::commands::{Failed, run};
use anyhow::{Context as _, bail};
use castell_host::process::Pid;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Such a file.
pub struct Left {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Note {
    /// The run, whose number another process may have by now.
    pid: i32,
    start_time: u64,
    /// Where the command was given.
    folder: PathBuf,
    command: String,
    variables: Vec<(String, String)>,
}

impl Left {
    /// Notes what puts the knobs back.
    pub fn keep(command: &str, variables: &[(String, String)]) -> anyhow::Result<Left> {
        let pid = Pid::current();
        let note = Note {
            pid: pid.raw(),
            start_time: pid.start_time().context("this process has no start time")?,
            folder: std::env::current_dir().context("no current folder")?,
            command: command.to_owned(),
            variables: variables.to_vec(),
        };
        let folder = folder()?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{pid}.json"));
        let written = castell_host::replace_file(&path, &serde_json::to_vec(&note)?, 0o600);
        written
            .with_context(|| format!("cannot write {}, by which a killed run is undone", path.display()))?;
        Ok(Left { path })
    }

    /// It has been done.
    pub fn remove(&self) -> anyhow::Result<()> {
        std::fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

/// Puts back what killed runs have left.
pub fn put_back(timeout: Duration) -> anyhow::Result<()> {
    let Ok(folder) = folder() else { return Ok(()) };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(()) };
    let files = entries.flatten().map(|entry| entry.path());
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let Some(note) = orphan(&path)? else { continue };
        match run(&within(&note.folder, &note.command), &note.variables, timeout, None) {
            Ok(_) => {
                castell_host::say("put back what a run had left that was killed");
                Left { path }.remove()?;
            }
            Err(Failed::Signal(_)) => unreachable!("none was looked for"),
            Err(Failed::Command(why)) => bail!(
                "a run that was killed has left its knobs set, and they cannot be put back: {why}; if that is done, remove {}",
                path.display()
            ),
        }
    }
    Ok(())
}

/// The note, if its run is no more.
fn orphan(path: &Path) -> anyhow::Result<Option<Note>> {
    // Another run may be removing it.
    let Ok(text) = std::fs::read(path) else { return Ok(None) };
    let read = serde_json::from_slice(&text);
    let note: Note =
        read.with_context(|| format!("{} is no note of a run that was killed", path.display()))?;
    let lives = Pid::from_raw(note.pid).and_then(Pid::start_time) == Some(note.start_time);
    Ok((!lives).then_some(note))
}

/// The command where it was given.
fn within(folder: &Path, command: &str) -> String {
    format!("cd '{}' && {{ {command}\n}}", folder.to_string_lossy().replace('\'', "'\\''"))
}

fn folder() -> anyhow::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    Ok(state.context("no place for a note: neither XDG_STATE_HOME nor HOME is set")?.join("castell/knobs"))
}
