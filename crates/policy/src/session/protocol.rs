//! What an agent that keeps the sessions of an allocation and those who run them say to each other: a line of JSON each, the first
//! from each side a greeting with the version. Knows of no socket: whoever has one puts bytes into [`Lines`] and takes messages out.
//!
//! A runner asks with [`ToAgent::Run`] and hears [`FromAgent::Start`], at once or later; from then on it carries out what it is told,
//! and says [`ToAgent::Done`] when a suspension or a move is complete, so that others can start. It ends with [`ToAgent::Ended`], by itself
//! or after [`FromAgent::End`];
//! a connection that closes without it means that the runner died, and the agent ends what that left. Where it is the agent that
//! dies, or hands over, runners keep their sessions as they are and come to the next one with [`ToAgent::Return`].
//!
//! Where an allocation has nodes, a *keeper* on each does the same to what a session has there: it hears with [`ToKeeper::Hold`] how
//! the processes of a session have to be, whenever that changes, and again all of it when it had to be started anew.

use super::foreseen::Slowdown;
pub use super::predicted::{Beside, HeldBack, Predicted};
use super::request::Request;
use serde::{Deserialize, Serialize};

/// This version; another one is refused.
pub const VERSION: u32 = 9;
/// Longer lines are refused.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// From whoever runs a session, or asks about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToAgent {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Wants to run a session.
    Run(Box<Wanted>),
    /// Runs a session that it has asked another agent for, of which this one has the books; [`FromAgent::Returned`] says that it has.
    Return {
        /// Which.
        mark: String,
        /// Whether it was told to start it.
        started: bool,
        /// Whether its processes stand still, since it was told so.
        suspended: bool,
        /// Whether somebody has stopped the runner.
        paused: bool,
        /// Where they are.
        parts: Vec<Part>,
        /// All else that it knows, for an agent that has lost the books.
        known: Box<Known>,
    },
    /// Keeps sessions itself from now on: the agent ends, and leaves all as it is.
    HandOver {},
    /// The last suspension or move is complete.
    Done {},
    /// Its session has stood still for a moment, as [`FromAgent::StandStill`] wanted; or has not, and why is nobody's business.
    Stood(Option<Stood>),
    /// Somebody has stopped the runner, as Ctrl-Z does, or lets it go on.
    Paused {
        /// Whether it stands still from now on.
        paused: bool,
    },
    /// Is a process of a session without a runner, until the connection closes.
    Join {
        /// Which.
        mark: String,
    },
    /// The session has ended, and nothing of it is left below its runner.
    Ended {},
    /// Wants to know all sessions.
    List {},
    /// Wants something done to a session; [`FromAgent::Ordered`] says that it is, or [`FromAgent::Refused`] why it cannot be.
    Order {
        /// Which.
        session: u64,
        /// What.
        order: Order,
    },
    /// Wants another policy for all sessions as they are; answered alike.
    Policy {
        /// Its name.
        policy: String,
    },
    /// Workers of a session's programs were taken away by hand, or given back: as many of the others have to run as it has processors;
    /// answered like an order.
    Count {
        /// Which.
        mark: String,
    },
    /// Wants another limit for all sessions that say nothing of their own; answered alike.
    SlowdownMax {
        /// By which factor they may be slowed down, and slow down others; none for any.
        slowdown_max: Option<Slowdown>,
    },
    /// Wants to know why a session waits, or where it runs.
    Explain {
        /// Which.
        session: u64,
    },
}

/// What a user does to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// It stands still, or does not start, until it is resumed.
    Stop {},
    /// It goes on, or may start.
    Resume {},
    /// It ends: its processes are asked to, and killed a while later.
    End {},
    /// From now on it has this priority.
    Priority {
        /// The higher, the earlier.
        priority: i32,
    },
    /// How long it takes at most.
    Estimate {
        /// In milliseconds of running; none if nobody knows.
        estimate_ms: Option<u64>,
    },
    /// It does not start beside others where it or one of them would be slowed down by more.
    SlowdownMax {
        /// By which factor; none for what all are allowed.
        slowdown_max: Option<Slowdown>,
    },
    /// It needs something else than it has said; what is none stays.
    Needs {
        /// So many processors, whichever they are.
        slots: Option<u32>,
        /// Exactly these.
        cpus: Option<Named>,
        /// Bytes of memory in all.
        memory_bytes: Option<u64>,
    },
}

/// Processors of a node by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name; none where there is only one.
    pub node: Option<String>,
    /// Their numbers there.
    pub cpus: Vec<u32>,
}

/// What a runner knows of a session that was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Its number, if it was told one.
    pub session: Option<u64>,
    /// What was asked for.
    pub wanted: Wanted,
    /// Where it was started, or what it was given since; where it is may be elsewhere.
    pub home: Vec<Part>,
}

/// A session that somebody wants to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Processors; 0 for all that there are, or as many as are named.
    pub slots: u32,
    /// Exactly these; none where any will do.
    #[serde(default)]
    pub cpus: Option<Named>,
    /// Bytes of memory in all.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The higher, the earlier.
    #[serde(default)]
    pub priority: i32,
    /// How long it takes at most, in milliseconds.
    pub estimate_ms: Option<u64>,
    /// A session that it talks to.
    pub with: Option<u64>,
    /// The policy that it expects; none takes what there is.
    pub policy: Option<String>,
    /// What it runs, for people.
    pub command: String,
    /// The SHA-256 of the program's file, in hexadecimal digits, as far as that is known before it runs.
    #[serde(default)]
    pub program: Option<String>,
    /// It does not start beside others where it or one of them would be slowed down by more; none for what all are allowed.
    #[serde(default)]
    pub slowdown_max: Option<Slowdown>,
    /// It is not to be stopped for a moment in order to measure something.
    #[serde(default)]
    pub unprobed: bool,
    /// The process that runs it.
    pub pid: u32,
    /// What its processes have in their environment (`CASTELL_SESSION`).
    pub mark: String,
    /// The mark of the session whose program spawns this one: it has no runner, and lasts as long as anybody has joined it.
    pub spawned_by: Option<String>,
    /// The folders of the control groups in which its runner keeps its processes.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Why none of them limits its memory; none where one does, or that is not known.
    #[serde(default)]
    pub unlimited: Option<String>,
}

impl Wanted {
    /// What the scheduler hears of it: a process a slot, with its part of the memory. `named` are the slots of the processors that it names.
    pub fn request(&self, named: Vec<u32>) -> Request {
        Request {
            slots: named,
            memory_bytes: self.memory_bytes / u64::from(self.slots.max(1)),
            priority: self.priority,
            estimate: self.estimate_ms,
            with: self.with.map(super::SessionId),
            program: self.program.clone(),
            slowdown_max: self.slowdown_max,
            ..Request::new(self.slots)
        }
    }
}

/// From the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromAgent {
    /// Its first message.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// It cannot be, and why.
    Refused {
        /// A sentence.
        reason: String,
    },
    /// The session waits.
    Waits {
        /// Its number.
        session: u64,
    },
    /// The agent has the session in its books; what has to be another way is told next.
    Returned {
        /// Its number.
        session: u64,
    },
    /// Start on these processors.
    Start {
        /// Its number.
        session: u64,
        /// Node by node.
        parts: Vec<Part>,
        /// What starts a program on a node, in words of which one has `{host}`; none on a single host.
        remote: Vec<String>,
    },
    /// Stop all of its processes.
    Suspend {},
    /// Let them go on.
    Continue {},
    /// Move them to these processors.
    Repin {
        /// Node by node.
        parts: Vec<Part>,
        /// What the session has, wherever it is.
        home: Vec<Part>,
    },
    /// Let all of its processes stand still for a moment, and go on by itself: whoever is measured meanwhile is measured without them. The moment is
    /// over before that if anybody has something to say to the runner, or is gone. Answered with [`ToAgent::Stood`].
    StandStill {
        /// Microseconds, at most.
        longest_us: u64,
    },
    /// End it.
    End {},
    /// Let it go on by itself: the agent cannot go on, and no other one will.
    LetGo {
        /// A sentence.
        reason: String,
    },
    /// An order is carried out.
    Ordered {
        /// The policy.
        policy: String,
        /// What sessions are allowed that say nothing of their own.
        slowdown_max: Option<Slowdown>,
        /// The session as it is now; none if it has ended, and where all were meant.
        session: Option<Box<Shown>>,
    },
    /// What there is to say about a session.
    Explained(Box<Explained>),
    /// All sessions.
    Sessions {
        /// The policy.
        policy: String,
        /// What sessions are allowed that say nothing of their own.
        slowdown_max: Option<Slowdown>,
        /// By number.
        sessions: Vec<Shown>,
    },
}

/// For how long a session has stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stood {
    /// All of it stood still from here,
    pub from_ns: u64,
    /// to here. Nanoseconds of the host's monotonic clock.
    pub until_ns: u64,
    /// Nanoseconds that it cost: also those in which it was being stopped, or let go on.
    pub cost_ns: u64,
}

/// What a session has on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The node's name.
    pub node: String,
    /// Numbers of its processors, each once.
    pub cpus: Vec<u32>,
    /// How many slots these are for the session: processors that it shares with itself count several times.
    pub slots: u32,
}

/// From the agent to its keeper on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToKeeper {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Marks of the sessions that there are; others are let go on.
        known: Vec<String>,
    },
    /// From now on a session's processes here have to be so.
    Hold {
        /// Which.
        mark: String,
        /// Where they are pinned; nowhere if there are none.
        cpus: Vec<u32>,
        /// Whether they stand still.
        suspended: bool,
        /// To be answered with when it is so.
        turn: u64,
    },
    /// The session has ended: so do its processes here.
    End {
        /// Which.
        mark: String,
    },
}

/// From a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromKeeper {
    /// Its first message.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Its processors, core by core.
        cores: Vec<Vec<u32>>,
        /// Its memory.
        memory_bytes: u64,
        /// Sessions of which something lives here although the runner, which was here, does not.
        abandoned: Vec<String>,
    },
    /// A session's processes are as they have to be.
    Done {
        /// Of [`ToKeeper::Hold`].
        turn: u64,
    },
    /// Nothing of a session is left here.
    Ended {
        /// Which.
        mark: String,
    },
}

/// What keeps a session's processes on their processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinnedBy {
    /// That of a control group, which nobody can leave.
    Cpuset,
    /// The masks of their threads, which programs may change.
    Affinity,
}

/// Memory that a session has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Bytes in all.
    pub bytes: u64,
    /// Whether its processes cannot have more: else it is only counted.
    pub limited: bool,
    /// Why it is not; a part of a sentence.
    pub because: Option<String>,
}

/// What stops a session's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// That of a control group: all at once, and nobody is told.
    Freezer,
    /// `SIGSTOP`, to one after another.
    Signals,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// Its number.
    pub session: u64,
    /// `waiting`, `running`, `suspended` or `ending`.
    pub state: String,
    /// Whether its user has stopped it with [`Order::Stop`].
    pub stopped: bool,
    /// Whether somebody has stopped its runner, as Ctrl-Z does.
    pub paused: bool,
    /// Whether its runner has not come back after its last agent had gone: then all is as that one has left it.
    pub awaited: bool,
    /// For how long its state has been so.
    pub for_ms: u64,
    /// Slots that it wants, or has.
    pub slots: u32,
    /// Which ones it wants; none where any will do.
    pub cpus: Option<Named>,
    /// The higher, the earlier.
    pub priority: i32,
    /// Where its processes are pinned, node by node; nowhere while it waits.
    pub parts: Vec<Part>,
    /// The class of what it runs, N, C or S, as far as anything was counted of it or its profile is kept.
    pub class: Option<String>,
    /// How much it is slowed down by those beside it, as far as anything was learned of them; none where it does not run.
    pub slowdown: Option<Predicted>,
    /// By which factor it may be slowed down, and slow down others, by what it or all are allowed.
    pub slowdown_max: Option<Slowdown>,
    /// What keeps them there.
    pub pinned_by: PinnedBy,
    /// What stops them.
    pub stopped_by: StoppedBy,
    /// The memory that it has asked for; none where it has not.
    pub memory: Option<Memory>,
    /// The process that runs it.
    pub pid: u32,
    /// Whose it is.
    pub user: String,
    /// What it runs; of other users' sessions nobody is told.
    pub command: String,
}

/// What there is to say about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// As it is in a list.
    pub shown: Shown,
    /// The policy.
    pub policy: String,
    /// How long it takes at most, by what was said of it.
    pub estimate_ms: Option<u64>,
    /// How long it has run.
    pub ran_ms: u64,
    /// Slots on which nothing runs.
    pub free: u64,
    /// Slots whose processors were taken away.
    pub offline: u64,
    /// Slots that have one.
    pub online: u64,
    /// Slots that it could share if those who run there were not other users' sessions; none of a session that does not wait.
    pub of_other_users: u64,
    /// The processors that were taken away.
    pub gone: Vec<u32>,
    /// What it has, where it was started, wherever it is now and whatever of it was taken away; nothing while it waits.
    pub home: Vec<Part>,
    /// Whose turn comes before its own, if it waits.
    pub before: Vec<u64>,
    /// Who has slots, if it waits; else who has some of its own as well, or is on the same processors.
    pub holders: Vec<Holder>,
    /// Who runs on the same nodes, on whatever processors; if it waits, those beside whom it does not start.
    pub beside: Vec<Beside>,
    /// Who would be slowed down too much if it started now, where it has to wait because of that.
    pub held_back: Vec<HeldBack>,
    /// When it starts or goes on, if all take as long as was said of them and nobody comes.
    pub begins_in_ms: Option<u64>,
    /// How often others have suspended it.
    pub suspensions: u32,
    /// The last of those, the last one last.
    pub suspended_by: Vec<u64>,
    /// How often its user has stopped it.
    pub stops: u32,
}

/// A session that has slots which another one would like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Its number.
    pub session: u64,
    /// `running` or `suspended`.
    pub state: String,
    /// How many slots.
    pub slots: u64,
    /// How long it needs at most, if that is known.
    pub left_ms: Option<u64>,
    /// What it runs.
    pub command: String,
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Not one of the messages.
    #[error("not a message of this protocol: {0}")]
    Message(String),
    /// No end of line in sight.
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The other side is older or newer.
    #[error(
        "the other side speaks version {theirs} of the protocol, this one {VERSION}: end all sessions, and use one castell for all"
    )]
    Version {
        /// Its version.
        theirs: u32,
    },
}

/// Writes a message with its end of line.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have text for keys");
    line.push(b'\n');
    line
}

/// Reads a line without its end.
///
/// # Errors
/// It is no message.
pub fn decode<'a, M: Deserialize<'a>>(line: &'a [u8]) -> Result<M, ProtocolError> {
    serde_json::from_slice(line).map_err(|error| ProtocolError::Message(error.to_string()))
}

/// Checks the version of a greeting.
///
/// # Errors
/// It is another one.
pub fn check_version(theirs: u32) -> Result<(), ProtocolError> {
    if theirs == VERSION { Ok(()) } else { Err(ProtocolError::Version { theirs }) }
}

/// Bytes that came, cut into lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Adds what came.
    ///
    /// # Errors
    /// Too much without an end of line: whoever sends it does not speak this protocol.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > LINE_BYTES_MAX && !self.bytes[..LINE_BYTES_MAX].contains(&b'\n') {
            return Err(ProtocolError::TooLong);
        }
        Ok(())
    }

    /// Whether there is a whole line.
    pub fn has_line(&self) -> bool {
        self.bytes.contains(&b'\n')
    }

    /// Takes the next whole line.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        let wanted = Wanted { slots: 3, command: "a\nb".into(), with: Some(4), ..Wanted::default() };
        let messages = [
            ToAgent::Hello { version: VERSION },
            ToAgent::Run(Box::new(wanted)),
            ToAgent::Order { session: 4, order: Order::Priority { priority: -1 } },
            ToAgent::Done {},
        ];
        let mut lines = Lines::default();
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        // However it is torn apart on its way.
        bytes.chunks(5).for_each(|part| lines.push(part).expect("lines are short"));
        let read: Vec<ToAgent> =
            std::iter::from_fn(|| lines.next_line()).map(|line| decode(&line).expect("a message")).collect();
        assert_eq!(read, messages);
        assert_eq!(encode(&FromAgent::Suspend {}), b"{\"suspend\":{}}\n");
    }

    #[test]
    fn strangers_are_refused() {
        assert!(decode::<ToAgent>(b"GET / HTTP/1.1").is_err());
        assert!(decode::<ToAgent>(br#"{"hello":{"version":1,"x":2}}"#).is_err());
        assert_eq!(check_version(VERSION + 1), Err(ProtocolError::Version { theirs: VERSION + 1 }));
        let mut lines = Lines::default();
        assert_eq!(lines.push(&vec![b'x'; LINE_BYTES_MAX + 1]), Err(ProtocolError::TooLong));
    }
}
