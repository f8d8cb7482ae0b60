//! The engine's state, and one turn of its crank.
//!
//! Exactly one thread turns it at a time (see `drive.rs` for who). A turn takes in messages, retries what could not
//! be sent, moves large transfers on, fires timers, and starts what has become ready.

use super::liveness::{Liveness, Waiting};
use super::messages::{Counters, Gone, Messages, Port};
use super::runs::Runs;
use crate::board::Describe;
use castell_base::Rank;
use castell_shm::job::{Death, Job, RankState};
use castell_shm::watch::Watch;
use castell_transport::{Down, Events, Header};
use std::sync::Arc;

/// How many messages one turn takes in before it looks after the rest.
const MESSAGES_A_TURN: usize = 256;
/// Turns in a row that only answer what comes.
const QUICK_TURNS_MAX: u32 = 16;

pub(super) struct Engine {
    port: Port,
    pub(super) messages: Messages,
    pub(super) runs: Runs,
    pub(super) liveness: Liveness,
    /// The thread that drives waits for this in a call that is no run.
    pub(super) waiting: Option<Waiting>,
    /// Whoever drives has slept until the time was up, and has not looked yet.
    pub(super) is_late: bool,
    /// Sleeps that nothing but their end ended although there was work.
    overslept: u64,
    quick_turns: u32,
}

// SAFETY: the raw pointers inside (queues, rings, scratchpads, buffers of messages) point to memory that the engine owns or keeps
// mapped, or that who started a run answers for; no thread uses it except the one that holds the engine's lock.
unsafe impl Send for Engine {}

impl Engine {
    pub(super) fn new(
        job: &Arc<Job>,
        me: Rank,
        mut port: Port,
        watch: Option<Watch>,
        describe: Describe,
    ) -> Engine {
        let runs = Runs::new(Arc::clone(job), me, describe);
        Engine {
            messages: Messages::new(Arc::clone(job), me, port.connections(), runs.contexts.numbers()),
            port,
            runs,
            liveness: Liveness::new(watch),
            waiting: None,
            is_late: false,
            overslept: 0,
            quick_turns: 0,
        }
    }

    /// One turn. Says whether anything moved.
    pub(super) fn turn(&mut self) -> bool {
        let Engine { port, messages, runs, .. } = self;
        let mut arriving = Arriving { messages, runs, gone: Vec::new() };
        let taken = port.poll(MESSAGES_A_TURN, &mut arriving);
        let gone = arriving.gone;
        // The quick way: answer before looking anywhere else.
        if taken > 0 && gone.is_empty() && self.quick_turns < QUICK_TURNS_MAX {
            self.quick_turns += 1;
            self.settle();
            self.take_progressed();
            return true;
        }
        self.quick_turns = 0;
        if messages.is_blocked() {
            messages.retry_pending();
        }
        if messages.has_transfers() {
            messages.ring();
            messages.move_transfers(runs);
        }
        if runs.calculations.is_any() {
            runs.calculate();
        }
        if !gone.is_empty() {
            runs.note_departures(messages, gone);
            // Nobody is woken by the departure of a rank that it never met.
            self.is_late = false;
        }
        self.settle();
        self.messages.ring();
        self.take_progressed() | (taken > 0)
    }

    #[inline]
    fn take_progressed(&mut self) -> bool {
        self.messages.take_progressed() | self.runs.take_progressed()
    }

    /// Does what has come of operations, and starts those that are ready.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.runs.settle(&mut self.messages);
    }

    /// Whether a message waits, or somebody has gone.
    pub(super) fn has_arrivals(&self) -> bool {
        self.port.has_news()
    }

    /// Whether others have left something that a turn would find: the look before sleeping, after the bell was told.
    pub(super) fn has_news(&mut self) -> bool {
        self.port.arm();
        self.has_arrivals() || self.runs.peer_progress.has_news() || self.messages.has_transfer_news()
    }

    /// A turn by whoever drives has moved something.
    #[inline]
    pub(super) fn moved(&mut self) {
        self.liveness.silence.moved();
        self.note_if_late();
    }

    /// There was work, though nobody has rung for it.
    #[inline]
    pub(super) fn note_if_late(&mut self) {
        if std::mem::take(&mut self.is_late) {
            self.overslept += 1;
        }
    }

    /// Whoever drives has slept until now.
    pub(super) fn note_woken(&mut self) {
        if let Some(recorder) = &mut self.runs.recorder {
            recorder.woken();
        }
    }

    /// Whether no run is going on, nothing that others wait for is left to be sent, and nobody minds if this rank says nothing.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.runs.is_empty() && !self.messages.is_blocked() && !self.port.is_network()
    }

    /// Whether nothing goes on here, and a look now and then does for what peers on other hosts may want: that they hear of this rank.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.is_at_rest() || self.runs.is_empty() && self.messages.can_wait() && self.port.owes_nothing()
    }

    /// This rank sends nothing any more: others are told, where they would take that for a death.
    pub(super) fn leave_network(&mut self) {
        let Engine { port, messages, runs, .. } = self;
        port.leave(&mut Arriving { messages, runs, gone: Vec::new() });
    }

    /// Whether all that is left of the runs can wait until somebody asks for it: nobody depends on it, as far as can be known.
    pub(super) fn can_wait(&self) -> bool {
        self.messages.can_wait() && self.runs.can_wait()
    }

    /// Whether somebody has to turn the crank even if no message comes.
    pub(super) fn needs_turning(&self) -> bool {
        self.messages.needs_turning() || self.runs.calculations.is_any()
    }

    /// A call of this word was given up that was no run: what came for it is of no use.
    #[cold]
    pub(super) fn forget_call(&mut self, members: &[Rank], word: u32) {
        let Engine { messages, runs, .. } = self;
        for member in members {
            messages.drop_early(*member, word, runs);
        }
        self.settle();
    }

    /// See [`Runs::flush_held_back`].
    pub(super) fn flush_held_back(&mut self) {
        self.runs.flush_held_back(&mut self.messages);
    }

    /// What was sent and received so far.
    pub(super) fn counters(&self) -> Counters {
        let (counters, carried) = (self.messages.counters, self.runs.peer_progress.sent);
        Counters {
            messages: counters.messages + carried.messages,
            bytes: counters.bytes + carried.bytes + self.runs.got_bytes(),
            orphans: counters.orphans + carried.orphans,
            overslept: self.overslept,
            ..counters
        }
    }
}

/// What the transport tells, and whom.
struct Arriving<'a> {
    messages: &'a mut Messages,
    runs: &'a mut Runs,
    gone: Vec<(Rank, Gone)>,
}

impl Events for Arriving<'_> {
    #[inline(always)]
    fn message(&mut self, header: &Header, payload: &[u8]) {
        if let Some(recorder) = &mut self.runs.recorder {
            recorder.arrives(header);
        }
        self.messages.receive(header, payload, self.runs);
    }

    fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        self.messages.place(header)
    }

    fn placed(&mut self, header: &Header) {
        if let Some(recorder) = &mut self.runs.recorder {
            recorder.arrives(header);
        }
        self.messages.placed(header, self.runs);
    }

    #[cold]
    fn down(&mut self, peer: Rank, _delivered: u32, why: Down) {
        let gone = match (self.messages.job.control(peer).state(), why) {
            (_, Down::Left) => Gone::Left,
            (RankState::Dead(death), _) => Gone::Died(death),
            _ => Gone::Died(Death::Vanished),
        };
        self.gone.push((peer, gone));
    }
}
