//! A control group for a session's processes, which stops them all at once, and a process that lets them go on when the runner dies.

use crate::tree::{MARK, NO_MARK};
use castell_host::freezer::{self, Freezer};
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// How groups' names begin.
const PREFIX: &str = "castell-";
/// Until its last process has ended, a group cannot be removed.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// A group with a guard, who removes it in the end.
pub(crate) struct Guarded {
    pub(crate) freezer: Freezer,
    guard: Child,
}

impl Guarded {
    /// One called after `mark`, guarded by `castell session guard`. None where there is no freezer, this process may make no group, or a
    /// batch system tells by groups which processes are a job's.
    pub(crate) fn new(castell: &Path, mark: &str) -> Option<Guarded> {
        if std::env::var_os("SLURM_JOB_ID").is_some() {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let freezer = Freezer::new(Path::new(ROOT), &own, &format!("{PREFIX}{mark}")).ok()?;
        let mut command = Command::new(castell);
        command.args(["session", "guard"]).arg(freezer.folder()).env(MARK, NO_MARK).process_group(0);
        match command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() {
            Ok(guard) => Some(Guarded { freezer, guard }),
            Err(_) => {
                freezer.remove();
                None
            }
        }
    }
}

/// Takes this process out of the group of a session, which it is no part of any more.
pub(crate) fn leave_group() -> io::Result<()> {
    freezer::leave(Path::new(ROOT), &fs::read_to_string("/proc/self/cgroup")?, PREFIX)
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // It goes when its input ends.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits until `input` ends, lets what is in the group go on, and removes it when it is empty.
///
/// # Errors
/// Only those of `input`; a group that is gone needs no guard.
pub fn guard(folder: &Path, mut input: impl Read) -> io::Result<()> {
    io::copy(&mut input, &mut io::sink())?;
    let freezer = Freezer::at(folder);
    let begun = Instant::now();
    while freezer.thaw().is_ok() && !freezer.remove() && begun.elapsed() < REMOVED_WITHIN {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
