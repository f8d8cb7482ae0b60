//! A control group whose processes have so much memory together at most: beyond that the system takes some from their page cache, and at last ends one of them.

use super::{Group, Version, write};
use std::io;
use std::path::{Path, PathBuf};

/// More is no limit: the first version says the largest multiple of a page.
const NONE_FROM: u64 = 1 << 62;

/// A group with a limit, or where there can be one. It stays when this value goes; see [`super::Groups::remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory(Group);

impl Memory {
    /// One that is there already; none where this is none.
    pub fn at(folder: impl Into<PathBuf>) -> Option<Memory> {
        let folder = folder.into();
        let version =
            [Version::Two, Version::One].into_iter().find(|version| folder.join(limit(*version)).exists())?;
        Some(Memory(Group { folder, version }))
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// How many bytes its processes may have; none where nothing limits them here.
    pub fn bytes_max(&self) -> Option<u64> {
        let text = self.0.read(limit(self.0.version));
        text.trim().parse().ok().filter(|bytes| *bytes < NONE_FROM)
    }

    /// Limits its processes from now on, in whole pages, or no longer. A limit below what they have is refused.
    ///
    /// # Errors
    /// They have more, or the group is gone, or another process's.
    pub fn limit(&self, bytes: Option<u64>) -> io::Result<()> {
        let (file, none, used) = match self.0.version {
            Version::One => (limit(Version::One), "-1", "memory.usage_in_bytes"),
            Version::Two => (limit(Version::Two), "max", "memory.current"),
        };
        let has_more = || {
            let used: Option<u64> = self.0.read(used).trim().parse().ok();
            bytes.zip(used).is_some_and(|(bytes, used)| used > bytes)
        };
        // The first version looks itself, and takes back what can be had; the second one would end processes.
        if self.0.version == Version::Two && has_more() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        write(&self.0.folder, file, &bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string()))
    }

    pub(super) fn group(&self) -> &Group {
        &self.0
    }
}

fn limit(version: Version) -> &'static str {
    match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::tests::made;
    use crate::written::folder;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn the_second_version_ends_nobody_for_a_smaller_limit() {
        let root = folder(&[("memory.max", "max\n"), ("memory.current", "5000\n")]);
        let memory = Memory::at(root.path()).expect("there is the file");
        assert_eq!(memory.bytes_max(), None);
        assert!(memory.limit(Some(4_999)).is_err() && memory.bytes_max().is_none());
        memory.limit(Some(8_192)).expect("that is enough");
        assert_eq!(memory.bytes_max(), Some(8_192));
        memory.limit(None).expect("no limit");
        assert_eq!(memory.bytes_max(), None);
        assert_eq!(Memory::at(root.path().join("elsewhere")), None);
    }

    #[test]
    fn who_takes_more_is_ended_here() {
        let group = ["memory", ""].into_iter().find_map(|hierarchy| made(hierarchy, "memory"));
        let memory = group.as_ref().and_then(|group| Memory::at(&*group.folder));
        let (Some(group), Some(memory)) = (&group, memory) else {
            if let Some(group) = &group {
                group.remove();
            }
            crate::skipped::skip("memory-limits", "no control group with the memory controller may be made");
            return;
        };
        assert_eq!(memory.bytes_max(), None);
        memory.limit(Some(16 << 20)).expect("nobody is in it");
        assert_eq!(memory.bytes_max(), Some(16 << 20));
        let entrance = memory.folder().join("cgroup.procs");
        let run = |bytes: usize| {
            let script = format!(
                "echo 0 > {} && exec head -c {bytes} /dev/zero | tail -n 1 > /dev/null",
                entrance.display()
            );
            Command::new("sh").args(["-c", &script]).status().expect("a shell")
        };
        let enough = run(1 << 20);
        let too_much = run(256 << 20);
        while !group.remove() {
            std::thread::yield_now();
        }
        assert!(enough.success(), "{enough}");
        assert!(too_much.signal().is_some() || too_much.code().is_some_and(|code| code != 0), "{too_much}");
    }
}
