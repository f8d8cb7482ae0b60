//! Small blocking calls as straight lines: the calling thread carries them out, without the engine, over slots.
//!
//! The graph is the one that the stepper would run, and so are the results; `slot/README.md` says why nothing is overtaken and
//! nobody waits for ever. Who has waited for long drives the engine meanwhile, as every waiting thread does.

use super::call::{call_at_once, inside_call};
use super::contexts::other_call;
use super::core::Core;
use super::describe::describe;
use super::drive::{RETRY_PAUSE, Shared};
use super::failure::{Cause, Failure};
use super::memory::local_plain;
use super::number::call_word;
use super::record::Recorded;
use super::{Comm, RunError};
use crate::collective::board::Record;
use crate::job::{Job, RankState};
use crate::slot::line::{Line as SlotLine, Progress, Standing};
use crate::slot::log::LogWriter;
use crate::slot::program::{Operand, Piece, Program, Route, Step, Strips, Taken};
use crate::slot::{CONTEXTS, HEAP_BYTES, heap_of, turn_of};
use castell_base::Rank;
use castell_goal::op::Arithmetic;
use castell_host::clock::now_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Looks in vain before those that were sent something and sleep are woken: who is awake answers sooner.
const LOOKS_BEFORE_RINGING: u32 = 32;
/// Messages of a call whose places are prepared for the next one.
const PREPARED_MAX: u64 = 4;
/// Marks offsets of messages that stay in their senders' pools; others lie in the senders' heaps.
const IN_POOL: u64 = 1 << 63;
/// Large messages go round in so much of a heap, unless one strip has more. Bytes.
const HEAP_ROUND_BYTES: usize = 512 << 10;
/// A call that has waited for so long looks at what the others have called. Nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

/// What a process keeps for its straight lines.
pub(super) struct Straight {
    contexts: Vec<Mutex<Own>>,
    /// The sequence numbers of the contexts' next calls.
    numbers: Arc<[AtomicU64]>,
    /// Messages and bytes that were sent; written in the context's lock.
    sent: [[AtomicU64; 2]; CONTEXTS as usize],
    /// Whether somebody wants to know when operations start and finish.
    pub(super) records: AtomicBool,
}

/// Of one context.
pub(super) struct Own {
    standing: Standing,
    pub(super) progress: Progress,
    log: LogWriter,
    /// At this count of deaths and departures all members were there.
    epoch: u32,
    /// Where the large messages of the last strip end in this rank's heap. Bytes.
    heap_end: usize,
    /// The last turn that each rank of the job has been seen to have passed.
    seen: Box<[u64]>,
    /// Whether the members may read each other's memory, once they know.
    pub(super) may_show: Option<bool>,
    /// Room for parts of messages that are reduced out of other processes.
    pub(super) blocks: Box<[u128]>,
}

impl Own {
    /// Where the next strip's large messages begin: behind the last one's, as long as they go round in a part of the heap.
    /// Any place would do, but lines that their readers have looked at just now are written slowly.
    #[inline(always)]
    fn place_in_heap(&mut self, bytes: usize) -> usize {
        let fits = self.heap_end + bytes <= HEAP_ROUND_BYTES;
        let at = if fits { self.heap_end } else { 0 };
        self.heap_end = at + bytes;
        at
    }
}

/// A straight line that waits, for reports.
pub(super) struct Waiting {
    pub(super) operation: String,
    pub(super) peer: Rank,
}

impl Straight {
    pub(super) fn new(job: &Job, me: Rank, numbers: Arc<[AtomicU64]>) -> Straight {
        let own = |context| {
            let log = LogWriter::new(job.call_log(context, me));
            let standing = job.standing(context, me);
            let seen = vec![0; job.ranks() as usize].into();
            Mutex::new(Own {
                standing,
                progress: Progress::default(),
                log,
                epoch: 0,
                heap_end: 0,
                seen,
                may_show: None,
                blocks: Box::default(),
            })
        };
        let contexts = (0..CONTEXTS).filter(|context| job.has_slots(*context)).map(own).collect();
        Straight { contexts, numbers, sent: Default::default(), records: AtomicBool::new(false) }
    }

    /// A context is used anew: nothing of its older calls is left.
    pub(super) fn open(&self, context: u32) {
        if let Some(own) = self.contexts.get(context as usize) {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            (own.progress, own.epoch, own.may_show) = (Progress::default(), 0, None);
        }
    }

    /// Whether the members of a context read each other's memory, once they know.
    pub(super) fn may_show(&self, context: u32) -> Option<bool> {
        let own = self.contexts.get(context as usize)?;
        own.lock().unwrap_or_else(PoisonError::into_inner).may_show
    }

    /// Messages that were sent so far, and their bytes.
    pub(super) fn sent(&self) -> [u64; 2] {
        [0, 1].map(|at| self.sent.iter().map(|sent| sent[at].load(Ordering::Relaxed)).sum())
    }

    #[inline(always)]
    fn count(&self, context: u32, program: &Program) {
        for (count, more) in self.sent[context as usize].iter().zip([program.messages, program.bytes]) {
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }
}

/// One call under way.
pub(super) struct Line<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) program: &'a Program,
    pub(super) context: u32,
    pub(super) number: u64,
    pub(super) turn: u64,
    /// How far the strip is behind the first one. Bytes.
    behind: usize,
    /// Where its large messages begin in this rank's heap. Bytes.
    heap_at: usize,
    pub(super) signature: u64,
    /// How often a message is looked for before others may run.
    spins: u32,
    /// Messages were written, or turns passed that are awaited, since sleepers were last looked for.
    pub(super) is_unrung: bool,
    /// Somebody may be reading this rank's own buffers.
    has_shown: bool,
    recorded: Vec<Recorded>,
}

/// A step that failed, and why.
pub(super) type Stop = (usize, Cause);

impl Comm {
    /// Makes the next call of a context as a straight line, see [`Comm::execute`].
    ///
    /// # Safety
    /// As for [`Comm::run`]; one call at a time runs the program.
    ///
    /// # Errors
    /// As for [`Comm::execute`].
    pub(crate) unsafe fn execute_straight(
        &self,
        strips: &Strips,
        context: u32,
        record: &Record,
    ) -> Result<Result<(), Failure>, RunError> {
        if inside_call() {
            return Err(RunError::InsideCall);
        }
        let (shared, straight) = (&self.shared, &self.shared.straight);
        if shared.shut_down.load(Ordering::Relaxed) {
            return Err(RunError::Finalized);
        }
        // Where threads of this process share the world, their calls go one after the other.
        let mut own = straight.contexts[context as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let number = straight.numbers[context as usize].fetch_add(1, Ordering::Relaxed) + 1;
        own.log.write(number, record.words());
        let signature = record.signature();
        let (program, turn, recorded) = (&strips.first, turn_of(number, 0), Vec::new());
        let (behind, heap_at, is_unrung) = (0, 0, false);
        let spins = shared.patience().spins;
        let mut line = Line {
            shared,
            program,
            context,
            number,
            turn,
            behind,
            heap_at,
            signature,
            spins,
            is_unrung,
            has_shown: false,
            recorded,
        };
        let shown = match &strips.shown {
            None => None,
            Some(program) => match line.may_show(&mut own) {
                Ok(may) => may.then_some(program),
                Err(stop) => return Ok(Err(line.fail(own, stop))),
            },
        };
        for strip in 0..if shown.is_some() { 1 } else { strips.count } {
            line.program = shown.unwrap_or_else(|| strips.program(strip));
            line.turn = turn_of(number, strip);
            line.behind = strip as usize * strips.stride;
            line.heap_at = own.place_in_heap(line.program.heap_bytes);
            // SAFETY: the caller's promise.
            let outcome = unsafe {
                match straight.records.load(Ordering::Relaxed) {
                    false => line.run::<false>(&mut own),
                    true => line.run::<true>(&mut own),
                }
            };
            let Program { hears_all, cycle, heap_bytes, .. } = *line.program;
            own.progress.pass(line.turn, cycle, hears_all && outcome.is_ok(), heap_bytes > 0);
            if let Err(stop) = outcome {
                return Ok(Err(line.fail(own, stop)));
            }
            straight.count(context, line.program);
            own.standing.pass(line.turn);
            line.is_unrung |= line.program.is_awaited;
        }
        if (shown.is_some() || line.has_shown)
            && let Err(stop) = line.wait_for_readers(&mut own)
        {
            return Ok(Err(line.fail(own, stop)));
        }
        line.ring();
        line.ring_if_seen();
        line.prepare_next();
        Ok(Ok(()))
    }
}

impl Line<'_> {
    /// # Safety
    /// As for [`Comm::execute_straight`].
    #[inline(always)]
    unsafe fn run<const RECORDS: bool>(&mut self, own: &mut MutexGuard<'_, Own>) -> Result<(), Stop> {
        if self.shared.job.epoch() != own.epoch {
            self.look_for_departed(own)?;
        }
        let (turn, program) = (self.turn, self.program);
        for (at, step) in program.steps.iter().enumerate() {
            let start_ns = if RECORDS { now_ns() } else { 0 };
            match step {
                Step::Send { route, from, bytes, knows } => {
                    if !knows && let Some(last) = own.progress.must_have_passed(turn, program.cycle) {
                        self.wait_for_room(own, at, program.names[at].peer, last)?;
                    }
                    // SAFETY: who called answers for user memory; the receiver has passed what was there.
                    unsafe { route.of(turn).publish(turn, self.signature, *from, *bytes) };
                    self.is_unrung = true;
                }
                Step::Post { route, from, bytes, knows } => {
                    if !knows && let Some(last) = own.progress.must_have_passed(turn, program.cycle) {
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
                Step::Hear { first, count } => self.hear(*first, *count)?,
                Step::Fold { first, count, arithmetic, into, bytes } => {
                    // SAFETY: the caller's promise.
                    unsafe { self.fold((*first, *count), *arithmetic, *into, *bytes)? };
                }
                Step::Call { function, context } => {
                    // SAFETY: the caller promised that this is the address of such a function.
                    unsafe { call_at_once(*function, *context) };
                }
                // SAFETY: the caller's promise.
                Step::Show { .. } | Step::Look { .. } | Step::Combine { .. } => unsafe {
                    self.shown_step(own, at, step)?;
                },
                // SAFETY: the caller's promise.
                large => unsafe { self.large_step(own, at, large)? },
            }
            if RECORDS {
                let end_ns = now_ns();
                let with = program.merged.iter().filter(|(step, _)| *step == at).map(|(_, op)| *op);
                let done = with.chain([program.names[at].op]);
                self.recorded.extend(done.map(|op| Recorded { run: 0, op, start_ns, end_ns }));
            }
        }
        if RECORDS {
            self.hand_in();
        }
        Ok(())
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
    /// As for [`Comm::execute_straight`].
    #[inline(never)]
    unsafe fn fold(
        &mut self,
        (first, count): (usize, usize),
        arithmetic: Arithmetic,
        into: *mut u8,
        bytes: usize,
    ) -> Result<(), Stop> {
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
        if self.spins == 0 || self.program.messages > PREPARED_MAX {
            return;
        }
        for step in &self.program.steps {
            if let Step::Send { route, .. } | Step::Post { route, .. } = step {
                route.of(turn_of(self.number + 1, 0)).prepare();
            }
        }
    }

    /// The place of a message of this call, once it is there.
    #[inline(always)]
    pub(super) fn arrived(&mut self, at: usize, route: &Route) -> Result<SlotLine, Stop> {
        let (place, turn) = (route.of(self.turn), self.turn);
        if !place.has(turn) && !self.comes_soon(place) {
            self.wait(at, self.program.names[at].peer, Some((place.word(), turn)), &|| place.has(turn))?;
        }
        if place.signature() != self.signature {
            return Err((at, self.differing(at)));
        }
        Ok(place)
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

    /// A step with a large message.
    ///
    /// # Safety
    /// As for [`Comm::execute_straight`].
    #[inline(never)]
    unsafe fn large_step(&mut self, own: &mut Own, at: usize, step: &Step) -> Result<(), Stop> {
        let (turn, program, behind) = (self.turn, self.program, self.behind);
        match step {
            Step::Give { route, from, copy, offset, bytes, knows } => {
                let from = program.find(*from, behind);
                let pooled = || self.shared.job.in_pool(self.shared.me, from, *bytes);
                let stays = if program.may_stay { pooled() } else { None };
                if !knows
                    && stays.is_none()
                    && let Some(last) = own.progress.heap_must_have_passed(turn)
                {
                    self.wait_for_all(own, at, last)?;
                }
                if !knows && let Some(last) = own.progress.must_have_passed(turn, program.cycle) {
                    self.wait_for_room(own, at, program.names[at].peer, last)?;
                }
                let lies = match (stays, copy) {
                    (Some(offset), _) => {
                        self.has_shown = true;
                        offset | IN_POOL
                    }
                    (None, Some(heaps)) => {
                        let to = heaps[heap_of(turn)].wrapping_add(self.heap_at);
                        // SAFETY: who called answers for user memory; all ranks have passed what was there.
                        unsafe { std::ptr::copy_nonoverlapping(from, to, *bytes) };
                        *offset + self.heap_at as u64
                    }
                    (None, None) => *offset + self.heap_at as u64,
                };
                // SAFETY: a word of this frame.
                unsafe { route.of(turn).publish(turn, self.signature, (&raw const lies).cast(), 8) };
                self.is_unrung = true;
            }
            Step::Take { route, heaps, to, bytes } => {
                let place = self.arrived(at, route)?;
                let mut offset = 0u64;
                // SAFETY: a word of this frame; who sends large messages sends where they are.
                unsafe { place.read((&raw mut offset).cast(), 8) };
                let (peer, stays) = (program.names[at].peer, offset & IN_POOL != 0);
                let lies = if stays {
                    self.shared.job.of_pool(peer, offset & !IN_POOL, *bytes)
                } else {
                    let fits = (offset as usize).checked_add(*bytes).is_some_and(|end| end <= HEAP_BYTES);
                    assert!(fits, "a message within its sender's heap");
                    heaps[heap_of(turn)].wrapping_add(offset as usize)
                };
                match *to {
                    Taken::Lent(message) => program.lend(message, lies),
                    Taken::Copied(to) => {
                        self.ring();
                        // SAFETY: as above; the sender leaves the message alone until this rank has passed the turn.
                        unsafe { std::ptr::copy_nonoverlapping(lies, program.find(to, behind), *bytes) };
                        if stays {
                            self.look_for_failure(at, peer)?;
                        }
                    }
                }
            }
            Step::Apply { arithmetic, operands, bytes } => {
                self.ring();
                let [b1, b2, b3] = operands.map(|operand: Operand| program.find(operand, behind));
                // SAFETY: as above; the program's order keeps to the graph's edges.
                unsafe { local_plain(*arithmetic, b1, b2, b3, *bytes) };
                for operand in operands {
                    if let Operand::Lent { message, .. } = *operand
                        && self.shared.job.is_in_pools(program.find(*operand, behind))
                    {
                        self.look_for_failure(at, program.lender(message))?;
                    }
                }
            }
            _ => unreachable!("steps without large messages are made elsewhere"),
        }
        Ok(())
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
        let crowd = (patience.spins == 0 && self.program.is_one_round).then(|| self.join_crowd(word));
        for _ in 0..patience.yields {
            if has_come() {
                return Ok(());
            }
            if self.shared.runs_go_on() {
                break;
            }
            if let Some(crowd) = &crowd
                && crowd.looks_on(has_come)
            {
                return Ok(());
            }
            std::thread::yield_now();
        }
        self.wait_driving(at, peer, has_come)
    }

    #[cold]
    fn wait_driving(&self, at: usize, peer: Rank, has_come: &dyn Fn() -> bool) -> Result<(), Stop> {
        let (shared, since) = (self.shared, now_ns());
        loop {
            if let Some(cause) = self.in_vain(peer, since, has_come) {
                return Err((at, cause));
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
            let operation = describe(&self.program.schedule, self.program.names[at].op);
            let is_alone = engine.core.running == 0;
            engine.core.liveness.silence.run_starts(&shared.job, is_alone);
            engine.core.waiting = Some(Waiting { operation, peer });
            // From here on, who writes to a slot looks at the doorbells of those it has written to.
            shared.job.slot_sleepers().fetch_add(1, Ordering::SeqCst);
            shared.drive_until(engine, has_come, &|| self.in_vain(peer, since, has_come).is_some());
            shared.job.slot_sleepers().fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Why what is waited for can never come, if that is so.
    fn in_vain(&self, peer: Rank, since_ns: u64, has_come: &dyn Fn() -> bool) -> Option<Cause> {
        let job = &self.shared.job;
        let (state, standing) = (job.control(peer).state(), job.standing(self.context, peer));
        let has_passed = standing.passed() >= self.turn;
        // What the peer did before it went, or passed the call, is seen from here on.
        if has_come() {
            return None;
        }
        let has_gone = matches!(state, RankState::Dead(_) | RankState::Finished);
        let is_late = now_ns() - since_ns >= PATIENCE_NS;
        if (has_gone || has_passed || is_late)
            && let Some(cause) = other_call(job, self.shared.me, &self.program.members, self.word())
        {
            return Some(cause);
        }
        if has_passed {
            // It gave the call up, whatever became of it afterwards.
            let culprit = standing.culprit(self.number).map_or(peer, Rank);
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
        // A look at its standing, which it has written to since, is dear: one tells of several calls.
        if own.seen[receiver.index()] >= last {
            return Ok(());
        }
        self.look_for_room(own, at, receiver, last)
    }

    #[inline(never)]
    fn look_for_room(&mut self, own: &mut Own, at: usize, receiver: Rank, last: u64) -> Result<(), Stop> {
        let standing = self.shared.job.standing(self.context, receiver);
        let has_room = || standing.passed() >= last;
        if !has_room() {
            self.wait(at, receiver, Some((standing.word(), last)), &has_room)?;
        }
        own.seen[receiver.index()] = standing.passed();
        Ok(())
    }

    /// Of large messages it is not kept who looks at them.
    fn wait_for_all(&mut self, own: &mut Own, at: usize, last: u64) -> Result<(), Stop> {
        let me = self.shared.me;
        let mut others = self.program.members.iter().filter(|member| **member != me);
        others.try_for_each(|member| self.wait_for_room(own, at, *member, last))
    }

    /// Somebody died or left: an error if this call sends to one of them. Those that it hears from may have sent before.
    #[cold]
    fn look_for_departed(&self, own: &mut Own) -> Result<(), Stop> {
        let job = &self.shared.job;
        let epoch = job.epoch();
        let has_gone =
            |rank: &Rank| matches!(job.control(*rank).state(), RankState::Dead(_) | RankState::Finished);
        if !self.program.members.iter().any(has_gone) {
            own.epoch = epoch;
            return Ok(());
        }
        match self.program.sends.iter().find(|(_, to)| has_gone(to)) {
            Some((at, to)) => {
                Err((*at, self.in_vain(*to, now_ns(), &|| false).expect("somebody who has gone")))
            }
            None => Ok(()),
        }
    }

    /// The sender of the message that came has called something else.
    #[cold]
    fn differing(&self, at: usize) -> Cause {
        let peer = self.program.names[at].peer;
        let found = other_call(&self.shared.job, self.shared.me, &self.program.members, self.word());
        found.unwrap_or(Cause::PeerFailed { peer, culprit: peer })
    }

    fn word(&self) -> u32 {
        call_word(self.context, (self.number - 1) as u32)
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

    #[cold]
    fn ring_all(&self) {
        for member in self.program.members.iter().filter(|member| **member != self.shared.me) {
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
        for dest in &self.program.rung {
            self.shared.job.control(*dest).doorbell.ring_waiter();
        }
    }

    /// Gives the call up: tells the others, and forgets what came for it through the queue.
    #[cold]
    fn fail(&self, own: MutexGuard<'_, Own>, (at, cause): Stop) -> Failure {
        let (shared, me) = (self.shared, self.shared.me);
        shared.job.standing(self.context, me).fail(self.number, cause.culprit(me).0);
        // Before the program writes to its buffers, which others may be reading; they look behind it, see `look_for_failure`.
        fence(Ordering::SeqCst);
        drop(own);
        self.ring_all();
        let mut engine = shared.enter();
        engine.core.forget_call(&self.program.members, self.word());
        shared.leave(engine);
        let differ = matches!(cause, Cause::CallsDiffer { .. });
        let operation = (!differ).then(|| describe(&self.program.schedule, self.program.names[at].op));
        Failure { rank: me, operation, cause }
    }

    /// Adds what was recorded to what the engine has.
    fn hand_in(&mut self) {
        let mut engine = self.shared.enter();
        let run = engine.core.take_serial();
        if let Some(recorder) = &mut engine.core.recorder {
            recorder.done.extend(self.recorded.drain(..).map(|one| Recorded { run, ..one }));
        }
        self.shared.leave(engine);
    }
}

impl Core {
    /// A call of this word was given up that was no run: what came for it is of no use.
    fn forget_call(&mut self, members: &[Rank], word: u32) {
        let number = word - 1;
        for member in members {
            let Some(peer) = self.peers[member.index()].as_deref_mut() else { continue };
            peer.aborted.retain(|(aborted, _)| *aborted != number);
            if let Some(early) = peer.early.remove(&number) {
                self.drop_early(*member, early);
            }
        }
    }
}
