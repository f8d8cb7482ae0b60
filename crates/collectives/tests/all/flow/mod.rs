//! What graphs do, whatever they are called: how many messages there are, how many of them follow each other, what is
//! computed, and whom data reaches.

use castell_goal::graph::{EdgeKind, Vertex};
use castell_goal::op::Op;
use castell_goal::program::Program;
use std::collections::HashMap;

/// Messages of a program and what follows from what.
#[derive(Debug, Default)]
pub struct Flow {
    /// Sender, receiver and bytes of each message.
    pub messages: Vec<(u32, u32, u64)>,
    /// The most messages of which each one waits for the one before.
    pub depth: u64,
    /// Computations that take time.
    pub computations: u64,
    /// The most nanoseconds of computations of which each one waits for the one before.
    pub computed_ns: u64,
    /// Whose data can be in what a rank ends with: a bit a rank.
    pub heard: Vec<u128>,
}

/// What has happened before the end of a vertex.
#[derive(Clone, Copy, Default)]
struct Before {
    depth: u64,
    computed_ns: u64,
    heard: u128,
}

impl Before {
    fn with(self, other: Before) -> Before {
        Before {
            depth: self.depth.max(other.depth),
            computed_ns: self.computed_ns.max(other.computed_ns),
            heard: self.heard | other.heard,
        }
    }
}

impl Flow {
    /// Of up to 128 ranks' graphs without memory. The k-th send from one rank to another with some tag is what the k-th
    /// such receive gets.
    pub fn of(program: &Program) -> Flow {
        let mut flow = Flow::default();
        // Vertices of all ranks, one rank's behind the other's, and what each one waits for.
        let mut first = vec![0];
        program.graphs().for_each(|(rank, graph)| first.push(first[rank.index()] + graph.len()));
        let at = |rank: u32, vertex: Vertex| first[rank as usize] + vertex.index();
        let mut waits: Vec<Vec<usize>> = vec![Vec::new(); first[first.len() - 1]];
        let mut own: Vec<(u64, bool)> = vec![(0, false); waits.len()];
        let (mut sends, mut receives) = (HashMap::new(), HashMap::new());
        for (rank, graph) in program.graphs() {
            for edge in graph.edges().filter(|edge| edge.kind == EdgeKind::Finish) {
                waits[at(rank.0, edge.target)].push(at(rank.0, edge.prerequisite));
            }
            for vertex in graph.vertices() {
                let here = at(rank.0, vertex);
                match graph.op(vertex) {
                    Op::Send { bytes, dest, tag, .. } => {
                        flow.messages.push((rank.0, dest.0, bytes));
                        sends.entry((rank, dest, tag)).or_insert_with(Vec::new).push(here);
                    }
                    Op::Recv { source, tag, .. } => {
                        let key = (source.expect("a source"), rank, tag.expect("a tag"));
                        receives.entry(key).or_insert_with(Vec::new).push(here);
                        own[here].1 = true;
                    }
                    Op::Calc { ns } => {
                        flow.computations += u64::from(ns > 0);
                        own[here].0 = ns;
                    }
                    other => panic!("simulators of patterns know no {other:?}"),
                }
            }
        }
        for (key, receives) in receives {
            receives.iter().zip(&sends[&key]).for_each(|(&receive, &send)| waits[receive].push(send));
        }
        let before = ends(&waits, &own, |here| first.partition_point(|&first| first <= here) - 1);
        for end in &before {
            flow.depth = flow.depth.max(end.depth);
            flow.computed_ns = flow.computed_ns.max(end.computed_ns);
        }
        let heard = first.windows(2).zip(0..).map(|(ends, rank)| {
            before[ends[0]..ends[1]].iter().fold(1 << rank, |heard, end| heard | end.heard)
        });
        flow.heard = heard.collect();
        flow
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.2).sum()
    }
}

/// Goes through the vertices as soon as what they wait for is over.
fn ends(waits: &[Vec<usize>], own: &[(u64, bool)], rank_of: impl Fn(usize) -> usize) -> Vec<Before> {
    let mut followers = vec![Vec::new(); waits.len()];
    for (here, waits) in waits.iter().enumerate() {
        waits.iter().for_each(|&before| followers[before].push(here));
    }
    let mut missing: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..waits.len()).filter(|&here| missing[here] == 0).collect();
    let mut ends = vec![Before::default(); waits.len()];
    let mut over = 0;
    while let Some(here) = ready.pop() {
        let (ns, receives) = own[here];
        let all = waits[here].iter().fold(Before::default(), |all, &before| all.with(ends[before]));
        // A message makes chains longer by one when it arrives.
        let sent = waits[here].iter().filter(|&&before| rank_of(before) != rank_of(here));
        let sent = sent.map(|&before| ends[before].depth + 1).max().unwrap_or(u64::from(receives));
        ends[here] = Before {
            depth: if receives { all.depth.max(sent) } else { all.depth },
            computed_ns: all.computed_ns + ns,
            heard: all.heard | 1 << rank_of(here),
        };
        over += 1;
        for &next in &followers[here] {
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(next);
            }
        }
    }
    assert_eq!(over, waits.len(), "some vertices wait for each other");
    ends
}
