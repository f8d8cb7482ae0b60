//! The engine at the service of this crate's tasks.

use super::dependent::{Dependent, Outcome};
use super::exclusive::Exclusive;
use super::{Kind, engine};
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute;
use crate::lifecycle::task::{Task, TaskRef, flag};
use crate::scheduler::schedulable::ReadyList;
use castell_base::sync::Ordering;
use castell_deps::{AccessError, ReductionId, Region};
use std::ptr::NonNull;

/// What a task declares: a region of bytes and what it does there.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The first byte's address.
    pub start: usize,
    /// Bytes; at least 1.
    pub length: usize,
    /// What the task does.
    pub kind: Kind,
    /// Only its descendants do it: the task itself is not delayed.
    pub weak: bool,
    /// Which reduction: neighbours with the same number run at once. 0 for other kinds.
    pub reduction: u32,
}

/// A declared access, inside its task's record.
pub type Access = engine::Access<Task>;

/// The accesses of a parent's children.
pub type Domain = engine::Domain<Task>;

impl Declaration {
    /// The same, as the automaton wants it. An empty region is taken for its first byte.
    #[inline]
    fn access(&self) -> castell_deps::Access {
        let region = Region::new(self.start, self.length)
            .or(Region::new(self.start, 1))
            .unwrap_or_else(|| panic!("no byte can lie at {:#x}; declare memory that exists", self.start));
        castell_deps::Access {
            region,
            kind: self.kind,
            weak: self.weak,
            reduction: ReductionId(self.reduction),
        }
    }
}

/// Declarations up to which pairs are compared.
const FEW: usize = 8;

/// What a task that declares `declared` registers: see [`castell_deps::access::settled`]. Usually that is the same;
/// otherwise it is written to `room`.
///
/// # Errors
/// Declarations that contradict each other.
#[inline]
pub(crate) fn settled<'a>(
    declared: &'a [Declaration],
    room: &'a mut Vec<Declaration>,
) -> Result<&'a [Declaration], AccessError> {
    if is_settled(declared) {
        return Ok(declared);
    }
    settle(declared, room)?;
    Ok(room)
}

#[inline]
pub(crate) fn is_settled(declared: &[Declaration]) -> bool {
    if declared.len() < 2 {
        return true;
    }
    // A bit for each kind that was seen, strong ones below weak ones.
    const WEAK: u32 = 8;
    let mut seen = 0_u32;
    // The bytes between the first and the last of those that were seen. Most programs name regions that ascend.
    let (mut low, mut high) = (usize::MAX, 0);
    for (index, one) in declared.iter().enumerate() {
        seen |= 1 << (one.kind as u32 + if one.weak { WEAK } else { 0 });
        let end = one.start.wrapping_add(one.length.max(1));
        if one.start >= high {
            (low, high) = (low.min(one.start), end);
        } else if end <= low {
            low = one.start;
        } else if declared.len() <= FEW && meets_any(one, &declared[..index]) {
            return false;
        } else {
            (low, high) = (low.min(one.start), high.max(end));
        }
    }
    let takes_turns = seen & 1 << Kind::Commutative as u32 != 0;
    !(takes_turns && seen >> WEAK != 0) && (declared.len() <= FEW || are_many_disjoint(declared))
}

fn meets_any(one: &Declaration, others: &[Declaration]) -> bool {
    let end = one.start.wrapping_add(one.length.max(1));
    let meets =
        |other: &Declaration| other.start < end && one.start < other.start.wrapping_add(other.length.max(1));
    others.iter().any(meets)
}

#[cold]
fn are_many_disjoint(declared: &[Declaration]) -> bool {
    let accesses: Vec<castell_deps::Access> = declared.iter().map(Declaration::access).collect();
    castell_deps::access::are_disjoint(&accesses)
}

#[cold]
fn settle(declared: &[Declaration], room: &mut Vec<Declaration>) -> Result<(), AccessError> {
    let accesses: Vec<castell_deps::Access> = declared.iter().map(Declaration::access).collect();
    let registered = castell_deps::access::settled(&accesses)?;
    room.extend(registered.into_iter().map(|access| Declaration {
        start: access.region.start(),
        length: access.region.length(),
        kind: access.kind,
        weak: access.weak,
        reduction: access.reduction.0,
    }));
    Ok(())
}

// SAFETY: the counters are what the trait wants them to be: see `task.rs`.
unsafe impl Dependent for Task {
    #[inline]
    fn begin_blocking(&self, count: u32) {
        self.set_blocking(count);
    }

    #[inline]
    fn block(&self, count: u32) {
        Task::block(self, count);
    }

    #[inline]
    fn unblock(&self, count: u32) -> u32 {
        self.unblock_some(count)
    }

    fn poison(&self) {
        Task::poison(self);
    }

    #[inline]
    fn begin_retaining(&self, accesses: u32) {
        self.set_references_more(accesses);
    }

    #[inline]
    fn retain(&self, accesses: u32) {
        self.retain_more(accesses);
    }

    fn descends_from(&self, ancestor: &Self) -> bool {
        crate::scheduler::schedulable::Schedulable::descends_from(self, ancestor)
    }

    fn parent(&self) -> Option<&Task> {
        Task::parent(self)
    }

    #[inline]
    fn accesses(&self) -> &[Access] {
        Task::accesses(self)
    }

    #[cold]
    fn waits_for_turn(&self, holder: &Self) {
        // SAFETY: what threads share outlives the tasks.
        if let Some(journal) = unsafe { &(*self.shared).journal } {
            journal.waits_for_turn(self, holder);
        }
    }

    fn exclusive(&self) -> &Exclusive<Self> {
        // SAFETY: what threads share outlives the tasks.
        unsafe { &(*self.shared).exclusive }
    }
}

/// Collects what becomes ready; ends references through the calling thread.
struct Found<'a> {
    thread: &'a Thread,
    ready: &'a mut ReadyList<Task>,
    /// The task that is registered or completed here.
    own: *const Task,
    own_ready: bool,
    own_gone: u32,
    /// The task is complete, and held by its birth's reference until its accesses' are counted together.
    is_complete: bool,
}

impl Outcome<Task> for Found<'_> {
    #[inline]
    fn ready(&mut self, task: TaskRef) {
        if std::ptr::eq(task.as_ptr(), self.own) {
            self.own_ready = true;
        } else {
            // SAFETY: it just became ready, so it is alive and in no list.
            unsafe {
                task.as_ref().note_ready(self.own);
                self.ready.push(task);
            }
        }
    }

    #[inline]
    fn gone(&mut self, task: TaskRef, accesses: u32) {
        if self.is_complete && std::ptr::eq(task.as_ptr(), self.own) {
            self.own_gone += accesses;
        } else {
            // SAFETY: each access held a reference.
            unsafe { execute::release_some(self.thread, task, accesses) };
        }
    }

    /// The copy has been combined already: whoever wraps a reduction's body does it before the task completes.
    fn combine(&mut self, _task: TaskRef, _region: Region, _group_ends: bool) {}

    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        // SAFETY: the calling thread is the worker that it says it is.
        unsafe { self.thread.shared.memory.allocate(self.thread.worker.get(), bytes) }
    }

    unsafe fn free(&mut self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: as above, and the caller's promise.
        unsafe { self.thread.shared.memory.free(self.thread.worker.get(), chunk, bytes) };
    }
}

impl<'a> Found<'a> {
    #[inline]
    fn new(thread: &'a Thread, own: *const Task, ready: &'a mut ReadyList<Task>) -> Self {
        Found { thread, ready, own, own_ready: false, own_gone: 0, is_complete: false }
    }

    /// The references that its own accesses held are no longer needed; its birth's remains.
    #[inline]
    fn settle(self) {
        if self.own_gone > 0 {
            // SAFETY: the caller holds another reference.
            unsafe { &*self.own }.drop_references(self.own_gone);
        }
    }
}

/// Registers the accesses of a new task in its parent's domain, having written them into its record; true if it is ready.
/// Otherwise it may have become so, and have run, before this returns. Other tasks that became ready are appended to `ready`.
///
/// # Safety
/// Called once, on the thread of the parent's body, before anybody else sees `task`; its record has room for
/// `declared.len()` accesses, which are at least one.
#[inline]
pub unsafe fn register(
    thread: &Thread,
    task: TaskRef,
    declared: &[Declaration],
    ready: &mut ReadyList<Task>,
) -> bool {
    // SAFETY: the caller's promise.
    let record = unsafe { task.as_ref() };
    let (mut strong, mut exclusive) = (0, 0);
    for (index, one) in declared.iter().enumerate() {
        strong += u32::from(!one.weak);
        exclusive += u32::from(one.kind == Kind::Commutative && !one.weak);
        let access = Access::new(task, &one.access());
        // SAFETY: there is room for them all.
        unsafe { record.accesses_start().add(index).write(access) };
    }
    let Some(parent) = record.parent() else {
        // Without a parent there is nothing to wait for, and nothing comes behind: it may start.
        record.set_blocking(0);
        return true;
    };
    let mut found = Found::new(thread, record, ready);
    // SAFETY: only this thread uses the domain; the rest is the caller's promise.
    let is_ready = unsafe {
        domain_of(parent).register_counted(passed_on(parent), task, [strong, exclusive], &mut found)
    };
    debug_assert_eq!(found.own_gone, 0);
    is_ready || found.own_ready
}

/// The accesses of a task that its children's are a part of.
#[inline]
fn passed_on(task: &Task) -> &[Access] {
    if task.has(flag::APART) { &[] } else { task.accesses() }
}

/// The domain of a task, made if it has none yet.
///
/// # Safety
/// On the thread of the task's body, with no other such reference around.
#[inline]
#[allow(clippy::mut_from_ref)]
unsafe fn domain_of(task: &Task) -> &mut Domain {
    let mut domain = task.domain.load(Ordering::Relaxed);
    if domain.is_null() {
        domain = Box::into_raw(Box::default());
        task.domain.store(domain, Ordering::Relaxed);
        task.clear(flag::PLAIN);
    }
    // SAFETY: made from a box; the caller promises to be alone.
    unsafe { &mut *domain }
}

/// The task has completed (body and external events): its accesses go to whoever waits for them, except where live
/// children still use them; with [`flag::WAIT`], nothing goes before these are done. What became ready is appended to `ready`.
///
/// # Safety
/// Called once; the record is alive.
#[inline]
pub unsafe fn complete(thread: &Thread, task: &Task, ready: &mut ReadyList<Task>) {
    if !task.has(flag::WAIT) {
        // SAFETY: the caller's promise.
        unsafe { let_go(thread, task, ready) };
    }
}

/// The task and all its descendants are done: what they still held goes on.
///
/// # Safety
/// Called once, after [`complete`]; the record is alive.
#[inline]
pub unsafe fn descendants_done(thread: &Thread, task: &Task, ready: &mut ReadyList<Task>) {
    if task.has(flag::WAIT) {
        // SAFETY: the caller's promise.
        unsafe { let_go(thread, task, ready) };
    }
}

/// [`complete`] for a task without children that is [`flag::PLAIN`] after its body; returns how many references its accesses need
/// no longer, for the caller to end.
///
/// # Safety
/// As there.
#[inline]
#[must_use]
pub(crate) unsafe fn complete_plain(thread: &Thread, task: &Task, ready: &mut ReadyList<Task>) -> u32 {
    let mut found = Found { is_complete: true, ..Found::new(thread, task, ready) };
    // SAFETY: once; without children it has no domain.
    unsafe { engine::complete(task.accesses(), false, &mut found) };
    found.own_gone
}

unsafe fn let_go(thread: &Thread, task: &Task, ready: &mut ReadyList<Task>) {
    let mut found = Found { is_complete: true, ..Found::new(thread, task, ready) };
    let domain = task.domain.load(Ordering::Relaxed);
    if !domain.is_null() {
        task.domain.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: made from a box; the body is over, so nobody else uses it.
        unsafe {
            let mut domain = Box::from_raw(domain);
            domain.close(passed_on(task), task.has(flag::POISONED), &mut found);
        }
    }
    if task.parent().is_some() {
        // SAFETY: once, after its domain was closed.
        unsafe { engine::complete(task.accesses(), task.has(flag::POISONED), &mut found) };
    }
    found.settle();
}

/// The tasks that wait for data of `task` and for which nobody else stands before them, each once, by label.
///
/// # Safety
/// It has not completed, and does not go on meanwhile.
pub(crate) unsafe fn held_up(task: &Task) -> Vec<&'static str> {
    let mut found: Vec<NonNull<Task>> = Vec::new();
    for access in task.accesses() {
        // SAFETY: the caller's promise.
        unsafe { access.for_each_held_up(|task| found.push(task)) };
    }
    found.sort_unstable();
    found.dedup();
    // SAFETY: they wait, so they are alive.
    found.into_iter().map(|task| unsafe { task.as_ref() }.label()).collect()
}

/// The running task needs `length` bytes from `start` no more: they go to whoever waits for them.
///
/// # Safety
/// From the task's body.
pub unsafe fn release(
    thread: &Thread,
    task: &Task,
    start: usize,
    length: usize,
    ready: &mut ReadyList<Task>,
) {
    let Some(region) = Region::new(start, length) else { return };
    let mut found = Found::new(thread, task, ready);
    // SAFETY: on the body's thread; the record is alive.
    unsafe {
        if !task.domain.load(Ordering::Relaxed).is_null() {
            domain_of(task).release(passed_on(task), region, &mut found);
        }
        engine::complete_part(task.accesses(), region, &mut found);
    }
    found.settle();
}

/// The body has waited for all its children, and what `failed` among them has been reported: they and their failures are
/// forgotten.
///
/// # Safety
/// On the thread of the task's body; no child is live.
pub unsafe fn children_done(thread: &Thread, task: &Task, failed: bool, ready: &mut ReadyList<Task>) {
    if !task.domain.load(Ordering::Relaxed).is_null() {
        let mut found = Found::new(thread, task, ready);
        // SAFETY: the caller's promise.
        unsafe { domain_of(task).children_done(passed_on(task), failed, &mut found) };
    }
}

/// The record goes: gives back what its accesses have beside it.
///
/// # Safety
/// Nobody looks at the record any more.
#[inline]
pub unsafe fn dispose(thread: &Thread, task: &Task) {
    let mut free = |chunk, bytes| {
        // SAFETY: pieces came from this memory; the calling thread is the worker that it says it is.
        unsafe { thread.shared.memory.free(thread.worker.get(), chunk, bytes) };
    };
    for access in task.accesses() {
        // SAFETY: the caller's promise.
        unsafe { access.dispose(&mut free) };
    }
}

const _: () = assert!(size_of::<Access>() <= 64, "an access is a cache line");
const _: () = assert!(engine::PIECES_ALIGN <= crate::memory::CHUNK_ALIGN, "pieces lie in chunks");
