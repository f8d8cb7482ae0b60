//! Random graphs for tests, drawn from a list of numbers so that proptest can shrink them.
#![allow(dead_code)]

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};

pub const SCRATCHPAD: u64 = 4096;

/// Numbers to decide by; 0 for ever once they are used up.
pub struct Choices<'a>(std::slice::Iter<'a, u32>);

impl<'a> Choices<'a> {
    pub fn new(numbers: &'a [u32]) -> Choices<'a> {
        Choices(numbers.iter())
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.next().map_or(0, |number| number % bound.max(1))
    }

    fn chance(&mut self, of: u32) -> bool {
        self.below(of) == of - 1
    }

    fn place(&mut self, addresses: bool) -> Place {
        match self.below(if addresses { 4 } else { 3 }) {
            0 => Place::VOID,
            3 => Place::user(0x7fff_0000_0000 + u64::from(self.below(4096))),
            _ => Place::scratch(u64::from(self.below(1024))),
        }
    }

    fn memory(&mut self, addresses: bool) -> Memory {
        self.place(addresses).memory
    }

    /// Blocks of `bytes` together, in the first half of the scratchpad.
    fn blocks(&mut self, bytes: u64) -> Vec<Block> {
        let mut left = bytes;
        let mut blocks = Vec::new();
        while left > 0 || self.chance(4) {
            let bytes = u64::from(self.below(64)).clamp(left.min(1), left);
            blocks.push(Block { offset: u64::from(self.below(2048)), bytes });
            left -= bytes;
        }
        blocks
    }

    fn tag(&mut self) -> Tag {
        Tag(if self.chance(2) { self.below(5) } else { 0 })
    }

    fn arithmetic(&mut self) -> Arithmetic {
        let (operator, element) =
            (self.below(10) as usize, self.below(ElementType::ALL.len() as u32) as usize);
        Arithmetic::new(Operator::ALL[operator], ElementType::ALL[element])
            .unwrap_or_else(|_| Arithmetic::new(Operator::Add, ElementType::ALL[element]).unwrap())
    }
}

/// A graph of `vertices` operations of all kinds, with edges of both kinds, and traits and labels here and there.
pub fn graph(numbers: &[u32], vertices: u32, addresses: bool) -> Graph {
    let mut choices = Choices::new(numbers);
    let mut graph = Graph::new();
    graph.allocate_scratchpad(SCRATCHPAD);
    for _ in 0..vertices {
        let vertex = operation(&mut graph, &mut choices, addresses);
        if choices.chance(4) {
            traits(&mut graph, &mut choices, vertex);
        }
    }
    // Edges follow a random order of the vertices, so that order of addition and of dependency differ.
    let mut order: Vec<u32> = (0..vertices).collect();
    for index in (1..vertices).rev() {
        order.swap(index as usize, choices.below(index + 1) as usize);
    }
    let mut in_degrees = vec![0; vertices as usize];
    for _ in 0..if vertices < 2 { 0 } else { choices.below(3 * vertices) } {
        let later = 1 + choices.below(vertices - 1);
        let (from, to) = (order[choices.below(later) as usize], order[later as usize]);
        in_degrees[to as usize] += 1;
        if choices.chance(4) {
            graph.irequires(Vertex(from), Vertex(to)).unwrap();
        } else {
            graph.requires(Vertex(from), Vertex(to)).unwrap();
        }
    }
    for (vertex, &in_degree) in in_degrees.iter().enumerate() {
        if in_degree > 0 && choices.chance(5) {
            graph.set_any(Vertex(vertex as u32), 1 + choices.below(in_degree)).unwrap();
        }
    }
    graph
}

fn traits(graph: &mut Graph, choices: &mut Choices<'_>, vertex: Vertex) {
    match choices.below(4) {
        0 => graph.set_label(vertex, &"läbel".repeat(1 + choices.below(3) as usize)).unwrap(),
        1 => graph.set_concurrent(vertex).unwrap(),
        2 => graph.set_cpu(vertex, choices.below(256) as u8).unwrap(),
        _ => graph.set_nic(vertex, choices.below(256) as u8).unwrap(),
    }
}

fn operation(graph: &mut Graph, choices: &mut Choices<'_>, addresses: bool) -> Vertex {
    let peer = Rank(choices.below(6));
    let bytes = u64::from(choices.below(512));
    match choices.below(if addresses { 13 } else { 12 }) {
        0 => graph.calc(bytes << choices.below(40)),
        1 => graph.send(choices.place(addresses), bytes, peer, choices.tag()),
        2 => {
            let (source, tag) = ((!choices.chance(3)).then_some(peer), Some(choices.tag()));
            let tag = tag.filter(|_| !choices.chance(3));
            graph.recv(choices.place(addresses), bytes, source, tag)
        }
        3 => graph.send_vec(choices.memory(addresses), &choices.blocks(bytes), peer, choices.tag()),
        4 => graph.recv_vec(choices.memory(addresses), &choices.blocks(bytes), Some(peer), None),
        5 => {
            let (arithmetic, count) = (choices.arithmetic(), u64::from(choices.below(65)));
            let (b1, b2) = (choices.place(addresses), choices.place(addresses));
            graph.local(b1, b2, choices.place(addresses), arithmetic, count)
        }
        6 => {
            let arithmetic = choices.arithmetic();
            let bytes = u64::from(choices.below(65)) * arithmetic.element().bytes();
            let (b1, b2, b3) = (choices.blocks(bytes), choices.blocks(bytes), choices.blocks(bytes));
            let mut memory = || choices.memory(addresses);
            graph.local_vec((memory(), &b1), (memory(), &b2), (memory(), &b3), arithmetic)
        }
        7 => graph.wtime(choices.place(addresses)),
        8 => graph.sleep(bytes),
        9 => graph.proxy(),
        10 => graph.put(choices.place(addresses), bytes, peer, choices.place(false)),
        11 => graph.get(choices.place(addresses), bytes, peer, choices.place(false)),
        _ => graph.call(0x1234, bytes),
    }
    .unwrap()
}
