//! Random programs with every operation, buffer and trait there is, and what it means for two to be the same.
#![allow(dead_code)] // each test uses a part

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use castell_goal::program::Program;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Which operations a random program may have.
#[derive(Clone, Copy, PartialEq)]
pub enum Vocabulary {
    /// send, recv, calc without buffers: what LogGOPSim has.
    LogGopSim,
    /// Everything.
    Full,
}

pub fn program(seed: u64, vertices_max: usize, vocabulary: Vocabulary) -> Program {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let ranks = random.random_range(1..5);
    let graphs = random.random_range(0..=ranks);
    let graphs = (0..graphs).map(|_| graph(&mut random, ranks, vertices_max, vocabulary)).collect();
    Program::with_graphs(ranks, graphs)
}

fn graph(random: &mut ChaCha8Rng, ranks: u32, vertices_max: usize, vocabulary: Vocabulary) -> Graph {
    let mut graph = Graph::new();
    if vocabulary == Vocabulary::Full && random.random() {
        graph.allocate_scratchpad(number(random));
    }
    for index in 0..random.random_range(0..=vertices_max) {
        let vertex = vertex(random, &mut graph, ranks, vocabulary);
        traits(random, &mut graph, vertex, vocabulary);
        if random.random_bool(0.5) {
            let stem =
                ["l", "v", "v_", "send_", "requires", "irequires", "put", "any"][random.random_range(0..8)];
            graph.set_label(vertex, &format!("{stem}{index}")).unwrap();
        }
        for _ in 0..random.random_range(0..3) {
            let other = Vertex(random.random_range(0..graph.len() as u32));
            // Backwards, too: text need not be acyclic.
            let (from, to) = if random.random_bool(0.9) { (other, vertex) } else { (vertex, other) };
            if from != to && random.random_bool(0.8) {
                graph.requires(from, to).unwrap();
            } else if from != to {
                graph.irequires(from, to).unwrap();
            }
        }
    }
    graph
}

fn vertex(random: &mut ChaCha8Rng, graph: &mut Graph, ranks: u32, vocabulary: Vocabulary) -> Vertex {
    let bytes = number(random);
    let peer = Rank(random.random_range(0..ranks));
    let tag = Tag(random.random_range(0..3) * random.random_range(0..u32::MAX / 2));
    let source = random.random_bool(0.8).then_some(peer);
    let any_tag = random.random_bool(0.8).then_some(tag);
    let kinds = if vocabulary == Vocabulary::Full { 12 } else { 3 };
    let place = |random: &mut ChaCha8Rng| if kinds == 3 { Place::VOID } else { place(random) };
    match random.random_range(0..kinds) {
        0 => graph.send(place(random), bytes, peer, tag),
        1 => graph.recv(place(random), bytes, source, any_tag),
        2 => graph.calc(bytes),
        3 => graph.sleep(bytes),
        4 => graph.proxy(),
        5 => {
            let (b1, b2, b3) = (place(random), place(random), place(random));
            graph.local(b1, b2, b3, arithmetic(random), random.random_range(0..1 << 40))
        }
        6 => {
            let arithmetic = arithmetic(random);
            let elements = random.random_range(0..20);
            let lists = [0; 3].map(|_| blocks(random, elements * arithmetic.element().bytes()));
            let [b1, b2, b3] = [0, 1, 2].map(|which| (memory(random), &lists[which][..]));
            graph.local_vec(b1, b2, b3, arithmetic)
        }
        7 => graph.wtime(place(random)),
        8 => graph.call(random.random(), random.random()),
        9 => graph.put(place(random), bytes, peer, remote(random)),
        10 => graph.get(place(random), bytes, peer, remote(random)),
        _ => {
            let bytes = random.random_range(0..100);
            let list = blocks(random, bytes);
            match random.random() {
                true => graph.send_vec(memory(random), &list, peer, tag),
                false => graph.recv_vec(memory(random), &list, source, any_tag),
            }
        }
    }
    .unwrap()
}

fn traits(random: &mut ChaCha8Rng, graph: &mut Graph, vertex: Vertex, vocabulary: Vocabulary) {
    if random.random_bool(0.2) {
        graph.set_cpu(vertex, random.random()).unwrap();
    }
    if random.random_bool(0.2) {
        graph.set_nic(vertex, random.random()).unwrap();
    }
    if vocabulary == Vocabulary::Full && random.random_bool(0.1) {
        graph.set_any(vertex, random.random_range(1..5)).unwrap();
    }
    if vocabulary == Vocabulary::Full && random.random_bool(0.1) {
        graph.set_concurrent(vertex).unwrap();
    }
}

/// Mostly small, sometimes beyond 32 bits.
fn number(random: &mut ChaCha8Rng) -> u64 {
    let bits = [4, 10, 32, 62][random.random_range(0..4)];
    random.random_range(0..1u64 << bits)
}

fn place(random: &mut ChaCha8Rng) -> Place {
    match memory(random) {
        Memory::Void => Place::VOID,
        Memory::User => Place::user(number(random)),
        Memory::Scratch => Place::scratch(number(random)),
    }
}

fn remote(random: &mut ChaCha8Rng) -> Place {
    if random.random() { Place::VOID } else { Place::scratch(number(random)) }
}

fn memory(random: &mut ChaCha8Rng) -> Memory {
    [Memory::Void, Memory::User, Memory::Scratch][random.random_range(0..3)]
}

fn arithmetic(random: &mut ChaCha8Rng) -> Arithmetic {
    loop {
        let (operator, element) =
            (random.random_range(0..10), random.random_range(0..ElementType::ALL.len()));
        if let Ok(legal) = Arithmetic::new(Operator::ALL[operator], ElementType::ALL[element]) {
            return legal;
        }
    }
}

/// Blocks of `total` bytes together; some may be empty.
fn blocks(random: &mut ChaCha8Rng, total: u64) -> Vec<Block> {
    let mut left = total;
    let mut blocks = Vec::new();
    while left > 0 || random.random_bool(0.2) {
        let bytes = random.random_range(0..=left);
        blocks.push(Block { offset: number(random), bytes });
        left -= bytes;
    }
    blocks
}

/// Asserts that `other` is `program`; it may have labels where `program` has none.
pub fn assert_same(program: &Program, other: &Program) {
    assert_eq!(program.num_ranks(), other.num_ranks());
    assert_eq!(program.graphs().len(), other.graphs().len());
    for ((rank, a), (_, b)) in program.graphs().zip(other.graphs()) {
        assert_eq!(a.len(), b.len(), "vertices of rank {rank}");
        assert_eq!(a.scratchpad_bytes(), b.scratchpad_bytes(), "scratchpad of rank {rank}");
        for vertex in a.vertices() {
            assert_eq!(a.op(vertex), b.op(vertex), "rank {rank} {vertex:?}");
            assert_eq!(a.traits(vertex), b.traits(vertex), "rank {rank} {vertex:?}");
            if a.label(vertex).is_some() {
                assert_eq!(a.label(vertex), b.label(vertex), "rank {rank} {vertex:?}");
            }
        }
        assert!(a.edges().eq(b.edges()), "edges of rank {rank}");
    }
}
