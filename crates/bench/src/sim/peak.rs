//! How much memory processes have had at most, and how long a processor.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

/// The most memory, in bytes, that this process has had resident.
pub fn of_this_process() -> u64 {
    read("/proc/self/status".into()).unwrap_or(0)
}

/// The most that another process has had, looked at every so often until it ends.
pub fn until_the_end_of(child: &mut Child) -> std::io::Result<u64> {
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    loop {
        peak = peak.max(read(status.clone()).unwrap_or(0));
        if child.try_wait()?.is_some() {
            return Ok(peak);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How long the threads that a process has now have had a processor, in nanoseconds. Where others use the machine, too, this
/// tells two pieces of work apart.
pub fn processor_ns(process: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let had = |thread: std::fs::DirEntry| {
        let times = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.map(|thread| had(thread.ok()?)).sum()
}

/// What a process used between two moments; `None` if that is not known, or too little for a counter that moves with the
/// system's clock ticks.
pub fn processor_ns_between(began: Option<u64>, ended: Option<u64>) -> Option<f64> {
    const KNOWN_FROM_NS: u64 = 20_000_000;
    let used = ended?.checked_sub(began?)?;
    (used >= KNOWN_FROM_NS).then_some(used as f64)
}

fn read(status: PathBuf) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
