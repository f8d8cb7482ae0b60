//! Where an agent writes down what the next one needs: a line with a checksum, and a line of JSON.
//!
//! The file is replaced as a whole before anything that was decided is carried out. A file that cannot be written costs nothing as long as
//! the agent lives; one that was changed by others is set aside, and sessions that are not in the books go on by themselves.

use castell_host::{replace_file, say};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Another form gets another number.
const TITLE: &str = "castell sessions 1";

pub(crate) struct Store {
    path: PathBuf,
    /// What stands in it, if this wrote it.
    written: Option<Vec<u8>>,
    /// Whether it was said that it cannot be written.
    fails: bool,
}

impl Store {
    pub(crate) fn new(path: PathBuf) -> Store {
        Store { path, written: None, fails: false }
    }

    /// What was written last; none if that was nothing.
    ///
    /// # Errors
    /// It is not that, and was set aside; a sentence.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| error.to_string()),
        };
        bytes.and_then(|bytes| parse(&bytes)).map(Some).map_err(|reason| self.set_aside(&reason))
    }

    /// Keeps a file that is of no use for people who want to know why; says so.
    pub(crate) fn set_aside(&self, reason: &str) -> String {
        let aside = self.path.with_extension("broken");
        let moved = fs::rename(&self.path, &aside);
        let to = moved.map_or_else(|error| error.to_string(), |()| format!("it is now {}", aside.display()));
        format!("what the last agent wrote about its sessions is of no use ({reason}; {to})")
    }

    /// Writes what there is, if that has changed; with nothing there is no file.
    pub(crate) fn write(&mut self, content: Option<&impl Serialize>) {
        let bytes = content.map_or_else(Vec::new, |content| {
            let json = serde_json::to_vec(content).expect("sessions have text for keys");
            let mut bytes = format!("{TITLE} {:08x}\n", crc32fast::hash(&json)).into_bytes();
            bytes.extend(json);
            bytes
        });
        if self.written.as_ref() == Some(&bytes) {
            return;
        }
        let outcome = match bytes.is_empty() {
            true if self.path.exists() => fs::remove_file(&self.path),
            true => Ok(()),
            false => replace_file(&self.path, &bytes, 0o600),
        };
        match outcome {
            Ok(()) => (self.written, self.fails) = (Some(bytes), false),
            Err(error) if !self.fails => {
                self.fails = true;
                say(&format!(
                    "the books of the sessions cannot be written ({error}): should this agent be killed now, they would be as they were before"
                ));
            }
            Err(_) => {}
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let (title, json) = (&bytes[..end], &bytes[end + 1..]);
    let title = std::str::from_utf8(title).map_err(|error| error.to_string())?;
    let sum = title
        .strip_prefix(TITLE)
        .ok_or_else(|| format!("it begins with `{title:.40}`, not with `{TITLE}`"))?;
    if sum.trim() != format!("{:08x}", crc32fast::hash(json)) {
        return Err("its checksum does not fit".into());
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_read_is_what_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sessions.state");
        let mut store = Store::new(path.clone());
        assert_eq!(store.read::<Vec<u32>>(), Ok(None));
        store.write(Some(&vec![1, 2, 3]));
        assert_eq!(Store::new(path.clone()).read(), Ok(Some(vec![1, 2, 3])));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "what users run is nobody else's business");
        let whole = fs::read(&path).expect("a file");
        for broken in (0..whole.len()).map(|at| [&whole[..at], b"X", &whole[at + 1..]].concat()) {
            fs::write(&path, broken).expect("a file");
            assert!(store.read::<Vec<u32>>().is_err());
            assert!(!path.exists() && path.with_extension("broken").exists());
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("a file");
            assert!(store.read::<Vec<u32>>().is_err(), "cut at {length}");
        }
        store.write(None::<&Vec<u32>>);
        assert!(!path.exists());
    }

    #[test]
    fn a_disk_that_is_full_is_told_once_and_costs_nothing() {
        let mut store = Store::new("/dev/full/no".into());
        store.write(Some(&vec![1]));
        assert!(store.fails && store.written.is_none());
        store.write(Some(&vec![1]));
    }
}
