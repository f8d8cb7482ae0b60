//! The contexts of communicators: how far each has come, who belongs to it, and runs that wait where somebody else called
//! something else.

use super::failure::Cause;
use super::number::{CONTEXTS, SEQUENCE_MASK, call_word, context_of, sequence_of};
use crate::board::{Board, Describe, Record};
use crate::slot::SlotSet;
use castell_base::Rank;
use castell_shm::job::Job;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a mask with a bit for each context.
pub const MASK_WORDS: usize = CONTEXTS as usize / 64;
/// A bit for each context.
pub type Mask = [u64; MASK_WORDS];

/// What a process knows of its contexts.
pub(super) struct Contexts {
    /// The sequence number of the next call in each context, also of those that are not open here. Never goes back.
    /// Calls with slots take theirs without the engine.
    next: Arc<[AtomicU64]>,
    /// The ranks that belong to it; `None`: it is not open here.
    pub(super) members: Vec<Option<Arc<[Rank]>>>,
    /// Contexts in whose name somebody here wants a new one; the lowest goes first, so that two processes with two threads
    /// each come to an end.
    pub(super) wanting: Vec<u32>,
    /// In whose name the free contexts are on offer just now.
    pub(super) offered: Option<u32>,
    pub(super) looked_ns: u64,
    /// What ranks of other hosts have called under words that this rank had not come to, the oldest first.
    heard: VecDeque<Heard>,
    /// Those who have called something else than this rank has since, and what that was: they have not been told yet.
    pub(super) to_tell: Vec<(Heard, Record)>,
}

/// What a rank of another host has called.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    pub(super) peer: Rank,
    /// The call's.
    pub(super) word: u32,
    pub(super) record: Record,
}

/// So many of those are kept: each rank tells of the call that it waits in.
const HEARD_MAX: usize = 256;

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            next: (0..CONTEXTS).map(|_| AtomicU64::new(0)).collect(),
            members: vec![None; CONTEXTS as usize],
            wanting: Vec::new(),
            offered: None,
            looked_ns: 0,
            heard: VecDeque::new(),
            to_tell: Vec::new(),
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

    /// Keeps what a rank of another host has called, until this one comes to that call.
    pub(super) fn keep_heard(&mut self, heard: Heard) {
        self.heard.retain(|one| one.peer != heard.peer);
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(heard);
    }

    /// This rank has come to a call.
    #[inline]
    pub(super) fn compare_heard(&mut self, word: u32, ours: &Record) {
        if !self.heard.is_empty() {
            self.to_tell.extend(
                self.heard
                    .iter()
                    .filter(|one| one.word == word && !one.record.is_like(ours))
                    .map(|one| (*one, *ours)),
            );
            self.heard.retain(|one| one.word != word);
        }
    }

    /// That is settled.
    pub(super) fn want_no_more(&mut self, parent: u32) {
        if let Some(at) = self.wanting.iter().position(|wanting| *wanting == parent) {
            self.wanting.swap_remove(at);
        }
    }
}

/// Whether a member of the communicator has called something else than this rank in the call that has this word.
pub(super) fn other_call(
    (job, describe): (&Job, Describe),
    me: Rank,
    members: &[Rank],
    word: u32,
) -> Option<Cause> {
    let ours = called(job, me, word)?;
    let others = members.iter().filter(|member| **member != me);
    others.copied().find_map(|peer| {
        let theirs = called(job, peer, word)?;
        (!theirs.is_like(&ours)).then(|| differing(describe, peer, &theirs, &ours))
    })
}

/// The failure of a call in whose place `peer` has called something else.
pub(super) fn differing(describe: Describe, peer: Rank, theirs: &Record, ours: &Record) -> Cause {
    Cause::CallsDiffer { peer, theirs: describe(theirs).into(), ours: describe(ours).into() }
}

/// What a rank called under this word, as far as this one shares memory with it.
pub(super) fn called(job: &Job, rank: Rank, word: u32) -> Option<Record> {
    Board::of(job, rank).find(word).or_else(|| {
        let context = context_of(word).filter(|context| job.has_slots(*context))?;
        // Calls with slots count from 1.
        let low = u64::from(sequence_of(word)) + 1;
        [SlotSet::blocking(context), SlotSet::started(context)]
            .into_iter()
            .find_map(|set| job.call_log(set, rank).find(low, SEQUENCE_MASK).map(Record::from_words))
    })
}
