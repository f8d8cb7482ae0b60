//! What a message is for: the kinds, and what each of them says in its header.

use castell_transport::Header;

/// What a message is for. A channel's number goes in `run`, a label in `tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A send's message, whole. flags: [`GRANTED`], then extra: the request's number.
    Eager = 1,
    /// A send's message that lies in the sender's memory. extra: descriptor | generation << 32; payload: its size, and if
    /// flags has [`GRANTED`] the request's number.
    Announce = 2,
    /// A piece of an announced message. extra: descriptor | generation << 32; payload: offset, bytes.
    Fragment = 3,
    /// The sender gave this channel up. tag: who is to blame.
    Abort = 4,
    /// The receiver has too much: ask before anything is sent that carries bytes.
    Hold = 5,
    /// No need to ask any more.
    Resume = 6,
    /// Asks for leave to send. extra: the request's number; flags: [`UNMATCHED`]; payload: the message's size.
    Request = 7,
    /// Answer to a request. extra: its number; flags: how, see [`Granted`].
    Grant = 8,
    /// What was asked for will not come. extra: the request's number; tag: who is to blame.
    Withdraw = 9,
    /// Stands for a message that will not come. extra: who is to blame.
    Tombstone = 10,
    /// Bytes for a window of the channel. flags: which memory; extra: offset there.
    Put = 11,
    /// Wanted: bytes of a window. flags: which memory; tag: what the answer is to carry; extra: offset; payload: size.
    Get = 12,
    /// Answer to a get. tag: as asked; flags: 1 for a refusal; extra: offset in what was asked for; payload: bytes.
    GetReply = 13,
    /// What the sender called under the word of a call, for who shares no memory with it. tag: the word; flags: 1 for an answer;
    /// payload: the record's words.
    Called = 14,
}

const KINDS: [Kind; 14] = [
    Kind::Eager,
    Kind::Announce,
    Kind::Fragment,
    Kind::Abort,
    Kind::Hold,
    Kind::Resume,
    Kind::Request,
    Kind::Grant,
    Kind::Withdraw,
    Kind::Tombstone,
    Kind::Put,
    Kind::Get,
    Kind::GetReply,
    Kind::Called,
];

impl Kind {
    pub(super) fn of(header: &Header) -> Kind {
        let kind = KINDS.get(usize::from(header.kind).wrapping_sub(1));
        *kind.unwrap_or_else(|| panic!("a message of kind {} from rank {}", header.kind, header.source))
    }
}

/// Whether it is the first that comes of a send's message: all of it, or word of it.
pub(crate) fn is_of_a_send(header: &Header) -> bool {
    let is_first = [Kind::Eager, Kind::Announce].contains(&Kind::of(header)) && header.flags & GRANTED == 0;
    is_first || (Kind::of(header) == Kind::Request && header.flags & UNMATCHED == 0)
}

/// Flag of a message that was asked for and goes to the receive that waits for it.
pub(super) const GRANTED: u8 = 1;
/// Flag of a request for a message that meets no receive.
pub(super) const UNMATCHED: u8 = 1;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Granted {
    /// A receive waits for it.
    ToReceive = 0,
    /// Send it as if nobody had asked.
    Plain = 1,
    /// Nobody will take it.
    Dropped = 2,
}

/// A message of the protocol's own.
pub(crate) fn control(kind: Kind, run: u32, tag: u32, flags: u8, extra: u64) -> Header {
    Header { kind: kind as u8, flags, spare: 0, bytes: 0, source: 0, sequence: 0, tag, run, extra }
}

/// A 64-bit word of a payload.
pub(crate) fn word_at(payload: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(payload[at..at + 8].try_into().expect("8 bytes"))
}
