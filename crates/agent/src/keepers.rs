//! The agent's end of the keepers: one on each node, started again where it dies.

use crate::AgentError;
use crate::allocation::Allocation;
use crate::hear::hear;
use crate::machine::Node;
use castell_policy::session::protocol::{FromKeeper, ToKeeper, VERSION, check_version, encode};
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long nodes may take until castell is started on all of them.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(60);
/// Who does not read for so long is stopped, or dead.
const SENT_WITHIN: Duration = Duration::from_secs(2);
/// A keeper that dies more often than so within a minute is not started again.
const DEATHS_MAX: usize = 3;

/// What the keeper of a node says, and that it has gone, and at which attempt to have one.
pub(crate) enum News {
    Said(usize, FromKeeper),
    Gone(usize, u64),
}

/// All keepers; none on a single host, where runners do it all.
pub(crate) struct Keepers {
    allocation: Option<Allocation>,
    keepers: Vec<Keeper>,
    attempts: u64,
    post: Sender<News>,
}

struct Keeper {
    process: Child,
    stream: UnixStream,
    attempt: u64,
    deaths: Vec<Instant>,
}

impl Keepers {
    /// Where nobody is needed.
    pub(crate) fn none() -> Keepers {
        Keepers { allocation: None, keepers: Vec::new(), attempts: 0, post: channel().0 }
    }

    /// Starts one on each node, and says what these have. `post` hears of them from then on. Sessions of these marks stay there as they
    /// are; others are let go on.
    ///
    /// # Errors
    /// One cannot be started, or does not answer.
    pub(crate) fn start(
        allocation: &Allocation,
        known: &[String],
        forward: impl Fn(News) + Send + 'static,
    ) -> Result<(Keepers, Vec<Node>, Vec<String>), AgentError> {
        let (post, inbox) = channel();
        let mut keepers =
            Keepers { allocation: Some(allocation.clone()), keepers: Vec::new(), attempts: 0, post };
        for node in 0..allocation.nodes.len() {
            let keeper = keepers.start_one(node)?;
            keepers.keepers.push(keeper);
        }
        for node in 0..allocation.nodes.len() {
            keepers.send(node, &ToKeeper::Hello { version: VERSION, known: known.to_vec() });
        }
        let (nodes, abandoned) = keepers.hear_all(&inbox)?;
        thread::spawn(move || inbox.into_iter().for_each(forward));
        Ok((keepers, nodes, abandoned))
    }

    fn hear_all(&self, inbox: &Receiver<News>) -> Result<(Vec<Node>, Vec<String>), AgentError> {
        let names = &self.allocation.as_ref().expect("there are nodes").nodes;
        let mut nodes: Vec<Option<Node>> = vec![None; names.len()];
        let mut all_abandoned = Vec::new();
        let until = Instant::now() + START_WITHIN;
        while let Some(missing) = nodes.iter().position(Option::is_none) {
            let lost = |node: usize, why: String| AgentError::Node { node: names[node].clone(), why };
            match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(News::Said(node, FromKeeper::Hello { version, cores, memory_bytes, abandoned })) => {
                    check_version(version)?;
                    nodes[node] = Some(Node { name: names[node].clone(), cores, memory_bytes });
                    all_abandoned.extend(abandoned);
                }
                Ok(News::Said(..)) => {}
                Ok(News::Gone(node, _)) => return Err(lost(node, "castell did not start there".into())),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(lost(missing, format!("no answer within {} s", START_WITHIN.as_secs())));
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("the sender is here"),
            }
        }
        Ok((nodes.into_iter().flatten().collect(), all_abandoned))
    }

    fn start_one(&mut self, node: usize) -> Result<Keeper, AgentError> {
        let allocation = self.allocation.as_ref().expect("there are nodes");
        let name = &allocation.nodes[node];
        let started = allocation.talk_to(name, &["session", "keeper"], Stdio::inherit());
        let unusable = |source: std::io::Error| AgentError::Node {
            node: name.clone(),
            why: format!("`{}` cannot be run: {source}", allocation.remote[0]),
        };
        let (process, stream) = started.map_err(unusable)?;
        let reading = stream.try_clone().map_err(unusable)?;
        stream.set_write_timeout(Some(SENT_WITHIN)).map_err(unusable)?;
        self.attempts += 1;
        let (attempt, post) = (self.attempts, self.post.clone());
        thread::spawn(move || {
            // Whatever the reason: it is of no more use.
            let _ = hear(reading, |message| post.send(News::Said(node, message)).is_ok());
            let _ = post.send(News::Gone(node, attempt));
        });
        Ok(Keeper { process, stream, attempt, deaths: Vec::new() })
    }

    /// Starts one again that has gone, and tells it which sessions there are; false where that is of no use any more.
    pub(crate) fn start_again(&mut self, node: usize, attempt: u64, known: Vec<String>) -> bool {
        if self.keepers[node].attempt != attempt {
            return true;
        }
        let keeper = &mut self.keepers[node];
        // It may only have closed its connection.
        let _ = keeper.process.kill();
        let _ = keeper.process.wait();
        let mut deaths = std::mem::take(&mut keeper.deaths);
        deaths.retain(|death| death.elapsed() < Duration::from_secs(60));
        deaths.push(Instant::now());
        if deaths.len() > DEATHS_MAX {
            return false;
        }
        let Ok(next) = self.start_one(node) else { return false };
        self.keepers[node] = Keeper { deaths, ..next };
        self.send(node, &ToKeeper::Hello { version: VERSION, known });
        true
    }

    /// Who cannot be told is gone, and the thread that hears it says so.
    pub(crate) fn send(&mut self, node: usize, message: &ToKeeper) {
        let keeper = &mut self.keepers[node];
        if keeper.stream.write_all(&encode(message)).is_err() {
            let _ = keeper.stream.shutdown(Shutdown::Both);
        }
    }

    /// Closes the connections, so that they let everything go on and end.
    pub(crate) fn close(&mut self) {
        for keeper in &self.keepers {
            // One that is closed already needs no more.
            let _ = keeper.stream.shutdown(Shutdown::Both);
        }
    }

    /// Their numbers.
    pub(crate) fn all(&self) -> std::ops::Range<usize> {
        0..self.keepers.len()
    }

    /// What a node is called.
    pub(crate) fn name(&self, node: usize) -> &str {
        self.allocation.as_ref().map_or("", |allocation| &allocation.nodes[node])
    }

    /// What starts a program on a node; nothing on a single host.
    pub(crate) fn remote(&self) -> Vec<String> {
        self.allocation.as_ref().map_or_else(Vec::new, |allocation| allocation.remote.clone())
    }
}
