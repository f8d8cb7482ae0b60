//! The bytes between two ranks of a loopback: a ring of whole messages that never grows.

use crate::header::{HEADER_BYTES, Header};

/// Messages on their way, oldest first.
pub(super) struct Stream {
    ring: Box<[u8]>,
    first: usize,
    used: usize,
}

impl Stream {
    pub(super) fn new(bytes: usize) -> Stream {
        Stream { ring: vec![0; bytes].into(), first: 0, used: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn has_room(&self, payload_bytes: usize) -> bool {
        self.ring.len() - self.used >= HEADER_BYTES + payload_bytes
    }

    /// Appends a message for which there is room.
    pub(super) fn push(&mut self, header: &Header, payload: &[u8]) {
        debug_assert!(self.has_room(payload.len()));
        let words = Header { bytes: payload.len() as u32, ..*header }.to_words(0);
        for word in words {
            self.append(&word.to_le_bytes());
        }
        self.append(payload);
    }

    /// Takes the oldest message out; its payload comes to lie at the start of `payload`.
    pub(super) fn pop(&mut self, payload: &mut [u8]) -> Option<Header> {
        if self.is_empty() {
            return None;
        }
        let mut words = [0; HEADER_BYTES / 8];
        for word in &mut words {
            let mut bytes = [0; 8];
            self.take(&mut bytes);
            *word = u64::from_le_bytes(bytes);
        }
        let header = Header::from_words(words);
        self.take(&mut payload[..header.bytes as usize]);
        Some(header)
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    fn append(&mut self, bytes: &[u8]) {
        let at = (self.first + self.used) % self.ring.len();
        let (front, back) = bytes.split_at(bytes.len().min(self.ring.len() - at));
        self.ring[at..at + front.len()].copy_from_slice(front);
        self.ring[..back.len()].copy_from_slice(back);
        self.used += bytes.len();
    }

    fn take(&mut self, into: &mut [u8]) {
        let (at, bytes) = (self.first, into.len());
        let (front, back) = into.split_at_mut(bytes.min(self.ring.len() - at));
        front.copy_from_slice(&self.ring[at..at + front.len()]);
        back.copy_from_slice(&self.ring[..back.len()]);
        self.first = (at + bytes) % self.ring.len();
        self.used -= bytes;
    }
}
