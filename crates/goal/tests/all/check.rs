//! What the check finds, and what it does not: one program a case, in `vectors/goal/check`.

use castell_base::{Rank, Tag};
use castell_goal::check::{self, Kind, LISTED_MAX, Severity};
use castell_goal::graph::{EdgeKind, Graph, Vertex};
use castell_goal::op::{Arithmetic, Buffer, ElementType, Memory, Op, Operator, Place};
use castell_goal::program::Program;
use castell_goal::text;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::PathBuf;

/// Each program has its problems beside it; `UPDATE_VECTORS=1 cargo test` writes them anew.
#[test]
fn programs_have_these_problems() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goal/check");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "goal"));
    assert!(!paths.is_empty());
    for path in paths {
        let program =
            text::parse(fs::read(&path).unwrap(), "").unwrap_or_else(|e| panic!("{}{e}", path.display()));
        let report = check::check(&program);
        let lines: Vec<String> = report.problems.iter().map(|problem| problem.to_string() + "\n").collect();
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_VECTORS").is_some() {
            fs::write(&expected, lines.concat()).unwrap();
        }
        assert_eq!(lines.concat(), fs::read_to_string(&expected).unwrap(), "{}", path.display());
    }
}

/// A program made by running it: in each step a rank sends, or receives what has arrived first among all that the
/// receive could take. Operations of a rank wait for the one before them with probability `order`.
fn program_that_runs(seed: u64, order: f64) -> Program {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let ranks = random.random_range(1..5u32);
    let mut program = Program::new(ranks);
    let mut in_flight: Vec<(Rank, Rank, Tag, u64)> = Vec::new();
    let steps = random.random_range(0..40);
    let mut step = 0;
    while step < steps || !in_flight.is_empty() {
        step += 1;
        let rank = Rank(random.random_range(0..ranks));
        let before = program.rank(rank).vertices().last();
        let vertex = if step < steps && random.random() {
            let (dest, tag) = (Rank(random.random_range(0..ranks)), Tag(random.random_range(0..3)));
            let bytes = random.random_range(1..4);
            in_flight.push((rank, dest, tag, bytes));
            program.rank_mut(rank).send(Place::VOID, bytes, dest, tag).unwrap()
        } else {
            let source = random.random_bool(0.6).then(|| Rank(random.random_range(0..ranks)));
            let tag = random.random_bool(0.6).then(|| Tag(random.random_range(0..3)));
            let takes = |&(from, to, label, _): &(Rank, Rank, Tag, u64)| {
                to == rank && source.is_none_or(|source| source == from) && tag.is_none_or(|tag| tag == label)
            };
            let Some(first) = in_flight.iter().position(takes) else { continue };
            let (_, _, _, bytes) = in_flight.remove(first);
            program.rank_mut(rank).recv(Place::VOID, bytes, source, tag).unwrap()
        };
        if let Some(before) = before
            && random.random_bool(order)
        {
            program.rank_mut(rank).requires(before, vertex).unwrap();
        }
    }
    program
}

#[test]
fn programs_that_run_have_no_errors() {
    for seed in 0..600 {
        let program = program_that_runs(seed, [1.0, 0.7, 0.0][seed as usize % 3]);
        let report = check::check(&program);
        let mut text = String::new();
        text::print(&program, &mut text).unwrap();
        assert!(report.is_ok(), "seed {seed}: {}\n{text}", report.problems[0]);
    }
}

#[test]
fn a_message_too_few_is_an_error() {
    for seed in 0..300 {
        let mut program = program_that_runs(seed, 0.7);
        let dest = Rank(seed as u32 % program.num_ranks());
        program.rank_mut(Rank(0)).send(Place::VOID, 1, dest, Tag(1)).unwrap();
        let report = check::check(&program);
        assert!(report.problems.iter().any(|problem| problem.kind == Kind::SendUnmatched), "seed {seed}");
    }
}

/// Local operations on a small scratchpad, with edges of both kinds and `any`.
fn graph_with_buffers(seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut graph = Graph::new();
    graph.allocate_scratchpad(32);
    let starts = random.random();
    let add = Arithmetic::new(Operator::Add, ElementType::U8).unwrap();
    for index in 0..random.random_range(1..12u32) {
        let place = |random: &mut ChaCha8Rng| match random.random_range(0..3) {
            0 => Place::VOID,
            _ => Place::scratch(random.random_range(0..24)),
        };
        let (b1, b2, b3) = (place(&mut random), place(&mut random), place(&mut random));
        let vertex = graph.local(b1, b2, b3, add, random.random_range(0..8)).unwrap();
        let mut edges = 0;
        for from in (0..index).map(Vertex) {
            match random.random_range(0..6) {
                0 if starts => graph.irequires(from, vertex).unwrap(),
                1..=3 => graph.requires(from, vertex).unwrap(),
                _ => continue,
            }
            edges += 1;
        }
        if edges > 0 && random.random_bool(0.2) {
            graph.set_any(vertex, random.random_range(1..=edges)).unwrap();
        }
    }
    graph
}

/// Whether `b` can start while `a` has not finished: `a` never finishes; does `b` start?
fn may_overtake(graph: &Graph, a: Vertex, b: Vertex) -> bool {
    let (mut started, mut finished) = (vec![false; graph.len()], vec![false; graph.len()]);
    for vertex in graph.vertices() {
        let into: Vec<_> = graph.edges().filter(|edge| edge.target == vertex).collect();
        let met = into.iter().filter(|edge| match edge.kind {
            EdgeKind::Finish => finished[edge.prerequisite.index()],
            EdgeKind::Start => started[edge.prerequisite.index()],
        });
        started[vertex.index()] =
            met.count() >= graph.traits(vertex).any.map_or(into.len(), |any| any as usize);
        finished[vertex.index()] = started[vertex.index()] && vertex != a;
    }
    started[b.index()]
}

fn bytes_touched(graph: &Graph, vertex: Vertex) -> (u32, u32) {
    let Op::Local { b1, b2, b3, count, .. } = graph.op(vertex) else { panic!() };
    let mask = |buffer| match buffer {
        Buffer::Plain(Place { memory: Memory::Scratch, offset }) => (((1u64 << count) - 1) << offset) as u32,
        _ => 0,
    };
    (mask(b1) | mask(b2), mask(b3))
}

#[test]
fn overlaps_are_found_where_there_are_some() {
    let mut with = 0;
    for seed in 0..800 {
        let graph = graph_with_buffers(seed);
        let mut clash = false;
        for (a, b) in
            graph.vertices().flat_map(|a| graph.vertices().map(move |b| (a, b))).filter(|(a, b)| a < b)
        {
            let ((reads_a, writes_a), (reads_b, writes_b)) =
                (bytes_touched(&graph, a), bytes_touched(&graph, b));
            let touch = writes_a & (reads_b | writes_b) != 0 || reads_a & writes_b != 0;
            clash |= touch && may_overtake(&graph, a, b) && may_overtake(&graph, b, a);
        }
        let report = check::check(&Program::with_graphs(1, vec![graph]));
        assert_eq!(report.problems.iter().any(|problem| problem.kind == Kind::Overlap), clash, "seed {seed}");
        with += usize::from(clash);
    }
    assert!((100..700).contains(&with), "{with} of 800 programs clash");
}

#[test]
fn many_problems_are_counted_and_some_listed() {
    let mut graph = Graph::new();
    for tag in 0..1000 {
        graph.send(Place::VOID, 1, Rank(0), Tag(tag)).unwrap();
    }
    let report = check::check(&Program::with_graphs(1, vec![graph]));
    assert_eq!((report.problems.len(), report.operations), (LISTED_MAX, 1000));
    assert_eq!(report.unlisted, [(Kind::SendUnmatched, 1000 - LISTED_MAX as u64)]);
    assert!(report.problems.iter().all(|problem| problem.severity == Severity::Error));
}

#[test]
fn as_many_problems_as_are_listed_are_not_too_many() {
    for (count, listed, unlisted) in
        [(0, 0, None), (1, 1, None), (50, 50, None), (51, 50, Some(1)), (99, 50, Some(49))]
    {
        let mut graph = Graph::new();
        for tag in 0..count {
            graph.recv(Place::VOID, 1, Some(Rank(0)), Some(Tag(tag))).unwrap();
        }
        let report = check::check(&Program::with_graphs(7, vec![graph]));
        assert_eq!((report.problems.len(), report.ranks, report.is_ok()), (listed, 7, count == 0));
        let expected: Vec<_> = unlisted.into_iter().map(|more| (Kind::RecvUnmatched, more)).collect();
        assert_eq!(report.unlisted, expected, "{count}");
    }
}

#[test]
fn problems_have_names() {
    for (kind, name) in [
        (Kind::Cycle, "dependency cycle"),
        (Kind::Any, "too few dependencies for `any`"),
        (Kind::Peer, "peer does not exist"),
        (Kind::Bounds, "outside the scratchpad"),
        (Kind::SendUnmatched, "send without receive"),
        (Kind::RecvUnmatched, "receive without send"),
        (Kind::Size, "sizes differ"),
        (Kind::Deadlock, "deadlock"),
        (Kind::Buffering, "deadlock without buffers"),
        (Kind::Overlap, "unordered accesses"),
        (Kind::Skipped, "not looked at"),
    ] {
        assert_eq!(kind.to_string(), name);
    }
}

#[test]
fn one_reader_of_many_and_a_long_chain_are_quick() {
    // Each operation of a chain reads what the first wrote, and the last overwrites it.
    let mut graph = Graph::new();
    graph.allocate_scratchpad(8);
    let first = graph.wtime(Place::scratch(0)).unwrap();
    let mut last = first;
    for _ in 0..100_000 {
        let next = graph.send(Place::scratch(0), 8, Rank(0), Tag(0)).unwrap();
        graph.recv(Place::VOID, 8, Some(Rank(0)), Some(Tag(0))).unwrap();
        graph.requires(last, next).unwrap();
        last = next;
    }
    let end = graph.wtime(Place::scratch(0)).unwrap();
    graph.requires(last, end).unwrap();
    let report = check::check(&Program::with_graphs(1, vec![graph]));
    assert_eq!(report.problems, []);
}
