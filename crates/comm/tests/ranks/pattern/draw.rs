//! Drawing: sizes, regions, and the steps of a pattern.

use super::{Part, Pattern, Region, SCRATCH_BYTES, USER_BYTES};
use castell_base::Rank;
use castell_goal::arithmetic;
use castell_goal::graph::Vertex;
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU64, Ordering};

pub const COPY: (Operator, ElementType) = (Operator::Copy, ElementType::U8);

/// Message sizes around every threshold, small ones more often.
const SIZES: [u64; 16] = [0, 1, 4, 8, 8, 16, 32, 33, 64, 100, 1000, 4096, 8192, 8193, 40_000, 200_000];

/// Calls of `call` operations.
pub static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(context: *mut std::ffi::c_void) {
    CALLS.fetch_add(context as u64, Ordering::SeqCst);
}

/// A source of random decisions.
pub struct Draw(pub ChaCha8Rng);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn one_in(&mut self, n: u32) -> bool {
        self.0.random_ratio(1, n)
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(&mut self.0).expect("a choice")
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.0);
    }

    pub fn rank(&mut self, ranks: usize) -> Rank {
        Rank(self.0.random_range(0..ranks as u32))
    }

    fn size(&mut self) -> u64 {
        let size = self.of(&SIZES);
        if size > 1 && self.one_in(3) { self.0.random_range(0..size) } else { size }
    }

    fn memory(&mut self) -> Memory {
        self.of(&[Memory::User, Memory::User, Memory::Scratch])
    }

    /// Some region of `bytes` bytes.
    fn region(&mut self, memory: Memory, bytes: u64, may_be_vector: bool) -> Region {
        let limit = match memory {
            Memory::User => USER_BYTES,
            Memory::Scratch => SCRATCH_BYTES,
            Memory::Void => bytes,
        };
        if !may_be_vector || memory == Memory::Void || self.one_in(2) {
            let offset = self.0.random_range(0..=limit - bytes);
            return Region { memory, blocks: vec![Block { offset, bytes }], is_vector: false };
        }
        // Cut into pieces, with gaps between them, in any order.
        let count = self.0.random_range(1..=4_u64);
        let gap = ((limit - bytes) / (count + 1)).min(self.of(&[0, 1, 8, 1000]));
        let span = bytes + gap * (count - 1);
        let mut at = self.0.random_range(0..=limit - span);
        let mut left = bytes;
        let mut blocks = Vec::new();
        for piece in 0..count {
            let length = if piece + 1 == count { left } else { self.0.random_range(0..=left) };
            blocks.push(Block { offset: at, bytes: length });
            at += length + gap;
            left -= length;
        }
        self.shuffle(&mut blocks);
        Region { memory, blocks, is_vector: true }
    }
}

impl Part {
    pub fn local(&mut self, what: (Operator, ElementType), b1: &Region, b2: &Region, b3: &Region) -> Vertex {
        let arithmetic = Arithmetic::new(what.0, what.1).expect("a legal pair");
        let (first, second) = (self.read(b1), self.read(b2));
        let mut result = vec![0; first.len()];
        arithmetic::apply(arithmetic, &first, &second, &mut result);
        self.write(b3, &result);
        let vertex = if [b1, b2, b3].iter().any(|region| region.is_vector) {
            let [l1, l2, l3] = [b1, b2, b3].map(|region| self.real_blocks(region));
            self.graph.local_vec((b1.memory, &l1), (b2.memory, &l2), (b3.memory, &l3), arithmetic)
        } else {
            let [p1, p2, p3] = [b1, b2, b3].map(|region| self.real_place(region));
            self.graph.local(p1, p2, p3, arithmetic, b1.bytes() / what.1.bytes())
        };
        vertex.expect("a legal local operation")
    }
}

impl Pattern {
    pub fn step(&mut self, draw: &mut Draw) {
        match draw.0.random_range(0..20) {
            0..=9 => self.step_message(draw),
            10..=12 => self.step_local(draw),
            13 if !self.open => self.step_put(draw),
            14 if !self.open => self.step_get(draw),
            15..=16 => self.step_edge(draw),
            _ => self.step_small(draw),
        }
    }

    fn step_message(&mut self, draw: &mut Draw) {
        let (from, to) = (draw.rank(self.parts.len()), draw.rank(self.parts.len()));
        let bytes = draw.size();
        let (out, into) = loop {
            let (from_memory, to_memory) = (draw.memory(), draw.memory());
            let out = draw.region(from_memory, bytes, true);
            let to_memory = if draw.one_in(8) { Memory::Void } else { to_memory };
            let into = draw.region(to_memory, bytes, true);
            if from != to || !out.overlaps(&into) {
                break (out, into);
            }
        };
        let payload = self.parts[from.index()].read(&out);
        let (send, recv) = self.message(draw, from, &out, to, &into);
        self.parts[from.index()].touch(send, &[&out], &[]);
        self.parts[to.index()].touch(recv, &[], &[&into]);
        self.parts[to.index()].write(&into, &payload);
    }

    fn step_local(&mut self, draw: &mut Draw) {
        let rank = draw.rank(self.parts.len());
        let operator = draw.of(&Operator::ALL);
        let element = draw.of(&[ElementType::U8, ElementType::I16, ElementType::U32, ElementType::I64]);
        let bytes = draw.size() / element.bytes() * element.bytes();
        let vectors = draw.one_in(3);
        let mut regions = [(); 3].map(|()| {
            let memory = draw.memory();
            draw.region(memory, bytes, vectors)
        });
        if draw.one_in(3) {
            // In place, as reductions are.
            regions[2] = regions[0].clone();
        }
        let [b1, b2, b3] = regions;
        let part = &mut self.parts[rank.index()];
        let vertex = part.local((operator, element), &b1, &b2, &b3);
        part.touch(vertex, &[&b1, &b2], &[&b3]);
    }

    /// A message of no bytes.
    fn signal(&mut self, draw: &mut Draw, from: Rank, to: Rank) -> (Vertex, Vertex) {
        let nothing =
            Region { memory: Memory::Void, blocks: vec![Block { offset: 0, bytes: 0 }], is_vector: false };
        self.message(draw, from, &nothing, to, &nothing)
    }

    fn step_put(&mut self, draw: &mut Draw) {
        let (from, to) = (draw.rank(self.parts.len()), draw.rank(self.parts.len()));
        let bytes = draw.size();
        let memory = draw.memory();
        let (local, remote) = (draw.region(memory, bytes, false), draw.region(Memory::Scratch, bytes, false));
        let remote_place = Place::scratch(remote.blocks[0].offset);
        let payload = self.parts[from.index()].read(&local);
        let local_place = self.parts[from.index()].real_place(&local);
        let put =
            |part: &mut Part| part.graph.put(local_place, bytes, to, remote_place).expect("a legal put");
        if from == to {
            let vertex = put(&mut self.parts[from.index()]);
            self.parts[from.index()].touch(vertex, &[&local], &[&remote]);
        } else {
            // Not before the target is ready for it, and the target is told when it is there.
            let (ready, go) = self.signal(draw, to, from);
            self.parts[to.index()].touch(ready, &[], &[&remote]);
            let vertex = put(&mut self.parts[from.index()]);
            self.parts[from.index()].touch(vertex, &[&local], &[]);
            let (tell, told) = self.signal(draw, from, to);
            self.parts[from.index()].graph.requires(go, vertex).expect("both are there");
            self.parts[from.index()].graph.requires(vertex, tell).expect("both are there");
            self.parts[to.index()].note(told, &[], &[&remote]);
        }
        self.parts[to.index()].write(&remote, &payload);
    }

    fn step_get(&mut self, draw: &mut Draw) {
        let (taker, owner) = (draw.rank(self.parts.len()), draw.rank(self.parts.len()));
        let bytes = draw.size();
        let memory = draw.memory();
        let (local, remote) = (draw.region(memory, bytes, false), draw.region(Memory::Scratch, bytes, false));
        let remote_place = Place::scratch(remote.blocks[0].offset);
        let payload = self.parts[owner.index()].read(&remote);
        let local_place = self.parts[taker.index()].real_place(&local);
        let get =
            |part: &mut Part| part.graph.get(local_place, bytes, owner, remote_place).expect("a legal get");
        if taker == owner {
            let vertex = get(&mut self.parts[taker.index()]);
            self.parts[taker.index()].touch(vertex, &[&remote], &[&local]);
        } else {
            let (ready, go) = self.signal(draw, owner, taker);
            self.parts[owner.index()].touch(ready, &[&remote], &[]);
            let vertex = get(&mut self.parts[taker.index()]);
            self.parts[taker.index()].touch(vertex, &[], &[&local]);
            let (tell, told) = self.signal(draw, taker, owner);
            self.parts[taker.index()].graph.requires(go, vertex).expect("both are there");
            self.parts[taker.index()].graph.requires(vertex, tell).expect("both are there");
            self.parts[owner.index()].note(told, &[&remote], &[]);
        }
        self.parts[taker.index()].write(&local, &payload);
    }

    /// Dependences that no memory asks for, and vertices that wait for some of several.
    fn step_edge(&mut self, draw: &mut Draw) {
        let rank = draw.rank(self.parts.len());
        let any = draw.one_in(2);
        let part = &mut self.parts[rank.index()];
        let before: Vec<Vertex> = part.graph.vertices().collect();
        let target = if any { part.graph.proxy() } else { part.graph.calc(1) }.expect("legal");
        let wanted = draw.0.random_range(1..=4);
        let chosen: Vec<Vertex> = before.choose_multiple(&mut draw.0, wanted).copied().collect();
        for &vertex in &chosen {
            if draw.one_in(3) {
                part.graph.irequires(vertex, target).expect("both are there");
            } else {
                part.graph.requires(vertex, target).expect("both are there");
            }
        }
        if any {
            let k = draw.0.random_range(1..=chosen.len() as u32);
            part.graph.set_any(target, k).expect("at least one");
        }
    }

    /// What touches no memory that is looked at.
    fn step_small(&mut self, draw: &mut Draw) {
        let rank = draw.rank(self.parts.len());
        let part = &mut self.parts[rank.index()];
        let vertex = match draw.0.random_range(0..4) {
            0 => part.graph.calc(draw.0.random_range(0..20_000)),
            1 => part.graph.sleep(draw.0.random_range(0..50_000)),
            2 => part.graph.wtime(Place::VOID),
            _ => {
                part.calls += 1;
                part.graph.call(count as *const () as u64, 1)
            }
        };
        let vertex = vertex.expect("legal");
        if draw.one_in(3) {
            part.graph.set_concurrent(vertex).expect("it is there");
        }
    }
}
