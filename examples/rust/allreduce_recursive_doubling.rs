//! The sum over all ranks, known to all of them: recursive doubling, with local operations on the scratchpad.
//!
//! `castell launch -n 6 -- target/debug/examples/allreduce_recursive_doubling`

use castell::goal::graph::GraphError;
use castell::{Arithmetic, Buffer, Comm, ElementType, Operator, Rank, ScopedGraph, Source, Tag, Vertex};
use std::error::Error;

const EXCHANGE: Tag = Tag(0);
const OUTSIDE: Tag = Tag(1);

/// A graph under construction: the sum so far is at offset 0 of the scratchpad, what arrives goes behind it.
struct Allreduce<'env> {
    graph: ScopedGraph<'env>,
    bytes: u64,
    /// Offset of the next message.
    place: u64,
    /// What made the present sum.
    last: Vertex,
}

impl<'env> Allreduce<'env> {
    fn new(input: Source<'env>, bytes: u64) -> Result<Allreduce<'env>, Box<dyn Error>> {
        let mut graph = ScopedGraph::default();
        let copy = Arithmetic::new(Operator::Copy, ElementType::F64)?;
        let last = graph.local(input, input, Buffer::scratch(0, bytes), copy)?;
        Ok(Allreduce { graph, bytes, place: bytes, last })
    }

    fn send(&mut self, dest: Rank, tag: Tag) -> Result<Vertex, GraphError> {
        let send = self.graph.send(Buffer::scratch(0, self.bytes), dest, tag)?;
        self.graph.requires(self.last, send)?;
        Ok(send)
    }

    fn receive_and_add(&mut self, source: Rank, tag: Tag) -> Result<Vertex, Box<dyn Error>> {
        let (sum, arriving) = (Buffer::scratch(0, self.bytes), Buffer::scratch(self.place, self.bytes));
        let add = Arithmetic::new(Operator::Add, ElementType::F64)?;
        let recv = self.graph.recv(arriving, Some(source), Some(tag))?;
        let added = self.graph.local(sum, arriving, sum, add)?;
        self.graph.requires(recv, added)?;
        self.graph.requires(self.last, added)?;
        self.place += self.bytes;
        Ok(added)
    }

    /// The `inner` lowest ranks, a power of two, exchange; the others hand over before and get the sum afterwards.
    fn exchange(&mut self, rank: u32, size: u32) -> Result<(), Box<dyn Error>> {
        let inner = 1 << size.ilog2();
        if rank >= inner {
            let partner = Rank(rank - inner);
            let handed_over = self.send(partner, OUTSIDE)?;
            self.last = self.graph.recv(Buffer::scratch(0, self.bytes), Some(partner), Some(OUTSIDE))?;
            self.graph.requires(handed_over, self.last)?;
            return Ok(());
        }
        let outsider = Some(Rank(rank + inner)).filter(|outsider| outsider.0 < size);
        if let Some(outsider) = outsider {
            self.last = self.receive_and_add(outsider, OUTSIDE)?;
        }
        for mask in (0..inner.ilog2()).map(|round| 1 << round) {
            let sent = self.send(Rank(rank ^ mask), EXCHANGE)?;
            let added = self.receive_and_add(Rank(rank ^ mask), EXCHANGE)?;
            self.graph.requires(sent, added)?; // the addition changes what is being sent
            self.last = added;
        }
        if let Some(outsider) = outsider {
            self.send(outsider, OUTSIDE)?;
        }
        Ok(())
    }

    fn copy_out(mut self, result: Buffer<'env>) -> Result<ScopedGraph<'env>, Box<dyn Error>> {
        let sum = Buffer::scratch(0, self.bytes);
        let copied =
            self.graph.local(sum, sum, result, Arithmetic::new(Operator::Copy, ElementType::F64)?)?;
        self.graph.requires(self.last, copied)?;
        self.graph.allocate_scratchpad(self.place);
        Ok(self.graph)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let comm = Comm::init()?;
    let (rank, size) = (comm.rank().0, comm.size());
    let input: Vec<f64> = (0..1000).map(|i| f64::from((rank + 1) * i)).collect();
    let mut sum = vec![0.0; input.len()];

    comm.scope(|scope| -> Result<(), Box<dyn Error>> {
        let mut allreduce = Allreduce::new(scope.share(&input), 8 * input.len() as u64)?;
        allreduce.exchange(rank, size)?;
        let schedule = allreduce.copy_out(scope.lend(&mut sum))?.compile()?;
        Ok(scope.run(&schedule)?.wait()?)
    })?;

    let ranks = f64::from(size * (size + 1) / 2);
    assert!(sum.iter().zip(0..).all(|(&sum, i)| sum == ranks * f64::from(i)), "rank {rank} has another sum");
    if rank == 0 {
        println!("allreduce of {size}: everybody has the sum");
    }
    comm.finalize();
    Ok(())
}
