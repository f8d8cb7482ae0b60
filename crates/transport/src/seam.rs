//! The interface: what every transport offers and what it promises.

use crate::{AccessError, Address, Cost, Header, Limits, RemoteKey, Token, Unreachable};
use castell_base::sync::AtomicU32;
use castell_base::{Lent, Rank};
use std::os::fd::BorrowedFd;
use std::task::Poll;

/// A rank's end of a transport: what comes in, and the way out to its peers.
///
/// One thread at a time uses a transport and its endpoints. Once endpoints are there, nothing blocks and nothing allocates.
/// Every bound is told by [`Limits`]; who hits one is refused, and nothing grows instead.
pub trait Transport {
    /// One peer's way out.
    type Endpoint: Endpoint;
    /// What makes these.
    type Connector: Connector<Endpoint = Self::Endpoint>;

    /// What the transport can do where it does best; a path may do less, see [`Endpoint::limits`].
    fn limits(&self) -> &Limits;

    /// Where others find this rank.
    fn address(&self) -> Address;

    /// What makes ways to peers, also while the transport is polled: who answers a message may meet its sender just then.
    fn connector(&mut self) -> Self::Connector;

    /// Lets peers access `memory` by the key until it is withdrawn. May allocate.
    ///
    /// # Errors
    /// Unsupported, or more keys than the transport has room for.
    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError>;

    /// Ends a key: whoever uses it from now on is refused as stale, and no operation touches the memory any more.
    fn withdraw(&mut self, key: &RemoteKey);

    /// Moves things on, and hands up to `budget` events to `events`; says how many.
    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize;

    /// Whether a poll would find something, as far as this process can tell without the system.
    fn has_news(&self) -> bool;

    /// Before `sleeper` sleeps: from here on whatever [`Transport::poll`] would find wakes it by what is returned. If something
    /// is there already, `Busy`, and nothing is armed. Any number of sleeps may follow until [`Transport::disarm`].
    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_>;

    /// The sleeper is awake: peers need not wake it.
    fn disarm(&mut self, sleeper: Sleeper);
}

/// Makes a transport's ways out.
pub trait Connector {
    /// One peer's way out.
    type Endpoint: Endpoint;

    /// What the way there costs; `None`: there is none.
    fn route(&self, to: &Address) -> Option<Cost>;

    /// Makes the way to rank `to`. Once a peer; may allocate.
    ///
    /// # Errors
    /// There is no way; the reason says why.
    fn connect(&mut self, to: Rank, at: &Address) -> Result<Self::Endpoint, Unreachable>;
}

/// The way to one peer.
///
/// A message is handed over once and in the order of sending, as far as [`Limits::delivery`] says, or the path goes down.
/// One-sided operations are ordered by their ends only: what is begun after another has ended happens after it. The notice
/// of a put comes after its bytes.
pub trait Endpoint {
    /// What this path can do.
    fn limits(&self) -> &Limits;

    /// Sends a message whose `header.bytes` is the payload's length. On return the payload has been copied.
    ///
    /// Where looking costs more than it is worth, a path that is down takes messages, which go nowhere, until it is full; it
    /// then says that it is down.
    ///
    /// # Errors
    /// No room now ([`Events::room`] follows if [`Limits::tells_room`]), or the path is down.
    ///
    /// # Panics
    /// If the payload is longer than [`Limits::message_bytes_max`], or the kind is 0 or 255.
    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused>;

    /// Sees to it that the peer learns of what was sent: rings its bell, empties buffers. To be called once after any number of
    /// messages, before this thread sleeps or computes. False: something is left, call again.
    fn flush(&mut self, urgency: Urgency) -> bool;

    /// Fetches what lies at `at` of exported memory into all of `into`. Pending: [`Events::completed`] follows.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        let _ = (from, at, into, token);
        Err(AccessError::Unsupported)
    }

    /// Writes all of `from` to exported memory at `at`; with a notice, the peer's [`Events::notified`] follows the bytes. Ready
    /// or completed: the bytes are there. May write nothing and just notify.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        let _ = (from, to, at, notice, token);
        Err(AccessError::Unsupported)
    }

    /// Adds to the 64-bit word at `at` of exported memory and says what was there before, at once or when completed. Atomic
    /// with respect to other such operations by the same transport.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        let _ = (word, at, value, token);
        Err(AccessError::Unsupported)
    }

    /// Replaces the 64-bit word at `at` of exported memory and says what was there before; otherwise as
    /// [`Endpoint::fetch_add`].
    ///
    /// # Errors
    /// See [`AccessError`].
    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        let _ = (word, at, value, token);
        Err(AccessError::Unsupported)
    }

    /// The exported memory itself, where this process can load from it: what is reduced need not be copied first.
    fn map(&self, key: &RemoteKey) -> Option<Lent> {
        let _ = key;
        None
    }

    /// The peer will often be sent to: the path may take resources for it.
    fn expect_traffic(&mut self) {}

    /// The peer has answered, so what it was sent before has been taken.
    #[inline(always)]
    fn answered(&mut self) {}
}

/// What a transport tells whoever polls it.
pub trait Events {
    /// A message has come; the payload is lent for the call.
    fn message(&mut self, header: &Header, payload: &[u8]);

    /// A long message has begun to come: where its payload is to lie, if that is known by now, as long as `header.bytes` says. A transport that reads
    /// from a stream may put it there, part by part, instead of lending it; it asks again for each part, and what it has been given it uses for that part only. Where
    /// there is no such place any more, it drops the part.
    ///
    /// What is there may be wrong until [`Events::placed`] says that it is right: a path that finds it damaged begins again.
    fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        let _ = header;
        None
    }

    /// Instead of [`Events::message`]: a message for which there was a place when it began has come, and its payload lies there, if there still is one.
    fn placed(&mut self, header: &Header) {
        let _ = header;
    }

    /// A path that was full takes messages again.
    fn room(&mut self, peer: Rank) {
        let _ = peer;
    }

    /// A one-sided operation has ended. The value is what a fetching operation found, 0 for others.
    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        let _ = (token, outcome);
    }

    /// The bytes of a put with this notice are there.
    fn notified(&mut self, peer: Rank, notice: u32) {
        let _ = (peer, notice);
    }

    /// The path to and from `peer` is down: told once, the last that is told of it, after all that it still delivers and after
    /// the ends of all operations under way. `delivered` messages of the peer have come by this path, all told: over another
    /// path it would go on after them.
    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        let _ = (peer, delivered, why);
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No room now.
    #[error("the path is full; poll, and try again")]
    Full,
    /// The path is down.
    #[error("the path is down")]
    Down,
}

/// Why a path is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Down {
    /// The peer died. What it sent shortly before may be lost.
    Died,
    /// The peer left. All that it sent was delivered.
    Left,
    /// Nobody knows about the peer; the path is lost, and what was under way may be, both ways.
    PathLost,
}

/// The threads of a rank that may sleep. Each has its own place to sleep: waking one leaves the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The rank's progress thread.
    Thread,
    /// An application thread that waits for something.
    Waiter,
}

/// What wakes who sleeps.
#[derive(Debug)]
pub enum Armed<'a> {
    /// Nothing: there is something to poll.
    Busy,
    /// The word changes from `expected`, and whoever waits for it as a futex is woken.
    Futex {
        /// The word.
        word: &'a AtomicU32,
        /// Its value before.
        expected: u32,
    },
    /// The descriptor becomes readable.
    Fd(BorrowedFd<'a>),
}

/// How soon a peer has to learn of what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgency {
    /// [`Endpoint::flush`] will be called again soon: a peer's progress thread may sleep on for now, since its application
    /// often comes by itself, and waking costs both sides much.
    pub again_soon: bool,
    /// This rank waits until the peer has taken what it was sent: a peer is woken also if it puts off what can wait.
    pub presses: bool,
}

impl Urgency {
    /// Nobody calls again: what was sent must be found.
    pub const NOW: Urgency = Urgency { again_soon: false, presses: false };
}
