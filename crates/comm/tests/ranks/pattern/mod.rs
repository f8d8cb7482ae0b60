//! Random patterns over a group, with what every byte of memory has to be afterwards.
//!
//! A pattern is drawn step by step (a message, a local operation, a put, a get, …). Each step is carried out at once
//! on a model of the memories, and added to the graphs with the dependences that make it come after every earlier
//! step that it conflicts with. So the graphs run in many orders, and all of them end in the model's memories.

pub mod draw;

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Block, Memory, Place};
use draw::Draw;

/// Bytes of a rank's memory that operations name as user memory.
pub const USER_BYTES: u64 = 500_000;
/// Bytes of its scratchpad.
pub const SCRATCH_BYTES: u64 = 260_000;

/// Part of one rank's memory.
#[derive(Clone, Debug)]
pub struct Region {
    pub memory: Memory,
    /// Offsets from the start of that memory.
    pub blocks: Vec<Block>,
    pub is_vector: bool,
}

impl Region {
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    pub fn overlaps(&self, other: &Region) -> bool {
        let apart = |a: &Block, b: &Block| a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        self.memory == other.memory
            && self.memory != Memory::Void
            && self.blocks.iter().any(|a| other.blocks.iter().any(|b| !apart(a, b)))
    }
}

/// What an operation did to memory.
struct Access {
    vertex: Vertex,
    region: Region,
    writes: bool,
}

/// One rank's part of a pattern.
pub struct Part {
    pub graph: Graph,
    /// Before the first step: user memory as it has to be when the run starts.
    pub before: Vec<u8>,
    /// After the last step: user memory, and behind it the scratchpad, which the last operation saves there.
    pub after: Vec<u8>,
    /// Where that memory really is, so that graphs name addresses. It is exactly as long as `after`.
    pub real: Box<[u8]>,
    scratch: Vec<u8>,
    accesses: Vec<Access>,
    /// How often `call` operations have to call.
    pub calls: u64,
}

/// How messages of one ordered pair of ranks are kept apart.
#[derive(Clone, Copy, Default)]
struct Channel {
    /// Sends and receives are started in order: any tags will do, also wildcards.
    ordered: bool,
    last: Option<(Vertex, Vertex)>,
    messages: u32,
}

/// A whole pattern.
pub struct Pattern {
    pub parts: Vec<Part>,
    /// Run as open runs, side by side with other open patterns.
    pub open: bool,
    channels: Vec<Channel>,
    first_tag: u32,
    next_tag: u32,
}

impl Part {
    fn new(draw: &mut Draw) -> Part {
        let real = vec![0; (USER_BYTES + SCRATCH_BYTES) as usize].into_boxed_slice();
        let mut before = vec![0; real.len()];
        draw.fill(&mut before);
        let mut part = Part {
            graph: Graph::new(),
            after: before.clone(),
            before,
            real,
            scratch: vec![0; SCRATCH_BYTES as usize],
            accesses: Vec::new(),
            calls: 0,
        };
        part.graph.allocate_scratchpad(SCRATCH_BYTES);
        // The scratchpad starts as what the end of user memory holds.
        let (saved, scratch) = part.whole_scratchpad();
        let load = part.local(draw::COPY, &saved, &saved, &scratch);
        part.touch(load, &[&saved], &[&scratch]);
        part
    }

    fn whole_scratchpad(&self) -> (Region, Region) {
        let whole = |memory, offset| Region {
            memory,
            blocks: vec![Block { offset, bytes: SCRATCH_BYTES }],
            is_vector: false,
        };
        (whole(Memory::User, USER_BYTES), whole(Memory::Scratch, 0))
    }

    /// The operation that makes the scratchpad visible.
    fn save(&mut self) {
        let (saved, scratch) = self.whole_scratchpad();
        let save = self.local(draw::COPY, &scratch, &scratch, &saved);
        self.touch(save, &[&scratch], &[&saved]);
    }

    /// Blocks as graphs name them: user memory by address.
    pub fn real_blocks(&self, region: &Region) -> Vec<Block> {
        let base = if region.memory == Memory::User { self.real.as_ptr() as u64 } else { 0 };
        region.blocks.iter().map(|block| Block { offset: base + block.offset, bytes: block.bytes }).collect()
    }

    pub fn real_place(&self, region: &Region) -> Place {
        if region.memory == Memory::Void {
            return Place::VOID;
        }
        Place { memory: region.memory, offset: self.real_blocks(region)[0].offset }
    }

    /// What the model has in a region.
    pub fn read(&self, region: &Region) -> Vec<u8> {
        let memory = match region.memory {
            Memory::User => &self.after,
            Memory::Scratch => &self.scratch,
            Memory::Void => return vec![0; region.bytes() as usize],
        };
        let pieces = region.blocks.iter().map(|b| &memory[b.offset as usize..(b.offset + b.bytes) as usize]);
        pieces.flatten().copied().collect()
    }

    /// Writes to the model.
    pub fn write(&mut self, region: &Region, bytes: &[u8]) {
        let memory = match region.memory {
            Memory::User => &mut self.after,
            Memory::Scratch => &mut self.scratch,
            Memory::Void => return,
        };
        let mut rest = bytes;
        for block in &region.blocks {
            let (piece, behind) = rest.split_at(block.bytes as usize);
            memory[block.offset as usize..][..piece.len()].copy_from_slice(piece);
            rest = behind;
        }
    }

    /// Adds a vertex's dependences on all earlier accesses that conflict, and notes its own.
    pub fn touch(&mut self, vertex: Vertex, reads: &[&Region], writes: &[&Region]) {
        for access in &self.accesses {
            let writes_it = writes.iter().any(|region| region.overlaps(&access.region));
            let reads_it = access.writes && reads.iter().any(|region| region.overlaps(&access.region));
            if (writes_it || reads_it) && access.vertex != vertex {
                self.graph.requires(access.vertex, vertex).expect("both are there");
            }
        }
        self.note(vertex, reads, writes);
    }

    /// Notes accesses that end with this vertex, and no dependences.
    pub fn note(&mut self, vertex: Vertex, reads: &[&Region], writes: &[&Region]) {
        let noted =
            reads.iter().map(|region| (region, false)).chain(writes.iter().map(|region| (region, true)));
        for (region, writes) in noted {
            self.accesses.push(Access { vertex, region: (*region).clone(), writes });
        }
    }

    pub fn send(&mut self, region: &Region, dest: Rank, tag: Tag) -> Vertex {
        let vertex = if region.is_vector {
            let blocks = self.real_blocks(region);
            self.graph.send_vec(region.memory, &blocks, dest, tag)
        } else {
            let place = self.real_place(region);
            self.graph.send(place, region.bytes(), dest, tag)
        };
        vertex.expect("a legal send")
    }

    pub fn recv(&mut self, region: &Region, source: Option<Rank>, tag: Option<Tag>) -> Vertex {
        let vertex = if region.is_vector {
            let blocks = self.real_blocks(region);
            self.graph.recv_vec(region.memory, &blocks, source, tag)
        } else {
            let place = self.real_place(region);
            self.graph.recv(place, region.bytes(), source, tag)
        };
        vertex.expect("a legal receive")
    }
}

impl Pattern {
    /// Draws a pattern of about `steps` steps.
    pub fn draw(draw: &mut Draw, ranks: u32, steps: u32, first_tag: u32, open: bool) -> Pattern {
        let parts = (0..ranks).map(|_| Part::new(draw)).collect();
        let channel = |_| Channel { ordered: draw.one_in(2), ..Channel::default() };
        let channels = (0..ranks * ranks).map(channel).collect();
        let mut pattern = Pattern { parts, open, channels, first_tag, next_tag: first_tag + 100 };
        for _ in 0..steps {
            pattern.step(draw);
        }
        pattern.introduce_everybody();
        for part in &mut pattern.parts {
            part.save();
            // The end of user memory was read by the first operation and written by the last.
            let scratch = part.scratch.clone();
            part.after[USER_BYTES as usize..].copy_from_slice(&scratch);
        }
        pattern
    }

    /// A message through the model and both graphs. The regions are of one size and, within one rank, apart.
    /// Says the two vertices; dependences on memory are the caller's business.
    pub fn message(
        &mut self,
        draw: &mut Draw,
        from: Rank,
        out: &Region,
        to: Rank,
        into: &Region,
    ) -> (Vertex, Vertex) {
        let at = from.index() * self.parts.len() + to.index();
        let Channel { ordered, last, messages } = self.channels[at];
        // Either a tag of its own, or one that only the order tells apart; open patterns share nothing.
        let is_own = !ordered || draw.one_in(2);
        let shared = if self.open { Tag(self.first_tag + at as u32) } else { Tag(0) };
        let tag = if is_own { self.fresh_tag() } else { shared };
        let any_source = is_own && draw.one_in(4);
        // A receive that takes any tag would take another channel's message if it took any source, too.
        let any_tag = ordered && !self.open && !any_source && draw.one_in(3);
        let send = self.parts[from.index()].send(out, to, tag);
        let source = (!any_source).then_some(from);
        let recv = self.parts[to.index()].recv(into, source, (!any_tag).then_some(tag));
        if let Some((last_send, last_recv)) = last.filter(|_| ordered) {
            self.parts[from.index()].graph.irequires(last_send, send).expect("both are there");
            self.parts[to.index()].graph.irequires(last_recv, recv).expect("both are there");
        }
        self.channels[at] = Channel { ordered, last: Some((send, recv)), messages: messages + 1 };
        (send, recv)
    }

    fn fresh_tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    /// A receive from any source makes all ranks peers: all have to know of it, and so everybody sends everybody
    /// something.
    fn introduce_everybody(&mut self) {
        if self.open {
            return;
        }
        let ranks = self.parts.len() as u32;
        for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (Rank(from), Rank(to)))) {
            if from != to && self.channels[from.index() * ranks as usize + to.index()].messages == 0 {
                let tag = self.fresh_tag();
                self.parts[from.index()].graph.send(Place::VOID, 0, to, tag).expect("a legal send");
                let recv = self.parts[to.index()].graph.recv(Place::VOID, 0, Some(from), Some(tag));
                recv.expect("a legal receive");
            }
        }
    }
}
