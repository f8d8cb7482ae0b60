//! How much memory processes have had at most.

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

fn read(status: PathBuf) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
