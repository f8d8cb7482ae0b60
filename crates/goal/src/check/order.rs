//! The order in which one rank's operations become ready, and what keeps some from ever being.

use super::{Found, Kind, Severity};
use crate::graph::{Edge, EdgeKind, Graph, Vertex};
use castell_base::Rank;
use std::fmt::Write;

/// One rank's operations in the order in which they become ready when each finishes at once: first in, first out,
/// as the stepper goes.
pub(super) struct Order {
    /// Place of each vertex in the order; those in a cycle, or behind one, come last.
    pub place: Vec<u32>,
    /// Whether all vertices have a place of their own right.
    pub acyclic: bool,
}

/// Every vertex's targets, by what they wait for.
pub(super) struct Targets {
    pub of_finish: Lists,
    pub of_start: Lists,
}

/// A list of vertices for each vertex, one behind the other.
pub(super) struct Lists {
    ends: Vec<u32>,
    entries: Vec<u32>,
}

impl Targets {
    pub fn of(graph: &Graph) -> Targets {
        Targets { of_finish: Lists::of(graph, EdgeKind::Finish), of_start: Lists::of(graph, EdgeKind::Start) }
    }
}

impl Lists {
    /// Counting sort of the edges of one kind by prerequisite.
    fn of(graph: &Graph, kind: EdgeKind) -> Lists {
        let edges = || graph.edges().filter(|edge| edge.kind == kind);
        let mut ends = vec![0u32; graph.len()];
        edges().for_each(|edge| ends[edge.prerequisite.index()] += 1);
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        let mut entries = vec![0u32; total as usize];
        for edge in edges() {
            let end = &mut ends[edge.prerequisite.index()];
            entries[*end as usize] = edge.target.0;
            *end += 1;
        }
        Lists { ends, entries }
    }

    pub fn of_vertex(&self, vertex: u32) -> &[u32] {
        let start = if vertex == 0 { 0 } else { self.ends[vertex as usize - 1] };
        &self.entries[start as usize..self.ends[vertex as usize] as usize]
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Order {
    /// Sorts the vertices, and reports a cycle and impossible `any`.
    pub fn of(rank: Rank, graph: &Graph, found: &mut Found) -> Order {
        let targets = Targets::of(graph);
        let mut unmet = vec![0u32; graph.len()];
        graph.edges().for_each(|edge| unmet[edge.target.index()] += 1);
        let mut any: Vec<_> = graph.any_vertices().collect();
        any.sort();
        for (vertex, any) in any {
            let in_degree = unmet[vertex.index()];
            if any > in_degree {
                found.add(Severity::Error, Kind::Any, (rank, vertex), |_| {
                    format!("it starts once {any} dependencies are met, but has only {in_degree}")
                });
            }
        }
        let mut order: Vec<u32> = Vec::with_capacity(graph.len());
        order.extend((0..graph.len() as u32).filter(|&vertex| unmet[vertex as usize] == 0));
        let mut next = 0;
        while let Some(&vertex) = order.get(next) {
            next += 1;
            let lists = [&targets.of_finish, &targets.of_start];
            for &target in lists.into_iter().flat_map(|list| list.of_vertex(vertex)) {
                unmet[target as usize] -= 1;
                if unmet[target as usize] == 0 {
                    order.push(target);
                }
            }
        }
        let acyclic = order.len() == graph.len();
        if !acyclic {
            report_cycle(rank, graph, &unmet, found);
            order.extend((0..graph.len() as u32).filter(|&vertex| unmet[vertex as usize] > 0));
        }
        let mut place = vec![0; graph.len()];
        for (at, &vertex) in order.iter().enumerate() {
            place[vertex as usize] = at as u32;
        }
        Order { place, acyclic }
    }
}

/// Names one cycle. Each vertex that kept unmet dependencies waits for another such vertex, so going from a vertex
/// to what it waits for must come around.
fn report_cycle(rank: Rank, graph: &Graph, unmet: &[u32], found: &mut Found) {
    let mut waits_for = vec![u32::MAX; graph.len()];
    for Edge { prerequisite, target, .. } in graph.edges() {
        if unmet[prerequisite.index()] > 0 && unmet[target.index()] > 0 {
            waits_for[target.index()] = prerequisite.0;
        }
    }
    let Some(first) = unmet.iter().position(|&unmet| unmet > 0) else { return };
    let mut seen = vec![false; graph.len()];
    let mut at = first as u32;
    while !std::mem::replace(&mut seen[at as usize], true) {
        at = waits_for[at as usize];
    }
    let mut cycle = vec![Vertex(at)];
    while waits_for[cycle[cycle.len() - 1].index()] != at {
        cycle.push(Vertex(waits_for[cycle[cycle.len() - 1].index()]));
    }
    // From the vertex that was added first, so that the message does not depend on where the search came in.
    let lowest = (0..cycle.len()).min_by_key(|&index| cycle[index]).unwrap_or(0);
    cycle.rotate_left(lowest);
    let stuck = unmet.iter().filter(|&&unmet| unmet > 0).count();
    found.add(Severity::Error, Kind::Cycle, (rank, cycle[0]), |found| {
        const SHOWN: usize = 16;
        let mut message = String::from("dependency cycle: it");
        for &vertex in cycle[1..].iter().take(SHOWN) {
            let _ = write!(message, " waits for {}, which", found.name_here(rank, vertex));
        }
        if cycle.len() - 1 > SHOWN {
            let _ = write!(message, " waits for {} others, the last of which", cycle.len() - 1 - SHOWN);
        }
        let _ = write!(
            message,
            " waits for {} again; {stuck} operations of this rank never start",
            graph.name(cycle[0])
        );
        message
    });
}
