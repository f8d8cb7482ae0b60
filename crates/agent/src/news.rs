//! What an agent hears, for how long it does, and who hears it.

use crate::keepers::News as Kept;
use castell_host::descriptor::Peer;
use castell_policy::session::SessionId;
use castell_policy::session::protocol::{Stood, ToAgent};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Of these, those that are not to be stopped for a measurement: other users', and those that have refused.
    pub unprobed: BTreeSet<String>,
}

/// Hears which sessions stand still and which run, whenever these are others.
pub type Watcher = Box<dyn Fn(&Marks) + Send>;

/// Hears for how long a session has stood still, if it has; dropped where it has not.
pub(crate) type Answer = Box<dyn FnOnce(Stood) + Send>;

/// Whoever measures something in this process asks the agent in it to have a session stand still meanwhile.
#[derive(Clone, Default)]
pub struct Stills(Arc<Mutex<Option<Sender<News>>>>);

impl Stills {
    /// Has the only session that runs here, if it is the one with this mark, stand still for so long at most, and calls `answer` when it
    /// goes on; drops it where the session may not be stopped, or there is no agent. It goes on by itself, whatever happens to this process.
    pub fn ask(&self, mark: &str, longest: Duration, answer: impl FnOnce(Stood) + Send + 'static) {
        if let Some(post) = &*self.post() {
            let _ = post.send(News::StandStill(mark.to_owned(), longest, Box::new(answer)));
        }
    }

    /// From now on there is an agent.
    pub(crate) fn begin(&self, post: Sender<News>) {
        *self.post() = Some(post);
    }

    fn post(&self) -> MutexGuard<'_, Option<Sender<News>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    /// The session with this mark is to stand still for so long at most.
    StandStill(String, Duration, Answer),
}
