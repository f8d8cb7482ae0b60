//! What happened, for timelines, for statistics and as a graph: who was created when, ran where, and touched which bytes.
//!
//! Threads note events, a worker into a list of its own; nothing is put together before somebody asks
//! ([`Recording`], in `recording`). Off, it costs a look at an option when a task is created, run or waits.

mod chain;
mod files;
mod goal;
pub(crate) mod graph;
mod outside;
mod recording;
mod rounds;
mod waited;

pub use outside::{Outside, Step};
pub use recording::{Level, Recorded, Recording, Stretch};
pub use rounds::Round;

use crate::api::environment;
use crate::dependences::Declaration;
use crate::lifecycle::current::Thread;
use crate::lifecycle::task::{Task, flag};
use castell_sched::Kind;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Tasks that are noted; beyond that none, and a line says so.
const TASKS_MAX: u32 = 1 << 22;
/// A look at the scheduler's queues is taken no more often than this, and no more often than so many times.
const LEVELS_EVERY_NS: u64 = 20_000;
const LEVELS_MAX: usize = 1 << 19;
/// Of the map from records to their tasks' numbers.
const SHARDS: usize = 64;

/// What a runtime leaves behind when it ends, as the environment asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// `CASTELL_TASKS_TRACE`: a timeline; the ending of its name says in which format.
    pub(crate) trace: Option<PathBuf>,
    /// `CASTELL_TASKS_RECORD`: the graph as GOAL text.
    pub(crate) graph: Option<PathBuf>,
    /// `CASTELL_TASKS_SUMMARY`: statistics on standard error.
    pub(crate) summary: bool,
}

impl Wanted {
    /// What the environment says.
    pub(crate) fn from_environment() -> Wanted {
        Wanted {
            trace: environment::file("CASTELL_TASKS_TRACE"),
            graph: environment::file("CASTELL_TASKS_RECORD"),
            summary: environment::switch("CASTELL_TASKS_SUMMARY"),
        }
    }

    /// Whether anything is.
    pub(crate) fn any(&self) -> bool {
        self.trace.is_some() || self.graph.is_some() || self.summary
    }
}

/// Something that happened to a task, by its number.
enum Event {
    Created {
        task: u32,
        parent: Option<u32>,
        label: &'static str,
        cost: u32,
        declared: Box<[Declaration]>,
        /// Of a root: whose thread made it.
        maker: Option<Maker>,
    },
    /// A region of a team begins, in its round of this number.
    Region {
        round: u32,
    },
    /// A thread outside of tasks waits for a root, until…
    Joins {
        thread: ThreadId,
    },
    /// …it is done.
    Joined {
        task: u32,
        thread: ThreadId,
    },
    Began {
        task: u32,
    },
    Ended {
        task: u32,
    },
    /// It opens a group of tasks.
    Opens {
        task: u32,
    },
    /// It waits, until…
    Waits {
        task: u32,
        awaited: Awaited,
    },
    /// …they are done.
    GoesOn {
        task: u32,
    },
}

/// For what a body waits.
#[derive(Clone, Copy)]
enum Awaited {
    Children,
    /// Those in the group that it opened last.
    Group,
    /// This one, which it has created.
    Task(u32),
}

/// Who made a root.
enum Maker {
    /// A thread outside of tasks.
    Outsider(ThreadId),
    /// A thread of a team, after the team has met so often.
    Member(u32),
}

/// An event, and when: in nanoseconds from the recorder's start.
struct Note {
    ns: u64,
    worker: u32,
    event: Event,
}

/// Takes notes.
pub(crate) struct Recorder {
    start: Instant,
    wanted: Wanted,
    /// By worker.
    kinds: Vec<Kind>,
    created: AtomicU32,
    /// A list a worker, and one for all other threads.
    lists: Box<[List]>,
    /// Looks at the scheduler's queues, and when the next one is due.
    levels: Mutex<Vec<Level>>,
    next_level_ns: AtomicU64,
    /// Numbers by record: a record's address is another task's when it is used again, which is then noted before it runs.
    numbers: Box<[Mutex<HashMap<usize, u32>>]>,
}

#[repr(align(128))]
#[derive(Default)]
struct List(Mutex<Vec<Note>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// For workers of these kinds.
    pub(crate) fn new(kinds: Vec<Kind>, wanted: Wanted) -> Recorder {
        let workers = kinds.len();
        Recorder {
            kinds,
            start: Instant::now(),
            wanted,
            created: AtomicU32::new(0),
            lists: (0..=workers).map(|_| List::default()).collect(),
            levels: Mutex::default(),
            next_level_ns: AtomicU64::new(0),
            numbers: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, task: *const Task) -> MutexGuard<'_, HashMap<usize, u32>> {
        // Records are aligned to cache lines, and small ones are some lines apart.
        lock(&self.numbers[(task as usize >> 6) % SHARDS])
    }

    fn number(&self, task: *const Task) -> Option<u32> {
        self.shard(task).get(&(task as usize)).copied()
    }

    fn note(&self, thread: &Thread, event: Event) {
        let last = self.lists.len() - 1;
        let worker = thread.worker.get().map_or(last, |worker| worker.index().min(last));
        let mut list = lock(&self.lists[worker].0);
        let ns = self.start.elapsed().as_nanos() as u64;
        list.push(Note { ns, worker: worker as u32, event });
        drop(list);
        let due = self.next_level_ns.load(Ordering::Relaxed);
        if ns >= due {
            self.look(thread, ns, due);
        }
    }

    /// Notes how long the scheduler's queues are, unless another thread does.
    #[cold]
    fn look(&self, thread: &Thread, ns: u64, due: u64) {
        let next = ns + LEVELS_EVERY_NS;
        if self.next_level_ns.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let scheduler = &thread.shared.scheduler;
        let (workers, shared) = scheduler.lengths();
        let mut levels = lock(&self.levels);
        if levels.len() < LEVELS_MAX {
            levels.push(Level { ns, threshold: scheduler.threshold(), workers, shared });
        }
    }

    /// A task is about to be registered.
    pub(crate) fn created(&self, thread: &Thread, task: &Task, declared: &[Declaration]) {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        if number >= TASKS_MAX {
            self.created.store(TASKS_MAX + 1, Ordering::Relaxed);
            self.shard(task).remove(&(std::ptr::from_ref(task) as usize));
            return;
        }
        let parent = task.parent().and_then(|parent| self.number(parent));
        self.shard(task).insert(std::ptr::from_ref(task) as usize, number);
        let (label, declared) = (task.label(), declared.into());
        let maker = task.has(flag::ROOT).then(|| match &thread.shared.assembly {
            Some(assembly) => Maker::Member(assembly.rounds()),
            None => Maker::Outsider(std::thread::current().id()),
        });
        self.note(thread, Event::Created { task: number, parent, label, cost: task.cost, declared, maker });
    }

    /// A region of a team begins.
    pub(crate) fn begins_region(&self, thread: &Thread, round: u32) {
        self.note(thread, Event::Region { round });
    }

    /// A thread is about to wait for a root.
    pub(crate) fn joins(&self, thread: &Thread) {
        if thread.worker.get().is_none() {
            self.note(thread, Event::Joins { thread: std::thread::current().id() });
        }
    }

    /// It has waited for this one.
    pub(crate) fn joined(&self, thread: &Thread, task: &Task) {
        if thread.worker.get().is_none()
            && let Some(task) = self.number(task)
        {
            self.note(thread, Event::Joined { task, thread: std::thread::current().id() });
        }
    }

    /// Its body begins; its number for [`Recorder::ended`]. Of a body that is called again and again only the first time is noted.
    pub(crate) fn began(&self, thread: &Thread, task: &Task) -> Option<u32> {
        if task.has(flag::REPEATED) {
            return None;
        }
        let task = self.number(task)?;
        self.note(thread, Event::Began { task });
        Some(task)
    }

    /// Its body is over.
    pub(crate) fn ended(&self, thread: &Thread, task: u32) {
        self.note(thread, Event::Ended { task });
    }

    /// The body of a task that ran in the place where it was created is over.
    pub(crate) fn ended_in_place(&self, thread: &Thread, task: &Task) {
        if let Some(task) = self.number(task) {
            self.note(thread, Event::Ended { task });
        }
    }

    /// The current task waits for its children.
    pub(crate) fn waits(&self, thread: &Thread) {
        self.note_waiting(thread, Awaited::Children);
    }

    /// The current task opens a group.
    pub(crate) fn opens_group(&self, thread: &Thread) {
        if let Some(task) = self.number(thread.task.get()) {
            self.note(thread, Event::Opens { task });
        }
    }

    /// The current task waits for the group that it opened last.
    pub(crate) fn waits_for_group(&self, thread: &Thread) {
        self.note_waiting(thread, Awaited::Group);
    }

    /// The current task waits for one that it has created.
    pub(crate) fn waits_for(&self, thread: &Thread, task: &Task) {
        if let Some(task) = self.number(task) {
            self.note_waiting(thread, Awaited::Task(task));
        }
    }

    fn note_waiting(&self, thread: &Thread, awaited: Awaited) {
        if let Some(task) = self.number(thread.task.get()) {
            self.note(thread, Event::Waits { task, awaited });
        }
    }

    /// It has waited.
    pub(crate) fn goes_on(&self, thread: &Thread) {
        if let Some(task) = self.number(thread.task.get()) {
            self.note(thread, Event::GoesOn { task });
        }
    }

    /// How many tasks are noted.
    pub(crate) fn count(&self) -> u32 {
        self.created.load(Ordering::Relaxed).min(TASKS_MAX)
    }

    /// What has happened so far.
    pub(crate) fn recording(&self) -> Recording {
        let lists: Vec<_> = self.lists.iter().map(|list| lock(&list.0)).collect();
        let mut notes: Vec<&Note> = lists.iter().flat_map(|list| list.iter()).collect();
        // A thread's own notes stay in order where times are equal.
        notes.sort_by_key(|note| note.ns);
        let is_whole = self.created.load(Ordering::Relaxed) <= TASKS_MAX;
        let mut levels = lock(&self.levels).clone();
        levels.sort_by_key(|level| level.ns);
        let kinds = self.kinds.clone();
        Recording { levels, kinds, ..Recording::of(&notes, self.lists.len() as u32 - 1, is_whole) }
    }

    /// Writes what was wanted. What cannot be written is said on standard error: nobody could be told otherwise.
    pub(crate) fn finish(&self) {
        if self.wanted.any() {
            files::write(&self.recording(), &self.wanted);
        }
    }
}
