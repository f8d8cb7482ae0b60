//! Ways of the last-level cache for some threads: the kernel's resctrl, over Intel's CAT and AMD's L3 QoS.
//!
//! A thread's misses fill the ways of its group only; it hits in all of them. Roots are arguments, usually [`FOLDER`].

use crate::HostError;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Where it is mounted.
pub const FOLDER: &str = "/sys/fs/resctrl";
/// Groups of ours: the process that made them comes behind.
const PREFIX: &str = "castell.";

/// A mounted resctrl that can divide the last-level cache.
#[derive(Debug)]
pub struct Resctrl {
    root: PathBuf,
    /// `L3`, or two where code and data are apart.
    resources: Vec<String>,
    /// The caches' numbers.
    caches: Vec<u32>,
    /// All ways, a bit each.
    all: u64,
    least: u32,
    may_have_holes: bool,
}

/// Threads whose misses fill some of the ways. It is removed when this value goes, and its threads are as they were.
#[derive(Debug)]
pub struct WaysGroup {
    folder: PathBuf,
}

impl Resctrl {
    /// Looks what there is. Groups that processes left behind which are gone are removed.
    ///
    /// # Errors
    /// It is not mounted, or cannot divide this cache.
    pub fn open(root: &Path) -> Result<Resctrl, HostError> {
        let lacks = |why: String| HostError::NoResctrl { why };
        let schemata = fs::read_to_string(root.join("schemata")).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => lacks(why_not(root)),
            _ => HostError::system(format!("read {}", root.join("schemata").display()), error),
        })?;
        let mut resources = Vec::new();
        let mut caches = Vec::new();
        for line in schemata.lines() {
            let Some((name, domains)) = line.trim().split_once(':') else { continue };
            if matches!(name, "L3" | "L3CODE" | "L3DATA") {
                resources.push(name.to_owned());
                caches =
                    domains.split(';').filter_map(|one| one.split_once('=')?.0.trim().parse().ok()).collect();
            }
        }
        let Some(first) = resources.first() else {
            return Err(lacks(
                "this processor cannot divide its last-level cache (no L3 in schemata)".to_owned(),
            ));
        };
        let info = root.join("info").join(first);
        let word = |name: &str| fs::read_to_string(info.join(name)).map(|text| text.trim().to_owned());
        let mask = word("cbm_mask").ok().and_then(|text| u64::from_str_radix(&text, 16).ok());
        let (Some(all), false) = (mask, caches.is_empty()) else {
            return Err(lacks(format!("{} does not say which ways there are", info.display())));
        };
        let least = word("min_cbm_bits").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
        let may_have_holes = word("sparse_masks").is_ok_and(|text| text == "1");
        let resctrl = Resctrl { root: root.into(), resources, caches, all, least, may_have_holes };
        resctrl.remove_left_behind();
        Ok(resctrl)
    }

    /// How many ways there are.
    pub fn ways(&self) -> u32 {
        self.all.count_ones()
    }

    /// The ways that are not among these.
    pub fn others(&self, ways: &[u32]) -> Vec<u32> {
        (0..u64::BITS).filter(|way| self.all >> way & 1 == 1 && !ways.contains(way)).collect()
    }

    /// Makes a group, with no thread in it.
    ///
    /// # Errors
    /// There are no such ways, the processor does not take them together, or the system refuses the group.
    pub fn group(&self, name: &str, ways: &[u32]) -> Result<WaysGroup, HostError> {
        let mask = self.mask(ways)?;
        let folder = self.root.join(format!("{PREFIX}{}.{name}", std::process::id()));
        let refused = |what: &str, error: io::Error| {
            let said = fs::read_to_string(self.root.join("info/last_cmd_status")).unwrap_or_default();
            let said = said.trim();
            let said = if said.is_empty() || said == "ok" { String::new() } else { format!(" ({said})") };
            HostError::system(format!("{what} {}{said}", folder.display()), error)
        };
        fs::create_dir(&folder).map_err(|error| refused("make the group of ways", error))?;
        let group = WaysGroup { folder: folder.clone() };
        let domains: Vec<String> = self.caches.iter().map(|cache| format!("{cache}={mask:x}")).collect();
        for resource in &self.resources {
            let line = format!("{resource}:{}\n", domains.join(";"));
            let mut file = group.open("schemata").map_err(|error| refused("divide the cache by", error))?;
            file.write_all(line.as_bytes()).map_err(|error| refused("divide the cache by", error))?;
        }
        Ok(group)
    }

    fn mask(&self, ways: &[u32]) -> Result<u64, HostError> {
        let refuse = |found: String| HostError::BadWays { found, ways: self.ways() };
        let mut mask = 0u64;
        for &way in ways {
            if way >= u64::BITS || self.all >> way & 1 == 0 {
                return Err(refuse(format!("there is no way {way}")));
            }
            mask |= 1 << way;
        }
        if mask.count_ones() < self.least {
            return Err(refuse(format!("{} are too few", mask.count_ones())));
        }
        let is_one_piece = (mask >> mask.trailing_zeros()).wrapping_add(1).is_power_of_two();
        if !is_one_piece && !self.may_have_holes {
            return Err(refuse("this processor takes neighbouring ways only".to_owned()));
        }
        Ok(mask)
    }

    fn remove_left_behind(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split('.').next()?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Whoever made it may be gone, and another process have its number: then it stays.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl WaysGroup {
    /// What a thread writes `0` into to be in the group, with all that it starts (`Birth::groups`).
    ///
    /// # Errors
    /// The system refuses.
    pub fn entrance(&self) -> Result<File, HostError> {
        let what = || format!("open {}", self.folder.join("tasks").display());
        self.open("tasks").map_err(|error| HostError::system(what(), error))
    }

    /// The calling thread goes into the group, and the threads that it starts from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn enter(&self) -> Result<(), HostError> {
        let what = || format!("go into {}", self.folder.display());
        self.entrance()?.write_all(b"0").map_err(|error| HostError::system(what(), error))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        // The system has made both files.
        File::options().write(true).create(true).truncate(false).open(self.folder.join(name))
    }
}

impl Drop for WaysGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

fn why_not(root: &Path) -> String {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim_start_matches("nodev").trim() == "resctrl") {
        format!("it is not mounted at {}: as root, `mount -t resctrl resctrl {}`", root.display(), FOLDER)
    } else {
        "this kernel has none for this processor: it needs Intel's CAT or AMD's L3 QoS, which virtual machines are rarely given"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like resctrl's, of a processor with eleven ways and two caches.
    fn mounted(holes: bool) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let info = root.path().join("info/L3");
        fs::create_dir_all(&info).expect("a folder");
        let files = [
            ("schemata", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"),
            ("info/last_cmd_status", "ok\n"),
            ("info/L3/cbm_mask", "7ff\n"),
            ("info/L3/min_cbm_bits", "2\n"),
            ("info/L3/sparse_masks", if holes { "1\n" } else { "0\n" }),
        ];
        for (name, text) in files {
            fs::write(root.path().join(name), text).expect("a file");
        }
        root
    }

    #[test]
    fn a_group_has_its_ways_in_all_caches_and_threads_enter() {
        let root = mounted(false);
        let resctrl = Resctrl::open(root.path()).expect("it can");
        assert_eq!((resctrl.ways(), resctrl.others(&[0, 1, 2, 3])), (11, (4..11).collect()));
        let group = resctrl.group("program", &[2, 3, 4]).expect("made");
        let folder = root.path().join(format!("castell.{}.program", std::process::id()));
        assert_eq!(fs::read_to_string(folder.join("schemata")).expect("written"), "L3:0=1c;1=1c\n");
        group.enter().expect("entered");
        assert_eq!(fs::read_to_string(folder.join("tasks")).expect("written"), "0");
        // The system's own files are no hindrance there.
        for name in ["schemata", "tasks"] {
            fs::remove_file(folder.join(name)).expect("a file");
        }
        drop(group);
        assert!(!folder.exists());
    }

    #[test]
    fn ways_that_cannot_be_had_are_refused() {
        let root = mounted(false);
        let resctrl = Resctrl::open(root.path()).expect("it can");
        for (ways, expected) in
            [(&[11, 12][..], "no way 11"), (&[3], "1 are too few"), (&[1, 3], "neighbouring"), (&[], "0 are")]
        {
            let error = resctrl.group("program", ways).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
        let sparse = mounted(true);
        Resctrl::open(sparse.path()).expect("it can").group("program", &[1, 3]).expect("with a hole");
    }

    #[test]
    fn what_processes_left_behind_goes_and_where_there_is_none_it_is_said() {
        let root = mounted(false);
        let [dead, mine, other] = [
            format!("castell.{}.x", u32::MAX),
            format!("castell.{}.x", std::process::id()),
            "theirs".to_owned(),
        ]
        .map(|name| root.path().join(name));
        for folder in [&dead, &mine, &other] {
            fs::create_dir(folder).expect("a folder");
        }
        Resctrl::open(root.path()).expect("it can");
        assert_eq!([dead, mine, other].map(|folder| folder.exists()), [false, true, true]);
        let nowhere = Resctrl::open(Path::new("/nowhere")).expect_err("none").to_string();
        assert!(nowhere.contains("no resctrl"), "{nowhere}");
        fs::write(root.path().join("schemata"), "MB:0=100\n").expect("a file");
        let error = Resctrl::open(root.path()).expect_err("no cache").to_string();
        assert!(error.contains("cannot divide"), "{error}");
    }
}
