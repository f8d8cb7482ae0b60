//! Patterns as a whole: their graphs fit together, and their promises about themselves hold.

use castell_base::{Rank, Tag, Time};
use castell_collectives::collective::{ALGORITHMS, Collective, Messages, Shape};
use castell_collectives::generator::{GENERATORS, Generator, Options};
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::check;
use castell_goal::op::Op;

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
        symmetric(rounds, round, pattern.ranks(), &name);
    }
    let senders_of = |rank| {
        (0..rounds.count())
            .flat_map(move |round| (0..rounds.fan(round)).map(move |i| rounds.from(round, rank, i)))
    };
    for rank in (0..pattern.ranks()).map(Rank) {
        let mut senders = Vec::new();
        rounds.senders(rank, &mut senders);
        assert_eq!(senders, senders_of(rank).collect::<Vec<_>>(), "{name}, rank {rank}");
    }
}

/// What rounds say of all ranks at once is what they say of each.
fn symmetric(rounds: &dyn Rounds, round: u32, ranks: u32, name: &str) {
    let last = rounds.fan(round).saturating_sub(1);
    for i in 0..rounds.fan(round) {
        let dest = |rank| rounds.to(round, Rank(rank), i);
        let source = |rank| rounds.from(round, Rank(rank), i).0;
        for j in [i, last - i] {
            let is_paired = (0..ranks).all(|rank| rounds.from(round, dest(rank), j) == Rank(rank));
            assert_eq!(
                rounds.is_paired(round, ranks, 0..ranks, i, j),
                is_paired,
                "{name}: {round}, {i}, {j}"
            );
            let has_last = (0..ranks).any(|rank| dest(rank) == Rank(ranks - 1));
            assert!(!has_last || !rounds.is_paired(round, ranks - 1, 0..ranks, i, j), "{name}: {round}, {i}");
        }
        let around = (0..ranks).all(|rank| source(rank) == (rank + source(0)) % ranks);
        let bits = (0..ranks).all(|rank| source(rank) == rank ^ source(0));
        assert_eq!(rounds.is_shifted(round, ranks, 0..ranks, i), (around, bits), "{name}: {round}, {i}");
    }
}

#[test]
fn patterns_of_any_size_fit_together() {
    for ranks in 1..=40 {
        for root in [0, ranks / 2, ranks - 1] {
            let segment_bytes = 3;
            let options = Options { root: Rank(root), segment_bytes, ways: 2, ..Options::new(ranks) };
            for name in GENERATORS.iter().map(|generator| generator.name).chain(["pingpong:3"]) {
                let only_powers = name.ends_with("halving-doubling");
                if !only_powers || ranks.is_power_of_two() {
                    consistent(&*pattern(name, &options));
                }
            }
        }
    }
}

#[test]
fn the_messages_of_words_fit_together() {
    for (word, ranks) in [("a2", 2), ("a8", 8), ("a2,a2,a2", 8), ("a3,a2", 6), ("a2,a3", 6), ("a4,a3,a5", 60)]
    {
        for compute in [Time(0), Time(10_000)] {
            let options = Options { compute, ..Options::new(ranks) };
            consistent(&*pattern(&format!("allreduce:{word}"), &options));
        }
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
    assert!(refusal("gossip:magic", &eight).contains("`gossip:magic` is no pattern"));
    assert!(refusal("allgather:g4,x", &eight).contains("as a word: `g4,x`, character 4"));
    assert!(refusal("allgather:r8", &eight).contains("g stages only"));
    assert!(refusal("allreduce:a4,b2", &eight).contains("character 4: expected a stage"));
    assert!(refusal("allreduce:a1", &eight).contains("a factor of at least 2, found `1`"));
    assert!(refusal("allreduce:a4,a3", &eight).contains("no multiple of 12"));
    assert!(refusal("pingpong:x", &eight).contains("number of rounds"));
    assert!(refusal("allreduce:halving-doubling", &Options::new(6)).contains("power of two"));
    assert!(refusal("multicast", &Options { root: Rank(8), ..eight.clone() }).contains("root 8"));
    assert!(refusal("multicast", &Options { compute: Time(1), ..eight }).contains("whole nanoseconds"));
    assert!(refusal("multicast", &Options::new(0)).contains("at least 1 rank"));
}

/// The number of events in LogGOPSim's results is that of operations and messages.
#[test]
fn loggopsims_patterns_have_its_number_of_events() {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/sim/loggopsim-golden.csv");
    let table = std::fs::read_to_string(vectors).unwrap();
    let mut compared = 0;
    for line in table.lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let [alias, ranks, bytes, events, _] = fields[..] else { panic!("{line}") };
        let Ok(events) = events.parse::<u64>() else { continue };
        let (ranks, bytes) = (ranks.parse().unwrap(), bytes.parse().unwrap());
        let options = Options { bytes, segment_bytes: 1, ..Options::new(ranks) };
        let program = pattern(alias, &options).program().unwrap();
        let vertices =
            program.graphs().flat_map(|(_, graph)| graph.vertices().map(|vertex| graph.op(vertex)));
        let ours: u64 = vertices.map(|op| 1 + u64::from(matches!(op, Op::Send { .. }))).sum();
        assert_eq!(ours, events, "{line}");
        compared += 1;
    }
    assert_eq!(compared, 50);
}

#[test]
fn collectives_are_patterns() {
    let names = [
        "allgather:bruck",
        "bcast:scatter-allgather",
        "reduce_scatter:r2,r3",
        "barrier:a3,a2",
        "allreduce:hierarchical",
        "allreduce:rabenseifner",
        "allreduce:direct",
    ];
    for name in names {
        for bytes in [0, 5, 1000] {
            let options = Options { bytes, compute: Time(10_000), ..Options::new(6) };
            consistent(&*pattern(name, &options));
        }
    }
    for algorithm in ALGORITHMS {
        consistent(&*pattern(algorithm.name, &Options { segment_bytes: 3, ..Options::new(8) }));
    }
}

#[test]
fn a_name_that_nobody_has_is_told_the_others() {
    let error = Generator::parse("magic", &Options::new(2)).err().unwrap().to_string();
    let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
    assert!(
        error.starts_with(&format!("`magic` is no pattern; there are {}, and", names.join(", "))),
        "{error}"
    );
}

/// Where both tables have a name, the messages are the same ones.
#[test]
fn patterns_and_collectives_of_one_name_send_the_same() {
    let mut compared = 0;
    for algorithm in ALGORITHMS.iter().filter(|a| GENERATORS.iter().any(|generator| generator.name == a.name))
    {
        for ranks in [1, 2, 5, 8, 13] {
            let options = Options { bytes: u64::from(ranks) * 2, segment_bytes: 7, ..Options::new(ranks) };
            let messages = |pattern: &dyn Pattern| {
                let program = pattern.program().unwrap();
                let mut messages: Vec<_> = Vec::new();
                for (rank, graph) in program.graphs() {
                    messages.extend(graph.vertices().filter_map(|vertex| match graph.op(vertex) {
                        Op::Send { bytes, dest, .. } => Some((rank.0, dest.0, bytes)),
                        _ => None,
                    }));
                }
                messages.sort_unstable();
                messages
            };
            let shape = Shape { segment: 7, ..Shape::new(ranks, options.bytes, 1) };
            let collective = Collective::new(algorithm.name, shape).unwrap();
            let mut named = messages(&*pattern(algorithm.name, &options));
            if algorithm.name.starts_with("barrier:") {
                // A barrier's messages hold as much as one likes.
                named.iter_mut().for_each(|message| message.2 = 0);
            }
            assert_eq!(named, messages(&collective), "{} on {ranks} ranks", algorithm.name);
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

/// Messages between two ranks have tags one behind the other, and the first has the one that was asked for.
#[test]
fn tags_count_up_from_the_first() {
    let messages = Messages { first_tag: Tag(50), ..Messages::default() };
    let shape = Shape::new(4, 64, 8);
    for name in ["allreduce:a4", "alltoall:linear", "allreduce:rabenseifner", "allgather:ring"] {
        let collective = Collective::new(name, shape.clone()).unwrap().with_messages(messages.clone());
        let mut several = false;
        for (rank, graph) in collective.program().unwrap().graphs() {
            let mut next = [50; 4];
            for op in graph.vertices().map(|vertex| graph.op(vertex)) {
                let Op::Send { dest, tag, .. } = op else { continue };
                assert_eq!(tag.0, next[dest.index()], "{name}: {rank} -> {dest}");
                next[dest.index()] += 1;
                several |= tag.0 > 50;
            }
            assert!(next.iter().any(|&next| next > 50), "{name}: {rank} sends nothing");
        }
        assert_eq!(several, name.ends_with("rabenseifner") || name.ends_with("ring"), "{name}");
    }
}
