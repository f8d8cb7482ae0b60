//! Deaths and departures, and runs that fail because of them.
//!
//! The job's epoch counts deaths and departures. A rank that sees it change takes in what the gone rank had still
//! sent, then fails each run that has an operation waiting for it, and tells the other peers of those runs, so
//! that a failure travels along the dependences and no further. Numbered runs fail with all runs of their number;
//! for open runs see `poison.rs`.

use super::core::Core;
use super::failure::{Cause, Failure};
use super::message::{Kind, control};
use super::peer::{Body, Gone, Pending, Unexpected};
use super::run::{Run, RunRef, Scope};
use super::stall::Silence;
use crate::bootstrap::Watch;
use crate::job::{Death, Job, RankState};
use crate::queue::Header;
use castell_base::Rank;
use castell_goal::schedule::OpId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the peers' processes are looked at where nobody else watches them.
pub(super) const LIVENESS_PERIOD: Duration = Duration::from_millis(200);

/// What is known of who lives.
pub(super) struct Liveness {
    epoch_seen: u32,
    looked: Instant,
    /// Where nobody outside watches the ranks.
    watch: Option<Watch>,
    /// How long nothing has moved.
    pub(super) silence: Silence,
}

impl Liveness {
    pub(super) fn new(watch: Option<Watch>) -> Liveness {
        Liveness { epoch_seen: 0, looked: Instant::now(), watch, silence: Silence::default() }
    }

    #[inline]
    pub(super) fn epoch_seen(&self) -> u32 {
        self.epoch_seen
    }

    /// Where nobody watches the processes: looks at all of them now and then, and announces who is gone.
    pub(super) fn look(&mut self, job: &Job, me: Rank) {
        let Some(watch) = &mut self.watch else { return };
        if self.looked.elapsed() < LIVENESS_PERIOD {
            return;
        }
        self.looked = Instant::now();
        for rank in (0..job.ranks()).map(Rank).filter(|rank| *rank != me) {
            let control = job.control(rank);
            let alive = control.state() == RankState::Alive;
            if alive && watch.has_ended(rank, control.pid(), control.start_time()) {
                job.mark_dead(rank, Death::Vanished);
            }
        }
    }
}

impl Core {
    /// Whom this rank has exchanged messages with, or tried to.
    pub(super) fn met(&self) -> Vec<Rank> {
        (0..self.size).map(Rank).filter(|rank| self.peers[rank.index()].is_some()).collect()
    }

    /// Who has died or left by now.
    pub(super) fn departed(&self) -> Vec<(Rank, Gone)> {
        let ranks = (0..self.size).map(Rank).filter(|rank| *rank != self.me);
        let gone = ranks.map(|rank| match self.job.control(rank).state() {
            RankState::Dead(death) => Some((rank, Gone::Died(death))),
            RankState::Finished => Some((rank, Gone::Left)),
            RankState::Unborn | RankState::Alive => None,
        });
        gone.flatten().collect()
    }

    /// The epoch has changed: somebody died or left. What these had sent has been taken in.
    pub(super) fn notice_departures(&mut self, epoch: u32, departed: Vec<(Rank, Gone)>) {
        self.liveness.epoch_seen = epoch;
        for (rank, gone) in departed {
            if self.peer(rank).gone.is_none() {
                self.peer(rank).gone = Some(gone);
                self.fail_runs_waiting_for(rank);
            }
        }
        self.check_all_departed();
        self.progressed = true;
        // Nobody is woken by the departure of a rank that it never met.
        self.is_late = false;
    }

    /// An error if the run's receives from any source have nobody left to wait for, or somebody died.
    pub(super) fn check_any(&mut self, run: RunRef) -> Result<(), Cause> {
        let gone = |rank: &Rank| self.peers[rank.index()].as_deref().and_then(|peer| peer.gone);
        let others = (0..self.size).map(Rank).filter(|rank| *rank != self.me);
        let mut first = None;
        for rank in others.clone() {
            match gone(&rank) {
                Some(Gone::Died(_)) => return self.check_peer(rank),
                Some(Gone::Left) => first = first.or(Some(rank)),
                None => {}
            }
        }
        match first {
            Some(rank) if others.clone().all(|rank| gone(&rank).is_some()) && !self.sends_to_itself(run) => {
                self.check_peer(rank)
            }
            _ => Ok(()),
        }
    }

    /// Whether a message of this rank to itself may still come for a receive of the run.
    fn sends_to_itself(&self, run: RunRef) -> bool {
        let to_itself = |run: &Run| run.schedule.peers().destinations.binary_search(&self.me).is_ok();
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        match found.scope {
            Scope::Numbered | Scope::Call { .. } => to_itself(found),
            Scope::Open => self.runs.iter().flatten().any(|run| run.scope == Scope::Open && to_itself(run)),
        }
    }

    fn fail_runs_waiting_for(&mut self, rank: Rank) {
        self.drop_sinks(rank);
        let cause = match self.check_peer(rank) {
            Err(cause) => cause,
            Ok(()) => return,
        };
        let posted =
            self.matcher.posted().filter(|(pattern, _)| pattern.source.is_none_or(|source| source == rank));
        let mut hit: Vec<(RunRef, OpId, bool)> =
            posted.map(|(pattern, posted)| (posted.run, posted.op, pattern.source.is_none())).collect();
        hit.retain(|(run, _, any)| !any || self.check_any(*run).is_err());
        let mut hit: Vec<(RunRef, OpId)> = hit.into_iter().map(|(run, op, _)| (run, op)).collect();
        hit.extend(self.transfers_in_vain(rank));
        hit.extend(self.awaited_gets(rank));
        let pending = std::mem::take(&mut self.peer(rank).pending);
        self.answers -= pending.iter().filter(|item| matches!(item, Pending::Answer(_))).count();
        hit.extend(pending.iter().filter_map(Pending::operation));
        if let Some(kept) = self.peer(rank).kept.take() {
            hit.extend(kept.into_operations());
        }
        for (run, op) in hit {
            self.fail_if_live(run, Some(op), cause.clone());
        }
    }

    /// Ends a run with an error, tells its peers, and forgets all that it waits for.
    pub(super) fn fail(&mut self, run: RunRef, op: Option<OpId>, cause: Cause) {
        let me = self.me;
        let culprit = cause.culprit(me);
        let operation = op.map(|op| self.describe(run, op));
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        found.failed = true;
        let state = Arc::clone(&found.state);
        let (numbers, open) = (found.numbers.clone(), found.scope == Scope::Open);
        if open {
            self.poison_run(run, op, culprit);
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.pending.retain(|item| !matches!(item, Pending::Op { run: of, .. } if *of == run));
            if let Some(kept) = &mut peer.kept {
                kept.drop_run(run);
            }
        }
        // Who finds large messages given up shall know why by then.
        for (peer, number) in if open { Vec::new() } else { numbers } {
            self.send_control(peer, control(Kind::Abort, number, culprit.0, 0, 0), &[]);
        }
        self.abandon_shared(run);
        self.drop_transfers(run);
        self.calculations.drop_run(run);
        self.drop_gets(run);
        if !open {
            let (_, unexpected) = self.matcher.take_context(run.serial);
            self.forget(unexpected);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.drop_run(run);
        }
        self.retire(run);
        self.progressed = true;
        state.complete(Err(Failure { rank: me, operation, cause }), castell_host::clock::now_ns());
    }

    /// Messages for a run that has ended.
    pub(super) fn forget(&mut self, messages: Vec<Unexpected>) {
        let me = self.me;
        for message in messages.into_iter().filter(|message| message.source != me) {
            self.release_budget(message.held_bytes());
            if let Body::Announced { descriptor, generation, .. } = message.body {
                self.refuse_transfer(message.source, descriptor, generation);
            }
        }
    }

    /// A peer's run failed: so does ours of the same number, now or when it is started.
    pub(super) fn take_abort(&mut self, source: Rank, header: &Header) {
        let culprit = Rank(header.tag);
        let number = header.run.wrapping_sub(1);
        match self.peer(source).run_of(number) {
            Some(run) => {
                let op = self.waits_for(run, source);
                let cause = self.other_call(run);
                self.fail_if_live(run, op, cause.unwrap_or(Cause::PeerFailed { peer: source, culprit }));
            }
            None if self.is_ahead(source, number) => {
                self.peer(source).aborted.push((number, culprit));
            }
            None => {}
        }
    }

    /// An operation of the run that waits for `peer`, if there is one.
    fn waits_for(&self, run: RunRef, peer: Rank) -> Option<OpId> {
        let posted = self.matcher.posted().filter(|(_, posted)| posted.run == run);
        let from_peer = |source: Option<Rank>| source.is_none_or(|source| source == peer);
        let receives = posted.filter(|(pattern, _)| from_peer(pattern.source)).map(|(_, posted)| posted.op);
        let large = self.transfers.waits().filter(|(of, _, with)| *of == run && *with == peer);
        let gets = self.awaited_gets(peer).into_iter().filter(|(of, _)| *of == run).map(|(_, op)| op);
        // The first in the schedule, so that errors do not depend on the order in which messages came.
        let shared = self.shared_waits().into_iter().filter(|(of, _, from)| *of == run && *from == peer);
        receives.chain(shared.map(|(_, op, _)| op)).chain(large.map(|(_, op, _)| op)).chain(gets).min()
    }

    /// An operation as it is printed in errors and reports: its text and label.
    pub(super) fn describe(&self, run: RunRef, op: OpId) -> String {
        super::describe::describe(self.schedule(run), op)
    }
}
