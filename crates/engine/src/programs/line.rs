//! One call as a compiled program: carries its steps out, waits for what they lack, and wakes who waits for it.

use super::Own;
use crate::board::Record;
use crate::call::{call_at_once, inside_call};
use crate::contexts::other_call;
use crate::describe::describe;
use crate::drive::{RETRY_PAUSE, Shared};
use crate::failure::{Cause, Failure};
use crate::liveness::Waiting;
use crate::number::call_word;
use crate::process::{Process, RunError};
use crate::runs::{Place, Recorded, local_plain, note_operation, number_of_steps};
use crate::slot::line::Line as SlotLine;
use crate::slot::program::{Piece, Program, Route, Segments, Step, ZeroCopy};
use crate::slot::{SlotSet, turn_of};
use castell_base::Rank;
use castell_goal::op::Arithmetic;
use castell_host::clock::now_ns;
use castell_shm::job::RankState;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, MutexGuard, PoisonError};

/// Looks in vain before those that were sent something and sleep are woken: who is awake answers sooner.
const LOOKS_BEFORE_RINGING: u32 = 32;
/// A call that has waited for so long looks at what the others have called. Nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

/// One call under way.
pub(super) struct Line<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) program: &'a Program,
    pub(super) set: SlotSet,
    pub(super) number: u64,
    pub(super) turn: u64,
    /// Of started calls: the step that is next, and the last turn before this one that used the same places.
    pub(super) at: usize,
    pub(super) overwrites: u64,
    /// How far the segment is behind the first one. Bytes.
    pub(super) behind: usize,
    /// Where its large messages begin in this rank's bounce buffer. Bytes.
    pub(super) bounce_at: usize,
    pub(super) signature: u64,
    /// How often a message is looked for before others may run.
    spins: u32,
    /// Messages were written, or turns passed that are awaited, since sleepers were last looked for.
    pub(super) is_unrung: bool,
    /// Somebody may be reading this rank's own buffers.
    pub(super) has_exposed: bool,
    /// Who is waited for may have to be woken to pass older calls.
    pub(super) presses: bool,
    pub(super) recorded: Vec<Recorded>,
}

/// Why a line stands still.
pub(super) enum Stop {
    /// This step failed.
    Failed(usize, Cause),
    /// A started call lacks this.
    Lacks(Lacking),
}

/// What a step of a started call lacks: a word that reaches a value.
#[derive(Clone, Copy)]
pub(super) struct Lacking {
    pub(super) at: usize,
    /// Who writes it.
    pub(super) peer: Rank,
    word: *const AtomicU64,
    value: u64,
    /// It is not a message: the peer has to pass an older call.
    pub(super) is_room: bool,
}

impl Lacking {
    fn new(at: usize, peer: Rank, (word, value): (&AtomicU64, u64), is_room: bool) -> Lacking {
        Lacking { at, peer, word, value, is_room }
    }

    /// The word. The job is mapped for as long as there are calls.
    pub(super) fn word(&self) -> (&AtomicU64, u64) {
        // SAFETY: it is a reference's that lies in the job's segment, which is mapped for as long as any of its calls goes on.
        (unsafe { &*self.word }, self.value)
    }

    /// Whether it is there.
    #[inline]
    pub(super) fn has_come(&self) -> bool {
        let (word, value) = self.word();
        // Acquire: what was written before.
        word.load(Ordering::Acquire) >= value
    }
}

impl Process {
    /// Whether calls can be made here and now.
    ///
    /// # Errors
    /// The group was left; the thread is in a function that a run calls.
    #[inline]
    pub fn may_call(&self) -> Result<(), RunError> {
        if inside_call() {
            return Err(RunError::InsideCall);
        }
        if self.shared.shut_down.load(Ordering::Relaxed) {
            return Err(RunError::Finalized);
        }
        Ok(())
    }

    /// Makes the next call of a context as a compiled program, see [`Process::execute`].
    ///
    /// # Safety
    /// As for [`Process::run`]; one call at a time runs the program.
    ///
    /// # Errors
    /// As for [`Process::execute`].
    pub unsafe fn execute_program(
        &self,
        segments: &Segments,
        context: u32,
        record: &Record,
    ) -> Result<Result<(), Failure>, RunError> {
        self.may_call()?;
        let (shared, programs) = (&self.shared, &self.shared.programs);
        // Where threads of this process share the world, their calls go one after the other.
        let mut own = programs.blocking[context as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let number = programs.numbers[context as usize].fetch_add(1, Ordering::Relaxed) + 1;
        own.log.write(number, record.words());
        let mut line =
            Line::new(shared, &segments.first, SlotSet::blocking(context), number, record.signature());
        line.spins = shared.patience().spins;
        let zero_copy = match &segments.zero_copy {
            None => None,
            Some(ZeroCopy { program, dearness_max }) => match line.reads_peers(&mut own) {
                Ok(dearness) => dearness.filter(|dearness| dearness <= dearness_max).map(|_| program),
                Err(stop) => return Ok(Err(line.fail(own, stop))),
            },
        };
        let (mut segment, count) = (0, if zero_copy.is_some() { 1 } else { segments.count });
        while segment < count {
            line.program = zero_copy.unwrap_or_else(|| segments.program(segment));
            (line.turn, line.at) = (turn_of(number, segment), 0);
            line.behind = segment as usize * segments.stride;
            line.bounce_at = own.place_in_bounce(line.program.traffic.bounce_bytes);
            // SAFETY: the caller's promise.
            let outcome = unsafe {
                match programs.records.load(Ordering::Relaxed) {
                    false => line.run::<false>(&mut own),
                    true => {
                        if segment == 0 {
                            programs.note_call(line.set, number, record);
                        }
                        let since = programs.begins_to_wait();
                        let outcome = line.run::<true>(&mut own);
                        programs.has_waited(since, number_of_steps(line.set.index(), number));
                        outcome
                    }
                }
            };
            let Program { hears_all, cycle, .. } = *line.program;
            own.progress.pass(
                line.turn,
                cycle,
                hears_all && outcome.is_ok(),
                line.program.traffic.bounce_bytes > 0,
            );
            if let Err(stop) = outcome {
                return Ok(Err(line.fail(own, stop)));
            }
            programs.count(line.set, line.program);
            own.consumer_index.pass(line.turn);
            line.is_unrung |= line.program.is_awaited;
            segment += 1;
        }
        if (zero_copy.is_some() || line.has_exposed)
            && let Err(stop) = line.wait_for_readers(&mut own)
        {
            return Ok(Err(line.fail(own, stop)));
        }
        line.ring_at_end();
        line.prepare_next();
        Ok(Ok(()))
    }
}

impl<'a> Line<'a> {
    #[inline(always)]
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        program: &'a Program,
        set: SlotSet,
        number: u64,
        signature: u64,
    ) -> Line<'a> {
        Line {
            shared,
            program,
            set,
            number,
            turn: turn_of(number, 0),
            at: 0,
            overwrites: 0,
            behind: 0,
            bounce_at: 0,
            signature,
            spins: 0,
            is_unrung: false,
            has_exposed: false,
            presses: false,
            recorded: Vec::new(),
        }
    }

    /// Carries out the steps from `self.at` on. A started call that lacks something is left there, to be run again.
    ///
    /// # Safety
    /// As for [`Process::execute_program`].
    #[inline(always)]
    pub(super) unsafe fn run<const RECORDS: bool>(&mut self, own: &mut Own) -> Result<(), Stop> {
        if self.shared.job.epoch() != own.epoch {
            self.look_for_departed(own)?;
        }
        let (turn, program) = (self.turn, self.program);
        for (at, step) in (self.at..).zip(&program.steps[self.at..]) {
            self.at = at;
            let start_ns = if RECORDS { now_ns() } else { 0 };
            match step {
                Step::Send { route, from, bytes, knows } => {
                    if !knows && let Some(last) = self.must_have_passed(own) {
                        self.wait_for_room(own, at, program.names[at].peer, last)?;
                    }
                    // SAFETY: who called answers for user memory; the receiver has passed what was there.
                    unsafe { route.of(turn).publish(turn, self.signature, *from, *bytes) };
                    self.is_unrung = true;
                }
                Step::Multicast { route, from, bytes, knows } => {
                    if !knows && let Some(last) = self.must_have_passed(own) {
                        self.wait_for_all(own, at, last)?;
                    }
                    // SAFETY: who called answers for user memory; all ranks have passed what was there.
                    unsafe { route.of(turn).publish(turn, self.signature, *from, *bytes) };
                    self.is_unrung = true;
                }
                Step::Recv { route, to, bytes } => {
                    let place = self.arrived(at, route)?;
                    // SAFETY: who called answers for user memory; calls that are alike have messages of the same sizes.
                    unsafe { place.read(*to, *bytes) };
                }
                Step::Local { arithmetic, places: [b1, b2, b3], bytes } => {
                    // SAFETY: as above; the program's order keeps to the graph's edges.
                    unsafe { local_plain(*arithmetic, *b1, *b2, *b3, *bytes) };
                }
                Step::Await { first, count } => self.hear(*first, *count)?,
                Step::Fold { first, count, arithmetic, into, bytes } => {
                    // SAFETY: the caller's promise.
                    unsafe { self.fold((*first, *count), *arithmetic, *into, *bytes)? };
                }
                Step::Call { function, context } => {
                    // SAFETY: the caller promised that this is the address of such a function.
                    unsafe { call_at_once(*function, *context) };
                }
                // SAFETY: the caller's promise.
                Step::Expose { .. } | Step::Get { .. } | Step::Combine { .. } => unsafe {
                    self.zero_copy_step(own, at, step)?;
                },
                // SAFETY: the caller's promise.
                large => unsafe { self.large_step(own, at, large)? },
            }
            if RECORDS {
                self.record(at, start_ns);
            }
        }
        if RECORDS {
            self.hand_in();
        }
        Ok(())
    }

    /// The turn that receivers must have passed before this call's messages are written, as far as it is not known that they have.
    #[inline(always)]
    pub(super) fn must_have_passed(&self, own: &Own) -> Option<u64> {
        match self.set.is_started() {
            true => (self.overwrites > 0).then_some(self.overwrites),
            false => own.progress.must_have_passed(self.turn, self.program.cycle),
        }
    }

    /// Waits for a row of empty messages.
    #[inline(never)]
    fn hear(&mut self, first: usize, count: usize) -> Result<(), Stop> {
        let (pieces, name) = self.program.row(first, count);
        for (at, piece) in pieces.iter().enumerate() {
            if let Piece::Received(route) = piece {
                self.arrived(name + at, route)?;
            }
        }
        Ok(())
    }

    /// Reduces a row of operands, of which each message is awaited when its turn has come, and read where it lies.
    ///
    /// # Safety
    /// As for [`Process::execute_program`].
    #[inline(never)]
    unsafe fn fold(
        &mut self,
        (first, count): (usize, usize),
        arithmetic: Arithmetic,
        into: *mut u8,
        bytes: usize,
    ) -> Result<(), Stop> {
        if self.set.is_started() {
            // What is begun is not left half done.
            self.hear(first, count)?;
        }
        let (pieces, name) = self.program.row(first, count);
        let mut left = None;
        for (at, piece) in pieces.iter().enumerate() {
            let right = match piece {
                Piece::Here(at) => *at,
                Piece::Received(route) => self.arrived(name + at, route)?.lies(bytes),
            };
            if let Some(left) = left {
                // SAFETY: who called answers for user memory; the senders leave the messages alone until this rank has passed the
                // call, and calls that are alike have messages of the same sizes.
                unsafe { local_plain(arithmetic, left, right, into, bytes as u64) };
            }
            left = Some(left.map_or(right, |_| into));
        }
        Ok(())
    }

    /// Has the places of the next turn brought here that this rank writes to if it makes the same call again: on the way to
    /// it, not in it. A call of many messages would wait for some of them here.
    #[inline(always)]
    fn prepare_next(&self) {
        if self.spins > 0 {
            for route in &self.program.traffic.prepared {
                route.of(turn_of(self.number + 1, 0)).prepare();
            }
        }
    }

    /// The place of a message of this call, once it is there.
    #[inline(always)]
    pub(super) fn arrived(&mut self, at: usize, route: &Route) -> Result<SlotLine, Stop> {
        let (place, turn) = (route.of(self.turn), self.turn);
        if !place.has(turn) && !self.comes_soon(place) {
            self.lack(at, self.program.names[at].peer, (place.word(), turn), false)?;
        }
        if place.signature() != self.signature {
            return Err(Stop::Failed(at, self.differing(at)));
        }
        Ok(place)
    }

    /// A word has not reached a value: waits until it has, or leaves the call here.
    fn lack(&mut self, at: usize, peer: Rank, word: (&AtomicU64, u64), is_room: bool) -> Result<(), Stop> {
        let lacking = Lacking::new(at, peer, word, is_room);
        match self.set.is_started() {
            true => Err(Stop::Lacks(lacking)),
            false => self.wait(at, peer, Some(word), &|| lacking.has_come()),
        }
    }

    /// Looks for a message for a moment: most come so soon where each rank has a processor.
    #[inline(always)]
    fn comes_soon(&mut self, place: SlotLine) -> bool {
        // What was sent is on its way while this rank waits, not when it has what it waits for.
        self.look_for_sleepers();
        self.spins > LOOKS_BEFORE_RINGING
            && (0..LOOKS_BEFORE_RINGING).any(|_| {
                let has = place.has(self.turn);
                if !has {
                    std::hint::spin_loop();
                }
                has
            })
    }

    /// Waits for a message, or for room: looks again and again, then lets others run, then drives the engine and sleeps.
    /// `word`: one that reaches a value when it has come, for the ranks that share this one's processor.
    #[inline(never)]
    pub(super) fn wait(
        &mut self,
        at: usize,
        peer: Rank,
        word: Option<(&AtomicU64, u64)>,
        has_come: &dyn Fn() -> bool,
    ) -> Result<(), Stop> {
        let patience = self.shared.patience();
        for look in 0..patience.spins {
            if has_come() {
                return Ok(());
            }
            if look == LOOKS_BEFORE_RINGING {
                self.ring();
            }
            std::hint::spin_loop();
        }
        self.ring();
        let announced = (patience.spins == 0 && self.program.is_one_round).then(|| self.announce_wait(word));
        for yields in 0..patience.yields {
            if has_come() {
                return Ok(());
            }
            if self.shared.runs_go_on() {
                break;
            }
            if let Some(announced) = &announced
                && announced.looks_on(has_come)
            {
                return Ok(());
            }
            self.shared.spend_yield(yields, None);
        }
        self.wait_driving(at, peer, has_come)
    }

    #[cold]
    fn wait_driving(&self, at: usize, peer: Rank, has_come: &dyn Fn() -> bool) -> Result<(), Stop> {
        let (shared, since) = (self.shared, now_ns());
        loop {
            if let Some(cause) = self.in_vain(peer, since, has_come) {
                return Err(Stop::Failed(at, cause));
            }
            if has_come() {
                return Ok(());
            }
            let mut engine = shared.enter();
            if shared.is_driven() {
                // By another thread, which knows nothing of this wait.
                shared.leave(engine);
                std::thread::sleep(RETRY_PAUSE);
                continue;
            }
            let (schedule, op) = (Arc::clone(&self.program.schedule), self.program.names[at].op);
            let is_alone = engine.runs.is_empty();
            engine.liveness.silence.run_starts(&shared.job, is_alone);
            engine.waiting = Some(Waiting { schedule, op, peer });
            // From here on, who writes to a slot looks at the doorbells of those it has written to.
            shared.job.slot_sleepers().fetch_add(1, Ordering::SeqCst);
            shared.drive_until(engine, has_come, &|| {
                if self.presses {
                    shared.press(peer);
                }
                self.in_vain(peer, since, has_come).is_some()
            });
            shared.job.slot_sleepers().fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Why what is waited for can never come, if that is so.
    pub(super) fn in_vain(&self, peer: Rank, since_ns: u64, has_come: &dyn Fn() -> bool) -> Option<Cause> {
        let job = &self.shared.job;
        let (state, consumer_index) = (job.control(peer).state(), job.consumer_index(self.set, peer));
        let has_passed = consumer_index.passed() >= self.turn || consumer_index.gave_up(self.number);
        // What the peer did before it went, or passed the call, is seen from here on.
        if has_come() {
            return None;
        }
        let has_gone = matches!(state, RankState::Dead(_) | RankState::Finished);
        let is_late = now_ns() - since_ns >= PATIENCE_NS;
        if (has_gone || has_passed || is_late)
            && let Some(cause) = other_call(
                (job, self.shared.describe),
                self.shared.me,
                &self.program.peers.members,
                self.word(),
            )
        {
            return Some(cause);
        }
        if has_passed {
            // It gave the call up, whatever became of it afterwards.
            let culprit = consumer_index.culprit(self.number).map_or(peer, Rank);
            return Some(Cause::PeerFailed { peer, culprit });
        }
        match state {
            RankState::Dead(death) => Some(Cause::PeerDied { peer, death }),
            RankState::Finished => Some(Cause::PeerLeft { peer }),
            RankState::Unborn | RankState::Alive => None,
        }
    }

    #[inline(always)]
    pub(super) fn wait_for_room(
        &mut self,
        own: &mut Own,
        at: usize,
        receiver: Rank,
        last: u64,
    ) -> Result<(), Stop> {
        // A look at its consumer index, which it has written to since, is dear: one tells of several calls.
        if own.seen[receiver.index()] >= last {
            return Ok(());
        }
        self.look_for_room(own, at, receiver, last)
    }

    #[inline(never)]
    fn look_for_room(&mut self, own: &mut Own, at: usize, receiver: Rank, last: u64) -> Result<(), Stop> {
        let consumer_index = self.shared.job.consumer_index(self.set, receiver);
        if consumer_index.passed() < last {
            self.lack(at, receiver, (consumer_index.word(), last), true)?;
        }
        own.seen[receiver.index()] = consumer_index.passed();
        Ok(())
    }

    /// Of large messages it is not kept who looks at them.
    pub(super) fn wait_for_all(&mut self, own: &mut Own, at: usize, last: u64) -> Result<(), Stop> {
        let me = self.shared.me;
        let mut others = self.program.peers.members.iter().filter(|member| **member != me);
        others.try_for_each(|member| self.wait_for_room(own, at, *member, last))
    }

    /// Somebody died or left: an error if this call sends to one of them. Those that it hears from may have sent before.
    #[cold]
    fn look_for_departed(&self, own: &mut Own) -> Result<(), Stop> {
        let job = &self.shared.job;
        let epoch = job.epoch();
        let has_gone =
            |rank: &Rank| matches!(job.control(*rank).state(), RankState::Dead(_) | RankState::Finished);
        if !self.program.peers.members.iter().any(has_gone) {
            own.epoch = epoch;
            return Ok(());
        }
        match self.program.peers.sends.iter().find(|(at, to)| *at >= self.at && has_gone(to)) {
            Some((at, to)) => {
                let cause = self.in_vain(*to, now_ns(), &|| false).expect("somebody who has gone");
                Err(Stop::Failed(*at, cause))
            }
            None => Ok(()),
        }
    }

    /// The sender of the message that came has called something else.
    #[cold]
    fn differing(&self, at: usize) -> Cause {
        let peer = self.program.names[at].peer;
        let found = other_call(
            (&self.shared.job, self.shared.describe),
            self.shared.me,
            &self.program.peers.members,
            self.word(),
        );
        found.unwrap_or(Cause::PeerFailed { peer, culprit: peer })
    }

    fn word(&self) -> u32 {
        call_word(self.set.context(), (self.number - 1) as u32)
    }

    /// Wakes those that sleep and may have what they wait for.
    #[inline(always)]
    pub(super) fn ring(&mut self) {
        if self.look_for_sleepers() {
            self.is_unrung = false;
            self.ring_sleepers();
        }
    }

    /// Wakes who sleeps until this rank has passed a call in which all hear of all. Hardly anybody ever does: only who was two
    /// calls further when this rank lost its processor in the middle. A fence in each call would cost more than that is worth;
    /// a look without one may come too early, once in a great while, and then the sleeper looks itself.
    #[inline(always)]
    pub(super) fn ring_if_seen(&self) {
        if self.shared.job.slot_sleepers().load(Ordering::Relaxed) != 0 {
            self.ring_all();
        }
    }

    /// At a call's end: wakes those that sleep and may have what they wait for, or for whom this rank has passed the call.
    #[inline(always)]
    fn ring_at_end(&self) {
        if self.is_unrung {
            // As in `look_for_sleepers`.
            fence(Ordering::SeqCst);
        }
        self.ring_if_seen();
    }

    #[cold]
    fn ring_all(&self) {
        for member in self.program.peers.members.iter().filter(|member| **member != self.shared.me) {
            self.shared.job.control(*member).doorbell.ring_waiter();
        }
    }

    /// Whether somebody sleeps and nobody has been rung since messages were written; else nobody need be.
    #[inline(always)]
    fn look_for_sleepers(&mut self) -> bool {
        if self.is_unrung {
            // Orders the messages before the look; who sleeps has counted itself before it looked for messages.
            fence(Ordering::SeqCst);
            self.is_unrung = self.shared.job.slot_sleepers().load(Ordering::Relaxed) != 0;
        }
        self.is_unrung
    }

    #[cold]
    fn ring_sleepers(&self) {
        for dest in &self.program.peers.rung {
            self.shared.job.control(*dest).doorbell.ring_waiter();
        }
    }

    /// Gives the call up: tells the others, and forgets what came for it through the queue.
    #[cold]
    fn fail(&self, own: MutexGuard<'_, Own>, stop: Stop) -> Failure {
        let Stop::Failed(at, cause) = stop else { unreachable!("blocking calls wait for what they lack") };
        own.consumer_index.fail(self.number, cause.culprit(self.shared.me).0);
        drop(own);
        self.bury(at, cause)
    }

    /// The others have been told that this rank gives the call up: wakes them.
    #[cold]
    pub(super) fn bury(&self, at: usize, cause: Cause) -> Failure {
        let (shared, me) = (self.shared, self.shared.me);
        // Before the program writes to its buffers, which others may be reading; they look behind it, see `look_for_failure`.
        fence(Ordering::SeqCst);
        self.ring_all();
        let mut engine = shared.enter();
        engine.forget_call(&self.program.peers.members, self.word());
        shared.leave(engine);
        let differ = matches!(cause, Cause::CallsDiffer { .. });
        let operation = (!differ).then(|| describe(&self.program.schedule, self.program.names[at].op));
        Failure { rank: me, operation, cause }
    }

    /// The operations of a step are done.
    #[cold]
    fn record(&mut self, at: usize, start_ns: u64) {
        let (program, end_ns) = (self.program, now_ns());
        let with = program.merged.iter().filter(|(step, _)| *step == at).map(|(_, op)| *op);
        let done = with.chain([program.names[at].op]);
        let Some(journal) = self.shared.programs.journal.get() else {
            let recorded = |op| Recorded { run: 0, op, start_ns, begun_ns: end_ns, end_ns };
            return self.recorded.extend(done.map(recorded));
        };
        let word = self.word();
        let place = Place { run: number_of_steps(self.set.index(), self.number), is_step: true };
        for op in done {
            note_operation(journal, &program.schedule, op, place, None, &|_| word, [start_ns, end_ns]);
        }
    }

    /// Adds what was recorded to what the engine has.
    fn hand_in(&mut self) {
        if self.recorded.is_empty() {
            return;
        }
        let mut engine = self.shared.enter();
        let run = engine.runs.table.take_serial();
        if let Some(recorder) = &mut engine.runs.recorder {
            recorder.done.extend(self.recorded.drain(..).map(|one| Recorded { run, ..one }));
        }
        self.shared.leave(engine);
    }
}
