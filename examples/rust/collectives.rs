//! Collective calls: a sum that all get, and one that goes on while the program computes.

use castell::{Call, Comm, Reduction};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = Comm::init()?;
    let world = comm.world();
    let (rank, size) = (world.rank().0, world.size());

    // All ranks get the highest rank and the sum of all.
    let mut highest = [0];
    world.allreduce(&[rank], &mut highest, Reduction::Maximum)?;
    assert_eq!(highest, [size - 1]);

    // A vector of each rank, summed up while the program does something else.
    let mine: Vec<f64> = (0..10_000).map(|at| f64::from(rank) + f64::from(at)).collect();
    let mut sums = vec![0.0; mine.len()];
    let busy = world.scope(|scope| -> Result<f64, castell::CallError> {
        let request = scope.start(Call::allreduce(&mine, &mut sums, Reduction::Sum))?;
        let busy = (1..100_000).map(|term| 1.0 / f64::from(term)).sum();
        request.wait()?;
        Ok(busy)
    })?;
    assert!(busy > 12.0);
    let ranks = f64::from(size * (size - 1) / 2);
    assert!(sums.iter().zip(0..).all(|(sum, at)| *sum == ranks + f64::from(size) * f64::from(at)));

    // Halves of the ranks have calls of their own.
    let half = world.split(Some(rank % 2), 0)?.expect("every rank has a colour");
    let mut members = vec![0; half.size() as usize];
    half.allgather(&[rank], &mut members)?;
    assert!(members.iter().all(|member| member % 2 == rank % 2));

    if rank == 0 {
        println!("{size} ranks: {} in the half of rank 0", members.len());
    }
    comm.finalize();
    Ok(())
}
