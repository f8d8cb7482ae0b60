//! Rings: dedicated rings from one sender to one receiver for messages that fit a cache line.
//!
//! A receiver has a fixed pool of rings. A sender claims one when it first has something small to send; when none is
//! free, it uses the receive queue. A slot is one cache line that holds header and payload, so a message costs one
//! transfer of one line. The header's spare field holds the lap: the receiver sees a slot's message by the lap that it
//! expects there, and need not write the slot. `ring.md` beside this file has the protocol.

use castell_base::Rank;
use castell_base::sync::Ordering;

use crate::queue::area::Area;
use crate::queue::{HEADER_BYTES, Header, SLOT_BYTES, SLOT_WORDS, spare_of};

/// Slots of a ring. (Loom explores each step: there it is short.)
pub const RING_SLOTS: u32 = if cfg!(loom) { 2 } else { 16 };
/// Rings of a receiver's pool.
pub const RINGS: u32 = if cfg!(loom) { 2 } else { 16 };
/// The largest payload of a ring's message.
pub const RING_PAYLOAD_MAX: usize = SLOT_BYTES - HEADER_BYTES;
/// Bytes of one ring: its slots and the line by which the receiver returns them.
pub const RING_BYTES: usize = (1 + RING_SLOTS as usize) * SLOT_BYTES;
/// Bytes of a receiver's pool; it starts on a multiple of 64, zeroed.
pub const RING_POOL_BYTES: usize = FIRST_RING * 8 + RINGS as usize * RING_BYTES;

/// Bit i: ring i has an owner.
const CLAIMED: usize = 0;
/// One word a ring: the owner's rank + 1.
const OWNERS: usize = 8;
const FIRST_RING: usize = OWNERS + (RINGS as usize).next_multiple_of(8);
/// Within a ring: how many slots the receiver has returned, then the slots.
const RETURNED: usize = 0;
const SLOTS: usize = SLOT_WORDS;
/// Slots that the receiver returns at a time: the line of `RETURNED` travels rarely.
const RETURN: u32 = RING_SLOTS / 2;

fn ring(pool: Area, index: u32) -> Area {
    pool.at(FIRST_RING + index as usize * RING_BYTES / 8)
}

/// A place in a ring: which slot, and in which lap.
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
        if self.slot == RING_SLOTS {
            self.slot = 0;
            self.lap = self.lap.checked_add(1).unwrap_or(1);
        }
    }

    #[inline(always)]
    fn word(self) -> usize {
        SLOTS + self.slot as usize * SLOT_WORDS
    }
}

/// A sender's end of one ring.
pub struct RingSender {
    ring: Area,
    at: Cursor,
    sent: u32,
    returned: u32,
}

impl RingSender {
    /// Claims a ring of the pool at `pool` for rank `me`; `None`: all are taken.
    ///
    /// # Safety
    /// `pool` points to the receiver's [`RING_POOL_BYTES`] bytes, aligned to 64, zeroed before anybody's first use, and
    /// mapped as long as the result lives. A rank claims a ring of a receiver at most once.
    pub unsafe fn claim(pool: *mut u8, me: Rank) -> Option<RingSender> {
        // SAFETY: the caller's promise.
        let pool = unsafe { Area::new(pool) };
        for index in 0..RINGS {
            let owner = pool.word(OWNERS + index as usize);
            if owner.load(Ordering::Relaxed) == 0
                && owner
                    .compare_exchange(0, u64::from(me.0) + 1, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                pool.word(CLAIMED).fetch_or(1 << index, Ordering::Release);
                let ring = ring(pool, index);
                return Some(RingSender { ring, at: Cursor::START, sent: 0, returned: 0 });
            }
        }
        None
    }

    /// Sends a message; false: the ring is full, or the payload longer than [`RING_PAYLOAD_MAX`]. Never blocks.
    #[inline(always)]
    pub fn try_send(&mut self, header: &Header, payload: &[u8]) -> bool {
        if payload.len() > RING_PAYLOAD_MAX || !self.has_room() {
            return false;
        }
        self.ring.publish(self.at.word(), header, self.at.lap, payload);
        self.at.advance();
        self.sent = self.sent.wrapping_add(1);
        true
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        if self.sent.wrapping_sub(self.returned) < RING_SLOTS {
            return true;
        }
        // Acquire: the receiver has read what this sender will overwrite.
        self.returned = self.ring.word(RETURNED).load(Ordering::Acquire) as u32;
        self.sent.wrapping_sub(self.returned) < RING_SLOTS
    }
}

/// The receiver's end of all its rings.
pub struct RingReceiver {
    pool: Area,
    rings: [Incoming; RINGS as usize],
}

#[derive(Clone, Copy)]
struct Incoming {
    at: Cursor,
    taken: u32,
    returned: u32,
}

impl RingReceiver {
    /// The receiver's end of the pool at `pool`.
    ///
    /// # Safety
    /// As for [`RingSender::claim`]; a pool has one receiver in a job's life.
    pub unsafe fn attach(pool: *mut u8) -> RingReceiver {
        // SAFETY: the caller's promise.
        let pool = unsafe { Area::new(pool) };
        let start = Incoming { at: Cursor::START, taken: 0, returned: 0 };
        RingReceiver { pool, rings: [start; RINGS as usize] }
    }

    /// Hands up to `limit` messages to `deliver`, each in place, and frees it afterwards; says how many. Never blocks.
    #[inline(always)]
    pub fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let mut claimed = self.pool.word(CLAIMED).load(Ordering::Acquire);
        let mut count = 0;
        while claimed != 0 {
            let index = claimed.trailing_zeros();
            claimed &= claimed - 1;
            count += self.poll_ring(index, limit - count, deliver);
        }
        count
    }

    #[inline(always)]
    fn poll_ring(&mut self, index: u32, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let memory = ring(self.pool, index);
        let incoming = &mut self.rings[index as usize];
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

    /// Whether no ring holds a message: the look before going to sleep.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let mut claimed = self.pool.word(CLAIMED).load(Ordering::Acquire);
        while claimed != 0 {
            let index = claimed.trailing_zeros();
            let at = self.rings[index as usize].at;
            if spare_of(ring(self.pool, index).word(at.word()).load(Ordering::Acquire)) == at.lap {
                return false;
            }
            claimed &= claimed - 1;
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use castell_host::shm::Segment;

    fn message(sequence: u32) -> (Header, Vec<u8>) {
        let bytes = sequence % (RING_PAYLOAD_MAX as u32 + 1);
        let header = Header { kind: 7, bytes, source: 1, sequence, extra: 3, ..Header::default() };
        (header, vec![sequence as u8; bytes as usize])
    }

    #[test]
    fn a_full_pool_and_long_payloads_are_refused() {
        let pool = Segment::create("castell-rings", RING_POOL_BYTES).expect("shared memory");
        // SAFETY: zeroed, large enough, alive until the test's end.
        let claims: Vec<_> =
            (0..=RINGS).map(|me| unsafe { RingSender::claim(pool.as_ptr(), Rank(me)) }).collect();
        assert!(claims[..RINGS as usize].iter().all(Option::is_some));
        assert!(claims[RINGS as usize].is_none());
        let mut sender = claims.into_iter().flatten().next().expect("a ring");
        let header = Header { kind: 1, bytes: 33, ..Header::default() };
        assert!(!sender.try_send(&header, &[0; 33]));
        let header = Header { kind: 1, ..Header::default() };
        assert_eq!((0..100).filter(|_| sender.try_send(&header, &[])).count(), RING_SLOTS as usize);
    }

    /// More messages than a ring counts before it begins again.
    #[test]
    fn counts_wrap_around() {
        let pool = Segment::create("castell-rings", RING_POOL_BYTES).expect("shared memory");
        // SAFETY: as above.
        let mut sender = unsafe { RingSender::claim(pool.as_ptr(), Rank(1)) }.expect("a ring");
        // SAFETY: as above, the only receiver.
        let mut receiver = unsafe { RingReceiver::attach(pool.as_ptr()) };
        let before = u32::MAX - RING_SLOTS;
        (sender.sent, sender.returned) = (before, before);
        (receiver.rings[0].taken, receiver.rings[0].returned) = (before, before);
        sender.ring.word(RETURNED).store(u64::from(before), Ordering::Relaxed);
        let mut received = 0;
        for sequence in 0..5 * RING_SLOTS {
            let (header, payload) = message(sequence);
            assert!(sender.try_send(&header, &payload), "message {sequence}");
            if sequence % RING_SLOTS == RING_SLOTS - 1 {
                assert!(!sender.try_send(&header, &payload), "the ring is full");
                receiver.poll(100, &mut |got, _| {
                    assert_eq!(got.sequence, received);
                    received += 1;
                });
            }
        }
        assert_eq!(received, 5 * RING_SLOTS);
    }

    #[test]
    fn laps_wrap_around() {
        let pool = Segment::create("castell-rings", RING_POOL_BYTES).expect("shared memory");
        // SAFETY: as above.
        let mut sender = unsafe { RingSender::claim(pool.as_ptr(), Rank(1)) }.expect("a ring");
        // SAFETY: as above, the only receiver.
        let mut receiver = unsafe { RingReceiver::attach(pool.as_ptr()) };
        // More laps than the header's field counts.
        let messages = (u32::from(u16::MAX) + 3) * RING_SLOTS;
        let mut received = 0;
        for sequence in 0..messages {
            let (header, payload) = message(sequence);
            assert!(sender.try_send(&header, &payload));
            assert!(!receiver.is_empty());
            // Backlogs of ever other lengths.
            if sequence % 7 < 3 || sequence == messages - 1 {
                receiver.poll(100, &mut |got, _| {
                    assert_eq!(got.sequence, received);
                    received += 1;
                });
                assert!(receiver.is_empty());
            }
        }
        assert_eq!(received, messages);
    }

    #[test]
    fn many_senders_keep_their_order() {
        let pool = Segment::create("castell-rings", RING_POOL_BYTES).expect("shared memory");
        std::thread::scope(|scope| {
            for me in 0..6 {
                // SAFETY: as above, one ring a rank.
                let mut sender = unsafe { RingSender::claim(pool.as_ptr(), Rank(me)) }.expect("a ring");
                scope.spawn(move || {
                    for sequence in 0..5000 {
                        let (header, payload) = message(sequence);
                        while !sender.try_send(&Header { source: me, ..header }, &payload) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            // SAFETY: as above, the only receiver.
            let mut receiver = unsafe { RingReceiver::attach(pool.as_ptr()) };
            let mut next = [0; 6];
            while next != [5000; 6] {
                let polled = receiver.poll(64, &mut |got, bytes| {
                    let (header, payload) = message(next[got.source as usize]);
                    assert_eq!(Header { source: 1, spare: 0, ..*got }, header);
                    assert_eq!(bytes, payload);
                    next[got.source as usize] += 1;
                });
                if polled == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::queue::area::Word;
    use loom::thread;
    use std::sync::Arc;

    struct Pool(Vec<Word>);

    impl Pool {
        fn new() -> Arc<Pool> {
            Arc::new(Pool((0..RING_POOL_BYTES / 8).map(|_| Word::default()).collect()))
        }

        fn base(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut().cast()
        }
    }

    fn explore(scene: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(scene);
    }

    fn send(sender: &mut RingSender, source: u32, sequence: u32) {
        let header = Header { kind: 1, bytes: 8, source, sequence, extra: 5, ..Header::default() };
        while !sender.try_send(&header, &[sequence as u8; 8]) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_ring_wraps_around() {
        explore(|| {
            let pool = Pool::new();
            let base = pool.base();
            // SAFETY: the pool outlives both ends.
            let (mut sender, mut receiver) =
                unsafe { (RingSender::claim(base, Rank(1)).expect("a ring"), RingReceiver::attach(base)) };
            let thread = thread::spawn(move || (0..5).for_each(|sequence| send(&mut sender, 1, sequence)));
            let mut next = 0;
            while next < 5 {
                let polled = receiver.poll(8, &mut |got, payload| {
                    assert_eq!((got.source, got.sequence, got.extra), (1, next, 5));
                    assert_eq!(payload, [next as u8; 8]);
                    next += 1;
                });
                if polled == 0 {
                    thread::yield_now();
                }
            }
            thread.join().expect("no panic");
            assert!(receiver.is_empty());
        });
    }

    #[test]
    fn rings_are_claimed_once() {
        explore(|| {
            let pool = Pool::new();
            let claim = |me: u32, pool: Arc<Pool>| {
                move || {
                    // SAFETY: the pool outlives the sender.
                    let mut sender = unsafe { RingSender::claim(pool.base(), Rank(me)) };
                    if let Some(sender) = &mut sender {
                        send(sender, me, 0);
                    }
                    u32::from(sender.is_some())
                }
            };
            let threads = [1, 2].map(|me| thread::spawn(claim(me, pool.clone())));
            // More claims than rings: one stays without.
            let mut claimed = claim(3, pool.clone())();
            // SAFETY: the pool outlives the receiver.
            let mut receiver = unsafe { RingReceiver::attach(pool.base()) };
            claimed += threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u32>();
            assert_eq!(claimed, RINGS);
            assert_eq!(receiver.poll(8, &mut |got, _| assert_eq!(got.sequence, 0)), 2);
        });
    }
}
