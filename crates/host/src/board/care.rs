//! What a hungry worker does when nobody has told it anything for a while: others may be gone, stopped, or asleep in the middle of a task.
//!
//! | it finds | it does |
//! |---|---|
//! | a program that has ended without saying so | frees what that had |
//! | a free processor that is left to somebody who does not take it | takes it |
//! | a processor whose thread has slept, was stopped or gone from one look to the next | takes it |
//! | a processor that another thread of its program has had for 100 ms | wants it: it is its turn |
//! | a processor that it has the right to, or its program has, wanted for a second, whose thread runs a very long task | takes it |
//! | more programs than processors, and itself without a right | has the right that somebody else has had for longest; that of a program that never waits after a second |

use super::file::{Board, Lock};
use super::membership::{Membership, wake_one};
use super::words::{MEMBERS_MAX, Turn, Words, holder, is_wanted};
use crate::clock::now_ns;
use std::fs;
use std::sync::atomic::Ordering;

/// For so long the right to a processor stays with one program where there are more programs than processors.
pub(super) const QUANTUM_NS: u64 = 10_000_000;
/// After so long it is another thread's turn where a program has fewer processors than threads with work.
const TURN_NS: u64 = 100_000_000;
/// After so long a processor that is wanted back is taken back whatever its thread does: it may wait for what the one that wants it has to do.
const LIMIT_NS: u64 = 1_000_000_000;

/// What a hungry worker remembers from one look to the next.
pub(super) struct Care<'a> {
    membership: &'a Membership,
    /// Since when it is hungry.
    since_ns: u64,
    /// Where it looks next for a thread that sleeps.
    next: usize,
    /// A processor whose thread slept when it looked last.
    suspect: Option<Suspect>,
}

/// A processor whose thread sleeps.
#[derive(PartialEq, Eq)]
struct Suspect {
    slot: usize,
    /// Of the processor.
    state: u64,
    /// How often the thread has left a processor so far.
    switches: u64,
}

impl<'a> Care<'a> {
    pub(super) fn new(membership: &'a Membership) -> Care<'a> {
        Care { membership, since_ns: now_ns(), next: 0, suspect: None }
    }

    /// Looks once; a processor, if that gives one.
    pub(super) fn take(&mut self) -> Option<Turn> {
        self.membership.board.remove_dead_if_free();
        let member = self.membership.member;
        self.words().take(member, None, true, now_ns()).or_else(|| {
            self.move_right();
            self.want_of_sibling();
            self.take_from_sleeper().or_else(|| self.take_overdue())
        })
    }

    fn words(&self) -> Words<'a> {
        self.membership.words()
    }

    fn take_from_sleeper(&mut self) -> Option<Turn> {
        let (words, member) = (self.words(), self.membership.member);
        let before = self.suspect.take();
        let count = words.slots.len();
        let mut others = (0..count).map(|offset| (self.next + offset) % count);
        let slot = before.as_ref().map(|before| before.slot);
        let slot = slot.or_else(|| others.find(|&slot| words.is_usable(member, slot)))?;
        let about = &words.slots[slot];
        let state = about.state.load(Ordering::Acquire);
        let thread = about.thread.load(Ordering::Relaxed);
        let now = holder(state)
            .filter(|holder| *holder < MEMBERS_MAX)
            .and_then(|holder| self.membership.board.switches_of_sleeper(holder, thread))
            .map(|switches| Suspect { slot, state, switches });
        if now.is_none() {
            self.next = slot + 1;
        } else if now == before {
            return self.seize(slot, state);
        }
        self.suspect = now;
        None
    }

    fn take_overdue(&self) -> Option<Turn> {
        let (words, member) = (self.words(), self.membership.member);
        words.slots.iter().enumerate().find_map(|(slot, about)| {
            let state = about.state.load(Ordering::Acquire);
            let since = about.wanted_ns.load(Ordering::Relaxed);
            let is_overdue = is_wanted(state) && now_ns().saturating_sub(since) > LIMIT_NS;
            let is_own = about.right() == Some(member) || holder(state) == Some(member);
            (is_overdue && is_own).then(|| self.seize(slot, state))?
        })
    }

    /// Threads of one program take turns: one may do nothing but wait for what another has to do, without telling anybody.
    fn want_of_sibling(&self) {
        let (words, member, now) = (self.words(), self.membership.member, now_ns());
        let long_had = words.slots.iter().find(|about| {
            let state = about.state.load(Ordering::Acquire);
            let since = about.since_ns.load(Ordering::Relaxed);
            holder(state) == Some(member) && !is_wanted(state) && now.saturating_sub(since) > TURN_NS
        });
        if let Some(about) = long_had {
            about.want(about.state.load(Ordering::Acquire), now);
        }
    }

    fn seize(&self, slot: usize, state: u64) -> Option<Turn> {
        let turn = self.words().replace(slot, state, self.membership.member, now_ns());
        turn.inspect(|_| _ = self.words().slots[slot].seized.fetch_add(1, Ordering::Relaxed))
    }

    /// Where there are more programs than processors, rights go round.
    fn move_right(&self) {
        let (words, member, now) = (self.words(), self.membership.member, now_ns());
        if words.census().rights(member) > 0 {
            return;
        }
        let Ok(_lock) = self.membership.board.lock(false) else { return }; // somebody else is at it
        let has_waited = now.saturating_sub(self.since_ns) >= LIMIT_NS;
        let may_take = |has_it: Option<usize>, since_ns| {
            let never_waits = has_it.is_some_and(|has_it| words.never_waits(has_it));
            now.saturating_sub(since_ns) >= QUANTUM_NS && (!never_waits || has_waited)
        };
        words.take_right(member, may_take, now);
    }
}

impl Board {
    /// How often the member's thread has left a processor so far, if it is on none now and doesn't want one.
    fn switches_of_sleeper(&self, member: usize, thread: u32) -> Option<u64> {
        let pid = self.words().members[member].pid.load(Ordering::Relaxed);
        let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
        let values = |name: &'static str| {
            let is_it = move |line: &&str| line.split(':').next().is_some_and(|found| found.ends_with(name));
            status.lines().filter(is_it).filter_map(|line| line.split_ascii_whitespace().nth(1))
        };
        // Both kinds, "voluntary_ctxt_switches" and "nonvoluntary_ctxt_switches".
        let switches = values("voluntary_ctxt_switches").filter_map(|count| count.parse::<u64>().ok()).sum();
        (values("State").next() != Some("R")).then_some(switches)
    }

    /// Frees what programs had that have ended, unless somebody else is at it.
    fn remove_dead_if_free(&self) {
        let is_dead = |member| self.words().is_there(member) && !self.lives(member);
        if (0..MEMBERS_MAX).any(is_dead)
            && let Ok(lock) = self.lock(false)
        {
            self.remove_dead(&lock, None);
        }
    }

    /// Frees what programs had that have ended; and what process `renewed` had, which has become another program.
    pub(super) fn remove_dead(&self, _lock: &Lock, renewed: Option<u32>) {
        let words = self.words();
        for member in (0..MEMBERS_MAX).filter(|&member| words.is_there(member)) {
            let pid = words.members[member].pid.load(Ordering::Relaxed);
            if Some(pid) == renewed || !self.lives(member) {
                words.remove(member, now_ns(), wake_one);
            }
        }
    }
}
