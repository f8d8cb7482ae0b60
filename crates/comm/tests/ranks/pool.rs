//! Large blocking calls whose buffers all ranks can read, beside the same calls with buffers of their own.

use crate::group::group;
use crate::sums::{bits, call, numbers};
use castell_base::Rank;
use castell_collectives::collective::ALGORITHMS;
use castell_comm::collective::{Call, CallError, Operation, Reason, Reduction};
use castell_comm::pool::AllocationError;
use castell_comm::{Comm, Communicator};

/// The bits of a result: of a started call with vectors, and of a blocking and a started one whose send buffer, or receive buffer, all can
/// read; with the first of these numbers.
fn both_ways(
    comm: &Comm,
    world: &Communicator,
    (operation, name, count): (Operation, &str, usize),
    [shares_send, shares_recv]: [bool; 2],
    numbers: &[f64],
) -> [Result<Vec<u64>, CallError>; 3] {
    let (size, root) = (world.size() as usize, Rank(world.size() - 1));
    let send = numbers[..count * size].to_vec();
    let mut recv = vec![0.5f64; count * size];
    let started = call(operation, (&send, &mut recv), count, root).by(name);
    let started = world.scope(|scope| scope.start(started)?.wait()).map(|()| bits(&recv));
    // Somewhere inside.
    let mut shared = [0; 2].map(|_| comm.allocate::<f64>(count * size + 13).expect("some memory"));
    shared[0][5..][..count * size].copy_from_slice(&send);
    let (mut own_send, mut own_recv) = (send, vec![0.5f64; count * size]);
    let [first, second] = &mut shared;
    let send = if shares_send { &mut first[5..][..count * size] } else { &mut own_send };
    let recv = if shares_recv { &mut second[7..][..count * size] } else { &mut own_recv };
    recv.fill(0.5);
    let blocking = world.call(call(operation, (send, recv), count, root).by(name)).map(|()| bits(recv));
    recv.fill(0.5);
    let again = call(operation, (send, recv), count, root).by(name);
    let again = world.scope(|scope| scope.start(again)?.wait()).map(|()| bits(recv));
    // Nobody looks at them any more.
    send.fill(-1.0);
    recv.fill(-1.0);
    [started, blocking, again]
}

#[test]
fn all_algorithms_give_the_same_bits() {
    for ranks in [2, 3, 4, 7] {
        let counts: &[usize] = if ranks == 2 { &[1, 700, 20_001, 70_001] } else { &[300, 9001] };
        group(ranks, |comm| {
            let world = comm.world();
            let numbers = numbers(&world, counts.iter().copied().max().expect("counts"));
            let named = ALGORITHMS.iter().map(|algorithm| algorithm.name);
            let words = ["allreduce:recursive-doubling", "allreduce:rabenseifner", "allreduce:direct"];
            for (turn, name) in named.chain(words).enumerate() {
                let (operation, _) = name.split_once(':').expect("an operation and an algorithm");
                let operation = Operation::ALL.into_iter().find(|of| of.name() == operation);
                let operation = operation.expect("an operation");
                let is_of_blocks = !["allreduce", "bcast", "reduce"].contains(&operation.name());
                for &count in counts.iter().filter(|count| **count <= 20_001 || !is_of_blocks) {
                    // Everybody, or some of the ranks.
                    let me = world.rank().index() + turn;
                    for shares in [[true; 2], [me % 2 == 0, me % 3 != 0], [me % 3 == 1, true]] {
                        match both_ways(comm, &world, (operation, name, count), shares, &numbers) {
                            [Ok(started), Ok(blocking), Ok(again)] => {
                                assert!(started == blocking, "{name}, {count}, blocking");
                                assert!(started == again, "{name}, {count}, started");
                            }
                            // Not for this number of ranks.
                            [Err(a), Err(b), Err(c)] => {
                                let is_refused =
                                    |error: &CallError| matches!(error.reason, Reason::Algorithm(_));
                                assert!([&a, &b, &c].into_iter().all(is_refused), "{name}: {a}, {b}, {c}");
                            }
                            [a, b, c] => {
                                panic!("{name}, {count}: {:?}, {:?}, {:?}", a.err(), b.err(), c.err())
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Who is through writes to its buffers at once: nobody may still look at them. Then they are given back.
#[test]
fn buffers_are_free_when_a_call_returns() {
    const BLOCK: usize = 40_001;
    for ranks in [2, 5] {
        group(ranks, |comm| {
            let halves = comm.world().split(Some(comm.rank().0 % 2), 0).expect("agreed").expect("a half");
            let world = comm.world();
            let (me, size) = (world.rank().index(), ranks as usize);
            let value = |from: usize, to: usize, round: usize| (1000 * from + 100 * to + round) as u64;
            for round in 0..10 {
                let mut send = comm.allocate::<u64>(BLOCK * size).expect("some memory");
                let mut recv = comm.allocate::<u64>(BLOCK * size).expect("some memory");
                send.chunks_mut(BLOCK).enumerate().for_each(|(to, block)| block.fill(value(me, to, round)));
                world.alltoall(&send, &mut recv).expect("goes well");
                drop(send);
                let right =
                    |(from, block): (usize, &[u64])| block.iter().all(|of| *of == value(from, me, round));
                assert!(recv.chunks(BLOCK).enumerate().all(right), "round {round}");
                world.call(Call::alltoall_in_place(&mut recv)).expect("goes well");
                recv.fill(7);
                let mut data = comm.allocate::<u64>(3 * BLOCK).expect("some memory");
                data.fill(1 + me as u64);
                world.allreduce_in_place(&mut data, Reduction::Sum).expect("goes well");
                assert!(data.iter().all(|of| *of == (size * (size + 1) / 2) as u64));
                let root = Rank(round as u32 % ranks);
                data.fill(round as u64 + u64::from(comm.rank() == root));
                world.broadcast(&mut data, root).expect("goes well");
                assert!(data.iter().all(|of| *of == round as u64 + 1));
                // Some call in place, which the others do not know.
                let mut all = comm.allocate::<u64>(BLOCK * size).expect("some memory");
                all.chunks_mut(BLOCK).enumerate().for_each(|(to, block)| block.fill(value(me, to, round)));
                if (me + round).is_multiple_of(2) {
                    world
                        .call(Call::reduce_scatter_in_place(&mut all, None, Reduction::Sum))
                        .expect("goes well");
                } else {
                    let mut sum = comm.allocate::<u64>(BLOCK).expect("some memory");
                    world
                        .call(Call::reduce_scatter_block(&all, &mut sum, Reduction::Sum))
                        .expect("goes well");
                    all[..BLOCK].copy_from_slice(&sum);
                }
                let expected: u64 = (0..size).map(|from| value(from, me, round)).sum();
                assert!(all[..BLOCK].iter().all(|of| *of == expected), "round {round}");
                all.fill(3);
                data.fill(9);
                // Of another communicator, right behind it.
                halves.allreduce_in_place(&mut data, Reduction::Sum).expect("goes well");
                assert!(data.iter().all(|of| *of == 9 * u64::from(halves.size())));
            }
        });
    }
}

#[test]
fn what_is_allocated_is_zero_and_has_an_end() {
    group(2, |comm| {
        for _ in 0..3 {
            let mut buffer = comm.allocate::<u32>(100_000).expect("some memory");
            assert!(buffer.iter().all(|of| *of == 0));
            buffer.fill(3);
        }
        assert!(comm.allocate::<u64>(0).expect("an empty one").is_empty());
        let error = comm.allocate::<u64>(1 << 40).expect_err("not so much");
        assert!(matches!(error, AllocationError::Full { .. }), "{error}");
        let error = comm.allocate::<u64>(usize::MAX / 4).expect_err("not so much").to_string();
        assert!(error.contains("largest free piece"), "{error}");
        let many: Vec<_> = (0..50).map(|at| comm.allocate::<u8>(5000 * at).expect("some memory")).collect();
        drop(many);
    });
    group(70, |comm| {
        let error = comm.allocate::<u8>(10).expect_err("too many ranks").to_string();
        assert!(error.contains("more than 64 ranks"), "{error}");
    });
    let alone = Comm::init().expect("a group of one");
    let mut buffer = alone.allocate::<f64>(10).expect("some memory");
    alone.world().allreduce_in_place(&mut buffer, Reduction::Sum).expect("goes well");
}
