//! The jobs that run on this host, found through the processes that have their segments open.
//!
//! A segment has no name in a file system, so nothing has to be kept or cleaned up for this: whom the kernel lets look at a job's
//! processes may look at the job, and nobody else. Processes that are hidden (in containers, of other users) are not found.

use castell_base::Rank;
use castell_host::descriptor;
use castell_host::process::Pid;
use castell_host::secret::Secret;
use castell_shm::job::{Job, JobError, SEGMENT_LABEL};
use castell_transport::Address;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A job, and who has its segments open.
pub struct RunningJob {
    /// The process that had it first: its launcher's or agent's, or rank 0's where an MPI launcher started it.
    pub id: Pid,
    /// All of them, in the order in which they started.
    pub processes: Vec<Pid>,
    /// Its segments on this host: one, or those of the launcher and agents of several hosts, in the same order. An error where another
    /// version of castell made it.
    pub views: Vec<Result<Job, JobError>>,
}

impl RunningJob {
    /// What agents and launcher of one job have in common.
    fn secret(&self) -> Option<Secret> {
        let secret = self.views[0].as_ref().ok()?.secret();
        (*secret.bytes() != [0; 32]).then_some(secret)
    }
}

/// Where a rank is found in the network, as far as it has said so.
pub fn listens_at(job: &Job, rank: Rank) -> Option<Vec<SocketAddr>> {
    castell_tcp::address::from_bytes(&Address(job.net_address(rank)?))
}

/// The network interfaces at which a rank takes raw frames, by name, as far as it has said so.
pub fn interfaces_of(job: &Job, rank: Rank) -> Option<Vec<String>> {
    let reach = castell_frames::from_bytes(&Address(job.net_address(rank)?))?;
    Some(reach.cards.into_iter().map(|card| card.name).collect())
}

/// Device and number of a file.
type File = (u64, u64);
/// Who has one open: start time, process, descriptor.
type Holder = (u64, i32, i32);

/// All jobs of this host that can be seen, in the order in which they started.
pub fn running() -> Vec<RunningJob> {
    let mut segments: BTreeMap<File, Vec<Holder>> = BTreeMap::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for pid in numbers.filter_map(Pid::from_raw) {
        // Whoever ends meanwhile, or is somebody else's, is left out.
        let Some(start) = pid.start_time() else { continue };
        for (descriptor, segment) in segments_of(pid) {
            segments.entry(segment).or_default().push((start, pid.raw(), descriptor));
        }
    }
    let mut jobs: Vec<(u64, RunningJob)> = segments.into_values().filter_map(job_of).collect();
    jobs.sort_by_key(|(start, job)| (*start, job.id.raw()));
    let mut all: Vec<RunningJob> = Vec::new();
    for (_, mut job) in jobs {
        let secret = job.secret();
        match all.iter_mut().find(|other| secret.is_some() && other.secret() == secret) {
            Some(other) => {
                other.processes.append(&mut job.processes);
                other.views.append(&mut job.views);
            }
            None => all.push(job),
        }
    }
    all
}

/// The descriptors under which a process has jobs' segments open, and which segments those are.
fn segments_of(pid: Pid) -> Vec<(i32, File)> {
    let folder = format!("/proc/{pid}/fd");
    let Ok(entries) = std::fs::read_dir(Path::new(&folder)) else { return Vec::new() };
    let label = format!("/memfd:{SEGMENT_LABEL}");
    let found = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let target = std::fs::read_link(&path).ok()?;
        let is_segment = target.to_str()?.split(' ').next()? == label;
        let status = std::fs::metadata(&path).ok().filter(|_| is_segment)?;
        Some((path.file_name()?.to_str()?.parse().ok()?, (status.dev(), status.ino())))
    });
    found.collect()
}

/// The job of a segment, by those that have it open.
fn job_of(mut holders: Vec<Holder>) -> Option<(u64, RunningJob)> {
    holders.sort_unstable();
    let mut processes: Vec<Pid> = holders.iter().filter_map(|(_, pid, _)| Pid::from_raw(*pid)).collect();
    processes.dedup();
    let open = |(_, pid, number): &Holder| {
        let pid = Pid::from_raw(*pid)?;
        descriptor::open_of(pid, *number).ok()
    };
    // The first may be ending just now.
    let file = holders.iter().find_map(open)?;
    Some((holders[0].0, RunningJob { id: processes[0], processes, views: vec![Job::attach(file)] }))
}
