//! Circles of dependencies: what is named as one is one, in what compiling says and in what the check says.

use castell_goal::check::{self, Kind};
use castell_goal::compile::CompileError;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::Place;
use castell_goal::program::Program;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Vertices that never start: taken away are, again and again, those that wait for nothing that is left.
fn stuck(graph: &Graph) -> Vec<Vertex> {
    let mut left: Vec<Vertex> = graph.vertices().collect();
    loop {
        let waits = |vertex: &Vertex| {
            graph.edges().any(|edge| edge.target == *vertex && left.contains(&edge.prerequisite))
        };
        let still: Vec<Vertex> = left.iter().copied().filter(waits).collect();
        if still.len() == left.len() {
            return left;
        }
        left = still;
    }
}

fn random_graph(random: &mut ChaCha8Rng) -> Graph {
    let mut graph = Graph::new();
    let vertices = random.random_range(2..12);
    for index in 0..vertices {
        let is_calc = random.random_bool(0.8);
        let vertex = if is_calc { graph.calc(index.into()) } else { graph.wtime(Place::user(0)) }.unwrap();
        if random.random() {
            graph.set_label(vertex, &format!("l{index}")).unwrap();
        }
    }
    for _ in 0..random.random_range(1..2 * vertices) {
        let (from, to) = (Vertex(random.random_range(0..vertices)), Vertex(random.random_range(0..vertices)));
        if from != to {
            let edge = if random.random() { Graph::requires } else { Graph::irequires };
            edge(&mut graph, from, to).unwrap();
        }
    }
    graph
}

/// What the check says of a circle, in which each vertex waits for the one before it.
fn said(graph: &Graph, circle: &[Vertex]) -> String {
    let others = circle[1..].iter().rev();
    let shown: Vec<String> =
        others.clone().take(16).map(|v| format!(" waits for {}, which", graph.name(*v))).collect();
    let more = match others.len() {
        ..=16 => String::new(),
        others => format!(" waits for {} others, the last of which", others - 16),
    };
    let (first, stuck) = (graph.name(circle[0]), stuck(graph).len());
    format!(
        "error: rank 0 {first}: dependency cycle: it{}{more} waits for {first} again; {stuck} operations of this rank \
         never start",
        shown.concat()
    )
}

#[test]
fn whatever_is_named_as_a_circle_is_one() {
    let seed = 20_261_127;
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut circles = 0;
    for _ in 0..2000 {
        let graph = random_graph(&mut random);
        let compiled = graph.compile();
        let report = check::check(&Program::with_graphs(1, vec![graph.clone()]));
        let circle = report.problems.iter().filter(|problem| problem.kind == Kind::Cycle);
        let found: Vec<String> = circle.map(|problem| problem.to_string()).collect();
        let Err(CompileError::Cycle { vertices, names }) = compiled else {
            assert!(compiled.is_ok() && stuck(&graph).is_empty() && found.is_empty());
            continue;
        };
        circles += 1;
        let before = vertices.iter().cycle().skip(vertices.len() - 1);
        for (&vertex, &before) in vertices.iter().zip(before) {
            assert!(
                graph.edges().any(|edge| (edge.prerequisite, edge.target) == (before, vertex)),
                "{names}"
            );
        }
        assert!(vertices.iter().skip(1).all(|vertex| *vertex > vertices[0]), "{names}");
        let named: Vec<String> = vertices.iter().chain([&vertices[0]]).map(|v| graph.name(*v)).collect();
        assert_eq!(names, named.join(" -> "));
        assert_eq!(found, [said(&graph, &vertices)]);
    }
    assert!((500..1900).contains(&circles), "{circles} of 2000 graphs have circles");
}

#[test]
fn long_circles_are_cut_short_in_the_middle() {
    for (length, more, others) in [
        (16, "-> vertex 15 -> vertex 0", "waits for vertex 1, which waits for vertex 0 again"),
        (17, "-> vertex 15 -> ... 1 more -> vertex 0", "waits for vertex 1, which waits for vertex 0 again"),
        (
            18,
            "-> ... 2 more -> vertex 0",
            "waits for vertex 2, which waits for 1 others, the last of which waits for",
        ),
        (
            19,
            "-> ... 3 more -> vertex 0",
            "waits for vertex 3, which waits for 2 others, the last of which waits for",
        ),
    ] {
        let mut graph = Graph::new();
        let vertices: Vec<Vertex> = (0..length).map(|ns| graph.calc(ns).unwrap()).collect();
        for pair in vertices.windows(2) {
            graph.requires(pair[0], pair[1]).unwrap();
        }
        graph.requires(vertices[vertices.len() - 1], vertices[0]).unwrap();
        let Err(CompileError::Cycle { vertices, names }) = graph.compile() else { panic!("{length}") };
        assert!(names.ends_with(more), "{length}: {names}");
        let report = check::check(&Program::with_graphs(1, vec![graph.clone()]));
        assert_eq!(report.problems[0].to_string(), said(&graph, &vertices));
        assert!(report.problems[0].message.contains(others), "{}", report.problems[0]);
    }
}

/// `any` at its number of dependencies is right, one more is not; of several the first vertex is named.
#[test]
fn any_has_to_have_so_many_dependencies() {
    let graph = |any: [u32; 2]| {
        let mut graph = Graph::new();
        let [a, b, first, second] = [1, 2, 3, 4].map(|ns| graph.calc(ns).unwrap());
        for target in [first, second] {
            graph.requires(a, target).unwrap();
            graph.irequires(b, target).unwrap();
        }
        graph.set_any(second, any[1]).unwrap();
        graph.set_any(first, any[0]).unwrap();
        graph
    };
    assert!(graph([1, 2]).compile().is_ok() && graph([2, 1]).compile().is_ok());
    for (any, vertex, wrong, all) in [([3, 2], 2, 3, 1), ([2, 4], 3, 4, 1), ([5, 6], 2, 5, 2)] {
        let graph = graph(any);
        let name = format!("vertex {vertex}");
        let expected = CompileError::AnyTooLarge { vertex: Vertex(vertex), name, any: wrong, in_degree: 2 };
        assert_eq!(graph.compile().unwrap_err(), expected);
        let report = check::check(&Program::with_graphs(1, vec![graph]));
        assert_eq!(report.problems.iter().filter(|problem| problem.kind == Kind::Any).count(), all);
        assert_eq!(
            report.problems[0].to_string(),
            format!(
                "error: rank 0 vertex {vertex}: it starts once {wrong} dependencies are met, but has only 2"
            )
        );
    }
}
