//! An agent's beginning and end: one thread hears each runner and each keeper, [`Agent`] decides about all that they say.

use crate::agent::Agent;
use crate::hear::hear;
use crate::keepers::{Keepers, News as Kept};
use crate::machine::{Machine, Node};
use crate::{AgentError, Allocation, Place};
use castell_policy::session::protocol::{FromAgent, ToAgent, encode};
use castell_policy::session::{Rules, SessionId};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Keeps the sessions of a place until none has been there for `idle`: of this host, or of all nodes of an allocation. Returns at once
/// where another agent does that already.
///
/// # Errors
/// The socket cannot be had, or a node cannot be reached any more. A node that cannot be reached in the first place is told to whoever
/// asks for a session.
pub fn serve(
    place: &Place,
    rules: Rules,
    idle: Duration,
    allocation: Option<&Allocation>,
) -> Result<(), AgentError> {
    let lock = File::create(place.lock()).map_err(AgentError::system("make the agent's lock"))?;
    match rustix::fs::flock(lock.as_fd(), rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
        result => result.map_err(|error| AgentError::system("lock the agent's place")(error.into()))?,
    }
    // Left by an agent that died: the lock says that none lives.
    let _ = fs::remove_file(&place.socket);
    let (post, inbox) = channel();
    let news = post.clone();
    let forward = move |kept| drop(news.send(News::Kept(kept)));
    let started = match allocation {
        None => Ok((Keepers::none(), vec![Node::here()], Vec::new())),
        Some(allocation) => Keepers::start(allocation, forward),
    };
    let listener = UnixListener::bind(&place.socket)
        .map_err(AgentError::system(format!("listen at {}", place.socket.display())))?;
    let news = post.clone();
    thread::spawn(move || listen(&listener, &news));
    // Nobody may have a session where a node does not answer in the first place; if it is lost later, the next agent tries again.
    let started = started.inspect_err(|error| refuse_all(&inbox, &error.to_string(), idle));
    let result = started.and_then(|(keepers, nodes, abandoned)| {
        let machine = Machine::new(nodes).ok_or(AgentError::NoProcessors)?;
        let mut agent = Agent::new(machine, keepers, rules, post);
        agent.clean(&abandoned);
        agent.work(&inbox, idle).inspect_err(|_| agent.let_go())
    });
    let _ = fs::remove_file(&place.socket);
    result
}

/// Tells whoever asks why there can be no session, for so long.
fn refuse_all(inbox: &Receiver<News>, reason: &str, time: Duration) {
    let until = Instant::now() + time;
    let mut streams = BTreeMap::new();
    while let Ok(news) = inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match news {
            News::Came(client, stream) => drop(streams.insert(client, stream)),
            News::Said(client, ToAgent::Hello { .. }) => {
                if let Some(mut stream) = streams.remove(&client) {
                    // Who has gone away needs no reason.
                    let _ = stream.write_all(&encode(&FromAgent::Refused { reason: reason.into() }));
                }
            }
            _ => {}
        }
    }
}

/// What the deciding thread hears.
pub(crate) enum News {
    Came(u64, UnixStream),
    Said(u64, ToAgent),
    /// The connection is closed, or speaks another language.
    Gone(u64),
    /// Nothing is left on this host of a session that has ended.
    Cleaned(SessionId),
    /// From a keeper.
    Kept(Kept),
}

fn listen(listener: &UnixListener, news: &Sender<News>) {
    for (client, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { continue };
        let own = castell_host::descriptor::own_user();
        if castell_host::descriptor::peer_user(stream.as_fd()).ok() != Some(own) {
            continue;
        }
        let Ok(reading) = stream.try_clone() else { continue };
        let news = news.clone();
        if news.send(News::Came(client, stream)).is_err() {
            return;
        }
        thread::spawn(move || {
            // Whatever the reason: the connection is of no more use.
            let _ = hear(reading, |message| news.send(News::Said(client, message)).is_ok());
            let _ = news.send(News::Gone(client));
        });
    }
}
