//! Where a process may make groups, and those that it has made there for a session.

use super::{CpuSet, Freezer, Group, Memory, Version, is_group, read, within, write};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How the names of groups of sessions begin.
pub const PREFIX: &str = "castell-session-";

/// The groups of a session: in the second version of the interface, all may be one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// It stops the session's processes.
    pub freezer: Option<Freezer>,
    /// It keeps them on their processors.
    pub cpuset: Option<CpuSet>,
    /// It may limit their memory.
    pub memory: Option<Memory>,
}

impl Groups {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.freezer.is_none() && self.cpuset.is_none() && self.memory.is_none()
    }

    /// Where they lie.
    pub fn folders(&self) -> BTreeSet<&Path> {
        self.groups().map(|group| &*group.folder).collect()
    }

    /// What a process writes `0` into to be in all of them, with all that it starts.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn entrances(&self) -> io::Result<Vec<File>> {
        self.folders()
            .into_iter()
            .map(|folder| File::options().write(true).open(folder.join("cgroup.procs")))
            .collect()
    }

    /// Removes them, with those that their processes have made in them; false while there are processes in one.
    pub fn remove(&self) -> bool {
        self.groups().filter(|group| !group.remove()).count() == 0
    }

    /// Those in these folders, made by somebody else.
    pub fn at<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Groups {
        let mut groups = Groups::default();
        for folder in folders {
            groups.freezer = groups.freezer.or_else(|| Freezer::at(folder));
            groups.cpuset = groups.cpuset.or_else(|| CpuSet::at(folder));
            groups.memory = groups.memory.or_else(|| Memory::at(folder));
        }
        groups
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        let freezer = self.freezer.iter().map(Freezer::group);
        let cpuset = self.cpuset.iter().map(CpuSet::group);
        freezer.chain(cpuset).chain(self.memory.iter().map(Memory::group))
    }
}

/// A process in a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    version: Version,
    /// The group that it is in.
    own: PathBuf,
    /// The group below which it makes others.
    folder: PathBuf,
}

/// Below which groups a process makes others: those that it is in itself, outside of any session. A session that is started within
/// another lies beside it: its processors are others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    unified: Option<Place>,
    freezer: Option<Place>,
    cpuset: Option<Place>,
    memory: Option<Place>,
}

impl Home {
    /// Of a process whose `/proc/PID/cgroup` says `own`. `root` is where groups are mounted, usually `/sys/fs/cgroup`.
    pub fn new(root: &Path, own: &str) -> Home {
        let mut home = Home { unified: None, freezer: None, cpuset: None, memory: None };
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if number == "0" && controllers.is_empty() {
                let mounts = [root.join("unified"), root.to_owned()];
                home.unified = mounts
                    .iter()
                    .find_map(|mount| Some(Place::new(Version::Two, mount, path)?.beside(mount)));
            } else if controllers == "freezer" {
                home.freezer = Place::new(Version::One, &root.join("freezer"), path);
            } else if controllers == "cpuset" {
                home.cpuset = Place::new(Version::One, &root.join("cpuset"), path);
            } else if controllers == "memory" {
                home.memory = Place::new(Version::One, &root.join("memory"), path);
            }
        }
        home
    }

    /// Makes groups for a session, as far as this process may.
    pub fn make(&self, session: &str) -> Groups {
        let mut groups = Groups::default();
        // What is frozen by the second version can still be killed, so that comes first.
        for place in self.places() {
            let folder = place.folder.join(format!("{PREFIX}{session}"));
            let Ok(group) = Group::new(folder, place.version) else { continue };
            let freezer = groups.freezer.is_none().then(|| Freezer::at(&*group.folder)).flatten();
            let cpuset = groups.cpuset.is_none().then(|| CpuSet::begin(&group).ok()).flatten();
            let memory = groups.memory.is_none().then(|| Memory::at(&*group.folder)).flatten();
            if freezer.is_none() && cpuset.is_none() && memory.is_none() {
                group.remove();
            }
            groups.memory = groups.memory.or(memory);
            groups.freezer = groups.freezer.or(freezer);
            groups.cpuset = groups.cpuset.or(cpuset);
        }
        groups
    }

    /// Makes a group for a session's processors only, as far as this process may.
    pub fn make_cpuset(&self, session: &str) -> Option<CpuSet> {
        [&self.unified, &self.cpuset].into_iter().flatten().find_map(|place| {
            let group = Group::new(place.folder.join(format!("{PREFIX}{session}")), place.version).ok()?;
            let set = CpuSet::begin(&group);
            if set.is_err() {
                group.remove();
            }
            set.ok()
        })
    }

    /// The groups of a session that are there.
    pub fn find(&self, session: &str) -> Groups {
        let folders: Vec<PathBuf> =
            self.places().map(|place| place.folder.join(format!("{PREFIX}{session}"))).collect();
        Groups::at(folders.iter().map(PathBuf::as_path))
    }

    /// All sessions that have groups here.
    pub fn sessions(&self) -> BTreeSet<String> {
        let folders = self.places().flat_map(|place| within(&place.folder));
        let session = |folder: PathBuf| Some(folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.to_owned());
        folders.filter_map(session).collect()
    }

    /// Moves this process, whose home this is, out of the groups of a session; where the group above may hold no processes, to where the
    /// process with the home `other` is.
    ///
    /// # Errors
    /// It may not leave one.
    pub fn leave(&self, other: Option<&Home>) -> io::Result<()> {
        let of = |home: &Home| {
            [home.unified.clone(), home.freezer.clone(), home.cpuset.clone(), home.memory.clone()]
        };
        let others = other.map_or([const { None }; 4], of);
        for (place, other) in of(self).into_iter().zip(others) {
            let Some(place) = place.filter(Place::is_inside) else { continue };
            let left = write(&place.folder, "cgroup.procs", "0");
            left.or_else(|error| match other {
                Some(other) if !other.is_inside() => write(&other.own, "cgroup.procs", "0"),
                _ => Err(error),
            })?;
        }
        Ok(())
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        [&self.unified, &self.freezer, &self.cpuset, &self.memory].into_iter().flatten()
    }
}

impl Place {
    /// That of a process which is at `path` of the hierarchy that is mounted at `mount`, if that is there.
    fn new(version: Version, mount: &Path, path: &str) -> Option<Place> {
        let own = mount.join(path.trim_start_matches('/'));
        let is_session =
            |part: &Path| part.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        let around = own.ancestors().filter(|around| around.starts_with(mount));
        let above = around.filter(|around| is_session(around)).last().and_then(Path::parent);
        let folder = above.unwrap_or(&own).to_owned();
        is_group(&folder).then_some(Place { version, own, folder })
    }

    /// Whether the process is in a session's group.
    fn is_inside(&self) -> bool {
        let below = self.own.strip_prefix(&self.folder).ok().and_then(|below| below.iter().next());
        below.is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    }

    /// In the second version a group that has processes hands no processors on. Where they are handed on by the group above, which is
    /// left to whoever is in it, groups are made beside the process.
    fn beside(mut self, mount: &Path) -> Place {
        let hands_on = |folder: &Path| {
            read(folder, "cgroup.subtree_control").split_whitespace().any(|it| it == "cpuset")
        };
        let above = self.folder.parent().filter(|_| self.folder != mount && !hands_on(&self.folder));
        let beside = above.filter(|above| {
            hands_on(above) && read(above, "cgroup.procs").trim().is_empty() && is_delegated(above, mount)
        });
        if let Some(beside) = beside {
            self.folder = beside.to_owned();
        }
        self
    }
}

/// Whether whoever looks after the groups has left this one to the processes in it: the topmost one that they see, or one that systemd has
/// marked so.
fn is_delegated(folder: &Path, mount: &Path) -> bool {
    let has = |name| matches!(rustix::fs::getxattr(folder, name, &mut [0; 8]), Ok(1..));
    folder == mount || has("user.delegate") || has("trusted.delegate")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::tests::Sleeper;
    use crate::written::folder;
    use std::fs;

    const OWN: &str = "12:cpu,cpuacct:/jobs\n7:freezer:/jobs/3\n5:cpuset:/\n0::/user.slice/mine\n";

    fn text(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(path)).expect("a file")
    }

    #[test]
    fn a_home_is_outside_of_sessions() {
        let root = folder(&[
            ("unified/user.slice/mine/cgroup.procs", "1\n"),
            ("freezer/jobs/3/cgroup.procs", ""),
            ("cpuset/cgroup.procs", ""),
        ]);
        let root = root.path();
        let place = |version, folder: &str| {
            Some(Place { version, own: root.join(folder), folder: root.join(folder) })
        };
        let home = Home::new(root, OWN);
        assert_eq!(home.unified, place(Version::Two, "unified/user.slice/mine"));
        assert_eq!(home.freezer, place(Version::One, "freezer/jobs/3"));
        assert_eq!(home.cpuset, place(Version::One, "cpuset/"));
        assert!(!home.places().any(Place::is_inside));
        let inside = format!("5:cpuset:/{PREFIX}1-2@a/in/{PREFIX}3-4@a\n7:freezer:/jobs/3/{PREFIX}1-2@a");
        let inside = Home::new(root, &inside);
        assert_eq!(inside.freezer.as_ref().map(|place| &place.folder), Some(&root.join("freezer/jobs/3")));
        assert_eq!(inside.cpuset.as_ref().map(|place| &place.folder), Some(&root.join("cpuset")));
        assert!(inside.places().all(Place::is_inside));
        // Neither a unit of systemd, nor rubbish, nor what is not mounted.
        let unit = Home::new(root, "7:freezer:/jobs/3/castell-daemon@me.service");
        assert_eq!(unit.freezer, None);
        let nowhere = Home::new(Path::new("/there-is-no-such-folder"), OWN);
        assert!(nowhere.make("1-2@a").is_empty() && nowhere.sessions().is_empty());
        assert_eq!(Home::new(root, "rubbish\n1:\n").places().count(), 0);
    }

    /// As the system makes them: one group for both in the second version, where processors are handed on.
    #[test]
    fn one_group_stops_and_keeps_in_the_second_version() {
        let session = format!("mine/{PREFIX}7-8@a");
        let file = |name: &str| format!("{session}/{name}");
        let root = folder(&[
            ("mine/cgroup.procs", "1\n"),
            (&file("cgroup.procs"), ""),
            (&file("cgroup.freeze"), "0\n"),
            (&file("cgroup.type"), "domain\n"),
            (&file("cpuset.cpus"), "3\n"),
        ]);
        let root = root.path();
        let home = Home::new(root, "0::/mine\n");
        let groups = home.make("7-8@a");
        assert_eq!(groups.folders().into_iter().collect::<Vec<_>>(), [root.join(&session)]);
        let (freezer, set) = (groups.freezer.clone().expect("one"), groups.cpuset.clone().expect("one"));
        assert_eq!(
            (text(root, &file("cpuset.cpus")), set.cpus()),
            ("\n".into(), vec![]),
            "those of the one above"
        );
        set.hold(&[0, 2, 3], || panic!("nobody is moved")).expect("a file");
        assert_eq!((text(root, &file("cpuset.cpus")), set.cpus()), ("0,2-3".into(), vec![0, 2, 3]));
        set.take(42).expect("a file");
        freezer.thaw().expect("a file");
        assert_eq!(
            (text(root, &file("cgroup.procs")), text(root, &file("cgroup.freeze"))),
            ("42".into(), "0".into())
        );
        assert_eq!(home.sessions(), BTreeSet::from(["7-8@a".to_owned()]));
        assert_eq!((home.find("7-8@a"), home.find("7-9@a")), (groups.clone(), Groups::default()));
        assert_eq!(groups.entrances().expect("files").len(), 1);
        assert!(!groups.remove(), "there is something in it");
        // Without the controller it stops only.
        fs::remove_file(root.join(file("cpuset.cpus"))).expect("it was there");
        let groups = home.make("7-8@a");
        assert!(groups.freezer.is_some() && groups.cpuset.is_none());
        assert!(!root.join(file("cpuset.cpus")).exists(), "a folder without it is not for processors");
        // One that holds no processes is of no use.
        fs::write(root.join(file("cgroup.type")), "domain invalid\n").expect("a file");
        assert!(home.make("7-8@a").is_empty());
    }

    #[test]
    fn groups_lie_beside_a_process_where_processors_are_handed_on() {
        let root = folder(&[
            ("cgroup.procs", ""),
            ("cgroup.subtree_control", "memory cpuset\n"),
            ("init/cgroup.procs", "1\n"),
            ("init/cgroup.subtree_control", "\n"),
            ("jobs/cgroup.procs", ""),
            ("jobs/cgroup.subtree_control", "cpuset\n"),
            ("jobs/7/cgroup.procs", "1\n"),
            (&format!("{PREFIX}1-2@a/cgroup.procs"), "1\n"),
        ]);
        let root = root.path();
        let home = |own: &str| Home::new(root, own).unified.expect("it is there").folder;
        assert_eq!(home("0::/init"), root, "the topmost one");
        assert_eq!(home(&format!("0::/{PREFIX}1-2@a")), root.join(""));
        assert_eq!(home("0::/jobs/7"), root.join("jobs/7"), "nobody has left it to us");
        if rustix::fs::setxattr(root.join("jobs"), "user.delegate", b"1", rustix::fs::XattrFlags::empty())
            .is_ok()
        {
            assert_eq!(home("0::/jobs/7"), root.join("jobs"));
        }
        fs::write(root.join("cgroup.procs"), "5\n").expect("a file");
        assert_eq!(home("0::/init"), root.join("init"), "nothing may be beside processes");
        // Who leaves goes where the group above is no place for processes: to the other one.
        fs::remove_file(root.join("cgroup.procs")).expect("a file");
        fs::create_dir(root.join("cgroup.procs")).expect("a folder");
        let [inside, outside] =
            [format!("0::/{PREFIX}1-2@a"), "0::/init".into()].map(|own| Home::new(root, &own));
        assert!(inside.leave(None).is_err());
        inside.leave(Some(&outside)).expect("there is room");
        assert_eq!(text(root, "init/cgroup.procs"), "0");
    }

    /// Whatever this process may make here.
    #[test]
    fn groups_are_made_entered_and_removed_here() {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let home = Home::new(Path::new("/sys/fs/cgroup"), &own);
        let session = format!("{}-0@test", std::process::id());
        let groups = home.make(&session);
        if groups.is_empty() {
            crate::skipped::skip("control groups", "this process may make none");
            return;
        }
        assert!(home.sessions().contains(&session));
        assert_eq!(home.find(&session), groups);
        let sleeper = Sleeper::new();
        for folder in groups.folders() {
            write(folder, "cgroup.procs", &sleeper.id().to_string()).expect("it may enter");
        }
        let its = Home::new(
            Path::new("/sys/fs/cgroup"),
            &text(Path::new("/proc"), &format!("{}/cgroup", sleeper.id())),
        );
        assert_eq!(its.find(&session), groups, "who is inside has the same home");
        assert!(!groups.remove(), "there is a process in it");
        drop(sleeper);
        while !groups.remove() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!home.sessions().contains(&session));
    }
}
