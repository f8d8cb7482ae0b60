//! Runs graphs with real bytes, one operation at a time in an order drawn from a seed: whatever the graph leaves open
//! happens in many ways. A send reads its buffer as late as the draw has it.

use castell_base::{Rank, Time};
use castell_collectives::collective::{Collective, Combine, Memory};
use castell_goal::arithmetic;
use castell_goal::check;
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Buffer, Op, Operator, Place};
use castell_goal::program::Program;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use castell_matching::{Key, Matcher, Pattern};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;

/// A user's operator: what to do with the bytes of two elements.
pub type Function = fn(&[u8], &[u8]) -> Vec<u8>;

/// Reduces with local operations, or with calls of a function that only this executor knows.
pub enum Reduce {
    Local(Arithmetic),
    Call { function: Function, element_bytes: u64, calls: RefCell<Vec<[u64; 4]>> },
}

impl Reduce {
    pub fn call(function: Function, element_bytes: u64) -> Reduce {
        Reduce::Call { function, element_bytes, calls: RefCell::default() }
    }
}

impl Combine for Reduce {
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        match self {
            Reduce::Local(arithmetic) => graph.local(b1, b2, b3, *arithmetic, count),
            Reduce::Call { calls, .. } => {
                calls.borrow_mut().push([b1.offset, b2.offset, b3.offset, count]);
                graph.call(0, calls.borrow().len() as u64 - 1)
            }
        }
    }
}

/// What each rank begins with, and how large its output is.
pub struct Job<'a> {
    pub collective: &'a Collective,
    pub inputs: Vec<Vec<u8>>,
    /// Contents of the outputs before the run; with `in_place` the inputs are copied into them.
    pub outputs: Vec<Vec<u8>>,
    pub in_place: bool,
    /// Only this rank is in place.
    pub in_place_only: Option<Rank>,
    pub reduce: &'a Reduce,
    pub seed: u64,
    /// Look at the graphs as a whole, too.
    pub check: bool,
}

impl Job<'_> {
    /// Runs all ranks to their end; returns their outputs and inputs.
    pub fn run(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let ranks = self.inputs.len() as u32;
        let mut program = Program::new(ranks);
        let mut memories = Vec::new();
        for rank in 0..ranks {
            let (input, output) = (&self.inputs[rank as usize], &self.outputs[rank as usize]);
            let [output_at, temporary_at] = [input.len(), input.len() + output.len()].map(|at| at as u64);
            let memory = Memory {
                input: Place::scratch(0),
                output: Place::scratch(output_at),
                temporary: Place::scratch(temporary_at),
                in_place: self.in_place && self.in_place_only.is_none_or(|only| only == Rank(rank)),
                combine: self.reduce,
            };
            let graph = program.rank_mut(Rank(rank));
            graph.allocate_scratchpad(temporary_at);
            let temporary = self.collective.weave(Rank(rank), &memory, graph).unwrap();
            let mut bytes = [&input[..], &output[..]].concat();
            // What is read before it was written is not 0.
            bytes.resize((temporary_at + temporary) as usize, 0xa5);
            memories.push(bytes);
        }
        if self.check {
            let report = check::check(&program);
            assert!(report.problems.is_empty(), "{}", report.problems[0]);
        }
        let schedules: Vec<Schedule> = program.graphs().map(|(_, graph)| graph.compile().unwrap()).collect();
        Run::new(&schedules, memories, self.reduce, self.seed).finish(&self.inputs, &self.outputs)
    }
}

struct Run<'a> {
    schedules: &'a [Schedule],
    steppers: Vec<Stepper>,
    matchers: Vec<Matcher<OpId, Vec<u8>>>,
    memories: Vec<Vec<u8>>,
    /// Sends that have started, their rank first.
    leaving: Vec<(usize, OpId)>,
    /// Ranks that may have operations that are ready.
    ready: Vec<usize>,
    /// Those that each rank is known to have.
    startable: Vec<Vec<OpId>>,
    reduce: &'a Reduce,
    random: ChaCha8Rng,
}

impl<'a> Run<'a> {
    fn new(schedules: &'a [Schedule], memories: Vec<Vec<u8>>, reduce: &'a Reduce, seed: u64) -> Run<'a> {
        Run {
            schedules,
            steppers: schedules.iter().map(Stepper::new).collect(),
            matchers: schedules.iter().map(|_| Matcher::new()).collect(),
            memories,
            leaving: Vec::new(),
            ready: (0..schedules.len()).collect(),
            startable: vec![Vec::new(); schedules.len()],
            reduce,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Runs until nothing goes on.
    fn exhaust(&mut self) {
        self.exhaust_without(usize::MAX);
    }

    /// Runs until nothing goes on but the operations of one rank.
    fn exhaust_without(&mut self, late: usize) {
        while !self.ready.is_empty() || !self.leaving.is_empty() {
            let drawn = self.random.random_range(0..self.ready.len() + self.leaving.len());
            if let Some(sending) = drawn.checked_sub(self.ready.len()) {
                let (rank, id) = self.leaving.swap_remove(sending);
                self.deliver(rank, id);
            } else {
                let rank = self.ready[drawn];
                if rank == late {
                    self.ready.swap_remove(drawn);
                    continue;
                }
                let startable = &mut self.startable[rank];
                startable.extend(std::iter::from_fn(|| self.steppers[rank].take(&self.schedules[rank])));
                if startable.is_empty() {
                    self.ready.swap_remove(drawn);
                    continue;
                }
                let id = startable.swap_remove(self.random.random_range(0..startable.len()));
                self.start(rank, id);
            }
        }
    }

    fn finish(mut self, inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.exhaust();
        for (rank, stepper) in self.steppers.iter().enumerate() {
            assert!(
                stepper.is_finished(),
                "rank {rank} waits for ever for {} operations",
                stepper.unfinished()
            );
            assert_eq!(self.matchers[rank].unexpected_len(), 0, "messages to rank {rank} that nobody took");
        }
        let ends = inputs.iter().zip(outputs).zip(self.memories);
        ends.map(|((input, output), memory)| {
            let (at, end) = (input.len(), input.len() + output.len());
            (memory[at..end].to_vec(), memory[..at].to_vec())
        })
        .collect()
    }

    fn finished(&mut self, rank: usize, id: OpId) {
        self.steppers[rank].finish(&self.schedules[rank], id);
        if !self.ready.contains(&rank) {
            self.ready.push(rank);
        }
    }

    fn start(&mut self, rank: usize, id: OpId) {
        match self.schedules[rank].op(id) {
            Op::Send { .. } => return self.leaving.push((rank, id)),
            Op::Recv { source, tag, .. } => {
                let pattern = Pattern { context: 0, source, tag };
                if let Some(bytes) = self.matchers[rank].post(pattern, id) {
                    self.receive(rank, id, &bytes);
                }
                return;
            }
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = (count * arithmetic.element().bytes()) as usize;
                let memory = &mut self.memories[rank];
                let first = memory[at(b1)..][..bytes].to_vec();
                if arithmetic.operator() == Operator::Copy {
                    memory[at(b3)..][..bytes].copy_from_slice(&first);
                } else {
                    let second = memory[at(b2)..][..bytes].to_vec();
                    arithmetic::apply(arithmetic, &first, &second, &mut memory[at(b3)..][..bytes]);
                }
            }
            Op::Call { context, .. } => self.call(rank, context as usize),
            Op::Proxy => {}
            other => panic!("{other:?}"),
        }
        self.finished(rank, id);
    }

    fn call(&mut self, rank: usize, index: usize) {
        let Reduce::Call { function, element_bytes, calls } = self.reduce else { panic!("no function") };
        let [b1, b2, b3, count] = calls.borrow()[index];
        let memory = &mut self.memories[rank];
        for element in 0..count {
            let part = |at: u64| {
                let first = (at + element * element_bytes) as usize;
                first..first + *element_bytes as usize
            };
            let result = function(&memory[part(b1)], &memory[part(b2)]);
            memory[part(b3)].copy_from_slice(&result);
        }
    }

    /// The message of a send is there.
    fn deliver(&mut self, rank: usize, id: OpId) {
        let Op::Send { buffer, bytes, dest, tag } = self.schedules[rank].op(id) else { panic!("a send") };
        let content = if bytes == 0 {
            Vec::new()
        } else {
            self.memories[rank][at(buffer)..][..bytes as usize].to_vec()
        };
        let key = Key { context: 0, source: Rank(rank as u32), tag };
        let mut content = Some(content);
        let posted = self.matchers[dest.index()].arrive(key, || content.take().unwrap());
        if let Some(recv) = posted {
            self.receive(dest.index(), recv, &content.unwrap());
        }
        self.finished(rank, id);
    }

    fn receive(&mut self, rank: usize, id: OpId, content: &[u8]) {
        let Op::Recv { buffer, bytes, .. } = self.schedules[rank].op(id) else { panic!("a receive") };
        assert_eq!(bytes, content.len() as u64, "sizes differ");
        if bytes > 0 {
            self.memories[rank][at(buffer)..][..content.len()].copy_from_slice(content);
        }
        self.finished(rank, id);
    }
}

fn at(buffer: Buffer<'_>) -> usize {
    match buffer {
        Buffer::Plain(place) => place.offset as usize,
        Buffer::Vector(..) => panic!("no algorithm has vectors"),
    }
}

/// The same algorithm without memory has the same messages.
pub fn same_messages_without_memory(collective: &Collective, reduce: &Reduce) {
    use castell_collectives::pattern::Pattern as _;
    let messages = |graph: &Graph| -> Vec<(bool, u64, u32, u32)> {
        let all = graph.vertices().filter_map(|vertex| match graph.op(vertex) {
            Op::Send { bytes, dest, tag, .. } => Some((true, bytes, dest.0, tag.0)),
            Op::Recv { bytes, source, tag, .. } => Some((false, bytes, source.unwrap().0, tag.unwrap().0)),
            _ => None,
        });
        all.collect()
    };
    let timed = collective.clone().with_compute(Time(1000));
    for rank in (0..collective.shape().ranks).map(Rank) {
        let [input, output, temporary] =
            [Place::scratch(0), Place::scratch(1 << 30), Place::scratch(1 << 31)];
        let memory = Memory { input, output, temporary, in_place: false, combine: reduce };
        let (mut with, mut without) = (Graph::new(), Graph::new());
        collective.weave(rank, &memory, &mut with).unwrap();
        timed.build(rank, &mut without).unwrap();
        assert_eq!(messages(&with), messages(&without), "{} rank {rank}", timed.name());
        assert_eq!(timed.operations(rank), without.len() as u64);
    }
}

/// Runs graphs that are there already, whose inputs and outputs begin the scratchpad; returns the outputs.
pub fn run_graphs(
    graphs: Vec<Graph>,
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
    reduce: &Reduce,
) -> Vec<Vec<u8>> {
    let report = check::check(&Program::with_graphs(graphs.len() as u32, graphs.clone()));
    assert!(report.problems.is_empty(), "{}", report.problems[0]);
    let schedules: Vec<Schedule> = graphs.iter().map(|graph| graph.compile().unwrap()).collect();
    let memories = inputs.iter().zip(outputs).map(|(input, output)| [&input[..], &output[..]].concat());
    let ends = Run::new(&schedules, memories.collect(), reduce, 7).finish(inputs, outputs);
    ends.into_iter().map(|(output, _)| output).collect()
}

/// Runs an alltoall in which each rank has blocks of its own: `size(from, to)` elements of one byte.
pub fn alltoall_by_rank(
    name: &str,
    ranks: u32,
    shape: &dyn Fn(u32) -> castell_collectives::collective::Shape,
    size: &dyn Fn(u32, u32) -> u64,
    reduce: &Reduce,
) {
    let mut schedules = Vec::new();
    let mut memories = Vec::new();
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for rank in 0..ranks {
        let input: Vec<u8> =
            (0..ranks).flat_map(|to| vec![(rank * 16 + to) as u8; size(rank, to) as usize]).collect();
        let output: Vec<u8> = vec![0; (0..ranks).map(|from| size(from, rank)).sum::<u64>() as usize];
        let memory = Memory {
            input: Place::scratch(0),
            output: Place::scratch(input.len() as u64),
            temporary: Place::scratch((input.len() + output.len()) as u64),
            in_place: false,
            combine: reduce,
        };
        let mut graph = Graph::new();
        graph.allocate_scratchpad((input.len() + output.len()) as u64);
        Collective::new(name, shape(rank)).unwrap().weave(Rank(rank), &memory, &mut graph).unwrap();
        schedules.push(graph.compile().unwrap());
        memories.push([&input[..], &output[..]].concat());
        inputs.push(input);
        outputs.push(output);
    }
    let ends = Run::new(&schedules, memories, reduce, u64::from(ranks)).finish(&inputs, &outputs);
    for (to, (output, _)) in ends.iter().enumerate() {
        let expected: Vec<u8> = (0..ranks)
            .flat_map(|from| vec![(from * 16 + to as u32) as u8; size(from, to as u32) as usize])
            .collect();
        assert_eq!(output, &expected, "{name} on {ranks} ranks: rank {to}");
    }
}

/// While one rank does not begin, no other one can finish.
pub fn nobody_leaves_without(collective: &Collective, late: Rank, reduce: &Reduce) {
    let ranks = collective.shape().ranks;
    let [input, output, temporary] = [Place::scratch(0); 3];
    let memory = Memory { input, output, temporary, in_place: false, combine: reduce };
    let mut schedules = Vec::new();
    for rank in (0..ranks).map(Rank) {
        let mut graph = Graph::new();
        collective.weave(rank, &memory, &mut graph).unwrap();
        schedules.push(graph.compile().unwrap());
    }
    let mut run = Run::new(&schedules, vec![Vec::new(); ranks as usize], reduce, u64::from(ranks));
    run.ready.retain(|&rank| rank != late.index());
    run.exhaust_without(late.index());
    for (rank, stepper) in run.steppers.iter().enumerate() {
        let name = castell_collectives::pattern::Pattern::name(collective);
        assert!(!stepper.is_finished(), "{name}: rank {rank} of {ranks} left without rank {late}");
    }
}
