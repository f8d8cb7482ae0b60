//! Messages or collective calls between the ranks of a job, for counting what they cost: `experiments/cosh-5-isolation`.
//!
//! `castell launch -n 16 --isolate 4 -- isolation CALLS WHAT:BYTES` does one thing so often, such as `barrier:0`: what two runs differ in
//! is the calls' part of their instructions and system calls, not the programs' start.

use castell_base::Rank;
use castell_bench::measure;
use castell_comm::Comm;
use castell_comm::collective::Reduction;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Calls it so often, as a rank of the group.
fn call(comm: &Comm, what: &str, bytes: u64, calls: u32) -> Outcome<()> {
    let (world, ranks) = (comm.world(), comm.size() as usize);
    let words = (bytes as usize / 8).max(1);
    let (one, mut all) = (vec![1u64; words], vec![0u64; words * ranks]);
    let each = all.clone();
    let mut into = one.clone();
    if what == "pingpong" {
        if comm.rank().0 < 2 {
            measure::ping_pongs(comm, bytes, calls.div_ceil(measure::ROUND_TRIPS))?;
        }
        return Ok(());
    }
    for _ in 0..calls {
        match what {
            "barrier" => world.barrier(),
            "bcast" => world.broadcast(&mut into, Rank(0)),
            "allreduce" => world.allreduce(&one, &mut into, Reduction::Sum),
            "allgather" => world.allgather(&one, &mut all),
            "alltoall" => world.alltoall(&each, &mut all),
            other => return Err(format!("nobody knows what {other} is").into()),
        }?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (calls, what, bytes) = match &arguments[1..] {
        [calls, what] => what.split_once(':').map(|(what, bytes)| (calls, what, bytes)),
        _ => None,
    }
    .ok_or("usage: isolation CALLS WHAT:BYTES, such as isolation 100 barrier:0")?;
    let comm = Comm::init()?;
    call(&comm, what, bytes.parse()?, calls.parse()?)?;
    comm.finalize();
    Ok(())
}
