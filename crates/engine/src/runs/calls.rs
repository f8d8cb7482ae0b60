//! Runs that are calls of a communicator: its free contexts, and members that call different things.
//!
//! Ranks that share memory see there what the others called. Who waits for a rank of another host for long tells it what it has called: that
//! one compares, keeps it until it comes to the same call, and answers where it called something else. Whoever waits in vain does so for somebody, so
//! two ranks whose calls differ hear of each other, if not directly, then because ranks in between wait, too.

use super::Runs;
use super::reference::{RunRef, Scope};
use super::run::Run;
use crate::board::Record;
use crate::contexts::{Heard, Mask, called, differing, other_call};
use crate::failure::Cause;
use crate::messages::{Messages, Wait};
use crate::number::{context_of, is_call_ahead};
use castell_base::Rank;
use castell_host::clock;
use std::sync::Arc;

/// A call that has waited for so long looks at what the others have called. Nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

impl Runs {
    /// The contexts that are free here; `None` while somebody goes before `parent`.
    pub(crate) fn offer_contexts(&mut self, parent: u32) -> Option<Mask> {
        let mut mask = Mask::default();
        if self.contexts.offered.is_some() || self.contexts.wanting.iter().any(|other| *other < parent) {
            return None;
        }
        self.contexts.offered = Some(parent);
        for (context, members) in self.contexts.members.iter().enumerate().skip(1) {
            mask[context / 64] |= u64::from(members.is_none()) << (context % 64);
        }
        for (_, run) in self.table.iter() {
            if let Scope::Call { context, .. } = run.scope {
                mask[context as usize / 64] &= !(1 << (context % 64));
            }
        }
        Some(mask)
    }

    /// Ends the calls that have waited for long and never end, since a member of their communicator called something else
    /// in their place.
    pub(crate) fn compare_calls(&mut self, messages: &mut Messages) {
        let now = clock::now_ns();
        if now < self.contexts.looked_ns + PATIENCE_NS {
            return;
        }
        self.contexts.looked_ns = now;
        for (Heard { peer, word, record }, ours) in std::mem::take(&mut self.contexts.to_tell) {
            messages.tell_call(peer, word, &ours, true);
            self.fail_call(messages, peer, word, &record, &ours);
        }
        let mut due = Vec::new();
        for (reference, run) in self.table.iter_mut() {
            if !matches!(run.scope, Scope::Call { .. }) {
                continue;
            }
            match run.waiting_since_ns {
                0 => run.waiting_since_ns = now,
                since if now >= since + PATIENCE_NS / 2 => due.push(reference),
                _ => {}
            }
        }
        for run in due {
            match self.other_call(run) {
                Some(cause) => self.fail_if_live(messages, run, None, cause),
                None => self.tell_awaited(messages, run),
            }
        }
    }

    /// Tells ranks of other hosts for which a call waits what it is.
    fn tell_awaited(&mut self, messages: &mut Messages, run: RunRef) {
        let Some(found) = self.table.get(run) else { return };
        let Scope::Call { word, .. } = found.scope else { return };
        if !self.job.has_hosts() {
            return;
        }
        let Some(ours) = called(&self.job, self.me, word) else { return };
        let mut awaited: Vec<Rank> = Vec::new();
        for (token, wait) in messages.waits() {
            match wait {
                Wait::Message(Some(peer)) | Wait::Transfer(peer) | Wait::Room(peer) | Wait::Leave(peer)
                    if token.owner == run.slot =>
                {
                    awaited.push(peer);
                }
                _ => {}
            }
        }
        awaited.sort_unstable();
        awaited.dedup();
        let (job, me) = (Arc::clone(&self.job), self.me);
        let found = self.table.expect(run);
        awaited.retain(|peer| !job.share_memory(me, *peer) && !found.told.contains(peer));
        found.told.extend(&awaited);
        for peer in awaited {
            messages.tell_call(peer, word, &ours, false);
        }
    }

    /// A rank of another host waits, and has said what it called.
    #[cold]
    pub(super) fn hear_call(
        &mut self,
        messages: &mut Messages,
        peer: Rank,
        word: u32,
        theirs: &Record,
        is_answer: bool,
    ) {
        let Some(ours) = called(&self.job, self.me, word) else {
            let is_to_come = |context: u32| {
                !self.contexts.is_open(context) || is_call_ahead(word, self.contexts.next(context) as u32)
            };
            if context_of(word).is_some_and(is_to_come) {
                self.contexts.keep_heard(Heard { peer, word, record: *theirs });
            }
            return;
        };
        if ours.is_like(theirs) {
            return;
        }
        if !is_answer {
            messages.tell_call(peer, word, &ours, true);
        }
        self.fail_call(messages, peer, word, theirs, &ours);
    }

    /// Fails the call of this word, if it goes on, since `peer` called something else.
    fn fail_call(&mut self, messages: &mut Messages, peer: Rank, word: u32, theirs: &Record, ours: &Record) {
        let is_this = |run: &Run| matches!(run.scope, Scope::Call { word: of, .. } if of == word);
        let run = self.table.iter().find(|(_, run)| is_this(run)).map(|(reference, _)| reference);
        if let Some(run) = run {
            let cause = differing(self.describe_call, peer, theirs, ours);
            self.fail(messages, run, None, cause);
        }
    }

    /// Whether a member of the run's communicator has called something else in its place.
    pub(crate) fn other_call(&self, run: RunRef) -> Option<Cause> {
        let (_, found) = self.table.iter().find(|(found, _)| *found == run)?;
        let Scope::Call { context, word } = found.scope else { return None };
        let members = Arc::clone(self.contexts.members[context as usize].as_ref()?);
        other_call((&self.job, self.describe_call), self.me, &members, word)
    }
}
