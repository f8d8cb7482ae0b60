//! Program to bytes, as LogGOPSim's `txt2bin` writes them.

use super::{ANY, BinaryError, HEADER_BYTES, MAGIC, ORIGIN, RANKS_MAX, TABLE_ENTRY_BYTES, kind};
use crate::graph::{Graph, Vertex};
use crate::op::{Buffer, Op, Place};
use crate::program::Program;
use crate::text::Operation;
use castell_base::Rank;

/// Writes a program in LogGOPSim's binary format: the same bytes that its own `txt2bin` makes of the same text.
/// Labels are left out; the format has none.
///
/// # Errors
/// [`BinaryError::Unsupported`] for an operation, buffer or option that the format lacks.
pub fn write(program: &Program) -> Result<Vec<u8>, BinaryError> {
    let ranks = program.num_ranks();
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(BinaryError::Ranks(ranks));
    }
    let (mut max_cpu, mut max_nic) = (0, 0);
    let blocks_start = HEADER_BYTES + TABLE_ENTRY_BYTES * u64::from(ranks);
    let mut bytes = vec![0; blocks_start as usize];
    for rank in (0..ranks).map(Rank) {
        let graph = program.rank(rank);
        let start = bytes.len() as u64 - ORIGIN;
        write_block(rank, graph, &mut bytes)?;
        let end = bytes.len() as u64 - ORIGIN;
        let entry = (HEADER_BYTES + TABLE_ENTRY_BYTES * u64::from(rank.0)) as usize;
        bytes[entry..entry + 8].copy_from_slice(&start.to_le_bytes());
        bytes[entry + 8..entry + 16].copy_from_slice(&end.to_le_bytes());
        for vertex in graph.vertices() {
            let traits = graph.traits(vertex);
            (max_cpu, max_nic) = (max_cpu.max(traits.cpu), max_nic.max(traits.nic));
        }
    }
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&ranks.to_le_bytes());
    bytes[12] = max_cpu;
    bytes[13] = max_nic;
    Ok(bytes)
}

fn write_block(rank: Rank, graph: &Graph, bytes: &mut Vec<u8>) -> Result<(), BinaryError> {
    let edges = graph.edge_count() as u64;
    if edges > u64::from(u32::MAX) {
        return Err(BinaryError::TooManyEdges { rank, edges });
    }
    let mut in_degrees = vec![0u32; graph.len()];
    // Of each vertex: how many wait for its end, how many for its start.
    let mut counts = vec![[0u32; 2]; graph.len()];
    for edge in graph.edges() {
        in_degrees[edge.target.index()] += 1;
        counts[edge.prerequisite.index()][edge.kind as usize] += 1;
    }
    let independent = || (0..graph.len() as u32).filter(|&vertex| in_degrees[vertex as usize] == 0);
    bytes.extend((graph.len() as u32).to_le_bytes());
    bytes.extend((independent().count() as u32).to_le_bytes());
    independent().for_each(|vertex| bytes.extend(vertex.to_le_bytes()));

    let mut at = 0u32;
    for vertex in graph.vertices() {
        let Fields { kind, peer, size, tag } = fields(rank, graph, vertex)?;
        let traits = graph.traits(vertex);
        let [ends, starts] = counts[vertex.index()];
        bytes.extend(in_degrees[vertex.index()].to_le_bytes());
        bytes.push(kind);
        bytes.extend(peer.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(tag.to_le_bytes());
        bytes.extend([traits.cpu, traits.nic]);
        bytes.extend(ends.to_le_bytes());
        bytes.extend(at.to_le_bytes());
        bytes.extend(starts.to_le_bytes());
        bytes.extend((at + ends).to_le_bytes());
        // From here on: where each of the two lists is filled next.
        counts[vertex.index()] = [at, at + ends];
        at += ends + starts;
    }
    let list_at = bytes.len();
    bytes.resize(list_at + 4 * at as usize, 0);
    for edge in graph.edges() {
        let next = &mut counts[edge.prerequisite.index()][edge.kind as usize];
        let entry = list_at + 4 * *next as usize;
        bytes[entry..entry + 4].copy_from_slice(&edge.target.0.to_le_bytes());
        *next += 1;
    }
    Ok(())
}

struct Fields {
    kind: u8,
    peer: u32,
    size: u64,
    tag: u32,
}

/// What the format stores of an operation, if it can store it.
fn fields(rank: Rank, graph: &Graph, vertex: Vertex) -> Result<Fields, BinaryError> {
    let (op, traits) = (graph.op(vertex), graph.traits(vertex));
    let lacks = |lacks| {
        let (name, operation) = (graph.name(vertex), Operation(op, traits).to_string());
        Err(BinaryError::Unsupported { rank, name, lacks, operation })
    };
    if traits.any.is_some() {
        return lacks("`any`");
    }
    if traits.concurrent {
        return lacks("`concurrent`");
    }
    match op {
        Op::Send { buffer, .. } | Op::Recv { buffer, .. } if buffer != Buffer::Plain(Place::VOID) => {
            lacks("buffers")
        }
        Op::Send { bytes, dest, tag, .. } => {
            Ok(Fields { kind: kind::SEND, peer: dest.0, size: bytes, tag: tag.0 })
        }
        Op::Recv { bytes, source, tag, .. } => {
            let (peer, tag) = (source.map_or(ANY, |rank| rank.0), tag.map_or(ANY, |tag| tag.0));
            Ok(Fields { kind: kind::RECV, peer, size: bytes, tag })
        }
        Op::Calc { ns } => Ok(Fields { kind: kind::CALC, peer: 0, size: ns, tag: 0 }),
        _ => lacks("such operation"),
    }
}
