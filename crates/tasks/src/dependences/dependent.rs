//! What the engine needs to know of tasks, so that it can be tested with other things.

use super::access::Access;
use super::exclusive::Exclusive;
use castell_deps::Region;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// In the count of what blocks a task: it has commutative accesses, whose bytes it must hold before it may run.
pub const EXCLUSIVE: u32 = 1 << 31;

/// Something that waits for accesses.
///
/// # Safety
/// The counts must behave as described: `unblock` returns what is left, atomically; a task to which `retain` was applied
/// stays at its address until as many of its accesses have been reported to [`Outcome::gone`].
pub unsafe trait Dependent: Sized {
    /// Sets the count of what blocks it. Before anybody else sees it.
    fn begin_blocking(&self, count: u32);
    /// Adds to the count of what blocks it, while the caller holds some of the count.
    fn block(&self, count: u32);
    /// Takes from the count of what blocks it, with acquire and release; returns what is left.
    fn unblock(&self, count: u32) -> u32;
    /// Its body must not run: what it waited for failed.
    fn poison(&self);
    /// This many accesses more keep it alive. Before anybody else sees it.
    fn begin_retaining(&self, accesses: u32);
    /// This many more accesses keep it alive.
    fn retain(&self, accesses: u32);
    /// Whether `ancestor` created it, directly or not.
    fn descends_from(&self, ancestor: &Self) -> bool;
    /// Who created it.
    fn parent(&self) -> Option<&Self>;
    /// Its accesses.
    fn accesses(&self) -> &[Access<Self>];
    /// It would be ready, but `holder` has bytes that it wants for itself.
    fn waits_for_turn(&self, holder: &Self) {
        let _ = holder;
    }
    /// Where commutative tasks take turns: the same table for all tasks that share memory.
    fn exclusive(&self) -> &Exclusive<Self>;
}

/// What the engine has found out and somebody else acts upon; and the memory for pieces of accesses.
pub trait Outcome<T> {
    /// `task` can run.
    fn ready(&mut self, task: NonNull<T>);
    /// `accesses` of the task's accesses need it no longer; once all are gone the engine does not touch it any more.
    fn gone(&mut self, task: NonNull<T>, accesses: u32);
    /// Add `task`'s private copy of these bytes to the original, now: nobody else touches either. `group_ends`: no access
    /// of the same group follows so far.
    fn combine(&mut self, task: NonNull<T>, region: Region, group_ends: bool);

    /// `bytes` bytes for pieces, aligned to [`PIECES_ALIGN`]: [`Access::dispose`] gives them back.
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let layout = layout_of(bytes);
        // SAFETY: never for nothing.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }
    /// Takes such bytes back at once: nobody has seen them.
    ///
    /// # Safety
    /// They came from [`Outcome::allocate`] with the same `bytes`.
    unsafe fn free(&mut self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { free_chunk(chunk, bytes) };
    }
}

/// Alignment of memory for pieces.
pub const PIECES_ALIGN: usize = 64;

fn layout_of(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, PIECES_ALIGN).expect("pieces take less than half the address space")
}

/// Frees what [`Outcome::allocate`] took as long as nobody says something else.
///
/// # Safety
/// It came from there with the same `bytes`, and nobody uses it any more.
pub unsafe fn free_chunk(chunk: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(chunk.as_ptr(), layout_of(bytes)) };
}
