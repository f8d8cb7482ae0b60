//! `castell bench parse`: reading and printing GOAL text, in bytes of text a second.

use crate::report::{Params, Sample};
use crate::workload::{Subject, Workload};
use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::Place;
use castell_goal::program::Program;
use castell_goal::text;
use castell_host::threads::Lent;
use std::hint::black_box;
use std::time::Instant;

/// The workload.
pub struct Parse;

impl Workload for Parse {
    fn name(&self) -> &'static str {
        "parse"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let mut cases = Vec::new();
        for bytes in bytes.unwrap_or(&[16 << 20]) {
            for name in ["dissemination", "sweep"] {
                let text_bytes = generate(name, *bytes).len();
                let case = |what: &str| {
                    let case = Params::new().with("what", what).with("text", name).with("bytes", *bytes);
                    case.with("text_bytes", text_bytes)
                };
                cases.extend([1u64, 2].map(|threads| case("read").with("threads", threads)));
                cases.push(case("print"));
            }
        }
        cases
    }

    fn samples(&self) -> u32 {
        3
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        Ok(vec![Box::new(Castell::default()), Box::new(Lines::default())])
    }

    fn peer_ranks(&self) -> Option<u32> {
        None
    }
}

/// The text of a case, made once.
#[derive(Default)]
struct Text {
    case: Option<Params>,
    text: String,
}

impl Text {
    fn of(&mut self, case: &Params) -> &str {
        if self.case.as_ref() != Some(case) {
            let name = case.word("text").unwrap_or("dissemination");
            self.text = generate(name, case.number("bytes").unwrap_or(0));
            self.case = Some(case.clone());
        }
        &self.text
    }
}

#[derive(Default)]
struct Castell {
    text: Text,
}

impl Subject for Castell {
    fn name(&self) -> String {
        "castell".to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let text = self.text.of(case);
        let threads = Lent::of(case.number("threads").unwrap_or(1) as usize);
        let read = || text::parse_on(text, "generated", &threads);
        let program = read()?;
        Ok(Some(match case.word("what") {
            Some("read") => sample(samples, || read().expect("it was read before")),
            _ => sample(samples, || {
                let mut printed = String::new();
                text::print(&program, &mut printed).expect("a string takes everything");
                printed
            }),
        }))
    }
}

/// Counts lines: what it takes to look at each byte.
#[derive(Default)]
struct Lines {
    text: Text,
}

impl Subject for Lines {
    fn name(&self) -> String {
        "counting lines".to_owned()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        if case.word("what") != Some("read") {
            return Ok(None);
        }
        let text = self.text.of(case).as_bytes();
        Ok(Some(sample(samples, || text.iter().filter(|&&byte| byte == b'\n').count())))
    }
}

/// What it takes to make something; putting it away is not counted.
fn sample<T>(samples: u32, make: impl Fn() -> T) -> Sample {
    let once = || {
        let start = Instant::now();
        let made = black_box(make());
        let ns = start.elapsed().as_nanos() as f64;
        drop(made);
        ns
    };
    Sample::of((0..samples).map(|_| once()).collect())
}

/// A text of so many bytes at least: the ranks are doubled until it is.
fn generate(name: &str, bytes: u64) -> String {
    let build = if name == "sweep" { sweep } else { dissemination };
    let mut ranks = 16;
    loop {
        let graphs: Result<Vec<Graph>, GraphError> = (0..ranks).map(|rank| build(rank, ranks)).collect();
        let program = Program::with_graphs(ranks, graphs.expect("small graphs are never full"));
        let mut text = String::new();
        text::print(&program, &mut text).expect("a string takes everything");
        if text.len() as u64 >= bytes {
            return text;
        }
        ranks *= 2;
    }
}

/// As LogGOPSim's generator writes a dissemination: each round's send waits for the receive before.
fn dissemination(rank: u32, ranks: u32) -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let mut before = None;
    for round in 0..ranks.ilog2() {
        let distance = 1 << round;
        let send = graph.send(Place::VOID, 1, Rank((rank + distance) % ranks), Tag(0))?;
        let recv = graph.recv(Place::VOID, 1, Some(Rank((rank + ranks - distance) % ranks)), Some(Tag(0)))?;
        if let Some(before) = before.replace(recv) {
            graph.requires(before, send)?;
        }
    }
    label(&mut graph)?;
    Ok(graph)
}

/// As a trace of a transport sweep: computation between receives from two neighbours and sends to two others.
fn sweep(rank: u32, ranks: u32) -> Result<Graph, GraphError> {
    let mut graph = Graph::new();
    let mut before = None;
    for step in 0..40 {
        let tag = Tag(1_000_000 + step);
        let mut received = Vec::new();
        for distance in [1, 4].into_iter().filter(|distance| *distance <= rank) {
            let recv = graph.recv(Place::VOID, 36_000, Some(Rank(rank - distance)), Some(tag))?;
            if let Some(before) = before {
                graph.requires(before, recv)?;
            }
            received.push(recv);
        }
        let calc = graph.calc(u64::from(2_000_000 + step * 5_000 + rank))?;
        for recv in received {
            graph.requires(recv, calc)?;
        }
        for distance in [1, 4].into_iter().filter(|distance| rank + distance < ranks) {
            let send = graph.send(Place::VOID, 36_000, Rank(rank + distance), tag)?;
            graph.requires(calc, send)?;
        }
        before = Some(calc);
    }
    label(&mut graph)?;
    Ok(graph)
}

/// Labels as LogGOPSim's tools write them: `l1`, `l2`, ….
fn label(graph: &mut Graph) -> Result<(), GraphError> {
    graph.vertices().try_for_each(|vertex| graph.set_label(vertex, &format!("l{}", vertex.0 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_programs() {
        for name in ["dissemination", "sweep"] {
            let text = generate(name, 100_000);
            assert!((100_000..400_000).contains(&text.len()), "{name}: {} bytes", text.len());
            let program = text::parse(&text, name).expect("GOAL text");
            assert!(castell_goal::check::check(&program).is_ok(), "{name}");
        }
    }
}
