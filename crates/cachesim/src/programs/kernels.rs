//! Loops of numerical codes, sized by the caches of a chip: what streams, what lives by the shared cache, what stays in its core.
//!
//! The numbers of picoseconds are what an element costs on a core that is stalled by nothing, the windows what its loads allow:
//! 1 where the next address is the value of the last load, 10 to 16 where hardware prefetches.

use super::{Access, FRESH, Program, Sink, element, random, scatter};
use crate::machine::Chip;

/// Elements of 8 bytes that the caches hold.
#[derive(Clone, Copy)]
struct Sizes {
    l1: usize,
    l2: usize,
    llc: usize,
}

impl Sizes {
    fn side(&self, part: f64) -> usize {
        (self.llc as f64 * part).sqrt() as usize
    }

    fn part(&self, part: f64) -> usize {
        (self.llc as f64 * part) as usize
    }
}

type Loop = fn(Sizes, Sink);

/// Name, window, pass.
const KERNELS: [(&str, usize, Loop); 24] = [
    ("triad", 15, triad),
    ("jacobi_l", 13, |s, sink| jacobi(s.l1 / 10, s.part(1.2) / (s.l1 / 10), 250, sink)),
    ("sum", 16, |s, sink| (0..2 * s.llc).for_each(|at| touch(1, at, 950, sink))),
    ("floyd_l", 12, |s, sink| floyd(s.l1 / 4, 8 * s.llc / s.l1, 2, 300, sink)),
    ("fields", 16, fields),
    ("copy", 11, |s, sink| (0..s.part(1.2)).for_each(|at| (1..3).for_each(|a| touch(a, at, 200, sink)))),
    ("chase", 1, |s, sink| chase(s.part(0.5), 1_000, sink)),
    ("mvt", 6, |s, sink| by_columns(s.side(0.4), s.side(0.4), 400, sink)),
    ("jacobi_s", 8, |s, sink| jacobi(s.side(0.2), s.side(0.2), 500, sink)),
    ("lu", 8, lu),
    ("floyd_s", 8, |s, sink| floyd(s.side(0.4), s.side(0.4), 3, 500, sink)),
    ("cg_s", 8, |s, sink| sparse(s.part(0.05), false, sink)),
    ("cg_random", 8, |s, sink| sparse(s.part(0.25), true, sink)),
    ("atax", 8, atax),
    ("hash_s", 4, |s, sink| anywhere(s.part(0.5), s.part(0.2), 6_000, sink)),
    ("hash_l", 4, |s, sink| anywhere(s.part(1.4), s.part(0.4), 9_000, sink)),
    ("fft", 8, fft),
    ("matmul", 8, |s, sink| (0..3).for_each(|_| by_columns(s.side(0.2), s.side(0.2), 350, sink))),
    ("syrk", 10, syrk),
    ("merge", 8, merge),
    ("matmul_tiled", 8, matmul_tiled),
    ("random_numbers", 4, |s, sink| (0..s.llc / 4).for_each(|at| touch(1, at % (s.l1 / 2), 3_000, sink))),
    ("options", 8, |s, sink| (0..s.llc / 2).for_each(|at| touch(1, at, 18_000, sink))),
    ("alignment", 8, alignment),
];

/// All kernels: 6 that stream, 14 that use the shared cache, 4 that don't.
pub fn kernels(chip: &Chip) -> Vec<Program> {
    let elements = |shape: crate::machine::Shape| shape.blocks() * 8;
    let sizes = Sizes { l1: elements(chip.l1), l2: elements(chip.l2), llc: elements(chip.llc) };
    let program = |(name, window, pass): (&str, usize, Loop)| {
        Program::new(name, window, move |sink: Sink| pass(sizes, sink))
    };
    KERNELS.into_iter().map(program).collect()
}

fn touch(array: u64, index: usize, compute_ps: u32, sink: Sink) {
    sink(Access { block: element(array, index), compute_ps });
}

fn triad(s: Sizes, sink: Sink) {
    for at in 0..s.part(0.75) {
        (1..4).for_each(|array| touch(array, at, 150, sink));
    }
}

/// Five fields side by side, as solvers with several unknowns a cell have them.
fn fields(s: Sizes, sink: Sink) {
    for at in 0..s.part(0.4) {
        (1..6).for_each(|array| touch(array, at, 1_000, sink));
    }
}

/// A 5-point sweep from one grid to another.
fn jacobi(width: usize, height: usize, compute_ps: u32, sink: Sink) {
    for y in 1..height.saturating_sub(1) {
        for x in 1..width.saturating_sub(1) {
            let at = y * width + x;
            for near in [at - width, at - 1, at, at + 1, at + width] {
                touch(1, near, compute_ps / 5, sink);
            }
            touch(2, at, compute_ps, sink);
        }
    }
}

/// A few steps of Floyd and Warshall's: the whole matrix against one row.
fn floyd(width: usize, height: usize, steps: usize, compute_ps: u32, sink: Sink) {
    for k in 0..steps {
        for at in 0..width * height {
            touch(1, k * width + at % width, compute_ps, sink);
            touch(1, at, compute_ps, sink);
        }
    }
}

/// A matrix column by column: each block is used again only in the next column.
fn by_columns(rows: usize, columns: usize, compute_ps: u32, sink: Sink) {
    for column in 0..columns {
        for row in 0..rows {
            touch(1, row * columns + column, compute_ps, sink);
            touch(2, row, compute_ps, sink);
        }
    }
}

/// A list through all blocks of a table that is rounded to a power of two.
fn chase(elements: usize, compute_ps: u32, sink: Sink) {
    let blocks = (elements / 8).next_power_of_two();
    let mut at = 1;
    for _ in 0..blocks {
        at = scatter(at, blocks);
        let block = (at as u64).reverse_bits() >> (64 - blocks.ilog2());
        touch(1, block as usize * 8, compute_ps, sink);
    }
}

/// Random elements of a table.
fn anywhere(elements: usize, times: usize, compute_ps: u32, sink: Sink) {
    (0..times).for_each(|time| touch(1, random(time, elements), compute_ps, sink));
}

/// Three steps of an LU decomposition without pivots.
fn lu(s: Sizes, sink: Sink) {
    let side = s.side(0.35);
    for k in 0..3 {
        for row in k + 1..side {
            touch(1, row * side + k, 3_000, sink);
            for column in k + 1..side {
                touch(1, k * side + column, 300, sink);
                touch(1, row * side + column, 300, sink);
            }
        }
    }
}

/// A sparse product; columns lie near the diagonal, or anywhere.
fn sparse(rows: usize, anywhere: bool, sink: Sink) {
    for row in 0..rows {
        for entry in 0..5 {
            let nonzero = row * 5 + entry;
            touch(1, nonzero, 400, sink);
            touch(2, nonzero / 2, 200, sink);
            let column = if anywhere { random(nonzero, rows) } else { row.saturating_sub(entry) };
            touch(3, column, 600, sink);
        }
        touch(4, row, 400, sink);
    }
}

/// y += a (a x) row by row: a row comes from memory and a second time from the shared cache, as x and y do.
fn atax(s: Sizes, sink: Sink) {
    let columns = s.part(0.12);
    for row in 0..20 {
        for (vector, compute_ps) in [(2, 500), (3, 500)] {
            for column in 0..columns {
                touch(1, row * columns + column, compute_ps, sink);
                touch(vector, column, compute_ps, sink);
            }
        }
    }
}

/// Butterflies over far and near elements in turn.
fn fft(s: Sizes, sink: Sink) {
    let count = s.part(0.25).next_power_of_two();
    for stage in [0, 1, 2, 6] {
        let apart = count >> (stage + 1);
        for at in (0..count).filter(|at| at & apart == 0) {
            touch(1, at, 800, sink);
            touch(1, at + apart, 800, sink);
        }
    }
}

/// Rows of a matrix, each against all: of the result, four rows.
fn syrk(s: Sizes, sink: Sink) {
    let side = s.side(0.3);
    for row in 0..4 {
        for other in 0..side {
            for column in 0..side {
                touch(1, row * side + column, 300, sink);
                touch(1, other * side + column, 300, sink);
            }
            touch(2, row * side + other, 300, sink);
        }
    }
}

/// Two runs merged into a third, there and back.
fn merge(s: Sizes, sink: Sink) {
    let half = s.part(0.15);
    for _ in 0..2 {
        for at in 0..half {
            touch(1, at, 900, sink);
            touch(1, half + at, 900, sink);
            touch(2, 2 * at, 500, sink);
            touch(2, 2 * at + 1, 500, sink);
        }
    }
}

/// Tiles of three matrices, used many times while they lie in L2.
fn matmul_tiled(s: Sizes, sink: Sink) {
    let side = ((s.l2 / 8) as f64).sqrt() as usize;
    for tile in 0..8usize {
        let mut touch = |array: usize, index: usize| {
            let block = ((tile * 3 + array) * side * side + index) as u64 / 8;
            sink(Access { block: FRESH | block, compute_ps: 150 });
        };
        for row in 0..side {
            for column in 0..side {
                for k in 0..side {
                    touch(0, row * side + k);
                    touch(1, k * side + column);
                }
                touch(2, row * side + column);
            }
        }
    }
}

/// A dynamic program over two rows that fit L1, for each letter of a long sequence.
fn alignment(s: Sizes, sink: Sink) {
    let row = s.l1 / 8;
    for letter in 0..s.llc / row / 4 {
        touch(1, letter * 8, 1_000, sink);
        for at in 0..row {
            (2..4).for_each(|array| touch(array, at, 1_200, sink));
        }
    }
}
