//! The processes of a session on one host: descendants of its runner, which inherits their orphans, and, where the runner is dead or on
//! another host, those that carry its mark in their environment, with their descendants.
//!
//! They are stopped together by the control group that they are in, if it is theirs, and kept on their processors by it. All others are
//! stopped with SIGSTOP, which nobody can ignore either, and kept where they are by their affinity; new ones that appear meanwhile are
//! found in another round.

use crate::allocation::here;
use crate::workers;
use castell_host::control_group::Groups;
use castell_host::process::Pid;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The variable in the environment of a session's processes.
pub const MARK: &str = "CASTELL_SESSION";
/// Its value in processes that a runner starts for itself.
pub const NO_MARK: &str = "-";
/// A process that the system is busy with may need a moment to stand still.
const FROZEN_WITHIN: Duration = Duration::from_secs(5);
/// Rounds in which processes that appear while others are stopped are looked for.
const ROUNDS_MAX: u32 = 1_000;

/// Whose processes they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// On this host; none if it is on another, or dead.
    runner: Option<i32>,
    mark: String,
    /// The control groups of most or all of them.
    groups: Groups,
}

/// The processes that were stopped by signals, of those that are held.
#[derive(Debug, Default)]
pub(crate) struct Held(BTreeSet<i32>);

/// A process as the system shows it.
struct Seen {
    parent: i32,
    state: u8,
}

impl Tree {
    /// The processes below a runner of this host; `None` if there is no such process.
    pub fn of(runner: u32) -> Option<Tree> {
        let pid = Pid::from_raw(i32::try_from(runner).ok()?)?;
        let mark = format!("{runner}-{}@{}", pid.start_time()?, here());
        Some(Tree { runner: Some(pid.raw()), mark, groups: Groups::default() })
    }

    /// The processes on this host of a session with this mark, wherever its runner is.
    pub fn marked(mark: &str) -> Tree {
        // What was spawned has no runner: it is not below that of the session that did it, or not it alone.
        let own = (!mark.contains('/')).then(|| parse(mark)).flatten();
        let runner = own.filter(|(_, _, node)| *node == here());
        let runner = runner.filter(|(pid, start, _)| lives(*pid, *start)).map(|(pid, ..)| pid);
        Tree { runner, mark: mark.to_owned(), groups: Groups::default() }
    }

    /// Whether a mark's runner lives, if it is on this host.
    pub(crate) fn runner_lives(mark: &str) -> Option<bool> {
        let (pid, start, _) = parse(mark).filter(|(.., node)| *node == here())?;
        Some(lives(pid, start))
    }

    /// The same, whose program is put into control groups.
    pub(crate) fn in_groups(self, groups: Groups) -> Tree {
        Tree { groups, ..self }
    }

    /// What `CASTELL_SESSION` has to be in the environment of the session's first process.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The processes of sessions whose runners were on this host and have died, all runners' of this user.
    pub fn abandoned() -> Vec<Tree> {
        let here = here();
        let is_abandoned =
            |mark: &str| parse(mark).is_some_and(|(pid, start, node)| node == here && !lives(pid, start));
        let marks = Tree::marks().into_iter().filter(|mark| is_abandoned(mark));
        marks.map(|mark| Tree { runner: None, mark, groups: Groups::default() }).collect()
    }

    /// Of all sessions that have processes on this host.
    pub fn marks() -> BTreeSet<String> {
        processes().keys().filter_map(|pid| mark_of(*pid)).filter(|mark| mark != NO_MARK).collect()
    }

    /// Those that live now; the runner itself is none of them.
    pub fn members(&self) -> Vec<u32> {
        self.seen().into_iter().map(|(pid, _)| pid as u32).collect()
    }

    fn seen(&self) -> Vec<(i32, Seen)> {
        let all = processes();
        let own = Pid::current().raw();
        // Answers for processes that were on somebody's way up.
        let mut known: BTreeMap<i32, bool> = BTreeMap::new();
        for pid in all.keys().copied() {
            let mut way = Vec::new();
            let (mut at, mut is_one) = (pid, false);
            // A round of parents would be torn reading: no further than there are processes.
            while way.len() < all.len() {
                let Some(seen) = all.get(&at) else { break };
                if let Some(known) = known.get(&at) {
                    is_one = *known;
                    break;
                }
                way.push(at);
                let mark = mark_of(at);
                let is_other = |mark: &str| mark == NO_MARK || is_spawned_by(mark, &self.mark);
                if self.runner == Some(at) || mark.as_deref().is_some_and(is_other) {
                    break;
                }
                if self.runner == Some(seen.parent) || mark.as_deref() == Some(&self.mark) {
                    is_one = true;
                    break;
                }
                at = seen.parent;
            }
            known.extend(way.into_iter().map(|pid| (pid, is_one)));
        }
        let is_member = |pid: &i32| *pid != own && Some(*pid) != self.runner && known[pid];
        all.into_iter().filter(|(pid, _)| is_member(pid)).collect()
    }

    /// Stops them all, and returns when they stand still.
    pub fn stop(&self) {
        let frozen = || match &self.groups.freezer {
            Some(group) if group.freeze(FROZEN_WITHIN).unwrap_or(false) => group.members(),
            _ => BTreeSet::new(),
        };
        for _ in 0..ROUNDS_MAX {
            let frozen = frozen();
            let moving: Vec<i32> = self
                .seen()
                .into_iter()
                .filter(|(pid, seen)| !is_still(seen.state) && !frozen.contains(pid))
                .map(|(pid, _)| pid)
                .collect();
            if moving.is_empty() {
                return;
            }
            moving.iter().for_each(|pid| send(*pid, Signal::STOP));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops those that do not stand still already, for whoever lets them go on at once with [`release`](Tree::release); none where that takes
    /// longer, and nothing is stopped then. How many moments it takes is up to the system.
    pub(crate) fn hold(&self, patience: Duration) -> Option<Held> {
        let begun = Instant::now();
        let mut held = Held::default();
        let frozen = match &self.groups.freezer {
            Some(group) if group.freeze(patience).unwrap_or(false) => group.members(),
            _ => BTreeSet::new(),
        };
        loop {
            let is_moving = |(pid, seen): &(i32, Seen)| !is_still(seen.state) && !frozen.contains(pid);
            let moving: Vec<i32> = self.seen().into_iter().filter(is_moving).map(|(pid, _)| pid).collect();
            if moving.is_empty() {
                return Some(held);
            }
            if begun.elapsed() >= patience {
                self.release(held);
                return None;
            }
            moving.iter().for_each(|pid| send(*pid, Signal::STOP));
            held.0.extend(moving);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets go on what was held, and nobody else.
    pub(crate) fn release(&self, held: Held) {
        self.thaw();
        held.0.into_iter().for_each(|pid| send(pid, Signal::CONT));
    }

    /// Lets them all go on, whoever stopped them.
    pub fn go_on(&self) {
        self.thaw();
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

    fn thaw(&self) {
        if let Some(group) = &self.groups.freezer {
            // Whoever has removed it has let them go on.
            let _ = group.thaw();
        }
    }

    /// Sends all of them a signal; what is stopped goes on to take it.
    pub fn signal(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        self.thaw();
        for (pid, _) in self.seen() {
            send(pid, signal);
            send(pid, Signal::CONT);
        }
    }

    /// Asks all to end, and kills what is left after `grace`.
    pub fn end(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let mut signal = Signal::TERM;
        self.thaw();
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

    /// Pins all of their threads to these processors. Programs of castell's tasks run as many workers then.
    pub fn pin(&self, cpus: &[u32]) {
        self.fit(cpus);
        self.allow(cpus);
        // Beside a control group, too: who has bound itself where it was may be on any of those that it has now.
        self.pin_if(cpus, |_| true);
    }

    /// Programs of castell's tasks run as many workers as there are processors, but for those that were taken away by hand.
    pub(crate) fn fit(&self, cpus: &[u32]) {
        workers::fit(|| self.members(), cpus);
    }

    /// Allows them these processors and no others, where they have a control group that does so. What a group cannot have is left to the
    /// affinity of threads.
    pub(crate) fn allow(&self, cpus: &[u32]) {
        let Some(set) = &self.groups.cpuset else { return };
        if set.hold(cpus, || self.members()).is_err() {
            // Whoever has removed the group has let them run elsewhere.
            let _ = set.widen(|| self.members());
        }
    }

    /// Pins those of their threads to these processors that may run elsewhere.
    pub fn keep_on(&self, cpus: &[u32]) {
        let set = cpu_set(cpus);
        let is_outside = |thread| {
            rustix::thread::sched_getaffinity(thread).is_ok_and(|may| {
                (0..rustix::thread::CpuSet::MAX_CPU).any(|cpu| may.is_set(cpu) && !set.is_set(cpu))
            })
        };
        self.pin_if(cpus, is_outside);
    }

    fn pin_if(&self, cpus: &[u32], is_due: impl Fn(Option<rustix::process::Pid>) -> bool) {
        let set = cpu_set(cpus);
        let mut done: BTreeSet<i32> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let threads: Vec<i32> =
                self.seen().into_iter().flat_map(|(pid, _)| numbers(&format!("/proc/{pid}/task"))).collect();
            let fresh: Vec<i32> = threads.into_iter().filter(|thread| done.insert(*thread)).collect();
            if fresh.is_empty() {
                return;
            }
            let fresh = fresh.into_iter().map(rustix::process::Pid::from_raw);
            for thread in fresh.filter(|thread| is_due(*thread)) {
                // It may have ended meanwhile.
                let _ = rustix::thread::sched_setaffinity(thread, &set);
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
pub(crate) fn numbers(folder: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The mark in a process's environment; none of processes that this one may not look at, nor of those of another job, of another node that
/// is this host, or of a container, where numbers of processes mean others.
pub fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &str| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let mark = value(MARK)?;
    let is_elsewhere = |name| match (value(name), std::env::var(name)) {
        (Some(theirs), Ok(ours)) => theirs != ours.as_bytes(),
        _ => false,
    };
    let numbers = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let is_ours = !is_elsewhere("SLURM_JOB_ID")
        && !is_elsewhere("SLURMD_NODENAME")
        && numbers(&pid.to_string()) == numbers("self");
    is_ours.then(|| String::from_utf8(mark.to_vec()).ok()).flatten()
}

/// The runner of a mark: its number, when it began, and its node. Sessions that were spawned by another have its mark with a suffix.
fn parse(mark: &str) -> Option<(i32, u64, &str)> {
    let mark = mark.split('/').next()?;
    let (process, node) = mark.split_once('@')?;
    let (pid, start) = process.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?, node))
}

/// The process that a mark is called after: who runs the session, or has spawned it.
pub fn named_in(mark: &str) -> Option<u32> {
    mark.rsplit('/').next()?.split('-').next()?.parse().ok()
}

/// Whether this is the mark of a session that another's program has spawned.
fn is_spawned_by(mark: &str, other: &str) -> bool {
    mark.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

fn lives(pid: i32, start: u64) -> bool {
    Pid::from_raw(pid).and_then(Pid::start_time) == Some(start)
}

fn cpu_set(cpus: &[u32]) -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    let named = cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < rustix::thread::CpuSet::MAX_CPU);
    named.for_each(|cpu| set.set(cpu));
    set
}
