//! What whoever started this process draws of its tasks: when their bodies ran, and who made them ready.

use castell_base::Mixed;
use castell_host::clock::now_ns;
use castell_host::journal::{Journal, of_this_process};
use castell_trace::journal::Event;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of the map from tasks to who made them ready.
const SHARDS: usize = 16;

/// Takes notes.
pub(crate) struct Drawn {
    journal: Arc<Journal>,
    /// Tasks that are ready and have not begun, by their records: by whom, and when.
    ready: [Mutex<Tasks>; SHARDS],
}

type Tasks = HashMap<u64, Ready, BuildHasherDefault<Mixed>>;

/// By whom a task was made ready (0: no task), and when.
type Ready = (u64, u64);

/// A body that goes on.
pub(crate) struct Begun {
    id: u64,
    ready: Ready,
    start_ns: u64,
}

impl Drawn {
    /// If somebody wants it.
    pub(crate) fn wanted() -> Option<Drawn> {
        let journal = Arc::clone(of_this_process()?);
        Some(Drawn { journal, ready: std::array::from_fn(|_| Mutex::default()) })
    }

    fn of(&self, id: u64) -> MutexGuard<'_, Tasks> {
        // Records lie at least a line of the cache apart.
        self.ready[(id >> 6) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It may begin, since `by` has ended or has created it (null: no task has). Tasks are told apart by where their records are, which is
    /// another one's place later.
    pub(crate) fn ready<T>(&self, task: *const T, by: *const T) {
        self.of(task as u64).insert(task as u64, (by as u64, now_ns()));
    }

    /// Its body begins.
    pub(crate) fn begin<T>(&self, task: *const T) -> Begun {
        let id = task as u64;
        let ready = self.of(id).remove(&id).unwrap_or_default();
        Begun { id, ready, start_ns: now_ns() }
    }

    /// Its body is over: the worker that ran it, and its label.
    pub(crate) fn end(&self, worker: u32, label: &str, begun: Begun) {
        let Begun { id, ready: (after, ready_ns), start_ns } = begun;
        let name = self.journal.name(label);
        let end_ns = now_ns();
        let row = Event::Task { worker, name, start_ns, end_ns, id, after, ready_ns }.to_row();
        self.journal.note(row);
    }

    /// Somebody outside of tasks has waited since then.
    pub(crate) fn waited(&self, start_ns: u64) {
        self.journal.note(Event::Waited { start_ns, end_ns: now_ns(), run: None }.to_row());
    }
}
