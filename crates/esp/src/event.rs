//! What an endpoint tells and counts.

use crate::frame::{Address, Communicator};

/// A connection of one endpoint. Those that were released are never mixed up with later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Something that a connection has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which one.
    pub connection: Handle,
    /// What.
    pub what: What,
}

/// What has happened. `Closed` or `Down` comes once, last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A peer has connected.
    Accepted {
        /// From where.
        from: Address,
        /// For what.
        communicator: Communicator,
    },
    /// The connection that was asked for is there.
    Connected,
    /// Something whole has come, or much: told again when more does, whatever was left of it.
    Readable,
    /// There is room for what was refused.
    Room,
    /// The peer sends nothing any more, and all that it sent is there to be read.
    Finished,
    /// Both sides have everything, and have closed.
    Closed,
    /// The connection is over, and what was under way may be lost. What has come in order can still be read.
    Down(Why),
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The peer takes no more connections.
    #[error("the peer takes no more connections")]
    Refused,
    /// Nobody answered.
    #[error("nobody answered: is the address right, and does the same network reach both?")]
    NoAnswer,
    /// The peer knows of no such connection (any more).
    #[error("the peer has ended the connection, or has started anew")]
    Reset,
    /// Another process has taken the peer's place.
    #[error("the peer has started anew")]
    Restarted,
    /// Nothing comes.
    #[error("nothing has come from the peer for too long")]
    Silent,
}

/// Whoever writes is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is over, or was closed by this side")]
pub struct Ended;

/// No more connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {0} connections already, which is the most that the settings allow")]
pub struct TooMany(pub usize);

/// What was seen since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came and were taken.
    pub frames: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Of those, that had gone out before.
    pub resent: u64,
    /// Frames that came again, or late.
    pub repeated: u64,
    /// Dropped: no frames, cut off, or of another version.
    pub garbled: u64,
    /// Dropped: the tag is wrong. Damaged on the way, or forged.
    pub forged: u64,
    /// Dropped: for another card or port.
    pub not_mine: u64,
    /// Dropped: of no connection that there is.
    pub stale: u64,
    /// Dropped: beyond what was allowed.
    pub beyond: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.frames += other.frames;
        self.sent += other.sent;
        self.resent += other.resent;
        self.repeated += other.repeated;
        self.garbled += other.garbled;
        self.forged += other.forged;
        self.not_mine += other.not_mine;
        self.stale += other.stale;
        self.beyond += other.beyond;
    }
}
