//! What is asked, what is answered.

use super::foreseen::{Foreseen, Slowdown};
use super::resources::{Level, Placement, Slot};
use super::rules::{Policy, Rules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The number of a session; whoever asks gives it, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// What a session needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Processes.
    pub processes: u32,
    /// Slots of each process, all on one node: as many as it has threads.
    pub threads: u32,
    /// Each process gets whole cores, sockets or nodes, and has what is left over of them.
    pub whole: Level,
    /// Memory of each process, in bytes; kept while it is suspended.
    pub memory_bytes: u64,
    /// At most so many processes on a node.
    pub per_node_max: Option<u32>,
    /// Exactly these slots, one a process, in rising order; none where any will do.
    #[serde(default)]
    pub slots: Vec<u32>,
    /// Whose it is: [`Rules::share_users`].
    #[serde(default)]
    pub user: u32,
    /// The higher, the earlier.
    pub priority: i32,
    /// How long it takes at most when nobody disturbs it, in the unit of `now`.
    pub estimate: Option<u64>,
    /// A session that it talks to, or that it was spawned by: neither waits for the other, nor suspends it.
    pub with: Option<SessionId>,
    /// What it runs, in the words of [`Foreseen`].
    pub program: Option<String>,
    /// It does not start beside others where it or one of them would be slowed down by more; where nothing is said, [`Rules::slowdown_max`].
    pub slowdown_max: Option<Slowdown>,
}

impl Request {
    /// `processes` processes of a slot each, of which nothing else is known.
    pub fn new(processes: u32) -> Request {
        Request {
            processes,
            threads: 1,
            whole: Level::Thread,
            memory_bytes: 0,
            per_node_max: None,
            slots: Vec::new(),
            user: 0,
            priority: 0,
            estimate: None,
            with: None,
            program: None,
            slowdown_max: None,
        }
    }

    /// A process on each of these slots, and on no others.
    pub fn exactly(slots: impl IntoIterator<Item = u32>) -> Request {
        let slots: BTreeSet<u32> = slots.into_iter().collect();
        Request { slots: slots.iter().copied().collect(), ..Request::new(slots.len() as u32) }
    }

    /// Whether it asks for slots and nothing else, whichever they are.
    pub(crate) fn is_plain(&self) -> bool {
        let slots_only = self.threads == 1 && self.whole == Level::Thread && self.slots.is_empty();
        slots_only && self.memory_bytes == 0 && self.per_node_max.is_none()
    }
}

/// What a session needs from now on, in the place of what it has said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Processes, of as many slots as before.
    pub processes: u32,
    /// As [`Request::slots`].
    pub slots: Vec<u32>,
    /// As [`Request::memory_bytes`].
    pub memory_bytes: u64,
}

/// What happens to the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants to start one; `MPI_Comm_spawn` is one that is with its parent.
    Request(SessionId, Request),
    /// One has ended, or gives up waiting.
    End(SessionId),
    /// Its user stops it: it stands still, or does not start, until it is resumed.
    Stop(SessionId),
    /// Its user lets it go on, as soon as the policy does.
    Resume(SessionId),
    /// Its priority is another one.
    Priority(SessionId, i32),
    /// Its estimate is another one, counted from its start; none if nobody knows.
    Estimate(SessionId, Option<u64>),
    /// It needs something else: where it waits, for that; where it runs, it gets it at once, or this is refused.
    Needs(SessionId, Needs),
    /// Another policy decides about all sessions, as they are.
    Rules(Rules),
    /// These slots are offline now, and no others: their processors were taken away. Who has some keeps them, and shares what is left
    /// of its nodes until they are back; nobody is given any meanwhile.
    Offline(BTreeSet<Slot>),
    /// What programs do to each other, as far as that is known from now on.
    Foreseen(Foreseen),
    /// By how much a session may be slowed down, and slow down others; without a session, all that say nothing of their own.
    SlowdownMax(Option<SessionId>, Option<Slowdown>),
    /// What a session runs, as has turned out.
    Program(SessionId, Option<String>),
}

/// What has to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start it there.
    Start(SessionId, Placement),
    /// Stop all of its processes; it keeps its slots and its memory.
    Suspend(SessionId),
    /// Let its processes go on, where they were.
    Continue(SessionId),
    /// Pin its processes to other slots, each on its node. What it holds is as it was, or what it has come to need.
    Repin(SessionId, Placement),
}

/// Why an event is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would wait for ever.
    #[error("{wanted} slots are more than there are: all nodes together have {there}")]
    TooManySlots {
        /// Slots that it wants.
        wanted: u64,
        /// Slots of the empty cluster.
        there: u64,
    },
    /// It would wait for ever, although the slots were enough.
    #[error(
        "{processes} processes of {per_process} slots and {memory_bytes} bytes each do not fit even if nothing else runs: \
         {fitting} do; ask for fewer processes, threads or bytes"
    )]
    NeverFits {
        /// Processes wanted.
        processes: u32,
        /// Slots of each.
        per_process: u32,
        /// Memory of each.
        memory_bytes: u64,
        /// How many fit.
        fitting: u32,
    },
    /// No processes, or processes without slots.
    #[error("a session needs at least one process of at least one slot")]
    Nothing,
    /// The number is taken.
    #[error("there is a session {} already", session.0)]
    Exists {
        /// Its number.
        session: SessionId,
    },
    /// Slots by number are for processes of one slot each.
    #[error(
        "slots that are named are in rising order, each once, and each is that of one process of one thread, of which a node may have any number"
    )]
    NotExact,
    /// Others are on the slots that it wants from now on.
    #[error("session {} runs, and {wanted} slots are not free for it {where_}: it keeps what it has", session.0)]
    NotFree {
        /// Its number.
        session: SessionId,
        /// How many it wants in all.
        wanted: u64,
        /// Where they would have to be.
        where_: &'static str,
    },
    /// Its nodes have not so much left.
    #[error("session {} runs, and its nodes have not so much memory left: it keeps what it has", session.0)]
    NoMemory {
        /// Its number.
        session: SessionId,
    },
    /// Its runner says that it has slots which it cannot have.
    #[error("session {} cannot have been started on the processors that its runner says", session.0)]
    NotItsSlots {
        /// Its number.
        session: SessionId,
    },
    /// It has its slots while it stands still, and nothing of it could move.
    #[error("session {} is suspended: what it needs is changed while it waits, or runs", session.0)]
    StandsStill {
        /// Its number.
        session: SessionId,
    },
    /// Its processes have more than a slot each.
    #[error("session {} has processes of several slots, and keeps them", session.0)]
    NotPlain {
        /// Its number.
        session: SessionId,
    },
    /// Nobody has to resume it.
    #[error("session {} is not stopped", session.0)]
    NotStopped {
        /// Its number.
        session: SessionId,
    },
    /// The policy would not have allowed what there is.
    #[error(
        "sessions {} and {} have processors in common, which {policy} gives to one at a time: wait until one has ended, or end one",
        one.0, other.0
    )]
    Shared {
        /// One of them.
        one: SessionId,
        /// Another one.
        other: SessionId,
        /// The policy that was to take over.
        policy: Policy,
    },
    /// The same, where it allows some sharing.
    #[error(
        "session {} has a processor that {crowd} sessions would share, and under {policy} at most {most} do: wait until one has ended, or end one",
        session.0
    )]
    Crowded {
        /// One of those.
        session: SessionId,
        /// How many would.
        crowd: usize,
        /// How many may.
        most: u16,
        /// The policy that was to take over.
        policy: Policy,
    },
    /// The same, of two users.
    #[error(
        "sessions {} and {} of two users have processors in common, or talk to each other, and users are to share none: wait until one has ended, or end one",
        one.0, other.0
    )]
    Users {
        /// One of them.
        one: SessionId,
        /// Another one.
        other: SessionId,
    },
    /// It would talk to somebody else's.
    #[error("session {} is another user's, whose processors this one may not share", session.0)]
    OtherUser {
        /// Its number.
        session: SessionId,
    },
    /// There never was such a slot.
    #[error("there is no slot {slot}: there are {there}, from 0")]
    NoSlot {
        /// Its number.
        slot: u32,
        /// How many there are.
        there: u64,
    },
    /// There is no such session (any more).
    #[error("there is no session {}", session.0)]
    Unknown {
        /// Its number.
        session: SessionId,
    },
}
