//! Graphs have no more than they need: no copies of what lies right already, no memory that is not used, no vertices that
//! join nothing.

use castell_base::{Rank, Tag, Time};
use castell_collectives::collective::{
    ALGORITHMS, Blocks, Collective, Combine, Memory, Messages, Neighbours, Placement, Shape,
};
use castell_collectives::pattern::Pattern;
use castell_goal::graph::{EdgeKind, Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Buffer, ElementType, Op, Operator, Place};
use std::sync::Arc;

fn xor() -> Arithmetic {
    Arithmetic::new(Operator::Xor, ElementType::U8).unwrap()
}

/// A rank's graph with memory in the scratchpad, and the bytes of temporary memory that it says it uses.
fn woven(collective: &Collective, rank: u32, in_place: bool) -> (Graph, u64) {
    let [input, output, temporary] = [0, 1 << 20, 1 << 30].map(Place::scratch);
    let memory = Memory { input, output, temporary, in_place, combine: &xor() };
    let mut graph = Graph::new();
    let bytes = collective.weave(Rank(rank), &memory, &mut graph).unwrap();
    assert_eq!(collective.temporary_bytes(Rank(rank), in_place), Ok(bytes));
    let end = if bytes > 0 { (1 << 30) + bytes } else { 0 };
    assert_eq!(graph.scratchpad_bytes(), end, "as large as it has to be");
    (graph, bytes)
}

fn temporary(name: &str, ranks: u32, rank: u32) -> u64 {
    woven(&Collective::new(name, Shape::new(ranks, 24, 1)).unwrap(), rank, false).1
}

/// Copies and other operations on memory.
fn locals(name: &str, shape: Shape, rank: u32, in_place: bool) -> (usize, usize) {
    let (graph, _) = woven(&Collective::new(name, shape).unwrap(), rank, in_place);
    let of = |wanted: fn(Operator) -> bool| {
        let is = |op: Op<'_>| matches!(op, Op::Local { arithmetic, .. } if wanted(arithmetic.operator()));
        graph.vertices().filter(|&vertex| is(graph.op(vertex))).count()
    };
    (of(|operator| operator == Operator::Copy), of(|operator| operator != Operator::Copy))
}

#[test]
fn temporary_memory_is_what_has_to_be_kept() {
    for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.name.ends_with(":linear")) {
        let used = |rank| temporary(algorithm.name, 5, rank);
        let expected = match algorithm.name {
            // The vectors of all others.
            "reduce:linear" | "allreduce:linear" => [4 * 24, 0, 0, 0, 0],
            "reduce_scatter:linear" => [4 * 24; 5],
            "scan:linear" => [0, 24, 24, 24, 24],
            // In between what comes, and what goes on.
            "exscan:linear" => [0, 48, 48, 48, 24],
            _ => [0; 5],
        };
        assert_eq!([0, 1, 2, 3, 4].map(used), expected, "{}", algorithm.name);
    }
    // Who has nobody below it in the tree hands on its own block; others collect those below them.
    for name in ["gather:binomial", "scatter:binomial"] {
        let blocks = [0, 1, 2, 3, 4, 5, 6, 7].map(|rank| temporary(name, 8, rank) / 24);
        assert_eq!(blocks, [8, 0, 2, 0, 4, 0, 2, 0], "{name}");
    }
    // What arrives in each stage, and two vectors that are used by turns.
    let doubling = |ranks| temporary("allreduce:recursive-doubling", ranks, 0) / 24;
    assert_eq!([2, 4, 8, 16, 64].map(doubling), [1, 2 + 1, 3 + 2, 4 + 2, 6 + 2]);
    // A host's blocks that lie one behind the other go straight to where they belong.
    for (name, rank) in [("gather:two-level", 0), ("allgather:two-level-ring", 1)] {
        assert_eq!(temporary(name, 8, rank), 0, "{name}, rank {rank}");
    }
}

#[test]
fn what_lies_right_is_not_copied() {
    for (name, apart, in_place) in [
        ("allgather:linear", (1, 0), (0, 0)),
        ("allgather:ring", (1, 0), (0, 0)),
        ("gather:linear", (1, 0), (0, 0)),
        ("scatter:linear", (1, 0), (0, 0)),
        ("allreduce:recursive-doubling", (0, 3), (0, 3)),
        // To where the result belongs in place, since the result lies where what is combined with it came from.
        ("reduce:linear", (0, 5), (0, 5)),
        ("scan:linear", (1, 0), (0, 0)),
        ("reduce:binomial", (0, 3), (0, 3)),
        ("reduce:binomial-in-order", (0, 3), (0, 3)),
    ] {
        let ranks = if name == "allreduce:recursive-doubling" { 8 } else { 6 };
        let shape = Shape::new(ranks, 24, 1);
        assert_eq!(locals(name, shape.clone(), 0, false), apart, "{name}");
        assert_eq!(locals(name, shape, 0, true), in_place, "{name} in place");
    }
    // Blocks without elements are nothing to copy.
    let counts = Blocks::packed(&[0, 3, 0, 5]);
    let shape = Shape::new(4, 1, 1).with_blocks(counts);
    assert_eq!(locals("allgather:linear", shape.clone(), 0, false), (0, 0));
    assert_eq!(locals("allgather:bruck", shape, 0, false), (2, 0));
    // Leaders of one rank each combine what comes, and put the result where it belongs.
    let placement = Some(Arc::new(Placement::consecutive(4, 1)));
    let shape = Shape { placement, is_exact: true, ..Shape::new(4, 24, 1) };
    assert_eq!(locals("allreduce:two-level", shape, 0, false), (1, 2));
}

/// Without memory, nothing but messages and what they have in common stands in a graph.
#[test]
fn patterns_have_vertices_for_messages_and_reductions_only() {
    let calcs = |name: &str, ranks: u32, rank, compute_ns| {
        let shape = Shape { segment: 7, ..Shape::new(ranks, 24, 1) };
        let collective = Collective::new(name, shape).unwrap().with_compute(Time::from_ns(compute_ns));
        let mut graph = Graph::new();
        collective.build(Rank(rank), &mut graph).unwrap();
        let calc = |vertex| match graph.op(vertex) {
            Op::Calc { ns } => Some(ns),
            Op::Send { .. } | Op::Recv { .. } => None,
            other => panic!("{name}: {other:?}"),
        };
        graph.vertices().filter_map(calc).collect::<Vec<u64>>()
    };
    for algorithm in ALGORITHMS {
        let moves = ["bcast:", "gather:", "scatter:", "allgather:", "alltoall:"];
        if moves.iter().any(|operation| algorithm.name.starts_with(operation)) {
            for rank in 0..8 {
                let found = calcs(algorithm.name, 8, rank, 10);
                // What was put together of several messages and is copied again waits for all of them.
                let joins =
                    algorithm.name == "alltoall:two-level" || algorithm.name.starts_with("allgather:two");
                assert!(joins || found.is_empty(), "{}, rank {rank}: {found:?}", algorithm.name);
            }
        }
    }
    // One message is waited for as it is; several are joined.
    assert_eq!([2, 3, 8].map(|ranks| calcs("reduce:linear", ranks, 0, 0)), [vec![], vec![0], vec![0]]);
    assert_eq!([1, 2, 8].map(|ranks| calcs("reduce:linear", ranks, 0, 10)), [vec![], vec![10], vec![10]]);
    assert_eq!(calcs("reduce:chain", 8, 3, 0), []);
    assert_eq!(calcs("reduce:chain", 8, 3, 10), [10; 4]);
    // A barrier computes nothing, whatever a reduction takes.
    assert_eq!(calcs("barrier:linear", 8, 0, 10), [0]);
    assert_eq!(calcs("barrier:dissemination", 2, 0, 10), []);
}

/// The root calls for what is left of a rank's block once it is ready for the first segment, whether that has come or not.
#[test]
fn a_gather_in_step_calls_when_it_is_ready() {
    let shape = Shape { segment: 10, ..Shape::new(3, 24, 1) };
    let collective = Collective::new("gather:linear-sync", shape).unwrap();
    let edges = |rank| {
        let mut graph = Graph::new();
        collective.build(Rank(rank), &mut graph).unwrap();
        let edges = graph.edges().map(|edge| (edge.prerequisite.0, edge.target.0, edge.kind));
        let mut edges: Vec<_> = edges.collect();
        edges.sort_unstable_by_key(|edge| (edge.0, edge.1));
        edges
    };
    use EdgeKind::{Finish, Start};
    // First segment, call, rest, of each rank.
    assert_eq!(edges(0), [(0, 1, Start), (1, 2, Finish), (3, 4, Start), (4, 5, Finish)]);
    assert_eq!(edges(1), [(0, 1, Finish), (1, 2, Finish)]);
}

/// An operator of which nobody knows where its operands are.
struct Nowhere;

impl Combine for Nowhere {
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        assert_eq!([b1, b2, b3], [Place::VOID; 3]);
        xor().combine(graph, b1, b2, b3, count)
    }
}

/// Where no memory is named, none is in the graph.
#[test]
fn without_places_there_are_none() {
    let [input, output, temporary] = [Place::VOID; 3];
    let memory = Memory { input, output, temporary, in_place: false, combine: &Nowhere };
    for name in ["allgather:ring", "reduce:rabenseifner", "alltoall:bruck"] {
        let mut graph = Graph::new();
        graph.allocate_scratchpad(5);
        Collective::new(name, Shape::new(8, 24, 1)).unwrap().weave(Rank(3), &memory, &mut graph).unwrap();
        assert_eq!(graph.scratchpad_bytes(), 5, "{name}");
        let void = |buffer| assert_eq!(buffer, Buffer::Plain(Place::VOID), "{name}");
        for op in graph.vertices().map(|vertex| graph.op(vertex)) {
            match op {
                Op::Send { buffer, .. } | Op::Recv { buffer, .. } => void(buffer),
                Op::Local { b1, b2, b3, .. } => [b1, b2, b3].into_iter().for_each(void),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn shapes_know_how_their_blocks_lie() {
    let listed = |blocks: &[(u64, u64)]| Blocks::Listed(blocks.into());
    for (blocks, is_packed, is_uniform) in [
        (Blocks::Uniform(3), true, true),
        (Blocks::Even(7), true, false),
        (Blocks::packed(&[2, 2, 2]), true, true),
        (Blocks::packed(&[2, 2, 3]), true, false),
        (listed(&[]), true, true),
        (listed(&[(0, 2), (3, 2)]), false, false),
        (listed(&[(0, 2), (2, 2), (5, 2)]), false, false),
        (listed(&[(1, 2), (3, 2)]), false, false),
        (listed(&[(1, 2)]), false, false),
        (listed(&[(2, 2), (0, 2)]), false, false),
    ] {
        assert_eq!((blocks.is_packed(), blocks.is_uniform()), (is_packed, is_uniform), "{blocks:?}");
    }
    // Nothing at all is one element without bytes, whether there are no elements or they have no bytes.
    let nothing = Shape { segment: 65536, ..Shape::new(4, 0, 1) };
    assert_eq!((nothing.count, nothing.element_bytes, &nothing.blocks), (1, 0, &Blocks::Uniform(1)));
    assert_eq!(Shape::new(4, 100, 0), nothing);
    assert_eq!(Shape { segment: 65536, ..Shape::new(4, 0, 8) }, nothing);
    assert_eq!(Shape::new(4, 1, 8).count, 1);
}

/// A neighbour collective among some ranks of a job, beside others: peers and tags are those of the job.
#[test]
fn neighbours_have_messages_that_go_as_told() {
    let members: Arc<[Rank]> = [9, 7, 5, 3].map(Rank).into();
    let messages = Messages { first_tag: Tag(40), members: Some(members), even_empty: true };
    let neighbours = Neighbours {
        sources: vec![Rank(1), Rank(3), Rank(3)],
        destinations: vec![Rank(3), Rank(1), Rank(1)],
        element_bytes: 2,
        leaving: Blocks::packed(&[1, 0, 4]),
        arriving: Blocks::packed(&[2, 3, 0]),
    };
    let [input, output, temporary] = [0, 100, 200].map(Place::scratch);
    let memory = Memory { input, output, temporary, in_place: false, combine: &xor() };
    for (all_the_same, sent) in
        [(false, [(3, 2, 40), (7, 0, 40), (7, 8, 41)]), (true, [(3, 2, 40), (7, 2, 40), (7, 2, 41)])]
    {
        let mut graph = Graph::new();
        neighbours.with_messages(&messages, all_the_same, Rank(0), &memory, &mut graph).unwrap();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for op in graph.vertices().map(|vertex| graph.op(vertex)) {
            match op {
                Op::Send { bytes, dest, tag, .. } => sends.push((dest.0, bytes, tag.0)),
                Op::Recv { bytes, source, tag, .. } => {
                    receives.push((source.unwrap().0, bytes, tag.unwrap().0))
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sends, sent, "all the same: {all_the_same}");
        assert_eq!(receives, [(7, 4, 40), (3, 6, 40), (3, 0, 41)]);
    }
}

/// The half of a word that an operation has, from its first stage on.
#[test]
fn words_halves_go_in_their_order() {
    let sizes = |name: &str| {
        let mut graph = Graph::new();
        Collective::new(name, Shape::new(8, 1, 1)).unwrap().build(Rank(0), &mut graph).unwrap();
        let sends = graph.vertices().filter_map(|vertex| match graph.op(vertex) {
            Op::Send { bytes, .. } => Some(bytes),
            _ => None,
        });
        sends.collect::<Vec<u64>>()
    };
    assert_eq!(sizes("allgather:g2,g4"), [1, 2, 2, 2]);
    assert_eq!(sizes("allgather:g4,g2"), [1, 1, 1, 4]);
    assert_eq!(sizes("reduce_scatter:r2,r4"), [4, 1, 1, 1]);
    assert_eq!(sizes("reduce_scatter:r4,r2"), [2, 2, 2, 1]);
    for name in ["reduce_scatter:g8", "allgather:r8", "reduce_scatter:a8", "bcast:a8"] {
        assert!(Collective::new(name, Shape::new(8, 1, 1)).is_err(), "{name}");
    }
}

/// Leaders pass blocks on in the order in which they reach their receivers: each to the next one first.
#[test]
fn leaders_exchange_from_their_successor_on() {
    let placement = Some(Arc::new(Placement::consecutive(5, 1)));
    let shape = Shape { placement, ..Shape::new(5, 24, 1) };
    for rank in 0..5 {
        let mut graph = Graph::new();
        Collective::new("alltoall:two-level", shape.clone()).unwrap().build(Rank(rank), &mut graph).unwrap();
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for op in graph.vertices().map(|vertex| graph.op(vertex)) {
            match op {
                Op::Send { dest, .. } => to.push((dest.0 + 5 - rank) % 5),
                Op::Recv { source, .. } => from.push((rank + 5 - source.unwrap().0) % 5),
                _ => {}
            }
        }
        assert_eq!((to, from), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]), "rank {rank}");
    }
}
