//! Started calls as compiled programs: each has a cursor in its program, and goes on when somebody looks after it.
//!
//! All ranks of such a call send what they have before they wait for anything, so nobody waits for one that has started it and
//! computes: its messages have left in the start, and what came for it is taken in when it is waited for or asked for. Only a
//! message for which there was no room, since its receiver is a whole cycle of calls behind, is left for the progress thread; and
//! whoever waits for such room wakes the receiver's progress thread, which passes what has ended (`slot/README.md`).
//!
//! Nobody looks after started calls with the engine in hand: to give one up takes the engine.

use super::line::{Lacking, Line, Stop};
use super::{Own, Started, StartedCalls};
use crate::board::Record;
use crate::call::inside_call;
use crate::drive::Shared;
use crate::failure::Cause;
use crate::handle_state::HandleState;
use crate::process::{Handle, Process, RunError};
use crate::slot::program::Segments;
use crate::slot::{SlotSet, turn_of};
use castell_base::Rank;
use castell_host::clock::now_ns;
use castell_shm::doorbell::Sleeper;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

/// So many looks in vain a call has before it is asked whether what it lacks can still come.
const LOOKS_IN_VAIN: u32 = 64;
/// So many times the progress thread looks for room before it wakes that of the receiver again.
const LOOKS_BEFORE_PRESSING: u32 = 16;

/// A call that lacks something.
struct Blocked {
    segments: Arc<Segments>,
    number: u64,
    signature: u64,
    lacking: Lacking,
}

impl Process {
    /// Starts the next call of a context as a compiled program, see [`Process::run_call`].
    ///
    /// # Safety
    /// As for [`Process::run`]; one call at a time runs the program, whose memory stays until it has ended.
    ///
    /// # Errors
    /// As for [`Process::run`].
    pub unsafe fn start_program(
        &self,
        segments: &Arc<Segments>,
        context: u32,
        record: &Record,
    ) -> Result<Handle, RunError> {
        if inside_call() {
            return Err(RunError::InsideCall);
        }
        let (shared, set) = (&self.shared, SlotSet::started(context));
        let mut calls = shared.started_calls(set);
        // In the lock: who finalizes sets it, and then waits for what was started before.
        if shared.shut_down.load(Ordering::Relaxed) {
            return Err(RunError::Finalized);
        }
        shared.ensure_thread();
        let number = shared.programs.numbers[context as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let (turn, cycle) = (turn_of(number, 0), segments.first.cycle);
        let own = &mut calls.own;
        own.log.write(number, record.words());
        let overwrites = own.progress.must_have_passed(turn, cycle).unwrap_or(0);
        // Nobody has passed it yet, but from now on its places are in use.
        own.progress.pass(turn, cycle, false, false);
        if shared.programs.records.load(Ordering::Relaxed) {
            shared.programs.note_call(set, number, record);
        }
        let state = Arc::new(HandleState::new(number, None, Some(set)));
        let call = Started {
            segments: Arc::clone(segments),
            state: Arc::clone(&state),
            number,
            signature: record.signature(),
            at: 0,
            overwrites,
            looks: 0,
            since_ns: 0,
            recorded: Vec::new(),
        };
        calls.window.begin(turn, call);
        let was_full = calls.lacks_room;
        // Others have what they need of the calls before, unless one of them could not send.
        let first = if was_full { 0 } else { calls.window.len() - 1 };
        calls.carry_on(shared, set, first, None);
        if calls.lacks_room && !was_full {
            shared.press(shared.me);
        }
        drop(calls);
        Ok(Handle { state, shared: Arc::clone(shared) })
    }
}

impl StartedCalls {
    /// Carries on the calls from one on, up to that of `until`; what it lacks, or one before it that cannot send.
    fn carry_on(
        &mut self,
        shared: &Arc<Shared>,
        set: SlotSet,
        first: usize,
        until: Option<&HandleState>,
    ) -> Option<Blocked> {
        let (mut blocked, mut has_ended) = (None, false);
        self.lacks_room = false;
        for at in first..self.window.len() {
            let Some(call) = self.window.get_mut(at) else { continue };
            let is_last = until.is_some_and(|until| std::ptr::eq(&raw const *call.state, until));
            match call.advance(shared, set, &mut self.own) {
                None => {
                    has_ended = true;
                    self.window.end(at);
                }
                Some(lacking) if is_last || lacking.is_room => {
                    self.lacks_room = lacking.is_room;
                    let (number, signature) = (call.number, call.signature);
                    blocked =
                        Some(Blocked { segments: Arc::clone(&call.segments), number, signature, lacking });
                    break;
                }
                Some(_) => {}
            }
            if is_last {
                break;
            }
        }
        if has_ended && let Some(turn) = self.window.passed() {
            self.own.consumer_index.pass(turn);
            shared.ring_all_if_seen();
        }
        blocked
    }
}

impl Started {
    /// Carries the call on; what it lacks, unless it has ended.
    #[inline]
    fn advance(&mut self, shared: &Arc<Shared>, set: SlotSet, own: &mut Own) -> Option<Lacking> {
        let program = &self.segments.first;
        let mut line = Line::new(shared, program, set, self.number, self.signature);
        (line.at, line.overwrites) = (self.at, self.overwrites);
        line.recorded = std::mem::take(&mut self.recorded);
        // SAFETY: who started the call answers for its memory until it has ended.
        let outcome = unsafe {
            match shared.programs.records.load(Ordering::Relaxed) {
                false => line.run::<false>(own),
                true => line.run::<true>(own),
            }
        };
        line.ring();
        let (at, cause) = match outcome {
            Ok(()) => {
                shared.programs.count(set, program);
                self.state.complete(Ok(()), now_ns());
                return None;
            }
            Err(Stop::Failed(at, cause)) => (at, cause),
            Err(Stop::Lacks(lacking)) => {
                self.at = line.at;
                self.looks += 1;
                let is_due = self.looks.is_multiple_of(LOOKS_IN_VAIN) || shared.job.epoch() != own.epoch;
                let cause = if is_due { in_vain(&line, &mut self.since_ns, &lacking) } else { None };
                let Some(cause) = cause else {
                    self.recorded = line.recorded;
                    return Some(lacking);
                };
                (lacking.at, cause)
            }
        };
        own.consumer_index.give_up(self.number, cause.culprit(shared.me).0);
        self.state.complete(Err(line.bury(at, cause)), now_ns());
        None
    }
}

/// Why what a call lacks can never come, if that is so.
#[cold]
fn in_vain(line: &Line<'_>, since_ns: &mut u64, lacking: &Lacking) -> Option<Cause> {
    if *since_ns == 0 {
        *since_ns = now_ns();
    }
    line.in_vain(lacking.peer, *since_ns, &|| lacking.has_come())
}

impl Shared {
    fn started_calls(&self, set: SlotSet) -> MutexGuard<'_, StartedCalls> {
        let calls = &self.programs.started[set.context() as usize];
        calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a rank's progress thread, to look after the started calls.
    pub(crate) fn press(&self, rank: Rank) {
        self.job.control(rank).doorbell.call(Sleeper::Thread);
    }

    /// Carries on what a started call depends on here, unless another thread is at it; whether it has ended.
    pub(crate) fn ask_started(self: &Arc<Self>, set: SlotSet, state: &HandleState) -> bool {
        if !inside_call()
            && let Ok(mut calls) = self.programs.started[set.context() as usize].try_lock()
        {
            calls.carry_on(self, set, 0, Some(state));
        }
        state.is_done()
    }

    /// Waits for a started call.
    pub(crate) fn wait_for_started(self: &Arc<Self>, set: SlotSet, state: &HandleState) {
        while !state.is_done() {
            let blocked = self.started_calls(set).carry_on(self, set, 0, Some(state));
            let Some(Blocked { segments, number, signature, lacking }) = blocked else { continue };
            let mut line = Line::new(self, &segments.first, set, number, signature);
            line.presses = lacking.is_room;
            let has_come = || lacking.has_come() || state.is_done();
            if let Err(Stop::Failed(at, cause)) =
                line.wait(lacking.at, lacking.peer, Some(lacking.word()), &has_come)
            {
                self.started_calls(set).give_up(&line, at, cause);
            }
        }
    }

    /// What the progress thread does for started calls; whether it should look again soon.
    pub(crate) fn look_after_started(self: &Arc<Self>) -> bool {
        let mut is_full = false;
        for (context, calls) in (0..).zip(&self.programs.started) {
            let set = SlotSet::started(context);
            let mut calls = match calls.try_lock() {
                Ok(calls) => calls,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    is_full = true;
                    continue;
                }
            };
            if let Some(Blocked { lacking, .. }) = calls.carry_on(self, set, 0, None) {
                is_full = true;
                calls.looks_for_room += 1;
                if calls.looks_for_room.is_multiple_of(LOOKS_BEFORE_PRESSING) {
                    self.press(lacking.peer);
                }
            }
        }
        is_full
    }

    /// A started call that goes on, if any does.
    pub(crate) fn any_started(&self) -> Option<Arc<HandleState>> {
        self.programs.started.iter().find_map(|calls| {
            let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.window.iter().next().map(|call| Arc::clone(&call.state))
        })
    }
}

impl StartedCalls {
    /// Somebody has found that a call waits in vain; it may have ended meanwhile.
    #[cold]
    fn give_up(&mut self, line: &Line<'_>, at: usize, cause: Cause) {
        let found = (0..self.window.len())
            .find(|at| self.window.get_mut(*at).is_some_and(|call| call.number == line.number));
        let Some(call) = found.and_then(|at| self.window.end(at)) else { return };
        self.own.consumer_index.give_up(call.number, cause.culprit(line.shared.me).0);
        if let Some(turn) = self.window.passed() {
            self.own.consumer_index.pass(turn);
        }
        call.state.complete(Err(line.bury(at, cause)), now_ns());
    }
}
