//! A control group whose processes run on some processors only, whatever they ask for.
//!
//! A process that binds its threads gets what its own mask and the group have in common; where that is nothing, all of the group. Kernels
//! from 6.2 on remember a thread's own mask and take it up again when the group changes, older ones forget it then.

use super::{Group, Version, read, within, write};
use crate::topology::{parse_list, print_list};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

const CPUS: &str = "cpuset.cpus";
const MEMORY: &str = "cpuset.mems";
/// While its processes make groups in it, another try may be due.
const TRIES_MAX: u32 = 16;

/// A group for processors. It stays when this value goes; see [`super::Groups::remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet(Group);

impl CpuSet {
    /// A group that was just made, with all processors and all memory of the one above.
    ///
    /// # Errors
    /// It has no controller for processors.
    pub(super) fn begin(group: &Group) -> io::Result<CpuSet> {
        let set = CpuSet(group.clone());
        if group.version == Version::One {
            write(&group.folder, MEMORY, set.above(MEMORY).trim())?;
        }
        set.widen(Vec::new)?;
        Ok(set)
    }

    /// One that is there already, made by somebody else; none where this is none.
    pub fn at(folder: impl Into<PathBuf>) -> Option<CpuSet> {
        let folder = folder.into();
        // Only in the first version processes have files of their own in it.
        let version = if folder.join("tasks").exists() { Version::One } else { Version::Two };
        folder.join(CPUS).exists().then_some(CpuSet(Group { folder, version }))
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// What a process writes `0` into to be in the group, with all that it starts.
    pub fn entrance(&self) -> io::Result<File> {
        self.0.entrance()
    }

    /// The processors that it was given; none where it has those of the group above.
    pub fn cpus(&self) -> Vec<u32> {
        cpus(&self.0.folder).into_iter().collect()
    }

    /// Lets its processes run on these processors from now on, and on no others. Groups that its processes have made in it follow: who had
    /// all has all, who had some keeps those that are left of them, if any.
    ///
    /// `members` are looked up where the system has put the processes into the group above, as the first version does when it takes the
    /// last processor of a group away: they come back.
    ///
    /// # Errors
    /// The group above has not all of them, one of them is offline, or the group is gone.
    pub fn hold(&self, cpus: &[u32], members: impl FnOnce() -> Vec<u32>) -> io::Result<()> {
        if self.0.version == Version::Two {
            return write(&self.0.folder, CPUS, &print_list(cpus));
        }
        let was_emptied = self.cpus().is_empty();
        follow(&self.0.folder, &cpus.iter().copied().collect())?;
        if was_emptied {
            for member in members() {
                // It may have ended meanwhile.
                let _ = self.take(member);
            }
        }
        Ok(())
    }

    /// Lets its processes, `members`, run on all processors of the group above.
    ///
    /// # Errors
    /// The group is gone.
    pub fn widen(&self, members: impl FnOnce() -> Vec<u32>) -> io::Result<()> {
        match self.0.version {
            Version::One => self.hold(&parse_list(self.above(CPUS).trim()).unwrap_or_default(), members),
            // Without any of its own it has those.
            Version::Two => write(&self.0.folder, CPUS, "\n"),
        }
    }

    /// Moves a process into the group, with all that it starts from now on.
    ///
    /// # Errors
    /// This process may not do that, or the other one is gone.
    pub fn take(&self, process: u32) -> io::Result<()> {
        write(&self.0.folder, "cgroup.procs", &process.to_string())
    }

    pub(super) fn group(&self) -> &Group {
        &self.0
    }

    fn above(&self, name: &str) -> String {
        self.0.folder.parent().map_or_else(String::new, |above| read(above, name))
    }
}

fn cpus(folder: &Path) -> BTreeSet<u32> {
    parse_list(read(folder, CPUS).trim()).unwrap_or_default().into_iter().collect()
}

/// In the first version a group has to have at any time what those in it have: it grows before they do, and shrinks after them.
fn follow(folder: &Path, wanted: &BTreeSet<u32>) -> io::Result<()> {
    let give =
        |cpus: &BTreeSet<u32>| write(folder, CPUS, &print_list(&cpus.iter().copied().collect::<Vec<_>>()));
    let mut tries = 0;
    loop {
        let before = cpus(folder);
        let inner = within(folder);
        if !inner.is_empty() {
            give(&(&before | wanted))?;
        }
        for inner in inner {
            let had = cpus(&inner);
            let left = &had & wanted;
            let has = if had == before || left.is_empty() { wanted } else { &left };
            if !had.is_empty() {
                // Where it cannot be, the group around it cannot either.
                let _ = follow(&inner, has);
            }
        }
        tries += 1;
        match give(wanted) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < TRIES_MAX => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::tests::{Sleeper, made};
    use crate::control_group::{Group, remove};
    use crate::topology::Processors;
    use rustix::process::Pid;
    use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
    use std::fs;

    fn bind(process: u32, cpus: &[u32]) -> rustix::io::Result<()> {
        let mut mask = Mask::new();
        cpus.iter().for_each(|cpu| mask.set(*cpu as usize));
        sched_setaffinity(Pid::from_raw(process as i32), &mask)
    }

    fn allowed(process: u32) -> Vec<u32> {
        let mask = sched_getaffinity(Pid::from_raw(process as i32)).expect("it lives");
        (0..Mask::MAX_CPU as u32).filter(|cpu| mask.is_set(*cpu as usize)).collect()
    }

    /// A set of the system, and two of its processors, where there are so many.
    fn real(test: &str) -> Option<(Group, CpuSet, [u32; 2])> {
        let cpus = Processors::usable().cpus;
        let group = ["cpuset", ""].into_iter().find_map(|hierarchy| made(hierarchy, test));
        let set = group.as_ref().and_then(|group| CpuSet::begin(group).ok());
        match (group, set, &cpus[..]) {
            (Some(group), Some(set), [one, other, ..]) => Some((group, set, [*one, *other])),
            (group, ..) => {
                if let Some(group) = group {
                    group.remove();
                }
                crate::skipped::skip(
                    "cpuset",
                    "there is one processor, or no control group for several may be made",
                );
                None
            }
        }
    }

    #[test]
    fn nobody_leaves_its_processors_here() {
        let Some((group, set, [one, other])) = real("stays") else { return };
        let sleeper = Sleeper::new();
        set.hold(&[one], Vec::new).expect("processors");
        set.take(sleeper.id()).expect("it may enter");
        assert_eq!((set.cpus(), allowed(sleeper.id())), (vec![one], vec![one]));
        bind(sleeper.id(), &[one, other]).expect("one of them");
        assert_eq!(allowed(sleeper.id()), [one], "whatever it asks for");
        assert!(bind(sleeper.id(), &[other]).is_err());
        bind(sleeper.id(), &[one]).expect("its own");
        set.hold(&[other], Vec::new).expect("processors");
        assert_eq!(allowed(sleeper.id()), [other], "what it has bound itself to is gone");
        assert!(set.hold(&[one, 1_000_000], Vec::new).is_err());
        assert_eq!(set.cpus(), [other]);
        set.widen(Vec::new).expect("those of the one above");
        bind(sleeper.id(), &[one, other]).expect("its own");
        assert_eq!(allowed(sleeper.id()), [one, other]);
        drop(sleeper);
        while !group.remove() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn groups_within_follow_here() {
        let Some((group, set, [one, other])) = real("within") else { return };
        let inner = |name: &str, cpus: &[u32]| {
            let folder = set.folder().join(name);
            fs::create_dir(&folder).expect("a group");
            if group.version == Version::One {
                write(&folder, MEMORY, read(set.folder(), MEMORY).trim()).expect("memory");
                write(&folder, CPUS, &print_list(cpus)).expect("processors");
            }
            folder
        };
        set.hold(&[one, other], Vec::new).expect("processors");
        let (all, deep, some) =
            (inner("all", &[one, other]), inner("all/deep", &[other]), inner("some", &[one]));
        let cpus = || [&all, &deep, &some].map(|folder| super::cpus(folder).into_iter().collect::<Vec<_>>());
        if group.version == Version::One {
            set.hold(&[other], Vec::new).expect("those within first");
            assert_eq!(cpus(), [[other], [other], [other]]);
            set.hold(&[one], Vec::new).expect("both at once for a moment");
            assert_eq!(cpus(), [[one], [one], [one]]);
            set.hold(&[one, other], Vec::new).expect("those within last");
            assert_eq!(cpus(), [[one, other], [one, other], [one, other]], "all of them had all");
        }
        assert!(remove(&group.folder), "with those within");
    }

    #[test]
    fn who_was_put_out_comes_back_here() {
        let Some((group, set, [one, _])) = real("out") else { return };
        let sleeper = Sleeper::new();
        if group.version == Version::One {
            // As the system does with the last processor of a group.
            write(set.folder(), CPUS, "\n").expect("nobody is in it");
            set.hold(&[one], || vec![sleeper.id()]).expect("processors");
            assert_eq!(group.members(), BTreeSet::from([sleeper.id() as i32]));
        }
        drop(sleeper);
        while !group.remove() {
            std::thread::yield_now();
        }
    }
}
