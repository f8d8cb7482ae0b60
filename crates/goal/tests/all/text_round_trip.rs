//! Printing a program and reading it gives the same program.

use crate::random_program;
use crate::random_program::Vocabulary;
use castell_base::{Rank, Tag};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_goal::program::Program;
use castell_goal::text;
use proptest::prelude::*;

fn printed(program: &Program) -> String {
    let mut out = String::new();
    text::print(program, &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back(seed in any::<u64>(), vertices in 0usize..40) {
        let program = random_program::program(seed, vertices, Vocabulary::Full);
        let text = printed(&program);
        let again = text::parse(&text, "printed").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        random_program::assert_same(&program, &again);
        // Labels that were made up stay: from here on, the text does not change.
        prop_assert_eq!(printed(&again), text);
    }
}

#[test]
fn labels_that_cannot_stand_in_a_text_are_replaced() {
    let mut graph = Graph::new();
    for label in ["two words", "send", "", "twice", "twice", "2nd", "naïve", "v3"] {
        let vertex = graph.send(Place::VOID, 1, Rank(0), Tag(0)).unwrap();
        graph.set_label(vertex, label).unwrap();
    }
    let vertices: Vec<_> = graph.vertices().collect();
    for pair in vertices.windows(2) {
        graph.requires(pair[0], pair[1]).unwrap();
    }
    let again = text::parse(printed(&Program::with_graphs(1, vec![graph])), "printed").unwrap();
    let graph = again.rank(Rank(0));
    let labels: Vec<_> = vertices.iter().map(|&vertex| graph.label(vertex).unwrap()).collect();
    assert_eq!(labels, ["v_0", "v_1", "v_2", "twice", "v_4", "v_5", "v_6", "v3"]);
}
