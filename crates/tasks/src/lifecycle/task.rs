//! The record of a task: one allocation, `header | closure | accesses`.
//!
//! ```text
//! offset 0    line 1: what a queue and the worker that runs it look at
//!        64   line 2: what its children and its events touch
//!        128  the closure (and later its result), aligned to at most 64
//!        ...  the accesses, `access_count` of them
//! ```
//!
//! Four counters rule its life:
//!
//! | counter | starts at | falls to zero when |
//! |---|---|---|
//! | `blocking` | 1, plus unsatisfied strong accesses | it is ready to run |
//! | `events` | 1 for the body, plus external events | it has completed: its accesses are released |
//! | `children` | see `Children` | body and all descendants are done: its parent is told |
//! | `references` | 1 for its life, plus handles and accesses still linked | its memory is given back |

use crate::dependences::{Access, Domain, Kind};
use crate::diagnostics::stall::Why;
use crate::error::Fault;
use crate::lifecycle::ancestry::{self, Above, Kin};
use crate::lifecycle::children::Children;
use crate::lifecycle::current::Thread;
use crate::lifecycle::events::Events;
use crate::lifecycle::extras::{Extras, Life};
use crate::lifecycle::grants::Place;
use crate::lifecycle::group::Group;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::versions::{Facts, Version};
use crate::scheduler::schedulable::Schedulable;
use castell_base::sync::{AtomicPtr, AtomicU32, Ordering};
use castell_sched::Kind as LeafKind;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// A live task, by address. Whoever holds one knows why the record is still there.
pub type TaskRef = NonNull<Task>;

/// Runs the closure behind a record, or drops it unrun.
///
/// # Safety
/// Called once, with the record whose closure it was made for.
pub type Run = unsafe fn(&Thread, &Task, Verb);

/// What [`Run`] is asked to do with the closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Call it.
    Call,
    /// Drop it: the task is skipped.
    Skip,
    /// The record goes: drop what the closure left (its result, if nobody took it).
    Dispose,
}

/// What a task is, as bits of `Task::flags`.
pub mod flag {
    /// Its children run inline, at once.
    pub const FINAL: u32 = 1 << 0;
    /// Its accesses are released only after all its descendants are done.
    pub const WAIT: u32 = 1 << 1;
    /// Its creator waits for it (`if(0)`).
    pub const UNDEFERRED: u32 = 1 << 2;
    /// It failed, or waited for one that did: its body does not run, and who waits for its data is poisoned too.
    pub const POISONED: u32 = 1 << 3;
    /// Its body has begun.
    pub const STARTED: u32 = 1 << 4;
    /// The root of a tree of tasks: it has no parent.
    pub const ROOT: u32 = 1 << 5;
    /// Its body returned, and its result lies where the closure was.
    pub const RETURNED: u32 = 1 << 7;
    /// The record has something to drop when it goes.
    pub const DROPS: u32 = 1 << 8;
    /// It and all its descendants are done. Only set where a handle may look.
    pub const DONE: u32 = 1 << 9;
    /// Somebody sleeps until it is [`DONE`].
    pub const AWAITED: u32 = 1 << 10;
    /// Its body runs on in a fork of its process.
    pub const FORKED: u32 = 1 << 13;
    /// It runs a part of its parent's body, with the parent's accesses.
    pub const HELPS: u32 = 1 << 12;
    /// Somebody may wait for it, and sets [`AWAITED`] while its body runs.
    pub const HANDLED: u32 = 1 << 11;
    /// Its body can be called several times.
    pub const REPEATABLE: u32 = 1 << 16;
    /// When its body ends, and it has no children and no events then, nobody needs to hear of it but its parent and who waits
    /// for its data: no handle, no result to drop, no group of its own, nobody who watches; neither extras nor a domain.
    pub const PLAIN: u32 = 1 << 17;
    /// It was created in no group, and nobody watches: nobody has to be asked before its body is called, unless it is poisoned.
    pub const QUICK: u32 = 1 << 18;
    /// What its children access has nothing to do with what it accesses itself: they wait for each other only, and nobody who waits for it
    /// waits for them. So it is in OpenMP.
    pub const APART: u32 = 1 << 19;
    /// It has several bodies; until one of them is chosen its kind is that of no worker.
    pub const VERSIONED: u32 = 1 << 20;
    /// Its body has asked to be called again.
    pub const SUSPENDED: u32 = 1 << 14;
    /// Its body is called again, or has been.
    pub const REPEATED: u32 = 1 << 15;
    /// From this bit on, four bits tell which kind of leaf runs it.
    pub(crate) const KIND_SHIFT: u32 = 24;
}

/// The kind of a task of which no version has been chosen: that of no worker.
pub(crate) const UNDECIDED: LeafKind = LeafKind(LeafKind::COUNT as u8);

/// The record. Only `task.rs` and `execute.rs` make and dispose of it.
#[repr(C, align(64))]
pub struct Task {
    // Line 1.
    next: AtomicPtr<Task>,
    pub(crate) run: Run,
    pub(crate) shared: *const Shared,
    pub(crate) parent: *const Task,
    flags: AtomicU32,
    /// Unsatisfied strong accesses, plus 1 until registration is over.
    blocking: AtomicU32,
    /// External events not yet fulfilled, plus 1 for the body.
    pub(crate) events: Events,
    /// Who still needs the record: see the table above.
    references: AtomicU32,
    pub(crate) priority: i32,
    /// Bytes of the whole allocation.
    pub(crate) bytes: u32,
    /// Distance to the root.
    pub(crate) depth: u32,
    /// The NUMA node of most of its data plus 1; 0: not known. Written by whoever makes it ready, read by whoever queues it.
    place: Cell<u16>,
    /// Where the accesses start, in units of 8 bytes from the record.
    accesses_at: u16,
    // Line 2.
    pub(crate) children: Children<Thread>,
    /// Where its children's accesses are registered: made with the first child that has some.
    pub(crate) domain: AtomicPtr<Domain>,
    /// What few tasks need: made when the first of it is.
    pub(crate) extras: AtomicPtr<Extras>,
    /// The innermost group around it; a group outlives the tasks in it.
    pub(crate) group: *const Group,
    label_start: *const u8,
    label_length: u16,
    access_count: u16,
    /// The programmer's estimate of the work in it, in units of their own.
    pub(crate) cost: u32,
}

/// What is fixed when a task is created.
#[derive(Clone, Copy)]
pub struct Attributes {
    /// Name for messages, timelines and drawings.
    pub label: &'static str,
    /// Larger runs earlier, where the scheduler's policy looks at it.
    pub priority: i32,
    /// The programmer's estimate of the work in it.
    pub cost: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// What can run it: the processors, or devices of a kind ([`crate::Builder::device`]).
    pub kind: LeafKind,
}

impl Attributes {
    /// No label, priority 0.
    pub const NONE: Attributes =
        Attributes { label: "", priority: 0, cost: 0, flags: 0, kind: LeafKind::CPU };
}

/// Where the parts of a record lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) bytes: usize,
    pub(crate) accesses_at: usize,
    pub(crate) access_count: usize,
}

/// Offset of the closure.
pub(crate) const CLOSURE_AT: usize = size_of::<Task>();

impl Parts {
    /// A record for a closure of `closure` bytes (alignment at most 64) and `access_count` accesses.
    #[inline]
    pub(crate) fn of(closure: usize, access_count: usize) -> Parts {
        let align = align_of::<Access>().max(8);
        let accesses_at = (CLOSURE_AT + closure + align - 1) & !(align - 1);
        assert!(
            accesses_at / 8 <= usize::from(u16::MAX) && access_count <= usize::from(u16::MAX),
            "a closure of {closure} bytes with {access_count} accesses: put what it captures into a box (512 KiB at most), \
             and declare at most 65535 accesses"
        );
        let bytes = (accesses_at + access_count * size_of::<Access>() + 63) & !63;
        Parts { bytes, accesses_at, access_count }
    }
}

/// How a record is begun.
pub(crate) struct Birth {
    pub(crate) shared: *const Shared,
    pub(crate) parent: *const Task,
    pub(crate) group: *const Group,
    pub(crate) depth: u32,
    pub(crate) attributes: Attributes,
    pub(crate) parts: Parts,
    pub(crate) references: u32,
    pub(crate) run: Run,
}

impl Task {
    /// Writes a new header to `at`.
    ///
    /// # Safety
    /// `at` is aligned to 64 and has `birth.parts.bytes` bytes that are ours.
    #[inline]
    pub(crate) unsafe fn write(at: NonNull<u8>, birth: Birth) -> TaskRef {
        let task = at.cast::<Task>();
        let Attributes { label, priority, cost, flags, kind } = birth.attributes;
        let flags = flags | u32::from(kind.0) << flag::KIND_SHIFT;
        let label = if label.len() <= usize::from(u16::MAX) { label } else { shortened(label) };
        let header = Task {
            next: AtomicPtr::new(std::ptr::null_mut()),
            run: birth.run,
            shared: birth.shared,
            parent: birth.parent,
            flags: AtomicU32::new(flags),
            blocking: AtomicU32::new(1),
            events: Events::of_body(),
            references: AtomicU32::new(birth.references),
            priority,
            bytes: birth.parts.bytes as u32,
            depth: birth.depth,
            place: Cell::new(0),
            accesses_at: (birth.parts.accesses_at / 8) as u16,
            children: Children::new(),
            domain: AtomicPtr::new(std::ptr::null_mut()),
            extras: AtomicPtr::new(std::ptr::null_mut()),
            group: birth.group,
            label_start: label.as_ptr(),
            label_length: label.len() as u16,
            access_count: birth.parts.access_count as u16,
            cost,
        };
        // SAFETY: the caller's promise.
        unsafe { task.write(header) };
        at.as_ptr().expose_provenance();
        task
    }

    /// What lies so many bytes behind its start, in the same allocation: a reference to the header alone does not reach it.
    #[inline]
    fn behind<T>(&self, bytes: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(std::ptr::from_ref(self).addr() + bytes)
    }

    /// Where the closure lies.
    #[inline]
    pub(crate) fn closure(&self) -> *mut u8 {
        self.behind(CLOSURE_AT)
    }

    /// Its accesses, in the order in which they were declared.
    #[inline]
    pub fn accesses(&self) -> &[Access] {
        if self.access_count == 0 {
            return &[];
        }
        // SAFETY: whoever made the record wrote that many accesses there before anybody else saw it.
        unsafe { std::slice::from_raw_parts(self.accesses_start(), usize::from(self.access_count)) }
    }

    /// Where the accesses are to be written, before anybody else sees the record.
    #[inline]
    pub(crate) fn accesses_start(&self) -> *mut Access {
        self.behind(usize::from(self.accesses_at) * 8)
    }

    /// It has become ready, by the end of that task or as that one has created it (null: no task): notes when, and where most of its data was
    /// written last, if anybody wants to know.
    #[inline]
    pub(crate) fn note_ready(&self, by: *const Task) {
        // SAFETY: what threads share outlives the tasks.
        let shared = unsafe { &*self.shared };
        if shared.watches_ready {
            self.note_ready_in(shared, by);
        }
    }

    #[cold]
    fn note_ready_in(&self, shared: &Shared, by: *const Task) {
        if let Some(timeline) = &shared.timeline {
            timeline.ready(self, by);
        }
        if let Some(places) = &shared.places {
            let place = places.of(self.accesses());
            self.place.set(place.map_or(0, |numa| numa as u16 + 1));
        }
        if let Some(journal) = &shared.journal {
            journal.ready(self);
        }
    }

    /// Who created it; `None` for a root.
    #[inline]
    pub fn parent(&self) -> Option<&Task> {
        // SAFETY: a parent's record outlives its children: each holds a place in its count of children.
        unsafe { self.parent.as_ref() }
    }

    /// The name that its creator gave it; empty if none.
    #[inline]
    pub fn label(&self) -> &'static str {
        // SAFETY: taken apart from a `&'static str` in `write`.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.label_start, self.label_length as usize);
            std::str::from_utf8_unchecked(bytes)
        }
    }

    /// Whether all bits of `mask` ([`flag`]) are set.
    #[inline]
    pub fn has(&self, mask: u32) -> bool {
        self.flags.load(Ordering::Acquire) & mask == mask
    }

    /// Its [`flag`]s now.
    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Acquire)
    }

    /// Its [`flag`]s, before anybody else sees it.
    #[inline]
    pub(crate) fn flags_of_mine(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Whether it is [`flag::PLAIN`] and has no events, after its body: nobody else can change either any more.
    #[inline]
    pub(crate) fn ends_plainly(&self) -> bool {
        self.events.pending() == 1 && self.flags.load(Ordering::Relaxed) & flag::PLAIN != 0
    }

    /// How many accesses it has.
    #[inline]
    pub(crate) fn access_count(&self) -> usize {
        usize::from(self.access_count)
    }

    /// Sets bits of [`flag`]; returns those before.
    #[inline]
    pub(crate) fn set(&self, mask: u32) -> u32 {
        self.flags.fetch_or(mask, Ordering::AcqRel)
    }

    /// Sets bits of [`flag`] from its body: at once if nobody else may set one meanwhile.
    #[inline]
    pub(crate) fn set_own(&self, mask: u32) {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & flag::HANDLED == 0 {
            self.flags.store(flags | mask, Ordering::Release);
        } else {
            self.set(mask);
        }
    }

    /// Takes bits of [`flag`] back.
    pub(crate) fn clear(&self, mask: u32) {
        self.flags.fetch_and(!mask, Ordering::AcqRel);
    }

    /// Which versions there are of it, if it has several.
    pub(crate) fn version(&self) -> Option<&Version> {
        // SAFETY: lives as long as the record.
        let extras = unsafe { self.extras.load(Ordering::Acquire).as_ref() };
        extras.and_then(|extras| extras.version.get()).map(|version| &**version)
    }

    /// It is ready: one of its versions is chosen, whose kind was [`UNDECIDED`] so far.
    fn choose_version(&self, granted: Option<(LeafKind, Arc<Place>)>) -> LeafKind {
        let version = self.version().expect("a task without a kind has versions");
        // SAFETY: what threads share outlives the tasks.
        let kind = unsafe { &*self.shared }.versions.decide(version, self.facts(), granted);
        self.flags.fetch_xor(u32::from(UNDECIDED.0 ^ kind.0) << flag::KIND_SHIFT, Ordering::AcqRel);
        kind
    }

    /// Whether an ancestor has a place of the daemon's: then it is inside of that one.
    fn has_place_above(&self) -> bool {
        let mut above = self.parent();
        while let Some(task) = above {
            let has_place = || task.version().and_then(Version::place).is_some_and(|place| place.is_held());
            if task.has(flag::VERSIONED) && has_place() {
                return true;
            }
            above = task.parent();
        }
        false
    }

    fn facts(&self) -> Facts {
        Facts { label: self.label(), cost: self.cost, is_poisoned: self.has(flag::POISONED) }
    }

    /// Calls its body for the kind that was chosen.
    pub(crate) fn run_version<R>(&self, thread: &Thread, body: impl FnOnce(LeafKind) -> R) -> R {
        self.version().into_iter().for_each(Version::begin);
        let result = thread.with_place(self.version().and_then(Version::place), || body(self.kind()));
        // A body that panics does not come here, and what has events goes on.
        if self.events.pending() == 1 {
            self.end_version();
        }
        result
    }

    /// What was chosen is over.
    pub(crate) fn end_version(&self) {
        // SAFETY: what threads share outlives the tasks.
        let deciding = unsafe { &(*self.shared).versions };
        self.version().into_iter().for_each(|version| version.end(deciding, self.facts()));
    }

    /// Whether anybody but its own life holds a reference.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.references.load(Ordering::Acquire) > 1
    }

    /// Marks it so that its body is skipped, because what it waits for failed. To be called before the satisfaction
    /// that makes it ready.
    #[inline]
    pub fn poison(&self) {
        self.set(flag::POISONED);
    }

    /// `count` more accesses have to be satisfied before it may run. Only before it can be seen by others, or while
    /// the caller holds one of those counted.
    #[inline]
    pub fn block(&self, count: u32) {
        self.blocking.fetch_add(count, Ordering::Relaxed);
    }

    /// `count` of them are; true if it became ready: then the caller hands it to a [`crate::schedulable::ReadyList`].
    #[inline]
    pub fn unblock(&self, count: u32) -> bool {
        // Acquire and release: what predecessors wrote is seen by whoever makes the task ready, and so by its body.
        self.blocking.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// What few tasks need; made on the first call.
    pub(crate) fn extras(&self) -> &Extras {
        let mut extras = self.extras.load(Ordering::Acquire);
        if extras.is_null() {
            let fresh = Box::into_raw(Box::<Extras>::default());
            let null = std::ptr::null_mut();
            match self.extras.compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    extras = fresh;
                    self.clear(flag::PLAIN);
                }
                Err(theirs) => {
                    // SAFETY: just made, and nobody else saw it.
                    drop(unsafe { Box::from_raw(fresh) });
                    extras = theirs;
                }
            }
        }
        // SAFETY: lives as long as the record.
        unsafe { &*extras }
    }

    /// The group for which its body waits now; null if for none.
    #[inline]
    pub(crate) fn awaited_group(&self) -> *const Group {
        // SAFETY: lives as long as the record.
        let extras = unsafe { self.extras.load(Ordering::Acquire).as_ref() };
        extras.map_or(std::ptr::null(), |extras| extras.awaited.load(Ordering::Acquire))
    }

    /// Its body begins to wait for a group, or, with null, ends.
    pub(crate) fn await_group(&self, group: *const Group) {
        self.extras().awaited.store(group.cast_mut(), Ordering::Release);
    }

    /// Its life, as the data that it owns knows it; null if it owns none.
    #[inline]
    pub(crate) fn life_if_any(&self) -> *const Life {
        // SAFETY: lives as long as the record.
        let extras = unsafe { self.extras.load(Ordering::Acquire).as_ref() };
        extras.map_or(std::ptr::null(), |extras| extras.life.load(Ordering::Acquire))
    }

    /// Its life. Only from its body.
    pub(crate) fn life(&self) -> Arc<Life> {
        let place = &self.extras().life;
        let mut life = place.load(Ordering::Acquire).cast_const();
        if life.is_null() {
            life = Arc::into_raw(Arc::<Life>::default());
            place.store(life.cast_mut(), Ordering::Release);
        }
        // SAFETY: came from `Arc::into_raw`, and the extras keep their count.
        unsafe {
            Arc::increment_strong_count(life);
            Arc::from_raw(life)
        }
    }

    /// The task and its descendants are done: others may own its data.
    pub(crate) fn end_life(&self) {
        // SAFETY: alive while the extras keep their count, and they live as long as the record.
        if let Some(life) = unsafe { self.life_if_any().as_ref() } {
            life.end();
        }
    }

    /// The failure that was noted in it or below it.
    pub(crate) fn fault(&self) -> Option<Fault> {
        // SAFETY: lives as long as the record.
        let extras = unsafe { self.extras.load(Ordering::Acquire).as_ref() }?;
        extras.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the failure that was noted in it or below it.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        // SAFETY: lives as long as the record.
        let extras = unsafe { self.extras.load(Ordering::Acquire).as_ref() }?;
        extras.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes a failure, unless there is one already: the first is the cause. That a task was skipped is only a consequence.
    pub(crate) fn note_fault(&self, fault: Fault) {
        let mut noted = self.extras().fault.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.as_ref().is_none_or(|noted| noted.is_consequence()) {
            *noted = Some(fault);
        }
    }

    /// Whether `awaited`, the last task that its creator made and waits for, cannot begin before this one's body is over or has
    /// released something. What does the latter and then pauses until that creator goes on must not lie above it: no such tasks
    /// where tasks pause.
    fn holds_up(&self, awaited: &Task) -> bool {
        let overlaps = |one: &Access, other: &Access| {
            one.region().overlaps(other.region()) && !(one.kind() == Kind::In && other.kind() == Kind::In)
        };
        let conflict =
            || self.accesses().iter().any(|one| awaited.accesses().iter().any(|other| overlaps(one, other)));
        // SAFETY: what threads share outlives the tasks.
        let pauses = unsafe { &*self.shared }.stall.tasks_pause();
        !pauses && awaited.parent().is_some_and(|creator| self.descends_from(creator)) && conflict()
    }

    /// Sets what blocks it. Before anybody else sees it.
    #[inline]
    pub(crate) fn set_blocking(&self, count: u32) {
        self.blocking.store(count, Ordering::Relaxed);
    }

    /// Takes `count` from what blocks it; returns what is left.
    #[inline]
    pub(crate) fn unblock_some(&self, count: u32) -> u32 {
        // The last: nobody else has a part in the count, so no read-modify-write is needed. Acquire, as in `unblock`.
        if self.blocking.load(Ordering::Acquire) == count {
            return 0;
        }
        self.blocking.fetch_sub(count, Ordering::AcqRel) - count
    }

    /// Keeps the record.
    #[inline]
    pub fn retain(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds references for its accesses. Before anybody else sees it.
    #[inline]
    pub(crate) fn set_references_more(&self, more: u32) {
        self.references.store(self.references.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// Keeps the record for `more` more.
    #[inline]
    pub(crate) fn retain_more(&self, more: u32) {
        self.references.fetch_add(more, Ordering::Relaxed);
    }

    /// Ends `count` references while the caller holds another one.
    #[inline]
    pub(crate) fn drop_references(&self, count: u32) {
        // Only these and the caller's: nobody else can come by another one.
        if self.references.load(Ordering::Acquire) == count + 1 {
            self.references.store(1, Ordering::Relaxed);
        } else {
            self.references.fetch_sub(count, Ordering::AcqRel);
        }
    }

    /// Ends `count` references; true if the record is to be disposed of.
    #[inline]
    #[must_use]
    pub(crate) fn release_references(&self, count: u32) -> bool {
        self.references.load(Ordering::Acquire) == count
            || self.references.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// Ends what [`Task::retain`], an access or the birth began; true if the record is to be disposed of.
    #[inline]
    #[must_use]
    pub(crate) fn release_reference(&self) -> bool {
        // Alone: nobody else can come by another reference, so no read-modify-write is needed.
        if self.references.load(Ordering::Acquire) == 1 {
            return true;
        }
        self.references.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A task with versions is ready: the kind of workers that run it, or nothing if the node's daemon is asked, whose answer hands it on.
///
/// # Safety
/// It is alive, in no list, and the caller's no more where there is no kind.
unsafe fn ask_or_choose(task: TaskRef) -> Option<LeafKind> {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    // SAFETY: what threads share outlives the tasks.
    let shared = unsafe { &*record.shared };
    if record.has(flag::POISONED) || !shared.versions.has_daemon() || record.has_place_above() {
        return Some(record.choose_version(None));
    }
    // SAFETY: whoever has a record of a runtime keeps what its threads share.
    let kept = unsafe {
        Arc::increment_strong_count(record.shared);
        Arc::from_raw(record.shared)
    };
    let waiting = Waiting(task);
    let answer = move |granted| {
        let Waiting(task) = waiting.whole();
        kept.stall.forget(task);
        // SAFETY: it has waited for this, in no list, and is handed on once.
        unsafe {
            task.as_ref().choose_version(granted);
            kept.scheduler.add(task, None);
        }
    };
    shared.stall.expect_pauses();
    shared.stall.enter(record, Why::Grant);
    let versions = record.version().expect("a task without a kind has versions").versions();
    let facts = record.facts();
    // From here on somebody else may have run it.
    if shared.versions.ask(versions, facts, Box::new(answer)) {
        return None;
    }
    shared.stall.forget(task);
    Some(record.choose_version(None))
}

/// A task that waits for a grant, by address.
struct Waiting(TaskRef);

// SAFETY: it is in no list: who has this is the only one who has it.
unsafe impl Send for Waiting {}

impl Waiting {
    /// All of it: a closure would capture the address alone.
    fn whole(self) -> Waiting {
        self
    }
}

/// As much of a label as a record can tell the length of.
#[cold]
fn shortened(label: &'static str) -> &'static str {
    let end = (0..=usize::from(u16::MAX)).rfind(|&end| label.is_char_boundary(end));
    &label[..end.unwrap_or(0)]
}

// SAFETY: `link` is the header's `next`, which only queues and ready lists write.
unsafe impl Schedulable for Task {
    #[inline]
    fn link(&self) -> &AtomicPtr<Task> {
        &self.next
    }

    #[inline]
    fn priority(&self) -> i32 {
        self.priority
    }

    #[inline]
    fn place(&self) -> Option<u16> {
        self.place.get().checked_sub(1)
    }

    #[inline]
    fn kind(&self) -> LeafKind {
        LeafKind((self.flags.load(Ordering::Relaxed) >> flag::KIND_SHIFT) as u8)
    }

    #[cold]
    unsafe fn decide(task: TaskRef) -> Option<LeafKind> {
        // SAFETY: the caller's promise.
        unsafe { ask_or_choose(task) }
    }

    #[inline]
    fn nesting(&self) -> u32 {
        self.depth
    }

    #[inline]
    fn descends_from(&self, ancestor: &Task) -> bool {
        ancestry::descends_from(self, ancestor)
    }

    #[inline]
    fn may_run_above(&self, waiter: &Task) -> bool {
        // Usually its own child, and it waits for all of them.
        if std::ptr::eq(self.parent, waiter) && waiter.extras.load(Ordering::Acquire).is_null() {
            return true;
        }
        self.may_run_on(waiter)
    }
}

impl Kin for Task {
    #[inline]
    fn depth(&self) -> u32 {
        self.depth
    }

    #[inline]
    fn parent(&self) -> Option<&Task> {
        self.parent()
    }

    #[inline]
    fn above(&self) -> Option<&Above<Task>> {
        // SAFETY: lives as long as the record.
        unsafe { self.extras.load(Ordering::Acquire).as_ref() }.map(|extras| &extras.above)
    }
}

impl Task {
    /// Notes ancestors far above, if it is to. Before others see it.
    #[inline]
    pub(crate) fn note_ancestors(&self) {
        if ancestry::is_milestone(self) {
            self.note_far_ancestors();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_far_ancestors(&self) {
        self.extras().above.note(self);
    }

    /// [`Schedulable::may_run_above`], all of it.
    #[inline(never)]
    fn may_run_on(&self, waiter: &Task) -> bool {
        if std::ptr::eq(self, waiter) {
            return true; // somebody waits for it
        }
        if !self.descends_from(waiter) {
            return waiter.has(flag::UNDEFERRED) && self.holds_up(waiter);
        }
        let awaited = waiter.awaited_group();
        // SAFETY: the groups around a task live as long as it.
        awaited.is_null() || unsafe { self.group.as_ref() }.is_some_and(|own| own.is_inside(awaited))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_between_letters() {
        let odd: &str = "ä".repeat(40_000).leak();
        assert_eq!(shortened(odd).len(), 65_534);
        let even: &str = format!("x{odd}").leak();
        assert_eq!(shortened(even).len(), 65_535);
    }
}
