//! Control groups of both versions of the interface: one that stops its processes ([`Freezer`]), one that keeps them on processors
//! ([`CpuSet`]), one that limits their memory ([`Memory`]), and where a process may make such groups ([`Home`]).
//!
//! Roots are arguments, usually `/sys/fs/cgroup`.

mod cpuset;
mod freezer;
mod home;
mod memory;

pub use self::cpuset::CpuSet;
pub use self::freezer::Freezer;
pub use self::home::{Groups, Home, PREFIX};
pub use self::memory::Memory;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Which interface a group is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy, in which groups above hand controllers on.
    Two,
}

/// A folder of the system in which it keeps processes together. It stays when this value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    version: Version,
}

impl Group {
    /// Makes it; one that is there already is this one.
    ///
    /// # Errors
    /// This process may not make it, or no process can be in it.
    fn new(folder: PathBuf, version: Version) -> io::Result<Group> {
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let group = Group { folder, version };
        // Below a group whose own processes share processors thread by thread there are some that hold none.
        let is_invalid = group.read("cgroup.type").trim() == "domain invalid";
        let usable = match is_invalid {
            true => Err(io::ErrorKind::Unsupported.into()),
            false => group.entrance().map(drop),
        };
        if usable.is_err() {
            group.remove();
        }
        usable.map(|()| group)
    }

    /// What a process writes `0` into to be in the group, with all that it starts.
    fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.file("cgroup.procs"))
    }

    fn members(&self) -> BTreeSet<i32> {
        self.read("cgroup.procs").lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Removes it with those that its processes have made in it; false while there are processes in one of them.
    fn remove(&self) -> bool {
        remove(&self.folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What stands in a file; nothing where there is none.
    fn read(&self, name: &str) -> String {
        read(&self.folder, name)
    }
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Never makes the file: a folder without it is no group.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(folder.join(name))?.write_all(text.as_bytes())
}

fn remove(folder: &Path) -> bool {
    for inner in within(folder) {
        remove(&inner);
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The groups in a group.
fn within(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let inner =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    inner.map(|entry| entry.path()).collect()
}

/// Not just a folder: the mount of another hierarchy, or of nothing.
fn is_group(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Runs, and ends with the test.
    pub(super) struct Sleeper(Child);

    impl Sleeper {
        pub(super) fn new() -> Sleeper {
            Sleeper(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"))
        }

        pub(super) fn id(&self) -> u32 {
            self.0.id()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A group of the system in a hierarchy, called after a test and this process, if there may be one.
    pub(super) fn made(hierarchy: &str, test: &str) -> Option<Group> {
        let mount = Path::new("/sys/fs/cgroup").join(hierarchy);
        let version = if mount.join("tasks").exists() { Version::One } else { Version::Two };
        let folder = mount.join(format!("castell-test-{test}-{}", std::process::id()));
        is_group(&mount).then(|| Group::new(folder, version).ok()).flatten()
    }
}
