//! What copies of memory cost that ranks share.

use crate::collective::CallError;
use crate::engine::Comm;
use crate::pool::AllocationError;
use castell_base::Rank;
use castell_host::clock::now_ns;

/// Of how many times the fastest counts.
const TIMES: usize = 9;

/// Copies could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CopiesError {
    /// There is no memory that all ranks can read.
    #[error(transparent)]
    Memory(#[from] AllocationError),
    /// The ranks could not wait for each other.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// What it takes this rank to copy so many bytes that it has just written itself, and as many that the next rank has just written, while
/// all ranks do the same; nanoseconds, the fastest of nine times. A collective call of the world.
///
/// # Errors
/// The job has no memory that all ranks can read, or a rank failed.
pub fn copies(comm: &Comm, bytes: usize) -> Result<[f64; 2], CopiesError> {
    let world = comm.world();
    let mut source = comm.allocate::<u8>(bytes)?;
    let mut target = vec![0_u8; bytes];
    let own = comm.job().in_pool(comm.rank(), source.as_ptr(), bytes).expect("allocated there");
    let mut offsets = vec![0_u64; comm.size() as usize];
    world.allgather(&[own], &mut offsets)?;
    let next = Rank((comm.rank().0 + 1) % comm.size());
    let others = comm.job().of_pool(next, offsets[next.index()], bytes);
    let mut fastest = [f64::INFINITY; 2];
    for time in 0..TIMES {
        for (which, fastest) in fastest.iter_mut().enumerate() {
            source.fill(time as u8);
            world.barrier()?;
            let from = if which == 0 { source.as_ptr() } else { others.cast_const() };
            let start = now_ns();
            // SAFETY: both are so long; their owners write to them before the one barrier and behind the other.
            unsafe { std::ptr::copy_nonoverlapping(from, std::hint::black_box(target.as_mut_ptr()), bytes) };
            *fastest = fastest.min((now_ns() - start) as f64);
            world.barrier()?;
        }
    }
    Ok(fastest)
}
