//! Control groups for a session's processes, which stop them all at once, keep them on their processors and limit their memory, and a process that lets them go
//! on and removes the groups when the runner dies. Where that one is dead, too, the next agent does it.

use crate::tree::{MARK, NO_MARK, Tree};
use castell_host::control_group::{Groups, Home, PREFIX};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Until its last process has ended, a group cannot be removed.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// Why memory is only counted.
pub(crate) const NO_MEMORY_GROUP: &str = "no control group with the memory controller may be made for it";

/// Groups with a guard, who removes them in the end.
pub(crate) struct Guarded {
    pub(crate) groups: Groups,
    guard: Child,
}

impl Guarded {
    /// Some called after `mark`, guarded by `castell session guard`. None where this process may make none, or a batch system tells by
    /// groups which processes are a job's.
    pub(crate) fn new(castell: &Path, mark: &str) -> Option<Guarded> {
        if std::env::var_os("SLURM_JOB_ID").is_some() {
            return None;
        }
        let groups = home("self").make(mark);
        if groups.is_empty() {
            return None;
        }
        let mut command = Command::new(castell);
        command.args(["session", "guard"]).args(groups.folders()).env(MARK, NO_MARK).process_group(0);
        match command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() {
            Ok(guard) => Some(Guarded { groups, guard }),
            Err(_) => {
                groups.remove();
                None
            }
        }
    }

    /// Lets the session's processes have so much memory and no more.
    ///
    /// # Errors
    /// Why they cannot be limited; a part of a sentence.
    pub(crate) fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        let memory = self.groups.memory.as_ref().ok_or(NO_MEMORY_GROUP)?;
        memory.limit(Some(bytes)).map_err(|error| format!("its control group takes no limit: {error}"))
    }

    /// Where the groups lie, for whoever has to see to them when runner and guard are dead.
    pub(crate) fn folders(&self) -> Vec<String> {
        self.groups.folders().into_iter().map(|folder| folder.display().to_string()).collect()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // It goes when its input ends.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            remove(&self.groups);
        }
    }
}

/// Waits until `input` ends, lets what is in the groups go on, and removes them when they are empty.
///
/// # Errors
/// Only those of `input`; a group that is gone needs no guard.
pub fn guard(folders: &[PathBuf], mut input: impl Read) -> io::Result<()> {
    io::copy(&mut input, &mut io::sink())?;
    remove(&Groups::at(folders.iter().map(PathBuf::as_path)));
    Ok(())
}

/// Lets what is in groups go on, and removes them when they are empty.
pub(crate) fn remove(groups: &Groups) {
    let begun = Instant::now();
    let let_go_on = || groups.freezer.iter().for_each(|freezer| drop(freezer.thaw()));
    while begun.elapsed() < REMOVED_WITHIN {
        let_go_on();
        if groups.remove() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes this process out of the groups of the session with this mark, which it is no part of any more.
pub(crate) fn leave_groups(mark: &str) -> io::Result<()> {
    let runner = mark.split('-').next().map(home);
    home("self").leave(runner.as_ref())
}

/// The groups of a session, in those of these folders that can be its own: others are told by their users, and need not be true.
pub(crate) fn groups_in(mark: &str, folders: &[String]) -> Groups {
    let name = format!("{PREFIX}{mark}");
    let is_its = |folder: &&Path| {
        let is_plain =
            folder.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir));
        is_plain && folder.starts_with(ROOT) && folder.file_name().is_some_and(|its| *its == *name)
    };
    Groups::at(folders.iter().map(Path::new).filter(is_its))
}

/// Makes a cpuset for the session with this mark, below the group of its runner, and moves that one into it: all that it starts is born
/// there. Gives the folder; none where there can be no such group.
pub(crate) fn make_cpuset(mark: &str, runner: u32) -> Option<String> {
    let set = home(&runner.to_string()).make_cpuset(mark)?;
    let folder = set.folder().display().to_string();
    match set.take(runner) {
        Ok(()) => Some(folder),
        Err(_) => {
            remove(&groups_in(mark, &[folder]));
            None
        }
    }
}

/// The folder of the cpuset that another agent has made so, if there is one.
pub(crate) fn find_cpuset(mark: &str, runner: u32) -> Option<String> {
    home(&runner.to_string()).find(mark).cpuset.map(|set| set.folder().display().to_string())
}

/// Ends what is left of a session whose runner is dead, and removes its groups: those that are told, or that can be found.
pub(crate) fn end_left(mark: &str, folders: &[String], grace: Duration) {
    let tree = Tree::marked(mark);
    let homes = || tree.members().into_iter().map(|member| home(&member.to_string())).chain([home("self")]);
    let mut groups = groups_in(mark, folders);
    if groups.is_empty() {
        groups = homes().map(|home| home.find(mark)).find(|found| !found.is_empty()).unwrap_or_default();
    }
    tree.in_groups(groups.clone()).end(grace);
    remove(&groups);
}

/// Removes the groups here that runners have left in which there is nobody. Those with processes are left to who ends these: a runner in
/// another namespace only seems to be dead.
pub(crate) fn remove_left() {
    let home = home("self");
    let is_left = |mark: &String| Tree::runner_lives(mark) == Some(false);
    for mark in home.sessions().into_iter().filter(is_left) {
        home.find(&mark).remove();
    }
}

/// Where a process makes groups.
fn home(process: &str) -> Home {
    let own = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    Home::new(Path::new(ROOT), &own)
}
