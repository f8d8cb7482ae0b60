//! Castell's side: a group of processes in which algorithms for the same call take turns.

use crate::group::sound;
use crate::measure::{Lies, Repeated, copies};
use crate::report::Sample;
use anyhow::{anyhow, bail};
use castell_base::Rank;
use castell_collectives::collective::{Blocks, Collective, Shape};
use castell_collectives::decision::{Choice, Operation};
use castell_comm::collective::{Call, Element, Reduction};
use castell_comm::job::JobOptions;
use castell_comm::launch::{Binding, Launch};
use castell_comm::pool::SharedBuffer;
use castell_comm::{Comm, Communicator, Job};
use castell_host::shm::Segment;
use castell_host::topology::Processors;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Samples of each candidate.
    pub samples: u32,
    /// How long a batch of calls should take, which gives one sample. Microseconds.
    pub budget_us: u32,
    /// After so long no more samples of a candidate are taken. Milliseconds.
    pub limit_ms: u32,
    /// No barriers between calls that would have them: what is measured is how many calls go on, one beside the other.
    pub in_a_row: bool,
    /// Calls are started, and waited for at once.
    pub started: bool,
}

/// The most calls of a batch.
const CALLS_MAX: f64 = 500.0;
/// From here on each call stands behind a barrier, before which the ranks write what they send: programs send what they have
/// just computed, and nobody has it in the cache but they. Bytes.
const APART_BYTES: u64 = 16 << 10;
const LINE_BYTES: usize = 64;
/// Of what copies take alone, each time.
const COPIES_SAMPLES: u32 = 11;

/// An algorithm for a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The operation.
    pub operation: Operation,
    /// Size of the vector, or of each rank's block.
    pub bytes: u64,
    /// The algorithm.
    pub choice: Choice<'static>,
    /// What runs it.
    pub way: Way,
}

impl Candidate {
    /// What stands behind the colon, with the ways where they are not 1, as calls name it.
    pub fn name(&self) -> String {
        let algorithm = self.choice.algorithm.as_ref();
        let algorithm = algorithm.split_once(':').map_or(algorithm, |(_, algorithm)| algorithm);
        match self.choice.ways {
            1 => algorithm.to_owned(),
            ways => format!("{algorithm} {ways}-way"),
        }
    }

    /// The collective on so many ranks.
    pub fn collective(&self, ranks: u32) -> anyhow::Result<Collective> {
        let element_bytes = if self.bytes.is_multiple_of(8) { 8 } else { 1 };
        let count = self.bytes / element_bytes;
        let shape = Shape {
            ways: self.choice.ways,
            segment: (self.choice.segment_bytes / element_bytes).max(1),
            ..Shape::new(ranks, count, element_bytes).with_blocks(Blocks::Uniform(count))
        };
        Ok(Collective::new(&self.choice.algorithm, shape)?)
    }
}

/// What runs a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A call of the library that names the algorithm.
    Named,
    /// A call of the library, which chooses by itself what it runs.
    Call,
    /// The same, with buffers that all ranks can read.
    Shared,
}

/// Calls that are made one behind the other.
struct Run {
    called: AnyCalled,
    bytes: u64,
}

/// A call on doubles or on bytes.
enum AnyCalled {
    Numbers(Called<f64>),
    Bytes(Called<u8>),
}

impl Run {
    fn new(comm: &Comm, candidate: &Candidate, started: bool) -> anyhow::Result<Run> {
        let &Candidate { operation, bytes, way, .. } = candidate;
        let name = (way == Way::Named).then(|| candidate.name());
        let how = How { operation, name, started, is_shared: way == Way::Shared };
        let called = match bytes.is_multiple_of(8) {
            true => AnyCalled::Numbers(Called::new(comm, how, bytes as usize / 8, 1.0)?),
            false => AnyCalled::Bytes(Called::new(comm, how, bytes as usize, 1)?),
        };
        Ok(Run { called, bytes })
    }

    /// Nanoseconds a call, as this rank sees it.
    fn batch(&mut self, calls: u32) -> anyhow::Result<f64> {
        match &mut self.called {
            AnyCalled::Numbers(called) => called.batch(calls),
            AnyCalled::Bytes(called) => called.batch(calls),
        }
    }

    /// The mean over as many calls, each behind a barrier that is not counted, before which the rank writes what it sends; so is one
    /// behind each large call.
    fn apart(&mut self, comm: &Comm, calls: u32) -> anyhow::Result<f64> {
        let (mut ns, world, is_large) = (0.0, comm.world(), self.bytes >= APART_BYTES);
        // Candidates take turns, which the peers' programs do not: the first call finds its buffers displaced by another one's.
        let uncounted = u32::from(is_large);
        for call in 0..uncounted + calls {
            self.write_input(comm.rank());
            world.call(Call::barrier())?;
            let taken = self.batch(1)?;
            ns += if call < uncounted { 0.0 } else { taken };
            if is_large {
                // Who shares a processor would write for its next call while others are in this one.
                world.call(Call::barrier())?;
            }
        }
        Ok(ns / f64::from(calls))
    }

    /// Writes to every cache line that the rank sends.
    fn write_input(&mut self, rank: Rank) {
        match &mut self.called {
            AnyCalled::Numbers(called) => write_lines(called.sent(rank)),
            AnyCalled::Bytes(called) => write_lines(called.sent(rank)),
        }
    }
}

/// Writes to every cache line: the same that is there.
fn write_lines<T: Copy>(elements: &mut [T]) {
    for line in elements.chunks_mut(LINE_BYTES / size_of::<T>()) {
        line[0] = std::hint::black_box(line[0]);
    }
}

/// What is called.
struct How {
    operation: Operation,
    /// The algorithm, if it is named.
    name: Option<String>,
    /// Whether it is started, and waited for at once.
    started: bool,
    /// Whether all ranks can read its buffers.
    is_shared: bool,
}

/// A call of the library and its buffers.
struct Called<T: Element> {
    world: Communicator,
    how: How,
    count: usize,
    send: Elements<T>,
    recv: Elements<T>,
}

/// A call's buffer.
pub enum Elements<T: Element> {
    /// Memory of the process's own.
    Own(Vec<T>),
    /// Memory that all ranks can read.
    Shared(SharedBuffer<T>),
}

impl<T: Element> Elements<T> {
    /// `count` times `one`.
    pub fn new(comm: &Comm, is_shared: bool, count: usize, one: T) -> anyhow::Result<Elements<T>> {
        if !is_shared {
            return Ok(Elements::Own(vec![one; count]));
        }
        let mut buffer = comm.allocate(count)?;
        buffer.fill(one);
        Ok(Elements::Shared(buffer))
    }
}

impl<T: Element> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Elements::Own(elements) => elements,
            Elements::Shared(elements) => elements,
        }
    }
}

impl<T: Element> DerefMut for Elements<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Elements::Own(elements) => elements,
            Elements::Shared(elements) => elements,
        }
    }
}

impl<T: Element + Copy> Called<T> {
    /// Vectors, or blocks of each rank, of `count` elements.
    fn new(comm: &Comm, how: How, count: usize, one: T) -> anyhow::Result<Called<T>> {
        let all = || Elements::new(comm, how.is_shared, count * comm.size() as usize, one);
        let (send, recv) = (all()?, all()?);
        Ok(Called { world: comm.world(), how, count, send, recv })
    }

    /// What the rank sends.
    fn sent(&mut self, rank: Rank) -> &mut [T] {
        let (is_root, count) = (rank == Rank(0), self.count);
        match self.how.operation {
            Operation::Broadcast => &mut self.recv[..if is_root { count } else { 0 }],
            Operation::Alltoall | Operation::ReduceScatter => &mut self.send,
            Operation::Scatter if is_root => &mut self.send,
            Operation::Scatter => &mut [],
            _ => &mut self.send[..count],
        }
    }

    fn batch(&mut self, calls: u32) -> anyhow::Result<f64> {
        let start = castell_host::clock::now_ns();
        for _ in 0..calls {
            self.call()?;
        }
        Ok((castell_host::clock::now_ns() - start) as f64 / f64::from(calls))
    }

    fn call(&mut self) -> anyhow::Result<()> {
        let Called { world, how: How { operation, name, started, .. }, count, send, recv } = self;
        let (count, root, sum) = (*count, Rank(0), Reduction::Sum);
        let at_root = if world.rank() == root { send.len() } else { 0 };
        let call = match operation {
            Operation::Barrier => Call::barrier(),
            Operation::Broadcast => Call::broadcast(&mut recv[..count], root),
            Operation::Gather => Call::gather(&send[..count], &mut recv[..at_root], root),
            Operation::Scatter => Call::scatter(&send[..at_root], &mut recv[..count], root),
            Operation::Allgather => Call::allgather(&send[..count], recv),
            Operation::Reduce => Call::reduce(&send[..count], &mut recv[..count], sum, root),
            Operation::Allreduce => Call::allreduce(&send[..count], &mut recv[..count], sum),
            Operation::ReduceScatter => Call::reduce_scatter_block(send, &mut recv[..count], sum),
            Operation::Alltoall => Call::alltoall(send, recv),
            Operation::Scan => Call::scan(&send[..count], &mut recv[..count], sum),
            Operation::Exscan => Call::exscan(&send[..count], &mut recv[..count], sum),
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => {
                bail!("{operation} needs neighbours, which a benchmark has not")
            }
        };
        let call = match name {
            Some(name) => call.by(name),
            None => call,
        };
        match started {
            true => world.scope(|scope| scope.start(call)?.wait())?,
            false => world.call(call)?,
        }
        Ok(())
    }
}

/// Words of the table: for each rank, for each candidate of each set, how many samples, then the samples.
struct Table {
    segment: Segment,
    candidates: usize,
    samples: usize,
}

impl Table {
    fn create(ranks: u32, candidates: usize, samples: u32) -> anyhow::Result<Table> {
        let samples = samples as usize;
        let words = ranks as usize * candidates * (samples + 1);
        Ok(Table { segment: Segment::create("castell-samples", 8 * words.max(1))?, candidates, samples })
    }

    /// `at` counts samples from 1; 0 is for the number of samples, and before for what one call took.
    fn index(&self, rank: Rank, candidate: usize, at: usize) -> usize {
        (rank.index() * self.candidates + candidate) * (self.samples + 1) + at
    }

    fn set(&self, rank: Rank, candidate: usize, at: usize, value: f64) {
        self.segment.words()[self.index(rank, candidate, at)].store(value.to_bits(), Ordering::Release);
    }

    fn get(&self, rank: Rank, candidate: usize, at: usize) -> f64 {
        f64::from_bits(self.segment.words()[self.index(rank, candidate, at)].load(Ordering::Acquire))
    }

    /// Of the rank that needed longest.
    fn longest(&self, ranks: u32, candidate: usize, at: usize) -> f64 {
        (0..ranks).map(|rank| self.get(Rank(rank), candidate, at)).fold(0.0, f64::max)
    }
}

/// Where ranks note what they measured.
trait Notes {
    /// What this rank took, and once all have come here: what the slowest took.
    fn note(&self, comm: &Comm, barrier: &Repeated, at: (usize, usize), ns: f64) -> anyhow::Result<f64>;

    /// How many samples of a candidate there are.
    fn count(&self, comm: &Comm, candidate: usize, samples: usize);
}

impl Notes for Table {
    fn note(
        &self,
        comm: &Comm,
        barrier: &Repeated,
        (candidate, at): (usize, usize),
        ns: f64,
    ) -> anyhow::Result<f64> {
        self.set(comm.rank(), candidate, at, ns);
        synchronize(comm, barrier)?;
        Ok(self.longest(comm.size(), candidate, at))
    }

    fn count(&self, comm: &Comm, candidate: usize, samples: usize) {
        self.set(comm.rank(), candidate, 0, samples as f64);
    }
}

/// What the slowest rank took, of each candidate: for ranks that share nothing but their job.
struct Longest(RefCell<Vec<Vec<f64>>>);

impl Notes for Longest {
    fn note(
        &self,
        comm: &Comm,
        _: &Repeated,
        (candidate, at): (usize, usize),
        ns: f64,
    ) -> anyhow::Result<f64> {
        let mut longest = [0.0];
        comm.world().allreduce(&[ns], &mut longest, Reduction::Maximum)?;
        if at > 0 {
            self.0.borrow_mut()[candidate].push(longest[0]);
        }
        Ok(longest[0])
    }

    fn count(&self, _: &Comm, _: usize, _: usize) {}
}

/// Measures them on the ranks of a job that is there already, on whichever hosts.
pub fn measure_in_job(
    comm: &Comm,
    sets: &[Vec<Candidate>],
    timing: Timing,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    let barrier = barrier(comm)?;
    let mut all = Vec::new();
    for set in sets {
        let notes = Longest(RefCell::new(vec![Vec::new(); set.len()]));
        Turns { comm, barrier: &barrier, notes: &notes, first: 0, timing }.take(set)?;
        all.push(notes.0.into_inner().into_iter().map(Sample::of).collect());
    }
    Ok(all)
}

fn synchronize(comm: &Comm, barrier: &Repeated) -> anyhow::Result<()> {
    barrier.batch(comm, 1).map(|_| ()).map_err(|error| anyhow!(error))
}

/// Measures all candidates of all sets on a group of `ranks` processes, each pinned to a core; the candidates of a set take
/// turns. A sample is that of the rank that needed longest.
pub fn measure(ranks: u32, sets: &[Vec<Candidate>], timing: Timing) -> anyhow::Result<Vec<Vec<Sample>>> {
    let candidates = sets.iter().map(Vec::len).sum();
    let table = Table::create(ranks, candidates, timing.samples)?;
    in_group(ranks, &|comm: &Comm| {
        let barrier = barrier(comm)?;
        let mut first = 0;
        for set in sets {
            Turns { comm, barrier: &barrier, notes: &table, first, timing }.take(set)?;
            first += set.len();
        }
        Ok(())
    })?;
    let mut at = 0;
    let mut sample = || {
        let taken = table.get(Rank(0), at, 0) as usize;
        let ns = (1..=taken).map(|sample| table.longest(ranks, at, sample)).collect();
        at += 1;
        Sample::of(ns)
    };
    Ok(sets.iter().map(|set| set.iter().map(|_| sample()).collect()).collect())
}

/// Runs `body` as every rank of a group of processes that are pinned to cores.
pub fn in_group(ranks: u32, body: &dyn Fn(&Comm) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let launch = Launch { job: JobOptions::new(ranks), binding: Binding::Core, ..Launch::new(ranks) };
    let rank = |rank: Rank, job: Job| {
        let comm = Comm::join(job, rank);
        comm.job().gate(1);
        if let Err(error) = body(&comm) {
            castell_host::say(&format!("rank {rank}: {error:#}"));
            return 1;
        }
        comm.finalize();
        0
    };
    let outcome = launch.fork(&rank)?;
    sound(&outcome)
}

/// What holds ranks together between samples.
pub fn barrier(comm: &Comm) -> anyhow::Result<Repeated> {
    let collective = Collective::new("barrier:dissemination", Shape::new(comm.size(), 0, 0))?;
    Repeated::new(comm, Operation::Barrier, &collective).map_err(|error| anyhow!(error))
}

/// One rank's part of measuring a set.
struct Turns<'a> {
    comm: &'a Comm,
    barrier: &'a Repeated,
    notes: &'a dyn Notes,
    /// Number of the set's first candidate.
    first: usize,
    timing: Timing,
}

impl Turns<'_> {
    fn take(&self, set: &[Candidate]) -> anyhow::Result<()> {
        let comm = self.comm;
        let mut runs = set
            .iter()
            .map(|one| Run::new(comm, one, self.timing.started))
            .collect::<anyhow::Result<Vec<Run>>>()?;
        let mut calls = Vec::new();
        let is_apart = |one: &Candidate| one.operation.is_one_way() || one.bytes >= APART_BYTES;
        let apart = !self.timing.in_a_row && set.iter().any(is_apart);
        for (index, run) in runs.iter_mut().enumerate() {
            self.sample(run, apart, index, 1, 0)?;
            let once = self.sample(run, apart, index, 1, 0)?;
            let budget = f64::from(self.timing.budget_us) * 1e3;
            calls.push((budget / once.max(1.0)).clamp(1.0, CALLS_MAX) as u32);
        }
        self.synchronize()?;
        let mut spent = vec![0.0; runs.len()];
        let mut taken = vec![0; runs.len()];
        for at in 1..=self.timing.samples as usize {
            for (index, run) in runs.iter_mut().enumerate() {
                if spent[index] < f64::from(self.timing.limit_ms) * 1e6 {
                    let ns = self.sample(run, apart, index, calls[index], at)?;
                    spent[index] += ns * f64::from(calls[index]);
                    taken[index] = at;
                }
            }
        }
        for (index, taken) in taken.into_iter().enumerate() {
            self.notes.count(comm, self.first + index, taken);
        }
        self.synchronize()
    }

    /// A batch behind a barrier; what it took the slowest rank, which all ranks get to know. Calls in which data goes one way
    /// would go on one beside the other, so that their rate would be measured and not their time: they have a barrier each, as
    /// large ones have (`apart`).
    fn sample(&self, run: &mut Run, apart: bool, index: usize, calls: u32, at: usize) -> anyhow::Result<f64> {
        self.synchronize()?;
        let ns = if apart { run.apart(self.comm, calls)? } else { run.batch(calls)? };
        self.notes.note(self.comm, self.barrier, (self.first + index, at), ns)
    }

    fn synchronize(&self) -> anyhow::Result<()> {
        synchronize(self.comm, self.barrier)
    }
}

/// What the copies of a call take alone, see [`crate::measure::copies`]: of the processor that has most to do, the ranks being dealt out to
/// the processors one by one; `None`: other things decide.
pub fn copies_alone(
    operation: Operation,
    bytes: u64,
    ranks: u32,
    lies: Lies,
) -> anyhow::Result<Option<Sample>> {
    let table = Table::create(ranks, 1, COPIES_SAMPLES)?;
    in_group(ranks, &|comm: &Comm| {
        let taken = copies(comm, (operation, bytes as usize), lies, COPIES_SAMPLES)?;
        table.set(comm.rank(), 0, 0, taken.len() as f64);
        taken.iter().enumerate().for_each(|(at, ns)| table.set(comm.rank(), 0, at + 1, *ns));
        Ok(())
    })?;
    let processors = Processors::usable().count().min(ranks as usize);
    let busiest = |sample| {
        let here =
            |first| (first..ranks).step_by(processors).map(|rank| table.get(Rank(rank), 0, sample)).sum();
        (0..processors as u32).map(here).fold(0.0, f64::max)
    };
    let taken = table.get(Rank(0), 0, 0) as usize;
    Ok((taken > 0).then(|| Sample::of((1..=taken).map(busiest).collect())))
}
