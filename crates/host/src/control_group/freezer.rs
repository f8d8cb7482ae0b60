//! A control group whose processes can be stopped all at once, by the system: nobody can ignore it, and no parent is told.

use super::{Group, Version, write};
use crate::HostError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A group that stops. It stays when this value goes; see [`super::Groups::remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freezer(Group);

impl Freezer {
    /// One that is there already; none where this is none.
    pub fn at(folder: impl Into<PathBuf>) -> Option<Freezer> {
        let folder = folder.into();
        let version = [Version::Two, Version::One]
            .into_iter()
            .find(|version| folder.join(version.switch()).exists())?;
        Some(Freezer(Group { folder, version }))
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The processes in it.
    pub fn members(&self) -> BTreeSet<i32> {
        self.0.members()
    }

    /// Stops all of its processes, and says whether they stand still after `patience` at most.
    ///
    /// # Errors
    /// The group is gone, or not this process's any more.
    pub fn freeze(&self, patience: Duration) -> Result<bool, HostError> {
        let begun = Instant::now();
        loop {
            // In the first version a process that appears meanwhile needs another order.
            self.order(true)?;
            if self.stands_still() {
                return Ok(true);
            }
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// As for [`Freezer::freeze`].
    pub fn thaw(&self) -> Result<(), HostError> {
        self.order(false)
    }

    pub(super) fn group(&self) -> &Group {
        &self.0
    }

    fn order(&self, freeze: bool) -> Result<(), HostError> {
        let word = match (self.0.version, freeze) {
            (Version::One, true) => "FROZEN",
            (Version::One, false) => "THAWED",
            (Version::Two, true) => "1",
            (Version::Two, false) => "0",
        };
        let file = self.0.version.switch();
        let written = write(&self.0.folder, file, word);
        written
            .map_err(|error| HostError::system(format!("write into {}", self.0.file(file).display()), error))
    }

    fn stands_still(&self) -> bool {
        let (name, line) = match self.0.version {
            Version::One => ("freezer.state", "FROZEN"),
            Version::Two => ("cgroup.events", "frozen 1"),
        };
        self.0.read(name).lines().any(|there| there == line)
    }
}

impl Version {
    /// The file that orders are written into.
    fn switch(self) -> &'static str {
        match self {
            Version::One => "freezer.state",
            Version::Two => "cgroup.freeze",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::tests::{Sleeper, made};
    use std::fs;

    #[test]
    fn what_is_frozen_stands_still_here() {
        let mut tried = 0;
        for group in ["unified", "", "freezer"].into_iter().filter_map(|hierarchy| made(hierarchy, "freezer"))
        {
            let Some(freezer) = Freezer::at(&*group.folder) else { continue };
            let sleeper = Sleeper::new();
            let pid = sleeper.id() as i32;
            fs::write(group.file("cgroup.procs"), pid.to_string()).expect("it may enter");
            assert_eq!(freezer.members(), BTreeSet::from([pid]));
            assert!(freezer.freeze(Duration::from_secs(60)).expect("a freezer"));
            let time = || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
                stat.split_ascii_whitespace().nth(13).expect("a time").to_owned()
            };
            let before = time();
            thread::sleep(Duration::from_millis(200));
            assert_eq!(time(), before);
            assert!(!group.remove(), "there is a process in it");
            freezer.thaw().expect("a freezer");
            while time() == before {
                thread::sleep(Duration::from_millis(5));
            }
            drop(sleeper);
            while !group.remove() {
                thread::sleep(Duration::from_millis(5));
            }
            tried += 1;
        }
        if tried == 0 {
            crate::skipped::skip("freezer", "this process may not make a control group with a freezer");
        }
    }
}
