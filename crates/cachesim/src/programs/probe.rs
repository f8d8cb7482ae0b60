//! A neighbour with known distances (DistGen: Weidendorfer and Breitbart, COSH 2016).

use super::{Access, Program};

/// Reads so many blocks, shared out among the threads, one after the other, again and again, as fast as may be: each thread's
/// distances are its share.
///
/// # Panics
/// There are no blocks for a thread, or the window is 0.
pub fn probe(blocks: usize, threads: usize, window: usize) -> Program {
    let share = blocks / threads.max(1);
    assert!(share > 0, "{blocks} blocks for {threads} threads");
    Program::threaded(format!("probe of {blocks} blocks"), window, threads, move |thread, sink| {
        let first = thread * share;
        (first..first + share).for_each(|block| sink(Access { block: block as u64, compute_ps: 400 }));
    })
}
