//! Large messages that are reduced as they come: the same bits as if they had been written down first.

use crate::group::{group, start};
use crate::sums::power;
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::collective::{Call, Reduction};
use castell_comm::pool::SharedBuffer;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use std::time::Duration;

/// Far more than a pipe has room for.
const LONG: usize = 300_000;

/// Numbers whose sums depend on the order in which they are added.
fn number(rank: u32, at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(rank * 7 + 3);
    (mixed % 1009) as f64 * power((mixed >> 20) as i32 % 40 - 20)
}

/// The sum in the order of the ranks.
fn sums(ranks: u32, count: usize) -> Vec<u64> {
    let sum = |at| (1..ranks).fold(number(0, at), |sum, rank| sum + number(rank, at));
    (0..count).map(|at| sum(at).to_bits()).collect()
}

/// Some ranks come later than others.
fn be_late(comm: &Comm, round: u32) {
    if round % (comm.size() + 1) == comm.rank().0 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn sums_of_started_calls_are_those_of_the_canonical_order() {
    for ranks in 2..=4 {
        group(ranks, |comm| {
            let world = comm.world();
            for (count, rounds) in [(1500, 6), (40_000, 5), (LONG, 3)] {
                for name in ["allreduce:recursive-doubling", "allreduce:direct"] {
                    let own: Vec<f64> = (0..count).map(|at| number(comm.rank().0, at)).collect();
                    let mut pooled: SharedBuffer<f64> = comm.allocate(count).expect("some memory");
                    pooled.copy_from_slice(&own);
                    for round in 0..rounds {
                        let input: &[f64] = if round % 2 == 0 { &own } else { &pooled };
                        let mut result = vec![0.5; count];
                        let call = Call::allreduce(input, &mut result, Reduction::Sum).by(name);
                        be_late(comm, round);
                        world.scope(|scope| scope.start(call)?.wait()).expect("no failure");
                        // With three ranks, pairs are made first.
                        if ranks != 3 || name == "allreduce:direct" {
                            assert!(
                                bits(&result) == sums_of(name, ranks, count),
                                "{name}, {count}, round {round}"
                            );
                        }
                    }
                }
            }
            if ranks == 2 {
                assert!(comm.counters().folded > 0, "nothing was reduced as it came");
            }
        });
    }
}

/// As the algorithm adds: in the order of the ranks, or halves first.
fn sums_of(name: &str, ranks: u32, count: usize) -> Vec<u64> {
    if ranks == 4 && name == "allreduce:recursive-doubling" {
        let pair = |rank, at| number(rank, at) + number(rank + 1, at);
        return (0..count).map(|at| (pair(0, at) + pair(2, at)).to_bits()).collect();
    }
    sums(ranks, count)
}

/// Rank 1 sends; rank 0 adds what comes to what it has, once it has slept.
fn graph(comm: &Comm, own: &[f64], result: &mut [f64], sleeps: bool) -> Graph {
    let (bytes, mut graph) = (size_of_val(own) as u64, Graph::new());
    let own = Place::user(own.as_ptr() as u64);
    if comm.rank() == Rank(1) {
        graph.send(own, bytes, Rank(0), Tag(0)).expect("legal");
        return graph;
    }
    graph.allocate_scratchpad(bytes);
    let sum = Arithmetic::new(Operator::Add, ElementType::F64).expect("legal");
    let recv = graph.recv(Place::scratch(0), bytes, Some(Rank(1)), Some(Tag(0))).expect("legal");
    let into = Place::user(result.as_mut_ptr() as u64);
    let add = graph.local(own, Place::scratch(0), into, sum, bytes / 8).expect("legal");
    graph.requires(recv, add).expect("legal");
    if sleeps {
        let sleep = graph.sleep(30_000_000).expect("legal");
        graph.requires(sleep, add).expect("legal");
    }
    graph
}

#[test]
fn who_waits_for_something_else_adds_later() {
    group(2, |comm| {
        for sleeps in [true, false] {
            let own: Vec<f64> = (0..40_000).map(|at| number(comm.rank().0, at)).collect();
            let mut result = vec![0.5; own.len()];
            let before = comm.counters().folded;
            start(comm, &graph(comm, &own, &mut result, sleeps)).wait().expect("no failure");
            if comm.rank() == Rank(0) {
                assert_eq!(bits(&result), sums(2, own.len()));
                assert_eq!(comm.counters().folded - before, u64::from(!sleeps));
            }
        }
    });
}

#[test]
fn one_graph_runs_again_and_again() {
    group(2, |comm| {
        let own: Vec<f64> = (0..LONG).map(|at| number(comm.rank().0, at)).collect();
        let mut result = vec![0.5; own.len()];
        let schedule =
            std::sync::Arc::new(graph(comm, &own, &mut result, false).compile().expect("compiles"));
        for round in 0..12 {
            result.fill(f64::from(round));
            be_late(comm, round);
            // SAFETY: waited for at once.
            let run = unsafe { comm.run(&schedule) }.expect("starts");
            run.wait().expect("no failure");
            if comm.rank() == Rank(0) {
                assert_eq!(bits(&result), sums(2, own.len()), "round {round}");
            }
        }
        assert_eq!(comm.counters().folded, if comm.rank() == Rank(0) { 12 } else { 0 });
    });
}

/// Where no processor is left for progress threads, what nobody depends on waits until somebody asks.
#[test]
fn who_asks_hears_of_the_end_and_nobody_waits_for_who_does_not() {
    const ROUNDS: u32 = 30;
    let processors = std::thread::available_parallelism().map_or(2, usize::from) as u32;
    for ranks in [2, processors.clamp(3, 6)] {
        group(ranks, |comm| {
            let world = comm.world();
            for is_pooled in [false, true] {
                let own: Vec<f64> = (0..40_000).map(|at| number(comm.rank().0, at)).collect();
                let mut pooled: SharedBuffer<f64> = comm.allocate(own.len()).expect("some memory");
                pooled.copy_from_slice(&own);
                let before = comm.counters().overslept;
                for round in 0..ROUNDS {
                    let input: &[f64] = if is_pooled { &pooled } else { &own };
                    let mut result = vec![0.5; own.len()];
                    let call = Call::allreduce(input, &mut result, Reduction::Sum).by("allreduce:direct");
                    be_late(comm, round);
                    let is_polled = round % 3 == 0;
                    world
                        .scope(|scope| {
                            let request = scope.start(call)?;
                            if is_polled {
                                while !request.is_done() {
                                    std::thread::yield_now();
                                }
                            } else if comm.rank().0 == round % ranks {
                                // Computes: what the others need of this rank they get.
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            request.wait()
                        })
                        .expect("no failure");
                    assert!(bits(&result) == sums(ranks, own.len()), "pooled {is_pooled}, round {round}");
                }
                let overslept = comm.counters().overslept - before;
                assert!(overslept < 4, "{overslept} of {ROUNDS} runs waited for nothing");
            }
        });
    }
}
