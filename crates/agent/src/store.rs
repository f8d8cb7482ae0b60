//! Where a process writes down what the next one needs: a line with a checksum, and a line of JSON.
//!
//! The file is replaced as a whole before anything that was decided is carried out. A file that cannot be written costs nothing as long as
//! the agent lives; one that was changed by others is set aside, and sessions are taken over from their runners then.

use castell_host::{replace_file, say};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A file that is replaced as a whole.
pub struct Store {
    path: PathBuf,
    /// The words that it begins with; another form gets another number.
    title: &'static str,
    /// What it holds, in a sentence: `what was learned`.
    content: &'static str,
    /// What stands in it, if this wrote it.
    written: Option<Vec<u8>>,
    /// Whether it was said that it cannot be written.
    fails: bool,
}

impl Store {
    /// The books of an agent.
    pub(crate) fn of_books(path: PathBuf) -> Store {
        Store::new(path, "castell sessions 1", "what the last agent wrote about its sessions")
    }

    /// `title` begins the file, with the number of its form; `content` says what it holds, for people.
    pub fn new(path: PathBuf, title: &'static str, content: &'static str) -> Store {
        Store { path, title, content, written: None, fails: false }
    }

    /// What was written last; none if that was nothing.
    ///
    /// # Errors
    /// It is not that, and was set aside; a sentence.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        self.peek().map_err(|reason| self.set_aside(&reason))
    }

    /// The same for who looks only: nothing is set aside.
    ///
    /// # Errors
    /// It is not what was written; why.
    pub fn peek<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
            Ok(bytes) => parse(&bytes, self.title).map(Some),
        }
    }

    /// Whether it holds what this has written last; a file that was never written, nothing.
    pub fn is_as_written(&self) -> bool {
        fs::read(&self.path).unwrap_or_default() == self.written.as_deref().unwrap_or_default()
    }

    /// Keeps a file that is of no use for people who want to know why; says so.
    pub fn set_aside(&self, reason: &str) -> String {
        let aside = self.path.with_extension("broken");
        let moved = fs::rename(&self.path, &aside);
        let to = moved.map_or_else(|error| error.to_string(), |()| format!("it is now {}", aside.display()));
        format!("{} is of no use ({reason}; {to})", self.content)
    }

    /// Writes what there is, if that has changed; with nothing there is no file. Whether it could be written; that it cannot is said once.
    pub fn write(&mut self, content: Option<&impl Serialize>) -> bool {
        let bytes = content.map_or_else(Vec::new, |content| {
            let json = serde_json::to_vec(content).expect("all keys are texts");
            let mut bytes = format!("{} {:08x}\n", self.title, crc32fast::hash(&json)).into_bytes();
            bytes.extend(json);
            bytes
        });
        if self.written.as_ref() == Some(&bytes) {
            return true;
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
                    "{} cannot be written to {} ({error}): should this process be killed now, it would be as it was before",
                    self.content,
                    self.path.display()
                ));
            }
            Err(_) => {}
        }
        !self.fails
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], wanted: &str) -> Result<T, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let (title, json) = (&bytes[..end], &bytes[end + 1..]);
    let title = std::str::from_utf8(title).map_err(|error| error.to_string())?;
    let sum = title
        .strip_prefix(wanted)
        .ok_or_else(|| format!("it begins with `{title:.40}`, not with `{wanted}`"))?;
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
        let mut store = Store::new(path.clone(), "test 1", "the test");
        assert_eq!(store.read::<Vec<u32>>(), Ok(None));
        store.write(Some(&vec![1, 2, 3]));
        assert_eq!(Store::new(path.clone(), "test 1", "the test").read(), Ok(Some(vec![1, 2, 3])));
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
        let mut store = Store::new("/dev/full/no".into(), "test 1", "the test");
        assert!(!store.write(Some(&vec![1])));
        assert!(store.fails && store.written.is_none());
        store.write(Some(&vec![1]));
    }
}
