//! What tests that failed said, kept until the end: a log of all tests is long, and who reads one wants this first.

use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Of what a program said, this many lines are shown at the end.
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

    /// Keeps what the program of this name said.
    pub fn keep(&self, program: &str, log: &Path) -> anyhow::Result<()> {
        let path = self.folder.join(program.replace('/', ":"));
        fs::copy(log, &path).map(drop).with_context(|| path.display().to_string())
    }

    /// Prints what was said, and gives a line for each program: which of its tests failed.
    pub fn report(&self) -> anyhow::Result<Vec<String>> {
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
        let mut lines = Vec::new();
        for path in paths {
            let text = fs::read(&path).with_context(|| format!("{}", path.display()))?;
            let text = String::from_utf8_lossy(&text);
            let program = path.file_name().unwrap_or_default().to_string_lossy().replace(':', "/");
            println!("== what {program} said ({})\n{}", path.display(), essence(&text));
            let names = failed_tests(&text);
            let names = if names.is_empty() { "no test by name".to_owned() } else { names.join(", ") };
            lines.push(format!("{program}: {names}"));
        }
        Ok(lines)
    }
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
        let log = root.path().join("log");
        fs::write(&log, SAID).expect("a log");
        failures.keep("cli tests/share.rs", &log).expect("kept");
        assert_eq!(failures.report().expect("read"), ["cli tests/share.rs: b"]);
        assert_eq!(
            Failures::none_yet(root.path()).expect("emptied").report().expect("read"),
            Vec::<String>::new()
        );
    }
}
