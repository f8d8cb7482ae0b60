//! Lanes: dedicated rings from one sender to one receiver for messages that fit a cache line.
//!
//! A receiver has a fixed pool of lanes. A sender claims one when it first has something small to send; when none is
//! free, it uses the receive queue. A slot is one cache line that holds header and payload, so a message costs one
//! transfer of one line. The header's spare field holds the lap: the receiver sees a slot's message by the lap that it
//! expects there, and need not write the slot. `lane.md` beside this file has the protocol.

use castell_base::Rank;
use castell_base::sync::Ordering;

use crate::queue::area::Area;
use crate::queue::{HEADER_BYTES, Header, SLOT_BYTES, SLOT_WORDS, spare_of};

/// Slots of a lane. (Loom explores each step: there it is short.)
pub const LANE_SLOTS: u32 = if cfg!(loom) { 2 } else { 16 };
/// Lanes of a receiver's pool.
pub const LANES: u32 = if cfg!(loom) { 2 } else { 16 };
/// The largest payload of a lane's message.
pub const LANE_PAYLOAD_MAX: usize = SLOT_BYTES - HEADER_BYTES;
/// Bytes of one lane: its slots and the line by which the receiver returns them.
pub const LANE_BYTES: usize = (1 + LANE_SLOTS as usize) * SLOT_BYTES;
/// Bytes of a receiver's pool; it starts on a multiple of 64, zeroed.
pub const LANE_POOL_BYTES: usize = FIRST_LANE * 8 + LANES as usize * LANE_BYTES;

/// Bit i: lane i has an owner.
const CLAIMED: usize = 0;
/// One word a lane: the owner's rank + 1.
const OWNERS: usize = 8;
const FIRST_LANE: usize = OWNERS + (LANES as usize).next_multiple_of(8);
/// Within a lane: how many slots the receiver has returned, then the slots.
const RETURNED: usize = 0;
const SLOTS: usize = SLOT_WORDS;
/// Slots that the receiver returns at a time: the line of `RETURNED` travels rarely.
const RETURN: u32 = LANE_SLOTS / 2;

fn lane(pool: Area, index: u32) -> Area {
    pool.at(FIRST_LANE + index as usize * LANE_BYTES / 8)
}

/// A place in a lane: which slot, and in which lap.
#[derive(Clone, Copy)]
struct Cursor {
    slot: u32,
    /// 1 … 65535 and then 1 again: never what zeroed memory holds, never the previous lap's.
    lap: u16,
}

impl Cursor {
    const START: Cursor = Cursor { slot: 0, lap: 1 };

    #[inline(always)]
    fn advance(&mut self) {
        self.slot += 1;
        if self.slot == LANE_SLOTS {
            self.slot = 0;
            self.lap = self.lap.checked_add(1).unwrap_or(1);
        }
    }

    #[inline(always)]
    fn word(self) -> usize {
        SLOTS + self.slot as usize * SLOT_WORDS
    }
}

/// A sender's end of one lane.
pub struct LaneSender {
    lane: Area,
    at: Cursor,
    sent: u32,
    returned: u32,
}

impl LaneSender {
    /// Claims a lane of the pool at `pool` for rank `me`; `None`: all are taken.
    ///
    /// # Safety
    /// `pool` points to the receiver's [`LANE_POOL_BYTES`] bytes, aligned to 64, zeroed before anybody's first use, and
    /// mapped as long as the result lives. A rank claims a lane of a receiver at most once.
    pub unsafe fn claim(pool: *mut u8, me: Rank) -> Option<LaneSender> {
        // SAFETY: the caller's promise.
        let pool = unsafe { Area::new(pool) };
        for index in 0..LANES {
            let owner = pool.word(OWNERS + index as usize);
            if owner.load(Ordering::Relaxed) == 0
                && owner
                    .compare_exchange(0, u64::from(me.0) + 1, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                pool.word(CLAIMED).fetch_or(1 << index, Ordering::Release);
                let lane = lane(pool, index);
                return Some(LaneSender { lane, at: Cursor::START, sent: 0, returned: 0 });
            }
        }
        None
    }

    /// Sends a message; false: the lane is full, or the payload longer than [`LANE_PAYLOAD_MAX`]. Never blocks.
    #[inline(always)]
    pub fn try_send(&mut self, header: &Header, payload: &[u8]) -> bool {
        if payload.len() > LANE_PAYLOAD_MAX || !self.has_room() {
            return false;
        }
        self.lane.publish(self.at.word(), header, self.at.lap, payload);
        self.at.advance();
        self.sent = self.sent.wrapping_add(1);
        true
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        if self.sent.wrapping_sub(self.returned) < LANE_SLOTS {
            return true;
        }
        // Acquire: the receiver has read what this sender will overwrite.
        self.returned = self.lane.word(RETURNED).load(Ordering::Acquire) as u32;
        self.sent.wrapping_sub(self.returned) < LANE_SLOTS
    }
}

/// The receiver's end of all its lanes.
pub struct LaneReceiver {
    pool: Area,
    lanes: [Incoming; LANES as usize],
}

#[derive(Clone, Copy)]
struct Incoming {
    at: Cursor,
    taken: u32,
    returned: u32,
}

impl LaneReceiver {
    /// The receiver's end of the pool at `pool`.
    ///
    /// # Safety
    /// As for [`LaneSender::claim`]; a pool has one receiver in a job's life.
    pub unsafe fn attach(pool: *mut u8) -> LaneReceiver {
        // SAFETY: the caller's promise.
        let pool = unsafe { Area::new(pool) };
        let start = Incoming { at: Cursor::START, taken: 0, returned: 0 };
        LaneReceiver { pool, lanes: [start; LANES as usize] }
    }

    /// Hands up to `limit` messages to `deliver`, each in place, and frees it afterwards; says how many. Never blocks.
    #[inline(always)]
    pub fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let mut claimed = self.pool.word(CLAIMED).load(Ordering::Acquire);
        let mut count = 0;
        while claimed != 0 {
            let index = claimed.trailing_zeros();
            claimed &= claimed - 1;
            count += self.poll_lane(index, limit - count, deliver);
        }
        count
    }

    #[inline(always)]
    fn poll_lane(&mut self, index: u32, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let memory = lane(self.pool, index);
        let incoming = &mut self.lanes[index as usize];
        let mut count = 0;
        while count < limit {
            let first = memory.word(incoming.at.word()).load(Ordering::Acquire);
            if spare_of(first) != incoming.at.lap {
                break;
            }
            memory.deliver(incoming.at.word(), first, deliver);
            incoming.at.advance();
            incoming.taken = incoming.taken.wrapping_add(1);
            count += 1;
            if incoming.taken.wrapping_sub(incoming.returned) >= RETURN {
                incoming.returned = incoming.taken;
                // Release: the slots have been read.
                memory.word(RETURNED).store(u64::from(incoming.returned), Ordering::Release);
            }
        }
        count
    }

    /// Whether no lane holds a message: the look before going to sleep.
    pub fn is_empty(&self) -> bool {
        let claimed = self.pool.word(CLAIMED).load(Ordering::Acquire);
        (0..LANES).filter(|index| claimed >> index & 1 == 1).all(|index| {
            let at = self.lanes[index as usize].at;
            spare_of(lane(self.pool, index).word(at.word()).load(Ordering::Acquire)) != at.lap
        })
    }
}
