//! A control group whose processes can be stopped all at once, by the system: nobody can ignore it, and no parent is told.
//!
//! Groups of both versions of the interface are used, below the group that a process is in, where it may make some there.

use crate::HostError;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A group below the one that the process is in which made it. It stays when this value goes; see [`Freezer::remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freezer {
    folder: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A hierarchy of its own, `freezer`.
    One,
    Two,
}

impl Freezer {
    /// Makes a group called `name`. `root` is where groups are mounted, usually `/sys/fs/cgroup`; `own` what `/proc/self/cgroup` says.
    ///
    /// # Errors
    /// There is no freezer here, or this process may not make a group in it.
    pub fn new(root: &Path, own: &str, name: &str) -> io::Result<Freezer> {
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        for (version, parent) in candidates(root, own).into_iter().filter(|(_, parent)| is_group(parent)) {
            let folder = parent.join(name);
            match fs::create_dir(&folder) {
                Ok(()) => {
                    let freezer = Freezer { folder, version };
                    if freezer.file(version.switch()).exists() && freezer.entrance().is_ok() {
                        return Ok(freezer);
                    }
                    freezer.remove();
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// One that is there already, made by somebody else.
    pub fn at(folder: impl Into<PathBuf>) -> Freezer {
        let folder = folder.into();
        let version = if folder.join(Version::Two.switch()).exists() { Version::Two } else { Version::One };
        Freezer { folder, version }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a process writes `0` into to be in the group, with all that it starts.
    pub fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.file("cgroup.procs"))
    }

    /// The processes in it.
    pub fn members(&self) -> BTreeSet<i32> {
        let text = fs::read_to_string(self.file("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
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

    /// Removes the group; false while there are processes in it.
    pub fn remove(&self) -> bool {
        match fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn order(&self, freeze: bool) -> Result<(), HostError> {
        let word = match (self.version, freeze) {
            (Version::One, true) => "FROZEN",
            (Version::One, false) => "THAWED",
            (Version::Two, true) => "1",
            (Version::Two, false) => "0",
        };
        let file = self.file(self.version.switch());
        let written =
            File::options().write(true).open(&file).and_then(|mut open| open.write_all(word.as_bytes()));
        written.map_err(|error| HostError::system(format!("write into {}", file.display()), error))
    }

    fn stands_still(&self) -> bool {
        let (name, line) = match self.version {
            Version::One => ("freezer.state", "FROZEN"),
            Version::Two => ("cgroup.events", "frozen 1"),
        };
        let text = fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().any(|there| there == line)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
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

/// Moves this process out of every group whose name begins with `prefix`, into the one above it. Arguments as for [`Freezer::new`].
///
/// # Errors
/// It may not leave one.
pub fn leave(root: &Path, own: &str, prefix: &str) -> io::Result<()> {
    let is_named =
        |folder: &Path| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    for (_, folder) in candidates(root, own).into_iter().filter(|(_, folder)| is_group(folder)) {
        if let Some(above) = folder.parent().filter(|_| is_named(&folder)) {
            File::options().write(true).open(above.join("cgroup.procs"))?.write_all(b"0")?;
        }
    }
    Ok(())
}

/// Where a group of this process may be made: what is frozen by the second version can still be killed, so that comes first.
fn candidates(root: &Path, own: &str) -> Vec<(Version, PathBuf)> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if number == "0" && controllers.is_empty() {
            let mounts = [root.join("unified"), root.to_owned()];
            found.extend(mounts.iter().map(|mount| (Version::Two, mount.join(path))));
        } else if controllers.split(',').any(|controller| controller == "freezer") {
            found.push((Version::One, root.join("freezer").join(path)));
        }
    }
    found.sort_by_key(|(version, _)| *version == Version::One);
    found
}

/// Not just a folder: the mount of another hierarchy, or of nothing.
fn is_group(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn both_versions_are_found_below_the_own_group() {
        let own = "12:cpu,cpuacct:/jobs\n7:freezer:/jobs/3\n0::/user.slice/mine\n";
        let root = Path::new("/r");
        let wanted = [
            (Version::Two, "/r/unified/user.slice/mine"),
            (Version::Two, "/r/user.slice/mine"),
            (Version::One, "/r/freezer/jobs/3"),
        ];
        assert_eq!(candidates(root, own), wanted.map(|(version, path)| (version, PathBuf::from(path))));
        assert!(candidates(root, "rubbish\n1:\n").is_empty());
        assert!(Freezer::new(Path::new("/there-is-no-such-folder"), own, "x").is_err());
    }

    /// Stands for a process, and ends with the test.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn what_is_frozen_stands_still_here() {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let root = Path::new("/sys/fs/cgroup");
        let mut tried = 0;
        for (version, parent) in candidates(root, &own).into_iter().filter(|(_, parent)| is_group(parent)) {
            let folder = parent.join(format!("castell-test-{}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let freezer = Freezer { folder, version };
            let sleeper =
                Sleeper(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"));
            let pid = sleeper.0.id() as i32;
            fs::write(freezer.file("cgroup.procs"), pid.to_string()).expect("it may enter");
            assert_eq!(freezer.members(), BTreeSet::from([pid]));
            assert!(freezer.freeze(Duration::from_secs(60)).expect("a freezer"));
            let time = || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
                stat.split_ascii_whitespace().nth(13).expect("a time").to_owned()
            };
            let before = time();
            thread::sleep(Duration::from_millis(200));
            assert_eq!(time(), before);
            assert!(!freezer.remove(), "there is a process in it");
            freezer.thaw().expect("a freezer");
            while time() == before {
                thread::sleep(Duration::from_millis(5));
            }
            drop(sleeper);
            while !freezer.remove() {
                thread::sleep(Duration::from_millis(5));
            }
            tried += 1;
        }
        if tried == 0 {
            crate::skipped::skip("freezer", "this process may not make a control group with a freezer");
        }
    }
}
