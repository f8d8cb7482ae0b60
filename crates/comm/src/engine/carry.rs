//! Carrying runs on in shared memory, this rank's and others'. See `carry/README.md` for what lies where.

use super::core::Core;
use super::failure::Cause;
use super::memory::Space;
use super::message::Kind;
use super::peer::Gone;
use super::run::{Run, RunRef};
use crate::carry::block::{ARRIVED, Block, Holder, Mismatch, OPERATION, Plan, READY, is_portable};
use crate::carry::heap::Heap;
use crate::job::{Job, RankState};
use crate::queue::Header;
use castell_base::{Rank, Tag};
use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::{OpId, Peers, Schedule};
use castell_goal::stepper::Stepper;
use castell_host::clock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Schedules of other ranks that are kept at a time.
const SCHEDULES_MAX: usize = 1024;
/// How often, a millisecond apart, something has to look lost before it is.
const LOOKS: u32 = 20;

/// A run in a block, of whichever rank.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) owner: Rank,
    pub(super) block: Block,
}

/// The owner's side of a run that lies in a block.
pub(super) struct Shared {
    pub(super) block: Block,
    /// How many operations of the owner ring were taken.
    taken: u32,
}

/// What a process keeps to carry runs on.
#[derive(Default)]
pub(super) struct Carrier {
    heap: Heap,
    next_uid: u32,
    /// Whether the job's ranks carry runs on, once that is certain.
    is_in_use: Option<bool>,
    /// This rank's runs that lie in blocks.
    live: Vec<RunRef>,
    /// Runs that may have something to carry on.
    work: Vec<Target>,
    /// Sends of this rank's runs whose receiver has not started its run go through the queue: nobody looks any more.
    flushes: bool,
    /// Other ranks' schedules, by owner and number.
    schedules: HashMap<(Rank, u32), Arc<Schedule>>,
}

/// How a message of a carried run went.
enum Handed {
    Over,
    /// The receiver has no such run in a block.
    Nobody,
}

/// The run of `owner` that has this number with `peer`, if it lies in a block: the block and the run's serial.
fn find(job: &Job, owner: Rank, peer: Rank, number: u32) -> Option<(Block, u64)> {
    let offsets = job.blocks(owner).iter().map(|offset| offset.load(Ordering::Acquire));
    offsets.take_while(|offset| *offset != 0).find_map(|offset| {
        // SAFETY: the table holds offsets of blocks in the area, which the engine keeps mapped.
        let block = unsafe { Block::at(job.runs(owner).add(offset as usize)) };
        block.find(peer, number).map(|serial| (block, serial))
    })
}

impl Core {
    /// A block for runs of the schedule, if it may have one and there is room.
    pub(super) fn share(&mut self, schedule: &Schedule) -> Option<Shared> {
        if !self.job.peers_carry() || self.size == 1 {
            return None;
        }
        let plan = Plan::of(schedule, self.carrier.next_uid, self.job.eager_bytes() as u64)?;
        let (offset, is_new) = self.carrier.heap.allocate(plan.bytes())?;
        self.carrier.next_uid += 1;
        // SAFETY: the heap gives places in this rank's area.
        let block = unsafe { Block::at(self.job.runs(self.me).add(offset as usize)) };
        block.form(plan, self.me, is_new);
        if is_new {
            let table = self.job.blocks(self.me).iter();
            let place = table.clone().find(|place| place.load(Ordering::Relaxed) == 0);
            place.expect("a place for each block").store(offset, Ordering::Release);
        }
        Some(Shared { block, taken: 0 })
    }

    /// Gives the block of a run back that will not be run again.
    pub(super) fn unshare(&mut self, run: &Run) {
        if let Some(shared) = &run.shared {
            let offset = shared.block.offset_from(self.job.runs(self.me));
            self.carrier.heap.free(offset, shared.block.bytes());
        }
    }

    /// The block of a run, if it lies in one.
    #[inline]
    pub(super) fn block_of(&self, run: RunRef) -> Option<Block> {
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        found.shared.as_ref().map(|shared| shared.block)
    }

    /// Whether some rank's run may lie in a block, now or later.
    #[inline]
    fn may_be_carried(&mut self) -> bool {
        match self.carrier.is_in_use {
            Some(is_in_use) => is_in_use,
            None => {
                let is_settled = self.job.progress_is_settled();
                let is_in_use = !is_settled || self.job.peers_carry();
                self.carrier.is_in_use = is_settled.then_some(is_in_use);
                is_in_use
            }
        }
    }

    /// A numbered run has been put into the table: lets others look for it, and takes what they hold back for it.
    pub(super) fn announce_run(&mut self, run: RunRef) {
        let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
        let own = found.shared.as_mut().map(|shared| {
            shared.taken = 0;
            shared.block
        });
        match own {
            Some(block) => {
                block.publish();
                self.carrier.live.push(run);
            }
            None if !self.may_be_carried() => return,
            None => {
                let found = self.runs[run.slot as usize].as_deref_mut().expect("a live run");
                found.is_unlisted = true;
                self.job.unlisted(self.me).fetch_add(1, Ordering::Relaxed);
            }
        }
        fence(Ordering::SeqCst);
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        let numbers = found.numbers.clone();
        for (source, number) in numbers {
            let Some((block, _)) = find(&self.job, source, self.me, number) else { continue };
            if !block.holds_back() {
                continue;
            }
            if own.is_some() {
                block.combiner().ask_for_retry();
                self.carrier.work.push(Target { owner: source, block });
            } else {
                block.ask_for_flush();
                self.job.control(source).doorbell.ring();
            }
        }
    }

    /// A run in a block starts after deaths or departures; what came early for it has been taken in.
    pub(super) fn check_departed_at_start(&mut self, run: RunRef) {
        let is_shared = self.run(run).is_some_and(|found| found.shared.is_some());
        if is_shared && self.liveness.epoch_seen() > 0 {
            self.check_departed(run);
        }
    }

    /// Carries on what there is to carry on, here and in other ranks.
    pub(super) fn carry(&mut self) {
        while let Some(target) = self.carrier.work.pop() {
            self.drive(target);
        }
    }

    fn drive(&mut self, target: Target) {
        let block = target.block;
        while block.combiner().try_lock(self.me.0) {
            let (serial, schedule) = (block.serial(), self.schedule_of(target));
            // SAFETY: the lock is in hand until `unlock` below.
            let (mut stepper, holder) = unsafe { block.hold() };
            let was_finished = stepper.is_finished();
            let mut owner_is_needed = false;
            while self.step(target, &schedule, &mut stepper, holder, &mut owner_is_needed) {}
            let ended = stepper.is_finished() && !was_finished;
            let head = holder.head;
            Block::put_back(stepper, holder);
            if ended {
                block.end(serial, clock::now_ns());
            }
            let has_news = block.combiner().unlock(block.tickets(), head);
            self.progressed = true;
            if target.owner != self.me {
                let bell = &self.job.control(target.owner).doorbell;
                if owner_is_needed {
                    bell.ring();
                } else if ended {
                    bell.ring_waiter();
                }
            }
            if !has_news {
                return;
            }
        }
    }

    /// Takes what has happened, then starts what is ready. Says whether there was anything.
    fn step(
        &mut self,
        target: Target,
        schedule: &Schedule,
        stepper: &mut Stepper<&mut [u32]>,
        holder: &mut Holder,
        owner_is_needed: &mut bool,
    ) -> bool {
        let block = target.block;
        let mut moved = false;
        while let Some(ticket) = block.combiner().next(block.tickets(), &mut holder.head) {
            moved = true;
            if ticket & OPERATION != 0 {
                stepper.finish(schedule, OpId(ticket & !OPERATION));
                continue;
            }
            let slot = &block.slots()[ticket as usize - 1];
            if slot.note(ARRIVED) {
                *owner_is_needed |= !self.take_arrived(target, schedule, OpId(slot.op), stepper);
            }
        }
        // What was held back comes first, in its order: receivers may tell messages apart by nothing else.
        let again = if block.combiner().take_retry() { block.take_held_back() } else { Vec::new() };
        let mut again = again.into_iter();
        while let Some(op) = again.next().or_else(|| stepper.take(schedule)) {
            moved = true;
            *owner_is_needed |= !self.carry_out(target, schedule, op, stepper, holder);
        }
        moved
    }

    /// Whether the rank may have started the run that a message is for in its own memory.
    fn is_private(&self, rank: Rank) -> bool {
        self.job.unlisted(rank).load(Ordering::Acquire) > 0
    }

    /// Starts an operation. False: the owner has to carry it out.
    fn carry_out(
        &mut self,
        target: Target,
        schedule: &Schedule,
        op: OpId,
        stepper: &mut Stepper<&mut [u32]>,
        holder: &mut Holder,
    ) -> bool {
        let operation = schedule.op(op);
        if let Op::Recv { source, tag, .. } = operation {
            let slot = target.block.slot_of(op, source, tag);
            return !slot.note(READY) || self.take_arrived(target, schedule, op, stepper);
        }
        if let Op::Send { dest, .. } = operation
            && is_held_back_for(target.block, schedule, dest)
        {
            target.block.hold_back(op); // no message overtakes another one
            return true;
        }
        if !is_portable(&operation) {
            target.block.give_to_owner(op);
            return false;
        }
        let space = self.space_of(target.block, schedule);
        match operation {
            Op::Send { buffer, bytes, dest, tag } => {
                let is_own = target.owner == self.me;
                if is_own && self.peers[dest.index()].as_ref().is_some_and(|peer| peer.gone.is_some()) {
                    // For the error that it will be.
                    target.block.give_to_owner(op);
                    return false;
                }
                let mut handed = self.hand_over(target, space, buffer, bytes, dest, tag);
                if matches!(handed, Handed::Nobody) {
                    if self.is_private(dest) || (is_own && self.carrier.flushes) {
                        target.block.give_to_owner(op);
                        return false;
                    }
                    target.block.hold_back(op);
                    handed = self.hand_over(target, space, buffer, bytes, dest, tag);
                    if matches!(handed, Handed::Nobody) {
                        let is_private = self.is_private(dest);
                        if is_private {
                            target.block.release_last_held_back();
                            target.block.give_to_owner(op);
                        }
                        return !is_private;
                    }
                    target.block.release_last_held_back();
                }
                holder.messages += 1;
                holder.bytes += bytes;
            }
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = count * arithmetic.element().bytes();
                // SAFETY: portable operations have all buffers in the scratchpad, whose bounds were checked at compile
                // time; dependences order the operations that share buffers, and the lock those that carry them out.
                unsafe { space.local(arithmetic, b1, b2, b3, bytes) };
            }
            Op::Wtime { b3 } => {
                let now = clock::now_seconds().to_ne_bytes();
                // SAFETY: as above.
                unsafe { space.scatter(Buffer::Plain(b3), &now) };
            }
            Op::Proxy => {}
            _ => unreachable!("portable operations are among the above"),
        }
        stepper.finish(schedule, op);
        true
    }

    /// A receive was started and its message is there. False: the owner has to take it.
    fn take_arrived(
        &mut self,
        target: Target,
        schedule: &Schedule,
        op: OpId,
        stepper: &mut Stepper<&mut [u32]>,
    ) -> bool {
        let operation = schedule.op(op);
        let Op::Recv { buffer, source, tag, .. } = operation else { unreachable!("slots are receives") };
        if !is_portable(&operation) {
            target.block.give_to_owner(op);
            return false;
        }
        if let Some(message) = target.block.landed(target.block.slot_of(op, source, tag)) {
            // SAFETY: as for local operations; the message lies apart from the scratchpad.
            unsafe { self.space_of(target.block, schedule).scatter(buffer, message) };
        }
        stepper.finish(schedule, op);
        true
    }

    /// Puts a send's message straight into its receiver's run.
    fn hand_over(
        &mut self,
        from: Target,
        space: Space,
        buffer: Buffer<'_>,
        bytes: u64,
        dest: Rank,
        tag: Tag,
    ) -> Handed {
        let number = from.block.number_with(dest);
        let Some((block, serial)) = find(&self.job, dest, from.owner, number) else { return Handed::Nobody };
        let mut gathered = std::mem::take(&mut self.gathered);
        // SAFETY: as in `transmit`: nothing writes to a buffer that is being sent.
        let payload = unsafe { space.gather(buffer, bytes, &mut gathered) };
        self.deliver_into(Target { owner: dest, block }, serial, from.owner, tag, payload);
        self.gathered = gathered;
        Handed::Over
    }

    /// A message for a run in a block.
    fn deliver_into(&mut self, to: Target, serial: u64, source: Rank, tag: Tag, payload: &[u8]) {
        let Some((ticket, slot)) = to.block.slot(source, tag) else {
            self.counters.orphans += 1;
            return;
        };
        if slot.bytes() != payload.len() as u64 {
            let mismatch = Mismatch { source, sent: payload.len() as u64, op: OpId(slot.op) };
            to.block.note_mismatch(mismatch);
            self.job.control(to.owner).doorbell.ring();
            return;
        }
        if !slot.claim(serial) {
            self.counters.orphans += 1;
            return;
        }
        to.block.land(slot, payload);
        to.block.push(ticket);
        self.carrier.work.push(to);
    }

    /// A message from the queue for a run of ours in a block.
    pub(super) fn deliver_from_queue(&mut self, run: RunRef, source: Rank, header: &Header, payload: &[u8]) {
        let (block, tag) = (self.block_of(run).expect("a run in a block"), Tag(header.tag));
        if header.kind == Kind::Announce as u8 {
            self.refuse_transfer(source, header.extra as u32, (header.extra >> 32) as u32);
            let sent = u64::from_ne_bytes(payload.try_into().expect("an announcement carries the size"));
            match block.slot(source, tag) {
                Some((_, slot)) => block.note_mismatch(Mismatch { source, sent, op: OpId(slot.op) }),
                None => self.counters.orphans += 1,
            }
        } else {
            self.deliver_into(Target { owner: self.me, block }, run.serial, source, tag, payload);
        }
        self.list(run);
    }

    fn space_of(&mut self, block: Block, schedule: &Schedule) -> Space {
        self.arena.reserve(schedule.max_message_bytes());
        Space { scratchpad: block.scratchpad(), arena: self.arena.start() }
    }

    /// The schedule of a block whose lock is in hand.
    fn schedule_of(&mut self, target: Target) -> Arc<Schedule> {
        let key = (target.owner, target.block.uid());
        if let Some(schedule) = self.carrier.schedules.get(&key) {
            return Arc::clone(schedule);
        }
        let (_, image) = target.block.image();
        let schedule = Schedule::from_bytes_trusting_addresses(image).expect("what its owner compiled");
        let schedule = Arc::new(schedule);
        if self.carrier.schedules.len() >= SCHEDULES_MAX {
            self.carrier.schedules.clear();
        }
        self.carrier.schedules.insert(key, Arc::clone(&schedule));
        schedule
    }

    /// Carries a run of ours on: all that any process may do, then what only this one may.
    pub(super) fn advance_shared(&mut self, run: RunRef) {
        let block = self.block_of(run).expect("a run in a block");
        if block.take_flush() {
            block.combiner().ask_for_retry();
        }
        self.carrier.work.push(Target { owner: self.me, block });
        self.carry();
        if let Some(Mismatch { source, sent, op }) = block.mismatch() {
            let Op::Recv { bytes: expected, .. } = self.schedule(run).op(op) else {
                unreachable!("slots are receives")
            };
            return self.fail(run, Some(op), Cause::SizeMismatch { peer: source, sent, expected });
        }
        while let Some(op) = self.next_for_owner(run) {
            self.progressed = true;
            match self.carry_out_own(run, block, op) {
                Ok(true) => self.finish_shared(block, op),
                Ok(false) => {}
                Err(cause) => return self.fail(run, Some(op), cause),
            }
            self.carry();
            if self.run(run).is_none() {
                return;
            }
        }
        self.settle(run, block);
    }

    fn next_for_owner(&mut self, run: RunRef) -> Option<OpId> {
        let shared = self.run(run)?.shared.as_mut()?;
        shared.block.take_for_owner(&mut shared.taken)
    }

    fn carry_out_own(&mut self, run: RunRef, block: Block, op: OpId) -> Result<bool, Cause> {
        let schedule = self.schedule(run);
        let (buffer, source, tag) = match schedule.op(op) {
            Op::Recv { buffer, source, tag, .. } => (buffer, source, tag),
            Op::Send { buffer, bytes, dest, tag } => {
                self.check_peer(dest)?;
                let (space, me) = (self.space(run), self.me);
                let from = Target { owner: me, block };
                if let Handed::Nobody = self.hand_over(from, space, buffer, bytes, dest, tag) {
                    return self.execute(run, schedule, op);
                }
                self.counters.messages += 1;
                self.counters.bytes += bytes;
                return Ok(true);
            }
            _ => return self.execute(run, schedule, op),
        };
        if let Some(message) = block.landed(block.slot_of(op, source, tag)) {
            // SAFETY: who ran the schedule answers for user memory; the message lies apart from it.
            unsafe { self.space(run).scatter(buffer, message) };
        }
        Ok(true)
    }

    /// The owner has finished an operation of a run in a block. [`Core::carry`] is next.
    pub(super) fn finish_shared(&mut self, block: Block, op: OpId) {
        block.push(op.0 | OPERATION);
        self.carrier.work.push(Target { owner: self.me, block });
    }

    /// Takes the run out of its block if it has ended.
    fn settle(&mut self, run: RunRef, block: Block) {
        let Some(found) = self.run(run) else { return };
        if !found.state.has_ended_in(block.done()) || !block.retire(self.me) {
            return;
        }
        let found = self.runs[run.slot as usize].as_deref().expect("a live run");
        let state = Arc::clone(&found.state);
        let (messages, bytes) = block.sent();
        self.counters.messages += messages;
        self.counters.bytes += bytes;
        self.carrier.live.retain(|live| *live != run);
        let end_ns = block.end_ns();
        self.retire(run);
        state.complete(Ok(()), end_ns);
    }

    /// Lists this rank's runs in blocks that somebody has given something to do; says whether there are any.
    #[inline]
    pub(super) fn tend_shared(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.carrier.live.len() {
            let run = self.carrier.live[at];
            if self.has_news(run) {
                any = true;
                self.list(run);
            }
        }
        any
    }

    fn has_news(&self, run: RunRef) -> bool {
        let shared = self.runs[run.slot as usize].as_deref().and_then(|run| run.shared.as_ref());
        shared.is_some_and(|shared| shared.block.has_news(run.serial, shared.taken))
    }

    /// Whether some run in a block has something for its owner: the look before sleeping.
    pub(super) fn has_shared_news(&self) -> bool {
        self.carrier.live.iter().any(|run| self.has_news(*run))
    }

    /// Sends what this rank's runs hold back through the queues. Before whoever drives falls asleep: a receiver that
    /// starts its run late may need something from elsewhere first that only the end of this rank's run leads to.
    pub(super) fn flush_held_back(&mut self) {
        for at in 0..self.carrier.live.len() {
            let run = self.carrier.live[at];
            if let Some(block) = self.block_of(run).filter(Block::holds_back) {
                block.ask_for_flush();
                self.list(run);
                self.carrier.flushes = true;
            }
        }
        if self.carrier.flushes {
            self.start_ready();
            self.ring();
            self.carrier.flushes = false;
        }
    }

    /// Whether this rank has runs in blocks.
    #[inline]
    pub(super) fn has_shared(&self) -> bool {
        !self.carrier.live.is_empty()
    }

    /// A run in a block has failed: nobody finds it any more.
    pub(super) fn abandon_shared(&mut self, run: RunRef) {
        if let Some(block) = self.block_of(run) {
            block.abandon();
            self.carrier.live.retain(|live| *live != run);
        }
    }

    /// Somebody died or left: fails the runs in blocks that wait for it, or that it held.
    pub(super) fn check_all_departed(&mut self) {
        for run in self.carrier.live.clone() {
            if self.run(run).is_some() {
                self.check_departed(run);
            }
        }
    }

    fn check_departed(&mut self, run: RunRef) {
        let block = self.block_of(run).expect("a run in a block");
        if self.run(run).is_some_and(|found| found.state.has_ended_in(block.done())) {
            return;
        }
        let schedule = self.schedule(run);
        let is_gone = |core: &mut Core, rank: Rank| core.check_peer(rank).err();
        let mut hit: Option<(OpId, Cause)> = None;
        let empty = block.slots().iter().filter(|slot| slot.is_empty(run.serial));
        for (op, peer) in empty.map(|slot| (OpId(slot.op), slot.source())) {
            if let Some(cause) =
                is_gone(self, peer).filter(|_| hit.as_ref().is_none_or(|(first, _)| op < *first))
            {
                hit = Some((op, cause));
            }
        }
        let held_back: Vec<OpId> = block.held_back().collect();
        for op in held_back {
            if let Op::Send { dest, .. } = schedule.op(op)
                && let Some(cause) = is_gone(self, dest)
                && stays_held_back(&block, op)
            {
                hit = hit.or(Some((op, cause)));
            }
        }
        if let Some((op, cause)) = hit {
            return self.fail(run, Some(op), cause);
        }
        // Whoever died may have had the run in hand.
        let dead = |rank: &Rank| matches!(self.job.control(*rank).state(), RankState::Dead(_));
        let holder = block.combiner().holder().map(Rank).filter(dead);
        // Nobody else writes tickets of this run.
        let Peers { sources, destinations, .. } = schedule.peers();
        let writer = || sources.iter().chain(destinations).copied().find(dead);
        let culprit = holder.or_else(|| writer().filter(|_| gap_stays(&block)));
        if let Some(peer) = culprit
            && let RankState::Dead(death) = self.job.control(peer).state()
        {
            self.peer(peer).gone.get_or_insert(Gone::Died(death));
            self.fail(run, None, Cause::PeerDied { peer, death });
        }
    }

    /// The receives of runs in blocks that have been started and have no message.
    pub(super) fn shared_waits(&self) -> Vec<(RunRef, OpId, Rank)> {
        let mut waits = Vec::new();
        for &run in &self.carrier.live {
            let Some(block) = self.block_of(run) else { continue };
            let slots = block.slots().iter();
            let waiting = slots.filter(|slot| slot.is_ready() && slot.is_empty(run.serial));
            waits.extend(waiting.map(|slot| (run, OpId(slot.op), slot.source())));
        }
        waits
    }
}

/// Whether a send to that rank is held back.
fn is_held_back_for(block: Block, schedule: &Schedule, rank: Rank) -> bool {
    block.holds_back()
        && block.held_back().any(|held| matches!(schedule.op(held), Op::Send { dest, .. } if dest == rank))
}

/// Whether a place stays without its ticket: one whose writer lives is without it for a few instructions, or until the writer
/// has a processor again.
fn gap_stays(block: &Block) -> bool {
    looks().all(|()| block.combiner().has_gap(block.tickets()))
}

/// Whether a send is held back for good: who carries a run out holds sends back and finds their receivers in two steps, and the
/// receiver may be done and gone between them.
fn stays_held_back(block: &Block, op: OpId) -> bool {
    let is_held = || block.held_back().any(|held| held == op);
    looks().take_while(|()| block.combiner().holder().is_some()).all(|()| is_held()) && is_held()
}

/// Moments to look again at what a live process is about to change.
fn looks() -> impl Iterator<Item = ()> {
    (0..LOOKS).map(|look| {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}
