//! Barrier after Bruck (ESPGOAL, 5.4): in round s each rank signals the rank 2^s above it and awaits the one 2^s below.
//!
//! `castell launch -n 5 -- target/debug/examples/barrier_dissemination`

use castell::{Buffer, Comm, Failure, Rank, ScopedGraph, Tag};
use std::error::Error;
use std::time::Duration;

fn barrier<'memory>(comm: &Comm) -> Result<ScopedGraph<'memory>, Box<dyn Error>> {
    let (rank, size) = (comm.rank().0, comm.size());
    let mut graph = ScopedGraph::default();
    graph.allocate_scratchpad(2);
    let (out, signal) = (Buffer::scratch(0, 1), Buffer::scratch(1, 1));
    let mut before = None;
    for distance in (0..).map(|round| 1u32 << round).take_while(|&distance| distance < size) {
        let send = graph.send(out, Rank((rank + distance) % size), Tag(0))?;
        let recv = graph.recv(signal, Some(Rank((rank + size - distance) % size)), Some(Tag(0)))?;
        if let Some(before) = before.replace(recv) {
            graph.requires(before, send)?;
            graph.requires(before, recv)?;
        }
    }
    Ok(graph)
}

fn main() -> Result<(), Box<dyn Error>> {
    let comm = Comm::init()?;
    let (rank, size) = (comm.rank().0, comm.size());
    let schedule = barrier(&comm)?.compile()?;
    // Each time another rank is late, and nobody may leave before it has entered: rank 0 compares the times.
    for late in (0..size).rev().take(8) {
        let (mut entered_left, mut all) = ([0f64; 2], vec![0f64; 2 * size as usize]);
        if rank == late {
            std::thread::sleep(Duration::from_millis(10));
        }
        entered_left[0] = castell::host::clock::now_seconds();
        comm.scope(|scope| Ok::<(), Box<dyn Error>>(scope.run(&schedule)?.wait()?))?;
        entered_left[1] = castell::host::clock::now_seconds();
        report(&comm, &entered_left, &mut all)?;
        let entered = all[2 * late as usize];
        assert!(
            rank != 0 || all.chunks(2).all(|times| times[1] >= entered),
            "somebody left before rank {late} entered"
        );
    }
    if rank == 0 {
        println!("barrier of {size}: nobody left before the last one entered");
    }
    comm.finalize();
    Ok(())
}

/// Collects everybody's two times at rank 0.
fn report(comm: &Comm, mine: &[f64], all: &mut [f64]) -> Result<(), Box<dyn Error>> {
    comm.scope(|scope| {
        let mut graph = scope.graph();
        graph.send(scope.share(mine), Rank(0), Tag(1))?;
        if comm.rank() == Rank(0) {
            let all = scope.lend(all);
            for source in 0..comm.size() {
                let place = all.part(16 * u64::from(source), 16).expect("two numbers a rank");
                graph.recv(place, Some(Rank(source)), Some(Tag(1)))?;
            }
        }
        let outcome: Result<(), Failure> = scope.run(&graph.compile()?)?.wait();
        Ok(outcome?)
    })
}
