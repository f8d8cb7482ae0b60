//! Graphs and queues of 10 million: what they cost to build, compile, store, load and step.
//!
//! `cargo run --release -p castell-goal --example ten_million [-- COUNT]`

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;
use castell_goal::schedule::Schedule;
use castell_goal::stepper::Stepper;
use castell_matching::{Key, Matcher, Pattern};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::time::Instant;

/// Far less than a function call a vertex would take.
const STACK_BYTES: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(10_000_000), |count| count.parse())?;
    let work = move || -> Result<(), String> {
        let show = |error: &dyn Error| error.to_string();
        measure("chain", || chain(count)).map_err(|error| show(&*error))?;
        measure("random", || random(count)).map_err(|error| show(&*error))?;
        for (keys, any) in [(1, false), (count, false), (1, true), (count, true)] {
            crowd(count, keys, any);
        }
        Ok(())
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?;
    thread.join().map_err(|_| "the thread panicked")??;
    Ok(())
}

/// Receives and sends in turn, each waiting for the one before.
fn chain(count: u32) -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let mut before: Option<Vertex> = None;
    for index in 0..count {
        let vertex = if index % 2 == 0 {
            graph.recv(Place::VOID, 8, Some(Rank(1)), Some(Tag(0)))?
        } else {
            graph.send(Place::VOID, 8, Rank(1), Tag(0))?
        };
        if let Some(before) = before {
            graph.requires(before, vertex)?;
        }
        before = Some(vertex);
    }
    Ok(graph)
}

/// Each vertex waits for two others, drawn from the 100,000 before it, one in ten for a start.
fn random(count: u32) -> Result<Graph, GraphError> {
    const WINDOW: u32 = 100_000;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut graph = Graph::new();
    for index in 0..count {
        let vertex = match random.random_range(0..3) {
            0 => graph.calc(u64::from(index))?,
            1 => graph.recv(Place::VOID, 8, Some(Rank(1)), Some(Tag(index)))?,
            _ => graph.send(Place::VOID, 8, Rank(1), Tag(index))?,
        };
        for edge in 0..if index == 0 { 0 } else { 2 } {
            let before = Vertex(random.random_range(index.saturating_sub(WINDOW)..index));
            if edge == 0 && index % 10 == 0 {
                graph.irequires(before, vertex)?;
            } else {
                graph.requires(before, vertex)?;
            }
        }
    }
    Ok(graph)
}

fn measure(name: &str, build: impl Fn() -> Result<Graph, GraphError>) -> Result<(), Box<dyn Error>> {
    let clock = Instant::now();
    let graph = build()?;
    let vertices = graph.len() as f64;
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "{name}: {} vertices, {} edges, built in {seconds:.2} s, {:.1} bytes a vertex",
        graph.len(),
        graph.edge_count(),
        graph.bytes() as f64 / vertices
    );
    let clock = Instant::now();
    let schedule = graph.compile()?;
    let seconds = clock.elapsed().as_secs_f64();
    println!("{name}: compiled in {seconds:.2} s, {:.1} bytes a vertex", schedule.bytes() as f64 / vertices);
    drop(graph);

    let clock = Instant::now();
    let bytes = schedule.to_bytes();
    let written = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let loaded = Schedule::from_bytes(&bytes)?;
    println!("{name}: written in {written:.2} s, verified in {:.2} s", clock.elapsed().as_secs_f64());
    assert_eq!(loaded, schedule);
    drop((bytes, loaded));

    let clock = Instant::now();
    let mut stepper = Stepper::new(&schedule);
    let made = clock.elapsed().as_secs_f64();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        stepper.reset(&schedule);
        let clock = Instant::now();
        while let Some(id) = stepper.take(&schedule) {
            stepper.finish(&schedule, id);
        }
        best = best.min(clock.elapsed().as_secs_f64());
        assert!(stepper.is_finished());
    }
    println!("{name}: stepper made in {made:.3} s, {:.1} ns a step", 1e9 * best / vertices);
    Ok(())
}

/// All messages first, then all receives, from the last key to the first.
fn crowd(count: u32, keys: u32, any: bool) {
    let mut matcher = Matcher::new();
    let clock = Instant::now();
    for id in 0..count {
        let key = Key { context: 0, source: Rank(1), tag: Tag(id % keys) };
        assert_eq!(matcher.arrive(key, || id), None);
    }
    let arrived = 1e9 * clock.elapsed().as_secs_f64() / f64::from(count);
    let clock = Instant::now();
    for id in (0..count).rev() {
        let source = (!any).then_some(Rank(1));
        assert!(matcher.post(Pattern { context: 0, source, tag: Some(Tag(id % keys)) }, ()).is_some());
    }
    let posted = 1e9 * clock.elapsed().as_secs_f64() / f64::from(count);
    let source = if any { "any source" } else { "one source" };
    println!(
        "{count} unexpected messages under {keys} tags: {arrived:.0} ns each to keep, {posted:.0} to find ({source})"
    );
}
