//! From graphs, one rank at a time, to a [`Flat`] program.

use super::flat::{
    ANY, Declined, FINISHES, Flat, FlatOp, JOIN, JOINS, Kind, LAST, Member, NONE, Peers, ReceiveKey, STARTS,
    Shape, TARGET, UNEVEN, WILD,
};
use castell_goal::graph::{EdgeKind, Graph};
use castell_goal::op::{Buffer, Op, Place, Traits};
use castell_goal::schedule::Schedule;
use std::collections::HashMap;

/// Durations and times that the fast engines count with, in ps: sums of two don't wrap.
pub(super) const TIME_MAX: u64 = 1 << 62;

/// Collects ranks in order.
pub(super) struct Encoder {
    flat: Flat,
    /// Shapes by a hash of what they are.
    known: HashMap<u64, Vec<u32>>,
    /// Where message sizes stand in the table.
    sizes: HashMap<u64, u32>,
    /// A rank that has the shape.
    exemplars: Vec<u32>,
    /// The rank that was read last.
    rank: u32,
    ops: Vec<FlatOp>,
    edges: Vec<(u32, u32, EdgeKind)>,
    in_degrees: Vec<u32>,
    successors: Vec<u32>,
    ends: Vec<u32>,
}

impl Encoder {
    pub fn new(ranks: u32, peers: Peers) -> Encoder {
        let flat = Flat {
            ranks,
            peers,
            members: Vec::with_capacity(ranks as usize),
            shapes: Vec::new(),
            ops: Vec::new(),
            numbers: Vec::new(),
            successors: Vec::new(),
            roots: Vec::new(),
            receives: Vec::new(),
            sizes: Vec::new(),
            slots: 0,
            channels: 0,
            lanes: 1,
            operations: 0,
        };
        Encoder {
            flat,
            known: HashMap::new(),
            sizes: HashMap::new(),
            exemplars: Vec::new(),
            rank: 0,
            ops: Vec::new(),
            edges: Vec::new(),
            in_degrees: Vec::new(),
            successors: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Shapes so far.
    pub fn shapes(&self) -> usize {
        self.flat.shapes.len()
    }

    /// Takes in a rank's graph.
    pub fn read_graph(&mut self, rank: u32, graph: &Graph) -> Result<(), Declined> {
        self.start(rank);
        for vertex in graph.vertices() {
            let op = graph.op(vertex);
            // Whether a buffer fits its scratchpad is checked when a graph is compiled.
            if let Op::Send { buffer, .. } | Op::Recv { buffer, .. } = op
                && buffer != Buffer::Plain(Place::VOID)
            {
                return Err(Declined::Operation);
            }
            self.push(&op, graph.traits(vertex))?;
        }
        let edges = graph.edges().map(|edge| (edge.prerequisite.0, edge.target.0, edge.kind));
        self.edges.extend(edges);
        self.link()
    }

    /// Takes in a rank's schedule.
    pub fn read_schedule(&mut self, rank: u32, schedule: &Schedule) -> Result<(), Declined> {
        self.start(rank);
        let ids: Vec<_> = schedule.operations().collect();
        let number = |id| ids.binary_search(&id).expect("a successor is an operation of the schedule") as u32;
        for (at, &id) in ids.iter().enumerate() {
            self.push(&schedule.op(id), schedule.traits(id))?;
            let finish = schedule.successors(id).map(|target| (number(target), EdgeKind::Finish));
            let start = schedule.start_successors(id).map(|target| (number(target), EdgeKind::Start));
            self.edges.extend(finish.chain(start).map(|(target, kind)| (at as u32, target, kind)));
        }
        self.link()
    }

    fn start(&mut self, rank: u32) {
        self.rank = rank;
        self.ops.clear();
        self.edges.clear();
    }

    fn push(&mut self, op: &Op<'_>, traits: Traits) -> Result<(), Declined> {
        if traits.any.is_some() || traits.concurrent {
            return Err(Declined::Operation);
        }
        let ranks = self.flat.ranks;
        let (peers, rank) = (self.flat.peers, self.rank);
        let code =
            |peer: u32| (peer < ranks).then(|| peers.encode(rank, peer, ranks)).ok_or(Declined::Mistake);
        let (kind, value, peer, tag) = match *op {
            Op::Send { bytes, dest, tag, .. } => (Kind::Send, self.size(bytes), code(dest.0)?, tag.0),
            Op::Recv { bytes, source, tag, .. } => {
                let peer = source.map_or(Ok(ANY), |source| code(source.0))?;
                (Kind::Receive, self.size(bytes), peer, tag.map_or(ANY, |tag| tag.0))
            }
            Op::Calc { ns } => {
                let ps = ns.checked_mul(1000).filter(|&ps| ps <= TIME_MAX);
                (Kind::Calc, ps.ok_or(Declined::Time)?, 0, 0)
            }
            _ => return Err(Declined::Operation),
        };
        let Traits { cpu, nic, .. } = traits;
        self.flat.lanes = self.flat.lanes.max(u32::from(cpu.max(nic)) + 1);
        let (successors, slot, partner) = (NONE, NONE, NONE);
        self.ops.push(FlatOp { value, peer, tag, successors, slot, partner, kind, cpu, nic, flags: 0 });
        Ok(())
    }

    /// Where a message size stands in the table.
    fn size(&mut self, bytes: u64) -> u64 {
        let sizes = &mut self.flat.sizes;
        if sizes.last() == Some(&bytes) {
            return sizes.len() as u64 - 1;
        }
        let at = *self.sizes.entry(bytes).or_insert_with(|| {
            sizes.push(bytes);
            sizes.len() as u32 - 1
        });
        u64::from(at)
    }

    /// Sorts the edges into lists of successors, by counting: in order of addition, those that wait for the start
    /// first.
    fn link(&mut self) -> Result<(), Declined> {
        let count = self.ops.len();
        if count >= TARGET as usize || self.edges.len() >= TARGET as usize {
            return Err(Declined::Size);
        }
        self.in_degrees.clear();
        self.in_degrees.resize(count, 0);
        self.ends.clear();
        self.ends.resize(2 * count, 0);
        for &(from, to, kind) in &self.edges {
            self.in_degrees[to as usize] += 1;
            self.ends[list(from, kind)] += 1;
        }
        let mut total = 0;
        for end in &mut self.ends {
            total += std::mem::replace(end, total);
        }
        self.successors.clear();
        self.successors.resize(self.edges.len(), 0);
        for &(from, to, kind) in &self.edges {
            let end = &mut self.ends[list(from, kind)];
            let join = if self.in_degrees[to as usize] > 1 { JOIN } else { 0 };
            self.successors[*end as usize] = to | join;
            *end += 1;
        }
        let (mut begin, mut slots) = (0, 0);
        for (at, op) in self.ops.iter_mut().enumerate() {
            op.successors = begin;
            for (flag, end) in [(STARTS, self.ends[2 * at]), (FINISHES, self.ends[2 * at + 1])] {
                if end > begin {
                    op.flags |= flag;
                    self.successors[end as usize - 1] |= LAST;
                }
                begin = end;
            }
            let joins = self.in_degrees[at] > 1;
            op.flags |= if joins { JOINS } else { 0 };
            if joins || op.kind == Kind::Receive {
                op.slot = slots;
                slots += 1;
            }
        }
        Ok(())
    }

    /// Adds the rank that was read.
    pub fn add(&mut self) -> Result<(), Declined> {
        self.flat.operations += self.ops.len() as u64;
        let hash = self.hash();
        let known = self.known.get(&hash).and_then(|all| all.iter().copied().find(|&shape| self.is(shape)));
        let shape = match known {
            Some(shape) => shape,
            None => {
                let shape = self.add_shape()?;
                self.known.entry(hash).or_default().push(shape);
                shape
            }
        };
        let ranks = &mut self.flat.shapes[shape as usize].ranks;
        self.flat.members.push(Member { shape, index: *ranks });
        *ranks += 1;
        Ok(())
    }

    /// Adds so many ranks like the one that was read.
    pub fn add_alike(&mut self, ranks: u32) -> Result<(), Declined> {
        if ranks == 0 {
            return Ok(());
        }
        self.add()?;
        let shape = self.flat.shapes.len() as u32 - 1;
        self.flat.operations += self.ops.len() as u64 * u64::from(ranks - 1);
        self.flat.members.extend((1..ranks).map(|index| Member { shape, index }));
        self.flat.shapes[shape as usize].ranks = ranks;
        Ok(())
    }

    fn hash(&self) -> u64 {
        let mut hash = self.ops.len() as u64;
        let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for op in &self.ops {
            mix(op.value);
            mix(u64::from(op.peer) << 32 | u64::from(op.tag));
            let lanes = u64::from(op.cpu) << 8 | u64::from(op.nic) << 16 | u64::from(op.flags) << 24;
            mix(u64::from(op.successors) << 32 | op.kind as u64 | lanes);
        }
        for pair in self.successors.chunks(2) {
            mix(u64::from(pair[0]) << 32 | u64::from(pair[pair.len() - 1]));
        }
        hash ^ hash >> 32
    }

    /// Whether the rank that was read has this shape.
    fn is(&self, shape: u32) -> bool {
        let shape = &self.flat.shapes[shape as usize];
        let ops = &self.flat.ops[shape.first_op as usize..][..shape.ops as usize];
        let Some(first) = ops.first() else { return self.ops.is_empty() };
        let begin = first.successors;
        ops.len() == self.ops.len()
            && ops.iter().zip(&self.ops).all(|(a, b)| same(a, b, begin))
            && self.flat.successors[begin as usize..].starts_with(&self.successors)
    }

    fn add_shape(&mut self) -> Result<u32, Declined> {
        let flat = &mut self.flat;
        let number = |count: usize| u32::try_from(count).map_err(|_| Declined::Size);
        let begin = number(flat.successors.len() + self.successors.len())? - self.successors.len() as u32;
        let first_op = number(flat.ops.len() + self.ops.len())? - self.ops.len() as u32;
        let first_root = number(flat.roots.len())?;
        let free = |&at: &u32| self.in_degrees[at as usize] == 0;
        flat.roots.extend((0..self.ops.len() as u32).filter(free));
        flat.roots[first_root as usize..].sort_by_key(|&at| self.ops[at as usize].kind);
        let receives = self.ops.iter().enumerate().filter(|(_, op)| op.kind == Kind::Receive);
        let receives = receives.map(|(at, op)| ReceiveKey { peer: op.peer, tag: op.tag, op: at as u32 });
        let mut receives: Vec<_> = receives.collect();
        receives.sort_unstable();
        let wild = receives.iter().any(|receive| receive.peer == ANY || receive.tag == ANY);
        let channels = if wild { 0 } else { channels(&receives, &mut self.ops) };
        flat.successors.extend_from_slice(&self.successors);
        let moved = |op: &FlatOp| FlatOp { successors: begin + op.successors, ..*op };
        flat.ops.extend(self.ops.iter().map(moved));
        flat.numbers.extend(record_numbers(&self.ops, &self.successors, &self.in_degrees));
        flat.shapes.push(Shape {
            first_op,
            ops: self.ops.len() as u32,
            first_root,
            roots: flat.roots.len() as u32 - first_root,
            first_receive: number(flat.receives.len())?,
            receives: receives.len() as u32,
            ranks: 0,
            slots: self.ops.iter().filter(|op| op.slot != NONE).count() as u32,
            channels,
            wild,
            in_degree_max: self.in_degrees.iter().copied().max().unwrap_or(0),
            first_slot: 0,
            first_channel: 0,
        });
        flat.receives.extend_from_slice(&receives);
        self.exemplars.push(self.rank);
        number(flat.shapes.len()).map(|shapes| shapes - 1)
    }

    /// The program, its sends not matched.
    pub fn unmatched(self) -> Flat {
        self.flat
    }

    /// The program, its sends matched as far as one rank of each shape tells.
    pub fn finish(self) -> Result<Flat, Declined> {
        let mut flat = self.flat;
        for shape in &mut flat.shapes {
            let ranks = shape.ranks as usize;
            (shape.first_slot, shape.first_channel) = (flat.slots, flat.channels);
            flat.slots += ranks * shape.slots as usize;
            flat.channels += ranks * shape.channels as usize;
        }
        for (number, &rank) in self.exemplars.iter().enumerate() {
            let shape = flat.shapes[number];
            for at in shape.first_op..shape.first_op + shape.ops {
                if flat.ops[at as usize].kind == Kind::Send {
                    flat.ops[at as usize].partner = flat.partner(rank, &flat.ops[at as usize])?;
                }
            }
        }
        flat.ops.shrink_to_fit();
        flat.successors.shrink_to_fit();
        flat.receives.shrink_to_fit();
        Ok(flat)
    }
}

impl Flat {
    /// The number of a rank's operation, as draws of noise are keyed.
    pub(super) fn number(&self, rank: u32, op: u32) -> u32 {
        let shape = &self.shapes[self.members[rank as usize].shape as usize];
        self.numbers[(shape.first_op + op) as usize]
    }

    /// The receive that a send's message is for, in the receiver's shape: the one that was found before where the ranks
    /// have shapes of their own or it turns out to be right, otherwise by search. [`WILD`] where the receiver searches.
    #[inline(always)]
    pub(super) fn receive_of(&self, source: u32, dest: u32, shape: &Shape, send: &FlatOp) -> Option<u32> {
        if shape.ranks == 1 {
            return Some(send.partner);
        }
        let other = &self.shapes[self.members[dest as usize].shape as usize];
        if send.partner < other.ops && !other.wild {
            let receive = &self.ops[(other.first_op + send.partner) as usize];
            let code = self.peers.encode(dest, source, self.ranks);
            let known = (Kind::Receive, code, send.tag) == (receive.kind, receive.peer, receive.tag);
            if known && receive.value == send.value {
                return Some(send.partner);
            }
        }
        self.partner(source, send).ok()
    }

    /// The receive of a send of `rank`, by search.
    pub(super) fn partner(&self, rank: u32, send: &FlatOp) -> Result<u32, Declined> {
        let dest = self.peers.decode(rank, send.peer, self.ranks);
        let shape = &self.shapes[self.members[dest as usize].shape as usize];
        if shape.wild {
            return Ok(WILD);
        }
        let at = self.find_receive(rank, dest, send.tag).ok_or(Declined::Mistake)?;
        let receive = &self.ops[(shape.first_op + at) as usize];
        let fits = receive.flags & UNEVEN != 0 || receive.value == send.value;
        fits.then_some(at).ok_or(Declined::Mistake)
    }

    /// The first receive of `dest` that names this source and tag.
    pub(super) fn find_receive(&self, source: u32, dest: u32, tag: u32) -> Option<u32> {
        let shape = &self.shapes[self.members[dest as usize].shape as usize];
        let receives = &self.receives[shape.first_receive as usize..][..shape.receives as usize];
        let peer = self.peers.encode(dest, source, self.ranks);
        let at = receives.partition_point(|receive| (receive.peer, receive.tag) < (peer, tag));
        let found = receives.get(at).filter(|receive| (receive.peer, receive.tag) == (peer, tag));
        found.map(|receive| receive.op)
    }
}

impl Flat {
    /// One rank that sends each message to itself, in place of ranks with one shape that send them to one another:
    /// channel `n` takes what the `n`-th send sends and what the `n`-th receive receives, counted in the order of the
    /// operations.
    pub(crate) fn representative(&self, sends: &[u32], receives: &[u32]) -> Result<Flat, Declined> {
        let mut one = Encoder::new(1, Peers::Distance);
        let shape = self.shapes.first().ok_or(Declined::Symmetry)?;
        one.flat.sizes.clone_from(&self.sizes);
        one.flat.lanes = self.lanes;
        let (mut sends, mut receives) = (sends.iter(), receives.iter());
        let ops = &self.ops[shape.first_op as usize..][..shape.ops as usize];
        for op in ops {
            let channel = match op.kind {
                Kind::Send => sends.next(),
                Kind::Receive => receives.next(),
                Kind::Calc => Some(&0),
            };
            let tag = *channel.ok_or(Declined::Symmetry)?;
            one.ops.push(FlatOp {
                peer: 0,
                tag,
                successors: NONE,
                slot: NONE,
                partner: NONE,
                flags: 0,
                ..*op
            });
        }
        for (at, op) in (0..).zip(ops) {
            let mut next = op.successors;
            for (flag, kind) in [(STARTS, EdgeKind::Start), (FINISHES, EdgeKind::Finish)] {
                let mut more = op.flags & flag != 0;
                while more {
                    let entry = self.successors[next as usize];
                    one.edges.push((at, entry & TARGET, kind));
                    more = entry & LAST == 0;
                    next += 1;
                }
            }
        }
        one.link()?;
        one.add()?;
        one.finish()
    }
}

/// Where an operation's successors of a kind are counted.
fn list(op: u32, kind: EdgeKind) -> usize {
    2 * op as usize + usize::from(kind == EdgeKind::Finish)
}

/// Where each operation's record lies in the compiled schedule: independent operations first, then whatever these
/// release if each finishes at once, first in, first out.
fn record_numbers(ops: &[FlatOp], successors: &[u32], in_degrees: &[u32]) -> Vec<u32> {
    let mut left = in_degrees.to_vec();
    let mut order: Vec<u32> = (0..ops.len() as u32).filter(|&at| left[at as usize] == 0).collect();
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        next += 1;
        let begin = ops[at as usize].successors as usize;
        let end = ops.get(at as usize + 1).map_or(successors.len(), |op| op.successors as usize);
        let all = &successors[begin..end];
        // Of two lists that of those that wait for the end comes second here, and first in a schedule.
        let first = all.iter().position(|entry| entry & LAST != 0).map_or(0, |last| last + 1);
        for entry in all[first..].iter().chain(&all[..first]) {
            let target = entry & TARGET;
            left[target as usize] -= 1;
            if left[target as usize] == 0 {
                order.push(target);
            }
        }
    }
    // Operations on a cycle have no record, and are never carried out.
    let mut numbers = vec![NONE; ops.len()];
    for (number, &at) in (0..).zip(&order) {
        numbers[at as usize] = number;
    }
    numbers
}

/// Whether two operations differ in nothing but where their shapes lie.
fn same(known: &FlatOp, new: &FlatOp, begin: u32) -> bool {
    let known = FlatOp { flags: known.flags & !UNEVEN, partner: NONE, ..*known };
    known == FlatOp { successors: begin + new.successors, ..*new }
}

/// Gives the receives that share source and tag a channel.
fn channels(receives: &[ReceiveKey], ops: &mut [FlatOp]) -> u32 {
    let mut channels = 0;
    for group in receives.chunk_by(|a, b| (a.peer, a.tag) == (b.peer, b.tag)) {
        if group.len() > 1 {
            let uneven =
                group.iter().any(|receive| ops[receive.op as usize].value != ops[group[0].op as usize].value);
            for receive in group {
                let op = &mut ops[receive.op as usize];
                op.partner = channels;
                op.flags |= if uneven { UNEVEN } else { 0 };
            }
            channels += 1;
        }
    }
    channels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a rank has a shape is seen by all that there is: another one may have the same hash.
    #[test]
    fn ranks_have_a_shape_if_nothing_is_different() {
        let texts = [
            "",
            "a: calc 5",
            "a: calc 6",
            "a: calc 5 cpu 1",
            "a: calc 5 nic 1",
            "a: calc 5\n b: calc 5",
            "a: calc 5\n b: calc 5\n b requires a",
            "a: calc 5\n b: calc 5\n b irequires a",
            "a: calc 5\n b: calc 5\n c: calc 5\n b requires a\n c requires a",
            "a: calc 5\n b: calc 5\n c: calc 5\n c requires a\n b requires a",
            "a: send 8b to 0 tag 0\n b: recv 8b from 0 tag 0",
            "a: send 8b to 0 tag 1\n b: recv 8b from 0 tag 1",
            "a: send 8b to 1 tag 0\n b: recv 8b from 1 tag 0",
            // A channel, of one size and of several.
            "a: recv 8b from 0 tag 0\n b: recv 8b from 0 tag 0",
            "a: recv 8b from 0 tag 0\n b: recv 9b from 0 tag 0",
        ];
        let graph = |text: &str| {
            let program = castell_goal::text::parse(format!("num_ranks 1\nrank 0 {{ {text} }}"), "");
            program.expect(text).rank(castell_base::Rank(0)).clone()
        };
        for known in texts {
            let mut encoder = Encoder::new(2, Peers::Distance);
            for text in ["a: calc 1\n b: calc 2\n b requires a", known] {
                encoder.read_graph(0, &graph(text)).expect("sends, receives and calcs");
                encoder.add().expect("a small program");
            }
            for text in texts {
                encoder.read_graph(0, &graph(text)).expect("sends, receives and calcs");
                assert_eq!(encoder.is(1), text == known, "{text} and {known}");
            }
        }
    }
}
