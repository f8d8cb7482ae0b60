//! The compiled schedules of all ranks of a program, and the file that holds them (`.sched`).
//!
//! Little-endian; all offsets count from the start of the file:
//!
//! | byte | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `CSET` |
//! | 4 | 4 | version, 1 |
//! | 8 | 8 | length of the file |
//! | 16 | 4 | CRC-32 of everything behind this field |
//! | 20 | 4 | number of ranks |
//! | 24 | 4 | number of schedules, at most the number of ranks: those of the first ranks; ranks behind them do nothing |
//! | 28 | 4 | 0 |
//! | 32 | 16 each | offset and length of each schedule, one directly behind the other, the first directly behind this table |
//! | | | the schedules, each as `SCHEDULE.md` documents it, made for its rank and this number of ranks |

use crate::compile::CompileError;
use crate::graph::{Graph, GraphError, Vertex};
use crate::op::{Block, Buffer, Memory, Op, Place};
use crate::program::Program;
use crate::schedule::{OpId, Schedule};
use crate::verify::FormatError;
use castell_base::Rank;
use std::collections::HashMap;

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"CSET";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const CHECKED_FROM: usize = 20;
const ENTRY_BYTES: usize = 16;

/// One compiled schedule a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSet {
    num_ranks: u32,
    schedules: Vec<Schedule>,
    empty: Schedule,
}

/// Why a program cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}: {error}")]
pub struct SetCompileError {
    /// The rank.
    pub rank: Rank,
    /// What is wrong with its graph.
    pub error: CompileError,
}

/// Why bytes are no set of schedules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetFormatError {
    /// Another file.
    #[error("not a set of compiled schedules: it does not begin with `CSET`")]
    Magic,
    /// Written by another version.
    #[error(
        "version {0} of the format for sets of schedules; this program reads version {VERSION}: compile anew"
    )]
    Version(u32),
    /// Cut off, or followed by something else.
    #[error(
        "the header announces {announced} bytes, but there are {bytes}: the file was cut off or extended"
    )]
    Length {
        /// Length in the header.
        announced: u64,
        /// Bytes given.
        bytes: u64,
    },
    /// The bytes were changed.
    #[error("checksum {computed:#010x} instead of {stored:#010x}: the file was damaged; compile anew")]
    Checksum {
        /// CRC-32 in the header.
        stored: u32,
        /// CRC-32 of the bytes.
        computed: u32,
    },
    /// The header contradicts itself.
    #[error("the header is wrong: {0}")]
    Header(&'static str),
    /// A schedule is not where it has to be.
    #[error(
        "the schedule of rank {rank} lies at bytes {start} to {end}, but has to begin at {expected} and end by {bytes}"
    )]
    Entry {
        /// The rank.
        rank: Rank,
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
        /// Where the last one ended.
        expected: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// A schedule is wrong.
    #[error("the schedule of rank {rank}: {error}")]
    Schedule {
        /// The rank.
        rank: Rank,
        /// What is wrong.
        error: FormatError,
    },
    /// A schedule was made for another place in a group.
    #[error("the schedule in the place of rank {0} was made for another rank or another number of ranks")]
    Group(Rank),
}

impl ScheduleSet {
    /// Compiles every rank's graph for its place in the group.
    ///
    /// # Errors
    /// The first rank whose graph has a cycle, a buffer outside its scratchpad, or a peer outside the group.
    ///
    /// ```
    /// use castell_goal::{schedule_set::ScheduleSet, text};
    /// let program = text::parse("num_ranks 2\nrank 0 { send 8b to 1 }\nrank 1 { recv 8b from 0 }", "")?;
    /// let set = ScheduleSet::compile(&program)?;
    /// assert_eq!(ScheduleSet::from_bytes(&set.to_bytes())?, set);
    /// assert_eq!(set.to_program().operations(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile(program: &Program) -> Result<ScheduleSet, SetCompileError> {
        let num_ranks = program.num_ranks();
        let compile = |(rank, graph): (Rank, &Graph)| {
            let compiled = graph.compile().and_then(|schedule| schedule.for_group(rank, num_ranks));
            compiled.map_err(|error| SetCompileError { rank, error })
        };
        let schedules = program.graphs().map(compile).collect::<Result<_, _>>()?;
        Ok(ScheduleSet { num_ranks, schedules, empty: empty() })
    }

    /// Size of the group.
    pub fn num_ranks(&self) -> u32 {
        self.num_ranks
    }

    /// The schedule of a rank.
    ///
    /// # Panics
    /// Where there is no such rank.
    pub fn rank(&self, rank: Rank) -> &Schedule {
        assert!(rank.0 < self.num_ranks, "rank {rank} of {}", self.num_ranks);
        self.schedules.get(rank.index()).unwrap_or(&self.empty)
    }

    /// The ranks that have a schedule, in order; all ranks behind them do nothing.
    pub fn schedules(&self) -> impl ExactSizeIterator<Item = (Rank, &Schedule)> {
        self.schedules.iter().enumerate().map(|(rank, schedule)| (Rank(rank as u32), schedule))
    }

    /// The set as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let table_end = HEADER_BYTES + ENTRY_BYTES * self.schedules.len();
        let mut bytes = vec![0; table_end];
        for (rank, schedule) in self.schedules.iter().enumerate() {
            let block = schedule.to_bytes();
            let entry = HEADER_BYTES + ENTRY_BYTES * rank;
            let start = bytes.len() as u64;
            bytes[entry..entry + 8].copy_from_slice(&start.to_le_bytes());
            bytes[entry + 8..entry + 16].copy_from_slice(&(block.len() as u64).to_le_bytes());
            bytes.extend(block);
        }
        let length = bytes.len() as u64;
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.num_ranks.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.schedules.len() as u32).to_le_bytes());
        let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads and verifies a file. Addresses are refused: they mean nothing in another process.
    ///
    /// # Errors
    /// Anything that [`ScheduleSet::to_bytes`] would not have written.
    pub fn from_bytes(bytes: &[u8]) -> Result<ScheduleSet, SetFormatError> {
        read(bytes, Schedule::from_bytes)
    }

    /// As [`ScheduleSet::from_bytes`], but leaves addresses alone: to look at a set, not to run it.
    ///
    /// # Errors
    /// As [`ScheduleSet::from_bytes`].
    pub fn from_bytes_trusting_addresses(bytes: &[u8]) -> Result<ScheduleSet, SetFormatError> {
        read(bytes, Schedule::from_bytes_trusting_addresses)
    }

    /// The program that the set was compiled from, but for the order of operations, which is the schedules', and for
    /// positions in a text.
    pub fn to_program(&self) -> Program {
        let graphs = self.schedules.iter().map(to_graph).collect();
        Program::with_graphs(self.num_ranks, graphs)
    }
}

fn empty() -> Schedule {
    Graph::new().compile().expect("an empty graph has no cycle")
}

fn read(
    bytes: &[u8],
    schedule: impl Fn(&[u8]) -> Result<Schedule, FormatError>,
) -> Result<ScheduleSet, SetFormatError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(SetFormatError::Magic);
    }
    let length = bytes.len() as u64;
    if bytes.len() < HEADER_BYTES {
        return Err(SetFormatError::Length { announced: HEADER_BYTES as u64, bytes: length });
    }
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside the header"));
    let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside header or table"));
    if word(4) != VERSION {
        return Err(SetFormatError::Version(word(4)));
    }
    if long(8) != length {
        return Err(SetFormatError::Length { announced: long(8), bytes: length });
    }
    let (stored, computed) = (word(16), crc32fast::hash(&bytes[CHECKED_FROM..]));
    if stored != computed {
        return Err(SetFormatError::Checksum { stored, computed });
    }
    let (num_ranks, count) = (word(20), word(24));
    if num_ranks == u32::MAX || count > num_ranks || word(28) != 0 {
        return Err(SetFormatError::Header("impossible numbers of ranks and schedules"));
    }
    let mut expected = HEADER_BYTES as u64 + ENTRY_BYTES as u64 * u64::from(count);
    if expected > length {
        return Err(SetFormatError::Header("its table does not fit into the file"));
    }
    let mut schedules = Vec::with_capacity(count as usize);
    for rank in (0..count).map(Rank) {
        let entry = HEADER_BYTES + ENTRY_BYTES * rank.index();
        let (start, end) = (long(entry), long(entry).saturating_add(long(entry + 8)));
        if start != expected || end > length {
            return Err(SetFormatError::Entry { rank, start, end, expected, bytes: length });
        }
        let block = &bytes[start as usize..end as usize];
        let schedule = schedule(block).map_err(|error| SetFormatError::Schedule { rank, error })?;
        if schedule.group() != Some((rank, num_ranks)) {
            return Err(SetFormatError::Group(rank));
        }
        schedules.push(schedule);
        expected = end;
    }
    if expected != length {
        return Err(SetFormatError::Header("something lies behind the last schedule"));
    }
    Ok(ScheduleSet { num_ranks, schedules, empty: empty() })
}

/// The graph that compiles to this schedule, its operations in the schedule's order.
pub fn to_graph(schedule: &Schedule) -> Graph {
    rebuild(schedule).expect("a schedule holds nothing that a graph refuses")
}

fn rebuild(schedule: &Schedule) -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    graph.allocate_scratchpad(schedule.scratchpad_bytes());
    let mut vertices: HashMap<OpId, Vertex> = HashMap::with_capacity(schedule.len());
    for id in schedule.operations() {
        let (vertex, traits) = (add(&mut graph, schedule.op(id))?, schedule.traits(id));
        vertices.insert(id, vertex);
        graph.set_cpu(vertex, traits.cpu)?;
        graph.set_nic(vertex, traits.nic)?;
        if let Some(any) = traits.any {
            graph.set_any(vertex, any)?;
        }
        if traits.concurrent {
            graph.set_concurrent(vertex)?;
        }
        if let Some(label) = schedule.label(id) {
            graph.set_label(vertex, label)?;
        }
    }
    for id in schedule.operations() {
        for target in schedule.successors(id) {
            graph.requires(vertices[&id], vertices[&target])?;
        }
        for target in schedule.start_successors(id) {
            graph.irequires(vertices[&id], vertices[&target])?;
        }
    }
    Ok(graph)
}

/// Adds an operation as it was taken from a graph or schedule.
fn add(graph: &mut Graph, op: Op) -> Result<Vertex, GraphError> {
    match op {
        Op::Proxy => graph.proxy(),
        Op::Send { buffer: Buffer::Plain(place), bytes, dest, tag } => graph.send(place, bytes, dest, tag),
        Op::Send { buffer: Buffer::Vector(memory, blocks), dest, tag, .. } => {
            graph.send_vec(memory, &blocks.iter().collect::<Vec<_>>(), dest, tag)
        }
        Op::Recv { buffer: Buffer::Plain(place), bytes, source, tag } => {
            graph.recv(place, bytes, source, tag)
        }
        Op::Recv { buffer: Buffer::Vector(memory, blocks), source, tag, .. } => {
            graph.recv_vec(memory, &blocks.iter().collect::<Vec<_>>(), source, tag)
        }
        Op::Calc { ns } => graph.calc(ns),
        Op::Sleep { ns } => graph.sleep(ns),
        Op::Local {
            b1: Buffer::Plain(b1),
            b2: Buffer::Plain(b2),
            b3: Buffer::Plain(b3),
            arithmetic,
            count,
        } => graph.local(b1, b2, b3, arithmetic, count),
        Op::Local { b1, b2, b3, arithmetic, .. } => {
            let [b1, b2, b3] = [b1, b2, b3].map(list);
            graph.local_vec((b1.0, &b1.1), (b2.0, &b2.1), (b3.0, &b3.1), arithmetic)
        }
        Op::Wtime { b3 } => graph.wtime(b3),
        Op::Call { function, context } => graph.call(function, context),
        Op::Put { local, bytes, dest, remote } => graph.put(local, bytes, dest, remote),
        Op::Get { local, bytes, source, remote } => graph.get(local, bytes, source, remote),
    }
}

/// Memory and blocks of a buffer; operations with lists have no plain buffers.
fn list(buffer: Buffer) -> (Memory, Vec<Block>) {
    match buffer {
        Buffer::Vector(memory, blocks) => (memory, blocks.iter().collect()),
        Buffer::Plain(Place { memory, .. }) => (memory, Vec::new()),
    }
}
