//! A = L·Lᵀ, tile by tile: the dependences between tiles are the whole synchronisation.
//!
//! With n tiles a row, n + n(n-1) + n(n-1)(n-2)/6 tasks. The same on OpenBLAS, in C: examples/tasks/cholesky.c.

use castell::tasks::Runtime;
use castell::tasks::data::Data;

const TILES: usize = 8;
const SIZE: usize = 24;
const ORDER: usize = TILES * SIZE;

/// Column-major within the tile: element (row, column) at `column * SIZE + row`.
type Tile = Vec<f64>;

/// The diagonal tile's own factor.
fn factor(a: &mut [f64]) {
    for column in 0..SIZE {
        for before in 0..column {
            let scale = a[before * SIZE + column];
            for row in column..SIZE {
                a[column * SIZE + row] -= scale * a[before * SIZE + row];
            }
        }
        let root = a[column * SIZE + column].sqrt();
        a[column * SIZE + column..(column + 1) * SIZE].iter_mut().for_each(|value| *value /= root);
    }
}

/// b becomes b·L⁻ᵀ.
fn solve(diagonal: &[f64], b: &mut [f64]) {
    for column in 0..SIZE {
        for before in 0..column {
            let scale = diagonal[before * SIZE + column];
            for row in 0..SIZE {
                b[column * SIZE + row] -= scale * b[before * SIZE + row];
            }
        }
        let pivot = diagonal[column * SIZE + column];
        b[column * SIZE..(column + 1) * SIZE].iter_mut().for_each(|value| *value /= pivot);
    }
}

/// c becomes c - a·bᵀ.
fn update(a: &[f64], b: &[f64], c: &mut [f64]) {
    for column in 0..SIZE {
        for inner in 0..SIZE {
            let scale = b[inner * SIZE + column];
            for row in 0..SIZE {
                c[column * SIZE + row] -= scale * a[inner * SIZE + row];
            }
        }
    }
}

/// Symmetric, and far enough from singular.
fn element(row: usize, column: usize) -> f64 {
    let distance = row.abs_diff(column) as f64;
    if row == column { ORDER as f64 } else { 1.0 / (1.0 + distance) }
}

fn tile(row: usize, column: usize) -> Tile {
    let at = |index: usize| element(row * SIZE + index % SIZE, column * SIZE + index / SIZE);
    (0..SIZE * SIZE).map(at).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let lower = runtime.run(|context| {
        let mut tiles: Vec<Vec<Data<[f64]>>> =
            (0..TILES).map(|row| (0..=row).map(|column| Data::from(tile(row, column))).collect()).collect();
        for k in 0..TILES {
            let last = TILES as i32;
            let task = context.task().label("potrf").priority(last);
            task.submit(tiles[k][k].write(), |_, mut a| factor(&mut a));
            for i in k + 1..TILES {
                let accesses = (tiles[k][k].read(), tiles[i][k].write());
                context.task().label("trsm").priority(1).submit(accesses, |_, (l, mut b)| solve(&l, &mut b));
            }
            for i in k + 1..TILES {
                for j in k + 1..i {
                    let accesses = (tiles[i][k].read(), tiles[j][k].read(), tiles[i][j].write());
                    context.task().label("gemm").submit(accesses, |_, (a, b, mut c)| update(&a, &b, &mut c));
                }
                let accesses = (tiles[i][k].read(), tiles[i][i].write());
                context.task().label("syrk").submit(accesses, |_, (a, mut c)| update(&a, &a, &mut c));
            }
        }
        context.taskwait()?;
        let created = runtime.tasks_created();
        assert_eq!(created as usize, 1 + TILES + TILES * (TILES - 1) + TILES * (TILES - 1) * (TILES - 2) / 6);
        let rows = tiles
            .iter_mut()
            .map(|row| row.iter_mut().map(|tile| tile.get(context).map(|tile| tile.to_vec())).collect());
        rows.collect::<Result<Vec<Vec<Tile>>, castell::tasks::TaskError>>()
    })??;

    let l = |row: usize, column: usize| {
        if row < column { 0.0 } else { lower[row / SIZE][column / SIZE][column % SIZE * SIZE + row % SIZE] }
    };
    let mut error: f64 = 0.0;
    for row in 0..ORDER {
        for column in 0..=row {
            let product: f64 = (0..=column).map(|inner| l(row, inner) * l(column, inner)).sum();
            error = error.max((product - element(row, column)).abs());
        }
    }
    assert!(error < 1e-9, "L times its transpose differs from A by {error}");
    println!("{TILES} x {TILES} tiles of {SIZE}: L times its transpose is A up to {error:.1e}");
    Ok(())
}
