//! Heat in a plate by Gauss-Seidel: every block waits for the block above and the one to the left in the same sweep, and for
//! those below and to the right in the sweep before. The sweeps overlap in a wave, and the result is the serial one, bit by
//! bit.

use castell::tasks::Runtime;
use castell::tasks::data::Data;

const BLOCKS: usize = 6;
const SIZE: usize = 16;
const ORDER: usize = BLOCKS * SIZE;
const SWEEPS: usize = 20;

/// The plate's border is cold, but for the upper edge.
const HOT: f64 = 100.0;

/// The neighbours of a block: above, left, right, below; none beyond the plate.
type Around<'a> = [Option<&'a [f64]>; 4];

fn sweep(block: &mut [f64], [above, left, right, below]: Around<'_>) {
    let last = SIZE - 1;
    for row in 0..SIZE {
        for column in 0..SIZE {
            let at = row * SIZE + column;
            let up = if row > 0 {
                block[at - SIZE]
            } else {
                above.map_or(HOT, |above| above[last * SIZE + column])
            };
            let west =
                if column > 0 { block[at - 1] } else { left.map_or(0.0, |left| left[row * SIZE + last]) };
            let east =
                if column < last { block[at + 1] } else { right.map_or(0.0, |right| right[row * SIZE]) };
            let down = if row < last { block[at + SIZE] } else { below.map_or(0.0, |below| below[column]) };
            block[at] = 0.25 * (up + west + east + down);
        }
    }
}

fn serial() -> Vec<f64> {
    let mut plate = vec![0.0; ORDER * ORDER];
    for _ in 0..SWEEPS {
        for row in 0..ORDER {
            for column in 0..ORDER {
                let at = row * ORDER + column;
                let up = if row > 0 { plate[at - ORDER] } else { HOT };
                let west = if column > 0 { plate[at - 1] } else { 0.0 };
                let east = if column + 1 < ORDER { plate[at + 1] } else { 0.0 };
                let down = if row + 1 < ORDER { plate[at + ORDER] } else { 0.0 };
                plate[at] = 0.25 * (up + west + east + down);
            }
        }
    }
    plate
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let blocks = runtime.run(|context| {
        let mut blocks: Vec<Data<[f64]>> =
            (0..BLOCKS * BLOCKS).map(|_| Data::from(vec![0.0; SIZE * SIZE])).collect();
        for _ in 0..SWEEPS {
            for at in 0..BLOCKS * BLOCKS {
                let (row, column) = (at / BLOCKS, at % BLOCKS);
                let places = [
                    (row > 0).then(|| at - BLOCKS),
                    (column > 0).then(|| at - 1),
                    (column + 1 < BLOCKS).then(|| at + 1),
                    (row + 1 < BLOCKS).then(|| at + BLOCKS),
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

    let serial = serial();
    for row in 0..ORDER {
        for column in 0..ORDER {
            let block = &blocks[row / SIZE * BLOCKS + column / SIZE];
            let value = block[row % SIZE * SIZE + column % SIZE];
            assert!(value == serial[row * ORDER + column], "({row}, {column}): {value}");
        }
    }
    println!("{SWEEPS} sweeps over {ORDER} x {ORDER} points: the serial result, bit by bit");
    Ok(())
}
