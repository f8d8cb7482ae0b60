//! Patterns as a whole: their graphs fit together, and their promises about themselves hold.

use castell_base::{Rank, Tag, Time};
use castell_collectives::collective::{ALGORITHMS, Collective, Messages, Placement, Shape};
use castell_collectives::generator::{GENERATORS, Generator, Options};
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::check;
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use std::sync::Arc;

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
    for (rank, graph) in program.graphs() {
        said_and_done(rounds, rank, graph, &name);
    }
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

/// A rank's graph has the messages and computations of the rounds, and nothing else but what joins them.
fn said_and_done(rounds: &dyn Rounds, rank: Rank, graph: &Graph, name: &str) {
    let (mut sent, mut received, mut computed) = (Vec::new(), Vec::new(), Vec::new());
    for op in graph.vertices().map(|vertex| graph.op(vertex)) {
        match op {
            Op::Send { bytes, dest, tag, .. } => sent.push((dest, bytes, tag)),
            Op::Recv { bytes, source, tag, .. } => received.push((source.unwrap(), bytes, tag.unwrap())),
            Op::Calc { ns } => computed.extend((ns > 0).then_some(Time::from_ns(ns))),
            other => panic!("{name}: {other:?}"),
        }
    }
    let each = || (0..rounds.count()).flat_map(|round| (0..rounds.fan(round)).map(move |i| (round, i)));
    let said = |(round, i)| (rounds.to(round, rank, i), rounds.bytes(round), rounds.tag(round));
    assert_eq!(sent, each().map(said).collect::<Vec<_>>(), "{name}, {rank} sends");
    let said = |(round, i)| (rounds.from(round, rank, i), rounds.bytes(round), rounds.tag(round));
    assert_eq!(received, each().map(said).collect::<Vec<_>>(), "{name}, {rank} receives");
    let said = (0..rounds.count()).map(|round| rounds.compute(round)).filter(|&time| time > Time(0));
    assert_eq!(computed, said.collect::<Vec<_>>(), "{name}, {rank} computes");
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
                    let compute = Time::from_ns(10);
                    consistent(&*pattern(name, &Options { compute, bytes: 1024, ..options.clone() }));
                }
            }
        }
    }
}

/// Rounds as lists: each rank's distance to whom it sends, bytes, nanoseconds.
fn listed(name: &str, options: &Options, distance: fn(u32, u32) -> u32) -> Vec<(Vec<u32>, u64, u64)> {
    let pattern = pattern(name, options);
    let rounds = pattern.rounds().unwrap_or_else(|| panic!("{name} goes in rounds"));
    let round = |round| {
        let of =
            |rank| (0..rounds.fan(round)).map(move |i| distance(rank, rounds.to(round, Rank(rank), i).0));
        let first: Vec<u32> = of(0).collect();
        assert!((1..options.ranks).all(|rank| of(rank).eq(first.iter().copied())), "{name}, round {round}");
        (first, rounds.bytes(round), rounds.compute(round).0 / 1000)
    };
    (0..rounds.count()).map(round).collect()
}

/// Distances and sizes as the algorithms' descriptions have them.
#[test]
fn rounds_are_those_of_the_algorithm() {
    let options = |ranks, bytes| Options { bytes, compute: Time::from_ns(10), ..Options::new(ranks) };
    let bits = |rank, to| rank ^ to;
    let behind_of_5 = |rank, to| (to + 5 - rank) % 5;
    let dissemination = listed("barrier:dissemination", &options(5, 3), behind_of_5);
    assert_eq!(dissemination, [1, 2, 4].map(|distance| (vec![distance], 3, 10)));
    // Thirteen bytes are halved to six and three; what is lost on the way down does not come back.
    let halving = listed("allreduce:halving-doubling", &options(8, 13), bits);
    let rounds = [(1, 6, 10), (2, 3, 10), (4, 1, 10), (4, 1, 0), (2, 2, 0), (1, 4, 0)];
    assert_eq!(halving, rounds.map(|(distance, bytes, ns)| (vec![distance], bytes, ns)));
    let ring = listed("allreduce:ring", &options(5, 13), behind_of_5);
    assert_eq!(ring, [10, 10, 10, 10, 0, 0, 0, 0].map(|ns| (vec![1], 2, ns)));
    let alltoall = listed("alltoall:linear", &options(5, 13), behind_of_5);
    assert_eq!(alltoall, [(vec![1, 2, 3, 4], 13, 0)]);
    let doubling = listed("allreduce:recursive-doubling", &options(8, 13), bits);
    assert_eq!(doubling, [1, 2, 4].map(|distance| (vec![distance], 13, 10)));
}

#[test]
fn n_way_dissemination_sends_to_multiples_of_powers() {
    for ranks in 1..=30_u32 {
        for ways in 1..=4 {
            let pattern = pattern("allreduce:dissemination", &Options { ways, ..Options::new(ranks) });
            for (rank, graph) in pattern.program().unwrap().graphs() {
                let mut expected = Vec::new();
                let distances =
                    (0..).map(|round| (ways + 1).pow(round)).take_while(|&distance| distance < ranks);
                for distance in distances {
                    expected.extend((1..=ways).map(|way| Rank((rank.0 + way * distance) % ranks)));
                }
                let sent = graph.vertices().filter_map(|vertex| match graph.op(vertex) {
                    Op::Send { dest, .. } => Some(dest),
                    _ => None,
                });
                assert_eq!(sent.collect::<Vec<_>>(), expected, "{ranks} ranks, {ways} ways, {rank}");
            }
        }
    }
}

/// Rounds that compute nothing meet in a vertex only where several messages would wait for several others.
#[test]
fn rounds_of_many_messages_are_joined() {
    let shape = |word: &str, ranks, ns| {
        let options = Options { compute: Time::from_ns(ns), ..Options::new(ranks) };
        let mut graph = Graph::new();
        pattern(&format!("allreduce:{word}"), &options).build(Rank(0), &mut graph).unwrap();
        let calcs = graph.vertices().filter(|&vertex| matches!(graph.op(vertex), Op::Calc { .. })).count();
        (calcs, graph.edge_count())
    };
    // Two receives, the joint, two sends.
    assert_eq!(shape("a3,a3", 9, 0), (1, 2 + 2));
    // Two receives before one send, or one before two.
    assert_eq!([shape("a3,a2", 6, 0), shape("a2,a3", 6, 0)], [(0, 2), (0, 2)]);
    assert_eq!(shape("a3", 3, 0), (0, 0));
    // The second joint waits for the first one, too.
    assert_eq!(shape("a3,a3,a3", 27, 0), (2, 2 + 2 + 3 + 2));
    assert_eq!(shape("a2,a2", 4, 10), (2, 1 + 1 + 2));
}

#[test]
fn rank_0_sends_the_ping_and_the_others_look_on() {
    let program = pattern("pingpong:2", &Options::new(3)).program().unwrap();
    let sends = |rank| {
        let graph = program.rank(Rank(rank));
        graph.vertices().map(|vertex| matches!(graph.op(vertex), Op::Send { .. })).collect::<Vec<bool>>()
    };
    assert_eq!(
        [0, 1, 2].map(sends),
        [vec![true, false, true, false], vec![false, true, false, true], vec![]]
    );
}

/// Each name is that of the pattern which it stands for.
#[test]
fn patterns_have_the_names_that_they_are_asked_for_by() {
    let options = Options { ways: 2, ..Options::new(8) };
    let names = GENERATORS.iter().map(|generator| generator.name);
    let names = names.chain(ALGORITHMS.iter().map(|algorithm| algorithm.name));
    let words =
        ["allreduce:a4,a2", "barrier:a2,a4", "reduce_scatter:r8", "allgather:g2,g4", "allreduce:direct"];
    for name in names.chain(words).chain(["pingpong:0", "pingpong:2"]) {
        let pattern = pattern(name, &options);
        assert_eq!((pattern.name().as_str(), pattern.ranks()), (name, 8));
    }
    for generator in GENERATORS.iter().filter(|generator| !generator.alias.is_empty()) {
        assert_eq!(pattern(generator.alias, &options).name(), generator.name);
    }
    // An empty alias is nobody's name.
    assert!(Generator::parse("", &options).is_err());
    let in_rounds =
        GENERATORS.iter().filter(|generator| pattern(generator.name, &options).rounds().is_some());
    let expected = [
        "barrier:dissemination",
        "alltoall:linear",
        "allreduce:recursive-doubling",
        "allreduce:halving-doubling",
        "allreduce:ring",
    ];
    assert_eq!(in_rounds.map(|generator| generator.name).collect::<Vec<_>>(), expected);
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
    assert!(refusal("multicast", &Options::new(u32::MAX)).contains("at most 4294967294"));
    for none in [Options { segment_bytes: 0, ..Options::new(8) }, Options { ways: 0, ..Options::new(8) }] {
        assert!(refusal("multicast", &none).contains("at least 1 byte, and there is at least 1 way"));
    }
    let placed = |ranks| {
        let placement = Some(Arc::new(Placement::consecutive(ranks, 2)));
        Generator::parse("bcast:two-level", &Options { placement, ..Options::new(8) })
    };
    assert!(placed(8).is_ok());
    assert_eq!(placed(7).err().unwrap().to_string(), "7 ranks have a host, and the group has 8");
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
