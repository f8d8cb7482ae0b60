//! Algorithms send as many messages and bytes, in as many rounds, as the literature says they do; what they compute, and
//! whose data reaches whom, is as their operation means it.

use crate::flow::Flow;
use castell_base::{Rank, Time};
use castell_collectives::collective::{ALGORITHMS, Collective, Messages, Placement, Shape};
use castell_collectives::generator::{GENERATORS, Generator, Options};
use castell_collectives::pattern::Pattern;
use std::sync::Arc;

/// A call: `bytes` of each vector or block, of which each rank has an equal part.
#[derive(Clone, Copy, Debug)]
struct Call {
    ranks: u64,
    bytes: u64,
    root: u64,
    /// Messages a round.
    ways: u64,
    segment: u64,
}

/// How long a reduction takes. Nanoseconds.
const REDUCTION_NS: u64 = 10;

/// What a call costs: of all ranks together, and one behind the other.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    messages: u64,
    bytes: u64,
    /// Messages one behind the other.
    depth: u64,
    reductions: u64,
    /// Reductions one behind the other.
    reduced: u64,
}

impl Cost {
    fn of(messages: u64, bytes: u64, depth: u64) -> Cost {
        Cost { messages, bytes, depth, reductions: 0, reduced: 0 }
    }

    fn reducing(self, reductions: u64, reduced: u64) -> Cost {
        Cost { reductions, reduced, ..self }
    }

    fn found(flow: &Flow) -> Cost {
        Cost {
            messages: flow.messages.len() as u64,
            bytes: flow.bytes(),
            depth: flow.depth,
            reductions: flow.computations,
            reduced: flow.computed_ns / REDUCTION_NS,
        }
    }
}

fn floor_log2(number: u64) -> u64 {
    u64::from(number.ilog2())
}

/// The smallest r for which radix^r is at least `number`.
fn ceil_log(number: u64, radix: u64) -> u64 {
    (0..).find(|&rounds| radix.pow(rounds) >= number).map_or(0, u64::from)
}

/// How many hops all blocks of a binomial tree together are away from the root.
fn hops(ranks: u64) -> u64 {
    (0..ranks).map(|rank| u64::from(rank.count_ones())).sum()
}

/// Messages of rounds in which each rank sends to those 1, …, ways times (ways + 1)^r behind it, if there are so many.
fn radix_messages(ranks: u64, ways: u64) -> u64 {
    let radix = ways + 1;
    let of_round = |round: u64| (1..=ways).filter(|way| way * radix.pow(round as u32) < ranks).count() as u64;
    ranks * (0..ceil_log(ranks, radix)).map(of_round).sum::<u64>()
}

/// The last round's messages hold what is still missing, which a rank may have before it has all of the round before.
fn depth_of_bruck(ranks: u64, radix: u64) -> u64 {
    let Some(before) = ceil_log(ranks, radix).checked_sub(1) else { return 0 };
    let distance = radix.pow(before as u32);
    before.max(1 + ceil_log(distance.min(ranks - distance), radix))
}

/// What algorithms without hosts cost (Thakur, Rabenseifner and Gropp 2005; Bruck et al. 1997; Hensgen, Finkel and Manber 1988;
/// van de Geijn 1994), `None` where there is no such algorithm.
fn cost(name: &str, call: Call) -> Option<Cost> {
    cost_of_moving(name, call).or_else(|| cost_of_reducing(name, call))
}

/// Where nothing is computed.
fn cost_of_moving(name: &str, call: Call) -> Option<Cost> {
    let Call { ranks, bytes, ways, segment, .. } = call;
    let others = ranks - 1;
    // Hops of a binomial tree, and rounds in which one rank sends once.
    let (hops_max, rounds) = (floor_log2(ranks), ceil_log(ranks, 2));
    let some = u64::from(ranks > 1);
    let segments = bytes.div_ceil(segment);
    let linear = Cost::of(others, others * bytes, some);
    let tree = Cost::of(others, others * bytes, hops_max);
    Some(match name {
        "barrier:dissemination" => Cost::of(radix_messages(ranks, ways), 0, ceil_log(ranks, ways + 1)),
        "barrier:linear" => Cost::of(2 * others, 0, 2 * some),
        "barrier:tree" => Cost::of(2 * others, 0, 2 * hops_max),
        "bcast:linear" | "gather:linear" | "scatter:linear" => linear,
        "bcast:chain" => Cost::of(others * segments, others * bytes, others),
        "bcast:binary" | "bcast:binomial" | "bcast:binomial-in-order" => tree,
        "bcast:binary-segmented" => Cost { messages: others * segments, ..tree },
        // A rank is so many hops away as its number has digits that are not 0.
        "bcast:k-nomial" => {
            let radix = ways + 1;
            let depth = (0..).take_while(|&digits| (radix.pow(digits) - 1) / ways < ranks).last();
            Cost { depth: u64::from(depth.unwrap_or(0)), ..tree }
        }
        // Each rank gets each part once: from the tree or from the ring.
        "bcast:scatter-allgather" => Cost::of(ranks * ranks - 1 - hops(ranks), others * bytes, others),
        // The root calls for what is beyond the first segment.
        "gather:linear-sync" => {
            Cost::of(2 * others + others * u64::from(bytes > segment), others * bytes, 2 * some)
        }
        "gather:binomial" | "scatter:binomial" => Cost { bytes: hops(ranks) * bytes, ..tree },
        "allgather:linear" | "alltoall:linear" => Cost::of(ranks * others, ranks * others * bytes, some),
        "allgather:ring" | "alltoall:pairwise" => Cost::of(ranks * others, ranks * others * bytes, others),
        "allgather:recursive-doubling" => Cost::of(ranks * rounds, ranks * others * bytes, rounds),
        "allgather:bruck" => {
            Cost::of(radix_messages(ranks, ways), ranks * others * bytes, depth_of_bruck(ranks, ways + 1))
        }
        "allgather:gather-bcast" => Cost::of(2 * others, others * bytes * (1 + ranks), 2 * some),
        "alltoall:bruck" => Cost::of(ranks * rounds, ranks * hops(ranks) * bytes, depth_of_bruck(ranks, 2)),
        _ => return None,
    })
}

fn cost_of_reducing(name: &str, call: Call) -> Option<Cost> {
    let Call { ranks, bytes, root, segment, .. } = call;
    let others = ranks - 1;
    let (hops_max, rounds) = (floor_log2(ranks), ceil_log(ranks, 2));
    let some = u64::from(ranks > 1);
    let segments = bytes.div_ceil(segment);
    // The largest power of two, and the ranks beyond it.
    let power = 1 << floor_log2(ranks);
    let beyond = ranks - power;
    let from_first = u64::from(root > 0);
    let linear = Cost::of(others, others * bytes, some);
    let tree = Cost::of(others, others * bytes, hops_max);
    Some(match name {
        "reduce:linear" => linear.reducing(some, some),
        "reduce:chain" => {
            let once = others + from_first;
            Cost::of(once * segments, once * bytes, once).reducing(others * segments, others)
        }
        "reduce:binomial" => {
            // As the vectors come, those of the smallest subtrees first.
            tree.reducing(others, rounds)
        }
        "reduce:binomial-in-order" => {
            let once = others + from_first;
            // The root has something to say, too, which may be as far away from rank 0 as any other one's.
            Cost::of(once, once * bytes, hops_max + from_first).reducing(others, rounds)
        }
        // Each sends each of the others a part of its vector, and all of them the root a part of the result.
        "reduce:direct" => {
            let moved = others * bytes + others * bytes / ranks;
            Cost::of(ranks * others + others, moved, 2 * some).reducing(ranks * some, some)
        }
        "reduce:rabenseifner" => {
            let stands_aside = u64::from(root < 2 * beyond && root.is_multiple_of(2));
            let (halving, gather) = (power * floor_log2(power), power - 1);
            let moved = beyond + (power - 1) + stands_aside;
            Cost::of(
                beyond + halving + gather + stands_aside,
                moved * bytes + hops(power) * bytes / power,
                // Halving and gather bring what the collector has had farthest away and back.
                u64::from(root < 2 * beyond) + 2 * floor_log2(power) + stands_aside,
            )
            .reducing(beyond + halving, u64::from(beyond > 0) + floor_log2(power))
        }
        "allreduce:linear" => Cost::of(2 * others, 2 * others * bytes, 2 * some).reducing(some, some),
        "allreduce:reduce-bcast" => {
            Cost::of(2 * others, 2 * others * bytes, 2 * hops_max).reducing(others, rounds)
        }
        "allreduce:ring" => {
            Cost::of(2 * ranks * others, 2 * others * bytes, 2 * others).reducing(ranks * others, others)
        }
        "reduce_scatter:linear" => {
            Cost::of(ranks * others, ranks * others * bytes, some).reducing(ranks * some, some)
        }
        "reduce_scatter:ring" => {
            Cost::of(ranks * others, ranks * others * bytes, others).reducing(ranks * others, others)
        }
        "reduce_scatter:reduce-scatter" => {
            Cost::of(2 * others, (ranks * others + hops(ranks)) * bytes, 2 * hops_max)
                .reducing(others, rounds)
        }
        "scan:linear" => linear.then(others).reducing(others, others),
        // The last rank passes nothing on, and the second one what the first has.
        "exscan:linear" => linear.then(others).reducing(ranks.saturating_sub(2), ranks.saturating_sub(2)),
        "scan:recursive-doubling" | "exscan:recursive-doubling" => {
            let messages: u64 = (0..rounds).map(|round| ranks - (1 << round)).sum();
            // What goes on to others, and behind the first message what is before this rank.
            let reductions = 2 * messages - others;
            Cost::of(messages, messages * bytes, hops_max).reducing(reductions, rounds)
        }
        _ => return None,
    })
}

impl Cost {
    /// The same, so many messages one behind the other.
    fn then(self, depth: u64) -> Cost {
        Cost { depth, ..self }
    }
}

/// What patterns cost that are not, or not the same, among the algorithms.
fn cost_of_pattern(name: &str, call: Call) -> Cost {
    let Call { ranks, bytes, ways, segment, .. } = call;
    let (others, rounds, some) = (ranks - 1, ceil_log(ranks, 2), u64::from(ranks > 1));
    let power: u64 = 1 << floor_log2(ranks);
    let beyond = ranks - power;
    match name {
        "pingpong" => Cost::of(2 * some, 2 * some * bytes, 2 * some),
        "pingpong:7" => Cost::of(14 * some, 14 * some * bytes, 14 * some),
        "multicast" => Cost::of(others, others * bytes, some),
        "double-ring" => Cost::of(2 * ranks, 2 * ranks * bytes, ranks),
        "barrier:dissemination" => {
            Cost::of(ranks * rounds, ranks * rounds * bytes, rounds).reducing(ranks * rounds, rounds)
        }
        "barrier:linear" => Cost::of(2 * others, 2 * others, 2 * some),
        // The next segment is taken when the last one has left: that makes no chain of messages longer.
        "bcast:chain-in-step" => Cost::of(others * bytes.div_ceil(segment), others * bytes, others),
        "reduce:binomial" => Cost::of(others, others * bytes, floor_log2(ranks)),
        "allreduce:recursive-doubling" => {
            let (pairs, ends) = (power * floor_log2(power), u64::from(beyond > 0));
            // What one rank that stands aside gives comes to another one last of all only if there are so many of them. Such
            // ranks take a stage's time for the result, too.
            let depth = floor_log2(power) + ends + u64::from(2 * beyond > power);
            Cost::of(pairs + 2 * beyond, (pairs + 2 * beyond) * bytes, depth)
                .reducing(pairs + 2 * beyond, floor_log2(power) + 2 * ends)
        }
        "allreduce:halving-doubling" => {
            Cost::of(2 * ranks * rounds, 2 * others * bytes, 2 * rounds).reducing(ranks * rounds, rounds)
        }
        "allreduce:dissemination" => {
            let (rounds, sent) = (ceil_log(ranks, ways + 1), ranks * ways * ceil_log(ranks, ways + 1));
            // A nanosecond a byte, in all rounds but the last. A round's messages are reduced one after the other for the last one
            // of the next round only, which is reduced last there.
            let before = rounds.saturating_sub(1);
            let reductions = ranks * ways * before;
            let in_a_row = before.checked_sub(1).map_or(0, |others| others + (ways - 1).max(1));
            Cost::of(sent, sent * bytes, rounds).reducing(reductions, in_a_row * bytes / REDUCTION_NS)
        }
        _ => cost(name, call).unwrap_or_else(|| panic!("{name} costs something")),
    }
}

/// Whose data has to reach a rank, a bit a rank; and whether nobody else's does.
fn audience(name: &str, call: Call, rank: u64) -> (u128, bool) {
    let all = (1 << call.ranks) - 1;
    let (own, root) = (1 << rank, 1 << call.root);
    match name.split_once(':').map_or(name, |(operation, _)| operation) {
        "bcast" | "scatter" | "multicast" => (own | root, false),
        "gather" | "reduce" => (if rank == call.root { all } else { own }, false),
        "double-ring" => (if rank == 0 { all } else { own | 1 }, false),
        "pingpong" if rank < 2 => (all & 3, true),
        "pingpong" => (own, true),
        "scan" | "exscan" => ((2 << rank) - 1, true),
        _ => (all, true),
    }
}

fn heard(flow: &Flow, name: &str, call: Call) {
    for (rank, &heard) in (0..).zip(&flow.heard) {
        let (those, only) = audience(name, call, rank);
        assert_eq!(heard & those, those, "{name}, {call:?}: rank {rank} does not hear from all");
        assert!(!only || heard == those, "{name}, {call:?}: rank {rank} hears from {heard:b}");
    }
}

fn calls() -> impl Iterator<Item = Call> {
    (1..=17).chain([32]).flat_map(|ranks| {
        // Vectors that can be cut in equal parts for all ranks, and for a power of two of them.
        let bytes = (5 * ranks) << floor_log2(ranks);
        let with = move |root, ways, segment| Call { ranks, bytes, root, ways, segment };
        [with(0, 1, bytes / 7 + 1), with(ranks - 1, 2, bytes), with(ranks / 2, 3, bytes / 2)]
    })
}

fn shape(call: Call) -> Shape {
    let Call { ranks, bytes, root, ways, segment } = call;
    let shape = Shape::new(ranks as u32, bytes, 1).with_root(Rank(root as u32));
    Shape { segment, ways: ways as u32, ..shape }
}

#[test]
fn algorithms_cost_what_the_literature_says() {
    let mut priced = 0;
    for call in calls() {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| !algorithm.name.contains("two-level")) {
            let Ok(collective) = Collective::new(algorithm.name, shape(call)) else { continue };
            let name = collective.name();
            assert_eq!(name, algorithm.name);
            let timed = collective.with_compute(Time::from_ns(REDUCTION_NS));
            let flow = Flow::of(&timed.program().unwrap());
            let expected = cost(&name, call).unwrap_or_else(|| panic!("{name} costs something"));
            assert_eq!(Cost::found(&flow), expected, "{name}, {call:?}");
            heard(&flow, &name, call);
            priced += 1;
        }
    }
    assert!(priced > 2000, "{priced}");
}

#[test]
fn patterns_cost_what_the_literature_says() {
    for call in calls() {
        let Call { ranks, bytes, root, ways, segment } = call;
        let compute = Time::from_ns(REDUCTION_NS);
        let options = Options {
            bytes,
            compute,
            root: Rank(root as u32),
            segment_bytes: segment,
            ways: ways as u32,
            ..Options::new(ranks as u32)
        };
        for name in GENERATORS.iter().map(|generator| generator.name).chain(["pingpong:7"]) {
            if name == "allreduce:halving-doubling" && !ranks.is_power_of_two() {
                continue;
            }
            let pattern = Generator::parse(name, &options).unwrap();
            let flow = Flow::of(&pattern.program().unwrap());
            assert_eq!(Cost::found(&flow), cost_of_pattern(name, call), "{name}, {call:?}");
            // In LogGOPSim's pattern a round waits for the one before it, and for no earlier one.
            if name != "allreduce:dissemination" {
                heard(&flow, name, call);
            }
        }
    }
}

/// Messages between hosts, their bytes, and messages within them, of `hosts` hosts in all.
fn cost_over_hosts(name: &str, call: Call, placement: &Placement) -> (u64, u64, u64) {
    let Call { ranks, bytes, root, .. } = call;
    let hosts = u64::from(placement.hosts());
    let size = |host: u32| placement.members(host).len() as u64;
    let sizes = || (0..placement.hosts()).map(size);
    let beside = ranks - hosts;
    let power: u64 = 1 << floor_log2(hosts);
    // Recursive doubling, into which those beyond the power of two go by a neighbour.
    let doubling = 2 * (hosts - power) + power * floor_log2(power);
    let away = ranks - size(placement.host_of(Rank(root as u32)));
    let pairs = hosts * (hosts - 1);
    match name {
        "barrier:two-level" => (doubling, 0, 2 * beside),
        "bcast:two-level" => (hosts - 1, (hosts - 1) * bytes, beside),
        "bcast:two-level-split" => (hosts * hosts - 1 - hops(hosts), (hosts - 1) * bytes, beside * hosts),
        "gather:two-level" | "scatter:two-level" => (hosts - 1, away * bytes, beside),
        "allgather:two-level-ring" => (pairs, (hosts - 1) * ranks * bytes, beside * (1 + hosts)),
        "reduce:two-level" => (hosts - 1, (hosts - 1) * bytes, beside),
        "allreduce:two-level" => (doubling, doubling * bytes, 2 * beside),
        "allreduce:two-level-split" => {
            let leaders = sizes().min().unwrap();
            let exchanged = if hosts.is_power_of_two() { hosts * floor_log2(hosts) } else { pairs };
            (2 * exchanged * leaders, 2 * (hosts - 1) * bytes, 2 * leaders * beside)
        }
        "reduce_scatter:two-level" => (pairs, (hosts - 1) * ranks * bytes, 2 * beside),
        "alltoall:two-level" => {
            (pairs, (ranks * ranks - sizes().map(|size| size * size).sum::<u64>()) * bytes, 2 * beside)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn few_messages_go_between_hosts() {
    let names = ALGORITHMS.iter().map(|algorithm| algorithm.name).filter(|name| name.contains("two-level"));
    // What these exchange is not of one size, or more than one value a host.
    let names: Vec<&str> =
        names.filter(|name| !name.contains("scan") && *name != "allgather:two-level").collect();
    for hosts in [[4, 4, 4, 4], [2, 3, 2, 3], [1, 1, 1, 1], [5, 2, 6, 0], [3, 7, 0, 0], [6, 0, 0, 0]] {
        let host_of = (0..).zip(hosts).flat_map(|(host, size)| vec![host; size]);
        let placement = Arc::new(Placement::new(host_of));
        let ranks = u64::from(placement.ranks());
        for root in [0, ranks / 2, ranks - 1] {
            // All parts are equal, whoever has them.
            let call = Call { ranks, bytes: 2520, root, ways: 1, segment: 7 };
            for name in &names {
                let placement = Some(Arc::clone(&placement));
                let shape = Shape { is_exact: true, placement: placement.clone(), ..shape(call) };
                let flow = Flow::of(&Collective::new(name, shape).unwrap().program().unwrap());
                let host_of = |rank: u32| placement.as_ref().unwrap().host_of(Rank(rank));
                let crosses = |&&(from, to, _): &&(u32, u32, u64)| host_of(from) != host_of(to);
                let between: Vec<_> = flow.messages.iter().filter(crosses).collect();
                let bytes = between.iter().map(|message| message.2).sum();
                let found = (between.len() as u64, bytes, (flow.messages.len() - between.len()) as u64);
                let expected = cost_over_hosts(name, call, placement.as_ref().unwrap());
                assert_eq!(found, expected, "{name}, {hosts:?}, root {root}");
                heard(&flow, name, call);
            }
        }
    }
}

/// Blocks without elements go only where somebody asked for that, and in the same rounds.
#[test]
fn empty_messages_go_where_full_ones_do() {
    let pairs = |collective: &Collective| {
        let mut messages: Vec<_> = Flow::of(&collective.program().unwrap())
            .messages
            .iter()
            .map(|&(from, to, _)| (from, to))
            .collect();
        messages.sort_unstable();
        messages
    };
    for call in calls().filter(|call| call.ranks < 14) {
        for algorithm in ALGORITHMS {
            let Ok(full) = Collective::new(algorithm.name, shape(call)) else { continue };
            let messages = Messages { even_empty: true, ..Messages::default() };
            let asked = full.clone().with_messages(messages);
            let is_sync = algorithm.name == "gather:linear-sync";
            assert!(is_sync || pairs(&asked) == pairs(&full), "{}, {call:?}", algorithm.name);
            // Of nothing at all there is one element without bytes.
            let empty = Shape { segment: call.segment, ..shape(Call { bytes: 0, ..call }) };
            let one = Collective::new(algorithm.name, shape(Call { bytes: 1, ..call })).unwrap();
            let none = Collective::new(algorithm.name, empty).unwrap();
            assert_eq!(pairs(&none), pairs(&one), "{}, {call:?}", algorithm.name);
            assert_eq!(Flow::of(&none.program().unwrap()).bytes(), 0);
        }
    }
}
