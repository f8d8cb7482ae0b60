//! One rank's graph, built up vertex by vertex.

use crate::codec::{self, ANY, CONCURRENT, Encoder, kind};
use crate::compile::{self, CompileError};
use crate::op::{Arithmetic, Block, Memory, Op, Operator, Place, Traits};
use crate::schedule::{OpId, Schedule};
use castell_base::{Rank, Tag};
use std::collections::HashMap;

pub use crate::graph_error::GraphError;

/// A vertex of a [`Graph`]: its number in order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vertex(pub u32);

impl Vertex {
    /// The vertex as an index into a table with one entry a vertex.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an edge's target waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// That the prerequisite has finished (`requires`).
    Finish,
    /// That the prerequisite has started (`irequires`).
    Start,
}

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// What comes first.
    pub prerequisite: Vertex,
    /// What waits.
    pub target: Vertex,
    /// For what it waits.
    pub kind: EdgeKind,
}

/// In the second word of an edge: the target waits for the start only.
const START_EDGE: u32 = 1 << 31;
/// In `labels`: none.
pub(crate) const NO_LABEL: u32 = u32::MAX;
/// Vertices in a graph: their numbers share a word with [`START_EDGE`].
const VERTICES_MAX: usize = 1 << 31;

/// One rank's part in a communication pattern: operations and what they wait for.
///
/// A vertex takes its record (3 to 5 words as a rule) plus one word, an edge two; labels, positions, processors and
/// interfaces cost nothing where they are not set.
///
/// ```
/// use castell_base::{Rank, Tag};
/// use castell_goal::graph::Graph;
/// use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
///
/// let mut graph = Graph::new();
/// graph.allocate_scratchpad(16);
/// let recv = graph.recv(Place::scratch(0), 8, Some(Rank(1)), None)?;
/// let add = Arithmetic::new(Operator::Add, ElementType::F64)?;
/// let sum = graph.local(Place::scratch(0), Place::scratch(8), Place::scratch(8), add, 1)?;
/// let send = graph.send(Place::scratch(8), 8, Rank(2), Tag(3))?;
/// graph.requires(recv, sum)?;
/// graph.requires(sum, send)?;
/// graph.set_label(send, "forward")?;
/// assert_eq!(graph.len(), 3);
///
/// let schedule = graph.compile()?;
/// assert_eq!((schedule.len(), schedule.independent()), (3, 1));
///
/// // Waiting in a circle is found when the graph is compiled, and named.
/// graph.requires(send, recv)?;
/// let error = graph.compile().unwrap_err().to_string();
/// assert!(error.contains("forward"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Head word and body of each vertex, one behind the other.
    words: Vec<u32>,
    /// Where each vertex's record starts.
    starts: Vec<u32>,
    /// Prerequisite and target (with [`START_EDGE`]) of each edge.
    edges: Vec<[u32; 2]>,
    /// All block lists.
    blocks: Vec<u32>,
    /// Processor (low byte) and network interface, up to the last vertex that has any.
    lanes: Vec<u16>,
    any: HashMap<u32, u32>,
    /// Start and length of each label in `label_text`, up to the last vertex that has one.
    labels: Vec<(u32, u32)>,
    label_text: String,
    /// Line, up to the last vertex that has one; 0: none.
    lines: Vec<u32>,
    columns: Vec<u16>,
    scratchpad_bytes: u64,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a send of `bytes` from `place` to `dest` under `tag`.
    ///
    /// # Errors
    /// A reserved rank or tag, a buffer beyond 64 bits.
    pub fn send(&mut self, place: Place, bytes: u64, dest: Rank, tag: Tag) -> Result<Vertex, GraphError> {
        message("send", Some(dest), Some(tag))?;
        span("send", place, bytes)?;
        let sizes = [bytes, offset(place)];
        self.add(Encoder::new(kind::SEND, &sizes).size(bytes).word(dest.0).tag(tag.0).place(0, place))
    }

    /// Adds a receive of exactly `bytes` into `place`; `None`: from any source, under any tag.
    ///
    /// # Errors
    /// A reserved rank or tag, a buffer beyond 64 bits.
    pub fn recv(
        &mut self,
        place: Place,
        bytes: u64,
        source: Option<Rank>,
        tag: Option<Tag>,
    ) -> Result<Vertex, GraphError> {
        message("recv", source, tag)?;
        span("recv", place, bytes)?;
        let sizes = [bytes, offset(place)];
        let (source, tag) = (source.map_or(ANY, |rank| rank.0), tag.map_or(ANY, |tag| tag.0));
        self.add(Encoder::new(kind::RECV, &sizes).size(bytes).word(source).tag(tag).place(0, place))
    }

    /// Adds a send that gathers `blocks` of `memory` into one message.
    ///
    /// # Errors
    /// As [`Graph::send`]; lengths that add up to more than 64 bits.
    pub fn send_vec(
        &mut self,
        memory: Memory,
        blocks: &[Block],
        dest: Rank,
        tag: Tag,
    ) -> Result<Vertex, GraphError> {
        message("send_vec", Some(dest), Some(tag))?;
        let bytes = sum("send_vec", memory, blocks)?;
        let record = Encoder::new(kind::SEND, &[bytes]).size(bytes).word(dest.0).tag(tag.0);
        self.add_vector(record, [(memory, blocks)])
    }

    /// Adds a receive that scatters one message over `blocks` of `memory`.
    ///
    /// # Errors
    /// As [`Graph::recv`]; lengths that add up to more than 64 bits.
    pub fn recv_vec(
        &mut self,
        memory: Memory,
        blocks: &[Block],
        source: Option<Rank>,
        tag: Option<Tag>,
    ) -> Result<Vertex, GraphError> {
        message("recv_vec", source, tag)?;
        let bytes = sum("recv_vec", memory, blocks)?;
        let (source, tag) = (source.map_or(ANY, |rank| rank.0), tag.map_or(ANY, |tag| tag.0));
        let record = Encoder::new(kind::RECV, &[bytes]).size(bytes).word(source).tag(tag);
        self.add_vector(record, [(memory, blocks)])
    }

    /// Adds `b3[i] = b1[i] op b2[i]` for `count` elements; copy does not look at `b2`.
    ///
    /// # Errors
    /// Buffers beyond 64 bits.
    pub fn local(
        &mut self,
        b1: Place,
        b2: Place,
        b3: Place,
        arithmetic: Arithmetic,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        let operation = arithmetic.operator().name();
        let width = arithmetic.element().bytes();
        let bytes = count.checked_mul(width).ok_or(GraphError::SizeOverflow { operation })?;
        let b2 = if arithmetic.operator() == Operator::Copy { Place::VOID } else { b2 };
        for place in [b1, b2, b3] {
            span(operation, place, bytes)?;
        }
        let sizes = [count, offset(b1), offset(b2), offset(b3)];
        let record = Encoder::new(kind::LOCAL, &sizes).word(codec::arithmetic_code(arithmetic)).size(count);
        self.add(record.place(0, b1).place(1, b2).place(2, b3))
    }

    /// Adds a local operation over block lists, each counting as the concatenation of its blocks; the number of
    /// elements follows from their lengths. Copy does not look at `b2`.
    ///
    /// # Errors
    /// Lists of different total lengths, or that don't hold whole elements.
    pub fn local_vec(
        &mut self,
        b1: (Memory, &[Block]),
        b2: (Memory, &[Block]),
        b3: (Memory, &[Block]),
        arithmetic: Arithmetic,
    ) -> Result<Vertex, GraphError> {
        let operation = arithmetic.operator().name();
        let width = arithmetic.element().bytes();
        let copy = arithmetic.operator() == Operator::Copy;
        let lists = [b1, if copy { (Memory::Void, &[][..]) } else { b2 }, b3];
        let result_bytes = sum(operation, b3.0, b3.1)?;
        for (index, (memory, blocks)) in lists.into_iter().enumerate() {
            if copy && index == 1 {
                continue;
            }
            let (buffer, bytes) = (index + 1, sum(operation, memory, blocks)?);
            if bytes % width != 0 {
                return Err(GraphError::PartOfElement { operation, buffer, bytes, width });
            }
            if bytes != result_bytes {
                return Err(GraphError::LengthsDiffer { operation, buffer, bytes, result_bytes });
            }
        }
        let count = result_bytes / width;
        let record = Encoder::new(kind::LOCAL, &[count]).word(codec::arithmetic_code(arithmetic)).size(count);
        self.add_vector(record, lists)
    }

    /// Adds an operation that writes the time in seconds as an f64 to `b3`.
    ///
    /// # Errors
    /// A buffer beyond 64 bits.
    pub fn wtime(&mut self, b3: Place) -> Result<Vertex, GraphError> {
        span("wtime", b3, 8)?;
        self.add(Encoder::new(kind::WTIME, &[offset(b3)]).place(2, b3))
    }

    /// Adds `ns` nanoseconds of computation.
    ///
    /// # Errors
    /// A full graph.
    pub fn calc(&mut self, ns: u64) -> Result<Vertex, GraphError> {
        self.add(Encoder::new(kind::CALC, &[ns]).size(ns))
    }

    /// Adds `ns` nanoseconds of waiting without computing.
    ///
    /// # Errors
    /// A full graph.
    pub fn sleep(&mut self, ns: u64) -> Result<Vertex, GraphError> {
        self.add(Encoder::new(kind::SLEEP, &[ns]).size(ns))
    }

    /// Adds a vertex that does nothing but link others.
    ///
    /// # Errors
    /// A full graph.
    pub fn proxy(&mut self) -> Result<Vertex, GraphError> {
        self.add(Encoder::new(kind::PROXY, &[]))
    }

    /// Adds a call of the `extern "C" fn(*mut c_void)` at address `function` with `context`.
    ///
    /// # Errors
    /// A full graph.
    pub fn call(&mut self, function: u64, context: u64) -> Result<Vertex, GraphError> {
        self.add(Encoder::new(kind::CALL, &[u64::MAX]).size(function).size(context))
    }

    /// Adds a write of `bytes` from `local` to `remote` in the scratchpad of `dest`.
    ///
    /// # Errors
    /// A reserved rank, a remote place in user memory, buffers beyond 64 bits.
    pub fn put(&mut self, local: Place, bytes: u64, dest: Rank, remote: Place) -> Result<Vertex, GraphError> {
        self.one_sided(kind::PUT, "put", local, bytes, dest, remote)
    }

    /// Adds a read of `bytes` from `remote` in the scratchpad of `source` into `local`.
    ///
    /// # Errors
    /// A reserved rank, a remote place in user memory, buffers beyond 64 bits.
    pub fn get(
        &mut self,
        local: Place,
        bytes: u64,
        source: Rank,
        remote: Place,
    ) -> Result<Vertex, GraphError> {
        self.one_sided(kind::GET, "get", local, bytes, source, remote)
    }

    /// `target` starts only after `prerequisite` has finished.
    ///
    /// # Errors
    /// A vertex that is not in this graph, or twice the same.
    pub fn requires(&mut self, prerequisite: Vertex, target: Vertex) -> Result<(), GraphError> {
        self.connect(prerequisite, target, 0)
    }

    /// `target` starts only after `prerequisite` has started.
    ///
    /// # Errors
    /// A vertex that is not in this graph, or twice the same.
    pub fn irequires(&mut self, prerequisite: Vertex, target: Vertex) -> Result<(), GraphError> {
        self.connect(prerequisite, target, START_EDGE)
    }

    /// The vertex starts once `k` of its in-edges are met; later ones do nothing. That it has so many is checked
    /// when the graph is compiled.
    ///
    /// # Errors
    /// `k` = 0; a vertex that is not in this graph.
    pub fn set_any(&mut self, vertex: Vertex, k: u32) -> Result<(), GraphError> {
        self.own(vertex)?;
        if k == 0 {
            return Err(GraphError::AnyZero { vertex });
        }
        self.any.insert(vertex.0, k);
        Ok(())
    }

    /// The vertex does not occupy the rank's processor while it lasts.
    ///
    /// # Errors
    /// A vertex that is not in this graph.
    pub fn set_concurrent(&mut self, vertex: Vertex) -> Result<(), GraphError> {
        self.own(vertex)?;
        self.words[self.starts[vertex.index()] as usize] |= CONCURRENT;
        Ok(())
    }

    /// Processor of the rank that carries the vertex out.
    ///
    /// # Errors
    /// A vertex that is not in this graph.
    pub fn set_cpu(&mut self, vertex: Vertex, cpu: u8) -> Result<(), GraphError> {
        let nic = self.lanes(vertex) & 0xff00;
        self.set_lanes(vertex, nic | u16::from(cpu))
    }

    /// Network interface that carries the vertex out.
    ///
    /// # Errors
    /// A vertex that is not in this graph.
    pub fn set_nic(&mut self, vertex: Vertex, nic: u8) -> Result<(), GraphError> {
        let cpu = self.lanes(vertex) & 0x00ff;
        self.set_lanes(vertex, cpu | u16::from(nic) << 8)
    }

    /// Names the vertex, for messages and printing; an empty name takes the name away.
    ///
    /// # Errors
    /// A vertex that is not in this graph; more than 4 GiB of names.
    pub fn set_label(&mut self, vertex: Vertex, label: &str) -> Result<(), GraphError> {
        self.own(vertex)?;
        let full = GraphError::Full { what: "bytes of labels" };
        let start = u32::try_from(self.label_text.len()).ok().filter(|&start| start != NO_LABEL);
        let (Some(start), Ok(bytes)) = (start, u32::try_from(label.len())) else { return Err(full) };
        extend_to(&mut self.labels, vertex, (NO_LABEL, 0));
        self.labels[vertex.index()] = if label.is_empty() { (NO_LABEL, 0) } else { (start, bytes) };
        self.label_text.push_str(label);
        Ok(())
    }

    /// Notes where in a text file the vertex stands; lines and columns count from 1.
    ///
    /// # Errors
    /// A vertex that is not in this graph.
    pub fn set_position(&mut self, vertex: Vertex, line: u32, column: u16) -> Result<(), GraphError> {
        self.own(vertex)?;
        extend_to(&mut self.lines, vertex, 0);
        extend_to(&mut self.columns, vertex, 0);
        self.lines[vertex.index()] = line;
        self.columns[vertex.index()] = column;
        Ok(())
    }

    /// Gives each run a scratchpad of `bytes`; the last call counts.
    pub fn allocate_scratchpad(&mut self, bytes: u64) {
        self.scratchpad_bytes = bytes;
    }

    /// Size of the scratchpad in bytes.
    pub fn scratchpad_bytes(&self) -> u64 {
        self.scratchpad_bytes
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// All vertices, in order of addition.
    pub fn vertices(&self) -> impl ExactSizeIterator<Item = Vertex> + use<> {
        (0..self.starts.len() as u32).map(Vertex)
    }

    /// The vertex's operation.
    ///
    /// # Panics
    /// Where the vertex is not in this graph; so do the other queries.
    pub fn op(&self, vertex: Vertex) -> Op<'_> {
        codec::decode(self.head(vertex), self.body(vertex), &self.blocks)
    }

    /// What the vertex carries besides its operation.
    pub fn traits(&self, vertex: Vertex) -> Traits {
        let lanes = self.lanes(vertex);
        Traits {
            any: self.any(vertex),
            concurrent: self.head(vertex) & CONCURRENT != 0,
            cpu: lanes as u8,
            nic: (lanes >> 8) as u8,
        }
    }

    /// The vertex's name, if it has one.
    pub fn label(&self, vertex: Vertex) -> Option<&str> {
        let &(start, bytes) = self.labels.get(vertex.index())?;
        (start != NO_LABEL).then(|| &self.label_text[start as usize..][..bytes as usize])
    }

    /// Line and column of the vertex in its text file, if noted.
    pub fn position(&self, vertex: Vertex) -> Option<(u32, u16)> {
        let line = *self.lines.get(vertex.index())?;
        (line != 0).then(|| (line, self.columns[vertex.index()]))
    }

    /// The vertex as messages name it: its label, or its number.
    pub fn name(&self, vertex: Vertex) -> String {
        self.label(vertex).map_or_else(|| format!("vertex {}", vertex.0), |label| format!("`{label}`"))
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// All edges, in order of addition.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = Edge> + Clone + '_ {
        self.edges.iter().map(|&[prerequisite, target]| Edge {
            prerequisite: Vertex(prerequisite),
            target: Vertex(target & !START_EDGE),
            kind: if target & START_EDGE == 0 { EdgeKind::Finish } else { EdgeKind::Start },
        })
    }

    /// Bytes of memory that the graph holds, without what its tables keep in reserve.
    pub fn bytes(&self) -> usize {
        let words = self.words.len() + self.starts.len() + 2 * self.edges.len() + self.blocks.len();
        let traits = 2 * self.lanes.len() + 8 * self.any.len();
        4 * words + traits + 8 * self.labels.len() + self.label_text.len() + 6 * self.lines.len()
    }

    /// Turns the graph into a schedule that can run; the graph stays as it is.
    ///
    /// # Errors
    /// A cycle, `any` above a vertex's in-degree, a buffer that leaves the scratchpad, a graph too large.
    pub fn compile(&self) -> Result<Schedule, CompileError> {
        compile::compile(self).map(|(schedule, _)| schedule)
    }

    /// As [`Graph::compile`], and says under which id each vertex (in order of addition) is found in the schedule.
    ///
    /// # Errors
    /// As [`Graph::compile`].
    pub fn compile_with_ids(&self) -> Result<(Schedule, Vec<OpId>), CompileError> {
        compile::compile(self)
    }

    /// As [`Graph::send`] (`kind::SEND`, `[peer]`), [`Graph::recv`] (`kind::RECV`, `[peer]`) or [`Graph::calc`]
    /// (`kind::CALC`, `[]`, tag 0) without memory, and [`Graph::set_position`]; `None` where the graph is full.
    #[inline]
    pub(crate) fn add_plain<const N: usize>(
        &mut self,
        kind: u32,
        size: u64,
        peer: [u32; N],
        tag: u32,
        (line, column): (u32, u16),
    ) -> Option<Vertex> {
        let (vertex, start) = (self.starts.len(), self.words.len());
        if vertex >= VERTICES_MAX || start > u32::MAX as usize {
            return None;
        }
        self.starts.push(start as u32);
        let narrow = u32::try_from(size);
        let wide = if narrow.is_err() { codec::WIDE } else { 0 };
        let tagged = if tag != 0 { codec::TAG } else { 0 };
        let low = [kind | wide | tagged, size as u32];
        match narrow {
            Ok(_) => self.words.extend_from_slice(&low),
            Err(_) => self.words.extend_from_slice(&[low[0], low[1], (size >> 32) as u32]),
        }
        self.words.extend_from_slice(&peer);
        if tag != 0 {
            self.words.push(tag);
        }
        let vertex = Vertex(vertex as u32);
        extend_to(&mut self.lines, vertex, 0);
        extend_to(&mut self.columns, vertex, 0);
        self.lines[vertex.index()] = line;
        self.columns[vertex.index()] = column;
        Some(vertex)
    }

    /// Takes everything out, into tables without reserves; the reserves stay for the next graph.
    pub(crate) fn take_compact(&mut self) -> Graph {
        let compact = self.clone();
        let Graph {
            words,
            starts,
            edges,
            blocks,
            lanes,
            any,
            labels,
            label_text,
            lines,
            columns,
            scratchpad_bytes,
        } = self;
        words.clear();
        starts.clear();
        edges.clear();
        blocks.clear();
        lanes.clear();
        any.clear();
        labels.clear();
        label_text.clear();
        lines.clear();
        columns.clear();
        *scratchpad_bytes = 0;
        compact
    }

    /// All names, one behind the other.
    pub(crate) fn label_text(&self) -> &str {
        &self.label_text
    }

    /// The vertices that have a name, and where it begins and ends in [`Graph::label_text`].
    pub(crate) fn label_places(&self) -> impl Iterator<Item = (Vertex, usize, usize)> + '_ {
        let named = self.labels.iter().enumerate().filter(|(_, (start, _))| *start != NO_LABEL);
        named.map(|(vertex, &(start, bytes))| {
            (Vertex(vertex as u32), start as usize, start as usize + bytes as usize)
        })
    }

    /// Names the first vertices, all at once: start and length of each name in `text`, [`NO_LABEL`] where there is none.
    pub(crate) fn set_labels(&mut self, labels: Vec<(u32, u32)>, text: String) {
        assert!(labels.len() <= self.len(), "as many names as vertices, at most");
        (self.labels, self.label_text) = (labels, text);
    }

    pub(crate) fn head(&self, vertex: Vertex) -> u32 {
        self.words[self.starts[vertex.index()] as usize]
    }

    pub(crate) fn body(&self, vertex: Vertex) -> &[u32] {
        let start = self.starts[vertex.index()] as usize;
        &self.words[start + 1..][..codec::body_words(self.words[start])]
    }

    pub(crate) fn any(&self, vertex: Vertex) -> Option<u32> {
        if self.any.is_empty() { None } else { self.any.get(&vertex.0).copied() }
    }

    pub(crate) fn any_vertices(&self) -> impl Iterator<Item = (Vertex, u32)> + '_ {
        self.any.iter().map(|(&vertex, &any)| (Vertex(vertex), any))
    }

    pub(crate) fn lanes(&self, vertex: Vertex) -> u16 {
        self.lanes.get(vertex.index()).copied().unwrap_or(0)
    }

    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    pub(crate) fn block_words(&self) -> &[u32] {
        &self.blocks
    }

    fn one_sided(
        &mut self,
        kind: u32,
        operation: &'static str,
        local: Place,
        bytes: u64,
        peer: Rank,
        remote: Place,
    ) -> Result<Vertex, GraphError> {
        message(operation, Some(peer), None)?;
        span(operation, local, bytes)?;
        span(operation, remote, bytes)?;
        if remote.memory == Memory::User {
            return Err(GraphError::RemoteUser { operation });
        }
        let sizes = [bytes, offset(local), offset(remote)];
        self.add(Encoder::new(kind, &sizes).size(bytes).word(peer.0).place(0, local).place(2, remote))
    }

    fn add(&mut self, record: Encoder) -> Result<Vertex, GraphError> {
        let vertex = self.starts.len();
        let start =
            u32::try_from(self.words.len()).map_err(|_| GraphError::Full { what: "words of operations" })?;
        if vertex >= VERTICES_MAX {
            return Err(GraphError::Full { what: "vertices" });
        }
        self.starts.push(start);
        self.words.push(record.head);
        self.words.extend_from_slice(record.body());
        Ok(Vertex(vertex as u32))
    }

    fn add_vector<const N: usize>(
        &mut self,
        mut record: Encoder,
        lists: [(Memory, &[Block]); N],
    ) -> Result<Vertex, GraphError> {
        let full = || GraphError::Full { what: "blocks" };
        let mut first = self.blocks.len() / 4;
        for (index, (memory, list)) in lists.iter().enumerate() {
            let end = first + list.len();
            u32::try_from(end).map_err(|_| full())?;
            let which = if N == 1 { 0 } else { index };
            record = record.blocks(which, *memory, first as u32, list.len() as u32);
            first = end;
        }
        let vertex = self.add(record)?;
        for &block in lists.iter().flat_map(|(_, list)| list.iter()) {
            codec::push_block(&mut self.blocks, block);
        }
        Ok(vertex)
    }

    fn connect(&mut self, prerequisite: Vertex, target: Vertex, kind: u32) -> Result<(), GraphError> {
        self.own(prerequisite)?;
        self.own(target)?;
        if prerequisite == target {
            return Err(GraphError::SelfDependency { vertex: target });
        }
        if self.edges.len() >= u32::MAX as usize {
            return Err(GraphError::Full { what: "dependencies" });
        }
        self.edges.push([prerequisite.0, target.0 | kind]);
        Ok(())
    }

    fn set_lanes(&mut self, vertex: Vertex, lanes: u16) -> Result<(), GraphError> {
        self.own(vertex)?;
        if lanes != self.lanes(vertex) {
            extend_to(&mut self.lanes, vertex, 0);
            self.lanes[vertex.index()] = lanes;
        }
        Ok(())
    }

    fn own(&self, vertex: Vertex) -> Result<(), GraphError> {
        let vertices = self.len();
        if vertex.index() < vertices { Ok(()) } else { Err(GraphError::NoSuchVertex { vertex, vertices }) }
    }
}

/// Makes a table long enough for `vertex`.
#[inline]
fn extend_to<T: Clone>(table: &mut Vec<T>, vertex: Vertex, default: T) {
    if table.len() == vertex.index() {
        table.push(default);
    } else if table.len() < vertex.index() {
        table.resize(vertex.index() + 1, default);
    }
}

/// The offset as it is stored: places without memory have none.
fn offset(place: Place) -> u64 {
    if place.memory == Memory::Void { 0 } else { place.offset }
}

fn message(operation: &'static str, peer: Option<Rank>, tag: Option<Tag>) -> Result<(), GraphError> {
    if peer == Some(Rank(ANY)) {
        return Err(GraphError::RankReserved { operation });
    }
    match tag {
        Some(tag) if tag > Tag::MAX => Err(GraphError::TagReserved { operation, tag }),
        _ => Ok(()),
    }
}

fn span(operation: &'static str, place: Place, bytes: u64) -> Result<(), GraphError> {
    let offset = offset(place);
    match offset.checked_add(bytes) {
        Some(_) => Ok(()),
        None => Err(GraphError::BufferOverflow { operation, offset, bytes }),
    }
}

fn sum(operation: &'static str, memory: Memory, blocks: &[Block]) -> Result<u64, GraphError> {
    let mut total = 0u64;
    for &Block { offset, bytes } in blocks {
        span(operation, Place { memory, offset }, bytes)?;
        total = total.checked_add(bytes).ok_or(GraphError::SizeOverflow { operation })?;
    }
    Ok(total)
}
