//! What a failed open run leaves behind, so that nobody waits for it.
//!
//! The messages of open runs meet by source and tag in posting order, so a failed run must not drop out of that
//! order: each of its operations that did not take place is matched all the same, and its counterpart fails. The
//! failed run's stepper is driven to its end without carrying anything out. In place of a message goes a *poison*,
//! which fails the run whose receive it meets; in place of a receive from a given source stands a *sink*, which drops
//! the message that meets it, and refuses it to its sender where that one still has it. Receives from any source are
//! withdrawn instead: who would have sent is not known, and what others send may be wanted by later runs.

use super::core::{Core, Posted};
use super::failure::Cause;
use super::message::{Kind, OPEN_CONTEXT, control};
use super::peer::{Body, Pending, Unexpected};
use super::run::RunRef;
use castell_base::{Rank, Tag};
use castell_goal::matching::{Key, Pattern};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;

/// An operation whose counterpart failed; its run fails when the engine's hands are free.
pub(super) struct Doomed {
    run: RunRef,
    op: OpId,
    cause: Cause,
}

impl Posted {
    /// Takes the place of a failed run's receive.
    fn sink(op: OpId) -> Posted {
        Posted { run: RunRef::NONE, op }
    }

    #[inline]
    pub(super) fn is_sink(&self) -> bool {
        self.run == RunRef::NONE
    }
}

impl Core {
    /// Drives a failed open run to its end: poison for messages, sinks for receives. `failed`: what it failed at.
    #[cold]
    pub(super) fn poison_run(&mut self, run: RunRef, failed: Option<OpId>, culprit: Rank) {
        let schedule = self.schedule(run);
        let mut started: Vec<OpId> = failed.into_iter().collect();
        started.extend(self.calculations.operations_of(run));
        started.extend(self.transfers.waits().filter(|(of, _, _)| *of == run).map(|(_, op, _)| op));
        self.sink_posted(run, failed, &mut started);
        self.poison_waiting_sends(run, culprit, &mut started);
        started.sort_unstable();
        started.dedup();
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        let mut stepper = std::mem::take(&mut found.stepper);
        for op in started {
            stepper.finish(schedule, op);
        }
        while let Some(op) = stepper.take(schedule) {
            match schedule.op(op) {
                Op::Send { dest, tag, .. } => self.poison(run, dest, tag, culprit),
                Op::Recv { source: Some(source), tag, .. } => self.sink(run, op, source, tag, culprit),
                _ => {}
            }
            stepper.finish(schedule, op);
        }
        debug_assert!(stepper.is_finished(), "every operation was reached");
    }

    /// The run's posted receives become sinks where they stand.
    fn sink_posted(&mut self, run: RunRef, failed: Option<OpId>, started: &mut Vec<OpId>) {
        let withdrawn = self.matcher.take_posted(|pattern, posted| {
            let is_sink = pattern.source.is_some() && failed != Some(posted.op);
            posted.run == run && !is_sink
        });
        started.extend(withdrawn.iter().map(|posted| posted.op));
        for (_, posted) in self.matcher.posted_mut().filter(|(_, posted)| posted.run == run) {
            started.push(posted.op);
            *posted = Posted::sink(posted.op);
        }
    }

    /// The run's sends that wait for room, for a fetch or for this rank itself become poison where they stand.
    fn poison_waiting_sends(&mut self, run: RunRef, culprit: Rank, started: &mut Vec<OpId>) {
        let schedule = self.schedule(run);
        for peer in self.peers.iter_mut().flatten() {
            for item in &mut peer.pending {
                if let Pending::Op { run: of, op } = *item
                    && of == run
                    && let Op::Send { tag, .. } = schedule.op(op)
                {
                    started.push(op);
                    *item = pending(tag, culprit, self.me);
                }
            }
            if let Some(kept) = &mut peer.kept {
                kept.poison_run(run, culprit, started);
            }
        }
        for (_, message) in self.matcher.unexpected_mut() {
            if let Body::Own { run: of, op } = message.body
                && of == run
            {
                started.push(op);
                message.body = Body::Poison { culprit };
            }
        }
    }

    /// A poison in place of a message.
    fn poison(&mut self, run: RunRef, dest: Rank, tag: Tag, culprit: Rank) {
        let me = self.me;
        if dest == me {
            let key = Key { context: OPEN_CONTEXT, source: me, tag };
            let poison = || Unexpected { source: me, body: Body::Poison { culprit } };
            let met =
                self.matcher.arrive(key, poison).filter(|posted| !posted.is_sink() && posted.run != run);
            let cause = Cause::PeerFailed { peer: me, culprit };
            self.doomed.extend(met.map(|Posted { run, op }| Doomed { run, op, cause }));
        } else if self.peer(dest).kept.is_some() {
            self.keep_poison(dest, tag, culprit);
        } else {
            self.send_control(dest, poison_header(tag, culprit), &[]);
        }
    }

    /// A sink in place of a receive.
    fn sink(&mut self, run: RunRef, op: OpId, source: Rank, tag: Option<Tag>, culprit: Rank) {
        if source != self.me && self.peer(source).gone.is_some() {
            // What it had sent has been taken in; what of that nobody takes goes when this rank does.
            return;
        }
        let pattern = Pattern { context: OPEN_CONTEXT, source: Some(source), tag };
        let Some(message) = self.matcher.post(pattern, Posted::sink(op)) else {
            return self.fetch(RunRef::NONE, Some(source), tag);
        };
        self.counters.orphans += 1;
        if let Body::Own { run: sender, op } = message.body
            && sender != run
        {
            let cause = Cause::PeerFailed { peer: self.me, culprit };
            self.doomed.push(Doomed { run: sender, op, cause });
        }
        self.forget(vec![message]);
    }

    /// The sinks that wait for a rank that is gone.
    pub(super) fn drop_sinks(&mut self, rank: Rank) {
        self.matcher.take_posted(|pattern, posted| posted.is_sink() && pattern.source == Some(rank));
    }

    /// A message that is not eager met a receive that had been posted.
    #[cold]
    pub(super) fn meet_posted(&mut self, posted: Posted, message: Unexpected) {
        let source = message.source;
        match message.body {
            _ if posted.is_sink() => {
                self.counters.orphans += 1;
                // It was never charged.
                if let Body::Announced { descriptor, generation, .. } = message.body {
                    self.refuse_transfer(source, descriptor, generation);
                }
            }
            Body::Announced { descriptor, generation, bytes } => {
                self.open_posted(posted, source, descriptor, generation, bytes);
            }
            Body::Poison { culprit } => {
                self.fail(posted.run, Some(posted.op), Cause::PeerFailed { peer: source, culprit });
            }
            Body::Small(..) | Body::Eager(_) | Body::Own { .. } => unreachable!("those are delivered"),
        }
    }

    /// Fails the runs whose counterparts failed here.
    #[cold]
    pub(super) fn fail_doomed(&mut self) {
        while let Some(Doomed { run, op, cause }) = self.doomed.pop() {
            self.fail_if_live(run, Some(op), cause);
        }
    }
}

fn poison_header(tag: Tag, culprit: Rank) -> crate::queue::Header {
    control(Kind::Poison, 0, tag.0, 0, u64::from(culprit.0))
}

/// A poison that waits for room.
pub(super) fn pending(tag: Tag, culprit: Rank, me: Rank) -> Pending {
    let mut header = poison_header(tag, culprit);
    header.source = me.0;
    Pending::Control { header, payload: Box::default() }
}
