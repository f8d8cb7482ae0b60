//! From a sequential description to a graph: operations are named in order, and edges follow from what they touch.

use super::memory::{Memory, Messages};
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{self, Arithmetic, ElementType, Operator, Place};
use std::collections::HashMap;

/// One of the three places in which a collective's data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// What the rank contributes.
    Input,
    /// What it gets.
    Output,
    /// What is needed in between.
    Temporary,
}

/// Elements of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub region: Region,
    pub first: u64,
    pub count: u64,
}

impl Span {
    /// Elements of the input.
    pub fn input(first: u64, count: u64) -> Span {
        Span { region: Region::Input, first, count }
    }

    /// Elements of the output.
    pub fn output(first: u64, count: u64) -> Span {
        Span { region: Region::Output, first, count }
    }

    /// Elements of this one, counted from its start.
    pub fn part(self, first: u64, count: u64) -> Span {
        debug_assert!(first + count <= self.count, "{count} elements from {first} on are not in {self:?}");
        Span { first: self.first + first, count, ..self }
    }

    /// As many elements from its start on.
    pub fn longer(self, count: u64) -> Span {
        Span { count, ..self }
    }

    fn overlaps(self, other: Span) -> bool {
        let apart = self.first + self.count <= other.first || other.first + other.count <= self.first;
        self.region == other.region && !apart
    }
}

/// Adds one rank's operations to a graph in the order of a sequential program. An operation waits for those before it
/// that wrote what it reads or writes, and for those that read what it writes; for nothing else. The k-th message
/// from one rank to another carries the tag k, so that it does not matter in which order they leave.
///
/// Without memory the graph has the same messages; where operands are reduced there is a `calc`, and copies are nothing.
pub(crate) struct Weaver<'a> {
    graph: &'a mut Graph,
    rank: Rank,
    element_bytes: u64,
    memory: Option<&'a Memory<'a>>,
    /// Where the input starts in the output, if it lies there.
    input_at: Option<u64>,
    compute_ns: u64,
    messages: Messages,
    /// Elements of temporary memory in use.
    temporary: u64,
    touched: [Touched; 3],
    tags: HashMap<(Rank, bool), u32>,
}

/// What touched the elements of a region: runs of elements in ascending order.
#[derive(Default)]
struct Touched(Vec<Run>);

#[derive(Clone, Default)]
struct Run {
    first: u64,
    end: u64,
    writers: Vec<Vertex>,
    readers: Vec<Vertex>,
}

impl<'a> Weaver<'a> {
    pub fn new(graph: &'a mut Graph, rank: Rank, element_bytes: u64, compute_ns: u64) -> Weaver<'a> {
        Weaver {
            graph,
            rank,
            element_bytes,
            memory: None,
            input_at: None,
            compute_ns,
            messages: Messages::default(),
            temporary: 0,
            touched: Default::default(),
            tags: HashMap::new(),
        }
    }

    /// Moves data in this memory. `input_at`: where the input lies in the output if it is in place; `None`: it never does.
    pub fn with_memory(self, memory: &'a Memory<'a>, input_at: Option<u64>) -> Weaver<'a> {
        Weaver { memory: Some(memory), input_at: input_at.filter(|_| memory.in_place), ..self }
    }

    /// Has its messages go as told.
    pub fn with_messages(self, messages: &Messages) -> Weaver<'a> {
        Weaver { messages: messages.clone(), ..self }
    }

    /// The rank whose graph this is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether the call is in place.
    pub fn is_in_place(&self) -> bool {
        self.memory.is_some_and(|memory| memory.in_place)
    }

    /// Bytes of temporary memory that were asked for.
    pub fn temporary_bytes(&self) -> u64 {
        self.temporary * self.element_bytes
    }

    /// Fresh temporary elements.
    pub fn temporary(&mut self, count: u64) -> Span {
        let first = self.temporary;
        self.temporary += count;
        Span { region: Region::Temporary, first, count }
    }

    /// Sends elements to `peer`; no elements are not sent.
    pub fn send(&mut self, peer: Rank, span: Span) -> Result<Option<Vertex>, GraphError> {
        if span.count == 0 {
            return if self.messages.even_empty { self.signal(peer).map(Some) } else { Ok(None) };
        }
        let span = self.located(span);
        let tag = self.tag(peer, true);
        let (place, bytes) = (self.place(span), span.count * self.element_bytes);
        let vertex = self.graph.send(place, bytes, self.messages.member(peer), tag)?;
        let mut waits = Vec::new();
        self.read(span, vertex, &mut waits);
        self.connect(waits, vertex)?;
        Ok(Some(vertex))
    }

    /// Receives elements from `peer`; no elements are not received.
    pub fn recv(&mut self, peer: Rank, span: Span) -> Result<Option<Vertex>, GraphError> {
        if span.count == 0 {
            return if self.messages.even_empty { self.await_signal(peer).map(Some) } else { Ok(None) };
        }
        let span = self.located(span);
        let tag = self.tag(peer, false);
        let (place, bytes) = (self.place(span), span.count * self.element_bytes);
        let vertex = self.graph.recv(place, bytes, Some(self.messages.member(peer)), Some(tag))?;
        self.write(span, vertex)?;
        Ok(Some(vertex))
    }

    /// Sends an empty message to `peer`.
    pub fn signal(&mut self, peer: Rank) -> Result<Vertex, GraphError> {
        let tag = self.tag(peer, true);
        self.graph.send(Place::VOID, 0, self.messages.member(peer), tag)
    }

    /// Waits for an empty message from `peer`.
    pub fn await_signal(&mut self, peer: Rank) -> Result<Vertex, GraphError> {
        let tag = self.tag(peer, false);
        self.graph.recv(Place::VOID, 0, Some(self.messages.member(peer)), Some(tag))
    }

    /// `after` waits until `before` has finished, whatever they touch.
    pub fn order(&mut self, before: Option<Vertex>, after: Option<Vertex>) -> Result<(), GraphError> {
        match (before, after) {
            (Some(before), Some(after)) => self.graph.requires(before, after),
            _ => Ok(()),
        }
    }

    /// `after` waits until `before` has started.
    pub fn order_starts(&mut self, before: Option<Vertex>, after: Vertex) -> Result<(), GraphError> {
        before.map_or(Ok(()), |before| self.graph.irequires(before, after))
    }

    /// Copies elements; nothing where both are the same.
    pub fn copy(&mut self, from: Span, to: Span) -> Result<(), GraphError> {
        let (from, to) = (self.located(from), self.located(to));
        if from == to || to.count == 0 {
            return Ok(());
        }
        if self.memory.is_none() || self.element_bytes == 0 {
            return self.stand_for(&[from], to);
        }
        let copy = Arithmetic::new(Operator::Copy, ElementType::U8).expect("bytes can be copied");
        let bytes = to.count * self.element_bytes;
        let (source, target) = (self.place(from), self.place(to));
        let vertex = self.graph.local(source, Place::VOID, target, copy, bytes)?;
        let mut waits = Vec::new();
        self.read(from, vertex, &mut waits);
        self.connect(waits, vertex)?;
        self.write(to, vertex)
    }

    /// Reduces the operands in their order into `into`.
    pub fn reduce(&mut self, operands: &[Span], into: Span) -> Result<(), GraphError> {
        let operands: Vec<Span> = operands.iter().map(|&operand| self.located(operand)).collect();
        let into = self.located(into);
        if into.count == 0 {
            return Ok(());
        }
        let [first, others @ ..] = &operands[..] else { return Ok(()) };
        if others.is_empty() {
            return self.copy(*first, into);
        }
        let Some(memory) = self.memory.filter(|_| self.element_bytes > 0) else {
            return self.stand_for(&operands, into);
        };
        if others.iter().any(|other| other.overlaps(into)) {
            // Writing the first partial result would destroy a later operand.
            let apart = self.temporary(into.count);
            self.reduce(&operands, apart)?;
            return self.copy(apart, into);
        }
        let mut left = *first;
        for &right in others {
            let (b1, b2, b3) = (self.place(left), self.place(right), self.place(into));
            let vertex = memory.combine.combine(self.graph, b1, b2, b3, into.count)?;
            let mut waits = Vec::new();
            self.read(left, vertex, &mut waits);
            self.read(right, vertex, &mut waits);
            self.connect(waits, vertex)?;
            self.write(into, vertex)?;
            left = into;
        }
        Ok(())
    }

    /// `into` holds what follows from the operands, without memory: a computation if there is one, or a vertex that
    /// joins what wrote them if that is more than one.
    fn stand_for(&mut self, operands: &[Span], into: Span) -> Result<(), GraphError> {
        let mut writers = Vec::new();
        for &operand in operands {
            self.touched[operand.region as usize].each(operand, |run| writers.extend(&run.writers));
        }
        writers.sort_unstable();
        writers.dedup();
        let vertex = match writers.len() {
            _ if operands.len() > 1 && self.compute_ns > 0 && self.element_bytes > 0 => {
                self.graph.calc(self.compute_ns)?
            }
            0 => return Ok(()),
            1 => {
                self.touched[into.region as usize].each(into, |run| {
                    run.writers.clone_from(&writers);
                    run.readers.clear();
                });
                return Ok(());
            }
            // As other patterns join what they wait for, so that simulators know it.
            _ if self.memory.is_none() => self.graph.calc(0)?,
            _ => self.graph.proxy()?,
        };
        self.connect(writers, vertex)?;
        // Without memory nothing has to be kept from being overwritten.
        self.touched[into.region as usize].each(into, |run| {
            run.writers = vec![vertex];
            run.readers.clear();
        });
        Ok(())
    }

    fn tag(&mut self, peer: Rank, sends: bool) -> Tag {
        let next = self.tags.entry((peer, sends)).or_insert(self.messages.first_tag.0);
        *next += 1;
        Tag(*next - 1)
    }

    /// A span of the input where it really lies.
    fn located(&self, span: Span) -> Span {
        match (span.region, self.input_at) {
            (Region::Input, Some(at)) => Span { region: Region::Output, first: at + span.first, ..span },
            _ => span,
        }
    }

    fn place(&self, span: Span) -> Place {
        let Some(memory) = self.memory else { return Place::VOID };
        let base = match span.region {
            Region::Input => memory.input,
            Region::Output => memory.output,
            Region::Temporary => memory.temporary,
        };
        match base.memory {
            op::Memory::Void => Place::VOID,
            _ => Place { offset: base.offset + span.first * self.element_bytes, ..base },
        }
    }

    fn read(&mut self, span: Span, vertex: Vertex, waits: &mut Vec<Vertex>) {
        self.touched[span.region as usize].each(span, |run| {
            waits.extend(&run.writers);
            run.readers.push(vertex);
        });
    }

    fn write(&mut self, span: Span, vertex: Vertex) -> Result<(), GraphError> {
        let mut waits = Vec::new();
        let keeps = self.memory.is_some();
        self.touched[span.region as usize].each(span, |run| {
            // Readers waited for the writers themselves.
            let readers = run.readers.iter().filter(|&&reader| reader != vertex);
            let before = waits.len();
            waits.extend(readers);
            if waits.len() == before {
                waits.extend(&run.writers);
            }
            run.writers = vec![vertex];
            run.readers.clear();
        });
        self.touched[span.region as usize].unite(span);
        if keeps { self.connect(waits, vertex) } else { Ok(()) }
    }

    fn connect(&mut self, mut waits: Vec<Vertex>, vertex: Vertex) -> Result<(), GraphError> {
        waits.sort_unstable();
        waits.dedup();
        for before in waits.into_iter().filter(|&before| before != vertex) {
            self.graph.requires(before, vertex)?;
        }
        Ok(())
    }
}

impl Touched {
    /// Calls `act` for runs that together are exactly the span; runs are made where there were none, and cut in two
    /// where they reach beyond.
    fn each(&mut self, span: Span, mut act: impl FnMut(&mut Run)) {
        let (mut at, end) = (span.first, span.first + span.count);
        let mut index = self.0.partition_point(|run| run.end <= at);
        while at < end {
            match self.0.get_mut(index) {
                Some(run) if run.first < at => {
                    let mut rest = run.clone();
                    (run.end, rest.first) = (at, at);
                    self.0.insert(index + 1, rest);
                }
                Some(run) if run.first == at => {
                    if run.end > end {
                        let mut rest = run.clone();
                        (run.end, rest.first) = (end, end);
                        self.0.insert(index + 1, rest);
                    }
                    let run = &mut self.0[index];
                    at = run.end;
                    act(run);
                }
                next => {
                    let end = next.map_or(end, |run| run.first.min(end));
                    self.0.insert(index, Run { first: at, end, ..Run::default() });
                    // The new run is looked at next.
                    continue;
                }
            }
            index += 1;
        }
    }

    /// Makes one run of the span, whose runs are all alike.
    fn unite(&mut self, span: Span) {
        let (first, end) = (span.first, span.first + span.count);
        let from = self.0.partition_point(|run| run.end <= first);
        let to = self.0.partition_point(|run| run.first < end);
        if from + 1 < to {
            self.0[from].end = end;
            self.0.drain(from + 1..to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeSet;

    /// Elements of each region.
    const ELEMENTS: u64 = 12;

    /// What touched one element, and who waits for whom, element by element.
    #[derive(Default)]
    struct Elements {
        touched: HashMap<(usize, u64), (Option<u32>, Vec<u32>)>,
        edges: BTreeSet<(u32, u32)>,
    }

    impl Elements {
        fn each(span: Span) -> impl Iterator<Item = (usize, u64)> {
            (span.first..span.first + span.count).map(move |element| (span.region as usize, element))
        }

        fn wait(&mut self, before: u32, vertex: u32) {
            if before != vertex {
                self.edges.insert((before, vertex));
            }
        }

        fn read(&mut self, span: Span, vertex: u32) {
            for element in Elements::each(span) {
                let (writer, readers) = self.touched.entry(element).or_default();
                readers.push(vertex);
                if let Some(writer) = *writer {
                    self.wait(writer, vertex);
                }
            }
        }

        /// After all who read what is there; they have waited for who wrote it.
        fn write(&mut self, span: Span, vertex: u32) {
            for element in Elements::each(span) {
                let (writer, readers) =
                    self.touched.insert(element, (Some(vertex), Vec::new())).unwrap_or_default();
                let others: Vec<u32> = readers.into_iter().filter(|&reader| reader != vertex).collect();
                let before = if others.is_empty() { writer.into_iter().collect() } else { others };
                before.into_iter().for_each(|before| self.wait(before, vertex));
            }
        }
    }

    fn span(random: &mut ChaCha8Rng, count: u64) -> Span {
        let regions = [Region::Input, Region::Output, Region::Temporary];
        let first = random.random_range(0..=ELEMENTS - count);
        Span { region: regions[random.random_range(0..3)], first, count }
    }

    #[test]
    fn operations_wait_for_what_touched_their_elements_and_nothing_else() {
        let combine = Arithmetic::new(Operator::Add, ElementType::U8).expect("bytes can be added");
        let [input, output, temporary] = [0, 100, 200].map(Place::scratch);
        let memory = Memory { input, output, temporary, in_place: false, combine: &combine };
        for seed in 0..300 {
            let random = &mut ChaCha8Rng::seed_from_u64(seed);
            let (mut graph, mut elements) = (Graph::new(), Elements::default());
            let mut weaver = Weaver::new(&mut graph, Rank(0), 1, 0).with_memory(&memory, None);
            let mut done = Vec::new();
            for _ in 0..12 {
                let count = random.random_range(1..=ELEMENTS);
                let [one, other, into] = [0; 3].map(|_| span(random, count));
                let next = weaver.graph.len() as u32;
                match random.random_range(0..4) {
                    0 => {
                        weaver.send(Rank(1), one).expect("a send");
                        elements.read(one, next);
                        done.push(format!("send {one:?}"));
                    }
                    1 => {
                        weaver.recv(Rank(1), one).expect("a receive");
                        elements.write(one, next);
                        done.push(format!("receive {one:?}"));
                    }
                    2 if one != into => {
                        weaver.copy(one, into).expect("a copy");
                        elements.read(one, next);
                        elements.write(into, next);
                        done.push(format!("copy {one:?} to {into:?}"));
                    }
                    3 if !other.overlaps(into) => {
                        weaver.reduce(&[one, other], into).expect("a reduction");
                        elements.read(one, next);
                        elements.read(other, next);
                        elements.write(into, next);
                        done.push(format!("reduce {one:?} and {other:?} to {into:?}"));
                    }
                    _ => {}
                }
            }
            let found: BTreeSet<(u32, u32)> =
                graph.edges().map(|edge| (edge.prerequisite.0, edge.target.0)).collect();
            assert_eq!(found, elements.edges, "seed {seed}: {done:#?}");
        }
    }
}
