//! Deaths and departures, and runs that fail because of them.
//!
//! The job's epoch counts deaths and departures. A rank that sees it change takes in what the gone rank had still
//! sent, then fails each run that has an operation waiting for it, and tells the other peers of those runs, so
//! that a failure travels along the dependences and no further. Numbered runs fail with all runs of their number; an open
//! run is driven to its end without carrying anything out: tombstones take the places of its operations, see
//! `messages/departure.rs`.

use super::Runs;
use super::reference::{RunRef, Scope};
use super::run::Run;
use crate::failure::{Cause, Failure};
use crate::messages::{Channel, Event, Gone, Messages, OPEN_CONTEXT, Wait};
use castell_base::Rank;
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use std::sync::Arc;

impl Runs {
    /// What happened to operations, besides that they are done.
    #[cold]
    pub(super) fn hear(&mut self, messages: &mut Messages, event: Event) {
        match event {
            Event::Failed(token, cause) => {
                let run = self.table.run_of(token);
                self.fail(messages, run, Some(OpId(token.part)), cause);
            }
            Event::Aborted { channel: Channel { owner: slot, context: serial, .. }, peer, culprit } => {
                let run = RunRef { slot, serial };
                if self.table.get(run).is_some() {
                    let op = self.waits_for(messages, run, peer);
                    let cause = self.other_call(run).unwrap_or(Cause::PeerFailed { peer, culprit });
                    self.fail(messages, run, op, cause);
                }
            }
            Event::Called { peer, word, record, is_answer } => {
                self.hear_call(messages, peer, word, &record, is_answer);
            }
        }
    }

    /// Somebody died or left. What these had sent has been taken in.
    pub(crate) fn note_departures(&mut self, messages: &mut Messages, departed: Vec<(Rank, Gone)>) {
        self.settle(messages);
        for (rank, gone) in departed {
            if !messages.note_gone(rank, gone) {
                continue;
            }
            while let Some(event) = messages.next_event() {
                self.hear(messages, event);
            }
            let cause = messages.check_peer(rank).expect_err("it is gone");
            for (run, op) in self.one_sided.awaited_from(rank) {
                self.fail_if_live(messages, run, Some(op), cause.clone());
            }
            for token in messages.waits_for_anybody() {
                let (run, op) = (self.table.run_of(token), OpId(token.part));
                if let Err(cause) = messages.check_anybody(|| self.sends_to_itself(run)) {
                    self.fail(messages, run, Some(op), cause);
                }
            }
        }
        for run in self.peer_progress.runs() {
            self.check_departed(messages, run);
        }
        self.progressed = true;
    }

    /// A receive from any source waits: fails it if nobody is left.
    #[cold]
    pub(super) fn expect_anybody(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: OpId,
    ) -> Result<(), Cause> {
        let fate = messages.check_anybody(|| self.sends_to_itself(run));
        if fate.is_err() {
            messages.withdraw(super::reference::token(run, op));
        }
        fate
    }

    /// Whether a message of this rank to itself may still come for a receive of the run.
    fn sends_to_itself(&self, run: RunRef) -> bool {
        let to_itself = |run: &Run| run.schedule.peers().destinations.binary_search(&self.me).is_ok();
        let mut runs = self.table.iter();
        let scope = runs.find(|(found, _)| *found == run).map(|(_, run)| run.scope);
        let is_among = |(found, other): (RunRef, &Run)| {
            (found == run || scope == Some(Scope::Open) && other.scope == Scope::Open) && to_itself(other)
        };
        self.table.iter().any(is_among)
    }

    /// A run in a block: fails it if it waits for somebody who is gone.
    pub(super) fn check_departed(&mut self, messages: &mut Messages, run: RunRef) {
        let Some(found) = self.table.get(run) else { return };
        let Some(block) = found.block.filter(|block| !found.state.has_ended_in(block.done())) else { return };
        let schedule = Arc::clone(&found.schedule);
        let is_gone = |rank: Rank| messages.check_peer(rank).err();
        if let Some((op, cause)) = self.peer_progress.departed(run, block, &schedule, &is_gone) {
            self.fail(messages, run, op, cause);
        }
    }

    /// Fails the run unless it has ended already.
    pub(crate) fn fail_if_live(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: Option<OpId>,
        cause: Cause,
    ) {
        if self.table.get(run).is_some() {
            self.fail(messages, run, op, cause);
        }
    }

    /// Ends a run with an error, tells its peers, and forgets all that it waits for.
    #[cold]
    pub(super) fn fail(&mut self, messages: &mut Messages, run: RunRef, op: Option<OpId>, cause: Cause) {
        let me = self.me;
        let culprit = cause.culprit(me);
        let operation = op.map(|op| self.describe(run, op));
        let found = self.table.expect(run);
        let state = Arc::clone(&found.state);
        let block = found.block;
        let is_open = found.scope == Scope::Open;
        if is_open {
            self.entomb(messages, run, op, culprit);
        } else {
            // Who finds large messages given up shall know why by then.
            for (peer, number) in found.numbers.clone() {
                messages.abort(peer, number, culprit);
            }
        }
        if let Some(block) = block {
            self.peer_progress.abandon(run, block);
        }
        messages.cancel(run.slot, if is_open { OPEN_CONTEXT } else { run.serial });
        self.calculations.drop_run(run);
        self.one_sided.drop_run(run);
        if let Some(recorder) = &mut self.recorder {
            recorder.drop_run(run);
        }
        self.remove(messages, run);
        self.progressed = true;
        state.complete(Err(Failure { rank: me, operation, cause }), castell_host::clock::now_ns());
    }

    /// Drives a failed open run to its end: tombstones for its messages and receives. `failed`: what it failed at.
    #[cold]
    fn entomb(&mut self, messages: &mut Messages, run: RunRef, failed: Option<OpId>, culprit: Rank) {
        let mut begun: Vec<u32> = failed.into_iter().map(|op| op.0).collect();
        begun.extend(self.calculations.operations_of(run).map(|op| op.0));
        begun.extend(self.deferred.iter().filter(|(of, _)| *of == run).map(|(_, op)| op.0));
        messages.entomb(run.slot, failed.map(|op| op.0), culprit, &mut begun);
        begun.sort_unstable();
        begun.dedup();
        let found = self.table.expect(run);
        let schedule = Arc::clone(&found.schedule);
        let mut stepper = std::mem::take(&mut found.stepper);
        for op in begun {
            stepper.finish(&schedule, OpId(op));
        }
        while let Some(op) = stepper.take(&schedule) {
            match schedule.op(op) {
                Op::Send { dest, tag, .. } => messages.bury_send(run.slot, dest, tag, culprit),
                Op::Recv { source: Some(source), tag, .. } => {
                    messages.bury_receive(run.slot, source, tag, culprit);
                }
                _ => {}
            }
            stepper.finish(&schedule, op);
        }
        debug_assert!(stepper.is_finished(), "every operation was reached");
    }

    /// An operation of the run that waits for `peer`, if there is one.
    fn waits_for(&self, messages: &Messages, run: RunRef, peer: Rank) -> Option<OpId> {
        let is_for_it = |wait: Wait| match wait {
            Wait::Message(from) => from.is_none_or(|from| from == peer),
            Wait::Transfer(with) | Wait::Leave(with) => with == peer,
            Wait::Room(_) => false,
        };
        let waits = messages.waits().into_iter();
        let waits = waits.filter(|(token, wait)| token.owner == run.slot && is_for_it(*wait));
        let gets = self.one_sided.awaited_from(peer).into_iter().filter(|(of, _)| *of == run);
        let carried =
            self.peer_progress.waits().into_iter().filter(|(of, _, from)| *of == run && *from == peer);
        // The first in the schedule, so that errors do not depend on the order in which messages came.
        let carried = carried.map(|(_, op, _)| op);
        waits.map(|(token, _)| OpId(token.part)).chain(gets.map(|(_, op)| op)).chain(carried).min()
    }

    /// An operation as it is printed in errors and reports: its text and label.
    pub(crate) fn describe(&mut self, run: RunRef, op: OpId) -> String {
        crate::describe::describe(&self.table.expect(run).schedule, op)
    }
}
