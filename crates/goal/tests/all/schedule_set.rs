//! The file of compiled schedules: what it holds, and what is refused.

use crate::random_program;
use crate::random_program::Vocabulary;
use castell_base::Rank;
use castell_goal::file::{self, Contents, Format, ReadError};
use castell_goal::schedule_set::{ScheduleSet, SetFormatError};
use castell_goal::text;
use proptest::prelude::*;

fn set() -> ScheduleSet {
    let text =
        "num_ranks 4\nrank 0 {\na: send 8b to 1\n}\nrank 1 {\nb: recv 8b from 0\nc: calc 7\nc requires b\n}";
    ScheduleSet::compile(&text::parse(text, "").unwrap()).unwrap()
}

/// Makes the checksum right again.
fn mend(bytes: &mut [u8]) {
    let checksum = crc32fast::hash(&bytes[20..]);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
}

fn refused(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = set().to_bytes();
    change(&mut bytes);
    ScheduleSet::from_bytes(&bytes).unwrap_err().to_string()
}

#[test]
fn bytes_come_back() {
    let set = set();
    let bytes = set.to_bytes();
    let again = ScheduleSet::from_bytes(&bytes).unwrap();
    assert_eq!(again, set);
    assert_eq!((again.num_ranks(), again.schedules().len()), (4, 2));
    assert_eq!(again.rank(Rank(1)).len(), 2);
    assert!(again.rank(Rank(3)).is_empty());
    assert_eq!(Format::of(&bytes), Format::Schedules);
    assert!(matches!(file::read(&bytes, "", false), Ok(Contents::Schedules(other)) if other == set));
    let program = Contents::Schedules(again).into_program();
    assert_eq!(ScheduleSet::compile(&program).unwrap(), set);
    assert_eq!(ScheduleSet::compile(&Contents::Program(program).into_program()).unwrap(), set);
}

#[test]
fn wrong_files_say_what_is_wrong() {
    assert_eq!(ScheduleSet::from_bytes(b"CSTL"), Err(SetFormatError::Magic));
    assert!(refused(|bytes| bytes.truncate(20)).contains("cut off"));
    assert!(refused(|bytes| bytes.truncate(bytes.len() - 1)).contains("cut off"));
    assert!(refused(|bytes| bytes[4] = 2).contains("version 2"));
    assert!(refused(|bytes| bytes[60] ^= 1).contains("checksum"));
    let mended = |at: usize, value: u8| {
        refused(|bytes| {
            bytes[at] = value;
            mend(bytes);
        })
    };
    assert!(mended(24, 5).contains("impossible numbers"));
    assert!(mended(20, 1).contains("impossible numbers"));
    assert!(mended(20, 5).contains("rank 0 was made for another rank or another number of ranks"));
    assert!(mended(28, 1).contains("impossible numbers"));
    assert!(mended(32, 65).contains("schedule of rank 0 lies at bytes 65"));
    assert!(mended(40, 255).contains("the schedule of rank 0"));
    assert!(mended(64, 0).contains("schedule of rank 0: not a compiled schedule"));
    let behind = refused(|bytes| {
        bytes.extend([0; 4]);
        let length = bytes.len() as u64;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        mend(bytes);
    });
    assert!(behind.contains("something lies behind"), "{behind}");
}

#[test]
fn addresses_are_refused_where_they_could_be_used() {
    let program = text::parse("num_ranks 1\nrank 0 { a: send 8b to 0 at 0x10 }", "").unwrap();
    let bytes = ScheduleSet::compile(&program).unwrap().to_bytes();
    let error = file::read(&bytes, "x.sched", false).unwrap_err();
    assert!(matches!(error, ReadError::Schedules(..)) && error.to_string().contains("address"), "{error}");
    assert!(file::read(&bytes, "x.sched", true).is_ok());
}

#[test]
fn programs_that_do_not_compile_name_the_rank() {
    let program = text::parse("num_ranks 2\nrank 0 { }\nrank 1 { send 8b to 2 }", "").unwrap();
    let error = ScheduleSet::compile(&program).unwrap_err().to_string();
    assert!(error.starts_with("rank 1: rank 2 is not in a group of 2"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// What can be compiled comes back as a program that compiles to the same operations, edges and labels.
    #[test]
    fn programs_come_back_from_their_schedules(seed in any::<u64>(), vertices in 0usize..12) {
        let program = random_program::program(seed, vertices, Vocabulary::Full);
        let Ok(set) = ScheduleSet::compile(&program) else { return Ok(()) };
        let again = set.to_program();
        prop_assert_eq!(again.operations(), program.operations());
        for (rank, graph) in program.graphs() {
            let lines = |graph: &castell_goal::graph::Graph| {
                let mut lines: Vec<String> = graph
                    .vertices()
                    .map(|v| format!("{:?} {}", graph.label(v), text::Operation(graph.op(v), graph.traits(v))))
                    .collect();
                lines.sort();
                lines
            };
            prop_assert_eq!(lines(graph), lines(again.rank(rank)));
            prop_assert_eq!(graph.edge_count(), again.rank(rank).edge_count());
            prop_assert_eq!(graph.scratchpad_bytes(), again.rank(rank).scratchpad_bytes());
        }
    }
}
