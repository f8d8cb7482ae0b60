//! Collective algorithms and multicasts, run again and again in memory of their own.

use super::{Samples, place_of};
use castell_base::{Rank, Tag};
use castell_collectives::collective::{Collective, Memory};
use castell_collectives::decision::Operation;
use castell_comm::Comm;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::schedule::Schedule;
use castell_host::clock::now_ns;
use std::error::Error;
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One rank's part of a collective by one algorithm, with buffers of its own. Reductions are sums: of doubles where the
/// elements have 8 bytes, else of bytes.
pub struct Repeated {
    schedule: Arc<Schedule>,
    /// Input, output and temporary memory, whose addresses the schedule holds.
    memory: [Box<[u64]>; 3],
    /// Which of them has what the rank sends, if one has.
    sent: Option<usize>,
}

impl Repeated {
    /// The part of `comm`'s rank.
    ///
    /// # Errors
    /// A collective for another number of ranks, a graph that is full.
    pub fn new(comm: &Comm, operation: Operation, collective: &Collective) -> Outcome<Repeated> {
        let shape = collective.shape();
        if shape.ranks != comm.size() {
            return Err(format!("a collective of {} ranks in a group of {}", shape.ranks, comm.size()).into());
        }
        let element = if shape.element_bytes == 8 { ElementType::F64 } else { ElementType::U8 };
        let add = Arithmetic::new(Operator::Add, element)?;
        let [input, output] = elements(operation, shape.count, shape.ranks);
        let temporary = collective.temporary_bytes(comm.rank(), false)?;
        // Ones, in real memory: the kernel's page of zeros would be read at no cost.
        let words = |bytes: u64| vec![1.0_f64.to_bits(); bytes.div_ceil(8) as usize].into_boxed_slice();
        let mut memory = [input * shape.element_bytes, output * shape.element_bytes, temporary].map(words);
        let [input, output, temporary] =
            memory.each_mut().map(|words| Place::user(words.as_mut_ptr() as u64));
        let place = Memory { input, output, temporary, in_place: false, combine: &add };
        let mut graph = Graph::new();
        collective.weave(comm.rank(), &place, &mut graph)?;
        let sent = match operation {
            Operation::Broadcast => (comm.rank() == shape.root).then_some(1),
            Operation::Scatter => (comm.rank() == shape.root).then_some(0),
            _ => Some(0),
        };
        Ok(Repeated { schedule: Arc::new(graph.compile()?), memory, sent })
    }

    /// Writes to every cache line that the rank sends, as a program does that computes what it sends.
    pub fn write_input(&mut self) {
        const WORDS_OF_LINE: usize = 8;
        if let Some(sent) = self.sent {
            for line in self.memory[sent].chunks_mut(WORDS_OF_LINE) {
                line[0] = std::hint::black_box(line[0]);
            }
        }
    }

    /// Runs it so many times, each run behind the one before; nanoseconds a run, as this rank sees it.
    ///
    /// # Errors
    /// A run failed.
    pub fn batch(&self, comm: &Comm, runs: u32) -> Outcome<f64> {
        let start = now_ns();
        for _ in 0..runs {
            // SAFETY: the schedule names this value's memory only, which nothing else uses and which stays where it is; the
            // run has ended when `execute` returns, also where it failed.
            unsafe { comm.execute(&self.schedule) }??;
        }
        Ok((now_ns() - start) as f64 / f64::from(runs.max(1)))
    }
}

/// Elements of a rank's input and output where each vector or block has `count`.
fn elements(operation: Operation, count: u64, ranks: u32) -> [u64; 2] {
    let all = count * u64::from(ranks);
    match operation {
        Operation::Gather | Operation::Allgather => [count, all],
        Operation::Scatter | Operation::ReduceScatter => [all, count],
        Operation::Alltoall => [all, all],
        _ => [count, count],
    }
}

/// A message from rank 0 to each of some other ranks, sent one after the other without waiting: what the thesis' model
/// is fitted to (section 4.3). All clocks are this host's one, so that an arrival is seen where it happens.
pub struct Multicast {
    schedule: Arc<Schedule>,
    /// Before the first send, or behind the receive: seconds.
    stamp: Box<f64>,
    _memory: Box<[u64]>,
}

impl Multicast {
    /// The part of `comm`'s rank in messages of `bytes` to ranks 1 to `peers`.
    ///
    /// # Errors
    /// A graph that is full.
    pub fn new(comm: &Comm, bytes: u64, peers: u32) -> Outcome<Multicast> {
        let mut stamp = Box::new(0.0);
        let mut memory = vec![1_u64; bytes.div_ceil(8) as usize].into_boxed_slice();
        let place = Place::user(memory.as_mut_ptr() as u64);
        let mut graph = Graph::new();
        let me = comm.rank();
        if me == Rank(0) {
            let start = graph.wtime(place_of(&mut *stamp))?;
            for peer in (1..=peers).map(Rank) {
                let send = graph.send(place, bytes, peer, Tag(0))?;
                graph.requires(start, send)?;
            }
        } else if me.0 <= peers {
            let recv = graph.recv(place, bytes, Some(Rank(0)), Some(Tag(0)))?;
            let end = graph.wtime(place_of(&mut *stamp))?;
            graph.requires(recv, end)?;
        }
        Ok(Multicast { schedule: Arc::new(graph.compile()?), stamp, _memory: memory })
    }

    /// Runs it once; this rank's time stamp: of rank 0 before the first send, of the others behind their receive. Nanoseconds on
    /// the host's clock; 0 for ranks that have no part.
    ///
    /// # Errors
    /// The run failed.
    pub fn stamp_ns(&mut self, comm: &Comm) -> Outcome<f64> {
        // SAFETY: the schedule names this value's memory only, which nothing else uses and which stays where it is.
        unsafe { comm.execute(&self.schedule) }??;
        let stamp = std::ptr::from_ref(&*self.stamp);
        // SAFETY: a valid, aligned number; read as the run has written it.
        Ok(1e9 * unsafe { stamp.read_volatile() })
    }
}

/// Sums of vectors of doubles with `bytes` bytes into others, as collectives do them: nanoseconds of one, each the mean over
/// a batch.
///
/// # Errors
/// A run failed.
pub fn reductions(comm: &Comm, bytes: u64, samples: u32) -> Samples {
    const IN_A_ROW: u32 = 16;
    let mut memory = [1.0_f64, 0.0].map(|value| vec![value; bytes.div_ceil(8) as usize]);
    let [from, to] = memory.each_mut().map(|vector| Place::user(vector.as_mut_ptr() as u64));
    let add = Arithmetic::new(Operator::Add, ElementType::F64)?;
    let mut graph = Graph::new();
    let mut before = None;
    for _ in 0..IN_A_ROW {
        let sum = graph.local(from, to, to, add, bytes / 8)?;
        if let Some(before) = before.replace(sum) {
            graph.requires(before, sum)?;
        }
    }
    let taken = super::run_and_wait(comm, &graph, samples)?;
    drop(memory);
    Ok(taken.into_iter().map(|ns| ns / f64::from(IN_A_ROW)).collect())
}
