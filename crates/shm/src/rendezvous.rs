//! The shared half of the rendezvous: descriptors in the sender's area.
//!
//! A sender announces a large message by a descriptor. It travels in one of four ways:
//!
//! - if it lies in the sender's pool, which all ranks can read: the receiver copies it from there;
//! - through a *pipe*: a ring of chunks in the sender's area, which the sender fills while the receiver empties it.
//!   Two copies, but both in cache and at the same time; the first choice for all else, see `docs/decisions/0004`;
//! - if all pipes of the sender are taken: the receiver copies straight out of the sender's memory;
//! - if the kernel forbids that: as fragments through the receive queue.
//!
//! ```text
//!            announce            open                 all bytes taken
//!   FREE ──────────────▶ ANNOUNCED ──────▶ OPEN ──────────────────────▶ DONE ──▶ FREE
//!                 (sender)    │  (receiver)  │         (receiver)          (sender)
//!                             ├──────────────┴──▶ STREAM (receiver may not copy: the sender sends fragments) ─▶ DONE
//!                             └─────────────────▶ REFUSED (receiver: sizes differ, its run failed) ──▶ FREE
//! ```
//! The state word carries a generation, so that an announcement that was withdrawn cannot be taken for the
//! descriptor's next use.

use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors a rank: so many large messages can be under way from it at a time; more wait with their sender.
pub const DESCRIPTORS: usize = 64;
/// What is copied at a time from another process's memory, in bytes: messages of others come in between.
pub const CHUNK_BYTES: u64 = 256 * 1024;
/// Pipes a rank.
pub const PIPES: usize = 4;
/// Bytes of a pipe: so much a sender can put there, and go on computing, before the receiver comes. A message begins at the pipe's
/// start, so that only large ones touch all of it.
pub const PIPE_BYTES: u64 = 1024 * 1024;

/// What is filled and taken at a time of a message of that size: the receiver takes one piece while the sender fills
/// the next, so short messages need short pieces. Bytes; divides [`PIPE_BYTES`].
pub fn pipe_chunk_bytes(message_bytes: u64) -> u64 {
    if message_bytes < 256 * 1024 { 4 * 1024 } else { 32 * 1024 }
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in use.
    Free = 0,
    /// The sender told the receiver.
    Announced = 1,
    /// The receive is there: both may copy.
    Open = 2,
    /// The sender has to send fragments.
    Stream = 3,
    /// All bytes have arrived.
    Done = 4,
    /// The receiver will not take it.
    Refused = 5,
}

/// Where a receiver finds a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In the sender's memory, if the kernel lets it read there.
    Memory,
    /// In the sender's pool.
    Pool,
    /// In one of the sender's pipes.
    Pipe(usize),
}

/// One transfer: a cache line for what is said once, and one for each word that a side keeps writing.
#[repr(C, align(64))]
pub struct Descriptor {
    /// `generation << 8 | state`.
    state: AtomicU64,
    /// Where the bytes lie in the sender's memory, or in its pool.
    pub source_address: AtomicU64,
    /// Message size.
    pub bytes: AtomicU64,
    /// See [`Descriptor::carrier`].
    carrier: AtomicU64,
    pad0: [u64; 4],
    /// Bytes that the sender has put into the pipe.
    pub filled: AtomicU64,
    pad1: [u64; 7],
    /// Bytes that the receiver has taken, by whichever way.
    pub taken: AtomicU64,
    pad2: [u64; 7],
}

impl Descriptor {
    /// The state, if the descriptor is still in this use.
    #[inline]
    pub fn state(&self, generation: u32) -> Option<State> {
        let word = self.state.load(Ordering::Acquire);
        if (word >> 8) as u32 != generation {
            return None;
        }
        Some(match word & 0xff {
            0 => State::Free,
            1 => State::Announced,
            2 => State::Open,
            3 => State::Stream,
            4 => State::Done,
            _ => State::Refused,
        })
    }

    /// What carries the message, as its sender announced it.
    pub fn carrier(&self) -> Carrier {
        match self.carrier.load(Ordering::Relaxed) {
            0 => Carrier::Memory,
            1 => Carrier::Pool,
            pipe => Carrier::Pipe(pipe as usize - 2),
        }
    }

    /// Sender: takes a free descriptor into use and says its generation.
    #[inline]
    pub fn announce(&self, address: u64, bytes: u64, carrier: Carrier) -> Option<u32> {
        let word = self.state.load(Ordering::Acquire);
        if word & 0xff != State::Free as u64 {
            return None;
        }
        let generation = ((word >> 8) as u32).wrapping_add(1);
        self.source_address.store(address, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        let carrier = match carrier {
            Carrier::Memory => 0,
            Carrier::Pool => 1,
            Carrier::Pipe(pipe) => pipe as u64 + 2,
        };
        self.carrier.store(carrier, Ordering::Relaxed);
        self.filled.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.state.store(word_of(generation, State::Announced), Ordering::Release);
        Some(generation)
    }

    /// As after so many uses. Before the first one.
    #[doc(hidden)]
    pub fn grow_old(&self, generation: u32) {
        self.free(generation);
    }

    /// Sender: gives the descriptor back.
    pub fn free(&self, generation: u32) {
        self.state.store(word_of(generation, State::Free), Ordering::Release);
    }

    /// Moves on from `from`; fails if the other side was faster or the descriptor is in another use.
    pub fn advance(&self, generation: u32, from: State, to: State) -> bool {
        let (from, to) = (word_of(generation, from), word_of(generation, to));
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

fn word_of(generation: u32, state: State) -> u64 {
    u64::from(generation) << 8 | state as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        // SAFETY: a descriptor is made of atomics and plain words; all zeros is its first state.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn generations_wrap_around() {
        let d = descriptor();
        d.grow_old(u32::MAX - 1);
        let uses: Vec<u32> = (0..4)
            .map(|_| {
                let generation = d.announce(1, 10, Carrier::Memory).expect("free");
                assert!(d.advance(generation, State::Announced, State::Open));
                assert!(d.advance(generation, State::Open, State::Done));
                assert_eq!(d.state(generation), Some(State::Done));
                assert_eq!(d.state(generation.wrapping_sub(1)), None);
                d.free(generation);
                generation
            })
            .collect();
        assert_eq!(uses, [u32::MAX, 0, 1, 2]);
    }

    #[test]
    fn a_withdrawn_announcement_is_never_opened() {
        let d = descriptor();
        let first = d.announce(1, 10, Carrier::Memory).expect("free");
        assert_eq!(d.announce(1, 10, Carrier::Memory), None);
        d.free(first);
        let second = d.announce(2, 20, Carrier::Pipe(3)).expect("free again");
        assert!(!d.advance(first, State::Announced, State::Open));
        assert!(d.advance(second, State::Announced, State::Open));
        assert_eq!(d.state(first), None);
        assert_eq!(d.state(second), Some(State::Open));
        assert_eq!(d.carrier(), Carrier::Pipe(3));
    }
}
