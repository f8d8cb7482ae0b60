//! rlock: one double-buffered slot array a receiver under a lock that lies in one word with the offset.
//!
//! The design that SCMP is measured against. Its lock is taken by a fetch-or of the word's top bit, as a network can do
//! it; who fails tries again a while and is then refused.

use castell_base::Rank;
use castell_base::sync::{Ordering, spin_hint};

use super::geometry::Geometry;
use castell_shm::queue::Intents;
use castell_shm::queue::Refused;
use castell_shm::queue::area::Area;
use castell_shm::queue::header::{Header, SLOT_WORDS, bytes_of, slots_for};

/// The word `lock << 63 | half << 62 | releases << 32 | offset`.
pub(super) const STATE: usize = 0;
const SLOTS: usize = 16;
const LOCKED: u64 = 1 << 63;
/// Releases are counted `0 … RELEASES - 1`, then begin again.
pub(super) const RELEASES: u64 = 1 << 30;
/// Fetch-ors before an insertion is refused. The owner may be preempted or dead: waiting is the caller's.
const LOCK_TRIES: u32 = if cfg!(loom) { 1 } else { 128 };

pub(crate) fn area_words(geometry: &Geometry) -> usize {
    SLOTS + 2 * geometry.slots as usize * SLOT_WORDS
}

/// What the word says beside the lock. `releases` makes each owner's word differ from the next one's.
#[derive(Clone, Copy)]
struct State {
    half: u32,
    releases: u32,
    offset: u32,
}

impl State {
    #[inline(always)]
    fn of(word: u64) -> State {
        State {
            half: (word >> 62 & 1) as u32,
            releases: (word >> 32 & (RELEASES - 1)) as u32,
            offset: word as u32,
        }
    }

    /// The word of the next state: unlocked.
    #[inline(always)]
    fn released(self) -> u64 {
        let releases = (self.releases + 1) % RELEASES as u32;
        u64::from(self.half) << 62 | u64::from(releases) << 32 | u64::from(self.offset)
    }
}

/// The memory, as both ends see it.
struct Slots {
    area: Area,
    slots: u32,
}

impl Slots {
    fn lock(&self) -> Option<State> {
        for _ in 0..LOCK_TRIES {
            // Acquire: what the previous owner did is visible. Release: the announcement of this one.
            let word = self.area.word(STATE).fetch_or(LOCKED, Ordering::AcqRel);
            if word & LOCKED == 0 {
                return Some(State::of(word));
            }
            spin_hint();
        }
        None
    }

    fn unlock(&self, state: State) {
        let word = self.area.word(STATE);
        if cfg!(loom) {
            // Loom takes a plain store for older than the failed fetch-ors before it, and then nobody sees it.
            word.swap(state.released(), Ordering::AcqRel);
        } else {
            word.store(state.released(), Ordering::Release);
        }
    }

    fn slot_word(&self, half: u32, offset: u32) -> usize {
        SLOTS + (half * self.slots + offset) as usize * SLOT_WORDS
    }
}

/// A sender's end.
pub(crate) struct Producer {
    memory: Slots,
    intents: Intents,
    me: Rank,
    dest: Rank,
}

impl Producer {
    pub(crate) fn new(area: Area, geometry: &Geometry, intents: Intents, me: Rank, dest: Rank) -> Producer {
        Producer { memory: Slots { area, slots: geometry.slots }, intents, me, dest }
    }

    #[inline(always)]
    pub(crate) fn try_insert(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let count = slots_for(payload.len()) as u32;
        let intent = self.intents.of(self.me.0);
        intent.announce(self.dest.0, count);
        let result = self.insert_locked(header, payload, count);
        intent.withdraw();
        result
    }

    #[inline(always)]
    fn insert_locked(&self, header: &Header, payload: &[u8], count: u32) -> Result<(), Refused> {
        let mut state = self.memory.lock().ok_or(Refused)?;
        let fits = state.offset + count <= self.memory.slots;
        if fits {
            let word = self.memory.slot_word(state.half, state.offset);
            self.memory.area.publish(word, header, 0, payload);
            state.offset += count;
        }
        self.memory.unlock(state);
        if fits { Ok(()) } else { Err(Refused) }
    }

    /// Takes the lock and keeps it, as a sender that dies then would.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn lock_and_die(&mut self) {
        self.intents.of(self.me.0).announce(self.dest.0, 1);
        assert!(self.memory.lock().is_some());
    }
}

/// The receiver's end.
pub(crate) struct Consumer {
    memory: Slots,
    intents: Intents,
    me: Rank,
    /// The half that is being emptied, up to where, and how far that is.
    half: u32,
    end: u32,
    position: u32,
}

impl Consumer {
    pub(crate) fn new(area: Area, geometry: &Geometry, intents: Intents, me: Rank) -> Consumer {
        let memory = Slots { area, slots: geometry.slots };
        Consumer { memory, intents, me, half: 1, end: 0, position: 0 }
    }

    #[inline]
    pub(crate) fn poll(&mut self, limit: usize, deliver: &mut impl FnMut(&Header, &[u8])) -> usize {
        let mut count = 0;
        while count < limit {
            if self.position == self.end && !self.swap() {
                break;
            }
            let word = self.memory.slot_word(self.half, self.position);
            // The lock ordered this after the writing.
            let first = self.memory.area.word(word).load(Ordering::Relaxed);
            self.memory.area.deliver(word, first, deliver);
            self.position += slots_for(bytes_of(first) as usize) as u32;
            count += 1;
        }
        count
    }

    /// Sends the producers to the other half and takes theirs, if they have put something there.
    fn swap(&mut self) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(state) = self.memory.lock() else { return false };
        self.memory.unlock(State { half: state.half ^ 1, offset: 0, ..state });
        (self.half, self.end, self.position) = (state.half, state.offset, 0);
        self.end > 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = State::of(self.memory.area.word(STATE).load(Ordering::Acquire));
        self.position == self.end && state.offset == 0
    }

    /// Takes the lock away from a dead rank. What that rank was writing lies behind the offset and was never there.
    pub(crate) fn reclaim_dead(&mut self, is_dead: &dyn Fn(Rank) -> bool) -> bool {
        let state = self.memory.area.word(STATE);
        let word = state.load(Ordering::Acquire);
        let names_me = |&rank: &u32| self.intents.of(rank).read(self.me.0) != Ok(None);
        let (dead, living): (Vec<u32>, Vec<u32>) =
            (0..self.intents.ranks()).filter(names_me).partition(|&rank| is_dead(Rank(rank)));
        if dead.is_empty() {
            return true;
        }
        if word & LOCKED != 0 {
            if !living.is_empty() {
                // One of these may be the owner.
                return false;
            }
            // The owner announced itself before it locked, and no living rank did: it is dead. If the word has changed,
            // it was alive.
            let freed = State::of(word).released();
            if state.compare_exchange(word, freed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return false;
            }
        }
        dead.iter().for_each(|&rank| self.intents.of(rank).withdraw());
        true
    }
}
