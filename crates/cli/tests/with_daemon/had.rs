//! What a daemon has, before and after trials.

use crate::applications::wait_until;
use crate::with_daemon::Daemon;
use std::fs;
use std::path::PathBuf;

/// What a daemon has, by the system.
pub struct Had {
    pub descriptors: usize,
    /// Memory of its own, not that of mailboxes.
    pub memory_kib: u64,
}

impl Had {
    pub fn by(daemon: &Daemon) -> Had {
        let proc = PathBuf::from(format!("/proc/{}", daemon.child.id()));
        let status = fs::read_to_string(proc.join("status")).expect("it lives");
        let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory_kib = memory.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        let descriptors = fs::read_dir(proc.join("fd")).expect("it lives").count();
        Had { descriptors, memory_kib: memory_kib.expect("kilobytes") }
    }
    /// Waits until a daemon that has nothing to do has no more descriptors than one had before; says how often something was tried, and
    /// what is left of that. `cargo xtask trials` reads this line.
    pub fn report(&self, daemon: &Daemon, count: usize, what: &str) {
        wait_until("nothing of them is left", || Had::by(daemon).descriptors <= self.descriptors);
        let (now, status) = (Had::by(daemon), daemon.status());
        let applications = status["applications"].as_array().map_or(0, Vec::len);
        let more = |now: u64, before: u64| now as i64 - before as i64;
        println!(
            "trial: {count} {what}; descriptors {:+}, applications {applications}, memory {:+} KiB",
            more(now.descriptors as u64, self.descriptors as u64),
            more(now.memory_kib, self.memory_kib)
        );
    }
}
