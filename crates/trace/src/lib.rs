//! Timelines out: what happened when, as files that people and viewers read.
//!
//! This room turns spans and messages into text; it knows nothing of graphs, clocks or files. Start at [`Timeline`].
#![forbid(unsafe_code)]

mod chrome;

pub use chrome::write_chrome;

use castell_base::Rank;

/// What a span's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A message on its way out.
    Send,
    /// Waiting for a message and taking it in.
    Recv,
    /// Computing.
    Compute,
    /// Anything else: local operations, time stamps, one-sided operations.
    Other,
}

impl Activity {
    /// The word for it, as viewers show it.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Send => "send",
            Activity::Recv => "recv",
            Activity::Compute => "compute",
            Activity::Other => "other",
        }
    }
}

/// One operation of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub rank: Rank,
    /// What is written on it.
    pub name: String,
    /// What it is.
    pub activity: Activity,
    /// Start, in nanoseconds from the timeline's zero.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// A message from one rank to another: an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Sender.
    pub from: Rank,
    /// When its send started. Nanoseconds.
    pub sent_ns: u64,
    /// Receiver.
    pub to: Rank,
    /// When its receive was finished. Nanoseconds.
    pub received_ns: u64,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Shown as its title.
    pub title: String,
    /// How many ranks.
    pub ranks: u32,
    /// What they did.
    pub spans: Vec<Span>,
    /// What they sent.
    pub messages: Vec<Message>,
}
