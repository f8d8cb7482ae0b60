//! Programs as drawings and schedules as lists, line by line; text in pieces.

use castell_base::{Rank, Tag};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_goal::program::Program;
use castell_goal::text;
use std::fmt::{self, Write};

fn parse(text: &str) -> Program {
    text::parse(text, "").unwrap_or_else(|errors| panic!("{errors}"))
}

const EXCHANGE: &str = "num_ranks 3
rank 0 {
a: send 8b to 1
b: send 8b to 1 tag 2 cpu 1
c: send 8b to 1
b requires a
c irequires b
}
rank 1 {
recv 8b from 0
recv 8b from -1 tag 2
x: recv 8b from 0
recv 8b from 0 tag -1
}
rank 2 { }";

#[test]
fn a_drawing_has_boxes_and_arrows_and_messages_in_order() {
    let program = parse(EXCHANGE);
    let drawn = |only: Option<u32>| {
        let mut drawing = String::new();
        text::print_dot(&program, only.map(Rank), &mut drawing).unwrap();
        drawing
    };
    let head = "digraph goal {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";
    let first = "  subgraph cluster_0 {\n    label=\"rank 0\";\n    r0v0 [label=\"a\\nsend 8b to 1\"];\n    \
                 r0v1 [label=\"b\\nsend 8b to 1 tag 2 cpu 1\"];\n    r0v2 [label=\"c\\nsend 8b to 1\"];\n  }\n  \
                 r0v0 -> r0v1;\n  r0v1 -> r0v2 [style=dashed];\n";
    let second = "  subgraph cluster_1 {\n    label=\"rank 1\";\n    r1v0 [label=\"recv 8b from 0\"];\n    \
                  r1v1 [label=\"recv 8b from -1 tag 2\"];\n    r1v2 [label=\"x\\nrecv 8b from 0\"];\n    \
                  r1v3 [label=\"recv 8b from 0 tag -1\"];\n  }\n";
    let third = "  subgraph cluster_2 {\n    label=\"rank 2\";\n  }\n";
    let arrow = " [arrowhead=empty, color=steelblue, constraint=false];\n";
    let messages = format!("  r0v0 -> r1v0{arrow}  r0v2 -> r1v2{arrow}");
    assert_eq!(drawn(None), format!("{head}{first}{second}{third}{messages}}}\n"));
    assert_eq!(drawn(Some(0)), format!("{head}{first}}}\n"));
    assert_eq!(drawn(Some(1)), format!("{head}{second}}}\n"));
    // A rank's messages to itself are in its own drawing, too.
    let program = parse("num_ranks 1\nrank 0 {\nsend 8b to 0\nrecv 8b from 0\n}");
    let mut drawing = String::new();
    text::print_dot(&program, Some(Rank(0)), &mut drawing).unwrap();
    assert!(drawing.ends_with(&format!("  r0v0 -> r0v1{arrow}}}\n")), "{drawing}");
}

#[test]
fn labels_are_quoted_in_drawings() {
    let mut graph = Graph::new();
    let vertex = graph.calc(1).unwrap();
    graph.set_label(vertex, r#"a "b" \c"#).unwrap();
    let mut drawing = String::new();
    text::print_dot(&Program::with_graphs(1, vec![graph]), None, &mut drawing).unwrap();
    assert!(drawing.contains(r#"r0v0 [label="a \"b\" \\c\ncalc 1"];"#), "{drawing}");
}

#[test]
fn a_schedule_lists_what_each_operation_waits_for_and_releases() {
    let program = parse(
        "num_ranks 1\nrank 0 {\nscratchpad 7b\na: calc 1\nb: calc 2\nc: calc 3 nic 1\nd: calc 4 any 1\nproxy\nc requires a\n\
         c irequires b\nd requires a\nd requires b\n}",
    );
    let mut printed = String::new();
    text::print_schedule(Rank(5), &program.rank(Rank(0)).compile().unwrap(), &mut printed).unwrap();
    assert_eq!(
        printed,
        "rank 5: 5 operations, 3 independent, 2 counters, at most 5 ready, scratchpad 7b, 148 bytes\n\
         \x20     18: a: calc 1  -> 30 28\n\
         \x20     22: b: calc 2  -> 28  started -> 30\n\
         \x20     27: proxy\n\
         \x20     28: [1] d: calc 4 any 1\n\
         \x20     30: [2] c: calc 3 nic 1\n"
    );
}

/// Takes text in pieces, and says where it does not take any more.
struct Pieces {
    pieces: Vec<usize>,
    text: String,
    most: usize,
}

impl Write for Pieces {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.pieces.push(piece.len());
        self.text += piece;
        if self.text.len() > self.most { Err(fmt::Error) } else { Ok(()) }
    }
}

/// However long a rank is, its text is never held as a whole.
#[test]
fn long_programs_are_handed_on_in_pieces() {
    for edges in [false, true] {
        let mut graph = Graph::new();
        for index in 0..20_000 {
            let vertex = graph.send(Place::VOID, 8, Rank(0), Tag(index)).unwrap();
            if edges && index > 0 {
                graph.requires(castell_goal::graph::Vertex(index - 1), vertex).unwrap();
            }
        }
        let program = Program::with_graphs(1, vec![graph]);
        let mut whole = String::new();
        text::print(&program, &mut whole).unwrap();
        let mut out = Pieces { pieces: Vec::new(), text: String::new(), most: usize::MAX };
        text::print(&program, &mut out).unwrap();
        assert!(out.text == whole);
        let large: Vec<usize> = out.pieces.into_iter().filter(|bytes| *bytes > 100).collect();
        assert!(large.iter().all(|bytes| *bytes < 20_000), "{large:?}");
        assert!(large[..large.len() - 1].iter().all(|bytes| *bytes > 16 << 10), "{large:?}");
        for most in [0, 5, 30, 100_000] {
            let mut full = Pieces { pieces: Vec::new(), text: String::new(), most };
            assert!(text::print(&program, &mut full).is_err());
            assert!(full.text.len() < most + 20_000);
        }
    }
}

/// One way to write each, in the order of the options.
#[test]
fn operations_are_printed_as_they_are_written() {
    for line in [
        "send 8b to 1",
        "send 8b to 1 tag 7 cpu 1 nic 2 any 3 concurrent",
        "send 8b to 1 tag 4294967294 at @16",
        "send 8b to 1 at 0x10",
        "send 24b to 1 at [0x7f00:8,0x7f10:16]",
        "send 24b to 1 at @[64:8,96:16]",
        "send 8b to 1 at void[5:8]",
        "send 0b to 1 at @[]",
        "recv 8b from -1 tag -1",
        "recv 8b from -1",
        "recv 8b from 1 tag -1 at [0x0:8]",
        "recv 8b from 1 tag 3 at 0xffffffffffffff00",
        "calc 5 nic 255",
        "sleep 5 concurrent",
        "proxy any 1",
        "wtime into 0x8",
        "wtime into void",
        "local copy u8 4 @0 into 0x20",
        "local add bf16 4 @0 void into @20",
        "local max i64 1 @[0:8] [0x8:4,0x0:4] into void[1:8]",
        "local copy u8 8 @[0:8] into @[8:8]",
        "call 0xf(0x0)",
        "put 8b to 1 at @0 into @64",
        "put 8b to 1",
        "get 8b from 1 at @64 into 0x10",
        "get 8b from 1 into @0 cpu 9",
    ] {
        let text = format!("num_ranks 2\n\nrank 0 {{\n{line}\n}}\n");
        let mut printed = String::new();
        text::print(&parse(&text), &mut printed).unwrap();
        assert_eq!(printed, text);
    }
}
