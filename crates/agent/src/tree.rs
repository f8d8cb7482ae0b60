//! The processes of a session: descendants of its runner, which inherits their orphans, and, where the runner is dead, those
//! that carry its mark in their environment.
//!
//! All of them are stopped with SIGSTOP, which nobody can ignore; new ones that appear meanwhile are found in another round.

use castell_host::process::Pid;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The variable in the environment of a session's processes.
pub const MARK: &str = "CASTELL_SESSION";
/// Rounds in which processes that appear while others are stopped are looked for.
const ROUNDS_MAX: u32 = 1_000;

/// Whose processes they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    runner: i32,
    mark: String,
}

/// A process as the system shows it.
struct Seen {
    parent: i32,
    state: u8,
}

impl Tree {
    /// The processes below a runner; `None` if there is no such process.
    pub fn of(runner: u32) -> Option<Tree> {
        let pid = Pid::from_raw(i32::try_from(runner).ok()?)?;
        Some(Tree { runner: pid.raw(), mark: format!("{runner}-{}", pid.start_time()?) })
    }

    /// What `CASTELL_SESSION` has to be in the environment of the session's first process.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The processes of sessions whose runners have died, all runners' of this user.
    pub fn abandoned() -> Vec<Tree> {
        let marks: BTreeSet<String> = processes().keys().filter_map(|pid| mark_of(*pid)).collect();
        let tree = |mark: String| {
            let (runner, start) = mark.split_once('-')?;
            let (runner, start) = (runner.parse().ok()?, start.parse().ok()?);
            let alive = Pid::from_raw(runner)?.start_time() == Some(start);
            (!alive).then_some(Tree { runner, mark })
        };
        marks.into_iter().filter_map(tree).collect()
    }

    /// Those that live now; the runner itself is none of them.
    pub fn members(&self) -> Vec<u32> {
        self.seen().into_iter().map(|(pid, _)| pid as u32).collect()
    }

    fn seen(&self) -> Vec<(i32, Seen)> {
        let all = processes();
        let descends = |pid: i32| {
            let mut at = pid;
            // A round of parents would be torn reading: no deeper than there are processes.
            for _ in 0..all.len() {
                let Some(seen) = all.get(&at) else { return false };
                if seen.parent == self.runner {
                    return true;
                }
                at = seen.parent;
            }
            false
        };
        let own = Pid::current().raw();
        let is_one = |pid: i32| {
            pid != own && pid != self.runner && (descends(pid) || mark_of(pid).as_deref() == Some(&self.mark))
        };
        let members: BTreeSet<i32> = all.keys().copied().filter(|pid| is_one(*pid)).collect();
        all.into_iter().filter(|(pid, _)| members.contains(pid)).collect()
    }

    /// Stops them all, and returns when they stand still.
    pub fn stop(&self) {
        for _ in 0..ROUNDS_MAX {
            let moving: Vec<i32> = self
                .seen()
                .into_iter()
                .filter(|(_, seen)| !is_still(seen.state))
                .map(|(pid, _)| pid)
                .collect();
            if moving.is_empty() {
                return;
            }
            moving.iter().for_each(|pid| send(*pid, Signal::STOP));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets them all go on, whoever stopped them.
    pub fn go_on(&self) {
        for _ in 0..ROUNDS_MAX {
            let still: Vec<i32> =
                self.seen().into_iter().filter(|(_, seen)| seen.state == b'T').map(|(pid, _)| pid).collect();
            if still.is_empty() {
                return;
            }
            still.iter().for_each(|pid| send(*pid, Signal::CONT));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends all of them a signal; what is stopped goes on to take it.
    pub fn signal(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        for (pid, _) in self.seen() {
            send(pid, signal);
            send(pid, Signal::CONT);
        }
    }

    /// Asks all to end, and kills what is left after `grace`.
    pub fn end(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let mut signal = Signal::TERM;
        loop {
            let living = self.seen();
            if living.is_empty() {
                return;
            }
            for (pid, _) in living {
                send(pid, signal);
                send(pid, Signal::CONT);
            }
            while Instant::now() < deadline && signal == Signal::TERM && !self.seen().is_empty() {
                thread::sleep(Duration::from_millis(20));
            }
            signal = Signal::KILL;
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Pins all of their threads to these processors.
    pub fn pin(&self, cpus: &[u32]) {
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter()
            .filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU)
            .for_each(|cpu| set.set(*cpu as usize));
        let mut done: BTreeSet<i32> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let threads: Vec<i32> =
                self.seen().into_iter().flat_map(|(pid, _)| numbers(&format!("/proc/{pid}/task"))).collect();
            let fresh: Vec<i32> = threads.into_iter().filter(|thread| done.insert(*thread)).collect();
            if fresh.is_empty() {
                return;
            }
            for thread in fresh {
                // It may have ended meanwhile.
                let _ = rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(thread), &set);
            }
        }
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Stopped, by a signal or by a debugger.
fn is_still(state: u8) -> bool {
    matches!(state, b'T' | b't')
}

/// All processes that have not ended.
fn processes() -> BTreeMap<i32, Seen> {
    let read = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the name in parentheses, which may hold anything.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        (!matches!(state, b'Z' | b'X')).then_some((pid, Seen { parent, state }))
    };
    numbers("/proc").into_iter().filter_map(read).collect()
}

/// The entries of a folder that are numbers.
fn numbers(folder: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The mark in a process's environment; none of other users' processes.
fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(format!("{MARK}=").as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}
