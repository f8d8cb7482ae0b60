//! What a transport says of itself: what it can do, how much at a time, where it is, what a way costs.

use castell_base::{PerByte, Time};

/// What happens to messages on the way. The default is the best there is: each once, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Messages may get lost without a word.
    pub loses: bool,
    /// A message may come more than once.
    pub duplicates: bool,
    /// Messages of one sender may overtake each other; who needs the order sorts by [`Header::sequence`](crate::Header).
    pub reorders: bool,
}

/// What a transport, or one path of it, can do. What is refused for want of a capability is refused truthfully: with
/// [`AccessError::Unsupported`](crate::AccessError) if and only if it says so here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The transport's name, as in `--net tcp`.
    pub name: &'static str,
    /// The longest payload of a message, bytes. Longer ones are announced and fetched.
    pub message_bytes_max: usize,
    /// What may happen to messages.
    pub delivery: Delivery,
    /// Whether [`Events::room`](crate::Events::room) follows a refusal; if not, who was refused tries again.
    pub tells_room: bool,
    /// The most that one get fetches, bytes; 0: no gets.
    pub get_bytes_max: u64,
    /// The most that one put writes, bytes; 0: no puts.
    pub put_bytes_max: u64,
    /// Whether there are fetching adds and swaps of 64-bit words.
    pub atomics: bool,
    /// One-sided operations that an endpoint may have under way; one more is refused as full.
    pub outstanding_max: usize,
}

impl Limits {
    /// Messages only, each once and in order, of which nobody says when there is room again.
    pub const fn messages_only(name: &'static str, message_bytes_max: usize) -> Limits {
        Limits {
            name,
            message_bytes_max,
            delivery: Delivery { loses: false, duplicates: false, reorders: false },
            tells_room: false,
            get_bytes_max: 0,
            put_bytes_max: 0,
            atomics: false,
            outstanding_max: 0,
        }
    }
}

/// Where a rank is found by a transport: bytes that only transports of the same name understand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub Box<[u8]>);

/// What a message over a way takes: `latency + bytes * per_byte`. For choosing among ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Time of an empty message.
    pub latency: Time,
    /// Time of a further byte.
    pub per_byte: PerByte,
}

/// There is no way to a rank by this transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{transport} does not reach rank {rank}: {reason}")]
pub struct Unreachable {
    /// Who cannot be reached.
    pub rank: castell_base::Rank,
    /// By which transport.
    pub transport: &'static str,
    /// Why, and what would help.
    pub reason: Box<str>,
}
