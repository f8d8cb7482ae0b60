//! Stepping random graphs, with operations that last, against a model that looks at every edge.

use crate::random;

use castell_goal::graph::{Edge, EdgeKind, Graph, Vertex};
use castell_goal::schedule::OpId;
use castell_goal::stepper::{Cursor, StateWords, Stepper};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

/// What the edges say, without counters.
struct Model {
    edges: Vec<Edge>,
    needs: Vec<usize>,
    started: Vec<bool>,
    finished: Vec<bool>,
}

impl Model {
    fn new(graph: &Graph) -> Model {
        let edges: Vec<Edge> = graph.edges().collect();
        let in_degree = |vertex| edges.iter().filter(|edge| edge.target == vertex).count();
        let needs =
            graph.vertices().map(|v| graph.traits(v).any.map_or(in_degree(v), |any| any as usize)).collect();
        Model { edges, needs, started: vec![false; graph.len()], finished: vec![false; graph.len()] }
    }

    fn may_start(&self, vertex: Vertex) -> bool {
        let met = |edge: &&Edge| {
            let events = if edge.kind == EdgeKind::Finish { &self.finished } else { &self.started };
            edge.target == vertex && events[edge.prerequisite.index()]
        };
        !self.started[vertex.index()] && self.edges.iter().filter(met).count() >= self.needs[vertex.index()]
    }

    fn ready(&self) -> usize {
        (0..self.needs.len() as u32).filter(|&vertex| self.may_start(Vertex(vertex))).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_random_graph_runs_to_its_end_in_order(
        numbers in vec(any::<u32>(), 0..1500),
        events in vec(any::<u32>(), 0..200),
        vertices in 0u32..50,
    ) {
        let graph = random::graph(&numbers, vertices, true);
        let (schedule, ids) = graph.compile_with_ids().unwrap();
        let vertex_of: HashMap<OpId, Vertex> = graph.vertices().map(|v| (ids[v.index()], v)).collect();
        let mut events = random::Choices::new(&events);
        let mut stepper = Stepper::new(&schedule);
        // The same once more in memory that is lent, as if each step were taken by another process.
        let StateWords { counters, ring } = StateWords::of(&schedule);
        let (mut counters, mut ring) = (vec![9; counters], vec![9; ring]);
        // Twice, so that a reset is tried too.
        for _ in 0..2 {
            let lent = Stepper::begin_in(&schedule, &mut counters, &mut ring);
            let (unfinished, mut cursor) = (lent.unfinished(), lent.cursor());
            prop_assert_eq!(unfinished, graph.len() as u64);
            prop_assert_eq!(cursor == Cursor::default(), graph.is_empty());
            let mut model = Model::new(&graph);
            let mut lasting = Vec::new();
            while !stepper.is_finished() {
                prop_assert_eq!(stepper.ready(), model.ready());
                prop_assert!(stepper.ready() <= schedule.ready_max());
                let mut lent = Stepper::resume_in(&mut counters[..], &mut ring[..], cursor);
                prop_assert_eq!((lent.ready(), lent.unfinished()), (stepper.ready(), stepper.unfinished()));
                if stepper.ready() > 0 && (lasting.is_empty() || events.below(2) == 0) {
                    let taken = stepper.take(&schedule);
                    prop_assert_eq!(lent.take(&schedule), taken);
                    let vertex = vertex_of[&taken.unwrap()];
                    prop_assert!(model.may_start(vertex));
                    model.started[vertex.index()] = true;
                    lasting.push(vertex);
                } else {
                    prop_assert!(!lasting.is_empty(), "{} never became ready", stepper.unfinished());
                    let vertex = lasting.swap_remove(events.below(lasting.len() as u32) as usize);
                    stepper.finish(&schedule, ids[vertex.index()]);
                    lent.finish(&schedule, ids[vertex.index()]);
                    model.finished[vertex.index()] = true;
                }
                cursor = lent.cursor();
            }
            prop_assert!(model.finished.iter().all(|&finished| finished));
            prop_assert_eq!(stepper.take(&schedule), None);
            stepper.reset(&schedule);
        }
    }
}
