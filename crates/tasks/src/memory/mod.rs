//! Where records come from and go.

use crate::workers::WorkerId;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The alignment of every chunk.
pub const CHUNK_ALIGN: usize = 64;

/// Gives chunks of memory and takes them back.
#[derive(Default)]
pub struct Memory;

impl Memory {
    /// `bytes` bytes (a multiple of [`CHUNK_ALIGN`]), aligned to [`CHUNK_ALIGN`], for the worker whose thread calls;
    /// `None`: a thread that is none.
    #[inline]
    pub fn allocate(&self, _worker: Option<WorkerId>, bytes: usize) -> NonNull<u8> {
        let layout = Layout::from_size_align(bytes, CHUNK_ALIGN).expect("records are small");
        // SAFETY: never zero bytes: a header alone is more.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Takes a chunk back.
    ///
    /// # Safety
    /// It came from [`Memory::allocate`] of this object with the same `bytes`, and nobody uses it any more.
    #[inline]
    pub unsafe fn free(&self, _worker: Option<WorkerId>, chunk: NonNull<u8>, bytes: usize) {
        let layout = Layout::from_size_align(bytes, CHUNK_ALIGN).expect("records are small");
        // SAFETY: the caller's promise.
        unsafe { dealloc(chunk.as_ptr(), layout) };
    }
}
