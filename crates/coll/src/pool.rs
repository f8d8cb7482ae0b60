//! Buffers in this rank's pool, which all ranks of the job can read.
//!
//! Large blocking collective calls read such buffers where they lie, by plain loads: each byte is copied once, where memory of a
//! process's own is copied into the segment first (docs/decisions/0015). To allocate is no collective call.

use crate::collective::Element;
use castell_engine::Process;
pub use castell_shm::pool::AllocationError;
use castell_shm::pool::{PAGE, pages};
use std::ops::{Deref, DerefMut};

/// Elements that all ranks of the job can read; zero at first. The memory is given back when it is dropped.
///
/// ```
/// use castell_coll::collective::Reduction;
/// use castell_coll::{Communicator, pool::SharedBuffer};
///
/// let process = castell_coll::alone()?;
/// let (mut mine, mut sum) = (SharedBuffer::<f64>::new(&process, 100_000)?, SharedBuffer::<f64>::new(&process, 100_000)?);
/// mine.fill(f64::from(process.rank().0));
/// Communicator::world(&process).allreduce(&mine, &mut sum, Reduction::Sum)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedBuffer<T: Element> {
    process: Process,
    at: *mut T,
    count: usize,
    /// In the segment.
    offset: usize,
}

// SAFETY: it owns its memory, as a vector does.
unsafe impl<T: Element> Send for SharedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for SharedBuffer<T> {}

impl<T: Element> SharedBuffer<T> {
    /// `count` zeros that all ranks of the job can read, so that large blocking collective calls copy them once only. No other rank has to
    /// call it. The memory is this rank's: it counts against its limits, from now on.
    ///
    /// # Errors
    /// No memory is left, or the job has none of this kind: take a vector then.
    pub fn new(process: &Process, count: usize) -> Result<SharedBuffer<T>, AllocationError> {
        const { assert!(align_of::<T>() <= PAGE) };
        let (segment, range) = process.job().pool(process.rank());
        if range.is_empty() {
            return Err(AllocationError::None);
        }
        let wanted = count.saturating_mul(size_of::<T>());
        let bytes = pages(wanted).unwrap_or(usize::MAX);
        let offset =
            process.pool().take(bytes).map_err(|left| AllocationError::Full { bytes: wanted, left })?;
        if let Err(error) = segment.reserve(offset, bytes) {
            process.pool().give_back(offset, bytes);
            return Err(error.into());
        }
        let at = segment.as_ptr().wrapping_add(offset).cast();
        Ok(SharedBuffer { process: process.clone(), at, count, offset })
    }
}

impl<T: Element> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: this buffer's own elements, mapped as long as the group is; zeros, and whatever else was written, are elements.
        unsafe { std::slice::from_raw_parts(self.at, self.count) }
    }
}

impl<T: Element> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; peers read it only while this rank is in a call that it lends them to.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.count) }
    }
}

impl<T: Element> Drop for SharedBuffer<T> {
    fn drop(&mut self) {
        let bytes = pages(self.count * size_of::<T>()).expect("it was allocated");
        self.process.job().pool(self.process.rank()).0.give_back(self.offset, bytes);
        self.process.pool().give_back(self.offset, bytes);
    }
}

impl<T: Element + std::fmt::Debug> std::fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
