//! Peer progress: carrying runs on in shared memory, this rank's and others'. See `peer_progress/README.md` for what lies where.
//!
//! The rest of the engine sees [`PeerProgress`]: it gives blocks for runs, is told of what came for them and of what their owner has done,
//! and says which of this rank's runs have something for their owner.

mod block;

use super::memory::{Arena, Space};
use super::reference::RunRef;
use crate::failure::Cause;
use crate::messages::{Kind, Memory, word_at};
pub(super) use block::Block;
use block::{ARRIVED, Holder, Mismatch, OPERATION, Plan, READY, is_portable};
use castell_base::{Rank, Tag};
use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::{OpId, Peers, Schedule};
use castell_goal::stepper::Stepper;
use castell_host::clock;
use castell_shm::job::{Job, RankState};
use castell_shm::peer_progress::heap::Heap;
use castell_transport::Header;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Schedules of other ranks that are kept at a time.
const SCHEDULES_MAX: usize = 1024;
/// How often, a millisecond apart, something has to look lost before it is.
const LOOKS: u32 = 20;

/// Who says whether a rank is gone.
type IsGone<'a> = &'a dyn Fn(Rank) -> bool;

/// A run in a block, of whichever rank.
#[derive(Clone, Copy)]
struct Target {
    owner: Rank,
    block: Block,
}

/// A run of this rank that lies in a block.
struct Live {
    run: RunRef,
    block: Block,
    /// How many operations of the owner ring were taken.
    taken: u32,
}

impl Live {
    fn has_news(&self) -> bool {
        self.block.has_news(self.run.serial, self.taken)
    }
}

/// What a process keeps to carry runs on.
pub(crate) struct PeerProgress {
    me: Rank,
    job: Arc<Job>,
    heap: Heap,
    next_uid: u64,
    /// Whether the job's ranks carry runs on, once that is certain.
    is_in_use: Option<bool>,
    live: Vec<Live>,
    /// Runs that may have something to carry on.
    work: Vec<Target>,
    /// Sends of this rank's runs whose receiver has not started its run go through the queue: nobody looks any more.
    flushes: bool,
    /// Other ranks' schedules, by owner and number.
    schedules: HashMap<(Rank, u64), Arc<Schedule>>,
    arena: Arena,
    gathered: Vec<u8>,
    pub(crate) sent: Sent,
    progressed: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    /// Messages of this rank's runs.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Messages that no receive took, to whomever they went.
    pub(crate) orphans: u64,
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

/// A message of another size than its receive that came for a run of ours.
pub(super) fn mismatch(run: RunRef, block: Block, schedule: &Schedule) -> Option<(OpId, Cause)> {
    let Mismatch { source: peer, sent, op } = block.mismatch(run.serial)?;
    let (_, expected) = super::memory::receive_of(schedule, op);
    Some((op, Cause::SizeMismatch { peer, sent, expected }))
}

impl PeerProgress {
    pub(super) fn new(job: Arc<Job>, me: Rank) -> PeerProgress {
        PeerProgress {
            me,
            job,
            heap: Heap::default(),
            next_uid: 0,
            is_in_use: None,
            live: Vec::new(),
            work: Vec::new(),
            flushes: false,
            schedules: HashMap::new(),
            arena: Arena::default(),
            gathered: Vec::new(),
            sent: Sent::default(),
            progressed: false,
        }
    }

    /// As after so many schedules. Before the first one.
    pub(crate) fn grow_old(&mut self, schedules: u64) {
        self.next_uid = schedules;
    }

    /// Whether something has moved since this was asked last.
    #[inline]
    pub(super) fn take_progressed(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// A block for runs of the schedule, if it may have one and there is room.
    pub(super) fn share(&mut self, schedule: &Schedule) -> Option<Block> {
        if !self.job.peers_carry() || self.job.ranks() == 1 {
            return None;
        }
        let plan = Plan::of(schedule, self.next_uid, self.job.eager_bytes() as u64)?;
        let (offset, is_new) = self.heap.allocate(plan.bytes())?;
        self.next_uid += 1;
        // SAFETY: the heap gives places in this rank's area.
        let block = unsafe { Block::at(self.job.runs(self.me).add(offset as usize)) };
        block.form(plan, self.me, is_new);
        if is_new {
            let table = self.job.blocks(self.me).iter();
            let place = table.clone().find(|place| place.load(Ordering::Relaxed) == 0);
            place.expect("a place for each block").store(offset, Ordering::Release);
        }
        Some(block)
    }

    /// Gives a block back whose schedule will not be run again.
    pub(super) fn unshare(&mut self, block: Block) {
        self.heap.free(block.offset_from(self.job.runs(self.me)), block.bytes());
    }

    /// Whether some rank's run may lie in a block, now or later.
    #[inline]
    fn may_be_in_use(&mut self) -> bool {
        match self.is_in_use {
            Some(is_in_use) => is_in_use,
            None => {
                let is_settled = self.job.progress_is_settled();
                let is_in_use = !is_settled || self.job.peers_carry();
                self.is_in_use = is_settled.then_some(is_in_use);
                is_in_use
            }
        }
    }

    /// A numbered run has been put into the table: lets others look for it, and takes what they hold back for it. Whether it was counted
    /// among those that they look for in vain.
    #[inline]
    pub(super) fn announce(&mut self, run: RunRef, block: Option<Block>, numbers: &[(Rank, u32)]) -> bool {
        if block.is_none() && !self.may_be_in_use() {
            return false;
        }
        self.announce_to_carriers(run, block, numbers);
        block.is_none()
    }

    #[inline(never)]
    fn announce_to_carriers(&mut self, run: RunRef, own: Option<Block>, numbers: &[(Rank, u32)]) {
        match own {
            Some(block) => {
                block.publish();
                self.live.push(Live { run, block, taken: 0 });
            }
            None => {
                self.job.unlisted(self.me).fetch_add(1, Ordering::Relaxed);
            }
        }
        fence(Ordering::SeqCst);
        for &(source, number) in numbers {
            let Some((block, _)) = find(&self.job, source, self.me, number) else { continue };
            if !block.holds_back() {
                continue;
            }
            if own.is_some() {
                block.combiner().ask_for_retry();
                self.work.push(Target { owner: source, block });
            } else {
                block.ask_for_flush();
                self.job.control(source).doorbell.ring();
            }
        }
    }

    /// Before a run of ours is carried on.
    pub(super) fn begin_turn(&mut self, block: Block) {
        if block.take_flush() {
            block.combiner().ask_for_retry();
        }
        self.work.push(Target { owner: self.me, block });
    }

    /// Carries on what there is to carry on, here and in other ranks.
    pub(super) fn carry(&mut self, is_gone: IsGone<'_>) {
        while let Some(target) = self.work.pop() {
            self.drive(target, is_gone);
        }
    }

    fn drive(&mut self, target: Target, is_gone: IsGone<'_>) {
        let block = target.block;
        while block.combiner().try_lock(self.me.0) {
            let (serial, schedule) = (block.serial(), self.schedule_of(target));
            // SAFETY: the lock is in hand until `unlock` below.
            let (mut stepper, holder) = unsafe { block.hold() };
            let was_finished = stepper.is_finished();
            let mut owner_is_needed = false;
            while self.step(target, &schedule, &mut stepper, holder, &mut owner_is_needed, is_gone) {}
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
        is_gone: IsGone<'_>,
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
                *owner_is_needed |= !self.take_arrived(target, schedule, slot.op(), stepper);
            }
        }
        // What was held back comes first, in its order: receivers may tell messages apart by nothing else.
        let again = if block.combiner().take_retry() { block.take_held_back() } else { Vec::new() };
        let mut again = again.into_iter();
        while let Some(op) = again.next().or_else(|| stepper.take(schedule)) {
            moved = true;
            *owner_is_needed |= !self.carry_out(target, schedule, op, stepper, holder, is_gone);
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
        is_gone: IsGone<'_>,
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
                if is_own && is_gone(dest) {
                    // For the error that it will be.
                    target.block.give_to_owner(op);
                    return false;
                }
                let memory = space.message(buffer, bytes);
                if !self.hand_over(target, memory, dest, tag) {
                    if self.is_private(dest) || (is_own && self.flushes) {
                        target.block.give_to_owner(op);
                        return false;
                    }
                    target.block.hold_back(op);
                    if !self.hand_over(target, memory, dest, tag) {
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

    /// Puts a send's message straight into its receiver's run; false: the receiver has no such run in a block.
    fn hand_over(&mut self, from: Target, memory: Memory, dest: Rank, tag: Tag) -> bool {
        let number = from.block.number_with(dest);
        let Some((block, serial)) = find(&self.job, dest, from.owner, number) else { return false };
        let mut gathered = std::mem::take(&mut self.gathered);
        // SAFETY: nothing writes to a buffer that is being sent.
        let payload = unsafe { memory.gather(&mut gathered) };
        self.deliver_into(Target { owner: dest, block }, serial, from.owner, tag, payload);
        self.gathered = gathered;
        true
    }

    /// The same of a send that only the owner may carry out.
    pub(super) fn send(&mut self, block: Block, memory: Memory, dest: Rank, tag: Tag) -> bool {
        let is_over = self.hand_over(Target { owner: self.me, block }, memory, dest, tag);
        if is_over {
            self.sent.messages += 1;
            self.sent.bytes += memory.bytes();
        }
        is_over
    }

    /// A message for a run in a block.
    fn deliver_into(&mut self, to: Target, serial: u64, source: Rank, tag: Tag, payload: &[u8]) {
        let Some((ticket, slot)) = to.block.slot(source, tag) else {
            self.sent.orphans += 1;
            return;
        };
        if slot.bytes() != payload.len() as u64 {
            let mismatch = Mismatch { source, sent: payload.len() as u64, op: slot.op() };
            if to.block.still_holds(serial) {
                to.block.note_mismatch(serial, mismatch);
                self.job.control(to.owner).doorbell.ring();
            }
            return;
        }
        if !slot.claim(serial) {
            self.sent.orphans += 1;
            return;
        }
        to.block.land(slot, payload);
        to.block.push(ticket);
        self.work.push(to);
    }

    /// A message from the queue for a run of ours in a block.
    pub(super) fn deliver(
        &mut self,
        block: Block,
        serial: u64,
        source: Rank,
        header: &Header,
        payload: &[u8],
    ) {
        let tag = Tag(header.tag);
        if header.kind == Kind::Eager as u8 {
            return self.deliver_into(Target { owner: self.me, block }, serial, source, tag, payload);
        }
        // Too large: another size than that of any receive.
        match block.slot(source, tag) {
            Some((_, slot)) => {
                block.note_mismatch(serial, Mismatch { source, sent: word_at(payload, 0), op: slot.op() });
            }
            None => self.sent.orphans += 1,
        }
    }

    fn space_of(&mut self, block: Block, schedule: &Schedule) -> Space {
        self.arena.reserve(schedule.max_message_bytes());
        Space { scratchpad: block.scratchpad(), arena: self.arena.start() }
    }

    /// The schedule of a block whose lock is in hand.
    fn schedule_of(&mut self, target: Target) -> Arc<Schedule> {
        let key = (target.owner, target.block.uid());
        if let Some(schedule) = self.schedules.get(&key) {
            return Arc::clone(schedule);
        }
        let (_, image) = target.block.image();
        let schedule = Schedule::from_bytes_trusting_addresses(image).expect("what its owner compiled");
        let schedule = Arc::new(schedule);
        if self.schedules.len() >= SCHEDULES_MAX {
            self.schedules.clear();
        }
        self.schedules.insert(key, Arc::clone(&schedule));
        schedule
    }

    /// The next operation of a run of ours that only this rank may carry out.
    pub(super) fn next_for_owner(&mut self, run: RunRef) -> Option<OpId> {
        let live = self.live.iter_mut().find(|live| live.run == run)?;
        live.block.take_for_owner(&mut live.taken)
    }

    /// The owner has finished an operation of a run in a block. [`PeerProgress::carry`] is next.
    pub(super) fn finish(&mut self, block: Block, op: OpId) {
        block.push(op.0 | OPERATION);
        self.work.push(Target { owner: self.me, block });
    }

    /// Takes a run that has ended out of its block, unless somebody is still at it; says when it ended.
    pub(super) fn settle(&mut self, run: RunRef, block: Block) -> Option<u64> {
        if !block.retire(self.me) {
            return None;
        }
        let (messages, bytes) = block.sent();
        self.sent.messages += messages;
        self.sent.bytes += bytes;
        self.live.retain(|live| live.run != run);
        Some(block.end_ns())
    }

    /// A run in a block has failed: nobody finds it any more.
    pub(super) fn abandon(&mut self, run: RunRef, block: Block) {
        block.abandon();
        self.live.retain(|live| live.run != run);
    }

    /// Whether this rank has runs in blocks.
    #[inline]
    pub(crate) fn has_runs(&self) -> bool {
        !self.live.is_empty()
    }

    /// This rank's runs in blocks.
    pub(super) fn runs(&self) -> Vec<RunRef> {
        self.live.iter().map(|live| live.run).collect()
    }

    /// Lists this rank's runs in blocks that somebody has given something to do; says whether there are any.
    #[inline]
    pub(super) fn tend(&self, mut list: impl FnMut(RunRef)) -> bool {
        let mut any = false;
        for live in self.live.iter().filter(|live| live.has_news()) {
            any = true;
            list(live.run);
        }
        any
    }

    /// Whether some run in a block has something for its owner: the look before sleeping.
    pub(crate) fn has_news(&self) -> bool {
        self.live.iter().any(Live::has_news)
    }

    /// Lets what this rank's runs hold back go through the queues, and lists those runs; whether there are any. Before whoever drives
    /// falls asleep: a receiver that starts its run late may need something from elsewhere first that only the end of this rank's run
    /// leads to. Ends with [`PeerProgress::end_flush`].
    pub(super) fn flush_held_back(&mut self, mut list: impl FnMut(RunRef)) -> bool {
        for live in self.live.iter().filter(|live| live.block.holds_back()) {
            live.block.ask_for_flush();
            list(live.run);
            self.flushes = true;
        }
        self.flushes
    }

    pub(super) fn end_flush(&mut self) {
        self.flushes = false;
    }

    /// Whether a run in a block waits for somebody who is gone, or was held by one: where, and why it fails.
    pub(super) fn departed(
        &self,
        run: RunRef,
        block: Block,
        schedule: &Schedule,
        is_gone: &dyn Fn(Rank) -> Option<Cause>,
    ) -> Option<(Option<OpId>, Cause)> {
        let mut hit: Option<(OpId, Cause)> = None;
        let empty = block.slots().iter().filter(|slot| slot.is_empty(run.serial));
        for (op, peer) in empty.map(|slot| (slot.op(), slot.source())) {
            if let Some(cause) = is_gone(peer).filter(|_| hit.as_ref().is_none_or(|(first, _)| op < *first)) {
                hit = Some((op, cause));
            }
        }
        let held_back: Vec<OpId> = block.held_back().collect();
        for op in held_back {
            if let Op::Send { dest, .. } = schedule.op(op)
                && let Some(cause) = is_gone(dest)
                && stays_held_back(&block, op)
            {
                hit = hit.or(Some((op, cause)));
            }
        }
        if let Some((op, cause)) = hit {
            return Some((Some(op), cause));
        }
        // Whoever died may have had the run in hand.
        let dead = |rank: &Rank| matches!(self.job.control(*rank).state(), RankState::Dead(_));
        let holder = block.combiner().holder().map(Rank).filter(dead);
        // Nobody else writes tickets of this run.
        let Peers { sources, destinations, .. } = schedule.peers();
        let writer = || sources.iter().chain(destinations).copied().find(dead);
        let peer = holder.or_else(|| writer().filter(|_| gap_stays(&block)))?;
        match self.job.control(peer).state() {
            RankState::Dead(death) => Some((None, Cause::PeerDied { peer, death })),
            _ => None,
        }
    }

    /// The receives of runs in blocks that have been started and have no message.
    pub(crate) fn waits(&self) -> Vec<(RunRef, OpId, Rank)> {
        let mut waits = Vec::new();
        for Live { run, block, .. } in &self.live {
            let slots = block.slots().iter();
            let waiting = slots.filter(|slot| slot.is_ready() && slot.is_empty(run.serial));
            waits.extend(waiting.map(|slot| (*run, slot.op(), slot.source())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use castell_goal::graph::Graph;
    use castell_goal::op::Place;
    use castell_shm::doorbell::Sleeper;
    use castell_shm::job::{JobOptions, Progress};

    fn receives(bytes: u64, tag: Tag) -> Schedule {
        let mut graph = Graph::new();
        graph.recv(Place::VOID, bytes, Some(Rank(1)), Some(tag)).expect("legal");
        graph.compile().expect("compiles")
    }

    /// A sender that has found a run stands still; the run ends, since none of its receives takes this message, and its block becomes
    /// another schedule's. What stands there by then says nothing of the run that is over: nothing is noted, and nobody is called.
    #[test]
    fn what_a_block_has_become_blames_nobody_who_looked_before() {
        let options = JobOptions { progress: Progress::Peers, ..JobOptions::new(2) };
        let job = Arc::new(Job::create(&options).expect("a small job"));
        let [mut owner, mut sender] = [0, 1].map(|rank| PeerProgress::new(Arc::clone(&job), Rank(rank)));
        let (first, second) = (receives(8, Tag(1)), receives(16, Tag(2)));
        let (before, after) = (7, 9);
        let block = owner.share(&first).expect("a block");
        block.begin(&first, before, &[(Rank(1), 1)]);
        block.publish();
        let (found, serial) = find(&job, Rank(0), Rank(1), 1).expect("the run is there");
        assert_eq!((found, serial), (block, before));
        assert!(block.retire(Rank(0)), "nobody is at it");
        owner.unshare(block);
        assert_eq!(owner.share(&second), Some(block), "the next one as large is in the same place");
        let bell = &job.control(Rank(0)).doorbell;
        for is_begun in [false, true] {
            if is_begun {
                block.begin(&second, after, &[(Rank(1), 2)]);
                block.publish();
            }
            let ticket = bell.prepare(Sleeper::Thread);
            sender.deliver_into(Target { owner: Rank(0), block: found }, serial, Rank(1), Tag(2), &[0; 8]);
            let (word, asleep) = bell.word(ticket);
            assert_eq!(word.load(Ordering::Relaxed), asleep, "its owner is woken for nothing: {is_begun}");
            bell.leave(Sleeper::Thread);
            assert!(block.mismatch(before).is_none() && block.mismatch(after).is_none(), "{is_begun}");
        }
        // Of the run that is there it is true.
        let (found, serial) = find(&job, Rank(0), Rank(1), 2).expect("the run is there");
        sender.deliver_into(Target { owner: Rank(0), block: found }, serial, Rank(1), Tag(2), &[0; 8]);
        assert!(block.mismatch(after).is_some_and(|mismatch| mismatch.sent == 8));
    }
}
