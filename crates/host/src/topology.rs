//! Which processors this process may use, how much of them, and binding to some of them.

use crate::HostError;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The processors that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Processors {
    /// Their numbers, ascending: what the affinity mask (and with it a cpuset or `taskset`) leaves.
    pub cpus: Vec<u32>,
    /// How many processors' time its control groups grant it together, where they limit it.
    pub quota: Option<f64>,
}

impl Processors {
    /// Asks the system.
    pub fn usable() -> Processors {
        let cpus = affinity().unwrap_or_else(|_| vec![0]);
        Processors { cpus, quota: quota(Path::new("/")) }
    }

    /// How many threads can make progress at the same time: at least 1.
    pub fn count(&self) -> usize {
        let granted = self.quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
        self.cpus.len().min(granted).max(1)
    }

    /// The usable processors grouped by core (hardware threads of one core together), cores in order of their first
    /// processor. `root` stands for `/`, under which `sys` is looked up; where it says nothing, each processor is a core.
    pub fn cores(&self, root: &Path) -> Vec<Vec<u32>> {
        let mut cores: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        for &cpu in &self.cpus {
            let path = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
            let text = fs::read_to_string(path).unwrap_or_default();
            let siblings = parse_list(text.trim()).unwrap_or_else(|_| vec![cpu]);
            match cores.iter_mut().find(|(known, _)| *known == siblings) {
                Some((_, members)) => members.push(cpu),
                None => cores.push((siblings, vec![cpu])),
            }
        }
        cores.into_iter().map(|(_, members)| members).collect()
    }

    /// The usable processors grouped by NUMA node, nodes without one left out. `root` stands for `/`, under which `sys` is
    /// looked up; where it says nothing, all are in one node.
    pub fn numa_nodes(&self, root: &Path) -> Vec<Vec<u32>> {
        let mut lists = Vec::new();
        for node in 0.. {
            let path = root.join(format!("sys/devices/system/node/node{node}/cpulist"));
            let Ok(text) = fs::read_to_string(path) else { break };
            lists.push(parse_list(text.trim()).unwrap_or_default());
        }
        let here = |list: &Vec<u32>| -> Vec<u32> {
            self.cpus.iter().copied().filter(|cpu| list.contains(cpu)).collect()
        };
        let mut nodes: Vec<Vec<u32>> = lists.iter().map(here).filter(|node| !node.is_empty()).collect();
        let known = |cpu: &u32| nodes.iter().any(|node| node.contains(cpu));
        let rest: Vec<u32> = self.cpus.iter().copied().filter(|cpu| !known(cpu)).collect();
        if !rest.is_empty() {
            nodes.push(rest);
        }
        nodes
    }
}

/// Binds the calling thread to `cpus`, whatever it was bound to before: for threads that move. The system refuses what
/// the process may not use.
pub fn move_thread(cpus: &[u32]) -> Result<(), HostError> {
    set_affinity_raw(cpus)
        .map_err(|error| HostError::system(format!("move to processors {}", print_list(cpus)), error))
}

/// Binds the calling thread, and processes and threads that it starts later, to `cpus`.
pub fn bind_thread(cpus: &[u32]) -> Result<(), HostError> {
    let usable = affinity()?;
    if let Some(&cpu) = cpus.iter().find(|cpu| !usable.contains(cpu)) {
        return Err(HostError::CpuNotUsable { cpu, usable: print_list(&usable) });
    }
    let what = || format!("bind to processors {}", print_list(cpus));
    set_affinity_raw(cpus).map_err(|error| HostError::system(what(), error))
}

/// The processor that the calling thread runs on, as the system counts them; a moment later it may be another one.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: no arguments; -1 says that it is not known.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Reads a list such as `0,2,4-7`: in the order given, nothing twice in a range's sense but repetitions allowed.
pub fn parse_list(list: &str) -> Result<Vec<u32>, HostError> {
    let refuse = |found: String| HostError::BadCpuList { list: list.into(), found };
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().map_err(|_| refuse(format!("`{text}` is no number")))?;
        if number >= CPUS_MAX { Err(refuse(format!("{number} is too large"))) } else { Ok(number) }
    };
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(refuse(format!("the range {part} goes backwards")));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Prints numbers as [`parse_list`] reads them.
pub fn print_list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let print = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(print).collect::<Vec<_>>().join(",")
}

/// More processors than any kernel supports; the size of the mask that is put on the stack.
const CPUS_MAX: u32 = 8192;
const MASK_WORDS: usize = CPUS_MAX as usize / 64;

/// The calling thread's affinity mask, as a list.
fn affinity() -> Result<Vec<u32>, HostError> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: `mask` is live and as long as said; 0 means the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) } < 0 {
        return Err(HostError::last("read the affinity mask"));
    }
    // Most words are empty, and this is on the way to a program's first tasks.
    let words = (0..).step_by(64).zip(mask).filter(|&(_, word)| word != 0);
    Ok(words
        .flat_map(|(first, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit))
        .collect())
}

/// Sets the calling thread's affinity mask. Only a system call, no allocation.
pub(crate) fn set_affinity_raw(cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CPUS_MAX) {
        mask[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` is live and as long as said; 0 means the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The tightest processor quota of this process's control groups (version 1 and 2) and those around them, in
/// processors. `root` stands for `/`, under which `proc` and the groups' mount points are looked up.
pub fn quota(root: &Path) -> Option<f64> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    let mounts = read(&root.join("proc/self/mountinfo"))?;
    let mounts = mounts.lines().filter(|line| line.contains("cgroup"));
    let mounts: Vec<Mount> = mounts.filter_map(|line| Mount::parse(line, root)).collect();
    let mut tightest: Option<f64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let is_cpu = |mount: &&Mount| match controllers {
            "" => mount.unified,
            _ => !mount.unified && mount.has_cpu && controllers.split(',').any(|name| name == "cpu"),
        };
        let Some(mount) = mounts.iter().find(is_cpu) else { continue };
        // Seen from inside a container, the group's path may lie outside of what is mounted: then the mount is ours.
        let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        for folder in inside.ancestors() {
            let folder = mount.point.join(folder);
            let limit = if mount.unified { limit_v2(&folder) } else { limit_v1(&folder) };
            tightest = [tightest, limit].into_iter().flatten().reduce(f64::min);
        }
    }
    tightest
}

/// A file of the kernel's. Its size is not known before, and to read it piece by piece takes the kernel several times as long.
fn read(path: &Path) -> Option<String> {
    let mut text = String::with_capacity(4 << 10);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A mounted tree of control groups.
struct Mount {
    root: PathBuf,
    point: PathBuf,
    unified: bool,
    has_cpu: bool,
}

impl Mount {
    fn parse(line: &str, root: &Path) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (inner, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        matches!(kind, "cgroup" | "cgroup2").then(|| Mount {
            root: inner.into(),
            point: root.join(point.trim_start_matches('/')),
            unified: kind == "cgroup2",
            has_cpu: options.split(',').any(|option| option == "cpu"),
        })
    }
}

fn limit_v2(folder: &Path) -> Option<f64> {
    let text = read(&folder.join("cpu.max"))?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn limit_v1(folder: &Path) -> Option<f64> {
    let read = |name: &str| read(&folder.join(name));
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// Quota over period; none for "max" and -1, which mean no limit.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file tree that stands for `/`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        root
    }

    #[test]
    fn usable_processors() {
        let processors = Processors::usable();
        assert!(!processors.cpus.is_empty() && processors.count() >= 1);
        let narrow = Processors { cpus: vec![0, 1, 2, 3], quota: Some(1.5) };
        assert_eq!(narrow.count(), 2);
        assert_eq!(Processors { quota: Some(0.1), ..narrow }.count(), 1);
    }

    #[test]
    fn quota_v2_is_the_tightest_around() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(quota(root.path()), Some(1.5));
    }

    #[test]
    fn quota_v1_in_a_container() {
        let mount =
            "33 32 0:29 /docker/77 /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct\n";
        let root = tree(&[
            ("proc/self/cgroup", "5:memory:/docker/77\n4:cpu,cpuacct:/docker/77\n0::/\n"),
            ("proc/self/mountinfo", mount),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
        ]);
        assert_eq!(quota(root.path()), Some(4.0));
        fs::write(root.path().join("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"), "-1\n").expect("a file");
        assert_eq!(quota(root.path()), None);
        assert_eq!(quota(Path::new("/nowhere")), None);
    }

    #[test]
    fn cores_hold_their_threads() {
        let sibling = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let paths: Vec<String> = (0..4).map(sibling).collect();
        let root =
            tree(&[(&paths[0], "0,2\n"), (&paths[1], "1,3\n"), (&paths[2], "0,2\n"), (&paths[3], "1,3\n")]);
        let processors = Processors { cpus: vec![0, 1, 2, 3], quota: None };
        assert_eq!(processors.cores(root.path()), [[0, 2], [1, 3]]);
        assert_eq!(Processors { cpus: vec![1, 2, 7], quota: None }.cores(root.path()), [[1], [2], [7]]);
    }

    #[test]
    fn numa_nodes_hold_their_processors() {
        let list = |node: u32| format!("sys/devices/system/node/node{node}/cpulist");
        let root = tree(&[(&list(0), "0-1,4\n"), (&list(1), "\n"), (&list(2), "2-3\n")]);
        let processors = |cpus: &[u32]| Processors { cpus: cpus.to_vec(), quota: None };
        assert_eq!(processors(&[0, 1, 2, 4]).numa_nodes(root.path()), [vec![0, 1, 4], vec![2]]);
        assert_eq!(processors(&[3, 9]).numa_nodes(root.path()), [[3], [9]]);
        assert_eq!(processors(&[0, 1]).numa_nodes(Path::new("/nowhere")), [[0, 1]]);
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list("0,2,4-7").expect("a list"), [0, 2, 4, 5, 6, 7]);
        assert_eq!(print_list(&[0, 2, 4, 5, 6, 7]), "0,2,4-7");
        for bad in ["", "a", "3-1", "1,,2", "99999999999", "0-9999"] {
            let error = parse_list(bad).expect_err(bad).to_string();
            assert!(error.contains("write numbers and ranges"), "{error}");
        }
    }

    #[test]
    fn binding() {
        let thread = std::thread::spawn(|| {
            let last = *affinity().expect("a mask").last().expect("a processor");
            bind_thread(&[last]).expect("binds");
            assert_eq!(affinity().expect("a mask"), [last]);
            let error = bind_thread(&[8000]).expect_err("no such processor").to_string();
            assert!(error.contains("8000"), "{error}");
        });
        thread.join().expect("the thread");
    }
}
