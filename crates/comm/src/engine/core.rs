//! The engine's state, and one turn of its crank.
//!
//! Exactly one thread turns it at a time (see `drive.rs` for who). A turn takes in messages, retries what could not
//! be sent, moves large transfers on, fires timers, and starts what has become ready.

use super::calc::Calculations;
use super::carry::Carrier;
use super::contexts::Contexts;
use super::drive::Shared;
use super::failure::Cause;
use super::fault::Liveness;
use super::fold::Folds;
use super::hold::Budget;
use super::memory::{Arena, Space};
use super::peer::{Peer, Unexpected};
use super::poison::Doomed;
use super::record::Recorder;
use super::run::{HandleState, Run, RunRef, Scope};
use super::transfer::Transfers;
use crate::bootstrap::Watch;
use crate::collective::board::BoardWriter;
use crate::job::Job;
use crate::lane::LaneReceiver;
use crate::queue::{Consumer, Header};
use crate::rendezvous::pipe_chunk_bytes;
use castell_base::Rank;
use castell_goal::matching::Matcher;
use castell_goal::schedule::{OpId, Schedule};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// How many messages one turn takes in before it looks after the rest.
const MESSAGES_A_TURN: usize = 256;
/// Turns in a row that only answer what the lanes bring.
const QUICK_TURNS_MAX: u32 = 16;
/// More than a full queue of messages: what a gone rank left behind has been taken in by then.
const POLLS_AT_DEPARTURE: usize = 1024;
/// How often a sender that goes looks whether a receiver comes to its bell by itself: shorter than waking it takes.
const LOOKS_BEFORE_RINGING: u32 = 8;
/// Finished runs kept for reuse.
const SPARE_RUNS: usize = 16;

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) run: RunRef,
    pub(super) op: OpId,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Messages of sends that left this rank, or went to itself.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// Messages that no receive of a finished run took.
    pub orphans: u64,
    /// The most bytes that messages without a receive took up here at a time.
    pub unexpected_bytes_max: u64,
    /// Large messages that were reduced as they came, and written down nowhere.
    pub folded: u64,
    /// Sleeps that nothing but their end ended although there was work. Next to none: each costs a fifth of a second.
    pub overslept: u64,
}

pub(super) struct Engine {
    pub(super) inbox: Inbox,
    pub(super) core: Core,
    quick_turns: u32,
    /// Somebody died, and may have left something open in this rank's queue.
    is_unsettled: bool,
}

/// Where messages land.
pub(super) struct Inbox {
    consumer: Consumer,
    lanes: LaneReceiver,
}

pub(super) struct Core {
    pub(super) me: Rank,
    pub(super) size: u32,
    pub(super) job: Arc<Job>,
    pub(super) peers: Vec<Option<Box<Peer>>>,
    /// Ranks that were sent something since their doorbells were last looked at.
    unrung: Vec<Rank>,
    /// Whether [`Core::ring`] lets progress threads sleep for now: it will be called again soon.
    pub(super) rings_later: bool,
    /// Whoever drives has slept until the time was up, and has not looked yet.
    pub(super) is_late: bool,
    /// Ranks to which something is pending.
    pub(super) blocked: Vec<Rank>,
    pub(super) matcher: Matcher<Posted, Unexpected>,
    pub(super) runs: Vec<Option<Box<Run>>>,
    free_slots: Vec<u32>,
    #[expect(clippy::vec_box, reason = "runs move between this list and the table")]
    spare_runs: Vec<Box<Run>>,
    next_serial: u64,
    pub(super) running: usize,
    /// Runs in which something may be started.
    ready: Vec<RunRef>,
    pub(super) calculations: Calculations,
    /// `call` operations whose functions have put off their end.
    pub(super) deferred: Vec<(RunRef, OpId)>,
    /// Where this engine lives, for those.
    pub(super) home: Weak<Shared>,
    pub(super) transfers: Transfers,
    pub(super) budget: Budget,
    pub(super) liveness: Liveness,
    pub(super) carrier: Carrier,
    pub(super) contexts: Contexts,
    /// What this rank calls, for the others to see.
    pub(super) board: BoardWriter,
    pub(super) arena: Arena,
    pub(super) gathered: Vec<u8>,
    /// Gets whose answers are under way.
    pub(super) awaited: Vec<super::onesided::Awaited>,
    pub(super) next_token: u64,
    /// Answers to gets that wait for room.
    pub(super) answers: usize,
    /// How far long puts have come, by run and operation.
    pub(super) put_progress: HashMap<(u64, u32), u64>,
    pub(super) counters: Counters,
    pub(super) recorder: Option<Box<Recorder>>,
    /// The thread that drives waits for this in a call that is no run.
    pub(super) waiting: Option<super::straight::Waiting>,
    pub(super) progressed: bool,
    /// Operations whose counterparts failed here, see `poison.rs`.
    pub(super) doomed: Vec<Doomed>,
}

// SAFETY: the raw pointers inside (queues, lanes, scratchpads) point to memory that the engine owns or keeps mapped
// and that no thread uses except the one that holds the engine's lock.
unsafe impl Send for Engine {}

impl Engine {
    pub(super) fn new(job: Arc<Job>, me: Rank, watch: Option<Watch>) -> Engine {
        let size = job.ranks();
        // SAFETY: both lie in the job's segment, which `core.job` keeps mapped; this process alone receives as `me`.
        let inbox = unsafe {
            Inbox {
                consumer: Consumer::attach(job.queue(me), job.geometry(), job.intents(), me),
                lanes: LaneReceiver::attach(job.lane_pool(me)),
            }
        };
        let core = Core {
            me,
            size,
            peers: (0..size).map(|_| None).collect(),
            unrung: Vec::new(),
            rings_later: false,
            is_late: false,
            blocked: Vec::new(),
            matcher: Matcher::new(),
            runs: Vec::new(),
            free_slots: Vec::new(),
            spare_runs: Vec::new(),
            next_serial: 1,
            running: 0,
            ready: Vec::new(),
            calculations: Calculations::default(),
            deferred: Vec::new(),
            home: Weak::new(),
            transfers: Transfers::default(),
            budget: Budget::default(),
            liveness: Liveness::new(watch),
            carrier: Carrier::default(),
            contexts: Contexts::default(),
            board: BoardWriter::new(&job, me),
            arena: Arena::default(),
            gathered: Vec::new(),
            awaited: Vec::new(),
            next_token: 0,
            answers: 0,
            put_progress: HashMap::new(),
            counters: Counters::default(),
            recorder: None,
            waiting: None,
            progressed: false,
            doomed: Vec::new(),
            job,
        };
        Engine { inbox, core, quick_turns: 0, is_unsettled: false }
    }

    /// One turn. Says whether anything moved.
    pub(super) fn turn(&mut self) -> bool {
        let core = &mut self.core;
        core.progressed = false;
        // The quick way for what the lanes bring: answer before looking anywhere else.
        if self.inbox.poll_lanes(core) && self.quick_turns < QUICK_TURNS_MAX {
            self.quick_turns += 1;
            core.start_ready();
            return true;
        }
        self.quick_turns = 0;
        self.inbox.poll_queue(core);
        if !core.blocked.is_empty() {
            core.retry_pending();
        }
        if core.transfers.is_any() {
            core.ring();
            core.move_transfers();
        }
        if core.calculations.is_any() {
            core.calculate();
        }
        if core.job.epoch() != core.liveness.epoch_seen() {
            // Read first: who goes after this may have sent something that is not taken in below, and is noticed the
            // next time.
            let epoch = core.job.epoch();
            let departed = core.departed();
            // Whatever the dead and departed sent before still counts.
            for _ in 0..POLLS_AT_DEPARTURE {
                if self.inbox.is_empty() {
                    break;
                }
                self.inbox.poll_lanes(core);
                self.inbox.poll_queue(core);
            }
            core.notice_departures(epoch, departed);
            self.is_unsettled = true;
        }
        if self.is_unsettled {
            // Not only when there is nothing else to do: what the dead left open takes room away from the living.
            self.is_unsettled = !self.reclaim_from_dead();
        }
        let core = &mut self.core;
        core.start_ready();
        core.ring();
        core.progressed
    }

    /// Whether no message waits (the look before sleeping).
    pub(super) fn is_inbox_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Whether others have left something that a turn would find: the look before sleeping, after the bell was told.
    pub(super) fn has_news(&self) -> bool {
        !self.inbox.is_empty()
            || self.core.job.epoch() != self.core.liveness.epoch_seen()
            || self.core.has_shared_news()
            || self.core.has_transfer_news()
    }

    /// Settles what dead ranks left open in this rank's queue; says whether nothing of theirs is left.
    fn reclaim_from_dead(&mut self) -> bool {
        let job = Arc::clone(&self.core.job);
        let is_dead = |rank: Rank| matches!(job.control(rank).state(), crate::job::RankState::Dead(_));
        self.inbox.consumer.reclaim_dead(&is_dead)
    }
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.consumer.is_empty()
    }

    #[inline(always)]
    fn poll_lanes(&mut self, core: &mut Core) -> bool {
        let taken = self.lanes.poll(MESSAGES_A_TURN, &mut |header, payload| core.receive(header, payload));
        core.progressed |= taken > 0;
        taken > 0
    }

    #[inline]
    fn poll_queue(&mut self, core: &mut Core) {
        let taken = self.consumer.poll(MESSAGES_A_TURN, &mut |header, payload| core.receive(header, payload));
        core.progressed |= taken > 0;
    }
}

impl Core {
    /// The peer table's entry, made on first use.
    #[inline(always)]
    pub(super) fn peer(&mut self, rank: Rank) -> &mut Peer {
        if self.peers[rank.index()].is_none() {
            self.meet(rank);
        }
        self.peers[rank.index()].as_deref_mut().expect("they have met")
    }

    #[cold]
    #[inline(never)]
    fn meet(&mut self, rank: Rank) {
        self.peers[rank.index()] = Some(Box::new(Peer::new(&self.job, self.me, rank)));
    }

    /// The run, if it is still there.
    #[inline]
    pub(super) fn run(&mut self, run: RunRef) -> Option<&mut Run> {
        let found = self.runs.get_mut(run.slot as usize)?.as_deref_mut()?;
        (found.serial == run.serial).then_some(found)
    }

    /// The schedule of a run that is there.
    ///
    /// The reference is not tied to `self`, so that operations can be looked at while the engine changes.
    #[inline]
    pub(super) fn schedule(&self, run: RunRef) -> &'static Schedule {
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        // SAFETY: the schedule is kept by the run's Arc. Runs leave the table only in `retire`, which nobody calls
        // while holding what this function returned.
        unsafe { &*Arc::as_ptr(&found.schedule) }
    }

    /// The memories of a run that is there.
    #[inline]
    pub(super) fn space(&mut self, run: RunRef) -> Space {
        let arena = self.arena.start();
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        Space { scratchpad: found.scratchpad(), arena }
    }

    /// The serial of the run that is started next.
    pub(super) fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// A serial for what is recorded like a run.
    pub(super) fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial - 1
    }

    /// Takes a schedule into the table and starts what is independent in it. `stays`: nobody but this process need be able to
    /// carry it on, since it is waited for at once, or since nobody depends on it then.
    pub(super) fn start(
        &mut self,
        schedule: &Arc<Schedule>,
        scope: Scope,
        state: Arc<HandleState>,
        stays: bool,
    ) -> RunRef {
        self.arena.reserve(schedule.max_message_bytes());
        let serial = self.next_serial;
        self.next_serial += 1;
        let may_share = scope != Scope::Open && !stays && self.recorder.is_none();
        let fits = |spare: &Run| Arc::ptr_eq(&spare.schedule, schedule) && spare.may_share == may_share;
        let mut run = match self.spare_runs.iter().rposition(|spare| fits(spare)) {
            Some(at) => {
                let mut run = self.spare_runs.swap_remove(at);
                run.restart(scope, serial, state);
                run
            }
            None => {
                self.bind_lanes(schedule);
                let shared = if may_share { self.share(schedule) } else { None };
                // Runs in blocks have no large messages.
                let folds = match shared {
                    Some(_) => Folds::default(),
                    None => Folds::of(schedule, self.job.eager_bytes() as u64, pipe_chunk_bytes),
                };
                let mut run = Run::new(Arc::clone(schedule), scope, serial, state, shared, folds);
                run.may_share = may_share;
                Box::new(run)
            }
        };
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() as u32 - 1
        });
        let reference = RunRef { slot, serial };
        if scope != Scope::Open {
            self.number(&mut run, reference);
        }
        if let Some(shared) = &run.shared {
            shared.block.begin(&run.schedule, serial, &run.numbers);
            run.state.watch(shared.block.done());
        }
        self.runs[slot as usize] = Some(run);
        self.running += 1;
        if scope != Scope::Open {
            self.announce_run(reference);
            if !self.budget.is_calm() {
                self.tell_keepers(reference);
            }
            self.take_in_early(reference);
            self.check_departed_at_start(reference);
        }
        self.list(reference);
        self.start_ready();
        reference
    }

    /// Gives the run its number with each of its peers.
    fn number(&mut self, run: &mut Run, reference: RunRef) {
        if !run.numbers.is_empty() {
            // With the peers that it had before.
            for at in 0..run.numbers.len() {
                run.numbers[at].1 = self.number_one(run.scope, reference, run.numbers[at].0);
            }
            return;
        }
        let schedule = Arc::clone(&run.schedule);
        let peers = schedule.peers();
        if peers.any_source {
            for rank in 0..self.size {
                let number = self.number_one(run.scope, reference, Rank(rank));
                run.numbers.push((Rank(rank), number));
            }
            return;
        }
        let (mut to, mut from) = (peers.destinations.iter().peekable(), peers.sources.iter().peekable());
        // Both lists are sorted: merge them.
        while let Some(next) = to.peek().into_iter().chain(from.peek()).min().map(|rank| **rank) {
            to.next_if(|rank| **rank == next);
            from.next_if(|rank| **rank == next);
            let number = self.number_one(run.scope, reference, next);
            run.numbers.push((next, number));
        }
    }

    /// The number that the run's messages to the peer carry.
    #[inline]
    fn number_one(&mut self, scope: Scope, reference: RunRef, rank: Rank) -> u32 {
        let peer = self.peer(rank);
        let number = match scope {
            Scope::Call { word, .. } => word - 1,
            _ => peer.next_number(),
        };
        peer.active.push(super::peer::ActiveRun { number, run: reference });
        number.wrapping_add(1)
    }

    /// Destinations that are known before the run starts get a lane, as long as the receiver has one left.
    fn bind_lanes(&mut self, schedule: &Schedule) {
        const LANES_A_RUN: usize = 8;
        if schedule.peers().destinations.len() > LANES_A_RUN || !self.job.has_lanes() {
            return;
        }
        let (job, me) = (Arc::clone(&self.job), self.me);
        for &dest in schedule.peers().destinations.iter().filter(|dest| **dest != me) {
            self.peer(dest).bind_lane(&job, me, dest);
        }
    }

    /// Notes that something in the run may be started.
    #[inline]
    pub(super) fn list(&mut self, run: RunRef) {
        if let Some(found) = self.run(run)
            && !found.listed
        {
            found.listed = true;
            self.ready.push(run);
        }
    }

    /// An operation is finished: releases what waited for it.
    #[inline(always)]
    pub(super) fn finish(&mut self, run: RunRef, op: OpId) {
        self.progressed = true;
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        if let Some(shared) = &found.shared {
            let block = shared.block;
            self.finish_shared(block, op);
            return self.list(run);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.finish(run, op);
        }
        found.stepper.finish(&found.schedule, op);
        if !found.listed {
            found.listed = true;
            self.ready.push(run);
        }
    }

    /// Starts operations until none is ready.
    #[inline]
    pub(super) fn start_ready(&mut self) {
        loop {
            while let Some(run) = self.ready.pop() {
                self.advance(run);
            }
            if self.has_shared() {
                self.start_shared();
            }
            if self.doomed.is_empty() {
                return;
            }
            self.fail_doomed();
        }
    }

    /// What is carried on here may give our own runs something to do, and the other way round.
    #[inline(never)]
    fn start_shared(&mut self) {
        loop {
            self.carry();
            if !self.tend_shared() {
                return;
            }
            while let Some(run) = self.ready.pop() {
                self.advance(run);
            }
        }
    }

    fn advance(&mut self, run: RunRef) {
        if self.run(run).is_none() {
            return;
        }
        if self.block_of(run).is_some() {
            self.runs[run.slot as usize].as_deref_mut().expect("a live run").listed = false;
            return self.advance_shared(run);
        }
        let schedule = self.schedule(run);
        loop {
            let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
            let Some(op) = found.stepper.take(schedule) else { break };
            self.progressed = true;
            if let Some(recorder) = &mut self.recorder {
                recorder.start(run, op);
            }
            match self.execute(run, schedule, op) {
                Ok(true) => self.finish(run, op),
                Ok(false) => {}
                Err(cause) => {
                    self.fail(run, Some(op), cause);
                    return;
                }
            }
        }
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        found.listed = false;
        if found.stepper.is_finished() {
            if found.unexpected > 0 {
                self.drop_unexpected(run);
            }
            self.retire_and(run, |found| found.state.complete(Ok(()), castell_host::clock::now_ns()));
        }
    }

    /// Takes a run that has ended out of the table.
    pub(super) fn retire(&mut self, run: RunRef) {
        self.retire_and(run, |_| {});
    }

    /// The same, with something to do to the run once it is out.
    #[inline]
    fn retire_and(&mut self, run: RunRef, finish: impl FnOnce(&Run)) {
        if self.answers > 0 {
            self.copy_answers_of(run);
        }
        let found = self.runs[run.slot as usize].take().expect("a live run");
        self.free_slots.push(run.slot);
        self.running -= 1;
        if found.is_unlisted {
            self.job.unlisted(self.me).fetch_sub(1, Ordering::Release);
        }
        for (rank, _) in &found.numbers {
            if let Some(peer) = &mut self.peers[rank.index()] {
                peer.active.retain(|active| active.run != run);
            }
        }
        finish(&found);
        if found.failed {
            return;
        }
        if self.spare_runs.len() < SPARE_RUNS {
            self.spare_runs.push(found);
        } else {
            self.unshare(&found);
        }
    }

    /// The handle of some run that is going on.
    pub(super) fn any_run(&self) -> Option<Arc<HandleState>> {
        self.runs.iter().flatten().next().map(|run| Arc::clone(&run.state))
    }

    /// Fails the run unless it has ended already.
    pub(super) fn fail_if_live(&mut self, run: RunRef, op: Option<OpId>, cause: Cause) {
        if self.run(run).is_some() {
            self.fail(run, op, cause);
        }
    }

    /// A message of this rank's own protocol to `dest`; queues up if there is no room.
    pub(super) fn send_control(&mut self, dest: Rank, mut header: Header, payload: &[u8]) {
        if dest == self.me {
            return;
        }
        header.source = self.me.0;
        let peer = self.peer(dest);
        if peer.gone.is_some() {
            return;
        }
        if peer.pending.is_empty() && peer.push(&mut header, payload) {
            self.touch(dest);
        } else {
            peer.pending.push_back(super::peer::Pending::Control { header, payload: payload.into() });
            self.block(dest);
        }
    }

    /// Something was sent to `dest`: its doorbell is to be looked at before this thread does anything else for long.
    ///
    /// Not at once: the look needs a full memory barrier, which waits until the message's line is here, and a receiver
    /// that is awake does not depend on it.
    #[inline]
    pub(super) fn touch(&mut self, dest: Rank) {
        let peer = self.peer(dest);
        if !peer.unrung {
            peer.unrung = true;
            self.unrung.push(dest);
        }
    }

    /// Wakes those who sleep and were sent something.
    #[inline]
    pub(super) fn ring(&mut self) {
        if !self.unrung.is_empty() {
            self.ring_touched();
        }
    }

    #[inline(never)]
    fn ring_touched(&mut self) {
        let mut at = 0;
        while at < self.unrung.len() {
            let dest = self.unrung[at];
            let bell = &self.job.control(dest).doorbell;
            let presses = self.peers[dest.index()].as_deref().is_some_and(|peer| peer.is_pressed);
            let sleeps_on = self.rings_later
                && if presses { bell.ring_pressing_unless_thread() } else { bell.ring_unless_thread() };
            if sleeps_on {
                at += 1;
                continue;
            }
            if !self.rings_later {
                if presses {
                    bell.ring_pressing()
                } else {
                    bell.ring()
                };
            }
            self.unrung.swap_remove(at);
            let peer = self.peer(dest);
            (peer.unrung, peer.is_pressed) = (false, false);
        }
    }

    /// Nobody calls [`Core::ring`] soon: wakes progress threads, too, after one more look whether their applications come
    /// back by themselves.
    pub(super) fn ring_finally(&mut self) {
        let mut looks = 0;
        self.rings_later = true;
        while !self.unrung.is_empty() && looks < LOOKS_BEFORE_RINGING {
            self.ring();
            looks += 1;
            std::hint::spin_loop();
        }
        self.rings_later = false;
        self.ring();
    }

    /// Notes that something is pending to `dest`.
    pub(super) fn block(&mut self, dest: Rank) {
        if !self.blocked.contains(&dest) {
            self.blocked.push(dest);
        }
        self.peer(dest).is_pressed = true;
        self.touch(dest);
    }

    /// A turn by whoever drives has moved something.
    #[inline]
    pub(super) fn moved(&mut self) {
        self.liveness.silence.moved();
        if std::mem::take(&mut self.is_late) {
            self.counters.overslept += 1;
        }
    }

    /// Whether no run is going on and nothing that others wait for is left to be sent.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.running == 0 && self.blocked.is_empty()
    }

    /// Whether all that is left of the runs can wait until somebody asks for it: nobody depends on it, as far as can be known.
    pub(super) fn can_wait(&self) -> bool {
        let is_alone = |run: &Run| matches!(run.scope, Scope::Call { .. }) && run.has_sent_all();
        self.answers == 0
            && self.awaited.is_empty()
            && self.budget.is_calm()
            && self.transfers.can_wait()
            && self.runs.iter().flatten().all(|run| is_alone(run))
    }

    /// Whether somebody has to turn the crank even if no message comes.
    pub(super) fn needs_turning(&self) -> bool {
        !self.blocked.is_empty() || self.calculations.is_any() || self.transfers.needs_turning()
    }
}
