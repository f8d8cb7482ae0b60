//! What goes in with an operation, and what comes out.

use super::memory::Memory;
use crate::board::Record;
use crate::failure::Cause;
use castell_base::Rank;
use castell_transport::Header;

/// What all receives outside of channels are matched under.
pub(crate) const OPEN_CONTEXT: u64 = 0;

/// A channel: messages that meet each other and no others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    /// Who opened it: the upper half of the tokens of its operations.
    pub(crate) owner: u32,
    /// What its messages are matched under; no two channels have the same.
    pub(crate) context: u64,
    /// Its messages meet no receives but are handed over as they come.
    pub(crate) is_unmatched: bool,
}

/// Names an operation of somebody else's: comes in with it, and goes out with what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    /// Whose it is: all operations of an owner can be cancelled together.
    pub(crate) owner: u32,
    /// Which of its operations.
    pub(crate) part: u32,
}

impl Token {
    /// Nobody's.
    pub(super) const NONE: Token = Token { owner: u32::MAX, part: 0 };
}

/// What happens besides operations that are done.
pub(crate) enum Event {
    /// The operation will never be done.
    Failed(Token, Cause),
    /// The peer gave the channel up.
    Aborted { channel: Channel, peer: Rank, culprit: Rank },
    /// The peer has said what it called under this word; it wants to hear if that was something else here.
    Called { peer: Rank, word: u32, record: Record, is_answer: bool },
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A message.
    Message(Option<Rank>),
    /// The bytes of a large one, or that they are taken.
    Transfer(Rank),
    /// Room in the peer's queue.
    Room(Rank),
    /// Leave to send.
    Leave(Rank),
}

/// Who hears at once of what comes, because it lies in the queue, or in the sender's memory, only now.
pub(crate) trait Handler {
    /// A message that meets no receive: one of an unmatched channel, or of one-sided access (which has no channel where it is an
    /// answer). Of an announcement, which has been refused, only the size counts.
    fn message(&mut self, source: Rank, channel: Option<Channel>, header: &Header, payload: &[u8]);

    /// Before the first piece of a large message: whether it is to be reduced as it comes, and written down nowhere.
    fn reduces(&mut self, token: Token) -> bool;

    /// Reduces a piece that lies `behind` bytes behind the message's start.
    ///
    /// # Safety
    /// [`Handler::reduces`] said yes to the message, and the piece is readable, whole elements, and nobody writes to it meanwhile.
    unsafe fn reduce(&mut self, token: Token, piece: *mut u8, behind: u64, bytes: u64);
}

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) token: Token,
    pub(super) memory: Memory,
}

impl Posted {
    /// Takes the place of a failed owner's receive: drops what meets it.
    pub(super) fn tombstone() -> Posted {
        Posted { token: Token::NONE, memory: Memory::void(std::ptr::null_mut(), 0) }
    }

    #[inline]
    pub(super) fn is_tombstone(&self) -> bool {
        self.token == Token::NONE
    }
}

/// How a message to a peer went.
pub(super) enum Sent {
    /// Handed over whole: the memory is free again.
    Whole,
    /// On its way: the memory is free when the receiver has it.
    Announced,
    /// No room now.
    Refused,
}
