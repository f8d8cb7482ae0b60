#![doc = include_str!("README.md")]

mod calc;
mod calls;
mod execute;
mod fail;
mod fold;
mod memory;
mod onesided;
mod peer_progress;
mod record;
mod reference;
mod run;
mod table;

pub(super) use memory::local_plain;
pub use record::{Arrived, Recorded};
pub(super) use record::{Place, note_call, note_operation, number_of_run, number_of_steps};
pub(super) use reference::{RunRef, Scope};

use super::call::Home;
use super::contexts::Contexts;
use super::handle_state::HandleState;
use super::messages::{Channel, Handler, Kind, Messages, OPEN_CONTEXT, Token};
use crate::board::{BoardWriter, Describe};
use calc::Calculations;
use castell_base::Rank;
use castell_goal::schedule::{OpId, Schedule};
use castell_shm::job::Job;
use castell_shm::rendezvous::pipe_chunk_bytes;
use castell_transport::Header;
use fold::Folds;
use memory::{Arena, Space};
use onesided::OneSided;
use peer_progress::PeerProgress;
use record::Recorder;
use run::Run;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use table::Table;

/// Schedules with more destinations get no rings.
const RINGS_A_RUN: usize = 8;

/// The runs of a rank.
pub(super) struct Runs {
    pub(super) me: Rank,
    pub(super) job: Arc<Job>,
    pub(super) table: Table,
    pub(super) calculations: Calculations,
    /// `call` operations whose functions have put off their end.
    pub(super) deferred: Vec<(RunRef, OpId)>,
    /// Where this engine lives, for those.
    pub(super) home: Option<Weak<dyn Home>>,
    one_sided: OneSided,
    pub(super) peer_progress: PeerProgress,
    pub(super) contexts: Contexts,
    /// What this rank calls, for the others to see.
    pub(super) board: BoardWriter,
    /// Says what was called, in errors.
    pub(super) describe_call: Describe,
    arena: Arena,
    pub(super) recorder: Option<Box<Recorder>>,
    progressed: bool,
}

impl Runs {
    pub(super) fn new(job: Arc<Job>, me: Rank, describe_call: Describe) -> Runs {
        Runs {
            me,
            table: Table::default(),
            calculations: Calculations::default(),
            deferred: Vec::new(),
            home: None,
            one_sided: OneSided::default(),
            peer_progress: PeerProgress::new(Arc::clone(&job), me),
            contexts: Contexts::default(),
            board: BoardWriter::new(&job, me),
            describe_call,
            arena: Arena::default(),
            recorder: None,
            progressed: false,
            job,
        }
    }

    /// Whether something has moved since this was asked last.
    #[inline]
    pub(super) fn take_progressed(&mut self) -> bool {
        std::mem::take(&mut self.progressed) | self.peer_progress.take_progressed()
    }

    /// Takes a schedule into the table and starts what is independent in it. `stays`: nobody but this process need be able to
    /// carry it on, since it is waited for at once, or since nobody depends on it then.
    pub(super) fn start(
        &mut self,
        messages: &mut Messages,
        schedule: &Arc<Schedule>,
        scope: Scope,
        state: Arc<HandleState>,
        stays: bool,
    ) {
        let may_share = scope != Scope::Open && !stays && self.recorder.is_none();
        let run = match self.table.take_spare(schedule, may_share) {
            Some(run) => run,
            None => self.make(messages, schedule, may_share, &state),
        };
        let run = self.table.insert(run, scope, state);
        if scope != Scope::Open {
            self.open_channels(messages, run);
        }
        self.table.list(run);
        self.settle(messages);
    }

    /// A run of a schedule that has none to spare.
    #[cold]
    fn make(
        &mut self,
        messages: &mut Messages,
        schedule: &Arc<Schedule>,
        may_share: bool,
        state: &Arc<HandleState>,
    ) -> Box<Run> {
        self.arena.reserve(schedule.max_message_bytes());
        let peers = schedule.peers();
        if peers.destinations.len() <= RINGS_A_RUN {
            peers.destinations.iter().for_each(|dest| messages.expect_traffic(*dest));
        }
        let block = if may_share { self.peer_progress.share(schedule) } else { None };
        // Runs in blocks have no large messages.
        let folds = match block {
            Some(_) => Folds::default(),
            None => Folds::of(schedule, self.job.eager_bytes() as u64, pipe_chunk_bytes),
        };
        let mut run = Run::new(Arc::clone(schedule), block, folds, Arc::clone(state));
        run.may_share = may_share;
        if peers.any_source {
            run.numbers = (0..self.job.ranks()).map(|rank| (Rank(rank), 0)).collect();
        } else {
            run.numbers = peers.destinations.iter().chain(&peers.sources).map(|rank| (*rank, 0)).collect();
            run.numbers.sort_unstable();
            run.numbers.dedup();
        }
        Box::new(run)
    }

    /// Opens a channel with each of the run's peers.
    fn open_channels(&mut self, messages: &mut Messages, reference: RunRef) {
        let run = self.table.expect(reference);
        let channel =
            Channel { owner: reference.slot, context: reference.serial, is_unmatched: run.block.is_some() };
        let number = match run.scope {
            Scope::Call { word, .. } => Some(word),
            _ => None,
        };
        for (rank, of_pair) in &mut run.numbers {
            *of_pair = messages.open(*rank, channel, number);
        }
        if let Some(block) = run.block {
            block.begin(&run.schedule, reference.serial, &run.numbers);
            run.state.watch(block.done());
        }
        run.is_unlisted = self.peer_progress.announce(reference, run.block, &run.numbers);
        if messages.has_early() {
            // Nobody looks at them meanwhile: a run that fails of this does so when it is settled.
            let numbers = std::mem::take(&mut run.numbers);
            messages.take_in_early(&numbers, self);
            self.table.expect(reference).numbers = numbers;
        }
        // What came early for it has been taken in.
        if self.job.epoch() > 0 {
            self.check_departed(messages, reference);
        }
    }

    /// The memories of a run that is there.
    #[inline]
    fn space(&mut self, run: RunRef) -> Space {
        let arena = self.arena.start();
        Space { scratchpad: self.table.expect(run).scratchpad(), arena }
    }

    /// An operation is finished: releases what waited for it.
    #[inline]
    fn finish(&mut self, run: RunRef, op: OpId) {
        self.progressed = true;
        let found = self.table.expect(run);
        match found.block {
            Some(block) => self.peer_progress.finish(block, op),
            None => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.finish(run, op, found);
                }
                found.stepper.finish(&found.schedule, op);
            }
        }
        self.table.list(run);
    }

    /// The same of a run that may have failed meanwhile.
    pub(super) fn finish_if_live(&mut self, run: RunRef, op: OpId) {
        if self.table.get(run).is_some() {
            self.finish(run, op);
        }
    }

    /// An operation is about to be finished: a receive from anybody has somebody's message now.
    #[inline]
    fn learn_sender(&mut self, messages: &mut Messages, run: RunRef, op: OpId) {
        if let Some(recorder) = &mut self.recorder {
            recorder.learn_sender(messages, run, op);
        }
    }

    /// Starts operations until none is ready, and does what has come of those that were started.
    #[inline]
    pub(super) fn settle(&mut self, messages: &mut Messages) {
        loop {
            if !self.one_sided.is_answered() {
                self.answer(messages);
            }
            if let Some(done) = messages.take_done() {
                for token in &done {
                    let (run, op) = (self.table.run_of(*token), OpId(token.part));
                    self.learn_sender(messages, run, op);
                    self.finish(run, op);
                }
                messages.give_back(done);
            }
            while let Some(run) = self.table.next_ready() {
                self.advance(messages, run);
            }
            if self.peer_progress.has_runs() {
                self.settle_shared(messages);
            }
            if !messages.has_done() {
                match messages.next_event() {
                    None => return,
                    Some(event) => self.hear(messages, event),
                }
            }
        }
    }

    /// What is carried on here may give our own runs something to do, and the other way round.
    #[inline(never)]
    fn settle_shared(&mut self, messages: &mut Messages) {
        loop {
            self.peer_progress.carry(&|rank| messages.is_gone(rank));
            let table = &mut self.table;
            if !self.peer_progress.tend(|run| table.list(run)) {
                return;
            }
            while let Some(run) = self.table.next_ready() {
                self.advance(messages, run);
            }
        }
    }

    fn advance(&mut self, messages: &mut Messages, run: RunRef) {
        let Some(found) = self.table.get(run) else { return };
        if let Some(block) = found.block {
            found.listed = false;
            return self.advance_shared(messages, run, block);
        }
        let schedule = Arc::clone(&found.schedule);
        loop {
            let found = self.table.expect(run);
            let Some(op) = found.stepper.take(&schedule) else { break };
            self.progressed = true;
            if let Some(recorder) = &mut self.recorder {
                recorder.start(run, op);
                recorder.want_sender(messages, &schedule, run, op);
            }
            match self.execute(messages, run, &schedule, op) {
                Ok(true) => {
                    self.learn_sender(messages, run, op);
                    self.finish(run, op);
                }
                Ok(false) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.begun(run, op);
                    }
                }
                Err(cause) => return self.fail(messages, run, Some(op), cause),
            }
        }
        let found = self.table.expect(run);
        found.listed = false;
        if found.stepper.is_finished() {
            let found = self.remove(messages, run);
            found.state.complete(Ok(()), castell_host::clock::now_ns());
            self.spare(found);
        }
    }

    /// Carries a run of ours in a block on: all that any process may do, then what only this one may.
    fn advance_shared(&mut self, messages: &mut Messages, run: RunRef, block: peer_progress::Block) {
        self.peer_progress.begin_turn(block);
        self.peer_progress.carry(&|rank| messages.is_gone(rank));
        let schedule = Arc::clone(&self.table.expect(run).schedule);
        if let Some((op, cause)) = peer_progress::mismatch(run, block, &schedule) {
            return self.fail(messages, run, Some(op), cause);
        }
        while let Some(op) = self.peer_progress.next_for_owner(run) {
            self.progressed = true;
            match self.execute_shared(messages, run, block, &schedule, op) {
                Ok(true) => self.peer_progress.finish(block, op),
                Ok(false) => {}
                Err(cause) => return self.fail(messages, run, Some(op), cause),
            }
            self.peer_progress.carry(&|rank| messages.is_gone(rank));
        }
        let state = &self.table.expect(run).state;
        if state.has_ended_in(block.done())
            && let Some(end_ns) = self.peer_progress.settle(run, block)
        {
            let found = self.remove(messages, run);
            let state = Arc::clone(&found.state);
            self.spare(found);
            state.complete(Ok(()), end_ns);
        }
    }

    /// Takes a run that has ended out of the table.
    #[inline]
    fn remove(&mut self, messages: &mut Messages, run: RunRef) -> Box<Run> {
        messages.copy_replies_of(run.slot);
        let found = self.table.remove(run);
        if found.is_unlisted {
            self.job.unlisted(self.me).fetch_sub(1, Ordering::Release);
        }
        if found.scope != Scope::Open {
            for (rank, _) in &found.numbers {
                messages.close(*rank, run.serial);
            }
        }
        found
    }

    /// Keeps a finished run for the next time, or its block for another schedule.
    #[inline]
    fn spare(&mut self, run: Box<Run>) {
        if let Some(dropped) = self.table.keep_spare(run)
            && let Some(block) = dropped.block
        {
            self.peer_progress.unshare(block);
        }
    }

    /// As after so many runs, schedules in blocks, gets, and calls on the board. Before the first one.
    pub(super) fn grow_old(&mut self, far: u64) {
        self.table.grow_old(far);
        self.peer_progress.grow_old(far);
        self.one_sided.grow_old(far as u32);
        self.board.grow_old(far as u32);
    }

    /// Whether a run is still there.
    pub(super) fn is_live(&mut self, run: RunRef) -> bool {
        self.table.get(run).is_some()
    }

    /// Bytes that came as answers to gets.
    pub(super) fn got_bytes(&self) -> u64 {
        self.one_sided.got_bytes
    }

    /// Whether no run is going on.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// The handle of some run that is going on.
    pub(super) fn any_run(&self) -> Option<Arc<HandleState>> {
        self.table.iter().next().map(|(_, run)| Arc::clone(&run.state))
    }

    /// Whether all that is left of the runs can wait until somebody asks for it: nobody depends on it, as far as can be known.
    pub(super) fn can_wait(&self) -> bool {
        let is_alone = |run: &Run| matches!(run.scope, Scope::Call { .. }) && run.has_sent_all();
        self.one_sided.is_idle() && self.table.iter().all(|(_, run)| is_alone(run))
    }

    /// What messages of the run are matched under.
    #[inline]
    fn context_of(&mut self, run: RunRef) -> u64 {
        if self.table.expect(run).scope == Scope::Open { OPEN_CONTEXT } else { run.serial }
    }

    /// The owners of runs in blocks look at what they hold back before whoever drives falls asleep, see
    /// [`PeerProgress::flush_held_back`].
    pub(super) fn flush_held_back(&mut self, messages: &mut Messages) {
        let table = &mut self.table;
        if self.peer_progress.flush_held_back(|run| table.list(run)) {
            self.settle(messages);
            messages.ring();
            self.peer_progress.end_flush();
        }
    }
}

impl Handler for Runs {
    #[cold]
    fn message(&mut self, source: Rank, channel: Option<Channel>, header: &Header, payload: &[u8]) {
        let run = channel.map(|channel| RunRef { slot: channel.owner, serial: channel.context });
        match (run, header.kind) {
            (_, kind) if kind == Kind::GetReply as u8 => self.take_reply(source, header, payload),
            (_, kind) if kind == Kind::Get as u8 => self.note_get(source, run, header, payload),
            (Some(run), kind) if kind == Kind::Put as u8 => self.take_put(source, run, header, payload),
            (Some(run), _) => {
                let block =
                    self.table.expect(run).block.expect("an unmatched channel is that of a run in a block");
                self.peer_progress.deliver(block, run.serial, source, header, payload);
                self.table.list(run);
            }
            (None, kind) => unreachable!("a message of kind {kind} has a channel"),
        }
    }

    fn reduces(&mut self, token: Token) -> bool {
        let run = self.table.run_of(token);
        let space = self.space(run);
        self.table.expect(run).begin_fold(OpId(token.part), space)
    }

    unsafe fn reduce(&mut self, token: Token, piece: *mut u8, behind: u64, bytes: u64) {
        let run = self.table.run_of(token);
        let fold = self.table.expect(run).fold_of(OpId(token.part));
        // SAFETY: the caller's promise; the operation's other buffers are its own, since it lacks nothing but this message.
        unsafe { fold.apply(piece, behind, bytes) };
    }
}
