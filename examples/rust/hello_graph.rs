//! A graph of three operations: each rank greets the next one, doubles what it hears, and writes down when it had it.
//!
//! `castell launch -n 4 -- target/debug/examples/hello_graph`

use castell::{Arithmetic, Comm, ElementType, Operator, Rank, Tag};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let comm = Comm::init()?;
    let (rank, size) = (comm.rank().0, comm.size());
    let (next, previous) = (Rank((rank + 1) % size), Rank((rank + size - 1) % size));
    let (greeting, mut heard, mut when) = ([100 + u64::from(rank)], [0u64], [0f64]);

    comm.scope(|scope| -> Result<(), Box<dyn Error>> {
        let (heard, when) = (scope.lend(&mut heard), scope.lend(&mut when));
        let add = Arithmetic::new(Operator::Add, ElementType::U64)?;
        let mut graph = scope.graph();
        graph.send(scope.share(&greeting), next, Tag(0))?;
        let recv = graph.recv(heard, Some(previous), Some(Tag(0)))?;
        let double = graph.local(heard, heard, heard, add)?;
        let stamp = graph.wtime(when)?;
        graph.requires(recv, double)?;
        graph.requires(double, stamp)?;
        graph.set_label(recv, "greeting")?;
        Ok(scope.run(&graph.compile()?)?.wait()?)
    })?;

    assert_eq!(heard, [2 * (100 + u64::from(previous.0))]);
    println!("rank {rank} of {size} heard {} from {previous} at {:.6} s", heard[0], when[0]);
    comm.finalize();
    Ok(())
}
