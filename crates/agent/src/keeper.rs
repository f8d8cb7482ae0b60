//! On each node of an allocation: sees to it that what sessions have there is where it has to be, and stands still or not.
//!
//! What a session starts on other nodes is nobody's descendant there (of `slurmstepd`, `sshd`, …), and is found by the mark in its
//! environment. Whatever ends the connection to the agent: nothing stays stopped.

use crate::AgentError;
use crate::hear::hear;
use crate::machine::Node;
use crate::tree::{Tree, mark_of, numbers};
use castell_policy::session::protocol::{FromKeeper, ToKeeper, VERSION, check_version, encode};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often new processes are looked for while there are sessions.
const LOOK: Duration = Duration::from_millis(100);
/// A new process may still be what started it, and get its mark in so many looks; it is looked after as long.
const LOOKS: u32 = 50;
/// What is left of a session when it has ended gets so long to end.
const GRACE: Duration = Duration::from_secs(5);

/// Does what the agent says on `input`, until that ends.
///
/// # Errors
/// The agent is of another version, or speaks another language.
pub fn keep(input: impl Read + Send + 'static, output: impl Write + Send) -> Result<(), AgentError> {
    let (post, inbox) = channel();
    let own = post.clone();
    thread::spawn(move || {
        // Whatever the reason: there is no agent any more.
        let heard = hear(input, |message| post.send(News::Said(message)).is_ok());
        let _ = post.send(News::Over(heard.err()));
    });
    let mut keeper = Keeper { output, holds: BTreeMap::new(), seen: BTreeMap::new(), post: own };
    let result = loop {
        let patience = if keeper.holds.is_empty() { Duration::MAX } else { LOOK };
        match inbox.recv_timeout(patience) {
            Ok(News::Said(message)) => {
                if let Err(error) = keeper.act(message) {
                    break Err(error);
                }
            }
            Ok(News::Cleaned(mark)) => keeper.say(&FromKeeper::Ended { mark }),
            Ok(News::Over(error)) => break error.map_or(Ok(()), Err),
            Err(RecvTimeoutError::Timeout) => {}
            // It holds an end itself.
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        }
        keeper.look();
    };
    keeper.holds.keys().for_each(|mark| Tree::marked(mark).go_on());
    result
}

enum News {
    Said(ToKeeper),
    Cleaned(String),
    Over(Option<AgentError>),
}

/// How a session's processes have to be.
struct Hold {
    cpus: Vec<u32>,
    suspended: bool,
}

struct Keeper<W> {
    output: W,
    holds: BTreeMap<String, Hold>,
    /// Processes, and how often they have been looked at.
    seen: BTreeMap<i32, u32>,
    post: Sender<News>,
}

impl<W: Write> Keeper<W> {
    fn act(&mut self, message: ToKeeper) -> Result<(), AgentError> {
        match message {
            ToKeeper::Hello { version, known } => {
                check_version(version)?;
                // What an agent and its keeper left that were killed together.
                let marks = Tree::marks().into_iter().filter(|mark| !known.contains(mark));
                marks.for_each(|mark| Tree::marked(&mark).go_on());
                let abandoned = Tree::abandoned().iter().map(|tree| tree.mark().to_owned()).collect();
                let Node { cores, memory_bytes, .. } = Node::here();
                self.say(&FromKeeper::Hello { version: VERSION, cores, memory_bytes, abandoned });
            }
            ToKeeper::Hold { mark, cpus, suspended, turn } => {
                let tree = Tree::marked(&mark);
                let before = self.holds.insert(mark, Hold { cpus: cpus.clone(), suspended });
                let moved = before.as_ref().is_none_or(|before| before.cpus != cpus);
                if suspended {
                    tree.stop();
                }
                match (moved, cpus.is_empty()) {
                    (_, true) => {}
                    (true, false) => tree.pin(&cpus),
                    (false, false) => tree.fit(&cpus),
                }
                if !suspended && before.is_some_and(|before| before.suspended) {
                    tree.go_on();
                }
                self.say(&FromKeeper::Done { turn });
            }
            ToKeeper::End { mark } => {
                self.holds.remove(&mark);
                let post = self.post.clone();
                thread::spawn(move || {
                    Tree::marked(&mark).end(GRACE);
                    // Nobody minds where the keeper has ended meanwhile.
                    let _ = post.send(News::Cleaned(mark));
                });
            }
        }
        Ok(())
    }

    /// Looks for processes of sessions that nobody on this node has started.
    fn look(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let before = std::mem::take(&mut self.seen);
        let mut due: Vec<String> = Vec::new();
        for pid in numbers("/proc") {
            let looks = before.get(&pid).copied().unwrap_or(0);
            self.seen.insert(pid, looks.saturating_add(1).min(LOOKS));
            // Not only once: a library that looks at the processors when its program starts (hwloc, in most MPIs) binds itself to each,
            // and then to what it had before.
            if looks < LOOKS
                && let Some(mark) = mark_of(pid).filter(|mark| self.holds.contains_key(mark))
            {
                due.push(mark);
            }
        }
        due.sort_unstable();
        due.dedup();
        for mark in due {
            let (tree, hold) = (Tree::marked(&mark), &self.holds[&mark]);
            if !hold.cpus.is_empty() {
                tree.keep_on(&hold.cpus);
            }
            if hold.suspended {
                tree.stop();
            }
        }
    }

    /// An agent that does not hear any more is noticed where it should be heard.
    fn say(&mut self, message: &FromKeeper) {
        let _ = self.output.write_all(&encode(message)).and_then(|()| self.output.flush());
    }
}
