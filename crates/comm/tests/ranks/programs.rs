//! Small blocking calls, which are carried out as compiled programs over slots, beside the same calls as runs of the engine.

use crate::group::{group, group_with, seed};
use crate::sums::{bits, call, numbers};
use castell_base::Rank;
use castell_collectives::collective::ALGORITHMS;
use castell_comm::collective::{Call, CallError, Operation, Reason, Reduction};
use castell_comm::job::{JobOptions, Progress, Reads};
use castell_comm::{Cause, Comm, Communicator};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bits of an operation's result by an algorithm: of a blocking call, and of one that was started, with the first of these numbers.
fn both_ways(
    world: &Communicator,
    operation: Operation,
    name: &str,
    count: usize,
    numbers: &[f64],
) -> [Result<Vec<u64>, CallError>; 2] {
    let (size, root) = (world.size() as usize, Rank(world.size() - 1));
    let send = &numbers[..count * size];
    let [mut first, mut second] = [0, 1].map(|_| vec![0.5f64; count * size]);
    let blocking = world.call(call(operation, (send, &mut first), count, root).by(name));
    let started = call(operation, (send, &mut second), count, root).by(name);
    let started = world.scope(|scope| scope.start(started)?.wait());
    [blocking.map(|()| bits(&first)), started.map(|()| bits(&second))]
}

#[test]
fn both_ways_give_the_same_bits() {
    for ranks in [2, 3, 4, 7, 8] {
        // The last ones are large, and worked on in segments; blocks from the first of them on.
        let counts: &[usize] = if matches!(ranks, 2 | 7) {
            &[0, 1, 6, 7, 300, 20_001, 70_001]
        } else {
            &[0, 1, 6, 7, 300, 5000]
        };
        group(ranks, |comm| {
            let world = comm.world();
            let numbers = numbers(&world, counts.iter().copied().max().expect("counts"));
            let mut names: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            names.extend([
                "allreduce:recursive-doubling",
                "allreduce:rabenseifner",
                "allreduce:direct",
                "barrier:recursive-doubling",
            ]);
            for name in names {
                let (operation, _) = name.split_once(':').expect("an operation and an algorithm");
                let operation = Operation::ALL.into_iter().find(|of| of.name() == operation);
                let operation = operation.expect("an operation");
                for &count in counts {
                    let is_of_blocks = !["allreduce", "bcast", "reduce"].contains(&operation.name());
                    if count > 20_001 && is_of_blocks {
                        continue;
                    }
                    match both_ways(&world, operation, name, count, &numbers) {
                        [Ok(blocking), Ok(started)] => assert_eq!(blocking, started, "{name}, {count}"),
                        // Not for this number of ranks.
                        [Err(a), Err(b)] => {
                            let is_refused = |error: &CallError| matches!(error.reason, Reason::Algorithm(_));
                            assert!(is_refused(&a) && is_refused(&b), "{name}: {a}, {b}");
                        }
                        [a, b] => panic!("{name}, {count}: {a:?}, {b:?}"),
                    }
                }
            }
            let counts = world.cache_counts();
            assert!(counts.programs > 40, "{counts:?}");
        });
    }
}

/// Large blocks are worked on in segments wherever they lie.
#[test]
fn blocks_in_segments_may_be_in_place() {
    const COUNT: usize = 20_001;
    for ranks in [2, 5] {
        group(ranks, |comm| {
            let world = comm.world();
            let (me, size, root) = (world.rank().index(), ranks as usize, Rank(1));
            let value = |rank: usize, at: usize| (1_000_000 * rank + at) as u64;
            let own: Vec<u64> = (0..COUNT * size).map(|at| value(me, at)).collect();
            let all: Vec<u64> = (0..COUNT * size).map(|at| value(at / COUNT, at % COUNT)).collect();
            let mut blocks = vec![0; COUNT * size];
            blocks[me * COUNT..][..COUNT].copy_from_slice(&own[..COUNT]);
            let mut gathered = blocks.clone();
            if me == root.index() {
                world.call(Call::gather_in_place(&mut gathered, root)).expect("goes well");
                assert_eq!(gathered, all);
            } else {
                world.gather(&own[..COUNT], &mut [], root).expect("goes well");
            }
            world.call(Call::allgather_in_place(&mut blocks)).expect("goes well");
            assert_eq!(blocks, all);
            let mut part = vec![0; COUNT];
            if me == root.index() {
                world.call(Call::scatter_in_place(&blocks, root)).expect("goes well");
            } else {
                world.scatter(&[], &mut part, root).expect("goes well");
                assert_eq!(part, all[me * COUNT..][..COUNT]);
            }
            let mut exchanged = own.clone();
            world.call(Call::alltoall_in_place(&mut exchanged)).expect("goes well");
            for (at, number) in exchanged.iter().enumerate() {
                assert_eq!(*number, value(at / COUNT, me * COUNT + at % COUNT), "{at}");
            }
            let mut reduced = own.clone();
            let call = Call::reduce_scatter_in_place(&mut reduced, None, Reduction::Sum);
            world.call(call).expect("goes well");
            for (at, number) in reduced[..COUNT].iter().enumerate() {
                let sum: u64 = (0..size).map(|rank| value(rank, me * COUNT + at)).sum();
                assert_eq!(*number, sum, "{at}");
            }
            assert_eq!(world.cache_counts().programs, world.cache_counts().misses);
        });
    }
}

#[test]
fn without_rings_there_are_no_slots() {
    group_with(&JobOptions { rings: false, ..JobOptions::new(3) }, |comm| {
        let world = comm.world();
        world.barrier().expect("goes well");
        assert_eq!(world.cache_counts().programs, 0);
    });
}

/// Some ranks only send: they may be ahead, but not by more than their receivers' places hold.
#[test]
fn who_only_sends_runs_ahead_and_overwrites_nothing() {
    for ranks in [2, 5] {
        group(ranks, |comm| {
            let world = comm.world();
            let dup = world.dup().expect("a copy");
            let (me, size) = (world.rank().0, world.size());
            for round in 0..400u64 {
                // The one that is late is another one each time.
                if round % 23 == 3 && round / 23 % u64::from(size) == u64::from(me) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                let root = Rank((round / 50) as u32 % size);
                let mut data = [if me == root.0 { round } else { 0 }; 9];
                world.broadcast(&mut data, root).expect("goes well");
                assert_eq!(data, [round; 9]);
                if round % 5 == 0 {
                    let mut sum = [0u64];
                    dup.reduce(&[round + u64::from(me)], &mut sum, Reduction::Sum, root).expect("goes well");
                    let all = u64::from(size) * round + u64::from(size * (size - 1) / 2);
                    assert!(me != root.0 || sum == [all]);
                }
                // A call without slots in between: all others have one parity then.
                if (100..200).contains(&round) {
                    let mut all = vec![false; 5000];
                    world.allreduce(&vec![true; 5000], &mut all, Reduction::LogicalAnd).expect("goes well");
                    assert_eq!(all, vec![true; 5000]);
                }
            }
        });
    }
}

/// What all read is written again only when all have read it, also where each rank is the writer in turn, and where what is read
/// is reduced where it lies.
#[test]
fn multicasts_stay_until_all_have_read_them() {
    for ranks in [3, 6] {
        group(ranks, |comm| {
            let world = comm.world();
            let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
            for round in 0..600u64 {
                if round % 29 == 7 && round / 29 % size == me {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                // In the line, and in the page behind it.
                for length in [1, 400] {
                    let root = (round / 20) % size;
                    let mut data = vec![if me == root { round } else { u64::MAX }; length];
                    let call = Call::broadcast(&mut data, Rank(root as u32)).by("linear");
                    world.call(call).expect("goes well");
                    assert_eq!(data, vec![round; length]);
                    if round % 11 == 0 {
                        let mut all = vec![0; length * size as usize];
                        let call = Call::allgather(&data, &mut all).by("linear");
                        world.call(call).expect("goes well");
                        assert!(all.iter().all(|found| *found == round));
                    }
                    if round % 13 == 0 {
                        let word = format!("a{size}");
                        let mut sums = vec![round + me; length];
                        let call = Call::allreduce_in_place(&mut sums, Reduction::Sum).by(&word);
                        world.call(call).expect("goes well");
                        assert_eq!(sums, vec![size * round + size * (size - 1) / 2; length]);
                    }
                }
            }
            assert_eq!(world.cache_counts().programs, world.cache_counts().misses);
        });
    }
}

/// Who waits for what a dead rank should have written for all finds out.
#[test]
fn whoever_left_writes_no_multicast() {
    group(4, |comm| {
        let world = comm.world();
        world.barrier().expect("goes well");
        if comm.rank() == Rank(1) {
            return;
        }
        for _ in 0..2 {
            let mut sum = [0u64];
            let call = Call::allreduce(&[1u64], &mut sum, Reduction::Sum).by("a4");
            let error = world.call(call).expect_err("rank 1 has left");
            let Reason::Failed(failure) = &error.reason else { panic!("{error}") };
            assert_eq!(failure.cause.culprit(comm.rank()), Rank(1), "{error}");
        }
    });
}

/// Who is ahead sleeps until those behind have passed older calls, and is woken then, whatever they do afterwards.
#[test]
fn who_waits_for_room_is_woken() {
    const ROUNDS: u64 = 30;
    for ranks in [2, 3] {
        group(ranks, |comm| {
            let world = comm.world();
            for round in 0..ROUNDS {
                let is_root = comm.rank() == Rank(0);
                if !is_root {
                    // Long enough to fall asleep.
                    std::thread::sleep(std::time::Duration::from_millis(4));
                }
                // More small calls than there are places.
                let (calls, length) = if round % 2 == 0 { (40, 1) } else { (1, 100_000) };
                for _ in 0..calls {
                    let mut data = vec![if is_root { round } else { 0 }; length];
                    world.broadcast(&mut data, Rank(0)).expect("goes well");
                    assert!(data.iter().all(|number| *number == round));
                }
            }
            // What is waited for may happen in the moment in which a sleep ends by itself, but not again and again.
            let overslept = comm.counters().overslept;
            assert!(overslept < 4, "{overslept} sleeps in {ROUNDS} rounds were too long");
        });
    }
}

/// Calls in which all hear of all and such in which somebody runs ahead take their places in different turns: mixed at random, from
/// random roots, in the line and in pages, with ranks that are late.
#[test]
fn calls_of_all_kinds_overwrite_nothing_of_each_other() {
    let seed = seed();
    for ranks in [2, 3, 6, 10] {
        group(ranks, |comm| {
            let world = comm.world();
            let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
            let mut random = ChaCha8Rng::seed_from_u64(seed ^ size << 32);
            // Long rows of one-way calls between exchanges, and the other way round.
            let mut exchanges = 0.5;
            for call in 0..if ranks > 6 { 1000 } else { 4000u64 } {
                if call % 50 == 0 {
                    exchanges = [0.02, 0.5, 0.98][random.random_range(0..3)];
                }
                let kind = if random.random_bool(exchanges) {
                    random.random_range(4..7)
                } else {
                    random.random_range(0..4)
                };
                let length: usize = [1, 6, 7, 60][random.random_range(0..4)];
                let root = random.random_range(0..size);
                if random.random_range(0..200) == 0 && random.random_range(0..size) == me {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                let number = |rank: u64| 1000 * call + rank;
                let own = vec![number(me); length];
                let mut one = vec![if me == root { number(root) } else { 0 }; length];
                let mut all = vec![0; length * size as usize];
                let (to, sum) = (Rank(root as u32), size * 1000 * call + size * (size - 1) / 2);
                let is_by_rank = |all: &[u64]| {
                    all.iter().enumerate().all(|(at, found)| *found == number((at / length) as u64))
                };
                let is_right = match kind {
                    0 => {
                        world.broadcast(&mut one, to).map(|()| one.iter().all(|found| *found == number(root)))
                    }
                    1 => world.gather(&own, &mut all, to).map(|()| me != root || is_by_rank(&all)),
                    2 => {
                        let blocks: Vec<u64> =
                            (0..all.len()).map(|at| number((at / length) as u64)).collect();
                        world
                            .scatter(&blocks, &mut one, to)
                            .map(|()| one.iter().all(|found| *found == number(me)))
                    }
                    3 => world
                        .reduce(&own, &mut one, Reduction::Sum, to)
                        .map(|()| me != root || one == vec![sum; length]),
                    4 => world.allreduce(&own, &mut one, Reduction::Sum).map(|()| one == vec![sum; length]),
                    5 => world.allgather(&own, &mut all).map(|()| is_by_rank(&all)),
                    _ => world.barrier().map(|()| true),
                };
                assert!(
                    is_right.expect("goes well"),
                    "call {call} of kind {kind}, {length} words, root {root}"
                );
            }
            assert_eq!(world.cache_counts().programs, world.cache_counts().misses);
        });
    }
}

/// Runs go on while their process waits in a compiled program for somebody who needs them.
#[test]
fn runs_go_on_beside() {
    group(3, |comm| {
        let world = comm.world();
        let second = world.dup().expect("a copy");
        let me = world.rank().0;
        for round in 0..30u64 {
            let (large, mut sums) = (vec![round + u64::from(me); 5000], vec![0; 5000]);
            world.scope(|scope| {
                let request =
                    scope.start(Call::allreduce(&large, &mut sums, Reduction::Sum)).expect("starts");
                // Rank 1 needs the others' part of the run before it comes to the barrier.
                if me == 1 {
                    request.wait().expect("goes well");
                }
                second.barrier().expect("goes well");
                request.wait().expect("goes well");
            });
            assert_eq!(sums, vec![3 * round + 3; 5000]);
        }
    });
}

/// Calls in the world from several threads of each rank count as one sequence.
#[test]
fn threads_share_the_world() {
    group(2, |comm| {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let world = comm.world();
                    for _ in 0..200 {
                        world.barrier().expect("goes well");
                    }
                });
            }
        });
    });
}

#[test]
fn blocking_and_started_calls_do_not_meet() {
    group(3, |comm| {
        let world = comm.world();
        let (send, mut recv) = ([1u64], [0u64]);
        let call = Call::allreduce(&send, &mut recv, Reduction::Sum);
        let outcome = if comm.rank() == Rank(1) {
            world.scope(|scope| scope.start(call)?.wait())
        } else {
            world.call(call)
        };
        let error = outcome.expect_err("they differ").to_string();
        assert!(error.contains("the calls differ"), "{error}");
        assert!(error.contains("non-blocking allreduce of 1 u64 by sum"), "{error}");
        world.barrier().expect("what comes after is as if nothing had been");
    });
}

/// A call in segments is one call: who fails in one of them fails the others, and what comes after is as if nothing had been.
#[test]
fn segments_fail_together() {
    group(3, |comm| {
        let world = comm.world();
        let me = comm.rank().index();
        for (round, count) in [200_000, 200_000, 100_000].into_iter().enumerate() {
            // In the second round one calls with another size, in the third one calls something small.
            let own = match round {
                1 if me == 1 => 150_000,
                2 if me == 2 => 10,
                _ => count,
            };
            let (send, mut sum) = (vec![1 + me as u64; own], vec![0; own]);
            let outcome = world.allreduce(&send, &mut sum, Reduction::Sum);
            match outcome {
                Ok(()) => assert!(round == 0 && sum == vec![6; own]),
                Err(error) => assert!(round > 0 && error.to_string().contains("the calls differ"), "{error}"),
            }
            world.barrier().expect("what comes after is as if nothing had been");
        }
        assert_eq!(world.cache_counts().programs, world.cache_counts().misses);
        if comm.rank() == Rank(2) {
            return;
        }
        let (send, mut sum) = (vec![1u64; 200_000], vec![0; 200_000]);
        let error = world.allreduce(&send, &mut sum, Reduction::Sum).expect_err("rank 2 has left");
        let Reason::Failed(failure) = &error.reason else { panic!("{error}") };
        assert_eq!(failure.cause.culprit(comm.rank()), Rank(2), "{error}");
    });
}

/// Large messages lie with their senders until all have passed the call: who only sends does not overwrite them.
#[test]
fn large_messages_stay_until_all_have_passed() {
    group(3, |comm| {
        let world = comm.world();
        let me = world.rank().0;
        for round in 0..60u64 {
            let root = Rank((round / 20) as u32);
            if round % 7 == 3 && round % 3 == u64::from(me) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            for count in [3000, 90_000] {
                let mut data = vec![if me == root.0 { round } else { u64::MAX }; count];
                world.call(Call::broadcast(&mut data, root).by("linear")).expect("goes well");
                assert_eq!(data, vec![round; count]);
            }
            let mut all = vec![0; 6000];
            world.allgather(&vec![round + u64::from(me); 2000], &mut all).expect("goes well");
            assert!(all.iter().enumerate().all(|(at, number)| *number == round + at as u64 / 2000));
        }
    });
}

/// Who waits for somebody that waits for one who has left fails, too, and learns whom to blame.
#[test]
fn who_has_left_is_named() {
    for progress in [Progress::Thread, Progress::Peers] {
        group_with(&JobOptions { progress, ..JobOptions::new(4) }, |comm: &Comm| {
            let world = comm.world();
            world.barrier().expect("goes well");
            if comm.rank() == Rank(3) {
                return;
            }
            let mut sum = [0u64];
            // Along the ranks: 2 waits for 1, who waits for 0; then back from 3, who is not there.
            let outcome = world.call(Call::allreduce(&[1u64], &mut sum, Reduction::Sum).by("reduce-bcast"));
            let error = outcome.expect_err("rank 3 has left");
            let Reason::Failed(failure) = &error.reason else { panic!("{error}") };
            let culprit = failure.cause.culprit(comm.rank());
            assert_eq!(culprit, Rank(3), "{error}");
            assert!(matches!(failure.cause, Cause::PeerLeft { .. } | Cause::PeerFailed { .. }), "{error}");
        });
    }
}

/// What is counted and recorded does not depend on the way.
#[test]
fn messages_are_counted_and_recorded() {
    group(2, |comm| {
        let world = comm.world();
        world.barrier().expect("goes well");
        let before = comm.counters();
        comm.record();
        world
            .call(Call::allreduce(&[1u64], &mut [0], Reduction::Sum).by("recursive-doubling"))
            .expect("goes");
        let after = comm.counters();
        assert_eq!((after.messages - before.messages, after.bytes - before.bytes), (1, 8));
        let record = comm.take_record();
        assert!(record.len() >= 3 && record.iter().all(|one| one.start_ns <= one.end_ns && one.run > 0));
    });
}

/// Blocks and vectors that are large enough to be read out of their senders' buffers, apart and in place.
#[test]
fn what_is_read_where_it_lies_gives_the_same_bits() {
    const BLOCK: usize = 50_001;
    for ranks in [2, 3, 5] {
        group_with(&JobOptions { reads: Reads::Always, ..JobOptions::new(ranks) }, |comm| {
            let world = comm.world();
            assert_eq!(world.reads_peers(), None);
            let numbers = numbers(&world, if ranks == 2 { 300_001 } else { BLOCK });
            let names = ["alltoall:pairwise", "alltoall:linear", "scatter:linear", "allgather:linear"];
            for (name, operation) in names.into_iter().zip([
                Operation::Alltoall,
                Operation::Alltoall,
                Operation::Scatter,
                Operation::Allgather,
            ]) {
                for _ in 0..3 {
                    let [blocking, started] = both_ways(&world, operation, name, BLOCK, &numbers);
                    assert_eq!(blocking.expect("goes well"), started.expect("goes well"), "{name}");
                }
            }
            for name in ["allreduce:direct", "allreduce:recursive-doubling", "allreduce:rabenseifner"] {
                if ranks == 2 {
                    let [blocking, started] =
                        both_ways(&world, Operation::Allreduce, name, 300_001, &numbers);
                    assert_eq!(blocking.expect("goes well"), started.expect("goes well"), "{name}");
                }
            }
            // Threads of one process.
            assert_eq!(world.reads_peers(), Some(true));
            let (me, size) = (world.rank().index(), ranks as usize);
            let value = |from: usize, to: usize, round: usize| (1000 * from + 100 * to + round) as u64;
            for round in 0..10 {
                let block = |to: usize| vec![value(me, to, round); BLOCK];
                let mut data: Vec<u64> = (0..size).flat_map(block).collect();
                world.call(Call::alltoall_in_place(&mut data)).expect("goes well");
                // Who is through writes to its buffers at once: nobody may still look at them.
                for (from, block) in data.chunks_mut(BLOCK).enumerate() {
                    assert!(block.iter().all(|number| *number == value(from, me, round)), "round {round}");
                    block.fill(7);
                }
            }
            let mut data = vec![1u64 + me as u64; 300_001];
            let mut sum = (1 + size as u64) * size as u64 / 2;
            for _ in 0..3 {
                world.allreduce_in_place(&mut data, Reduction::Sum).expect("goes well");
                assert!(data.iter().all(|number| *number == sum));
                sum *= size as u64;
            }
        });
    }
}

/// The verdict is not known yet when the first large call meets another one.
#[test]
fn a_first_large_call_that_meets_another_one_is_named() {
    for ranks in [2, 3] {
        group_with(&JobOptions { reads: Reads::Always, ..JobOptions::new(ranks) }, |comm| {
            let world = comm.world();
            let outcome = if world.rank() == Rank(0) {
                let data = vec![1u64; 50_000 * ranks as usize];
                world.alltoall(&data, &mut data.clone())
            } else {
                world.barrier()
            };
            let error = outcome.expect_err("the calls differ").to_string();
            assert!(
                error.contains("alltoall") && error.contains("barrier") || error.contains("failed"),
                "{error}"
            );
        });
    }
}

/// Where reading does not pay nobody reads, and results are the same.
#[test]
fn all_ranks_come_to_one_verdict_on_reading() {
    const BLOCK: usize = 50_000;
    for ranks in [2, 4] {
        let verdicts: Vec<AtomicU32> = (0..ranks).map(|_| AtomicU32::new(0)).collect();
        group(ranks, |comm| {
            let world = comm.world();
            let me = world.rank().index();
            let data = vec![me as u64; BLOCK * ranks as usize];
            let mut found = vec![0; data.len()];
            world.alltoall(&data, &mut found).expect("goes well");
            assert!(
                found
                    .chunks(BLOCK)
                    .enumerate()
                    .all(|(from, block)| block.iter().all(|at| *at == from as u64))
            );
            let verdict = world.reads_peers().expect("it was asked for");
            verdicts[me].store(1 + u32::from(verdict), Ordering::Relaxed);
            world.barrier().expect("goes well");
            let first = verdicts[0].load(Ordering::Relaxed);
            assert!(verdicts.iter().all(|verdict| verdict.load(Ordering::Relaxed) == first));
            world.barrier().expect("goes well");
        });
    }
}
