//! y += a·x, ten times: each time a task halves the vector until a block is small enough, with weak accesses on the way.
//!
//! An iteration's block waits only for the same block of the iteration before: what is weakly declared delays nobody. The
//! benchmark of the scheduler's paper (Marí, 2018), whose task counts are 1 + iterations x (2 x blocks - 1).

use castell::tasks::data::{Data, Part, ReadOnly, ReadWrite};
use castell::tasks::{Context, Runtime};

const LENGTH: usize = 1 << 16;
const BLOCK: usize = 1 << 10;
const ITERATIONS: usize = 10;
const A: f64 = 0.5;

fn axpy(context: &Context<'_>, x: Part<'_, [f64], ReadOnly>, y: Part<'_, [f64], ReadWrite>) {
    let length = x.len();
    if length <= BLOCK {
        context.task().label("axpy").submit((x.read(), y.write()), |_, (x, mut y)| {
            y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y += A * x);
        });
        return;
    }
    context.task().label("halve").submit((x.weak_read(), y.weak_write()), move |context, (x, y)| {
        let half = length / 2;
        axpy(context, x.part(0..half), y.part(0..half));
        axpy(context, x.part(half..length), y.part(half..length));
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let start: Vec<f64> = (0..LENGTH).map(|index| index as f64).collect();
    let result = runtime.run(|context| {
        let (x, mut y) = (Data::from(start.clone()), Data::from(start.clone()));
        for _ in 0..ITERATIONS {
            axpy(context, x.all().read_only(), y.all());
        }
        context.taskwait()?;
        let (blocks, created) = (LENGTH / BLOCK, runtime.tasks_created());
        assert_eq!(created, (1 + ITERATIONS * (2 * blocks - 1)) as u64);
        y.get(context).map(|y| y.to_vec())
    })??;

    let mut serial = start.clone();
    for _ in 0..ITERATIONS {
        serial.iter_mut().zip(&start).for_each(|(y, x)| *y += A * x);
    }
    assert!(result == serial, "tasks and the serial loop differ");
    println!("{LENGTH} elements, {ITERATIONS} iterations: the serial loop's result");
    Ok(())
}
