//! Runs that are calls of a communicator: its free contexts, and members that call different things.

use super::Runs;
use super::reference::{RunRef, Scope};
use crate::contexts::{Mask, other_call};
use crate::failure::Cause;
use crate::messages::Messages;
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
            if let Some(cause) = self.other_call(run) {
                self.fail_if_live(messages, run, None, cause);
            }
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
