//! What was sent to one peer and not taken yet: frames in a ring, from where they are written and written again.
//!
//! ```text
//!   front ── written, not acknowledged ── sent ── not written ── back        positions count bytes and never go back,
//!   └ a frame begins here                                                    but `sent`, to `front`, when a connection is lost
//! ```

use crate::frame::{FRAME_BYTES, Frame, Garbled, Kind};
use castell_transport::{HEADER_BYTES, Header};

pub(crate) struct Outbox {
    ring: Box<[u8]>,
    /// Whether frames have checksums of what is in them.
    checks: bool,
    front: u64,
    sent: u64,
    back: u64,
    /// Bytes of the frame in which `sent` stands that are left; 0: a frame begins at `sent`, if any does.
    frame_left: usize,
    /// The number of the frame at `front`, and of the next one at `back`.
    first: u32,
    next: u32,
    /// The number of the frame at `sent` (or of that behind the one in which it stands).
    next_sent: u32,
}

impl Outbox {
    /// One that takes `bytes`; a power of two.
    pub(crate) fn new(bytes: usize, checks: bool) -> Outbox {
        assert!(bytes.is_power_of_two(), "positions wrap with the ring");
        let ring = vec![0; bytes].into();
        Outbox { ring, checks, front: 0, sent: 0, back: 0, frame_left: 0, first: 0, next: 0, next_sent: 0 }
    }

    /// As after so many numbered frames. Before the first.
    pub(crate) fn start_at(&mut self, number: u32) {
        assert_eq!(self.back, 0, "nothing has been sent yet");
        (self.first, self.next, self.next_sent) = (number, number, number);
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.ring.len() - (self.back - self.front) as usize
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        (self.back - self.sent) as usize
    }

    /// Whether everything was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.front == self.back
    }

    /// The number of the frame that is written next, where a frame begins.
    pub(crate) fn next_sent(&self) -> u32 {
        self.next_sent
    }

    /// Whether a frame begins at what is written next.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.frame_left == 0
    }

    /// Takes a numbered frame, for which there is room.
    pub(crate) fn push(&mut self, kind: Kind, header: Option<&Header>, payload: &[u8], taken: u32) {
        let mut words = [0; HEADER_BYTES];
        let head: &[u8] = match header {
            None => &[],
            Some(header) => {
                for (to, word) in words.chunks_exact_mut(8).zip(header.to_words(0)) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
                &words
            }
        };
        let checksum = if self.checks { checksum([head, payload]) } else { 0 };
        let bytes = (head.len() + payload.len()) as u32;
        let frame = Frame { kind, bytes, number: self.next, taken, checksum };
        assert!(self.free_bytes() >= frame.total_bytes(), "there is room");
        for part in [&frame.to_bytes(), head, payload] {
            self.append(part);
        }
        self.next = self.next.wrapping_add(1);
    }

    fn append(&mut self, bytes: &[u8]) {
        let at = self.at(self.back);
        let whole = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + whole].copy_from_slice(&bytes[..whole]);
        self.ring[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
        self.back += bytes.len() as u64;
    }

    fn at(&self, position: u64) -> usize {
        position as usize & (self.ring.len() - 1)
    }

    /// Bytes of the whole frame that begins at a position.
    fn frame_bytes(&self, position: u64) -> usize {
        let length = std::array::from_fn(|at| self.ring[self.at(position + 4 + at as u64)]);
        FRAME_BYTES + u32::from_le_bytes(length) as usize
    }

    /// What is to be written, in up to two parts; `to_frame_end`: only what is left of the frame that was begun.
    pub(crate) fn unsent(&self, to_frame_end: bool) -> [&[u8]; 2] {
        let end = if to_frame_end { self.sent + self.frame_left as u64 } else { self.back };
        let (bytes, at) = ((end - self.sent) as usize, self.at(self.sent));
        let whole = bytes.min(self.ring.len() - at);
        [&self.ring[at..at + whole], &self.ring[..bytes - whole]]
    }

    /// So many bytes of that were written.
    pub(crate) fn wrote(&mut self, mut bytes: usize) {
        while bytes > 0 {
            if self.frame_left == 0 {
                self.frame_left = self.frame_bytes(self.sent);
                self.next_sent = self.next_sent.wrapping_add(1);
            }
            let step = bytes.min(self.frame_left);
            self.frame_left -= step;
            self.sent += step as u64;
            bytes -= step;
        }
        assert!(self.sent <= self.back, "no more is written than there is");
    }

    /// The peer has taken all frames before number `taken`; whether that is news.
    pub(crate) fn acknowledge(&mut self, taken: u32) -> Result<bool, Garbled> {
        let newly = taken.wrapping_sub(self.first);
        if newly > u32::MAX / 2 {
            // An old word that came late.
            return Ok(false);
        }
        let written = self.next_sent.wrapping_sub(self.first) - u32::from(self.frame_left > 0);
        if newly > written {
            return Err(Garbled::OutOfTurn);
        }
        for _ in 0..newly {
            self.front += self.frame_bytes(self.front) as u64;
        }
        self.first = taken;
        Ok(newly > 0)
    }

    /// Over a new connection all goes out again that the peer has not taken; whether that is less than was known.
    pub(crate) fn rewind(&mut self, taken: u32) -> Result<bool, Garbled> {
        if taken.wrapping_sub(self.first) > u32::MAX / 2 {
            // What it took once it can't have lost.
            return Err(Garbled::OutOfTurn);
        }
        let is_news = self.acknowledge(taken)?;
        (self.sent, self.frame_left, self.next_sent) = (self.front, 0, self.first);
        Ok(is_news)
    }

    /// Nothing of it will ever be taken.
    pub(crate) fn clear(&mut self) {
        (self.front, self.sent, self.frame_left) = (self.back, self.back, 0);
        (self.first, self.next_sent) = (self.next, self.next);
    }
}

fn checksum(parts: [&[u8]; 2]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| checksum.update(part));
    checksum.finalize()
}
