//! Programs as loops over blocks, for the simulated machine and for reuse distances.
//!
//! [`kernels`] have the loops of numerical codes, sized by a chip's caches; [`mixture`] meets given flows and reuse, [`table_2`] those of the seed; [`probe`] is
//! a neighbour with known distances; [`solver`] is conjugate gradients on a grid and a search in sequences; [`recorded`] repeats what
//! a real program did, [`Program::of_trace`] any accesses.

pub mod kernels;
pub mod mixture;
pub mod probe;
pub mod recorded;
pub mod solver;
pub mod table_2;

use crate::{Histogram, StackDistances};
use std::fmt;
use std::sync::Arc;

/// An access of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block, below 2^47; with [`FRESH`] another one in each pass.
    pub block: u64,
    /// What the thread does before it, the access itself included. Picoseconds.
    pub compute_ps: u32,
}

/// Marks blocks that nobody touched before this pass. The rest of such a block is below 2^24.
pub const FRESH: u64 = 1 << 47;

/// The block that is meant in the pass of this number.
#[inline]
pub(crate) fn of_pass(block: u64, pass: u64) -> u64 {
    if block & FRESH == 0 { block } else { block | (pass & 0x7f_ffff) << 24 }
}

/// Where a thread's accesses go.
pub type Sink<'a> = &'a mut dyn FnMut(Access);
type Body = dyn Fn(usize, Sink) + Send + Sync;

/// A program that goes through the same pass again and again, on one core or more.
#[derive(Clone)]
pub struct Program {
    name: String,
    window: usize,
    threads: usize,
    body: Arc<Body>,
}

impl fmt::Debug for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({} threads, window {})", self.name, self.threads, self.window)
    }
}

impl Program {
    /// A program on one core. `body` is a pass; it must be the same each time. `window` is how many requests to memory a core has
    /// under way at most: 1 for one that follows pointers.
    ///
    /// # Panics
    /// The window is 0.
    pub fn new(
        name: impl Into<String>,
        window: usize,
        body: impl Fn(Sink) + Send + Sync + 'static,
    ) -> Program {
        Program::threaded(name, window, 1, move |_, sink| body(sink))
    }

    /// A program on so many cores, whose `body` is told the number of its thread.
    ///
    /// # Panics
    /// The window or the number of threads is 0.
    pub fn threaded(
        name: impl Into<String>,
        window: usize,
        threads: usize,
        body: impl Fn(usize, Sink) + Send + Sync + 'static,
    ) -> Program {
        assert!(window > 0 && threads > 0, "a window of {window}, {threads} threads");
        Program { name: name.into(), window, threads, body: Arc::new(body) }
    }

    /// A program that repeats these accesses.
    ///
    /// # Panics
    /// The window is 0.
    pub fn of_trace(name: impl Into<String>, window: usize, accesses: Vec<Access>) -> Program {
        Program::new(name, window, move |sink| accesses.iter().for_each(|access| sink(*access)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests that a core has under way at most.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Cores that it takes.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A pass of a thread.
    pub fn pass(&self, thread: usize, sink: Sink) {
        (self.body)(thread, sink);
    }

    /// The distances of the first thread's accesses, in any pass but the first.
    pub fn distances(&self) -> Histogram {
        let mut histogram = Histogram::default();
        let mut distances = StackDistances::new();
        for pass in 0..2 {
            self.pass(0, &mut |access| {
                let distance = distances.access(of_pass(access.block, pass));
                if pass == 1 {
                    histogram.add(distance);
                }
            });
        }
        histogram
    }
}

/// The block of an element of 8 bytes of an array. Arrays lie apart, and do not begin in the same set of a cache.
#[inline]
pub(crate) fn element(array: u64, index: usize) -> u64 {
    let offset = array.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    (array << 32) + offset + index as u64 / 8
}

/// A number below `count` that looks random.
#[inline]
pub(crate) fn random(number: usize, count: usize) -> usize {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u64::from((mixed ^ mixed >> 32) as u32) * count as u64) >> 32) as usize
}

/// The next number of a sequence that meets each number below the power of two `count` once.
#[inline]
pub(crate) fn scatter(number: usize, count: usize) -> usize {
    debug_assert!(count.is_power_of_two(), "{count}");
    (number.wrapping_mul(0x5851_f42d) + 0x3039) & (count - 1)
}
