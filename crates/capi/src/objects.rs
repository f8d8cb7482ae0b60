//! Everything that C programs hold, in one place: the tables, and what is said about ids that lead nowhere.

use crate::error::Error;
use crate::registry::{Full, Kind, PLACES_MAX, Table, Unknown};
use crate::types::Code;
use castell_comm::collective::{Custom, RawRequest};
use castell_comm::pool::SharedBuffer;
use castell_comm::{Communicator, Failure, Handle};
use castell_goal::graph::Graph;
use castell_goal::schedule::Schedule;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// A graph and what became of it.
pub(crate) struct GraphObject {
    pub(crate) graph: Graph,
    /// High half of its vertices, by which vertices of other graphs are noticed.
    pub(crate) mark: u32,
    /// The first thing that could not be added: such a graph is never compiled.
    pub(crate) broken: Option<Error>,
}

/// What a handle stands for. A run that ended well needs no entry: its handle is over and stays so.
pub(crate) enum Run {
    Going(Handle),
    Failed(Failure),
}

/// A communicator. What never changes is beside the lock, which is held for as long as a call lasts.
pub(crate) struct Group {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) communicator: Mutex<Communicator>,
}

impl Group {
    pub(crate) fn new(communicator: Communicator) -> Group {
        let (rank, size) = (communicator.rank().0, communicator.size());
        Group { rank, size, communicator: Mutex::new(communicator) }
    }
}

/// A collective call that goes on, or that was prepared.
pub(crate) struct Request {
    pub(crate) request: RawRequest,
    pub(crate) is_persistent: bool,
}

pub(crate) static GRAPHS: Table<GraphObject> = Table::new(Kind::Graph);
pub(crate) static SCHEDULES: Table<Arc<Schedule>> = Table::new(Kind::Schedule);
pub(crate) static RUNS: Table<Run> = Table::new(Kind::Handle);
pub(crate) static COMMUNICATORS: Table<Arc<Group>> = Table::new(Kind::Communicator);
pub(crate) static REQUESTS: Table<Request> = Table::new(Kind::Request);
pub(crate) static OPERATORS: Table<Custom> = Table::new(Kind::Operator);
/// All ranks, while the process belongs to the group.
pub(crate) static WORLD: Mutex<Option<Communicator>> = Mutex::new(None);
/// Memory of `castell_alloc`, by address. It stays until it is given back, also beyond the group's end.
pub(crate) static MEMORY: LazyLock<Mutex<HashMap<usize, SharedBuffer<u8>>>> = LazyLock::new(Mutex::default);

/// Forgets whatever belongs to the group, which was left.
pub(crate) fn forget_all() {
    RUNS.clear();
    REQUESTS.clear();
    COMMUNICATORS.clear();
    *lock(&WORLD) = None;
    OPERATORS.clear();
    SCHEDULES.clear();
    GRAPHS.clear();
}

/// A panic under a lock was reported to the caller; the object behind it is still one.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says what is wrong with an id.
#[cold]
pub(crate) fn unknown(kind: Kind, why: Unknown) -> Error {
    let (code, what) = match kind {
        Kind::Graph => (Code::Graph, "graph"),
        Kind::Schedule => (Code::Schedule, "schedule"),
        Kind::Handle => (Code::Handle, "handle"),
        Kind::Communicator => (Code::Handle, "communicator"),
        Kind::Request => (Code::Handle, "request"),
        Kind::Operator => (Code::Operation, "operator"),
    };
    let message = match (why, kind) {
        (Unknown::Null, Kind::Communicator) => "the communicator is NULL: this rank is no member".to_owned(),
        (Unknown::Null, _) => format!("the {what} is NULL: the call that should have made it failed"),
        (Unknown::Foreign, _) => format!("this is no {what} of this process"),
        (Unknown::Gone, Kind::Request) => "the request is over, or was freed".to_owned(),
        (Unknown::Gone, _) => format!("the {what} was freed before"),
    };
    Error::new(code, message)
}

/// A table is full.
#[cold]
pub(crate) fn too_many(what: &str) -> impl FnOnce(Full) -> Error {
    move |Full| {
        Error::new(
            Code::Limit,
            format!("there are {PLACES_MAX} {what} already; free what is not used any more"),
        )
    }
}
