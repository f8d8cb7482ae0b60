//! What was sent to a peer and not taken yet: frames in a ring of constant size, which the provider sends from.

use crate::frame::{FRAME_BYTES, Frame, Key, Kind};
use crate::port::{Contexts, Memory, NotBegun, Port};
use castell_base::Rank;
use castell_transport::Header;
use std::collections::VecDeque;

/// Frames that a peer may not have taken yet, at most.
pub(crate) const FRAMES_MAX: usize = 128;
const _: () = assert!(FRAMES_MAX.is_power_of_two(), "numbers wrap around");
/// The number of a path's first frame: what does not bear that numbers wrap around fails in the first second of any job.
pub(crate) const FIRST: u32 = u32::MAX - 200;
/// For a frame that is not numbered: one at a time.
const CONTROL_BYTES: usize = FRAME_BYTES + crate::hello::HELLO_BYTES_MAX;

struct Entry {
    at: usize,
    bytes: usize,
    /// The provider does not need the bytes any more.
    is_done: bool,
}

/// The frames to one peer.
pub(crate) struct Outbox {
    memory: Memory,
    ring_bytes: usize,
    contexts: Contexts,
    frames: VecDeque<Entry>,
    /// The number of the first of them.
    first: u32,
    /// Frames that the peer has taken, as it says.
    taken: u32,
    /// So many of them were handed to the provider.
    posted: usize,
    /// Where the next one begins.
    end: usize,
    is_control_busy: bool,
}

/// What completions of an outbox are known by.
pub(crate) fn frame_id(rank: Rank, number: u32) -> u64 {
    2 << 56 | u64::from(rank.0) << 16 | (u64::from(number) % FRAMES_MAX as u64)
}

/// The same for frames that are not numbered.
pub(crate) fn control_id(rank: Rank) -> u64 {
    3 << 56 | u64::from(rank.0) << 16
}

impl Outbox {
    pub(crate) fn new(port: &mut Port, rank: Rank, ring_bytes: usize) -> Result<Outbox, i32> {
        let memory = port.memory(ring_bytes + CONTROL_BYTES)?;
        let ids = (0..FRAMES_MAX as u32).map(|number| frame_id(rank, number));
        Ok(Outbox {
            memory,
            ring_bytes,
            contexts: Contexts::new(ids.chain([control_id(rank)])),
            frames: VecDeque::with_capacity(FRAMES_MAX),
            first: FIRST,
            taken: FIRST,
            posted: 0,
            end: 0,
            is_control_busy: false,
        })
    }

    /// Number of the next frame.
    fn next(&self) -> u32 {
        self.first.wrapping_add(self.frames.len() as u32)
    }

    /// Where so many bytes fit.
    fn place(&self, bytes: usize) -> Option<usize> {
        let Some(front) = self.frames.front() else { return (bytes <= self.ring_bytes).then_some(0) };
        if self.frames.len() == FRAMES_MAX {
            return None;
        }
        match self.end > front.at {
            true if self.ring_bytes - self.end >= bytes => Some(self.end),
            true => (front.at >= bytes).then_some(0),
            false => (front.at - self.end >= bytes).then_some(self.end),
        }
    }

    /// Whether a frame with a payload of so many bytes finds room.
    pub(crate) fn has_room(&self, payload_bytes: usize) -> bool {
        self.place(FRAME_BYTES + payload_bytes).is_some()
    }

    /// Whether it is at most half full: who was refused may come again.
    pub(crate) fn is_half_empty(&self) -> bool {
        let bytes: usize = self.frames.iter().map(|entry| entry.bytes).sum();
        2 * bytes <= self.ring_bytes && 2 * self.frames.len() <= FRAMES_MAX
    }

    /// Whether everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the peer has not taken everything yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.taken != self.next()
    }

    pub(crate) fn is_unposted(&self) -> bool {
        self.posted < self.frames.len()
    }

    /// Takes a frame with this payload, in parts; false: there is no room.
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        header: Header,
        payload: [&[u8]; 2],
        taken: u32,
        key: &Key,
    ) -> bool {
        let payload_bytes = payload[0].len() + payload[1].len();
        let bytes = FRAME_BYTES + payload_bytes;
        let Some(at) = self.place(bytes) else { return false };
        let frame = Frame {
            kind,
            number: self.next(),
            taken,
            header: Header { bytes: payload_bytes as u32, ..header },
        };
        let out = self.memory.part_mut(at, bytes);
        let (front, back) = out[FRAME_BYTES..].split_at_mut(payload[0].len());
        front.copy_from_slice(payload[0]);
        back.copy_from_slice(payload[1]);
        frame.write(Some(key), out);
        self.frames.push_back(Entry { at, bytes, is_done: false });
        self.end = at + bytes;
        true
    }

    /// Hands the provider what it takes now.
    pub(crate) fn post(&mut self, port: &mut Port, to: u64) -> Result<(), NotBegun> {
        while let Some(entry) = self.frames.get_mut(self.posted) {
            let index = self.first.wrapping_add(self.posted as u32) as usize % FRAMES_MAX;
            entry.is_done = port.send(to, (&self.memory, entry.at, entry.bytes), self.contexts.at(index))?;
            self.posted += 1;
        }
        Ok(())
    }

    /// Sends a frame that is not numbered; false: one is under way still, or there is no room.
    pub(crate) fn post_control(
        &mut self,
        port: &mut Port,
        to: u64,
        (kind, header, payload): (Kind, Header, &[u8]),
        (taken, key): (u32, Option<&Key>),
    ) -> bool {
        if self.is_control_busy {
            return false;
        }
        let frame = Frame {
            kind,
            number: self.next(),
            taken,
            header: Header { bytes: payload.len() as u32, ..header },
        };
        let bytes = FRAME_BYTES + payload.len();
        let out = self.memory.part_mut(self.ring_bytes, bytes);
        out[FRAME_BYTES..].copy_from_slice(payload);
        frame.write(key, out);
        match port.send(to, (&self.memory, self.ring_bytes, bytes), self.contexts.at(FRAMES_MAX)) {
            Ok(is_done) => self.is_control_busy = !is_done,
            Err(_) => return false,
        }
        true
    }

    pub(crate) fn control_is_done(&mut self) {
        self.is_control_busy = false;
    }

    /// The provider does not need a frame any more.
    pub(crate) fn is_done(&mut self, index: u64) {
        let at = (index as u32).wrapping_sub(self.first) as usize % FRAMES_MAX;
        if let Some(entry) = self.frames.get_mut(at) {
            entry.is_done = true;
        }
        self.free();
    }

    /// The peer says how many it has taken; `None`: it says what cannot be, or nothing new.
    pub(crate) fn was_taken(&mut self, taken: u32) -> Option<()> {
        let (new, all) = (taken.wrapping_sub(self.taken), self.next().wrapping_sub(self.taken));
        if new == 0 || new > all {
            return None;
        }
        self.taken = taken;
        self.free();
        Some(())
    }

    fn free(&mut self) {
        while let Some(entry) = self.frames.front()
            && entry.is_done
            && self.first != self.taken
        {
            self.frames.pop_front();
            self.first = self.first.wrapping_add(1);
            self.posted -= 1;
        }
    }
}
