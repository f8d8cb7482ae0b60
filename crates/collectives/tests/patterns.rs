//! Patterns as a whole: their graphs fit together, and their promises about themselves hold.

use castell_base::{Rank, Time};
use castell_collectives::generator::{Generator, Options};
use castell_collectives::pattern::Pattern;
use castell_goal::check;

fn pattern(name: &str, options: &Options) -> Box<dyn Pattern> {
    Generator::parse(name, options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The check finds nothing, `operations` counts right, and rounds say what the graph has.
fn consistent(pattern: &dyn Pattern) {
    let name = format!("{} on {} ranks", pattern.name(), pattern.ranks());
    let program = pattern.program().unwrap();
    let report = check::check(&program);
    assert!(report.problems.is_empty(), "{name}: {}", report.problems[0]);
    for (rank, graph) in program.graphs() {
        assert_eq!(pattern.operations(rank), graph.len() as u64, "{name}, rank {rank}");
    }
    let Some(rounds) = pattern.rounds() else { return };
    for round in 0..rounds.count() {
        for rank in (0..pattern.ranks()).map(Rank) {
            for i in 0..rounds.fan(round) {
                let to = rounds.to(round, rank, i);
                let heard = (0..rounds.fan(round)).any(|j| rounds.from(round, to, j) == rank);
                assert!(heard, "{name}: round {round}, {rank} -> {to}");
            }
        }
    }
}

#[test]
fn patterns_of_any_size_fit_together() {
    for ranks in 1..=40 {
        for root in [0, ranks / 2, ranks - 1] {
            let options = Options { root: Rank(root), ..Options::new(ranks) };
            for name in ["pingpong", "pingpong:3", "multicast", "barrier:dissemination", "bcast:binomial"] {
                consistent(&*pattern(name, &options));
            }
        }
    }
}

#[test]
fn words_of_factors_fit_together() {
    for (word, ranks) in [("a2", 2), ("a8", 8), ("a2,a2,a2", 8), ("a3,a2", 6), ("a2,a3", 6), ("a4,a3,a5", 60)]
    {
        for compute in [Time(0), Time(10_000)] {
            let options = Options { compute, ..Options::new(ranks) };
            consistent(&*pattern(&format!("allreduce:{word}"), &options));
        }
    }
    for exponent in 0..6 {
        consistent(&*pattern("allreduce:recursive-doubling", &Options::new(1 << exponent)));
    }
}

#[test]
fn groups_of_a_stage_are_as_the_thesis_says() {
    // Stage a3 behind a2: base 6, members 2 apart.
    let pattern = pattern("allreduce:a2,a3", &Options::new(6));
    let rounds = pattern.rounds().unwrap();
    let sends = |rank| [rounds.to(1, Rank(rank), 0).0, rounds.to(1, Rank(rank), 1).0];
    assert_eq!([sends(0), sends(3), sends(4)], [[2, 4], [5, 1], [0, 2]]);
}

#[test]
fn refusals_say_what_to_do() {
    let refusal = |name: &str, options: &Options| Generator::parse(name, options).err().unwrap().to_string();
    let eight = Options::new(8);
    assert!(refusal("allgather:magic", &eight).contains("`allgather:magic` is no pattern"));
    assert!(refusal("allreduce:a4,b2", &eight).contains("character 4: expected a stage"));
    assert!(refusal("allreduce:a1", &eight).contains("a factor of at least 2, found `1`"));
    assert!(refusal("allreduce:a4,a3", &eight).contains("for 12 ranks"));
    assert!(refusal("pingpong:x", &eight).contains("number of rounds"));
    assert!(refusal("allreduce:recursive-doubling", &Options::new(6)).contains("power of two"));
    assert!(refusal("multicast", &Options { root: Rank(8), ..eight.clone() }).contains("root 8"));
    assert!(refusal("multicast", &Options { compute: Time(1), ..eight }).contains("whole nanoseconds"));
    assert!(refusal("multicast", &Options::new(0)).contains("at least 1 rank"));
}
