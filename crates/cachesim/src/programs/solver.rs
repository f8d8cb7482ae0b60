//! Conjugate gradients for a 5-point matrix, and a search in sequences: the two programs of Weidendorfer and Breitbart.

use super::{Access, Program, element};

/// An iteration of conjugate gradients for the 5-point matrix of a grid of `side` by `side`, in compressed rows: values of 8 bytes,
/// columns and starts of rows of 4. Threads share out the rows.
///
/// # Panics
/// There are less rows than threads.
pub fn conjugate_gradients(side: usize, threads: usize, window: usize) -> Program {
    let rows = side * side;
    assert!(rows >= threads && threads > 0, "{rows} rows for {threads} threads");
    Program::threaded(format!("cg {side}^2"), window, threads, move |thread, sink| {
        let (first, last) = (rows * thread / threads, rows * (thread + 1) / threads);
        let mut touch = |array, index, compute_ps| sink(Access { block: element(array, index), compute_ps });
        let mut nonzero = first * 5;
        for row in first..last {
            touch(START, row / 2, 200);
            let (x, y) = (row % side, row / side);
            let neighbours = [
                (y > 0).then(|| row - side),
                (x > 0).then(|| row - 1),
                Some(row),
                (x + 1 < side).then_some(row + 1),
                (y + 1 < side).then_some(row + side),
            ];
            for column in neighbours.into_iter().flatten() {
                touch(VALUE, nonzero, 200);
                touch(COLUMN, nonzero / 2, 100);
                touch(P, column, 300);
                nonzero += 1;
            }
            touch(Q, row, 200);
        }
        // p·q; x += a p; r -= a q; r·r; p = r + b p.
        for pair in [[P, Q], [X, P], [R, Q], [R, R], [P, R]] {
            for row in first..last {
                pair.into_iter().for_each(|array| touch(array, row, 200));
            }
        }
    })
}

const VALUE: u64 = 1;
const COLUMN: u64 = 2;
const START: u64 = 3;
const P: u64 = 4;
const Q: u64 = 5;
const X: u64 = 6;
const R: u64 = 7;

/// What lies far apart in [`conjugate_gradients`], in blocks: the matrix, a vector, and a row of the grid.
pub fn conjugate_gradients_blocks(side: usize) -> [usize; 3] {
    let rows = side * side;
    let nonzeros = 5 * rows - 4 * side;
    [(nonzeros * 12 + rows * 4) / 64, rows / 8, side / 8]
}

/// Hands a database out to those who search it, as the master of a parallel BLAST does: a piece of `piece` blocks is read into a buffer and
/// sent from there, over and over. The same blocks come again at the distance of the buffer, and at no other.
///
/// # Panics
/// A piece of no block.
pub fn search_master(piece: usize) -> Program {
    assert!(piece > 0, "pieces of no block");
    Program::new("search master", 10, move |sink| {
        for _ in ["reads", "sends"] {
            (0..piece).for_each(|block| sink(Access { block: element(1, block * 8), compute_ps: 4000 }));
        }
    })
}

/// Looks for a query in a database of `blocks` blocks, four letters a byte as BLAST packs them: each word is looked up in a table that
/// fits L2, and a hit is scored in a matrix that fits L1; the database is reused only in the next pass.
pub fn sequence_search(blocks: usize, l2_blocks: usize, threads: usize) -> Program {
    let table = (l2_blocks / 2).next_power_of_two();
    Program::threaded("sequence search", 4, threads, move |thread, sink| {
        let mut word = thread;
        for block in blocks * thread / threads..blocks * (thread + 1) / threads {
            // 256 letters: 64 bytes, a word at each byte.
            for byte in 0..64 {
                sink(Access { block: element(1, block * 8), compute_ps: 500 });
                word = (word.wrapping_mul(25_214_903_917) + 11 + byte) & 0xffff_ffff_ffff;
                sink(Access { block: element(2, (word >> 17) % table * 8), compute_ps: 2500 });
                if word >> 17 & 15 == 0 {
                    (0..16).for_each(|cell| sink(Access { block: element(3, cell * 4), compute_ps: 1200 }));
                }
            }
        }
    })
}
