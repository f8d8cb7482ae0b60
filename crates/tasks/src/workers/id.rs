//! Who is who among the workers.

/// Which CPU's queues and memory a thread uses. At any time at most one thread is a given worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// The worker as an index into a table with one entry a worker.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
