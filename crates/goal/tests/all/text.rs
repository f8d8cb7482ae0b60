//! What GOAL text is accepted, and how wrong text is refused: one file a case, in `vectors/goal`.

use castell_base::{Rank, Tag};
use castell_goal::graph::{Edge, EdgeKind, Graph, Vertex};
use castell_goal::op::{Block, Buffer, Memory, Op, Place};
use castell_goal::program::Program;
use castell_goal::text;
use std::fs;
use std::path::PathBuf;

fn vectors(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goal").join(folder)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(vectors(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "goal")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn read(name: &str) -> Program {
    text::parse(fs::read(vectors("").join(name)).unwrap(), name).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Vertex of a label, to write tests by name.
fn find(graph: &Graph, label: &str) -> Vertex {
    graph
        .vertices()
        .find(|&vertex| graph.label(vertex) == Some(label))
        .unwrap_or_else(|| panic!("no {label}"))
}

/// Each file in `vectors/goal/wrong` has its messages beside it; `UPDATE_VECTORS=1 cargo test` writes them anew.
#[test]
fn wrong_text_is_refused_with_these_messages() {
    for path in files("wrong") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let errors = text::parse(fs::read(&path).unwrap(), name).expect_err(name).to_string() + "\n";
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_VECTORS").is_some() {
            fs::write(&expected, &errors).unwrap();
        }
        assert_eq!(errors, fs::read_to_string(&expected).unwrap(), "{name}");
    }
}

#[test]
fn every_prefix_of_every_file_is_read_or_refused() {
    for path in files("").into_iter().chain(files("wrong")) {
        let bytes = fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            if let Err(errors) = text::parse(&bytes[..end], "prefix") {
                assert!(!errors.errors.is_empty(), "{}: {end}", path.display());
            }
        }
    }
}

#[test]
fn reads_what_loggopsim_reads() {
    let program = read("standard.goal");
    assert_eq!(program.num_ranks(), 3);
    assert!(program.rank(Rank(2)).is_empty());
    let graph = program.rank(Rank(0));
    let at = |label| (graph.op(find(graph, label)), graph.traits(find(graph, label)));

    let (op, traits) = at("l1");
    let buffer = Buffer::Plain(Place::VOID);
    assert_eq!(op, Op::Send { buffer, bytes: 20, dest: Rank(1), tag: Tag(3) });
    assert_eq!((traits.cpu, traits.nic), (1, 2));
    assert_eq!(at("l2").0, Op::Recv { buffer, bytes: 5, source: Some(Rank(2)), tag: Some(Tag(7)) });
    assert_eq!(at("l3").0, Op::Recv { buffer, bytes: 5, source: None, tag: None });
    assert_eq!(at("send1").0, Op::Recv { buffer, bytes: 1, source: None, tag: None });
    assert_eq!((at("l4").0, at("l4").1.cpu), (Op::Calc { ns: 100 }, 3));
    let unlabelled: Vec<_> = graph.vertices().filter(|&vertex| graph.label(vertex).is_none()).collect();
    assert_eq!(graph.op(unlabelled[0]), Op::Send { buffer, bytes: 10, dest: Rank(1), tag: Tag(0) });
    assert_eq!(graph.op(unlabelled[2]), Op::Calc { ns: u64::MAX });
    assert_eq!(graph.op(unlabelled[3]), Op::Send { buffer, bytes: u64::MAX, dest: Rank(2), tag: Tag::MAX });

    let edge = |target, kind, prerequisite| Edge {
        prerequisite: find(graph, prerequisite),
        target: find(graph, target),
        kind,
    };
    let expected = [
        edge("l3", EdgeKind::Finish, "l1"),
        edge("l4", EdgeKind::Start, "l2"),
        edge("l4", EdgeKind::Finish, "l4irequires"),
        edge("requires", EdgeKind::Finish, "irequires"),
        edge("irequires", EdgeKind::Start, "calc_"),
    ];
    assert!(graph.edges().eq(expected));
}

#[test]
fn reads_what_is_ours() {
    let program = read("extensions.goal");
    let graph = program.rank(Rank(0));
    assert_eq!(graph.scratchpad_bytes(), 1024);
    let op = |label| graph.op(find(graph, label));
    let blocks = |buffer| match buffer {
        Buffer::Vector(memory, blocks) => {
            (memory, blocks.iter().map(|b| (b.offset, b.bytes)).collect::<Vec<_>>())
        }
        Buffer::Plain(place) => panic!("{place:?}"),
    };
    let Op::Recv { buffer, bytes: 16, source: None, tag: None } = op("vector") else { panic!() };
    assert_eq!(blocks(buffer), (Memory::Scratch, vec![(64, 8), (0x60, 8)]));
    let Op::Send { buffer, bytes: 24, .. } = op("users") else { panic!() };
    assert_eq!(blocks(buffer), (Memory::User, vec![(0x7f00, 8), (0x7f10, 16)]));
    let Op::Local { b1, b2, b3, count: 4, .. } = op("columns") else { panic!() };
    assert_eq!(blocks(b1), (Memory::Scratch, vec![(0, 2), (8, 6)]));
    assert_eq!(blocks(b2), (Memory::Scratch, vec![(16, 8)]));
    assert_eq!(blocks(b3), (Memory::Scratch, vec![(24, 4), (32, 4)]));
    assert_eq!(op("f"), Op::Call { function: 15, context: 12 });
    let (dest, source) = (Rank(1), Rank(1));
    let (local, remote) = (Place::scratch(0), Place::scratch(64));
    assert_eq!(op("out"), Op::Put { local, bytes: 8, dest, remote });
    assert_eq!(op("back"), Op::Get { local, bytes: 8, source, remote });
    assert_eq!(op("proxy"), Op::Proxy);
    let nap = graph.traits(find(graph, "nap"));
    assert_eq!((nap.any, nap.cpu, nap.concurrent), (Some(2), 1, false));
    assert!(graph.traits(find(graph, "vector")).concurrent);
    assert_eq!(graph.edges().len(), 6);
}

#[test]
fn positions_are_kept() {
    let program = text::parse("num_ranks 1\r\nrank 0 {\r\n\t calc 1\r\n  a : calc 2\r\n}", "").unwrap();
    let graph = program.rank(Rank(0));
    assert_eq!(graph.position(Vertex(0)), Some((3, 3)));
    assert_eq!(graph.position(Vertex(1)), Some((4, 3)));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert!(text::parse("\u{feff}num_ranks 1", "").is_ok());
}

#[test]
fn memory_follows_the_text_and_not_the_number_of_ranks() {
    let program = text::parse("num_ranks 4294967294\nrank 0 { calc 1 }", "").unwrap();
    assert_eq!((program.num_ranks(), program.graphs().len()), (u32::MAX - 1, 1));
}

#[test]
fn many_blocks_on_one_line() {
    let list: Vec<String> = (0..10_000).map(|block| format!("{}:8", block * 16)).collect();
    let text = format!("num_ranks 1\nrank 0 {{\nsend 80000b to 0 at @[{}]\n}}", list.join(","));
    let program = text::parse(&text, "").unwrap();
    let Op::Send { buffer: Buffer::Vector(_, blocks), .. } = program.rank(Rank(0)).op(Vertex(0)) else {
        panic!()
    };
    assert_eq!(blocks.iter().last(), Some(Block { offset: 159_984, bytes: 8 }));
}

/// The examples of the page that describes the language.
#[test]
fn documented_examples_are_read() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/goal-text.md");
    let page = fs::read_to_string(page).unwrap();
    let examples: Vec<_> =
        page.split("```goal\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let program = text::parse(example, "example").unwrap_or_else(|errors| panic!("{errors}"));
        let report = castell_goal::check::check(&program);
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// A text with mistakes gets them named; what has bytes that no text has is no text.
#[test]
fn what_is_no_text_is_told_from_wrong_text() {
    use castell_goal::file::{ReadError, read};
    let wrong = read(b"num_ranks 1\nrank 0 {\n\tl1: sned 8b to 0\r\n}\n", "wrong.goal", false);
    assert!(matches!(wrong, Err(ReadError::Text(_))), "{wrong:?}");
    let none = read(b"num_ranks 1\nrank 0 {\x01}\n", "none.goal", false);
    assert!(matches!(none, Err(ReadError::Unknown(_, 20))), "{none:?}");
}
