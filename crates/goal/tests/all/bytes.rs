//! Schedules as bytes: everything comes back, and whatever is not a schedule is refused.

use crate::random;

use castell_goal::graph::{EdgeKind, Graph};
use castell_goal::op::{Memory, Op, Place};
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use castell_goal::verify::FormatError;
use proptest::collection::vec;
use proptest::prelude::*;

/// Where the checksum lies, and where what it covers begins.
const CHECKSUM: usize = 16;
const COVERED: usize = 20;

/// Makes the checksum right again, as somebody hostile would.
fn seal(bytes: &mut [u8]) {
    let checksum = crc32fast::hash(&bytes[COVERED..]);
    bytes[CHECKSUM..COVERED].copy_from_slice(&checksum.to_le_bytes());
}

/// Looks at everything in a schedule, and steps it to the end.
fn exercise(schedule: &Schedule) {
    let mut seen = 0;
    for id in schedule.operations() {
        seen +=
            format!("{:?}{:?}{:?}", schedule.op(id), schedule.traits(id), schedule.label(id)).len().min(1);
        if let Op::Send { buffer: castell_goal::op::Buffer::Vector(_, blocks), bytes, .. } = schedule.op(id) {
            assert_eq!(blocks.bytes(), bytes);
        }
        for next in schedule.successors(id).chain(schedule.start_successors(id)) {
            assert!(next > id);
        }
    }
    assert_eq!(seen, schedule.len());
    let mut stepper = Stepper::new(schedule);
    while let Some(id) = stepper.take(schedule) {
        stepper.finish(schedule, id);
    }
    assert!(stepper.is_finished());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_come_back_from_bytes(numbers in vec(any::<u32>(), 0..2000), vertices in 0u32..60) {
        let graph = random::graph(&numbers, vertices, true);
        let (schedule, ids) = graph.compile_with_ids().unwrap();
        let bytes = schedule.to_bytes();
        let loaded = Schedule::from_bytes_trusting_addresses(&bytes).unwrap();
        prop_assert_eq!(&loaded, &schedule);
        prop_assert_eq!(loaded.to_bytes(), bytes);
        prop_assert_eq!(loaded.len(), graph.len());
        for vertex in graph.vertices() {
            let id = ids[vertex.index()];
            prop_assert_eq!(graph.op(vertex), loaded.op(id));
            prop_assert_eq!(graph.traits(vertex), loaded.traits(id));
            prop_assert_eq!(graph.label(vertex), loaded.label(id));
            let targets = |kind| -> Vec<OpId> {
                let edges = graph.edges().filter(|edge| edge.prerequisite == vertex && edge.kind == kind);
                edges.map(|edge| ids[edge.target.index()]).collect()
            };
            prop_assert_eq!(targets(EdgeKind::Finish), loaded.successors(id).collect::<Vec<_>>());
            prop_assert_eq!(targets(EdgeKind::Start), loaded.start_successors(id).collect::<Vec<_>>());
        }
        let independent: Vec<OpId> = loaded.operations().take(loaded.independent()).collect();
        let unmet = |vertex| graph.edges().all(|edge| edge.target != vertex);
        let expected: Vec<OpId> = graph.vertices().filter(|&v| unmet(v)).map(|v| ids[v.index()]).collect();
        prop_assert_eq!(independent, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_changed_byte_does_harm(numbers in vec(any::<u32>(), 0..400), vertices in 0u32..12, flip in 1u8..=255) {
        let bytes = random::graph(&numbers, vertices, false).compile().unwrap().to_bytes();
        prop_assert!(Schedule::from_bytes(&bytes).is_ok());
        for at in 0..bytes.len() {
            for flip in (0..8).map(|bit| 1 << bit).chain([flip]) {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                prop_assert!(Schedule::from_bytes(&changed).is_err(), "byte {} ^ {:#x}", at, flip);
                seal(&mut changed);
                if let Ok(schedule) = Schedule::from_bytes(&changed) {
                    exercise(&schedule);
                    if !(CHECKSUM..COVERED).contains(&at) {
                        prop_assert_eq!(schedule.to_bytes(), changed);
                    }
                }
            }
        }
    }

    #[test]
    fn no_changed_words_do_harm(
        numbers in vec(any::<u32>(), 0..400),
        vertices in 0u32..12,
        changes in vec((any::<prop::sample::Index>(), prop_oneof![0u32..40, any::<u32>(), Just(u32::MAX)]), 1..4),
    ) {
        let mut bytes = random::graph(&numbers, vertices, false).compile().unwrap().to_bytes();
        let words = (bytes.len() - COVERED) / 4;
        for (index, word) in changes {
            let at = COVERED + 4 * index.index(words);
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            seal(&mut bytes);
            if let Ok(schedule) = Schedule::from_bytes(&bytes) {
                exercise(&schedule);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(mut bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Schedule::from_bytes(&bytes).is_err());
        if bytes.len() >= 72 {
            let length = bytes.len() as u64;
            bytes[..8].copy_from_slice(b"CSTL\x01\0\0\0");
            bytes[8..16].copy_from_slice(&length.to_le_bytes());
            seal(&mut bytes);
            prop_assert!(Schedule::from_bytes(&bytes).is_err());
        }
    }
}

#[test]
fn cut_off_or_extended_bytes_are_refused() {
    let numbers: Vec<u32> = (0..500u32).map(|index| index.wrapping_mul(2_654_435_761)).collect();
    let bytes = random::graph(&numbers, 20, false).compile().unwrap().to_bytes();
    for length in 0..bytes.len() {
        assert!(Schedule::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut longer = bytes.clone();
    longer.extend([0; 4]);
    assert!(matches!(Schedule::from_bytes(&longer), Err(FormatError::Length { .. })));
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert_eq!(Schedule::from_bytes(&newer), Err(FormatError::Version { found: 2 }));
}

#[test]
fn addresses_are_refused_unless_trusted() {
    let mut calls = Graph::new();
    calls.call(1, 2).unwrap();
    let mut sends = Graph::new();
    sends.wtime(Place { memory: Memory::User, offset: 64 }).unwrap();
    for graph in [calls, sends] {
        let bytes = graph.compile().unwrap().to_bytes();
        assert_eq!(Schedule::from_bytes(&bytes), Err(FormatError::Address { at: 72 }));
        assert!(Schedule::from_bytes_trusting_addresses(&bytes).is_ok());
    }
}

/// Nobody may send with the tag that stands for any, and 0 is not written out. The error tells where the record is.
#[test]
fn reserved_tags_are_refused() {
    use castell_base::{Rank, Tag};
    const WRITTEN: u32 = 0x0765_4321;
    let mut sends = Graph::new();
    sends.calc(100).unwrap();
    sends.send(Place::VOID, 8, Rank(1), Tag(WRITTEN)).unwrap();
    let mut receives = Graph::new();
    receives.calc(100).unwrap();
    receives.recv(Place::VOID, 8, Some(Rank(1)), Some(Tag(WRITTEN))).unwrap();
    // The header's 18 words, and the calculation's two.
    const RECORD: usize = 4 * (18 + 2);
    for (graph, any_is_legal) in [(sends, false), (receives, true)] {
        let written = graph.compile().unwrap().to_bytes();
        let tags: Vec<usize> =
            (0..written.len() - 3).filter(|at| written[*at..*at + 4] == WRITTEN.to_le_bytes()).collect();
        let [at] = tags[..] else { panic!("{tags:?}") };
        for (tag, is_legal) in [(0, false), (1, true), (Tag::MAX.0, true), (u32::MAX, any_is_legal)] {
            let mut bytes = written.clone();
            bytes[at..at + 4].copy_from_slice(&tag.to_le_bytes());
            seal(&mut bytes);
            match Schedule::from_bytes(&bytes) {
                Ok(_) => assert!(is_legal, "tag {tag}"),
                Err(FormatError::Invalid { at, problem }) => {
                    assert!(!is_legal && problem.contains("tag"), "tag {tag}: {problem}");
                    assert_eq!(at, RECORD, "tag {tag}");
                }
                Err(error) => panic!("tag {tag}: {error}"),
            }
        }
    }
}

/// 8 bits each, of which one is set.
#[test]
fn wrong_processors_are_refused() {
    let mut graph = Graph::new();
    let calc = graph.calc(100).unwrap();
    graph.set_cpu(calc, 5).unwrap();
    let written = graph.compile().unwrap().to_bytes();
    let lanes = 4 * (18 + 1);
    assert_eq!(written[lanes..lanes + 4], 5_u32.to_le_bytes());
    for (word, is_legal) in [(0_u32, false), (1, true), (0xffff, true), (0x1_0000, false)] {
        let mut bytes = written.clone();
        bytes[lanes..lanes + 4].copy_from_slice(&word.to_le_bytes());
        seal(&mut bytes);
        match Schedule::from_bytes(&bytes) {
            Ok(_) => assert!(is_legal, "{word:#x}"),
            Err(error) => {
                assert!(
                    !is_legal && error.to_string().contains("processor and interface"),
                    "{word:#x}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_schedule_remembers_its_group() {
    use castell_base::{Rank, Tag};
    let mut graph = Graph::new();
    graph.send(Place::VOID, 1, Rank(3), Tag(0)).unwrap();
    let schedule = graph.compile().unwrap();
    assert_eq!(schedule.group(), None);
    assert!(
        schedule
            .clone()
            .for_group(Rank(0), 3)
            .unwrap_err()
            .to_string()
            .contains("rank 3 is not in a group of 3")
    );
    let bound = schedule.for_group(Rank(1), 4).unwrap();
    let mut bytes = bound.to_bytes();
    assert_eq!(Schedule::from_bytes(&bytes).unwrap().group(), Some((Rank(1), 4)));
    bytes[24] = 3;
    seal(&mut bytes);
    assert!(Schedule::from_bytes(&bytes).is_err(), "its peer is not in a group of 3");
}

/// The example of SCHEDULE.md.
fn documented() -> Vec<u8> {
    use castell_base::{Rank, Tag};
    let mut graph = Graph::new();
    graph.allocate_scratchpad(16);
    let recv = graph.recv(Place::scratch(0), 8, Some(Rank(1)), None).unwrap();
    let calc = graph.calc(100).unwrap();
    let send = graph.send(Place::scratch(8), 8, Rank(2), Tag(3)).unwrap();
    graph.requires(recv, send).unwrap();
    graph.requires(calc, send).unwrap();
    graph.set_label(send, "out").unwrap();
    graph.compile().unwrap().to_bytes()
}

#[test]
fn the_documented_example_is_what_is_written() {
    let document = include_str!("../../src/SCHEDULE.md");
    let (_, lines) = document.rsplit_once("byte  word      what\n").unwrap();
    let mut table = Vec::new();
    for line in lines.lines().take_while(|line| *line != "```") {
        let mut columns = line.split_whitespace();
        assert_eq!(columns.next(), Some(table.len().to_string().as_str()), "{line}");
        let word = u32::from_str_radix(columns.next().unwrap(), 16).unwrap();
        table.extend_from_slice(&word.to_le_bytes());
    }
    assert_eq!(documented(), table);
}

/// One word of the example is another one: what is said, and of which byte.
#[test]
fn what_is_wrong_is_said_with_its_place() {
    let sections = "the sections do not follow one another";
    let scratchpad = "a buffer leaves the scratchpad";
    for (byte, word, at, said) in [
        (20, 1, 20, "the rank is not in its group"),
        (28, 4, 28, "the number of operations is wrong"),
        (32, 1, 40, "the bound of ready operations is wrong"),
        (32, 3, 108, "an independent operation has a counter"),
        (36, 2, 52, sections),
        (40, 1, 40, "the bound of ready operations is wrong"),
        (40, 3, 40, "the bound of ready operations is wrong"),
        (44, 15, 108, scratchpad),
        (52, 17, 52, sections),
        (52, 31, 52, sections),
        (56, 34, 52, sections),
        (60, 33, 52, sections),
        (64, 35, 52, sections),
        (64, 38, 52, sections),
        (68, 2, 52, sections),
        (72, 0x4_2043, 72, "the operation's code or flags mean nothing"),
        (72, 0x4_204a, 72, "the operation's code or flags mean nothing"),
        (76, 1, 76, "a successor is not in the table of joins"),
        (76, 0x8000_001b, 76, "a successor marked as waiting for this edge only has others"),
        (88, 0, 72, "the tag is reserved"),
        (92, 9, 72, scratchpad),
        (96, 0x4_4003, 124, "the operation is cut off"),
        (96, 0x5_0003, 96, "the operation is not where the table of joins says"),
        (96, 0x4_0023, 96, "the operation's code or flags mean nothing"),
        (108, 0x2041, 36, "the number of joins is wrong"),
        (112, 9, 108, scratchpad),
        (116, u32::MAX, 108, "the peer is not in the group"),
        (120, 0, 108, "the tag is reserved"),
        (124, u32::MAX, 108, scratchpad),
        (128, 0x1a, 108, "the operation is not where the table of joins says"),
        (132, 1, 132, "a counter is not the number of edges"),
        (132, 3, 132, "a counter is not the number of edges"),
        (136, 0x1a, 136, "a label is of no operation"),
        (136, 0x40, 136, "a label is of no operation"),
        (140, 0, 140, "a label is empty"),
        (140, 5, 144, "the text of the labels has another length"),
        (144, 0x1074_756f, 144, "the text of the labels has another length"),
        (144, 0x0074_ff6f, 144, "a label is not UTF-8"),
    ] {
        let mut bytes = documented();
        bytes[byte..byte + 4].copy_from_slice(&u32::to_le_bytes(word));
        seal(&mut bytes);
        match Schedule::from_bytes(&bytes) {
            Err(FormatError::Invalid { at: found, problem }) => {
                assert!(found == at && problem.starts_with(said), "{byte}, {word:#x}: {found}, {problem}");
            }
            other => panic!("{byte}, {word:#x}: {other:?}"),
        }
    }
}

/// A schedule put together word by word, as `SCHEDULE.md` says: operations, independent ones, bound of ready ones.
fn put_together(counts: [u32; 3], records: &[u32], joins: &[[u32; 2]], blocks: &[u32]) -> Vec<u8> {
    let [operations, independent, ready_max] = counts;
    let joins_at = 18 + records.len() as u32;
    let (needs_at, blocks_at) = (joins_at + joins.len() as u32, joins_at + 2 * joins.len() as u32);
    let header = [
        u32::from_le_bytes(*b"CSTL"),
        1,
        0,
        0,
        0,
        0,
        0,
        operations,
        independent,
        joins.len() as u32,
        ready_max,
    ];
    let places = [1 << 20, 0, joins_at, needs_at, blocks_at, blocks_at + blocks.len() as u32, 0];
    let tables = joins.iter().map(|join| join[0]).chain(joins.iter().map(|join| join[1]));
    let words = header.into_iter().chain(places).chain(records.iter().copied()).chain(tables);
    let mut bytes: Vec<u8> = words.chain(blocks.iter().copied()).flat_map(u32::to_le_bytes).collect();
    let length = bytes.len() as u64;
    bytes[8..16].copy_from_slice(&length.to_le_bytes());
    seal(&mut bytes);
    bytes
}

const SOLE: u32 = 1 << 31;
const COUNTED: u32 = 0x3fff << 18;
const STARTS: u32 = 1 << 17;
const JOIN: u32 = 1 << 16;
const CALC: u32 = 3;

#[test]
fn what_is_put_together_by_the_document_is_read() {
    // A call whose numbers are short: the compiler never writes one.
    let bytes = put_together([1, 1, 1], &[7, 0x1234, 0x5678], &[], &[]);
    assert_eq!(Schedule::from_bytes(&bytes), Err(FormatError::Address { at: 72 }));
    let call = Schedule::from_bytes_trusting_addresses(&bytes).unwrap();
    assert_eq!(call.op(OpId(18)), Op::Call { function: 0x1234, context: 0x5678 });
    assert_eq!(call.to_bytes(), bytes);
    // One operation that releases another by its start, and a third by both.
    let records = [CALC | STARTS | 1 << 18, 2, 0, SOLE | 24, 0, 10, CALC, 20, CALC | JOIN, 30];
    let bytes = put_together([3, 1, 3], &records, &[[26, 2]], &[]);
    let three = Schedule::from_bytes(&bytes).unwrap();
    assert_eq!(three.to_bytes(), bytes);
    exercise(&three);
    assert!(three.successors(OpId(18)).eq([OpId(26)]));
    assert!(three.start_successors(OpId(18)).eq([OpId(24), OpId(26)]));
}

#[test]
fn what_is_put_together_wrongly_is_refused_with_its_place() {
    type Case<'a> = (&'a str, usize, [u32; 3], &'a [u32], &'a [[u32; 2]]);
    let any = 1 << 31;
    let two_joins = [CALC | 2 << 18, 0, 1, 5, CALC | JOIN, 5, CALC | JOIN, 5];
    let counter = "a counter is not the number of edges";
    let cases: [Case<'_>; 11] = [
        (counter, 28, [3, 1, 2], &two_joins, &[[22 | any, 0], [24 | any, 1]]),
        (counter, 29, [3, 1, 2], &two_joins, &[[22 | any, 1], [24 | any, 0]]),
        (counter, 29, [3, 1, 2], &two_joins, &[[22 | any, 1], [24 | any, 2]]),
        (counter, 29, [3, 1, 2], &two_joins, &[[22 | any, 1], [24, 1]]),
        (
            "an operation waits for nothing, yet is not among the independent",
            8,
            [2, 1, 1],
            &[CALC, 5, CALC, 5],
            &[],
        ),
        (
            "a small number of successors has a word of its own",
            18,
            [2, 1, 1],
            &[COUNTED, 1, SOLE | 21, 0],
            &[],
        ),
        ("the operation is cut off", 18, [1, 1, 1], &[COUNTED, 0x3fff], &[]),
        ("the operation is cut off", 18, [1, 1, 1], &[COUNTED], &[]),
        ("the number of start-successors is 0", 18, [1, 1, 1], &[STARTS, 0], &[]),
        (
            "a counter is not the number of edges",
            24,
            [2, 1, 1],
            &[CALC | 1 << 18, 0, 5, CALC | JOIN, 5],
            &[[21, 1]],
        ),
        ("a successor is not an operation further on", 19, [1, 1, 1], &[1 << 18, SOLE | 18], &[]),
    ];
    for (said, at, counts, records, joins) in cases {
        let bytes = put_together(counts, records, joins, &[]);
        match Schedule::from_bytes(&bytes) {
            Err(FormatError::Invalid { at: found, problem }) => {
                assert!(problem.starts_with(said) && found == 4 * at, "{said}: {problem} at {found}");
            }
            other => panic!("{said}: {other:?}"),
        }
    }
    let right = put_together([3, 1, 2], &two_joins, &[[22 | any, 1], [24 | any, 1]], &[]);
    exercise(&Schedule::from_bytes(&right).unwrap());
    // As many successors as need a word of their own, and one fewer.
    for (successors, is_right) in [(0x3ffe, false), (0x3fff, true), (0x4000, true)] {
        let leaves = 18 + 2 + successors;
        let entries = (0..successors).map(|index| SOLE | (leaves + index));
        let records: Vec<u32> =
            [COUNTED, successors].into_iter().chain(entries).chain((0..successors).map(|_| 0)).collect();
        let bytes = put_together([1 + successors, 1, successors], &records, &[], &[]);
        assert_eq!(Schedule::from_bytes(&bytes).is_ok(), is_right, "{successors}");
    }
}

/// Every kind with every combination of memories and flags: refused where the document has no meaning for one.
#[test]
fn flags_that_mean_nothing_for_a_kind_are_refused() {
    // Which of the three buffers each kind has, whether it has wide fields, lists and a tag.
    const KINDS: [([bool; 3], bool, bool, bool); 10] = [
        ([false, false, false], false, false, false),
        ([true, false, false], true, true, true),
        ([true, false, false], true, true, true),
        ([false, false, false], true, false, false),
        ([false, false, false], true, false, false),
        ([true, true, true], true, true, false),
        ([false, false, true], true, false, false),
        ([false, false, false], true, false, false),
        ([true, false, true], true, false, false),
        ([true, false, true], true, false, false),
    ];
    for head in 0..1_u32 << 14 {
        let memory = [head >> 5 & 3, head >> 7 & 3, head >> 9 & 3];
        let [wide, vector, tag] = [11, 12, 13].map(|bit| head >> bit & 1 == 1);
        let is_legal = KINDS.get(head as usize & 31).is_some_and(|&(buffers, wides, vectors, tags)| {
            let held = memory.iter().zip(buffers).all(|(&code, has)| code == 0 || has && code < 3);
            held && (wides || !wide) && (vectors || !vector) && (tags || !tag)
        });
        // What follows are zeros, as many as the longest body has and more.
        let mut records = [0; 20];
        records[0] = head;
        let bytes = put_together([1, 1, 1], &records, &[], &[]);
        let refused = match Schedule::from_bytes_trusting_addresses(&bytes) {
            Err(FormatError::Invalid { at: 72, problem }) => problem.contains("mean nothing"),
            _ => false,
        };
        assert_eq!(refused, !is_legal, "{head:#x}");
    }
}

/// Memory codes of the three buffers.
const USER: [u32; 3] = [1 << 5, 1 << 7, 1 << 9];
const SCRATCH: [u32; 3] = [2 << 5, 2 << 7, 2 << 9];
const WIDE: u32 = 1 << 11;
const VECTOR: u32 = 1 << 12;
/// Copies and adds bytes.
const COPY: u32 = 6 + 256 * 4;
const ADD: u32 = 2 + 256 * 4;
const ADD_U64: u32 = 2 + 256 * 7;
const MAX: u32 = u32::MAX;

#[test]
fn sizes_have_to_agree_with_buffers_that_end_within_64_bits() {
    let ([u1, u2, u3], [s1, s2, s3]) = (USER, SCRATCH);
    // One operation; blocks as offset and length, in halves.
    let right: [(&[u32], &[u32]); 14] = [
        (&[1 | VECTOR | s1, 24, 0, 0, 2], &[0, 0, 8, 0, 8, 0, 16, 0]),
        (&[1 | VECTOR, 8, 0, 0, 1], &[MAX, MAX, 8, 0]),
        (&[1 | WIDE, 0, 1, 0], &[]),
        (&[1 | WIDE | u1, 15, 0, 0, MAX - 15, MAX], &[]),
        (&[5 | VECTOR | s1 | s3, COPY, 8, 0, 1, 1, 0, 1, 1], &[0, 0, 8, 0, 8, 0, 8, 0]),
        (&[5 | VECTOR | s1 | u2 | s3, ADD, 8, 0, 1, 1, 1, 2, 1], &[0, 0, 8, 0, 9, 0, 8, 0, 0, 0, 8, 0]),
        (&[5 | s1 | s3, COPY, 8, 0, 8], &[]),
        (&[5 | WIDE, ADD_U64, MAX, MAX >> 3], &[]),
        (&[5 | WIDE | u1, ADD, 1, 0, MAX - 1, MAX], &[]),
        (&[5 | WIDE | u2, ADD, 1, 0, MAX - 1, MAX], &[]),
        (&[5 | WIDE | u3, ADD, 1, 0, MAX - 1, MAX], &[]),
        (&[6 | WIDE | u3, MAX - 8, MAX], &[]),
        (&[8 | WIDE | u1 | s3, 1, 0, 0, MAX - 1, MAX, MAX - 1, MAX], &[]),
        (&[9 | WIDE | u1 | s3, 1, 0, 0, MAX - 1, MAX, MAX - 1, MAX], &[]),
    ];
    for (record, blocks) in right {
        let bytes = put_together([1, 1, 1], record, &[], blocks);
        let schedule =
            Schedule::from_bytes_trusting_addresses(&bytes).unwrap_or_else(|e| panic!("{record:?}: {e}"));
        assert_eq!(schedule.to_bytes(), bytes);
    }
    let wrong: [(&[u32], &[u32]); 19] = [
        (&[1 | VECTOR | s1, 23, 0, 0, 2], &[0, 0, 8, 0, 8, 0, 16, 0]),
        (&[1 | VECTOR | s1, 8, 0, 0, 1], &[MAX - 7, MAX, 8, 0]),
        (&[2 | VECTOR | u1, 8, 0, 0, 1], &[MAX - 7, MAX, 8, 0]),
        (&[2 | VECTOR | s1, 0, 0, 0, 2], &[0, 0, 0, 1 << 31, 0, 0, 0, 1 << 31]),
        (&[1 | WIDE | u1, 16, 0, 0, MAX - 15, MAX], &[]),
        (&[5 | VECTOR | s1 | s3, COPY, 8, 0, 1, 1, 1, 2, 1], &[0, 0, 8, 0, 0, 0, 8, 0, 8, 0, 8, 0]),
        (&[5 | VECTOR | s1 | u2 | s3, COPY, 8, 0, 1, 1, 0, 1, 1], &[0, 0, 8, 0, 8, 0, 8, 0]),
        (&[5 | VECTOR | s1 | u2 | s3, ADD, 8, 0, 1, 1, 1, 2, 1], &[0, 0, 8, 0, 9, 0, 7, 0, 0, 0, 8, 0]),
        (&[5 | VECTOR | s1 | u2 | s3, ADD, 8, 0, 1, 1, 1, 2, 1], &[0, 0, 7, 0, 9, 0, 8, 0, 0, 0, 8, 0]),
        (&[5 | VECTOR | s1 | u2 | s3, ADD, 8, 0, 1, 1, 1, 2, 1], &[0, 0, 8, 0, 9, 0, 8, 0, 0, 0, 9, 0]),
        (&[5 | s1 | s2 | s3, COPY, 8, 0, 0, 8], &[]),
        (&[5 | WIDE, ADD_U64, 0, (MAX >> 3) + 1], &[]),
        (&[5 | WIDE | u1, ADD, 1, 0, MAX, MAX], &[]),
        (&[5 | WIDE | u2, ADD, 1, 0, MAX, MAX], &[]),
        (&[5 | WIDE | u3, ADD, 1, 0, MAX, MAX], &[]),
        (&[6 | WIDE | u3, MAX - 7, MAX], &[]),
        (&[8 | WIDE | u1 | s3, 1, 0, 0, MAX, MAX, 0, 0], &[]),
        (&[9 | WIDE | u1 | s3, 1, 0, 0, 0, 0, MAX, MAX], &[]),
        (&[8 | s1 | u3, 8, 0, 0, 0], &[]),
    ];
    for (record, blocks) in wrong {
        let bytes = put_together([1, 1, 1], record, &[], blocks);
        let problem = "the operation's sizes do not agree with its buffers";
        let expected = Err(FormatError::Invalid { at: 72, problem });
        assert_eq!(Schedule::from_bytes_trusting_addresses(&bytes), expected, "{record:?}");
    }
}
