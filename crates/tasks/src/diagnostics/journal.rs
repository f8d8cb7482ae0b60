//! The debug mode: who waited for whom, and accesses that were not declared, where that can be seen.
//!
//! The journal follows tasks from outside: it compares declarations as they come, and asks the dependences nothing. So it also
//! is a second opinion.

use crate::dependences::{Declaration, Kind};
use crate::error::TaskError;
use crate::lifecycle::task::{Task, TaskRef};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tasks that are remembered; beyond that the journal starts anew.
const TASKS_MAX: usize = 100_000;

/// Ready tasks that waited for a worker at least this long are listed even if they waited for nothing else.
const LONG: Duration = Duration::from_millis(1);

/// Why a task waited: [`Runtime::waits`](crate::Runtime::waits).
#[derive(Clone, Debug)]
pub struct Wait {
    /// The task, by its number in order of creation and its label.
    pub task: (u64, String),
    /// From its creation until its body began; until now if it has not.
    pub time: Duration,
    /// Whether its body has begun.
    pub over: bool,
    /// The part of `time` during which it was ready: no worker was free, or fit, to run it.
    pub for_worker: Duration,
    /// How long its body was kept from creating more tasks, because there were more than [`Limits::high`](crate::Limits::high).
    pub for_room: Duration,
    /// For whom: tasks that were not complete when it was created, and what both declared; and those whose turn with commutative
    /// data it was.
    pub reasons: Vec<Reason>,
}

/// One task that another had to wait for.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The earlier task; of two commutative ones, that which had its turn first.
    pub task: (u64, String),
    /// What that one does, and what the later one does.
    pub kinds: (Kind, Kind),
    /// Address of the first byte that both declared.
    pub start: usize,
    /// How many bytes from there on.
    pub length: usize,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, label) = &self.task;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (time, so_far) = (ms(self.time), if self.over { "" } else { " so far" });
        write!(
            f,
            "task {number} `{label}` waited {time:.3} ms{so_far}, of these {:.3} ms",
            ms(self.for_worker)
        )?;
        write!(f, " ready, for a worker")?;
        for Reason { task: (number, label), kinds: (earlier, later), start, length } in &self.reasons {
            let turn =
                if *later == Kind::Commutative && earlier == later { ", whose turn it was" } else { "" };
            write!(
                f,
                "\n  for task {number} `{label}`{turn}: {earlier} there, {later} here, {length} bytes from {start:#x}"
            )?;
        }
        if !self.for_room.is_zero() {
            let time = ms(self.for_room);
            write!(
                f,
                "\n  then {time:.3} ms before it could create more: too many tasks existed (`Limits::high`)"
            )?;
        }
        Ok(())
    }
}

/// What has been seen.
#[derive(Default)]
pub(crate) struct Journal {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    /// Of the tasks that are not disposed of, by address.
    live: HashMap<usize, usize>,
    /// Of the tasks that may still hold something, by their parent's address.
    holding: HashMap<usize, Vec<usize>>,
    created: u64,
}

struct Entry {
    number: u64,
    label: &'static str,
    parent: usize,
    declared: Vec<Declaration>,
    reasons: Vec<Reason>,
    created: Instant,
    ready: Option<Instant>,
    began: Option<Instant>,
    for_room: Duration,
}

impl Entry {
    fn wait(&self) -> Wait {
        let until = self.began.unwrap_or_else(Instant::now);
        Wait {
            task: (self.number, self.label.to_owned()),
            time: until.duration_since(self.created),
            over: self.began.is_some(),
            for_worker: self.ready.map_or(Duration::ZERO, |ready| until.saturating_duration_since(ready)),
            for_room: self.for_room,
            reasons: self.reasons.clone(),
        }
    }
}

impl Wait {
    fn is_worth_telling(&self) -> bool {
        !self.reasons.is_empty() || self.for_worker >= LONG || !self.for_room.is_zero()
    }
}

impl Journal {
    /// A task is about to be registered.
    pub(crate) fn created(&self, task: &Task, declared: &[Declaration]) {
        let mut book = self.lock();
        if book.entries.len() >= TASKS_MAX {
            *book = Book { created: book.created, ..Book::default() };
        }
        book.created += 1;
        let parent = task.parent().map_or(0, |parent| std::ptr::from_ref(parent) as usize);
        let mut reasons = Vec::new();
        for declared in declared.iter().filter(|declared| !declared.weak) {
            book.reasons(parent, *declared, &mut reasons);
        }
        let (number, at) = (book.created, book.entries.len());
        let (label, created) = (task.label(), Instant::now());
        let declared = declared.to_vec();
        let (ready, began, for_room) = (None, None, Duration::ZERO);
        book.entries.push(Entry {
            number,
            label,
            parent,
            declared,
            reasons,
            created,
            ready,
            began,
            for_room,
        });
        book.live.insert(std::ptr::from_ref(task) as usize, at);
        book.holding.entry(parent).or_default().push(at);
    }

    /// It has become ready.
    pub(crate) fn ready(&self, task: &Task) {
        self.lock().with(task, |entry| entry.ready = Some(Instant::now()));
    }

    /// Its body begins.
    pub(crate) fn began(&self, task: &Task) {
        self.lock().with(task, |entry| entry.began = Some(Instant::now()));
    }

    /// Its body could not create more tasks for some time, because there were too many.
    pub(crate) fn held_up(&self, task: &Task, time: Duration) {
        self.lock().with(task, |entry| entry.for_room += time);
    }

    /// Nothing but its turn, which `holder` has, keeps it from being ready.
    pub(crate) fn waits_for_turn(&self, task: &Task, holder: &Task) {
        let mut book = self.lock();
        let Some(holder) = book.live.get(&(std::ptr::from_ref(holder) as usize)).copied() else { return };
        let Entry { number, label, declared, .. } = &book.entries[holder];
        let (other, held) = ((*number, (*label).to_owned()), declared.clone());
        book.with(task, |entry| {
            let kinds = (Kind::Commutative, Kind::Commutative);
            let takes = |declared: &&Declaration| declared.kind == Kind::Commutative && !declared.weak;
            for own in entry.declared.iter().filter(takes) {
                for theirs in held.iter().filter(takes) {
                    let (start, end) = overlap(theirs, own);
                    if start < end {
                        let task = other.clone();
                        entry.reasons.push(Reason { task, kinds, start, length: end - start });
                    }
                }
            }
        });
    }

    /// It and its descendants are done.
    pub(crate) fn done(&self, task: TaskRef) {
        let mut book = self.lock();
        let address = task.as_ptr() as usize;
        book.holding.remove(&address);
        if let Some(at) = book.live.remove(&address) {
            let parent = book.entries[at].parent;
            if let Some(siblings) = book.holding.get_mut(&parent) {
                siblings.retain(|&sibling| sibling != at);
            }
        }
    }

    /// All that waited for others, longest first.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let book = self.lock();
        let mut waits: Vec<Wait> =
            book.entries.iter().map(Entry::wait).filter(Wait::is_worth_telling).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.time));
        waits
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Changes the entry of a task that is not disposed of.
    fn with(&mut self, task: &Task, change: impl FnOnce(&mut Entry)) {
        if let Some(&at) = self.live.get(&(std::ptr::from_ref(task) as usize)) {
            change(&mut self.entries[at]);
        }
    }

    /// Who among the children of `parent` that are not done has to come before `wanted`; and, as far as the parent itself only
    /// passes weak accesses on, who before the parent.
    fn reasons(&self, parent: usize, wanted: Declaration, reasons: &mut Vec<Reason>) {
        for &at in self.holding.get(&parent).into_iter().flatten() {
            let entry = &self.entries[at];
            for earlier in &entry.declared {
                let (start, end) = overlap(earlier, &wanted);
                if start < end && !unordered(earlier, &wanted) {
                    let task = (entry.number, entry.label.to_owned());
                    let kinds = (earlier.kind, wanted.kind);
                    reasons.push(Reason { task, kinds, start, length: end - start });
                }
            }
        }
        let Some(entry) = self.live.get(&parent).map(|&at| &self.entries[at]) else { return };
        for outer in entry.declared.iter().filter(|outer| outer.weak) {
            let (start, end) = overlap(outer, &wanted);
            if start < end {
                // The parent itself is among those that hold the bytes: only what it waits for counts.
                let above = Declaration { start, length: end - start, ..wanted };
                let mut before = Vec::new();
                self.reasons(entry.parent, above, &mut before);
                reasons.extend(before.into_iter().filter(|reason| reason.task.0 < entry.number));
            }
        }
    }
}

fn overlap(one: &Declaration, other: &Declaration) -> (usize, usize) {
    (one.start.max(other.start), (one.start + one.length).min(other.start + other.length))
}

/// Whether neighbours with these accesses are not ordered: they run at the same time, or take turns.
fn unordered(one: &Declaration, other: &Declaration) -> bool {
    one.kind == other.kind
        && one.reduction == other.reduction
        && matches!(one.kind, Kind::In | Kind::Commutative | Kind::Concurrent | Kind::Reduction)
}

/// Whether `task` declared that it accesses these bytes so; a task that declared nothing is taken to look after itself.
///
/// # Errors
/// It did not.
pub(crate) fn check_declared(task: &Task, wanted: &Declaration) -> Result<(), TaskError> {
    if task.accesses().is_empty() {
        return Ok(());
    }
    let allows = |kind: Kind| match wanted.kind {
        Kind::In => true,
        _ => kind != Kind::In,
    };
    let end = wanted.start + wanted.length;
    let mut covered = wanted.start;
    // Accesses of one task do not overlap, but may lie in any order: go on from where the last one ended.
    while covered < end {
        let region =
            task.accesses().iter().filter(|access| allows(access.kind())).map(|access| access.region());
        let mut next = region.filter(|region| region.start() <= covered && covered < region.end());
        let Some(region) = next.next() else {
            return Err(TaskError::Undeclared {
                label: task.label().to_owned(),
                kind: wanted.kind,
                start: covered,
                length: end - covered,
            });
        };
        covered = region.end();
    }
    Ok(())
}
