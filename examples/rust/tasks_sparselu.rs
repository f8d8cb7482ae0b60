//! LU of a matrix most of whose blocks are empty: which tasks there are is known only while they are created, and blocks come
//! into being on the way.

use castell::tasks::Runtime;
use castell::tasks::data::Data;

const BLOCKS: usize = 12;
const SIZE: usize = 12;

type Block = Vec<f64>;

/// The pattern of blocks that are there at the beginning.
fn is_filled(row: usize, column: usize) -> bool {
    row == column || row.abs_diff(column) == 1 || (row.is_multiple_of(3) && column.is_multiple_of(3))
}

fn block(row: usize, column: usize) -> Block {
    let value = |index: usize| {
        let (i, j) = (row * SIZE + index / SIZE, column * SIZE + index % SIZE);
        if i == j { 100.0 } else { 1.0 / (1 + i + 2 * j) as f64 }
    };
    (0..SIZE * SIZE).map(value).collect()
}

/// The diagonal block's own factors.
fn lu0(a: &mut [f64]) {
    for k in 0..SIZE {
        for i in k + 1..SIZE {
            a[i * SIZE + k] /= a[k * SIZE + k];
            for j in k + 1..SIZE {
                a[i * SIZE + j] -= a[i * SIZE + k] * a[k * SIZE + j];
            }
        }
    }
}

/// A block to the right of the diagonal.
fn forward(diagonal: &[f64], b: &mut [f64]) {
    for k in 0..SIZE {
        for i in k + 1..SIZE {
            for j in 0..SIZE {
                b[i * SIZE + j] -= diagonal[i * SIZE + k] * b[k * SIZE + j];
            }
        }
    }
}

/// A block below the diagonal.
fn divide(diagonal: &[f64], b: &mut [f64]) {
    for i in 0..SIZE {
        for k in 0..SIZE {
            b[i * SIZE + k] /= diagonal[k * SIZE + k];
            for j in k + 1..SIZE {
                b[i * SIZE + j] -= b[i * SIZE + k] * diagonal[k * SIZE + j];
            }
        }
    }
}

/// A block inside.
fn modify(left: &[f64], above: &[f64], c: &mut [f64]) {
    for i in 0..SIZE {
        for j in 0..SIZE {
            for k in 0..SIZE {
                c[i * SIZE + j] -= left[i * SIZE + k] * above[k * SIZE + j];
            }
        }
    }
}

fn serial() -> Vec<Option<Block>> {
    let at = |row: usize, column: usize| row * BLOCKS + column;
    let new = |index: usize| {
        let (row, column) = (index / BLOCKS, index % BLOCKS);
        is_filled(row, column).then(|| block(row, column))
    };
    let mut blocks: Vec<Option<Block>> = (0..BLOCKS * BLOCKS).map(new).collect();
    for k in 0..BLOCKS {
        lu0(blocks[at(k, k)].as_mut().expect("the diagonal is there"));
        let diagonal = blocks[at(k, k)].clone().expect("the diagonal is there");
        for other in k + 1..BLOCKS {
            if let Some(b) = &mut blocks[at(k, other)] {
                forward(&diagonal, b);
            }
            if let Some(b) = &mut blocks[at(other, k)] {
                divide(&diagonal, b);
            }
        }
        for i in k + 1..BLOCKS {
            for j in k + 1..BLOCKS {
                let (Some(left), Some(above)) = (blocks[at(i, k)].clone(), blocks[at(k, j)].clone()) else {
                    continue;
                };
                modify(&left, &above, blocks[at(i, j)].get_or_insert_with(|| vec![0.0; SIZE * SIZE]));
            }
        }
    }
    blocks
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = |row: usize, column: usize| row * BLOCKS + column;
    let runtime = Runtime::builder().build()?;
    let result = runtime.run(|context| {
        let new = |index: usize| {
            let (row, column) = (index / BLOCKS, index % BLOCKS);
            is_filled(row, column).then(|| Data::from(block(row, column)))
        };
        let mut blocks: Vec<Option<Data<[f64]>>> = (0..BLOCKS * BLOCKS).map(new).collect();
        for k in 0..BLOCKS {
            let diagonal = blocks[at(k, k)].as_ref().expect("the diagonal is there");
            context.task().label("lu0").submit(diagonal.write(), |_, mut a| lu0(&mut a));
            for other in k + 1..BLOCKS {
                if let Some(b) = &blocks[at(k, other)] {
                    let accesses = (diagonal.read(), b.write());
                    context.task().label("fwd").submit(accesses, |_, (a, mut b)| forward(&a, &mut b));
                }
                if let Some(b) = &blocks[at(other, k)] {
                    let accesses = (diagonal.read(), b.write());
                    context.task().label("bdiv").submit(accesses, |_, (a, mut b)| divide(&a, &mut b));
                }
            }
            for i in k + 1..BLOCKS {
                for j in k + 1..BLOCKS {
                    if blocks[at(i, k)].is_none() || blocks[at(k, j)].is_none() {
                        continue;
                    }
                    blocks[at(i, j)].get_or_insert_with(|| Data::from(vec![0.0; SIZE * SIZE]));
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
    assert!(result == serial(), "tasks and the serial factors differ");
    let filled = result.iter().flatten().count();
    println!(
        "{filled} of {} blocks: the serial factors, with {} tasks",
        BLOCKS * BLOCKS,
        runtime.tasks_created()
    );
    Ok(())
}
