//! Which applications a daemon has: the next one waits for those that still live before it decides anything.
//!
//! A line each: the process and when it started. Lines that are none are left out; a journal that cannot be written costs no more than that
//! waiting.

use castell_host::process::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The file, and what stands in it.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// Processes and when they started; one may have several applications.
    members: BTreeMap<u64, (i32, u64)>,
}

impl Journal {
    /// Nothing stands in it as yet.
    pub(crate) fn new(path: PathBuf) -> Journal {
        Journal { path, members: BTreeMap::new() }
    }

    /// The process of each of the last daemon's applications that lives.
    pub(crate) fn living(&self) -> Vec<i32> {
        let Ok(text) = fs::read_to_string(&self.path) else { return Vec::new() };
        let mut living = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ').map(str::parse::<u64>);
            let (Some(Ok(pid)), Some(Ok(started)), None) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            living.extend(pid.filter(|pid| pid.start_time() == Some(started)).map(Pid::raw));
        }
        living
    }

    /// An application has come, under this number.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn join(&mut self, number: u64, pid: i32) -> io::Result<()> {
        if let Some(started) = Pid::from_raw(pid).and_then(Pid::start_time) {
            self.members.insert(number, (pid, started));
        }
        self.write()
    }

    /// It has gone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn leave(&mut self, number: u64) -> io::Result<()> {
        self.members.remove(&number);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let text: String = self.members.values().map(|(pid, started)| format!("{pid} {started}\n")).collect();
        castell_host::replace_file(&self.path, text.as_bytes(), 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_live_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.journal");
        let me = Pid::current();
        let mut journal = Journal::new(path.clone());
        assert!(journal.living().is_empty());
        journal.join(4, me.raw()).expect("written");
        journal.join(5, me.raw()).expect("written");
        assert_eq!(Journal::new(path.clone()).living(), [me.raw(), me.raw()]);
        // Another process of this number, garbage, what is cut off.
        let started = me.start_time().expect("it lives");
        let lines = format!("{me} {}\nx y\n\n-1 2\n{me} {started} 3\n{me} {started}\n77", started + 1);
        fs::write(&path, lines).expect("written");
        assert_eq!(Journal::new(path.clone()).living(), [me.raw()]);
        journal.leave(4).expect("written");
        journal.leave(5).expect("written");
        assert!(Journal::new(path).living().is_empty());
    }

    #[test]
    fn a_disk_that_is_full_is_told() {
        let mut journal = Journal::new("/dev/full/no".into());
        assert!(journal.join(0, Pid::current().raw()).is_err());
    }
}
