//! What tests that failed said, kept until the end: a log of all tests is long, and who reads one wants this first.

use anyhow::Context as _;
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Tells `cargo xtask limit` the folder in which to keep what programs that failed said.
pub const VARIABLE: &str = "CASTELL_FAILURES";

/// Of what a program said, this many of its last lines are kept.
const KEPT_LINES: usize = 4_000;
/// And this many of each program's are shown at the end.
const SHOWN_LINES: usize = 80;

/// Those of one run of CI.
pub struct Failures {
    folder: PathBuf,
}

impl Failures {
    /// None so far.
    pub fn none_yet(root: &Path) -> anyhow::Result<Failures> {
        let folder = root.join("target/failures");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&folder),
        }
        .with_context(|| format!("{}", folder.display()))?;
        Ok(Failures { folder })
    }

    /// Where they are kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Prints what was said, and gives a line for each program: which of its tests failed.
    pub fn report(&self) -> anyhow::Result<Vec<String>> {
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
        let mut lines = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            let program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            println!("== what {program} said ({})\n{}", path.display(), essence(&text));
            let names = failed_tests(&text);
            let names = if names.is_empty() { "no test by name".to_owned() } else { names.join(", ") };
            lines.push(format!("{program}: {names}"));
        }
        Ok(lines)
    }
}

/// Hands on what a program says, and remembers the last of it.
pub struct Listener {
    said: Arc<Mutex<VecDeque<Vec<u8>>>>,
    ended: Vec<Receiver<()>>,
}

impl Listener {
    /// Nothing heard so far.
    pub fn new() -> Listener {
        Listener { said: Arc::default(), ended: Vec::new() }
    }

    /// Hears `from` too, in a thread of its own, and hands it on to `to`.
    pub fn hear(&mut self, from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) {
        let (sender, receiver) = mpsc::channel();
        let said = Arc::clone(&self.said);
        self.ended.push(receiver);
        thread::spawn(move || {
            let (mut from, mut line) = (BufReader::new(from), Vec::new());
            while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                // Whoever reads us may be gone; the program is still heard, lest it stand still at a full pipe.
                let _ = to.write_all(&line).and_then(|()| to.flush());
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_back(std::mem::take(&mut line));
                if said.len() > KEPT_LINES {
                    said.pop_front();
                }
            }
            // Nobody may be waiting any more.
            let _ = sender.send(());
        });
    }

    /// What was said last. What the program left running may hold its output open: that is waited for only a moment.
    pub fn last_words(self) -> String {
        for ended in &self.ended {
            let _ = ended.recv_timeout(Duration::from_secs(2));
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().map(|line| String::from_utf8_lossy(line)).collect()
    }
}

/// Keeps what a program said that failed, where there is a folder for it.
pub fn keep(folder: &Path, program: &str, said: &str) -> anyhow::Result<()> {
    let name = Path::new(program).file_name().unwrap_or_default();
    let path = folder.join(name);
    fs::write(&path, said).with_context(|| format!("{}", path.display()))
}

/// What the harness collects of the tests that failed; the last lines where there is no such part.
fn essence(text: &str) -> String {
    let collected = text.split_once("\nfailures:\n").map(|(_, rest)| rest);
    let lines: Vec<&str> = collected.unwrap_or(text).trim().lines().collect();
    let shown = if collected.is_some() {
        &lines[..lines.len().min(SHOWN_LINES)]
    } else {
        &lines[lines.len().saturating_sub(SHOWN_LINES)..]
    };
    shown.join("\n")
}

fn failed_tests(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nwhy\n\n\
        failures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n";

    #[test]
    fn names_and_reasons_are_found() {
        assert_eq!(failed_tests(SAID), ["b"]);
        assert!(essence(SAID).starts_with("---- b stdout ----\nwhy"));
        let lines: String = (0..500).map(|line| format!("{line}\n")).collect();
        let essence = essence(&lines);
        assert_eq!((essence.lines().count(), essence.lines().last()), (SHOWN_LINES, Some("499")));
    }

    #[test]
    fn what_is_kept_is_reported() {
        let root = tempfile::tempdir().expect("a folder");
        let failures = Failures::none_yet(root.path()).expect("a folder");
        assert_eq!(failures.report().expect("read"), Vec::<String>::new());
        keep(failures.folder(), "target/debug/deps/share-1", SAID).expect("kept");
        assert_eq!(failures.report().expect("read"), ["share-1: b"]);
        assert_eq!(
            Failures::none_yet(root.path()).expect("emptied").report().expect("read"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn all_that_is_said_is_handed_on() {
        let mut listener = Listener::new();
        listener.hear(&b"one\ntwo"[..], std::io::sink());
        assert_eq!(listener.last_words(), "one\ntwo");
    }
}
