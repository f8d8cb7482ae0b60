//! The receive queue: where a rank's messages land before they are matched.
//!
//! Each rank owns one area of shared memory ([`Geometry::bytes_per_rank`], zeroed, aligned to 64 bytes) and one [`Consumer`]; every
//! rank that sends to it has a [`Producer`] there. Nothing here blocks: a full queue refuses. README.md beside this file has
//! the protocol, which is called SCMP; `castell-queues` compares it with others, and has its conformance suite and its loom models.
//!
//! Messages of one sender are delivered in the order of their insertion, with one exception (a late producer whose reservation's
//! length cannot be found out, see README.md): who needs the order without exception, or sends by other ways, too, counts
//! messages in [`Header::sequence`].

pub mod area;
mod geometry;
pub mod header;
mod intent;
mod scmp;
mod scmp_consumer;
#[cfg(all(test, not(loom)))]
mod tests;

pub use geometry::Geometry;
pub use header::{HEADER_BYTES, Header, SLOT_BYTES, SLOT_WORDS, slots_for};
pub use intent::{Intent, Intents, RANKS_MAX};
pub use scmp::{Producer, grow_old};
pub use scmp_consumer::Consumer;

pub(crate) use header::spare_of;

/// The queue was full, or busy for longer than an insertion waits: try again later or take another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receive queue is full; poll the own queue and try again")]
pub struct Refused;
