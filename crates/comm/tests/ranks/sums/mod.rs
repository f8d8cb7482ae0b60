//! Calls of every operation on the same data: numbers whose sums show in which order they were added.

use crate::oracle::{Matrix, Sample};
use castell_base::Rank;
use castell_comm::Communicator;
use castell_comm::collective::{Call, Operation, Reduction};

/// Numbers whose sums depend on the order in which they are added.
pub fn number(rank: u32, at: u64) -> f64 {
    let [a, b, ..] = Matrix::contribution(rank, at);
    f64::from(a) * power((b % 40) as i32 - 20)
}

/// A rank's, for calls with up to so many for each rank: made once for many calls.
pub fn numbers(world: &Communicator, count: usize) -> Vec<f64> {
    (0..count as u64 * u64::from(world.size())).map(|at| number(world.rank().0, at)).collect()
}

/// 2 to this power, from its bits: tests make millions of them.
pub fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A call with `count` numbers, or with so many for each rank where the operation has blocks.
pub fn call<'a>(
    operation: Operation,
    (send, recv): (&'a [f64], &'a mut [f64]),
    count: usize,
    root: Rank,
) -> Call<'a> {
    match operation {
        Operation::Barrier => Call::barrier(),
        Operation::Broadcast => {
            recv[..count].copy_from_slice(&send[..count]);
            Call::broadcast(&mut recv[..count], root)
        }
        Operation::Gather => Call::gather(&send[..count], recv, root),
        Operation::Scatter => Call::scatter(send, &mut recv[..count], root),
        Operation::Allgather => Call::allgather(&send[..count], recv),
        Operation::Reduce => Call::reduce(&send[..count], &mut recv[..count], Reduction::Sum, root),
        Operation::Allreduce => Call::allreduce(&send[..count], &mut recv[..count], Reduction::Sum),
        Operation::ReduceScatter => Call::reduce_scatter_block(send, &mut recv[..count], Reduction::Sum),
        Operation::Alltoall => Call::alltoall(send, recv),
        Operation::Scan => Call::scan(&send[..count], &mut recv[..count], Reduction::Sum),
        Operation::Exscan => Call::exscan(&send[..count], &mut recv[..count], Reduction::Sum),
        _ => unreachable!("not among neighbours"),
    }
}

/// What has to be the same to the last bit.
pub fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}
