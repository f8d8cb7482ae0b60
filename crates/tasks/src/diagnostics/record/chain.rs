//! The longest chain of a recording: how long its tasks would take on as many processors as they can use.

use super::Recording;
use super::goal::{Graph, Vertex};
use std::collections::HashMap;
use std::convert::Infallible;

impl Recording {
    /// The bodies' own time, and what the program did alone between a team's regions, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        let serial: u64 = self.rounds.iter().map(|round| round.serial_ns).sum();
        self.tasks.iter().map(|task| task.own_ns()).sum::<u64>() + serial
    }

    /// The longest chain of stretches of which each had to wait for the one before, in nanoseconds: no number of processors runs these tasks in
    /// less. All work over it is the parallelism that is there.
    pub fn longest_chain_ns(&self) -> u64 {
        let graph = Graph::of(self);
        let mut numbers: HashMap<Vertex, usize> = HashMap::new();
        let mut times = Vec::new();
        graph.each_vertex(&mut |vertex, ns| {
            numbers.insert(vertex, times.len());
            times.push(ns);
        });
        let mut edges = Vec::new();
        let gathered: Result<(), Infallible> = graph.each_edge(&mut |vertex, before| {
            edges.push((numbers[&before], numbers[&vertex]));
            Ok(())
        });
        gathered.unwrap_or_else(|never| match never {});
        longest(&times, edges)
    }
}

/// The longest path by the vertices' times; edges from what comes before. What waits for itself has no end, and is left out.
fn longest(times: &[u64], mut edges: Vec<(usize, usize)>) -> u64 {
    edges.sort_unstable();
    let mut missing = vec![0_u32; times.len()];
    edges.iter().for_each(|&(_, vertex)| missing[vertex] += 1);
    let mut open: Vec<usize> = (0..times.len()).filter(|&vertex| missing[vertex] == 0).collect();
    let mut begins = vec![0_u64; times.len()];
    let mut longest = 0;
    while let Some(vertex) = open.pop() {
        let end = begins[vertex] + times[vertex];
        longest = longest.max(end);
        let first = edges.partition_point(|&(before, _)| before < vertex);
        for &(_, next) in edges[first..].iter().take_while(|&&(before, _)| before == vertex) {
            begins[next] = begins[next].max(end);
            missing[next] -= 1;
            if missing[next] == 0 {
                open.push(next);
            }
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_way_counts() {
        assert_eq!(longest(&[], Vec::new()), 0);
        assert_eq!(longest(&[3, 4], Vec::new()), 4);
        // 0 -> 1 -> 3, 0 -> 2 -> 3
        assert_eq!(longest(&[1, 10, 2, 5], vec![(0, 1), (2, 3), (1, 3), (0, 2)]), 16);
    }
}
