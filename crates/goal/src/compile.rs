//! From a graph to a schedule: edges sorted by counting, vertices put into topological order, records written.
//!
//! The order is the one in which operations become ready when each finishes at once: independent operations first,
//! in order of addition, then whatever they release, first in, first out. So every successor lies behind its
//! prerequisites, a loader sees in one pass that a schedule has no cycle, and a run walks the block forwards.

use crate::codec::{self, COUNT_ESCAPE, COUNT_SHIFT, JOIN, LANES, SOLE, STARTS};
use crate::graph::{Edge, EdgeKind, Graph, Vertex};
use crate::op::{Block, Buffer, Memory, Op, Place};
use crate::schedule::{ANY_JOIN, HEADER_WORDS, Labels, OpId, Parts, Schedule, WORDS_MAX};
use castell_base::Rank;
use std::fmt::Write;

/// Why a graph cannot become a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Vertices wait for one another in a circle.
    #[error("dependency cycle: {names}; remove one of these dependencies")]
    Cycle {
        /// The vertices of the circle: each one waits for the one before it, the first for the last.
        vertices: Vec<Vertex>,
        /// The circle, by labels or numbers.
        names: String,
    },
    /// `any` is larger than the vertex's in-degree, so that it would never start.
    #[error(
        "{name}: starts once any {any} dependencies are met, but has only {in_degree}; lower `any` or add edges"
    )]
    AnyTooLarge {
        /// The vertex.
        vertex: Vertex,
        /// Its label or number.
        name: String,
        /// What was asked for.
        any: u32,
        /// How many edges end at the vertex.
        in_degree: u32,
    },
    /// A buffer leaves the scratchpad.
    #[error(
        "{name}: needs bytes {offset} to {end} of the scratchpad, which has {scratchpad_bytes}; \
         allocate a larger scratchpad or correct the offset"
    )]
    OutsideScratchpad {
        /// The vertex.
        vertex: Vertex,
        /// Its label or number.
        name: String,
        /// First byte of the buffer.
        offset: u64,
        /// First byte behind the buffer.
        end: u64,
        /// Size of the scratchpad.
        scratchpad_bytes: u64,
    },
    /// The schedule would not fit its 31-bit word offsets.
    #[error("the schedule would take {words} words of at most {}; split the graph", WORDS_MAX)]
    TooLarge {
        /// Words needed.
        words: u64,
    },
    /// A rank outside the group that the schedule is for.
    #[error("rank {rank} is not in a group of {ranks}; correct the peer, or the size of the group")]
    OutsideGroup {
        /// The rank: the schedule's own, or a peer.
        rank: u32,
        /// Size of the group.
        ranks: u32,
    },
}

pub(crate) fn compile(graph: &Graph) -> Result<(Schedule, Vec<OpId>), CompileError> {
    check_scratchpad(graph)?;
    let followers = Followers::sort(graph);
    let in_degrees = in_degrees(graph);
    check_any(graph, &in_degrees)?;
    let order = topological_order(graph, &followers, &in_degrees)?;
    let placing = Placing::new(graph, &followers, &in_degrees, &order)?;
    let schedule = write(graph, &followers, &placing, &order);
    Ok((schedule, placing.ids))
}

/// Every vertex's targets, one list behind the other: those that wait for its end, then those that wait for its
/// start (marked).
struct Followers {
    ends: Vec<u32>,
    targets: Vec<u32>,
}

/// In [`Followers::targets`]: waits for the start only.
const START: u32 = 1 << 31;

impl Followers {
    /// Counting sort of the edges by prerequisite; stable, so targets stay in order of addition.
    fn sort(graph: &Graph) -> Followers {
        let mut ends = vec![0u32; graph.len()];
        let mut kinds = [false; 2];
        for Edge { prerequisite, kind, .. } in graph.edges() {
            ends[prerequisite.index()] += 1;
            kinds[kind as usize] = true;
        }
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        let mut targets = vec![0u32; graph.edge_count()];
        for pass in [EdgeKind::Finish, EdgeKind::Start] {
            if !kinds[pass as usize] {
                continue;
            }
            for Edge { prerequisite, target, .. } in graph.edges().filter(|edge| edge.kind == pass) {
                let end = &mut ends[prerequisite.index()];
                targets[*end as usize] = target.0 | if pass == EdgeKind::Start { START } else { 0 };
                *end += 1;
            }
        }
        Followers { ends, targets }
    }

    fn of(&self, vertex: u32) -> &[u32] {
        let start = if vertex == 0 { 0 } else { self.ends[vertex as usize - 1] };
        &self.targets[start as usize..self.ends[vertex as usize] as usize]
    }

    /// Numbers of successors and start-successors.
    fn counts(&self, vertex: u32) -> (usize, usize) {
        let all = self.of(vertex);
        let starts = all.iter().rev().take_while(|&&target| target & START != 0).count();
        (all.len() - starts, starts)
    }
}

fn in_degrees(graph: &Graph) -> Vec<u32> {
    let mut degrees = vec![0u32; graph.len()];
    for edge in graph.edges() {
        degrees[edge.target.index()] += 1;
    }
    degrees
}

fn check_any(graph: &Graph, in_degrees: &[u32]) -> Result<(), CompileError> {
    let too_large = graph.any_vertices().filter(|&(vertex, any)| any > in_degrees[vertex.index()]);
    match too_large.min_by_key(|&(vertex, _)| vertex) {
        None => Ok(()),
        Some((vertex, any)) => {
            let (name, in_degree) = (graph.name(vertex), in_degrees[vertex.index()]);
            Err(CompileError::AnyTooLarge { vertex, name, any, in_degree })
        }
    }
}

fn topological_order(
    graph: &Graph,
    followers: &Followers,
    in_degrees: &[u32],
) -> Result<Vec<u32>, CompileError> {
    let mut unmet = in_degrees.to_vec();
    let mut order = Vec::with_capacity(graph.len());
    order.extend((0..graph.len() as u32).filter(|&vertex| in_degrees[vertex as usize] == 0));
    let mut next = 0;
    while let Some(&vertex) = order.get(next) {
        next += 1;
        for &target in followers.of(vertex) {
            let target = target & !START;
            unmet[target as usize] -= 1;
            if unmet[target as usize] == 0 {
                order.push(target);
            }
        }
    }
    if order.len() == graph.len() { Ok(order) } else { Err(cycle(graph, &unmet)) }
}

/// Finds one cycle among the vertices that kept unmet dependencies: each of them waits for another such vertex, so
/// going from a vertex to what it waits for must come around.
fn cycle(graph: &Graph, unmet: &[u32]) -> CompileError {
    const NONE: u32 = u32::MAX;
    let mut waits_for = vec![NONE; graph.len()];
    for Edge { prerequisite, target, .. } in graph.edges() {
        if unmet[prerequisite.index()] > 0 && unmet[target.index()] > 0 {
            waits_for[target.index()] = prerequisite.0;
        }
    }
    let first = unmet.iter().position(|&unmet| unmet > 0).expect("called only when a vertex was left over");
    let mut seen = vec![false; graph.len()];
    let mut at = first as u32;
    while !std::mem::replace(&mut seen[at as usize], true) {
        at = waits_for[at as usize];
    }
    let mut vertices = vec![Vertex(at)];
    let mut before = waits_for[at as usize];
    while before != at {
        vertices.push(Vertex(before));
        before = waits_for[before as usize];
    }
    vertices.reverse();
    // From the vertex that was added first, so that the message does not depend on where the search came in.
    let lowest = (0..vertices.len()).min_by_key(|&index| vertices[index]).unwrap_or(0);
    vertices.rotate_left(lowest);
    let names = cycle_names(graph, &vertices);
    CompileError::Cycle { vertices, names }
}

fn cycle_names(graph: &Graph, vertices: &[Vertex]) -> String {
    const SHOWN: usize = 16;
    let mut names = String::new();
    for &vertex in vertices.iter().take(SHOWN) {
        let _ = write!(names, "{} -> ", graph.name(vertex));
    }
    if vertices.len() > SHOWN {
        let _ = write!(names, "... {} more -> ", vertices.len() - SHOWN);
    }
    names + &graph.name(vertices[0])
}

/// Where each vertex comes to lie.
struct Placing {
    ids: Vec<OpId>,
    /// Join number or sole target's offset: what an edge to the vertex looks like in the schedule.
    entries: Vec<u32>,
    joins: Vec<u32>,
    needs: Vec<u32>,
    independent: usize,
    /// First word behind the records.
    end: u32,
}

impl Placing {
    fn new(
        graph: &Graph,
        followers: &Followers,
        in_degrees: &[u32],
        order: &[u32],
    ) -> Result<Placing, CompileError> {
        let (mut ids, mut entries) = (vec![OpId(0); order.len()], vec![0; order.len()]);
        let (mut joins, mut needs) = (Vec::new(), Vec::new());
        let mut at = HEADER_WORDS as u64;
        for &vertex in order {
            let (index, in_degree) = (vertex as usize, in_degrees[vertex as usize]);
            ids[index] = OpId(at as u32);
            let any = graph.any(Vertex(vertex));
            if in_degree > 1 || any.is_some() {
                entries[index] = joins.len() as u32;
                joins.push(at as u32 | if any.is_some() { ANY_JOIN } else { 0 });
                needs.push(any.unwrap_or(in_degree));
            } else {
                entries[index] = at as u32 | SOLE;
            }
            let (successors, starts) = followers.counts(vertex);
            at += codec::record_words(head(graph, vertex, starts), successors, starts) as u64;
        }
        let words = at + 2 * joins.len() as u64 + graph.block_words().len() as u64;
        if words > WORDS_MAX {
            return Err(CompileError::TooLarge { words });
        }
        let independent = in_degrees.iter().filter(|&&degree| degree == 0).count();
        Ok(Placing { ids, entries, joins, needs, independent, end: at as u32 })
    }
}

/// The head word without join bit and number of successors.
fn head(graph: &Graph, vertex: u32, start_successors: usize) -> u32 {
    let lanes = if graph.lanes(Vertex(vertex)) == 0 { 0 } else { LANES };
    graph.head(Vertex(vertex)) | lanes | if start_successors == 0 { 0 } else { STARTS }
}

fn write(graph: &Graph, followers: &Followers, placing: &Placing, order: &[u32]) -> Schedule {
    let total = placing.end as usize + 2 * placing.joins.len() + graph.block_words().len();
    let mut words = Vec::with_capacity(total);
    words.resize(HEADER_WORDS, 0);
    let mut blocks = Vec::with_capacity(graph.block_words().len());
    let (mut joins, mut ready_max) = (0, 0u64);
    for &vertex in order {
        let (successors, starts) = followers.counts(vertex);
        let mut head = head(graph, vertex, starts) | (successors as u32).min(COUNT_ESCAPE) << COUNT_SHIFT;
        if placing.joins.get(joins).is_some_and(|&join| join & !ANY_JOIN == words.len() as u32) {
            head |= JOIN;
            joins += 1;
        }
        words.push(head);
        if successors >= COUNT_ESCAPE as usize {
            words.push(successors as u32);
        }
        if starts > 0 {
            words.push(starts as u32);
        }
        words.extend(followers.of(vertex).iter().map(|target| placing.entries[(target & !START) as usize]));
        if head & LANES != 0 {
            words.push(u32::from(graph.lanes(Vertex(vertex))));
        }
        words.extend_from_slice(graph.body(Vertex(vertex)));
        move_blocks(head, &mut words, graph.block_words(), &mut blocks);
        ready_max += ((successors + starts) as u64).saturating_sub(1);
    }
    debug_assert_eq!(words.len(), placing.end as usize);
    words.extend_from_slice(&placing.joins);
    words.extend_from_slice(&placing.needs);
    words.extend_from_slice(&blocks);
    debug_assert_eq!(words.len(), total);
    let independent = placing.independent;
    Schedule::from_parts(Parts {
        words,
        ops: order.len() as u32,
        independent: independent as u32,
        joins: placing.joins.len() as u32,
        ready_max: (ready_max + independent as u64).min(order.len() as u64) as u32,
        records_end: placing.end,
        scratchpad_bytes: graph.scratchpad_bytes(),
        labels: labels(graph, placing, order),
        group: (Rank(0), 0),
    })
}

/// Copies the block lists of the record that was just written, so that lists lie in the order of their records.
fn move_blocks(head: u32, words: &mut [u32], from: &[u32], to: &mut Vec<u32>) {
    let lists = codec::block_lists(head);
    let pairs = words.len() - 2 * lists;
    for pair in words[pairs..].chunks_exact_mut(2) {
        let (first, count) = (pair[0] as usize, pair[1] as usize);
        pair[0] = (to.len() / 4) as u32;
        to.extend_from_slice(&from[4 * first..4 * (first + count)]);
    }
}

fn labels(graph: &Graph, placing: &Placing, order: &[u32]) -> Labels {
    let mut labels = Labels::default();
    if graph.has_labels() {
        for &vertex in order {
            if let Some(label) = graph.label(Vertex(vertex)) {
                labels.push(placing.ids[vertex as usize], label);
            }
        }
    }
    labels
}

fn check_scratchpad(graph: &Graph) -> Result<(), CompileError> {
    for vertex in graph.vertices() {
        let head = graph.head(vertex);
        if (0..3).all(|which| codec::memory(head, which) != Some(Memory::Scratch)) {
            continue;
        }
        let mut outside = None;
        scratch_ranges(graph.op(vertex), |offset, bytes| {
            let end = offset.saturating_add(bytes);
            if end > graph.scratchpad_bytes() {
                outside.get_or_insert((offset, end));
            }
        });
        if let Some((offset, end)) = outside {
            let (name, scratchpad_bytes) = (graph.name(vertex), graph.scratchpad_bytes());
            return Err(CompileError::OutsideScratchpad { vertex, name, offset, end, scratchpad_bytes });
        }
    }
    Ok(())
}

/// Tells every range of this rank's scratchpad that the operation touches, as offset and length.
pub(crate) fn scratch_ranges(op: Op<'_>, mut tell: impl FnMut(u64, u64)) {
    let mut buffer = |buffer: Buffer<'_>, bytes: u64| match buffer {
        Buffer::Plain(Place { memory: Memory::Scratch, offset }) => tell(offset, bytes),
        Buffer::Vector(Memory::Scratch, blocks) => {
            blocks.iter().for_each(|Block { offset, bytes }| tell(offset, bytes));
        }
        _ => {}
    };
    match op {
        Op::Send { buffer: b, bytes, .. } | Op::Recv { buffer: b, bytes, .. } => buffer(b, bytes),
        Op::Local { b1, b2, b3, arithmetic, count } => {
            let bytes = count.saturating_mul(arithmetic.element().bytes());
            [b1, b2, b3].into_iter().for_each(|b| buffer(b, bytes));
        }
        Op::Wtime { b3 } => buffer(Buffer::Plain(b3), 8),
        Op::Put { local, bytes, .. } | Op::Get { local, bytes, .. } => buffer(Buffer::Plain(local), bytes),
        Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => {}
    }
}
