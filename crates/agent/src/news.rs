//! What an agent hears, for how long it does, and who hears it.

use crate::keepers::News as Kept;
use castell_host::descriptor::Peer;
use castell_policy::session::SessionId;
use castell_policy::session::protocol::ToAgent;
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long an agent keeps sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until there has been none for so long; where another agent keeps them already, not at all.
    Idle(Duration),
    /// As long as the process lives; whoever keeps them so far hands over, if it can.
    Lasting,
}

impl Life {
    /// When it ends, if there has been nothing to do since `quiet`.
    pub(crate) fn after(self, quiet: Instant) -> Option<Instant> {
        match self {
            Life::Idle(time) => quiet.checked_add(time),
            Life::Lasting => None,
        }
    }
}

/// The sessions of an agent that have processes, by their marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Those that stand still.
    pub standing: BTreeSet<String>,
    /// Those that run, on this host at least.
    pub running: BTreeSet<String>,
}

/// Hears which sessions stand still and which run, whenever these are others.
pub type Watcher = Box<dyn Fn(&Marks) + Send>;

/// What the deciding thread hears.
pub(crate) enum News {
    Came(u64, UnixStream, Peer),
    Said(u64, ToAgent),
    /// The connection is closed, or speaks another language.
    Gone(u64),
    /// Nothing is left on this host of a session that has ended.
    Cleaned(SessionId),
    /// From a keeper.
    Kept(Kept),
}
