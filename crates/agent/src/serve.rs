//! An agent's beginning and end: one thread hears each runner and each keeper, [`Agent`] decides about all that they say.

use crate::agent::Agent;
use crate::connection::ask_to_hand_over;
use crate::keepers::Keepers;
use crate::listen::{listen, open_to};
use crate::machine::{Machine, Node};
use crate::news::{Life, News, Stills, Watcher};
use crate::sessions::{Books, Sessions};
use crate::store::Store;
use crate::{AgentError, Allocation, Foresight, Place};
use castell_host::say;
use castell_host::users::Others;
use castell_policy::session::Rules;
use castell_policy::session::protocol::{FromAgent, ToAgent, encode};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What an agent needs.
pub struct Options<'a> {
    /// Where it listens.
    pub place: &'a Place,
    /// The policy at the beginning, if no other agent has left sessions. Only its own user sets another one.
    pub rules: Rules,
    /// Who may have sessions here, beside its own user.
    pub others: Others,
    /// How long it keeps sessions.
    pub life: Life,
    /// The nodes of the sessions; none for this host.
    pub allocation: Option<&'a Allocation>,
    /// Who wants to know which sessions stand still.
    pub watcher: Option<Watcher>,
    /// Who knows what programs do to each other, if anybody does.
    pub foresight: Option<Box<dyn Foresight>>,
    /// Who has sessions stand still for a moment, if anybody does.
    pub stills: Option<Stills>,
    /// Called when it listens.
    pub ready: Box<dyn FnOnce() + Send>,
}

/// Keeps the sessions of a place: of this host, or of all nodes of an allocation. Goes on from where another agent was killed, or has handed
/// over: what runs goes on running, what is suspended stays so until its turn comes.
///
/// # Errors
/// The socket cannot be had, or a node cannot be reached any more. A node that cannot be reached in the first place is told to whoever
/// asks for a session.
pub fn serve(options: Options) -> Result<(), AgentError> {
    let Options { place, rules, others, life, allocation, watcher, foresight, stills, ready } = options;
    let Some(_lock) = lock(place, life)? else { return Ok(()) };
    // Left by an agent that died: the lock says that none lives.
    let _ = fs::remove_file(&place.socket);
    let store = Store::of_books(place.books());
    let books: Result<Option<Books>, String> = store.read();
    let are_lost = books.as_ref().inspect_err(|reason| say(reason)).is_err();
    let books = books.ok().flatten().filter(Books::is_of_now);
    let (post, inbox) = channel();
    stills.iter().for_each(|stills| stills.begin(post.clone()));
    let news = post.clone();
    let forward = move |kept| drop(news.send(News::Kept(kept)));
    let started = match allocation {
        None => Ok((Keepers::none(), vec![Node::here()], Vec::new())),
        Some(allocation) => {
            let known = books.as_ref().map_or_else(Vec::new, Books::marks);
            Keepers::start(allocation, &known, forward)
        }
    };
    let listener = UnixListener::bind(&place.socket)
        .map_err(AgentError::system(format!("listen at {}", place.socket.display())))?;
    open_to(&place.socket, &others)?;
    ready();
    let news = post.clone();
    thread::spawn(move || listen(&listener, &others, &news));
    // Nobody may have a session where a node does not answer in the first place; if it is lost later, the next agent tries again.
    let started = started.inspect_err(|error| refuse_all(&inbox, &error.to_string(), life));
    let result = started.and_then(|(keepers, nodes, abandoned)| {
        let machine = Machine::new(nodes).ok_or(AgentError::NoProcessors)?;
        let mut agent = Agent::new(Sessions::new(machine, keepers, rules, post, foresight), store);
        agent.clean(&abandoned);
        if are_lost {
            agent.lose_books();
        }
        books.into_iter().for_each(|books| agent.restore(books));
        agent.work(&inbox, life, watcher.as_ref()).inspect_err(|error| agent.let_go(&error.to_string()))
    });
    let _ = fs::remove_file(&place.socket);
    result
}

/// Held as long as an agent lives; none where another one does, and this one is not to last.
fn lock(place: &Place, life: Life) -> Result<Option<File>, AgentError> {
    let lock = File::create(place.lock()).map_err(AgentError::system("make the agent's lock"))?;
    let take = |how| rustix::fs::flock(lock.as_fd(), how);
    let taken = match (take(FlockOperation::NonBlockingLockExclusive), life) {
        (Err(Errno::WOULDBLOCK), Life::Idle(_)) => return Ok(None),
        (Err(Errno::WOULDBLOCK), Life::Lasting) => {
            if let Err(error) = ask_to_hand_over(place) {
                say(&format!("whoever keeps the sessions now does so until they have ended ({error})"));
            }
            take(FlockOperation::LockExclusive)
        }
        (taken, _) => taken,
    };
    taken.map_err(|error| AgentError::system("lock the agent's place")(error.into()))?;
    Ok(Some(lock))
}

/// Tells whoever asks why there can be no session, for so long.
fn refuse_all(inbox: &Receiver<News>, reason: &str, life: Life) {
    let until = life.after(Instant::now());
    let mut streams = BTreeMap::new();
    let left = || until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
    while let Ok(news) = inbox.recv_timeout(left()) {
        match news {
            News::Came(client, stream, _) => drop(streams.insert(client, stream)),
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
