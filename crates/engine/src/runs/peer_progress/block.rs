//! A block: one run in shared memory. See the README beside this file.

use castell_base::{Rank, Tag};
use castell_goal::op::{Buffer, Memory, Op, Place};
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::{Cursor, StateWords, Stepper};
use castell_shm::peer_progress::combiner::Combiner;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Local operations on more bytes are left to the owner: two ranks that compute at once are faster than one that
/// computes for both.
const LOCAL_BYTES_MAX: u64 = 64 * 1024;
/// No place for a message: its receive has no memory.
const NOWHERE: u32 = u32::MAX;
/// A ticket that names an operation of the owner's; without it, a slot (counted from 1).
pub const OPERATION: u32 = 1 << 31;

/// A receive. Atomics throughout: a message that no receive takes may be compared with it while the block is formed anew.
#[repr(C)]
pub struct Slot {
    source: AtomicU32,
    tag: AtomicU32,
    bytes: AtomicU64,
    /// Offset in the block to which the message is copied.
    landing: AtomicU32,
    op: AtomicU32,
    /// The run's serial: no message yet; 0: one has come, or is being written.
    claim: AtomicU64,
    /// [`READY`] and [`ARRIVED`]; changed with the lock in hand.
    state: AtomicU32,
}

/// A mismatch is being written down.
const WRITING: u64 = 1;
/// It can be read.
const WRITTEN: u64 = 2;

/// The receive has been started.
pub const READY: u32 = 1;
/// The message lies at its place.
pub const ARRIVED: u32 = 2;

impl Slot {
    /// The sender.
    pub fn source(&self) -> Rank {
        Rank(self.source.load(Ordering::Relaxed))
    }

    /// Size of the message.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The receive.
    pub fn op(&self) -> OpId {
        OpId(self.op.load(Ordering::Relaxed))
    }

    /// Becomes this one.
    fn take_over(&self, slot: Slot) {
        let words = [&self.source, &self.tag, &self.landing, &self.op];
        for (to, from) in words.into_iter().zip([slot.source, slot.tag, slot.landing, slot.op]) {
            to.store(from.into_inner(), Ordering::Relaxed);
        }
        self.bytes.store(slot.bytes.into_inner(), Ordering::Relaxed);
    }

    fn key(&self) -> (u32, u32) {
        (self.source.load(Ordering::Relaxed), self.tag.load(Ordering::Relaxed))
    }

    /// Where the message goes in the block.
    fn landing(&self) -> Option<u32> {
        Some(self.landing.load(Ordering::Relaxed)).filter(|landing| *landing != NOWHERE)
    }

    /// The only message that may come for this slot has come to run `serial`.
    pub fn claim(&self, serial: u64) -> bool {
        self.claim.compare_exchange(serial, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether nothing has come for run `serial`.
    pub fn is_empty(&self, serial: u64) -> bool {
        self.claim.load(Ordering::Acquire) == serial
    }

    /// Whether the receive has been started.
    pub fn is_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) & READY != 0
    }

    /// Notes one half; true: now both are there. With the lock in hand.
    pub fn note(&self, half: u32) -> bool {
        let state = self.state.load(Ordering::Relaxed) | half;
        self.state.store(state, Ordering::Relaxed);
        state == READY | ARRIVED
    }
}

/// What is written once when a block is made for a schedule.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Shape {
    uid: u64,
    slots: Section,
    tickets: Section,
    image: Section,
    counters: Section,
    ring: Section,
    /// Pairs of words, counted in pairs.
    numbers: Section,
    owner_ring: Section,
    held: Section,
    scratchpad: Section,
    bytes: u32,
}

/// Offset in the block and number of elements.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Section {
    at: u32,
    len: u32,
}

impl Section {
    fn to_word(self) -> u64 {
        u64::from(self.at) | u64::from(self.len) << 32
    }

    fn of_word(word: u64) -> Section {
        Section { at: word as u32, len: (word >> 32) as u32 }
    }
}

/// What the holder of the lock keeps.
#[derive(Debug, Default)]
pub struct Holder {
    /// The next ticket.
    pub head: u32,
    cursor: Cursor,
    /// Messages sent, and their bytes.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
}

/// A message whose size is not its receive's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Sender.
    pub source: Rank,
    /// Bytes of the message.
    pub sent: u64,
    /// The receive.
    pub op: OpId,
}

impl Mismatch {
    /// What is noted of it, for a run's serial. In each word stands the low half of that, too: who stood still while it wrote, and
    /// meanwhile another run began, changes none of them any more (unless it stood still for 2^32 runs).
    fn to_words(self, serial: u64) -> [u64; 4] {
        let Mismatch { source, sent, op } = self;
        [source.0, op.0, sent as u32, (sent >> 32) as u32].map(|half| empty_word(serial) | u64::from(half))
    }

    fn of_words(words: [u64; 4]) -> Mismatch {
        let [source, op, low, high] = words.map(|word| word as u32);
        Mismatch { source: Rank(source), sent: u64::from(low) | u64::from(high) << 32, op: OpId(op) }
    }
}

/// Nothing was noted in this word since the run began.
fn empty_word(serial: u64) -> u64 {
    serial << 32
}

/// The start of a block; the sections lie behind it.
#[repr(C, align(64))]
struct Head {
    /// 0: no run.
    serial: AtomicU64,
    /// Where the numbers and the slots are (offset, how many << 32), for those who look for a run while the block may be changing.
    numbers: AtomicU64,
    slots: AtomicU64,
    shape: UnsafeCell<Shape>,
    combiner: Combiner,
    holder: UnsafeCell<Holder>,
    /// Sends that are held back.
    held: AtomicU32,
    owner: Owner,
}

/// What the owner polls: nobody writes here before there is something for it.
#[repr(C, align(64))]
struct Owner {
    /// Serial of the run that has ended.
    done: AtomicU64,
    /// Entries of the owner ring, counted on.
    tail: AtomicU32,
    /// Somebody started a run without a block that a held-back send is for.
    flush: AtomicU32,
    /// `serial << 2`, and [`WRITING`] or [`WRITTEN`]: what was meant for an earlier run changes nothing.
    mismatch: AtomicU64,
    /// What it was: see [`Mismatch::to_words`].
    mismatch_words: [AtomicU64; 4],
    end_ns: AtomicU64,
}

/// A block somewhere in the job's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: *mut u8,
}

// SAFETY: a block is shared memory that is used by the rules in the README; where it lies does not depend on threads.
unsafe impl Send for Block {}

/// Whether a schedule may have a block, and what that takes.
pub struct Plan {
    slots: Vec<Slot>,
    image: Vec<u8>,
    shape: Shape,
}

impl Plan {
    /// None: the run has to live in its process.
    pub fn of(schedule: &Schedule, uid: u64, eager_bytes: u64) -> Option<Plan> {
        if schedule.is_empty() || schedule.peers().any_source || schedule.max_message_bytes() > eager_bytes {
            return None;
        }
        let mut slots = Vec::new();
        for (index, op) in schedule.operations().enumerate() {
            match schedule.op(op) {
                Op::Recv { buffer, bytes, source: Some(source), tag: Some(tag) } => {
                    let landing = match buffer {
                        Buffer::Plain(Place { memory: Memory::Void, .. })
                        | Buffer::Vector(Memory::Void, _) => Landing::Nowhere,
                        // An independent receive owns its buffer from the start: the message goes straight there.
                        Buffer::Plain(place)
                            if place.memory == Memory::Scratch && index < schedule.independent() =>
                        {
                            Landing::Scratchpad(place.offset)
                        }
                        _ => Landing::Own,
                    };
                    slots.push((source.0, tag.0, bytes, landing, op.0));
                }
                Op::Send { .. } | Op::Local { .. } | Op::Proxy | Op::Wtime { .. } | Op::Call { .. } => {}
                _ => return None,
            }
        }
        slots.sort_unstable_by_key(|&(source, tag, ..)| (source, tag));
        if slots.windows(2).any(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
            return None;
        }
        Plan::lay_out(schedule, uid, &slots)
    }

    fn lay_out(schedule: &Schedule, uid: u64, slots: &[(u32, u32, u64, Landing, u32)]) -> Option<Plan> {
        let image = schedule.to_bytes();
        let state = StateWords::of(schedule);
        let peers = schedule.peers();
        let mut end = size_of::<Head>() as u64;
        let mut section = |len: usize, element: usize| {
            let at = end.next_multiple_of(64);
            end = at + (len * element) as u64;
            Section { at: at as u32, len: len as u32 }
        };
        let operations = schedule.len();
        let slots_section = section(slots.len(), size_of::<Slot>());
        let tickets = section(slots.len() + operations, 4);
        let numbers = section(peers.destinations.len() + peers.sources.len(), 8);
        let owner_ring = section(operations, 4);
        let held = section(operations, 4);
        let counters = section(state.counters, 4);
        let ring = section(state.ring, 4);
        let image_section = section(image.len(), 1);
        let scratchpad = section(usize::try_from(schedule.scratchpad_bytes()).ok()?, 1);
        let mut lands = |bytes: u64| section(bytes as usize, 1).at;
        let slots = slots
            .iter()
            .map(|&(source, tag, bytes, landing, op)| Slot {
                source: source.into(),
                tag: tag.into(),
                bytes: bytes.into(),
                landing: AtomicU32::new(match landing {
                    Landing::Nowhere => NOWHERE,
                    Landing::Scratchpad(offset) => (u64::from(scratchpad.at) + offset) as u32,
                    Landing::Own => lands(bytes),
                }),
                op: op.into(),
                claim: AtomicU64::new(0),
                state: AtomicU32::new(0),
            })
            .collect();
        let bytes = u32::try_from(end).ok().filter(|bytes| *bytes < OPERATION)?;
        let shape = Shape {
            uid,
            slots: slots_section,
            tickets,
            image: image_section,
            counters,
            ring,
            numbers,
            owner_ring,
            held,
            scratchpad,
            bytes,
        };
        Some(Plan { slots, image, shape })
    }

    /// Size of the block. Bytes.
    pub fn bytes(&self) -> usize {
        self.shape.bytes as usize
    }
}

#[derive(Clone, Copy)]
enum Landing {
    Nowhere,
    Scratchpad(u64),
    Own,
}

/// Whether any process may carry the operation out, or only the owner of its run.
pub fn is_portable(op: &Op<'_>) -> bool {
    match op {
        Op::Local { arithmetic, count, .. } => {
            count * arithmetic.element().bytes() <= LOCAL_BYTES_MAX && !op.names_address()
        }
        Op::Send { .. } | Op::Recv { .. } | Op::Wtime { .. } | Op::Proxy => !op.names_address(),
        _ => false,
    }
}

impl Block {
    /// The block that starts there.
    ///
    /// # Safety
    /// `base` is the start of a block in a job's segment that stays mapped while the block is used.
    pub unsafe fn at(base: *mut u8) -> Block {
        Block { base }
    }

    fn head(&self) -> &Head {
        // SAFETY: the block's memory is mapped and starts with a head; see `at`.
        unsafe { &*self.base.cast() }
    }

    fn shape(&self) -> Shape {
        // SAFETY: written only while the serial is 0 and the owner holds the lock; read after a look at the serial, or
        // with the lock in hand.
        unsafe { *self.head().shape.get() }
    }

    fn words(&self, section: Section) -> &[AtomicU32] {
        // SAFETY: the sections of a shape lie in the block.
        unsafe { std::slice::from_raw_parts(self.base.add(section.at as usize).cast(), section.len as usize) }
    }

    /// Where the block starts, counted from `area`.
    pub fn offset_from(&self, area: *mut u8) -> u32 {
        (self.base as usize - area as usize) as u32
    }

    /// Makes the block one for a schedule. By the owner; a new block's lock is taken, an old one's is in hand.
    pub fn form(&self, plan: Plan, me: Rank, is_new: bool) {
        if is_new {
            assert!(self.head().combiner.try_lock(me.0), "a new block is free");
        }
        // SAFETY: the owner holds the lock and no run is in the block: nobody else reads or writes what is written
        // here. The plan's sections lie in the block, which has the plan's size.
        unsafe {
            *self.head().shape.get() = plan.shape;
            self.head().numbers.store(plan.shape.numbers.to_word(), Ordering::Relaxed);
            self.head().slots.store(plan.shape.slots.to_word(), Ordering::Relaxed);
            let at = |section: Section| self.base.add(section.at as usize);
            std::ptr::copy_nonoverlapping(plan.image.as_ptr(), at(plan.shape.image), plan.image.len());
        }
        for (place, slot) in self.slots().iter().zip(plan.slots) {
            place.take_over(slot);
        }
    }

    /// Puts a run of the block's schedule into it. By the owner, with the lock in hand; `publish` is next.
    pub fn begin(&self, schedule: &Schedule, serial: u64, numbers: &[(Rank, u32)]) {
        let shape = self.shape();
        self.combiner().reset(self.words(shape.tickets));
        for slot in self.slots() {
            slot.state.store(0, Ordering::Relaxed);
            slot.claim.store(serial, Ordering::Relaxed);
        }
        let places = self.words(Section { len: 2 * shape.numbers.len, ..shape.numbers });
        for (place, (peer, number)) in places.chunks_exact(2).zip(numbers) {
            place[0].store(peer.0, Ordering::Relaxed);
            place[1].store(*number, Ordering::Relaxed);
        }
        for rest in places.chunks_exact(2).skip(numbers.len()) {
            rest[0].store(u32::MAX, Ordering::Relaxed);
        }
        let owner = &self.head().owner;
        for word in [&owner.tail, &owner.flush, &self.head().held] {
            word.store(0, Ordering::Relaxed);
        }
        owner.mismatch.store(serial << 2, Ordering::Relaxed);
        for word in &owner.mismatch_words {
            word.store(empty_word(serial), Ordering::Relaxed);
        }
        // Release: whose handle looks here for the end of the run before sees that it has ended elsewhere by now.
        owner.done.store(0, Ordering::Release);
        // SAFETY: the owner holds the lock.
        unsafe {
            let holder = self.head().holder.get();
            *holder = Holder::default();
            let (counters, ring) = self.state_memory(&shape);
            (*holder).cursor = Stepper::begin_in(schedule, counters, ring).cursor();
        }
        self.head().serial.store(serial, Ordering::Release);
    }

    /// Others may look for the run from here on; gives the lock back. Look for sends that are held back next.
    pub fn publish(&self) {
        self.combiner().unlock(&[], 0);
    }

    /// Takes the ended run out of the block and keeps the lock; false: somebody is still at it, ask again.
    pub fn retire(&self, me: Rank) -> bool {
        let free = self.combiner().try_lock(me.0);
        if free {
            self.head().serial.store(0, Ordering::Release);
        }
        free
    }

    /// Takes a failed run out of the block, which is never used again.
    pub fn abandon(&self) {
        self.head().serial.store(0, Ordering::Release);
    }

    /// Lock and tickets.
    pub fn combiner(&self) -> &Combiner {
        &self.head().combiner
    }

    /// The tickets' places.
    pub fn tickets(&self) -> &[AtomicU32] {
        self.words(self.shape().tickets)
    }

    /// Says that a slot's message has arrived, or (with [`OPERATION`]) that the owner has finished an operation.
    pub fn push(&self, ticket: u32) {
        self.combiner().push(self.tickets(), ticket);
    }

    /// All receives, by source and tag.
    pub fn slots(&self) -> &[Slot] {
        let section = Section::of_word(self.head().slots.load(Ordering::Relaxed));
        // SAFETY: inside the block, whatever it holds just now; slots are made of atomics.
        unsafe { std::slice::from_raw_parts(self.base.add(section.at as usize).cast(), section.len as usize) }
    }

    /// The slot for such a message, and its number from 1.
    pub fn slot(&self, source: Rank, tag: Tag) -> Option<(u32, &Slot)> {
        let slots = self.slots();
        let at = slots.binary_search_by_key(&(source.0, tag.0), Slot::key).ok()?;
        Some((at as u32 + 1, &slots[at]))
    }

    /// The slot of a receive. With the lock in hand, or by the owner.
    pub fn slot_of(&self, op: OpId, source: Option<Rank>, tag: Option<Tag>) -> &Slot {
        let (source, tag) = (source.expect("no wildcards"), tag.expect("no wildcards"));
        let (_, slot) = self.slot(source, tag).expect("each receive has a slot");
        assert_eq!(slot.op(), op, "one receive for source and tag");
        slot
    }

    /// Copies a claimed slot's message to its place.
    pub fn land(&self, slot: &Slot, payload: &[u8]) {
        if let Some(landing) = slot.landing() {
            // SAFETY: the place is as large as the receive, which the payload is too; who claimed the slot is the only
            // one who writes there, and nobody reads before the ticket.
            unsafe {
                let place = self.base.add(landing as usize);
                std::ptr::copy_nonoverlapping(payload.as_ptr(), place, payload.len());
            }
        }
    }

    /// The message of a slot that lies apart from its receive's buffer; none: it is there already, or nowhere.
    pub fn landed(&self, slot: &Slot) -> Option<&[u8]> {
        let Section { at, len } = self.shape().scratchpad;
        let own = slot.landing().filter(|landing| !(at..at + len).contains(landing));
        // SAFETY: the message has arrived: nobody writes there any more.
        own.map(|landing| unsafe {
            std::slice::from_raw_parts(self.base.add(landing as usize), slot.bytes() as usize)
        })
    }

    /// The compiled schedule.
    pub fn image(&self) -> (u64, &[u8]) {
        let shape = self.shape();
        // SAFETY: written in `form`.
        let image = unsafe {
            std::slice::from_raw_parts(self.base.add(shape.image.at as usize), shape.image.len as usize)
        };
        (shape.uid, image)
    }

    /// Number of the schedule among its owner's.
    pub fn uid(&self) -> u64 {
        self.shape().uid
    }

    /// Start of the scratchpad.
    pub fn scratchpad(&self) -> *mut u8 {
        // SAFETY: inside the block.
        unsafe { self.base.add(self.shape().scratchpad.at as usize) }
    }

    /// Size of the block. Bytes.
    pub fn bytes(&self) -> usize {
        self.shape().bytes as usize
    }

    /// # Safety
    /// With the lock in hand, and once at a time.
    unsafe fn state_memory<'a>(self, shape: &Shape) -> (&'a mut [u32], &'a mut [u32]) {
        let words = |section: Section| {
            // SAFETY: inside the block; exclusive, says the caller.
            unsafe {
                let start = self.base.add(section.at as usize).cast::<u32>();
                std::slice::from_raw_parts_mut(start, section.len as usize)
            }
        };
        (words(shape.counters), words(shape.ring))
    }

    /// The run's stepper and what else the holder keeps.
    ///
    /// # Safety
    /// With the lock in hand until [`Block::put_back`].
    pub unsafe fn hold<'a>(self) -> (Stepper<&'a mut [u32]>, &'a mut Holder) {
        // SAFETY: handed on from the caller.
        unsafe {
            let holder = &mut *self.head().holder.get();
            let (counters, ring) = self.state_memory(&self.shape());
            (Stepper::resume_in(counters, ring, holder.cursor), holder)
        }
    }

    /// Keeps where the stepper stands. The end of [`Block::hold`].
    pub fn put_back(stepper: Stepper<&mut [u32]>, holder: &mut Holder) {
        holder.cursor = stepper.cursor();
    }

    /// The run's number with `peer`, plus one; 0: none. Of a run that is there.
    pub fn number_with(&self, peer: Rank) -> u32 {
        let Section { at, len } = Section::of_word(self.head().numbers.load(Ordering::Relaxed));
        let places = self.words(Section { at, len: 2 * len });
        let found = binary_search(places, peer.0);
        found.map_or(0, |at| places[2 * at + 1].load(Ordering::Relaxed))
    }

    /// The serial of the run that has this number with `peer`, if that run is here.
    pub fn find(&self, peer: Rank, number: u32) -> Option<u64> {
        let serial = self.serial();
        let found = serial != 0 && self.number_with(peer) == number;
        (found && self.still_holds(serial)).then_some(serial)
    }

    /// Whether what was read of the block since a look at its serial belongs to that run.
    pub fn still_holds(&self, serial: u64) -> bool {
        fence(Ordering::Acquire);
        self.head().serial.load(Ordering::Relaxed) == serial
    }

    /// The serial of the run that is in the block; 0: none.
    pub fn serial(&self) -> u64 {
        self.head().serial.load(Ordering::Acquire)
    }

    /// Hands an operation to the owner. With the lock in hand.
    pub fn give_to_owner(&self, op: OpId) {
        let ring = self.words(self.shape().owner_ring);
        let tail = &self.head().owner.tail;
        let at = tail.load(Ordering::Relaxed);
        ring[at as usize].store(op.0, Ordering::Relaxed);
        tail.store(at + 1, Ordering::Release);
    }

    /// The next operation for the owner.
    pub fn take_for_owner(&self, taken: &mut u32) -> Option<OpId> {
        if self.head().owner.tail.load(Ordering::Acquire) == *taken {
            return None;
        }
        let op = self.words(self.shape().owner_ring)[*taken as usize].load(Ordering::Relaxed);
        *taken += 1;
        Some(OpId(op))
    }

    /// Whether there is something that the owner has not seen.
    pub fn has_news(&self, serial: u64, taken: u32) -> bool {
        let owner = &self.head().owner;
        // While somebody holds the lock, the end is no news: who unlocks rings then.
        (owner.done.load(Ordering::Acquire) == serial && self.combiner().holder().is_none())
            || owner.tail.load(Ordering::Acquire) != taken
            || owner.flush.load(Ordering::Acquire) != 0
            || owner.mismatch.load(Ordering::Acquire) == serial << 2 | WRITTEN
    }

    /// The word that becomes the serial when the run has ended.
    pub fn done(&self) -> *const AtomicU64 {
        &raw const self.head().owner.done
    }

    /// The run has ended. With the lock in hand.
    pub fn end(&self, serial: u64, now_ns: u64) {
        self.head().owner.end_ns.store(now_ns, Ordering::Relaxed);
        self.head().owner.done.store(serial, Ordering::Release);
    }

    /// When the run ended. Nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.head().owner.end_ns.load(Ordering::Relaxed)
    }

    /// Messages and bytes that the run sent. By the owner, after [`Block::retire`].
    pub fn sent(&self) -> (u64, u64) {
        // SAFETY: the owner holds the lock.
        let holder = unsafe { &*self.head().holder.get() };
        (holder.messages, holder.bytes)
    }

    /// A message of another size than its receive came to run `serial`; the first one counts. Nothing else keeps the run from
    /// ending meanwhile: its receive may have taken another message.
    pub fn note_mismatch(&self, serial: u64, mismatch: Mismatch) {
        if self.begin_to_note(serial) {
            self.write_down(serial, mismatch);
        }
    }

    /// Whether nobody else notes a mismatch of run `serial`, which is still there.
    fn begin_to_note(&self, serial: u64) -> bool {
        let (none, writing) = (serial << 2, serial << 2 | WRITING);
        let word = &self.head().owner.mismatch;
        word.compare_exchange(none, writing, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// After [`Block::begin_to_note`], however long.
    fn write_down(&self, serial: u64, mismatch: Mismatch) {
        let (owner, none) = (&self.head().owner, empty_word(serial));
        for (to, word) in owner.mismatch_words.iter().zip(mismatch.to_words(serial)) {
            let _ = to.compare_exchange(none, word, Ordering::Relaxed, Ordering::Relaxed);
        }
        let (writing, written) = (serial << 2 | WRITING, serial << 2 | WRITTEN);
        let _ = owner.mismatch.compare_exchange(writing, written, Ordering::Release, Ordering::Relaxed);
    }

    /// What [`Block::note_mismatch`] noted for run `serial`.
    pub fn mismatch(&self, serial: u64) -> Option<Mismatch> {
        let owner = &self.head().owner;
        let is_written = owner.mismatch.load(Ordering::Acquire) == serial << 2 | WRITTEN;
        let words = || std::array::from_fn(|at| owner.mismatch_words[at].load(Ordering::Relaxed));
        is_written.then(|| Mismatch::of_words(words()))
    }

    /// Asks the owner to send what is held back through the queue. Ring its bell next.
    pub fn ask_for_flush(&self) {
        self.head().owner.flush.store(1, Ordering::Release);
    }

    /// Whether that was asked.
    pub fn take_flush(&self) -> bool {
        let flush = &self.head().owner.flush;
        flush.load(Ordering::Relaxed) != 0 && flush.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether sends are held back.
    pub fn holds_back(&self) -> bool {
        self.head().held.load(Ordering::Relaxed) > 0
    }

    /// Holds a send back. With the lock in hand; look for its receiver once more next.
    pub fn hold_back(&self, op: OpId) {
        let held = &self.head().held;
        let at = held.load(Ordering::Relaxed);
        self.words(self.shape().held)[at as usize].store(op.0, Ordering::Relaxed);
        held.store(at + 1, Ordering::Relaxed);
        // Orders the list before the look for the receiver's run, as a starting rank orders its run before its look at
        // the list.
        fence(Ordering::SeqCst);
    }

    /// The send that was held back last found its receiver after all. With the lock in hand.
    pub fn release_last_held_back(&self) {
        self.head().held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes all held-back sends off the list. With the lock in hand.
    pub fn take_held_back(&self) -> Vec<OpId> {
        let count = self.head().held.swap(0, Ordering::Relaxed) as usize;
        let held = self.words(self.shape().held);
        held[..count].iter().map(|op| OpId(op.load(Ordering::Relaxed))).collect()
    }

    /// The held-back sends, for reports.
    pub fn held_back(&self) -> impl Iterator<Item = OpId> + '_ {
        let count = self.head().held.load(Ordering::Relaxed) as usize;
        self.words(self.shape().held).iter().take(count).map(|op| OpId(op.load(Ordering::Relaxed)))
    }
}

/// Index of the pair that starts with `wanted`, pairs being sorted.
fn binary_search(pairs: &[AtomicU32], wanted: u32) -> Option<usize> {
    let (mut low, mut high) = (0, pairs.len() / 2);
    while low < high {
        let middle = (low + high) / 2;
        match pairs[2 * middle].load(Ordering::Relaxed).cmp(&wanted) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_goal::graph::Graph;

    #[derive(Clone)]
    #[repr(align(64))]
    #[expect(dead_code, reason = "memory")]
    struct Line([u8; 64]);

    /// A schedule that receives 8 bytes, and a block for it that lies in memory of its own.
    fn block() -> (Schedule, Vec<Line>, Block) {
        let mut graph = Graph::new();
        graph.recv(Place::VOID, 8, Some(Rank(1)), Some(Tag(3))).expect("legal");
        let schedule = graph.compile().expect("compiles");
        let plan = Plan::of(&schedule, 0, 8192).expect("a block");
        let mut memory = vec![Line([0; 64]); plan.bytes().div_ceil(64)];
        // SAFETY: zeroed, aligned, large enough, and alive until the test's end.
        let block = unsafe { Block::at(memory.as_mut_ptr().cast()) };
        block.form(plan, Rank(0), true);
        (schedule, memory, block)
    }

    /// What is noted for a run that has ended is nothing to the run behind it, also where serials differ in their high half only.
    #[test]
    fn late_mismatches_blame_nobody() {
        let (schedule, _memory, block) = block();
        let (first, second) = (7, 7 + (1 << 32));
        for serial in [first, second] {
            block.begin(&schedule, serial, &[(Rank(1), 1)]);
            block.publish();
            assert!(block.still_holds(serial) && block.find(Rank(1), 1) == Some(serial));
            assert!(serial == second || block.retire(Rank(0)), "nobody else is at it");
        }
        let (_, slot) = block.slot(Rank(1), Tag(3)).expect("the receive");
        assert!(!block.still_holds(first) && !slot.claim(first) && slot.is_empty(second));
        let mismatch = Mismatch { source: Rank(1), sent: 5, op: slot.op() };
        block.note_mismatch(first, mismatch);
        assert!(block.mismatch(second).is_none() && !block.has_news(second, 0));
        block.note_mismatch(second, mismatch);
        assert!(block.mismatch(second).is_some() && block.has_news(second, 0));
    }

    /// Who notes a mismatch stands still at any place, and goes on when another has noted one of the next run: that one is told as it
    /// was, and none of it is what was meant for the run before.
    #[test]
    fn who_stood_still_while_noting_changes_nothing_of_the_next_run() {
        let (schedule, _memory, block) = block();
        let (first, second) = (7, 8);
        let [of_first, of_second] = [(2, 5 << 40, 0), (1, 16 << 40 | 3, 1)]
            .map(|(source, sent, op)| Mismatch { source: Rank(source), sent, op: OpId(op) });
        block.begin(&schedule, first, &[(Rank(1), 1)]);
        block.publish();
        assert!(block.begin_to_note(first) && !block.begin_to_note(first), "the first one counts");
        assert_eq!(block.mismatch(first), None, "it is not written down yet");
        assert!(block.retire(Rank(0)), "it has ended");
        block.begin(&schedule, second, &[(Rank(1), 2)]);
        block.publish();
        block.write_down(first, of_first);
        assert_eq!([first, second].map(|run| block.mismatch(run)), [None, None], "nothing is told of either");
        block.note_mismatch(second, of_second);
        assert_eq!(block.mismatch(second), Some(of_second));
        block.write_down(first, of_first);
        assert_eq!(block.mismatch(second), Some(of_second), "as it was");
    }
}
