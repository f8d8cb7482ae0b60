//! LogGOPSim's binary format: its bytes, and what is done with wrong ones.

mod random_program;

use castell_base::{Rank, Tag};
use castell_goal::binary::{self, BinaryError, NodeProblem};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_goal::program::Program;
use castell_goal::text;
use proptest::prelude::*;
use random_program::Vocabulary;
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

#[test]
fn every_cut_is_refused() {
    let bytes = vector("overlap.bin");
    for end in 0..bytes.len() {
        assert!(binary::read(&bytes[..end]).is_err(), "{end}");
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
    let text = "num_ranks 1\nrank 0 {\nscratchpad 8b\nwait: recv 8b from 0 at @0\n}";
    let error = binary::write(&text::parse(text, "").unwrap()).unwrap_err().to_string();
    assert!(error.contains("`wait` of rank 0") && error.contains("no buffers"), "{error}");
}
