//! The contexts of communicators: how far each has come, who belongs to it, and runs that wait where somebody else called
//! something else.

use super::core::Core;
use super::failure::Cause;
use super::number::{CONTEXTS, SEQUENCE_MASK, call_word, context_of, sequence_of};
use super::run::{RunRef, Scope};
use crate::collective::board::{Board, Record};
use crate::job::Job;
use castell_base::Rank;
use castell_host::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A call that has waited for so long looks at what the others have called. Nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

/// Words of a mask with a bit for each context.
pub(crate) const MASK_WORDS: usize = CONTEXTS as usize / 64;
/// A bit for each context.
pub(crate) type Mask = [u64; MASK_WORDS];

/// What a process knows of its contexts.
pub(super) struct Contexts {
    /// The sequence number of the next call in each context, also of those that are not open here. Never goes back.
    /// Calls with slots take theirs without the engine.
    next: Arc<[AtomicU64]>,
    /// The ranks that belong to it; `None`: it is not open here.
    members: Vec<Option<Arc<[Rank]>>>,
    /// Contexts in whose name somebody here wants a new one; the lowest goes first, so that two processes with two threads
    /// each come to an end.
    wanting: Vec<u32>,
    /// In whose name the free contexts are on offer just now.
    offered: Option<u32>,
    looked_ns: u64,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            next: (0..CONTEXTS).map(|_| AtomicU64::new(0)).collect(),
            members: vec![None; CONTEXTS as usize],
            wanting: Vec::new(),
            offered: None,
            looked_ns: 0,
        }
    }
}

impl Contexts {
    /// The sequence numbers of the next calls.
    pub(super) fn numbers(&self) -> Arc<[AtomicU64]> {
        Arc::clone(&self.next)
    }

    /// The sequence number of the next call.
    #[inline]
    pub(super) fn next(&self, context: u32) -> u64 {
        self.next[context as usize].load(Ordering::Relaxed)
    }

    /// The word of the next call, which is made now.
    #[inline]
    pub(super) fn take(&mut self, context: u32) -> u32 {
        call_word(context, self.next[context as usize].fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Opens a context whose first call has this sequence number.
    pub(super) fn open(&mut self, context: u32, members: Arc<[Rank]>, first: u64) {
        self.next[context as usize].store(first, Ordering::Relaxed);
        self.members[context as usize] = Some(members);
    }

    pub(super) fn is_open(&self, context: u32) -> bool {
        self.members[context as usize].is_some()
    }

    pub(super) fn close(&mut self, context: u32) {
        self.members[context as usize] = None;
    }

    /// The offer in the name of `parent` is over; a context that was found is reserved.
    pub(super) fn settle(&mut self, parent: u32, found: Option<u32>) {
        if self.offered == Some(parent) {
            self.offered = None;
            if let Some(context) = found {
                self.members[context as usize] = Some(Arc::new([]));
            }
        }
    }

    /// Somebody wants a context in the name of `parent`.
    pub(super) fn want(&mut self, parent: u32) {
        self.wanting.push(parent);
    }

    /// That is settled.
    pub(super) fn want_no_more(&mut self, parent: u32) {
        if let Some(at) = self.wanting.iter().position(|wanting| *wanting == parent) {
            self.wanting.swap_remove(at);
        }
    }
}

impl Core {
    /// The contexts that are free here; `None` while somebody goes before `parent`.
    pub(super) fn offer_contexts(&mut self, parent: u32) -> Option<Mask> {
        let mut mask = Mask::default();
        if self.contexts.offered.is_some() || self.contexts.wanting.iter().any(|other| *other < parent) {
            return None;
        }
        self.contexts.offered = Some(parent);
        for (context, members) in self.contexts.members.iter().enumerate().skip(1) {
            mask[context / 64] |= u64::from(members.is_none()) << (context % 64);
        }
        for run in self.runs.iter().flatten() {
            if let Scope::Call { context, .. } = run.scope {
                mask[context as usize / 64] &= !(1 << (context % 64));
            }
        }
        Some(mask)
    }

    /// Ends the calls that have waited for long and never end, since a member of their communicator called something else
    /// in their place.
    pub(super) fn compare_calls(&mut self) {
        let now = clock::now_ns();
        if now < self.contexts.looked_ns + PATIENCE_NS {
            return;
        }
        self.contexts.looked_ns = now;
        let mut due = Vec::new();
        for (slot, run) in (0..).zip(self.runs.iter_mut()) {
            let Some(run) = run.as_deref_mut().filter(|run| matches!(run.scope, Scope::Call { .. })) else {
                continue;
            };
            match run.waiting_since_ns {
                0 => run.waiting_since_ns = now,
                since if now >= since + PATIENCE_NS / 2 => due.push(RunRef { slot, serial: run.serial }),
                _ => {}
            }
        }
        for run in due {
            if let Some(cause) = self.other_call(run) {
                self.fail_if_live(run, None, cause);
            }
        }
    }

    /// Whether a member of the run's communicator has called something else in its place.
    pub(super) fn other_call(&mut self, run: RunRef) -> Option<Cause> {
        let Scope::Call { context, word } = self.run(run)?.scope else { return None };
        let members = Arc::clone(self.contexts.members[context as usize].as_ref()?);
        other_call(&self.job, self.me, &members, word)
    }
}

/// Whether a member of the communicator has called something else than this rank in the call that has this word.
pub(super) fn other_call(job: &Job, me: Rank, members: &[Rank], word: u32) -> Option<Cause> {
    let ours = called(job, me, word)?;
    let others = members.iter().filter(|member| **member != me);
    others.copied().find_map(|peer| {
        let theirs = called(job, peer, word)?;
        (!theirs.is_like(&ours)).then(|| Cause::CallsDiffer {
            peer,
            theirs: theirs.to_string().into(),
            ours: ours.to_string().into(),
        })
    })
}

/// What a rank called under this word.
fn called(job: &Job, rank: Rank, word: u32) -> Option<Record> {
    Board::of(job, rank).find(word).or_else(|| {
        let context = context_of(word).filter(|context| job.has_slots(*context))?;
        // Calls with slots count from 1.
        let low = u64::from(sequence_of(word)) + 1;
        job.call_log(context, rank).find(low, SEQUENCE_MASK).map(Record::from_words)
    })
}
