//! What a board says of processors and programs, and who changes it how, in memory of any origin; see README.md for the states.

use castell_base::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::cmp::Reverse;

/// The most programs on a board: a bit each.
pub(super) const MEMBERS_MAX: usize = if cfg!(loom) { 3 } else { 64 };
/// The most processors.
pub(super) const SLOTS_MAX: usize = if cfg!(loom) { 64 } else { 1024 };
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"cbrd");
pub(super) const VERSION: u32 = 1;

const HOLDER: u64 = 0xffff;
const WANTED: u64 = 1 << 16;
const TURN: u64 = 1 << 17;

/// What all see first.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Header {
    pub(super) magic: AtomicU32,
    pub(super) version: AtomicU32,
    pub(super) slots: AtomicU32,
    /// Grows with every program that comes, and begins again.
    pub(super) joined: AtomicU32,
    /// How many programs are there now.
    pub(super) present: AtomicU32,
    /// A bit a member: some of its workers have work and no processor.
    pub(super) hungry: AtomicU64,
}

/// A processor.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Slot {
    /// Who has it (0: nobody; n: member n - 1), whether it is wanted back, and how often it was taken.
    pub(super) state: AtomicU64,
    /// Who has the right to it, as above.
    right: AtomicU32,
    /// The thread that has it.
    pub(super) thread: AtomicU32,
    /// Since when, and since when that one has the right; nanoseconds of the monotonic clock.
    pub(super) since_ns: AtomicU64,
    pub(super) right_since_ns: AtomicU64,
    /// Since when it is wanted back, if it is.
    pub(super) wanted_ns: AtomicU64,
    /// How often others took it than the one that has the right.
    pub(super) lent: AtomicU64,
    /// How often it was given back since it was wanted.
    pub(super) returned: AtomicU64,
    /// How often it was taken from a thread that slept, was stopped, had not come to the end of its task for very long, or has to make room at once.
    pub(super) seized: AtomicU64,
}

/// A program.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Member {
    /// 0: nobody's place.
    pub(super) pid: AtomicU32,
    pub(super) workers: AtomicU32,
    pub(super) start_time: AtomicU64,
    /// In which order programs came.
    pub(super) number: AtomicU32,
    /// Grows with everything that its hungry workers are to look at; futex.
    pub(super) news: AtomicU32,
    /// Of the process: what it was executed with, and how many have this place there: libraries that know nothing of each other.
    pub(super) image: AtomicU64,
    pub(super) users: AtomicU32,
    /// Whether it has threads that are counted while they compute, and never wait for a processor: such have their rights first, and keep them.
    pub(super) never_waits: AtomicU32,
    pub(super) usable: [AtomicU64; SLOTS_MAX / 64],
}

/// A board, wherever it lies.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) header: &'a Header,
    pub(super) members: &'a [Member],
    pub(super) slots: &'a [Slot],
}

/// A worker's hold on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub(super) slot: u32,
    /// The processor's state while nobody wants it back.
    pub(super) state: u64,
}

impl Turn {
    /// The processor's number.
    pub fn cpu(self) -> u32 {
        self.slot
    }

    /// What [`super::Membership::word`] holds as long as the turn is not over.
    pub fn word(self) -> u64 {
        self.state
    }

    /// What was taken apart by [`Turn::cpu`] and [`Turn::word`].
    pub fn of(cpu: u32, word: u64) -> Turn {
        Turn { slot: cpu, state: word }
    }
}

/// How many processors each member has, and has the right to.
pub(super) struct Census {
    held: [u16; MEMBERS_MAX],
    rights: [u16; MEMBERS_MAX],
    hungry: u64,
}

impl Census {
    /// Whether the member has work, and less than it has the right to.
    fn deserves(&self, member: usize) -> bool {
        self.hungry & 1 << member != 0 && self.is_short(member)
    }

    pub(super) fn is_short(&self, member: usize) -> bool {
        self.held[member] < self.rights[member]
    }

    pub(super) fn rights(&self, member: usize) -> u16 {
        self.rights[member]
    }
}

pub(super) fn holder(state: u64) -> Option<usize> {
    ((state & HOLDER) as usize).checked_sub(1)
}

pub(super) fn is_wanted(state: u64) -> bool {
    state & WANTED != 0
}

impl Slot {
    pub(super) fn right(&self) -> Option<usize> {
        (self.right.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    pub(super) fn set_right(&self, member: Option<usize>, now_ns: u64) {
        self.right.store(member.map_or(0, |member| member as u32 + 1), Ordering::Relaxed);
        self.right_since_ns.store(now_ns, Ordering::Relaxed);
    }
}

impl Slot {
    /// The processor is wanted back, if its state is still this one. If not, somebody else has it now, or nobody: then whoever wants it looks again anyway.
    pub(super) fn want(&self, state: u64, now_ns: u64) {
        self.wanted_ns.store(now_ns, Ordering::Relaxed);
        let _ = self.state.compare_exchange(state, state | WANTED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl<'a> Words<'a> {
    fn state(&self, slot: usize) -> &'a AtomicU64 {
        &self.slots[slot].state
    }

    pub(super) fn is_usable(&self, member: usize, slot: usize) -> bool {
        self.members[member].usable[slot / 64].load(Ordering::Relaxed) & 1 << (slot % 64) != 0
    }

    pub(super) fn hungry(&self) -> u64 {
        self.header.hungry.load(Ordering::Relaxed)
    }

    pub(super) fn census(&self) -> Census {
        let mut census = Census { held: [0; MEMBERS_MAX], rights: [0; MEMBERS_MAX], hungry: self.hungry() };
        let mut count = |counts: fn(&mut Census) -> &mut [u16; MEMBERS_MAX], member: Option<usize>| {
            // A number that no member can have is nobody's.
            if let Some(count) = member.and_then(|member| counts(&mut census).get_mut(member)) {
                *count += 1;
            }
        };
        for slot in self.slots {
            count(|census| &mut census.held, holder(slot.state.load(Ordering::Relaxed)));
            count(|census| &mut census.rights, slot.right());
        }
        census
    }

    /// A free processor for a worker of `member`, `last` rather than another. Those who have work and less than they have the right to come first,
    /// unless it is `forced`.
    pub(super) fn take(&self, member: usize, last: Option<usize>, forced: bool, now_ns: u64) -> Option<Turn> {
        let last = last.filter(|&slot| slot < self.slots.len());
        if let Some(slot) = last.filter(|&slot| self.slots[slot].right() == Some(member))
            && let Some(turn) = self.take_free(slot, member, now_ns)
        {
            return Some(turn);
        }
        let mut free = (0..self.slots.len()).filter(|&slot| self.is_free(slot)).peekable();
        free.peek()?;
        let census = self.census();
        let is_own = |slot: &usize| self.slots[*slot].right() == Some(member);
        let own = (0..self.slots.len()).filter(|slot| self.is_free(*slot) && is_own(slot));
        let mut candidates = last.into_iter().chain(own).chain(free);
        candidates.find_map(|slot| {
            let is_ours = forced || census.is_short(member) || !self.is_owed(&census, member, slot);
            (self.is_usable(member, slot) && is_ours).then(|| self.take_free(slot, member, now_ns))?
        })
    }

    /// A processor that `member` has the right to, `last` rather than another and a free one rather than one that others have; else any that is free.
    pub(super) fn reclaim(&self, member: usize, last: Option<usize>, now_ns: u64) -> Option<Turn> {
        let is_own =
            |slot: &usize| self.slots[*slot].right() == Some(member) && self.is_usable(member, *slot);
        let last = last.filter(|slot| *slot < self.slots.len());
        let own = || last.into_iter().chain(0..self.slots.len()).filter(is_own);
        let free = own().find_map(|slot| self.take_free(slot, member, now_ns));
        let borrowed = || {
            own().find_map(|slot| {
                let seen = self.state(slot).load(Ordering::Relaxed);
                let turn = holder(seen).filter(|holder| *holder != member);
                let turn = turn.and_then(|_| self.replace(slot, seen, member, now_ns));
                turn.inspect(|_| _ = self.slots[slot].seized.fetch_add(1, Ordering::Relaxed))
            })
        };
        free.or_else(borrowed).or_else(|| self.take(member, last, false, now_ns))
    }

    fn is_free(&self, slot: usize) -> bool {
        holder(self.state(slot).load(Ordering::Relaxed)).is_none()
    }

    /// Whether somebody else deserves this processor.
    fn is_owed(&self, census: &Census, member: usize, slot: usize) -> bool {
        bits(census.hungry)
            .any(|other| other != member && census.deserves(other) && self.is_usable(other, slot))
    }

    fn take_free(&self, slot: usize, member: usize, now_ns: u64) -> Option<Turn> {
        let seen = self.state(slot).load(Ordering::Relaxed);
        if holder(seen).is_some() { None } else { self.replace(slot, seen, member, now_ns) }
    }

    /// The member takes the processor, whose state is `seen` and stays nobody else's if that has changed.
    pub(super) fn replace(&self, slot: usize, seen: u64, member: usize, now_ns: u64) -> Option<Turn> {
        let state = (seen & !(HOLDER | WANTED)).wrapping_add(TURN) | (member as u64 + 1);
        // Acquire: what the last one did while it had it is before what is done now.
        self.state(slot).compare_exchange(seen, state, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let about = &self.slots[slot];
        about.since_ns.store(now_ns, Ordering::Relaxed);
        if about.right() != Some(member) {
            about.lent.fetch_add(1, Ordering::Relaxed);
        }
        Some(Turn { slot: slot as u32, state })
    }

    /// The turn is over, and whoever may take the processor looks; false if it had been taken from it.
    pub(super) fn give(&self, turn: Turn, wake: impl Fn(&AtomicU32)) -> bool {
        let slot = turn.slot as usize;
        let free = turn.state & !HOLDER;
        let state = self.state(slot);
        let mut seen = turn.state;
        // Release: what was done meanwhile is before what the next one does.
        while let Err(now) = state.compare_exchange(seen, free, Ordering::AcqRel, Ordering::Relaxed) {
            if now != turn.state | WANTED {
                return false;
            }
            seen = now;
            self.slots[slot].returned.fetch_add(1, Ordering::Relaxed);
        }
        self.offer(slot, wake);
        true
    }

    /// The processor is free: somebody who could use it looks. In one order with [`Words::begin_hunger`]: who becomes hungry sees that it is free, or is seen here.
    pub(super) fn offer(&self, slot: usize, wake: impl Fn(&AtomicU32)) {
        fence(Ordering::SeqCst);
        let hungry = self.hungry();
        if hungry == 0 {
            return;
        }
        let census = self.census();
        let rank = |&member: &usize| {
            (census.deserves(member), self.slots[slot].right() == Some(member), Reverse(member))
        };
        let fits = |member: &usize| *member < self.members.len() && self.is_usable(*member, slot);
        if let Some(member) = bits(hungry).filter(fits).max_by_key(rank) {
            self.tell(member, wake);
        }
    }

    /// One of the member's hungry workers looks.
    pub(super) fn tell(&self, member: usize, wake: impl Fn(&AtomicU32)) {
        let news = &self.members[member].news;
        // Release: who sees it sees what it is about.
        news.fetch_add(1, Ordering::AcqRel);
        wake(news);
    }

    /// The first worker of the member is hungry from now on.
    pub(super) fn begin_hunger(&self, member: usize) {
        if self.hungry() & 1 << member == 0 {
            self.header.hungry.fetch_or(1 << member, Ordering::AcqRel);
        }
    }

    /// Before each look of a hungry worker: what changes later, changes the number. The number that says so.
    pub(super) fn news_before_look(&self, member: usize) -> u32 {
        let news = self.members[member].news.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        news
    }

    /// A hungry worker goes on, with a processor or without, the last one of the member if it `is_last`. It may have been told of a processor
    /// that it did not take: others hear of what is free.
    pub(super) fn end_hunger(&self, member: usize, is_last: bool, wake: impl Fn(&AtomicU32)) {
        if is_last {
            self.header.hungry.fetch_and(!(1 << member), Ordering::AcqRel);
        }
        fence(Ordering::SeqCst);
        if self.hungry() != 0 {
            (0..self.slots.len()).filter(|&slot| self.is_free(slot)).for_each(|slot| self.offer(slot, &wake));
        }
    }

    /// The member has so many hungry workers: wants processors back that it has the right to and others have, as many as it lacks.
    pub(super) fn want_back(&self, member: usize, workers: usize, now_ns: u64) {
        let census = self.census();
        let lacks = usize::from(census.rights[member].saturating_sub(census.held[member])).min(workers);
        let lent = || {
            self.slots.iter().filter(|slot| slot.right() == Some(member)).filter_map(|slot| {
                let state = slot.state.load(Ordering::Relaxed);
                holder(state).filter(|holder| *holder != member).map(|_| (slot, state))
            })
        };
        let wanted = lent().filter(|(_, state)| is_wanted(*state)).count();
        let more = lent().filter(|(_, state)| !is_wanted(*state)).take(lacks.saturating_sub(wanted));
        more.for_each(|(slot, state)| slot.want(state, now_ns));
    }

    /// Who has the right to what: each member as much as the others as far as it has workers for it, and what it had before if it
    /// can be so. To be called by whoever holds the board's lock.
    pub(super) fn share_out(&self, now_ns: u64) {
        let mut members: Vec<usize> =
            (0..self.members.len()).filter(|&member| self.is_there(member)).collect();
        // By how many came after it: the numbers begin again.
        let joined = self.header.joined.load(Ordering::Relaxed);
        let age = |member: usize| joined.wrapping_sub(self.members[member].number.load(Ordering::Relaxed));
        members.sort_by_key(|&member| Reverse(age(member)));
        let usable = |member: usize| (0..self.slots.len()).filter(move |&slot| self.is_usable(member, slot));
        // Who never waits chooses first, then who can use few processors.
        let mut choosers = members.clone();
        choosers.sort_by_key(|&member| (!self.never_waits(member), usable(member).count()));
        let mut rights: Vec<Option<usize>> = vec![None; self.slots.len()];
        let mut counts = [0_u32; MEMBERS_MAX];
        loop {
            let mut is_over = true;
            for &member in &choosers {
                let had = |slot: &usize| self.slots[*slot].right() == Some(member);
                let free = |slot: &usize| rights[*slot].is_none();
                if counts[member] >= self.members[member].workers.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(slot) =
                    usable(member).filter(free).find(had).or_else(|| usable(member).find(free))
                {
                    rights[slot] = Some(member);
                    counts[member] += 1;
                    is_over = false;
                }
            }
            if is_over {
                break;
            }
        }
        for (slot, right) in self.slots.iter().zip(rights) {
            if slot.right() != right {
                slot.set_right(right, now_ns);
            }
        }
    }

    /// To be called by whoever holds the board's lock.
    pub(super) fn count_present(&self) {
        let present = (0..self.members.len()).filter(|&member| self.is_there(member)).count();
        self.header.present.store(present as u32, Ordering::Relaxed);
    }

    pub(super) fn never_waits(&self, member: usize) -> bool {
        self.members[member].never_waits.load(Ordering::Relaxed) != 0
    }

    /// The member takes over the right that has been with another one for longest, if `may_take` says so of who has it and since when. To be called by
    /// whoever holds the board's lock.
    pub(super) fn take_right(
        &self,
        member: usize,
        may_take: impl Fn(Option<usize>, u64) -> bool,
        now_ns: u64,
    ) {
        let since = |slot: &usize| self.slots[*slot].right_since_ns.load(Ordering::Relaxed);
        let is_there = |slot: &usize| {
            let has_it = self.slots[*slot].right().filter(|right| *right < self.members.len());
            self.is_usable(member, *slot) && may_take(has_it, since(slot))
        };
        if let Some(slot) = (0..self.slots.len()).filter(is_there).min_by_key(since) {
            self.slots[slot].set_right(Some(member), now_ns);
        }
    }

    /// Where this very process is already.
    pub(super) fn place_of(&self, pid: u32, image: u64) -> Option<usize> {
        let is_it = |member: &Member| {
            member.pid.load(Ordering::Acquire) == pid && member.image.load(Ordering::Relaxed) == image
        };
        (0..self.members.len()).find(|&member| image != 0 && is_it(&self.members[member]))
    }

    pub(super) fn is_there(&self, member: usize) -> bool {
        self.members[member].pid.load(Ordering::Acquire) != 0
    }

    /// The member is gone, or goes: what it has is free. To be called by whoever holds the board's lock.
    pub(super) fn remove(&self, member: usize, now_ns: u64, wake: impl Fn(&AtomicU32)) {
        self.header.hungry.fetch_and(!(1 << member), Ordering::AcqRel);
        for slot in self.slots {
            let mut seen = slot.state.load(Ordering::Relaxed);
            while holder(seen) == Some(member) {
                let free = seen & !(HOLDER | WANTED);
                match slot.state.compare_exchange(seen, free, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
        }
        self.members[member].pid.store(0, Ordering::Release);
        self.count_present();
        self.share_out(now_ns);
        fence(Ordering::SeqCst);
        (0..self.slots.len()).filter(|&slot| self.is_free(slot)).for_each(|slot| self.offer(slot, &wake));
    }
}

/// The numbers of the bits that are set.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| word & 1 << bit != 0)
}
