//! Heat in a plate by Gauss-Seidel: every block waits for the block above and the one to the left in the same sweep, and for
//! those below and to the right in the sweep before. The sweeps overlap in a wave, and the result is the serial one, bit by
//! bit.

#[path = "argument.rs"]
mod argument;

use argument::argument;
use castell::tasks::Runtime;
use castell::tasks::data::Data;
use std::sync::LazyLock;
use std::time::Instant;

/// Blocks a side, points a side of a block, and sweeps: `tasks_heat [BLOCKS [SIZE [SWEEPS]]]`.
static BLOCKS: LazyLock<usize> = LazyLock::new(|| argument(1, 6));
static SIZE: LazyLock<usize> = LazyLock::new(|| argument(2, 16));
static SWEEPS: LazyLock<usize> = LazyLock::new(|| argument(3, 20));
static ORDER: LazyLock<usize> = LazyLock::new(|| *BLOCKS * *SIZE);

/// The plate's border is cold, but for the upper edge.
const HOT: f64 = 100.0;

/// The neighbours of a block: above, left, right, below; none beyond the plate.
type Around<'a> = [Option<&'a [f64]>; 4];

fn sweep(block: &mut [f64], [above, left, right, below]: Around<'_>) {
    let size = *SIZE;
    let last = size - 1;
    for row in 0..size {
        for column in 0..size {
            let at = row * size + column;
            let up = if row > 0 {
                block[at - size]
            } else {
                above.map_or(HOT, |above| above[last * size + column])
            };
            let west =
                if column > 0 { block[at - 1] } else { left.map_or(0.0, |left| left[row * size + last]) };
            let east =
                if column < last { block[at + 1] } else { right.map_or(0.0, |right| right[row * size]) };
            let down = if row < last { block[at + size] } else { below.map_or(0.0, |below| below[column]) };
            block[at] = 0.25 * (up + west + east + down);
        }
    }
}

fn serial() -> Vec<f64> {
    let order = *ORDER;
    let sweeps = *SWEEPS;
    let mut plate = vec![0.0; order * order];
    for _ in 0..sweeps {
        for row in 0..order {
            for column in 0..order {
                let at = row * order + column;
                let up = if row > 0 { plate[at - order] } else { HOT };
                let west = if column > 0 { plate[at - 1] } else { 0.0 };
                let east = if column + 1 < order { plate[at + 1] } else { 0.0 };
                let down = if row + 1 < order { plate[at + order] } else { 0.0 };
                plate[at] = 0.25 * (up + west + east + down);
            }
        }
    }
    plate
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let side = *BLOCKS;
    let size = *SIZE;
    let order = *ORDER;
    let sweeps = *SWEEPS;
    let runtime = Runtime::builder().build()?;
    let begun = Instant::now();
    let blocks = runtime.run(|context| {
        let mut blocks: Vec<Data<[f64]>> =
            (0..side * side).map(|_| Data::from(vec![0.0; size * size])).collect();
        for _ in 0..sweeps {
            for at in 0..side * side {
                let (row, column) = (at / side, at % side);
                let places = [
                    (row > 0).then(|| at - side),
                    (column > 0).then(|| at - 1),
                    (column + 1 < side).then(|| at + 1),
                    (row + 1 < side).then(|| at + side),
                ];
                let neighbours: Vec<_> = places.iter().flatten().map(|&place| blocks[place].read()).collect();
                let present = places.map(|place| place.is_some());
                let accesses = (blocks[at].write(), neighbours);
                context.task().label("sweep").submit(accesses, move |_, (mut block, neighbours)| {
                    let mut there = neighbours.iter();
                    let around = present.map(|is| if is { there.next().map(|block| &**block) } else { None });
                    sweep(&mut block, around);
                });
            }
        }
        blocks
            .iter_mut()
            .map(|block| block.get(context).map(|block| block.to_vec()))
            .collect::<Result<Vec<_>, _>>()
    })??;
    let time = begun.elapsed();

    let serial = serial();
    for row in 0..order {
        for column in 0..order {
            let block = &blocks[row / size * side + column / size];
            let value = block[row % size * size + column % size];
            assert!(value == serial[row * order + column], "({row}, {column}): {value}");
        }
    }
    println!("{sweeps} sweeps over {order} x {order} points: the serial result, bit by bit, in {time:.3?}");
    Ok(())
}
