//! Which applications a daemon has: the next one waits for those that still live before it decides anything.
//!
//! A journal that is of no use, or cannot be written, costs no more than that waiting.

use castell_agent::Store;
use castell_host::process::Pid;
use castell_host::say;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The file, and what stands in it.
pub(crate) struct Journal {
    store: Store,
    /// Processes and when they started; one may have several applications.
    members: BTreeMap<u64, (i32, u64)>,
    /// Whether the file has others.
    is_old: bool,
}

impl Journal {
    /// Nothing stands in it as yet.
    pub(crate) fn new(path: PathBuf) -> Journal {
        let store = Store::new(path, "castell applications 1", "the list of the daemon's applications");
        Journal { store, members: BTreeMap::new(), is_old: false }
    }

    /// The process of each of the last daemon's applications that lives.
    pub(crate) fn living(&self) -> Vec<i32> {
        let written = self.store.read::<Vec<(i32, u64)>>().unwrap_or_else(|reason| {
            say(&reason);
            None
        });
        let lives = |(pid, started): &(i32, u64)| {
            Pid::from_raw(*pid).is_some_and(|pid| pid.start_time() == Some(*started))
        };
        written.unwrap_or_default().iter().filter(|member| lives(member)).map(|(pid, _)| *pid).collect()
    }

    /// An application has come, under this number.
    pub(crate) fn join(&mut self, number: u64, pid: i32) {
        if let Some(started) = Pid::from_raw(pid).and_then(Pid::start_time) {
            self.members.insert(number, (pid, started));
        }
        self.is_old = true;
    }

    /// It has gone.
    pub(crate) fn leave(&mut self, number: u64) {
        self.members.remove(&number);
        self.is_old = true;
    }

    /// Who is there stands in the file from now on, if somebody has come or gone: many often do at once, and a file costs more than all else
    /// about them.
    pub(crate) fn write(&mut self) {
        if !std::mem::take(&mut self.is_old) {
            return;
        }
        let members: Vec<_> = self.members.values().collect();
        // That it cannot be written is said there.
        let _ = match members.is_empty() {
            true => self.store.write(None::<&Vec<()>>),
            false => self.store.write(Some(&members)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn those_that_live_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.journal");
        let me = Pid::current();
        let mut journal = Journal::new(path.clone());
        assert!(journal.living().is_empty());
        journal.join(4, me.raw());
        journal.join(5, me.raw());
        journal.write();
        assert_eq!(Journal::new(path.clone()).living(), [me.raw(), me.raw()]);
        journal.leave(4);
        journal.leave(5);
        journal.write();
        assert!(Journal::new(path.clone()).living().is_empty() && !path.exists());
        // Another process of this number, numbers that no process has.
        let started = me.start_time().expect("it lives");
        let members = [(me.raw(), started + 1), (-1, 2), (0, 0), (me.raw(), started)];
        Journal::new(path.clone()).store.write(Some(&members.to_vec()));
        assert_eq!(Journal::new(path).living(), [me.raw()]);
    }

    #[test]
    fn garbage_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.journal");
        let me = Pid::current();
        // As it was once written, and cut off.
        let line = format!("{me} {}\n", me.start_time().expect("it lives"));
        for garbage in [&line[..], "castell applications 1 00000000\n[[1,2]]", "castell app"] {
            fs::write(&path, garbage).expect("written");
            assert!(Journal::new(path.clone()).living().is_empty());
            assert!(!path.exists() && path.with_extension("broken").exists());
        }
    }
}
