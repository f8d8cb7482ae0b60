//! LogGOPSim's binary format: its bytes, and what is done with wrong ones.

use crate::random_program;
use crate::random_program::Vocabulary;
use castell_base::{Rank, Tag};
use castell_goal::binary::{self, BinaryError, NodeProblem};
use castell_goal::graph::{EdgeKind, Graph, Vertex};
use castell_goal::op::{Op, Place};
use castell_goal::program::Program;
use castell_goal::text;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn vector(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goal").join(name)).unwrap()
}

/// The `.bin` files are, byte by byte, what LogGOPSim's `txt2bin` makes of the texts.
#[test]
fn writes_the_bytes_that_txt2bin_writes() {
    for name in ["binomial-broadcast", "overlap"] {
        let program = text::parse(vector(&format!("{name}.goal")), name).unwrap();
        let golden = vector(&format!("{name}.bin"));
        assert!(binary::write(&program).unwrap() == golden, "{name}");
        let again = binary::read(&golden).unwrap();
        assert_eq!(again.operations(), program.operations());
        assert!(binary::write(&again).unwrap() == golden, "{name}, read and written again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(seed in any::<u64>(), vertices in 0usize..40) {
        let program = random_program::program(seed, vertices, Vocabulary::LogGopSim);
        let bytes = binary::write(&program).unwrap();
        let again = binary::read(&bytes).unwrap();
        prop_assert_eq!(program.num_ranks(), again.num_ranks());
        for (rank, graph) in program.graphs() {
            let other = again.rank(rank);
            for vertex in graph.vertices() {
                prop_assert_eq!(graph.op(vertex), other.op(vertex));
                prop_assert_eq!(graph.traits(vertex), other.traits(vertex));
            }
            prop_assert_eq!(graph.edge_count(), other.edge_count());
        }
        prop_assert_eq!(binary::write(&again).unwrap(), bytes);
    }

    #[test]
    fn what_the_format_lacks_is_refused_and_named(seed in any::<u64>(), vertices in 0usize..40) {
        let program = random_program::program(seed, vertices, Vocabulary::Full);
        match binary::write(&program) {
            Ok(bytes) => prop_assert!(binary::read(&bytes).is_ok()),
            Err(BinaryError::Unsupported { operation, .. }) => prop_assert!(!operation.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

/// Cut anywhere, the file says what is cut off and how long it has to be.
#[test]
fn every_cut_is_refused_with_what_is_missing() {
    let whole = vector("overlap.bin");
    let (table, bytes) = (14 + 16 * u64::from(whole[8]), whole.len() as u64);
    let ends: Vec<u64> = whole[14..table as usize].chunks(16).map(|entry| number(&entry[8..]) + 8).collect();
    assert_eq!(ends.last(), Some(&bytes));
    for cut in 0..bytes {
        let truncated = |what, needed| BinaryError::Truncated { what, bytes: cut, needed };
        let expected = match cut {
            ..8 => BinaryError::Magic,
            8..14 => truncated("the header", 14),
            _ if cut < table => truncated("the table of ranks", table),
            _ => truncated("a rank's block", *ends.iter().find(|end| **end > cut).unwrap()),
        };
        assert_eq!(binary::read(&whole[..cut as usize]).unwrap_err(), expected);
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// The block of [`pair`], which is 94 bytes long, cut with the whole file: what it holds needs more.
#[test]
fn blocks_hold_what_they_announce() {
    for bytes in 0..94_u64 {
        let mut file = pair();
        file.truncate(14 + 16 + bytes as usize);
        file[22..30].copy_from_slice(&(22 + bytes).to_le_bytes());
        let (what, needed) = match bytes {
            ..8 => ("with its two counts", 8),
            8..12 => ("with its independent operations", 12),
            12..90 => ("with its operations", 90),
            90 => {
                let problem = NodeProblem::ListEnd { first: 0, count: 1, entries: 0 };
                let expected = BinaryError::Node { rank: Rank(0), index: 0, problem };
                assert_eq!(binary::read(&file).unwrap_err(), expected);
                continue;
            }
            _ => ("with whole successors", 90),
        };
        let expected = BinaryError::BlockBytes { rank: Rank(0), bytes, what, needed };
        assert_eq!(binary::read(&file).unwrap_err(), expected);
    }
    for more in 1..4 {
        let mut file = pair();
        file.extend(vec![0; more]);
        file[22] += more as u8;
        let (bytes, what) = (94 + more as u64, "with whole successors");
        let expected = BinaryError::BlockBytes { rank: Rank(0), bytes, what, needed: 94 };
        assert_eq!(binary::read(&file).unwrap_err(), expected);
    }
    // One successor more than is used.
    let mut file = pair();
    file.extend([0; 4]);
    file[22] += 4;
    let what = "with its successors";
    let expected = BinaryError::BlockBytes { rank: Rank(0), bytes: 98, what, needed: 94 };
    assert_eq!(binary::read(&file).unwrap_err(), expected);
    // It ends before it starts.
    let mut file = pair();
    file[22..30].copy_from_slice(&21_u64.to_le_bytes());
    let what = "with its end before its start";
    let expected = BinaryError::BlockBytes { rank: Rank(0), bytes: 0, what, needed: 8 };
    assert_eq!(binary::read(&file).unwrap_err(), expected);
}

#[test]
fn so_many_ranks_are_read_and_written_and_no_more() {
    let header = |ranks: u32| [&4223_u64.to_le_bytes()[..], &ranks.to_le_bytes(), &[0, 0]].concat();
    let most = binary::RANKS_MAX;
    let needed = 14 + 16 * u64::from(most);
    let truncated = BinaryError::Truncated { what: "the table of ranks", bytes: 14, needed };
    assert_eq!(binary::read(&header(most)).unwrap_err(), truncated);
    for ranks in [0, most + 1, u32::MAX] {
        assert_eq!(binary::read(&header(ranks)).unwrap_err(), BinaryError::Ranks(ranks));
        assert_eq!(binary::write(&Program::new(ranks)).unwrap_err(), BinaryError::Ranks(ranks));
    }
}

/// The bytes of a program, field after field as the format is described.
fn described(program: &Program) -> Vec<u8> {
    let (mut blocks, mut table) = (Vec::new(), Vec::new());
    let (mut cpus, mut nics) = (vec![0], vec![0]);
    for rank in (0..program.num_ranks()).map(Rank) {
        let graph = program.rank(rank);
        let (mut block, mut nodes, mut list) = (Vec::<u32>::new(), Vec::new(), Vec::<u32>::new());
        let unmet = |vertex| graph.edges().filter(|edge| edge.target == vertex).count() as u32;
        let independent: Vec<u32> =
            graph.vertices().filter(|v| unmet(*v) == 0).map(|vertex| vertex.0).collect();
        block.extend([graph.len() as u32, independent.len() as u32]);
        block.extend(independent);
        for vertex in graph.vertices() {
            let or_any = |number: Option<u32>| number.unwrap_or(u32::MAX);
            let (kind, peer, size, tag) = match graph.op(vertex) {
                Op::Send { bytes, dest, tag, .. } => (1, dest.0, bytes, tag.0),
                Op::Recv { bytes, source, tag, .. } => {
                    (2, or_any(source.map(|rank| rank.0)), bytes, or_any(tag.map(|tag| tag.0)))
                }
                Op::Calc { ns } => (3, 0, ns, 0),
                other => panic!("{other:?}"),
            };
            let traits = graph.traits(vertex);
            cpus.push(traits.cpu);
            nics.push(traits.nic);
            nodes.extend(unmet(vertex).to_le_bytes());
            nodes.push(kind);
            nodes.extend(peer.to_le_bytes());
            nodes.extend(size.to_le_bytes());
            nodes.extend(tag.to_le_bytes());
            nodes.extend([traits.cpu, traits.nic]);
            for kind in [EdgeKind::Finish, EdgeKind::Start] {
                let own = graph.edges().filter(|edge| edge.prerequisite == vertex && edge.kind == kind);
                let own: Vec<u32> = own.map(|edge| edge.target.0).collect();
                nodes.extend([own.len() as u32, list.len() as u32].into_iter().flat_map(u32::to_le_bytes));
                list.extend(own);
            }
        }
        table.push(14 + 16 * u64::from(program.num_ranks()) - 8 + blocks.len() as u64);
        blocks.extend(block.into_iter().flat_map(u32::to_le_bytes));
        blocks.extend(nodes);
        blocks.extend(list.into_iter().flat_map(u32::to_le_bytes));
        table.push(14 + 16 * u64::from(program.num_ranks()) - 8 + blocks.len() as u64);
    }
    let mut bytes = [&4223_u64.to_le_bytes()[..], &program.num_ranks().to_le_bytes()].concat();
    bytes.extend([cpus.into_iter().max().unwrap(), nics.into_iter().max().unwrap()]);
    bytes.extend(table.into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(blocks);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_are_as_described_and_read_back(seed in any::<u64>(), vertices in 0usize..40) {
        let program = random_program::program(seed, vertices, Vocabulary::LogGopSim);
        let bytes = binary::write(&program).unwrap();
        prop_assert_eq!(described(&program), &bytes[..]);
        let again = binary::read(&bytes).unwrap();
        for (rank, graph) in program.graphs() {
            // The format lists edges by their prerequisites, those of its end before those of its start.
            let of = |graph: &Graph, vertex, kind| -> Vec<Vertex> {
                let own = graph.edges().filter(|edge| edge.prerequisite == vertex && edge.kind == kind);
                own.map(|edge| edge.target).collect()
            };
            let other = again.rank(rank);
            for vertex in graph.vertices() {
                for kind in [EdgeKind::Finish, EdgeKind::Start] {
                    prop_assert_eq!(of(graph, vertex, kind), of(other, vertex, kind));
                }
            }
        }
    }
}

#[test]
fn every_changed_byte_is_refused_or_read() {
    let bytes = vector("overlap.bin");
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(program) = binary::read(&changed) {
                assert!(binary::write(&program).is_ok(), "byte {at}");
            }
        }
    }
}

/// A file of one rank with `a`, and `b` that waits for it.
fn pair() -> Vec<u8> {
    let program =
        text::parse("num_ranks 1\nrank 0 {\na: calc 5\nb: send 8b to 0\nb requires a\n}", "").unwrap();
    binary::write(&program).unwrap()
}

/// First byte of operation `index` in [`pair`].
fn node(index: usize) -> usize {
    14 + 16 + 8 + 4 + 39 * index
}

fn refused(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = pair();
    change(&mut bytes);
    binary::read(&bytes).unwrap_err().to_string()
}

#[test]
fn errors_say_what_is_wrong() {
    let cases: &[(&str, usize, u8)] = &[
        ("not a LogGOPSim binary", 1, 7),
        ("0 ranks", 8, 0),
        ("within the table of ranks", 9, 1),
        ("starts at 0, but the block before it ends at 22", 14, 0),
        ("ends within a rank's block", 23, 200),
        ("but with its operations it takes", 30, 9),
        ("kind 4 is unknown", node(0) + 4, 4),
        ("operation 1 of rank 0: it counts 2 unmet dependencies, but 1 edges end at it", node(1), 2),
        ("starts at 5, but the list before it ends at 0", node(0) + 27, 5),
        ("leave the list of 1", node(0) + 23, 9),
        ("its successor 9 does not exist: the rank has 2 operations", node(2), 9),
        ("cannot depend on itself", node(2), 0),
        ("listed as independent, but it has dependencies", 38, 1),
        ("listed as independent, but it does not exist", 38, 2),
        ("tag 4294967295", usize::MAX, 0),
    ];
    for &(message, at, value) in cases {
        let error = refused(|bytes| match at {
            usize::MAX => bytes[node(1) + 17..][..4].fill(255),
            at => bytes[at] = value,
        });
        assert!(error.contains(message), "{error}\nshould contain\n{message}");
    }
}

/// Each field of an operation at its ends: its size, its peer, its tag, its lanes and what waits for it.
#[test]
fn wrong_operations_are_refused_with_their_number() {
    let node_with = |index: usize, field: usize, bytes: &[u8]| {
        let mut file = pair();
        file[node(index) + field..][..bytes.len()].copy_from_slice(bytes);
        binary::read(&file)
    };
    let problem = |index: usize, field: usize, bytes: &[u8]| match node_with(index, field, bytes) {
        Err(BinaryError::Node { rank: Rank(0), index, problem }) => (index, problem),
        other => panic!("{other:?}"),
    };
    let list = |first: u32, count: u32| [count.to_le_bytes(), first.to_le_bytes()].concat();
    for kind in [0, 4, 255] {
        assert_eq!(problem(1, 4, &[kind]), (1, NodeProblem::Kind(kind)));
    }
    // Both lists of both operations: where they begin, how far they reach, and where an empty one begins says nothing.
    assert_eq!(problem(0, 23, &list(1, 1)), (0, NodeProblem::List { first: 1, expected: 0 }));
    assert_eq!(problem(0, 23, &list(0, 2)), (0, NodeProblem::ListEnd { first: 0, count: 2, entries: 1 }));
    assert_eq!(problem(0, 31, &list(1, 1)), (0, NodeProblem::ListEnd { first: 1, count: 1, entries: 1 }));
    assert_eq!(problem(0, 31, &list(0, 1)), (0, NodeProblem::List { first: 0, expected: 1 }));
    assert_eq!(
        problem(1, 31, &list(1, u32::MAX)).1,
        NodeProblem::ListEnd { first: 1, count: u32::MAX, entries: 1 }
    );
    assert!(node_with(0, 31, &list(7, 0)).is_ok() && node_with(1, 23, &list(7, 0)).is_ok());
    for unmet in [0, 2] {
        assert_eq!(problem(1, 0, &[unmet]).1, NodeProblem::Unmet { stored: unmet.into(), edges: 1 });
    }
    assert_eq!(problem(0, 0, &[1]), (0, NodeProblem::Unmet { stored: 1, edges: 0 }));
    let successor = |number: u32| problem(2, 0, &number.to_le_bytes());
    assert_eq!(successor(2), (0, NodeProblem::Successor { successor: 2, nodes: 2 }));
    for (index, problem) in [(0, "cannot depend on itself"), (1, "")] {
        let file = node_with(2, 0, &[index]);
        assert_eq!(file.is_ok(), problem.is_empty());
    }
    // The list of independent operations: that of `pair` names operation 0.
    for (index, said) in [(1, "it has dependencies"), (2, "it does not exist")] {
        let mut file = pair();
        file[38] = index;
        let expected = NodeProblem::Independent(said);
        let expected = BinaryError::Node { rank: Rank(0), index: index.into(), problem: expected };
        assert_eq!(binary::read(&file).unwrap_err(), expected);
    }
}

#[test]
fn independent_operations_are_listed_in_order() {
    let program = text::parse("num_ranks 1\nrank 0 {\ncalc 5\ncalc 6\n}", "").unwrap();
    let mut bytes = binary::write(&program).unwrap();
    assert_eq!((bytes[38], bytes[42]), (0, 1));
    (bytes[38], bytes[42]) = (1, 0);
    let problem = NodeProblem::Independent("out of order");
    assert_eq!(binary::read(&bytes).unwrap_err(), BinaryError::Node { rank: Rank(0), index: 1, problem });
    (bytes[38], bytes[42]) = (0, 0);
    let problem = NodeProblem::Independent("out of order");
    assert_eq!(binary::read(&bytes).unwrap_err(), BinaryError::Node { rank: Rank(0), index: 0, problem });
}

#[test]
fn a_used_up_file_is_refused() {
    let error = refused(|bytes| bytes[..2].copy_from_slice(&2342u16.to_le_bytes()));
    assert!(error.contains("used up"), "{error}");
}

#[test]
fn bytes_behind_the_last_rank_are_refused() {
    let error = refused(|bytes| bytes.extend([0; 3]));
    assert!(error.contains("3 bytes follow"), "{error}");
}

/// Two ranks that claim one block would make a small file large in memory.
#[test]
fn blocks_cannot_overlap() {
    let program = text::parse("num_ranks 2\nrank 0 { calc 5 }", "").unwrap();
    let mut bytes = binary::write(&program).unwrap();
    let (first, second) = bytes[14..46].split_at_mut(16);
    second.copy_from_slice(first);
    assert!(matches!(binary::read(&bytes), Err(BinaryError::BlockStart { rank: Rank(1), .. })));
}

#[test]
fn an_operation_without_dependencies_has_to_be_listed() {
    // Three operations, the list of independent ones cut to one; lengths are mended so that only that is wrong.
    let program = text::parse("num_ranks 1\nrank 0 {\ncalc 5\ncalc 6\n}", "").unwrap();
    let mut bytes = binary::write(&program).unwrap();
    bytes[34] = 1;
    bytes.drain(42..46);
    bytes[22] -= 4;
    let problem = NodeProblem::NotIndependent;
    assert_eq!(binary::read(&bytes).unwrap_err(), BinaryError::Node { rank: Rank(0), index: 1, problem });
}

#[test]
fn missing_ranks_are_written_as_empty() {
    let mut graph = Graph::new();
    graph.send(Place::VOID, 1, Rank(2), Tag(0)).unwrap();
    let bytes = binary::write(&Program::with_graphs(3, vec![graph])).unwrap();
    let program = binary::read(&bytes).unwrap();
    assert_eq!((program.num_ranks(), program.graphs().len(), program.operations()), (3, 3, 1));
}

#[test]
fn lacking_operations_are_named() {
    for (operation, what) in [
        ("recv 8b from 0 at @0", "buffers"),
        ("send 8b to 0 at @[0:8]", "buffers"),
        ("send 8b to 0 at void[0:8]", "buffers"),
        ("calc 5 any 1", "`any`"),
        ("calc 5 concurrent", "`concurrent`"),
        ("sleep 5", "such operation"),
        ("proxy", "such operation"),
        ("put 8b to 0", "such operation"),
    ] {
        let text = format!("num_ranks 1\nrank 0 {{\nscratchpad 8b\nx: {operation}\n}}");
        let error = binary::write(&text::parse(text, "").unwrap()).unwrap_err().to_string();
        let expected = format!(
            "`x` of rank 0 cannot be written in LogGOPSim's format, which has no {what}: {operation}"
        );
        assert_eq!(error, expected);
    }
}
