//! The shared half of the rendezvous: descriptors in the sender's area.
//!
//! A sender announces a large message by a descriptor. The receiver pulls it straight out of the sender's memory,
//! and where there is a core to spare the sender pushes at the same time: both claim chunks from one cursor.
//!
//! ```text
//!            announce            open                 all bytes copied
//!   FREE ──────────────▶ ANNOUNCED ──────▶ OPEN ──────────────────────▶ DONE ──▶ FREE
//!                 (sender)    │  (receiver)  │         (receiver)          (sender)
//!                             ├──────────────┴──▶ STREAM (receiver may not copy: the sender sends fragments) ─▶ DONE
//!                             └─────────────────▶ REFUSED (receiver: sizes differ, its run failed) ──▶ FREE
//! ```
//! The state word carries a generation, so that an announcement that was withdrawn cannot be taken for the
//! descriptor's next use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Descriptors a rank: so many large messages can be under way from it at a time; more wait with their sender.
pub const DESCRIPTORS: usize = 64;
/// What one claim copies, in bytes: long enough to hide the system call, short enough to share the work.
pub const CHUNK_BYTES: u64 = 128 * 1024;

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

/// One transfer. 128 bytes: the words that both sides add to lie in a line of their own.
#[repr(C, align(128))]
pub struct Descriptor {
    /// `generation << 8 | state`.
    state: AtomicU64,
    /// Where the bytes lie in the sender's memory.
    pub source_address: AtomicU64,
    /// Where they go in the receiver's memory; 0: several pieces, the receiver copies alone.
    pub target_address: AtomicU64,
    /// Message size.
    pub bytes: AtomicU64,
    pad: [u64; 4],
    /// First byte that nobody has claimed.
    pub cursor: AtomicU64,
    /// Bytes that have arrived.
    pub done: AtomicU64,
    /// 1 while the sender writes into the receiver's memory.
    pub pushing: AtomicU32,
}

impl Descriptor {
    /// The state, if the descriptor is still in this use.
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

    /// Sender: takes a free descriptor into use and says its generation.
    pub fn announce(&self, address: u64, bytes: u64) -> Option<u32> {
        let word = self.state.load(Ordering::Acquire);
        if word & 0xff != State::Free as u64 {
            return None;
        }
        let generation = ((word >> 8) as u32).wrapping_add(1);
        self.source_address.store(address, Ordering::Relaxed);
        self.target_address.store(0, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.cursor.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.state.store(word_of(generation, State::Announced), Ordering::Release);
        Some(generation)
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

    /// Claims the next chunk: its offset and length.
    pub fn claim(&self) -> Option<(u64, u64)> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if self.cursor.load(Ordering::Relaxed) >= bytes {
            return None;
        }
        let offset = self.cursor.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
        (offset < bytes).then(|| (offset, CHUNK_BYTES.min(bytes - offset)))
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
    fn a_withdrawn_announcement_is_never_opened() {
        let d = descriptor();
        let first = d.announce(1, 10).expect("free");
        assert_eq!(d.announce(1, 10), None);
        d.free(first);
        let second = d.announce(2, 20).expect("free again");
        assert!(!d.advance(first, State::Announced, State::Open));
        assert!(d.advance(second, State::Announced, State::Open));
        assert_eq!(d.state(first), None);
        assert_eq!(d.state(second), Some(State::Open));
    }

    #[test]
    fn chunks_cover_the_message_once() {
        let d = descriptor();
        d.announce(0, 3 * CHUNK_BYTES + 5).expect("free");
        let mut next = 0;
        while let Some((offset, bytes)) = d.claim() {
            assert_eq!(offset, next);
            next += bytes;
        }
        assert_eq!(next, 3 * CHUNK_BYTES + 5);
    }
}
