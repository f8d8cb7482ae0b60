//! Fields at their ends, in every operation: through graph, schedule, bytes and text, and back.

use crate::random_program;

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Block, Buffer, ElementType, Memory, Op, Operator, Place};
use castell_goal::program::Program;
use castell_goal::schedule::Schedule;
use castell_goal::schedule_set::to_graph;
use castell_goal::stepper::Stepper;
use castell_goal::text;

/// Around where a field takes a second word, and where it ends.
const SIZES: [u64; 7] = [0, 1, u32::MAX as u64, 1 << 32, 0x1234_5678_9abc_def0, u64::MAX - 1, u64::MAX];
const RANKS: [u32; 3] = [0, 1, u32::MAX - 1];
const TAGS: [u32; 4] = [0, 1, 1 << 31, u32::MAX - 1];
const MEMORIES: [Memory; 3] = [Memory::Void, Memory::User, Memory::Scratch];

/// An operation as it is asked for.
#[derive(Debug)]
enum Asked {
    /// Without lists.
    Plain(Op<'static>),
    Send(Memory, Vec<Block>, Rank, Tag),
    Recv(Memory, Vec<Block>, Option<Rank>, Option<Tag>),
    Local([(Memory, Vec<Block>); 3], Arithmetic),
}

fn plain(buffer: Buffer<'_>) -> Place {
    let Buffer::Plain(place) = buffer else { panic!("{buffer:?}") };
    place
}

impl Asked {
    fn add(&self, graph: &mut Graph) -> Result<Vertex, GraphError> {
        match self {
            Asked::Plain(op) => match *op {
                Op::Proxy => graph.proxy(),
                Op::Send { buffer, bytes, dest, tag } => graph.send(plain(buffer), bytes, dest, tag),
                Op::Recv { buffer, bytes, source, tag } => graph.recv(plain(buffer), bytes, source, tag),
                Op::Calc { ns } => graph.calc(ns),
                Op::Sleep { ns } => graph.sleep(ns),
                Op::Local { b1, b2, b3, arithmetic, count } => {
                    graph.local(plain(b1), plain(b2), plain(b3), arithmetic, count)
                }
                Op::Wtime { b3 } => graph.wtime(b3),
                Op::Call { function, context } => graph.call(function, context),
                Op::Put { local, bytes, dest, remote } => graph.put(local, bytes, dest, remote),
                Op::Get { local, bytes, source, remote } => graph.get(local, bytes, source, remote),
            },
            Asked::Send(memory, blocks, dest, tag) => graph.send_vec(*memory, blocks, *dest, *tag),
            Asked::Recv(memory, blocks, source, tag) => graph.recv_vec(*memory, blocks, *source, *tag),
            Asked::Local([b1, b2, b3], arithmetic) => {
                graph.local_vec((b1.0, &b1.1), (b2.0, &b2.1), (b3.0, &b3.1), *arithmetic)
            }
        }
    }

    fn assert_is(&self, op: Op<'_>) {
        let same = |buffer: Buffer<'_>, memory: Memory, asked: &[Block]| match buffer {
            Buffer::Vector(found, blocks) => {
                let words = asked.iter().flat_map(|block| [block.offset, block.bytes]);
                let words: Vec<u32> = words.flat_map(|wide| [wide as u32, (wide >> 32) as u32]).collect();
                found == memory
                    && blocks.iter().eq(asked.iter().copied())
                    && (blocks.len(), blocks.is_empty()) == (asked.len(), asked.is_empty())
                    && blocks.words() == words
            }
            Buffer::Plain(_) => false,
        };
        let bytes_of = |blocks: &[Block]| blocks.iter().map(|block| block.bytes).sum::<u64>();
        let is_same = match (self, op) {
            (Asked::Plain(asked), op) => *asked == op,
            (Asked::Send(memory, blocks, to, label), Op::Send { buffer, bytes, dest, tag }) => {
                same(buffer, *memory, blocks) && (bytes, dest, tag) == (bytes_of(blocks), *to, *label)
            }
            (Asked::Recv(memory, blocks, from, label), Op::Recv { buffer, bytes, source, tag }) => {
                same(buffer, *memory, blocks) && (bytes, source, tag) == (bytes_of(blocks), *from, *label)
            }
            (Asked::Local(lists, asked), Op::Local { b1, b2, b3, arithmetic, count }) => {
                lists.iter().zip([b1, b2, b3]).all(|((memory, list), buffer)| same(buffer, *memory, list))
                    && (arithmetic, count * asked.element().bytes()) == (*asked, bytes_of(&lists[2].1))
            }
            _ => false,
        };
        assert!(is_same, "{self:?} became {op:?}");
    }
}

/// Places of each memory from which so many bytes end within 64 bits.
fn places(bytes: u64) -> impl Iterator<Item = Place> {
    let of = |memory| SIZES.into_iter().map(move |offset| Place { memory, offset });
    let held = [Memory::User, Memory::Scratch].into_iter().flat_map(of);
    let fits = move |place: &Place| place.offset.checked_add(bytes).is_some();
    [Place::VOID].into_iter().chain(held).filter(fits)
}

fn arithmetics() -> impl Iterator<Item = Arithmetic> {
    let pairs = Operator::ALL.into_iter().flat_map(|o| ElementType::ALL.into_iter().map(move |e| (o, e)));
    pairs.filter_map(|(operator, element)| Arithmetic::new(operator, element).ok())
}

/// Operations without lists.
fn plain_operations() -> Vec<Op<'static>> {
    let mut all = vec![Op::Proxy];
    all.extend(SIZES.into_iter().flat_map(|ns| [Op::Calc { ns }, Op::Sleep { ns }]));
    for (function, context) in SIZES.into_iter().flat_map(|f| SIZES.map(|context| (f, context))) {
        all.push(Op::Call { function, context });
    }
    all.extend(places(8).map(|b3| Op::Wtime { b3 }));
    for bytes in SIZES {
        for (place, peer) in places(bytes).flat_map(|place| RANKS.map(|rank| (place, Rank(rank)))) {
            let buffer = Buffer::Plain(place);
            for tag in TAGS.map(Tag) {
                all.push(Op::Send { buffer, bytes, dest: peer, tag });
                all.push(Op::Recv { buffer, bytes, source: Some(peer), tag: Some(tag) });
                all.push(Op::Recv { buffer, bytes, source: None, tag: Some(tag) });
            }
            all.push(Op::Recv { buffer, bytes, source: Some(peer), tag: None });
            for remote in places(bytes).filter(|remote| remote.memory != Memory::User) {
                all.push(Op::Put { local: place, bytes, dest: peer, remote });
                all.push(Op::Get { local: place, bytes, source: peer, remote });
            }
        }
    }
    for arithmetic in arithmetics() {
        let count = [0, 5, u64::from(u32::MAX), 1 << 32, u64::MAX / arithmetic.element().bytes()];
        for (round, count) in count.into_iter().enumerate() {
            let places: Vec<Place> = places(count * arithmetic.element().bytes()).collect();
            let place = |which: usize| Buffer::Plain(places[(7 * round + 5 * which) % places.len()]);
            let b2 =
                if arithmetic.operator() == Operator::Copy { Buffer::Plain(Place::VOID) } else { place(1) };
            all.push(Op::Local { b1: place(0), b2, b3: place(2), arithmetic, count });
        }
    }
    all
}

/// Operations with lists.
fn vector_operations() -> Vec<Asked> {
    let block = |(offset, bytes)| Block { offset, bytes };
    let lists = [
        vec![],
        vec![(0, 0)],
        vec![(1, 8), (1 << 32, 16)],
        vec![(u64::from(u32::MAX), 24)],
        vec![(0x1234_5678_9abc_def0, 1 << 32), (0, 0x1234_5678_9abc_def0)],
        vec![(0, u64::MAX - 7)],
    ];
    let lists = lists.map(|list| list.into_iter().map(block).collect::<Vec<Block>>());
    let mut all = Vec::new();
    for (list, memory) in lists.iter().flat_map(|list| MEMORIES.map(|memory| (list, memory))) {
        for (peer, tag) in RANKS.into_iter().flat_map(|rank| TAGS.map(|tag| (Rank(rank), Tag(tag)))) {
            all.push(Asked::Send(memory, list.clone(), peer, tag));
            all.push(Asked::Recv(memory, list.clone(), Some(peer), Some(tag)));
        }
        all.push(Asked::Recv(memory, list.clone(), None, None));
    }
    // Without memory, a block is nowhere: it cannot end beyond 64 bits.
    all.push(Asked::Send(Memory::Void, vec![block((u64::MAX, 8))], Rank(0), Tag(0)));
    for (index, arithmetic) in arithmetics().enumerate() {
        let [b1, b2, b3] = [0, 1, 2].map(|which| MEMORIES[(index + which) % 3]);
        let (one, two) = (lists[2].clone(), lists[3].clone());
        let second = if arithmetic.operator() == Operator::Copy { (Memory::Void, vec![]) } else { (b2, one) };
        all.push(Asked::Local([(b1, two.clone()), second, (b3, two)], arithmetic));
    }
    all
}

/// A graph of all operations, with each combination of traits and kinds of edges somewhere.
fn everything() -> (Vec<Asked>, Graph) {
    let mut asked: Vec<Asked> = plain_operations().into_iter().map(Asked::Plain).collect();
    asked.extend(vector_operations());
    let mut graph = Graph::new();
    graph.allocate_scratchpad(u64::MAX);
    for (index, operation) in asked.iter().enumerate() {
        let vertex = operation.add(&mut graph).unwrap_or_else(|error| panic!("{operation:?}: {error}"));
        graph.set_cpu(vertex, [0, 1, 255][index % 3]).unwrap();
        graph.set_nic(vertex, [0, 1, 255][index / 3 % 3]).unwrap();
        if index % 2 == 1 {
            graph.set_concurrent(vertex).unwrap();
        }
        if index % 4 == 1 {
            graph.set_label(vertex, &format!("l{index}")).unwrap();
        }
        if index >= 4 && index % 3 != 0 {
            graph.requires(Vertex(index as u32 - 3), vertex).unwrap();
        }
        if index >= 4 && index % 5 != 0 {
            graph.irequires(Vertex(index as u32 - 2), vertex).unwrap();
        }
        if index >= 4 && index % 15 > 7 && index % 3 != 0 && index % 5 != 0 {
            graph.set_any(vertex, 1 + index as u32 % 2).unwrap();
        }
    }
    (asked, graph)
}

#[test]
fn every_field_comes_back_at_its_ends_from_graph_schedule_and_bytes() {
    let (asked, graph) = everything();
    let (schedule, ids) = graph.compile_with_ids().unwrap();
    let bytes = schedule.to_bytes();
    let loaded = Schedule::from_bytes_trusting_addresses(&bytes).unwrap();
    assert!(loaded == schedule && loaded.to_bytes() == bytes);
    let again = to_graph(&loaded);
    let places: Vec<_> = loaded.operations().collect();
    for (vertex, asked) in graph.vertices().zip(&asked) {
        let id = ids[vertex.index()];
        let place = Vertex(places.binary_search(&id).unwrap() as u32);
        for op in [graph.op(vertex), loaded.op(id), again.op(place)] {
            asked.assert_is(op);
        }
        for traits in [loaded.traits(id), again.traits(place)] {
            assert_eq!(graph.traits(vertex), traits, "{asked:?}");
        }
        assert_eq!(graph.label(vertex), loaded.label(id));
        assert_eq!(graph.label(vertex), again.label(place));
    }
    assert_eq!(again.compile().unwrap(), loaded);
}

#[test]
fn every_field_comes_back_at_its_ends_from_text() {
    let (_, graph) = everything();
    let program = Program::with_graphs(u32::MAX - 1, vec![graph]);
    let mut printed = String::new();
    text::print(&program, &mut printed).unwrap();
    let again = text::parse(&printed, "printed").unwrap_or_else(|errors| panic!("{errors}"));
    random_program::assert_same(&program, &again);
}

/// From 16383 on the number of successors has a word of its own; every operation behind such a record lies one further.
#[test]
fn fans_around_the_escape_of_the_count_come_back() {
    for (ends, starts) in [(16_382, 0), (16_383, 0), (16_384, 0), (16_382, 1), (16_383, 2), (0, 16_383)] {
        let mut graph = Graph::new();
        let root = graph.send(Place::scratch(8), 16, Rank(3), Tag(5)).unwrap();
        graph.allocate_scratchpad(24);
        graph.set_cpu(root, 7).unwrap();
        for index in 0..ends + starts {
            let leaf = graph.calc(index).unwrap();
            let edge = if index < ends { Graph::requires } else { Graph::irequires };
            edge(&mut graph, root, leaf).unwrap();
        }
        let (schedule, ids) = graph.compile_with_ids().unwrap();
        let again = Schedule::from_bytes(&schedule.to_bytes()).unwrap();
        assert_eq!(again, schedule);
        assert_eq!(again.op(ids[0]), graph.op(root), "{ends} and {starts}");
        assert_eq!(again.traits(ids[0]), graph.traits(root), "{ends} and {starts}");
        assert!(again.successors(ids[0]).eq(ids[1..][..ends as usize].iter().copied()));
        assert!(again.start_successors(ids[0]).eq(ids[1 + ends as usize..].iter().copied()));
        assert_eq!(again.ready_max() as u64, (ends + starts).max(1));
        // The starts are released first, then the others.
        let mut stepper = Stepper::new(&again);
        assert_eq!(stepper.take(&again), Some(ids[0]));
        assert_eq!(stepper.ready() as u64, starts);
        stepper.finish(&again, ids[0]);
        assert_eq!(stepper.ready() as u64, ends + starts);
    }
}

/// The smallest that is refused, beside the largest that is not.
#[test]
fn what_is_beyond_an_end_is_refused_with_its_reason() {
    let mut graph = Graph::new();
    let mut refused = |asked: Asked, said: &str| {
        let error = asked.add(&mut graph).expect_err(said).to_string();
        assert!(error.contains(said), "{asked:?}: {error}");
    };
    let blocks = |list: &[(u64, u64)]| -> Vec<Block> {
        list.iter().map(|&(offset, bytes)| Block { offset, bytes }).collect()
    };
    let scratch = |offset| Buffer::Plain(Place::scratch(offset));
    let (dest, tag) = (Rank(0), Tag(0));
    for (offset, bytes) in [(1, u64::MAX), (u64::MAX, 1), (1 << 63, 1 << 63)] {
        let buffer = scratch(offset);
        refused(Asked::Plain(Op::Send { buffer, bytes, dest, tag }), "beyond 64 bits");
        refused(Asked::Plain(Op::Recv { buffer, bytes, source: None, tag: None }), "beyond 64 bits");
        let (local, remote) = (Place::scratch(offset), Place::VOID);
        refused(Asked::Plain(Op::Put { local, bytes, dest, remote }), "beyond 64 bits");
        refused(
            Asked::Plain(Op::Get { local: remote, bytes, source: dest, remote: local }),
            "beyond 64 bits",
        );
        refused(Asked::Send(Memory::User, blocks(&[(0, 1), (offset, bytes)]), dest, tag), "beyond 64 bits");
        refused(Asked::Recv(Memory::User, blocks(&[(offset, bytes)]), None, None), "beyond 64 bits");
    }
    refused(Asked::Plain(Op::Wtime { b3: Place::scratch(u64::MAX - 7) }), "beyond 64 bits");
    let arithmetic = Arithmetic::new(Operator::Add, ElementType::F32).unwrap();
    let void = Buffer::Plain(Place::VOID);
    let local = |b1, b2, b3, count| Asked::Plain(Op::Local { b1, b2, b3, arithmetic, count });
    let wide = scratch(u64::MAX - 3);
    for buffers in [[wide, void, void], [void, wide, void], [void, void, wide]] {
        refused(local(buffers[0], buffers[1], buffers[2], 1), "beyond 64 bits");
    }
    refused(local(void, void, void, 1 << 62), "add up");
    refused(Asked::Send(Memory::Void, blocks(&[(0, u64::MAX), (0, 1)]), dest, tag), "add up");
    refused(Asked::Recv(Memory::Void, blocks(&[(0, 1 << 63); 2]), None, None), "add up");
    assert!(graph.is_empty() && graph.bytes() == 0, "a refusal leaves the graph as it was");
}
