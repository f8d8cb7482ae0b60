//! Bytes to program. Nothing in the bytes is believed: every position is checked before it is used, and what is
//! allocated follows the length of the bytes.

use super::{
    ANY, BinaryError, HEADER_BYTES, MAGIC, MAGIC_USED_UP, NODE_BYTES, NodeProblem, ORIGIN, RANKS_MAX,
    TABLE_ENTRY_BYTES, kind,
};
use crate::graph::{Graph, GraphError, Vertex};
use crate::op::Place;
use crate::program::Program;
use castell_base::{Rank, Tag};

/// Reads a program from LogGOPSim's binary format.
///
/// Blocks and lists have to lie one behind the other, as `txt2bin` writes them, so that no byte counts twice.
///
/// # Errors
/// Bytes in another format, used up, truncated, or at odds with themselves.
///
/// ```
/// use castell_goal::{binary, text};
/// let program = text::parse("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 6\nb requires a\n}", "")?;
/// let bytes = binary::write(&program)?;
/// assert_eq!(binary::read(&bytes)?.operations(), 2);
/// assert!(binary::read(&bytes[..50]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(bytes: &[u8]) -> Result<Program, BinaryError> {
    match bytes.first_chunk().map(|&magic| u64::from_le_bytes(magic)) {
        Some(MAGIC) => (),
        Some(MAGIC_USED_UP) => return Err(BinaryError::UsedUp),
        _ => return Err(BinaryError::Magic),
    }
    let length = bytes.len() as u64;
    let truncated = |what, needed| BinaryError::Truncated { what, bytes: length, needed };
    if length < HEADER_BYTES {
        return Err(truncated("the header", HEADER_BYTES));
    }
    let ranks = word(bytes, 8);
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(BinaryError::Ranks(ranks));
    }
    let blocks_start = HEADER_BYTES + TABLE_ENTRY_BYTES * u64::from(ranks);
    if length < blocks_start {
        return Err(truncated("the table of ranks", blocks_start));
    }
    let mut expected = blocks_start - ORIGIN;
    let mut graphs = Vec::with_capacity(ranks as usize);
    for rank in (0..ranks).map(Rank) {
        let entry = (HEADER_BYTES + TABLE_ENTRY_BYTES * u64::from(rank.0)) as usize;
        let (start, end) = (long(bytes, entry), long(bytes, entry + 8));
        if start != expected {
            return Err(BinaryError::BlockStart { rank, start, expected });
        }
        if end > length - ORIGIN {
            return Err(truncated("a rank's block", end.saturating_add(ORIGIN)));
        }
        if end < start {
            return Err(BinaryError::BlockBytes {
                rank,
                bytes: 0,
                what: "with its end before its start",
                needed: 8,
            });
        }
        let block = &bytes[(start + ORIGIN) as usize..(end + ORIGIN) as usize];
        graphs.push(Block { rank, bytes: block }.read()?);
        expected = end;
    }
    match length - ORIGIN - expected {
        0 => Ok(Program::with_graphs(ranks, graphs)),
        trailing => Err(BinaryError::Trailing(trailing)),
    }
}

/// One rank's part of the file.
struct Block<'a> {
    rank: Rank,
    bytes: &'a [u8],
}

/// One list of an operation's successors.
struct List {
    count: u32,
    first: u32,
}

impl Block<'_> {
    fn read(&self) -> Result<Graph, BinaryError> {
        let nodes_at = self.holds(8, "with its two counts")?;
        let (nodes, independent) = (word(self.bytes, 0), word(self.bytes, 4));
        let nodes_at =
            self.holds(nodes_at + 4 * u64::from(independent), "with its independent operations")?;
        let nodes_end = self.holds(nodes_at + NODE_BYTES as u64 * u64::from(nodes), "with its operations")?;
        let entries = self.bytes.len() as u64 - nodes_end;
        if !entries.is_multiple_of(4) || entries / 4 > u64::from(u32::MAX) {
            let (bytes, needed) = (self.bytes.len() as u64, nodes_end + entries / 4 * 4);
            return Err(BinaryError::BlockBytes {
                rank: self.rank,
                bytes,
                what: "with whole successors",
                needed,
            });
        }
        let (nodes_at, entries) = (nodes_at as usize, (entries / 4) as u32);
        let mut graph = Graph::new();
        for index in 0..nodes {
            let added = add(&mut graph, &self.bytes[nodes_at + NODE_BYTES * index as usize..][..NODE_BYTES]);
            added.map_err(|problem| self.node(index, problem))?;
        }
        let in_degrees = self.connect(&mut graph, nodes_at, nodes, entries)?;
        self.check_independent(&in_degrees, independent)?;
        Ok(graph)
    }

    /// Checks that the block has at least `needed` bytes, and returns that.
    fn holds(&self, needed: u64, what: &'static str) -> Result<u64, BinaryError> {
        let bytes = self.bytes.len() as u64;
        if needed <= bytes {
            Ok(needed)
        } else {
            Err(BinaryError::BlockBytes { rank: self.rank, bytes, what, needed })
        }
    }

    /// Adds the edges; returns how many end at each operation, which is what its counter says.
    fn connect(
        &self,
        graph: &mut Graph,
        nodes_at: usize,
        nodes: u32,
        entries: u32,
    ) -> Result<Vec<u32>, BinaryError> {
        let list_at = nodes_at + NODE_BYTES * nodes as usize;
        let mut in_degrees = vec![0u32; nodes as usize];
        let mut expected = 0;
        for index in 0..nodes {
            let node = &self.bytes[nodes_at + NODE_BYTES * index as usize..][..NODE_BYTES];
            let (ends, starts) = lists(node);
            for (list, on_start) in [(ends, false), (starts, true)] {
                let start = expected;
                expected = check_list(&list, start, entries).map_err(|problem| self.node(index, problem))?;
                for entry in start..expected {
                    let successor = word(self.bytes, list_at + 4 * entry as usize);
                    if successor >= nodes {
                        return Err(self.node(index, NodeProblem::Successor { successor, nodes }));
                    }
                    let (from, to) = (Vertex(index), Vertex(successor));
                    let added = if on_start { graph.irequires(from, to) } else { graph.requires(from, to) };
                    added.map_err(|error| self.node(index, NodeProblem::Refused(error)))?;
                    in_degrees[successor as usize] += 1;
                }
            }
        }
        if expected != entries {
            let (bytes, needed) = (self.bytes.len() as u64, (list_at + 4 * expected as usize) as u64);
            return Err(BinaryError::BlockBytes {
                rank: self.rank,
                bytes,
                what: "with its successors",
                needed,
            });
        }
        for index in 0..nodes {
            let stored = word(self.bytes, nodes_at + NODE_BYTES * index as usize);
            let edges = in_degrees[index as usize];
            if stored != edges {
                return Err(self.node(index, NodeProblem::Unmet { stored, edges }));
            }
        }
        Ok(in_degrees)
    }

    /// The list at the block's start has to name exactly the operations without dependencies, ascending.
    fn check_independent(&self, in_degrees: &[u32], independent: u32) -> Result<(), BinaryError> {
        let mut free = (0..in_degrees.len() as u32).filter(|&index| in_degrees[index as usize] == 0);
        for position in 0..independent {
            let index = word(self.bytes, 8 + 4 * position as usize);
            let problem = match (free.next(), in_degrees.get(index as usize)) {
                (Some(next), _) if next == index => continue,
                (_, None) => "it does not exist",
                (_, Some(0)) => "out of order",
                (_, Some(_)) => "it has dependencies",
            };
            return Err(self.node(index, NodeProblem::Independent(problem)));
        }
        match free.next() {
            None => Ok(()),
            Some(index) => Err(self.node(index, NodeProblem::NotIndependent)),
        }
    }

    fn node(&self, index: u32, problem: NodeProblem) -> BinaryError {
        BinaryError::Node { rank: self.rank, index, problem }
    }
}

/// Adds an operation without its edges.
fn add(graph: &mut Graph, node: &[u8]) -> Result<(), NodeProblem> {
    let (peer, size, tag) = (word(node, 5), long(node, 9), word(node, 17));
    let some = |word: u32| (word != ANY).then_some(word);
    let added = match node[4] {
        kind::SEND => graph.send(Place::VOID, size, Rank(peer), Tag(tag)),
        kind::RECV => graph.recv(Place::VOID, size, some(peer).map(Rank), some(tag).map(Tag)),
        kind::CALC => graph.calc(size),
        other => return Err(NodeProblem::Kind(other)),
    };
    let lanes = |graph: &mut Graph, vertex| -> Result<(), GraphError> {
        graph.set_cpu(vertex, node[21])?;
        graph.set_nic(vertex, node[22])
    };
    added.and_then(|vertex| lanes(graph, vertex)).map_err(NodeProblem::Refused)
}

/// The lists of those that wait for the operation's end, and for its start.
fn lists(node: &[u8]) -> (List, List) {
    let list = |at| List { count: word(node, at), first: word(node, at + 4) };
    (list(23), list(31))
}

/// Checks that a list begins where the last one ended and stays inside; returns where it ends. The start of an empty
/// list means nothing.
fn check_list(list: &List, expected: u32, entries: u32) -> Result<u32, NodeProblem> {
    let &List { count, first } = list;
    if count == 0 {
        return Ok(expected);
    }
    if first != expected {
        return Err(NodeProblem::List { first, expected });
    }
    match first.checked_add(count) {
        Some(end) if end <= entries => Ok(end),
        _ => Err(NodeProblem::ListEnd { first, count, entries }),
    }
}

/// The 32-bit number at `at`, which is known to be inside.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..].first_chunk().expect("the position was checked");
    u32::from_le_bytes(*bytes)
}

/// The 64-bit number at `at`, which is known to be inside.
fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..].first_chunk().expect("the position was checked");
    u64::from_le_bytes(*bytes)
}
