//! The life of a host: it makes its own view of the machine, waits for its network, and then starts what it is asked for.

use crate::naming::name_of;
use crate::network::{self, Rate};
use crate::{LabError, requests, system};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Which host of how many a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub hosts: u32,
    /// Which segments it is on.
    pub segments: Vec<usize>,
    /// How fast it sends at most.
    pub rate: Option<Rate>,
}

impl HostPlan {
    /// As arguments of the process.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let rate = self.rate.map(|rate| rate.to_string());
        let segments = self.segments.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        [Some(self.index.to_string()), Some(self.hosts.to_string()), Some(segments), rate]
            .into_iter()
            .flatten()
            .map(OsString::from)
            .collect()
    }

    /// Reads what [`Lab::start`](crate::Lab::start) gives to the processes of hosts.
    pub fn from_arguments(arguments: &[String]) -> Option<HostPlan> {
        let [index, hosts, segments, rate @ ..] = arguments else { return None };
        let rate = rate.first().map(|rate| rate.parse()).transpose().ok()?;
        let segments = segments.split(',').map(|segment| segment.parse().ok()).collect::<Option<_>>()?;
        Some(HostPlan { index: index.parse().ok()?, hosts: hosts.parse().ok()?, segments, rate })
    }
}

/// Lives as a host, until whoever made the lab is gone.
pub fn live(plan: &HostPlan) -> i32 {
    let ready = come_up(plan);
    let (said, code) = match &ready {
        Ok(_) => ("ready".to_owned(), 0),
        Err(error) => (error.to_string().replace('\n', " "), 1),
    };
    let _ = writeln!(io::stdout(), "{said}");
    match ready {
        Ok(door) => requests::serve(&door),
        Err(_) => code,
    }
}

fn come_up(plan: &HostPlan) -> Result<requests::Door, LabError> {
    let name = name_of(plan.index);
    let step = |what: &'static str| move |error| LabError::system(what, error);
    system::set_host_name(&name).map_err(step("set the host's name"))?;
    own_folders().map_err(step("give the host its own /tmp and /dev/shm"))?;
    system::mount_proc(Path::new("/proc")).map_err(step(
        "mount the host's own /proc (in a container without CAP_SYS_ADMIN the kernel refuses this)",
    ))?;
    own_hosts_file(plan.hosts).map_err(step("give the host its own /etc/hosts"))?;
    let door = requests::Door::open(&name).map_err(step("listen for commands"))?;
    let mut word = String::new();
    io::stdin().read_line(&mut word).map_err(step("wait for the network"))?;
    if word != "go\n" {
        return Err(LabError::system("wait for the network", io::ErrorKind::UnexpectedEof.into()));
    }
    network::come_up(plan.index, &plan.segments, plan.rate)?;
    Ok(door)
}

/// Empty folders for what hosts don't share. The working folder stays what it is, as on a network file system, also if it lies there.
fn own_folders() -> io::Result<()> {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let here = File::open(&folder)?;
    let (temporary, shared) = (Path::new("/tmp"), Path::new(requests::SHARED));
    system::mount_tmpfs(temporary)?;
    fs::create_dir(requests::FOLDER)?;
    system::bind(shared, Path::new(requests::FOLDER))?;
    system::mount_tmpfs(shared)?;
    if folder.starts_with(temporary) && folder != temporary {
        fs::create_dir_all(&folder)?;
        system::bind(Path::new(&format!("/proc/self/fd/{}", here.as_raw_fd())), &folder)?;
        std::env::set_current_dir(&folder)?;
    }
    Ok(())
}

fn own_hosts_file(hosts: u32) -> io::Result<()> {
    let draft = Path::new("/tmp/.castell-hosts");
    fs::write(draft, network::hosts_file(hosts))?;
    system::bind(draft, Path::new("/etc/hosts"))?;
    // Bound, it needs no name.
    fs::remove_file(draft)
}
