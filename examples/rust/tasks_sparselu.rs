//! LU of a matrix most of whose blocks are empty: which tasks there are is known only while they are created, and blocks come
//! into being on the way.

#[path = "argument.rs"]
mod argument;

use argument::argument;
use castell::tasks::Runtime;
use castell::tasks::data::Data;
use std::sync::LazyLock;
use std::time::Instant;

/// Blocks a side, and elements a side of a block: `tasks_sparselu [BLOCKS [SIZE]]`.
static BLOCKS: LazyLock<usize> = LazyLock::new(|| argument(1, 12));
static SIZE: LazyLock<usize> = LazyLock::new(|| argument(2, 12));

type Block = Vec<f64>;

/// The pattern of blocks that are there at the beginning.
fn is_filled(row: usize, column: usize) -> bool {
    row == column || row.abs_diff(column) == 1 || (row.is_multiple_of(3) && column.is_multiple_of(3))
}

fn block(row: usize, column: usize) -> Block {
    let size = *SIZE;
    let value = |index: usize| {
        let (i, j) = (row * size + index / size, column * size + index % size);
        if i == j { 100.0 } else { 1.0 / (1 + i + 2 * j) as f64 }
    };
    (0..size * size).map(value).collect()
}

/// The diagonal block's own factors.
fn lu0(a: &mut [f64]) {
    let size = *SIZE;
    for k in 0..size {
        for i in k + 1..size {
            a[i * size + k] /= a[k * size + k];
            for j in k + 1..size {
                a[i * size + j] -= a[i * size + k] * a[k * size + j];
            }
        }
    }
}

/// A block to the right of the diagonal.
fn forward(diagonal: &[f64], b: &mut [f64]) {
    let size = *SIZE;
    for k in 0..size {
        for i in k + 1..size {
            for j in 0..size {
                b[i * size + j] -= diagonal[i * size + k] * b[k * size + j];
            }
        }
    }
}

/// A block below the diagonal.
fn divide(diagonal: &[f64], b: &mut [f64]) {
    let size = *SIZE;
    for i in 0..size {
        for k in 0..size {
            b[i * size + k] /= diagonal[k * size + k];
            for j in k + 1..size {
                b[i * size + j] -= b[i * size + k] * diagonal[k * size + j];
            }
        }
    }
}

/// A block inside.
fn modify(left: &[f64], above: &[f64], c: &mut [f64]) {
    let size = *SIZE;
    for i in 0..size {
        for j in 0..size {
            for k in 0..size {
                c[i * size + j] -= left[i * size + k] * above[k * size + j];
            }
        }
    }
}

fn serial() -> Vec<Option<Block>> {
    let side = *BLOCKS;
    let size = *SIZE;
    let at = |row: usize, column: usize| row * side + column;
    let new = |index: usize| {
        let (row, column) = (index / side, index % side);
        is_filled(row, column).then(|| block(row, column))
    };
    let mut blocks: Vec<Option<Block>> = (0..side * side).map(new).collect();
    for k in 0..side {
        lu0(blocks[at(k, k)].as_mut().expect("the diagonal is there"));
        let diagonal = blocks[at(k, k)].clone().expect("the diagonal is there");
        for other in k + 1..side {
            if let Some(b) = &mut blocks[at(k, other)] {
                forward(&diagonal, b);
            }
            if let Some(b) = &mut blocks[at(other, k)] {
                divide(&diagonal, b);
            }
        }
        for i in k + 1..side {
            for j in k + 1..side {
                let (Some(left), Some(above)) = (blocks[at(i, k)].clone(), blocks[at(k, j)].clone()) else {
                    continue;
                };
                modify(&left, &above, blocks[at(i, j)].get_or_insert_with(|| vec![0.0; size * size]));
            }
        }
    }
    blocks
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let side = *BLOCKS;
    let size = *SIZE;
    let at = |row: usize, column: usize| row * side + column;
    let runtime = Runtime::builder().build()?;
    let begun = Instant::now();
    let result = runtime.run(|context| {
        let new = |index: usize| {
            let (row, column) = (index / side, index % side);
            is_filled(row, column).then(|| Data::from(block(row, column)))
        };
        let mut blocks: Vec<Option<Data<[f64]>>> = (0..side * side).map(new).collect();
        for k in 0..side {
            let diagonal = blocks[at(k, k)].as_ref().expect("the diagonal is there");
            context.task().label("lu0").submit(diagonal.write(), |_, mut a| lu0(&mut a));
            for other in k + 1..side {
                if let Some(b) = &blocks[at(k, other)] {
                    let accesses = (diagonal.read(), b.write());
                    context.task().label("fwd").submit(accesses, |_, (a, mut b)| forward(&a, &mut b));
                }
                if let Some(b) = &blocks[at(other, k)] {
                    let accesses = (diagonal.read(), b.write());
                    context.task().label("bdiv").submit(accesses, |_, (a, mut b)| divide(&a, &mut b));
                }
            }
            for i in k + 1..side {
                for j in k + 1..side {
                    if blocks[at(i, k)].is_none() || blocks[at(k, j)].is_none() {
                        continue;
                    }
                    blocks[at(i, j)].get_or_insert_with(|| Data::from(vec![0.0; size * size]));
                    let there =
                        |row, column| blocks[at(row, column)].as_ref().expect("checked or made above");
                    let accesses = (there(i, k).read(), there(k, j).read(), there(i, j).write());
                    context.task().label("bmod").submit(accesses, |_, (l, u, mut c)| modify(&l, &u, &mut c));
                }
            }
        }
        let values = blocks.iter_mut().map(|block| {
            block.as_mut().map(|block| block.get(context).map(|block| block.to_vec())).transpose()
        });
        values.collect::<Result<Vec<Option<Block>>, _>>()
    })??;
    let time = begun.elapsed();
    assert!(result == serial(), "tasks and the serial factors differ");
    let filled = result.iter().flatten().count();
    println!(
        "{filled} of {} blocks: the serial factors, with {} tasks in {time:.3?}",
        side * side,
        runtime.tasks_created()
    );
    Ok(())
}
