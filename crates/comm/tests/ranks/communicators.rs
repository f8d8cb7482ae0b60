//! Communicators: splitting, overlapping, reusing contexts; ranks that call different things; random programs.

use crate::group::{group, group_with, seed};
use crate::oracle;
use crate::oracle::{Case, Matrix, matrix_product};
use castell_base::Rank;
use castell_comm::collective::{
    Call, CallError, Complex, Custom, Found, Layout, Neighbourhood, Operation, Reason, Reduction,
};
use castell_comm::job::{JobOptions, Net, OverTcp};
use castell_comm::{Cause, Comm, Communicator};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[test]
fn splits_order_by_key_and_translate_ranks() {
    group(5, |comm| {
        let world = comm.world();
        let me = world.rank().0;
        let colour = (me != 4).then_some(me % 2);
        let part = world.split(colour, -i64::from(me)).expect("splits");
        let Some(part) = part else {
            assert_eq!(me, 4);
            return;
        };
        // The highest rank comes first.
        let members: Vec<u32> = (0..4).rev().filter(|rank| rank % 2 == me % 2).collect();
        assert_eq!(part.size() as usize, members.len());
        for (rank, member) in (0..).zip(&members) {
            assert_eq!(part.world_rank(Rank(rank)), Some(Rank(*member)));
            assert_eq!(world.translate(Rank(*member), &part), Some(Rank(rank)));
        }
        assert_eq!((part.rank_of(Rank(4)), part.world_rank(Rank(2))), (None, None));
        let mut all = vec![0u32; members.len()];
        part.allgather(&[me], &mut all).expect("goes well");
        assert_eq!(all, members);
        let whole = part.split_shared(0).expect("splits");
        assert_eq!(whole.size(), part.size());
    });
}

#[test]
fn contexts_are_used_again() {
    group(2, |comm| {
        let world = comm.world();
        for round in 0..1500u32 {
            let copy = world.dup().expect("a context is free again");
            let mut sum = [0];
            copy.allreduce(&[round + comm.rank().0], &mut sum, Reduction::Sum).expect("goes well");
            assert_eq!(sum, [2 * round + 1]);
        }
    });
}

/// Communicators of other ranks have used the context before, so much that the words of the new one's calls look to this rank as if they were over.
#[test]
fn a_context_may_have_been_used_much_more_elsewhere() {
    const BEHIND: u64 = (1 << 20) + 7;
    let options = JobOptions { net: Net::Tcp(OverTcp::default()), ..JobOptions::new(3) };
    group_with(&options, |comm| {
        let (world, me) = (comm.world(), comm.rank());
        for round in 0..300u32 {
            // The context that the next communicator gets; the rank behind is another one each time.
            let called = comm.next_call(1);
            if me.0 != round % 3 {
                comm.open_context(1, [me].into(), called + BEHIND);
                comm.close_context(1);
            }
            let copy = if round % 2 == 0 {
                world.dup()
            } else {
                let members = (0..3).map(Rank).collect();
                Communicator::by_exchange(comm, members, &mut |mine, all| {
                    world.allgather(mine, all).map_err(|error| error.to_string())
                })
            };
            let mut sums = [0];
            let copy = copy.expect("a context is free again");
            copy.allreduce(&[round + me.0], &mut sums, Reduction::Sum).expect("goes well");
            assert_eq!(sums, [3 * round + 3]);
        }
    });
}

#[test]
fn there_is_an_end_to_contexts() {
    group(2, |comm| {
        let world = comm.world();
        let mut kept: Vec<Communicator> = Vec::new();
        let error = loop {
            match world.dup() {
                Ok(copy) => kept.push(copy),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(kept.len(), 1023);
        assert!(error.contains("1023 can be open"), "{error}");
        kept.pop();
        kept.push(world.dup().expect("one is free again"));
        kept[1022].barrier().expect("goes well");
    });
}

/// Calls on two communicators, started in different orders by different ranks.
#[test]
fn orders_count_within_a_communicator_only() {
    group(4, |comm| {
        let world = comm.world();
        let copy = world.dup().expect("splits");
        let ring = world.split(Some(comm.rank().0 / 2), 0).expect("splits").expect("a colour");
        let me = u64::from(comm.rank().0);
        for round in 0..50u64 {
            let inputs = [[me + round; 700], [me * 10 + round; 700], [me * 100 + round; 700]];
            let [mut a, mut b, mut c] = [[0; 700]; 3];
            let mut start_all = || -> Result<(), CallError> {
                world.scope(|first| {
                    copy.scope(|second| {
                        ring.scope(|third| {
                            let one = Call::allreduce(&inputs[0], &mut a, Reduction::Sum);
                            let two = Call::allreduce(&inputs[1], &mut b, Reduction::Sum);
                            let three = Call::allreduce(&inputs[2], &mut c, Reduction::Maximum);
                            let requests = match (me + round) % 3 {
                                0 => [first.start(one)?, second.start(two)?, third.start(three)?],
                                1 => [third.start(three)?, second.start(two)?, first.start(one)?],
                                _ => [second.start(two)?, third.start(three)?, first.start(one)?],
                            };
                            requests.iter().try_for_each(castell_comm::collective::Request::wait)
                        })
                    })
                })
            };
            start_all().expect("goes well");
            assert_eq!((a[699], b[0]), (6 + 4 * round, 60 + 4 * round));
            assert_eq!(c[3], (me / 2 * 2 + 1) * 100 + round);
        }
    });
}

/// What one rank calls where the others call the usual, and what both errors must say.
fn differ(
    ranks: u32,
    usual: impl Fn(&Communicator) -> Result<(), CallError> + Sync,
    other: impl Fn(&Communicator) -> Result<(), CallError> + Sync,
    says: [&str; 2],
) {
    group(ranks, |comm| {
        let world = comm.world();
        world.barrier().expect("goes well");
        let is_other = comm.rank().0 == 1;
        let outcome = if is_other { other(&world) } else { usual(&world) };
        let error = outcome.expect_err("the calls differ");
        let Reason::Failed(failure) = &error.reason else { panic!("{error}") };
        match &failure.cause {
            Cause::CallsDiffer { theirs, ours, .. } => {
                let (own, foreign) = if is_other { (says[1], says[0]) } else { (says[0], says[1]) };
                assert!(ours.contains(own), "rank {}: {error}: no {own}", comm.rank());
                // Another rank may have called the usual, too: then it is not the one that is named.
                assert!(theirs.contains(foreign), "rank {}: {error}: no {foreign}", comm.rank());
            }
            cause => panic!("rank {}: {cause:?}", comm.rank()),
        }
        // What comes after is as if nothing had been.
        let mut sum = [0u32];
        world.allreduce(&[1], &mut sum, Reduction::Sum).expect("goes well");
        assert_eq!(sum, [world.size()]);
    });
}

#[test]
fn different_calls_are_errors_on_both_sides() {
    let allreduce = |world: &Communicator| world.allreduce(&[1.0f64; 3], &mut [0.0; 3], Reduction::Sum);
    for ranks in [2, 4] {
        differ(ranks, allreduce, |world| world.barrier(), ["allreduce of 3 f64 by sum", "barrier"]);
        let larger = |world: &Communicator| world.allreduce(&[1.0f64; 4], &mut [0.0; 4], Reduction::Sum);
        differ(ranks, allreduce, larger, ["of 3 f64", "of 4 f64"]);
        let maximum = |world: &Communicator| world.allreduce(&[1.0f64; 3], &mut [0.0; 3], Reduction::Maximum);
        differ(ranks, allreduce, maximum, ["by sum", "by maximum"]);
        let integers = |world: &Communicator| world.allreduce(&[1u64; 3], &mut [0; 3], Reduction::Sum);
        differ(ranks, allreduce, integers, ["3 f64", "3 u64"]);
        let by = |algorithm: &'static str| {
            move |world: &Communicator| {
                world.call(Call::allreduce(&[1.0f64; 3], &mut [0.0; 3], Reduction::Sum).by(algorithm))
            }
        };
        differ(ranks, by("recursive-doubling"), by("ring"), ["(recursive-doubling)", "(ring)"]);
    }
}

#[test]
fn different_roots_and_sizes_are_errors() {
    // All wait for another one, who waits for them.
    let gather = |root: u32| {
        move |world: &Communicator| {
            // The roots wait for the other's block; large ones keep the senders waiting, too.
            let mine = vec![7u64; 20_000];
            let mut all = vec![0; 20_000 * world.size() as usize];
            world.gather(&mine, &mut all, Rank(root))
        }
    };
    differ(2, gather(0), gather(1), ["root 0", "root 1"]);
    // Two roots that expect nothing: each waits for the other's broadcast.
    let broadcast = |root: u32| move |world: &Communicator| world.broadcast(&mut [1u8; 10], Rank(root));
    differ(2, broadcast(1), broadcast(0), ["root 1", "root 0"]);
}

/// Sizes that only one side knows: the receiver is told who sent what.
#[test]
fn blocks_of_the_wrong_size_are_errors() {
    group(3, |comm| {
        let world = comm.world();
        let (me, root) = (comm.rank().0, Rank(0));
        let counts = [2u64, 2, 2];
        let sent = vec![1u32; if me == 2 { 0 } else { 2 }];
        let mut all = vec![0; 6];
        let blocks = (me == 0).then(|| Layout::packed(&counts));
        let outcome = world.call(Call::gather_blocks(&sent, &mut all, blocks, root));
        if me == 0 {
            let error = outcome.expect_err("rank 2 sent nothing").to_string();
            assert!(error.contains("rank 2 sent 0 bytes") && error.contains("for 8 bytes"), "{error}");
        }
        world.barrier().expect("goes well");
    });
}

#[test]
fn arguments_that_cannot_be_are_refused_before_anything_starts() {
    group(2, |comm| {
        let world = comm.world();
        let said = |outcome: Result<(), CallError>| outcome.expect_err("refused").to_string();
        assert!(said(world.broadcast(&mut [0u8], Rank(2))).contains("the root is 2; ranks are 0 to 1"));
        let error = said(world.allgather(&[1u64; 3], &mut [0; 5]));
        assert!(
            error.contains("allgather: the buffer that it receives has 5 elements, 6 are needed"),
            "{error}"
        );
        assert!(said(world.alltoall(&[1u8; 3], &mut [0; 3])).contains("3 elements cannot be cut"));
        let error = said(world.allreduce(&[1.0f32], &mut [0.0], Reduction::BitOr));
        assert!(error.contains("integers only"), "{error}");
        let error = said(world.allreduce(&[[1.0f32; 2]], &mut [[0.0; 2]], Reduction::Sum));
        assert!(error.contains("sum is not defined for opaque elements"), "{error}");
        let error = said(world.call(Call::allreduce(&[1], &mut [0], Reduction::Sum).by("magic")));
        assert!(error.contains("allreduce:magic"), "{error}");
        let product = Reduction::Custom(Custom::new(false, |a: [u32; 4], b: [u32; 4]| oracle::product(a, b)));
        let error = said(world.call(Call::allreduce(&[[1u32; 4]], &mut [[0; 4]], product).by("ring")));
        assert!(error.contains("does not combine in the order of ranks"), "{error}");
        world.barrier().expect("nothing was started");
    });
}

#[test]
fn logical_complex_and_located_elements() {
    group(3, |comm| {
        let world = comm.world();
        let me = comm.rank().0;
        let mut truth = [false; 2];
        world.allreduce(&[me < 2, true], &mut truth, Reduction::LogicalAnd).expect("goes well");
        assert_eq!(truth, [false, true]);
        let mut turn = [Complex { re: 0.0f64, im: 0.0 }];
        world.allreduce(&[Complex { re: 0.0, im: 1.0 }], &mut turn, Reduction::Product).expect("goes well");
        assert_eq!(turn, [Complex { re: 0.0, im: -1.0 }]);
        let mine = [Found { number: if me == 0 { 5.0f64 } else { 3.0 }, place: i64::from(me) }];
        let mut least = [Found { number: 0.0, place: 0 }];
        world.allreduce(&mine, &mut least, Reduction::MinimumLocation).expect("goes well");
        assert_eq!(least, [Found { number: 3.0, place: 1 }]);
    });
}

#[test]
fn neighbours_of_a_ring() {
    group(4, |comm| {
        let world = comm.world();
        let (me, size) = (comm.rank().0, comm.size());
        let beside = [Rank((me + size - 1) % size), Rank((me + 1) % size)];
        let ring = Neighbourhood { sources: &beside, destinations: &beside };
        let mut got = [0u32; 4];
        world.call(Call::neighbour_allgather(ring, &[me, 10 * me], &mut got, None)).expect("goes well");
        assert_eq!(got, [beside[0].0, 10 * beside[0].0, beside[1].0, 10 * beside[1].0]);
        // One element down, two up.
        let (leaving, arriving) = ([1u64, 2], [2u64, 1]);
        let mut got = [0u32; 3];
        let send = [me, 100 + me, 200 + me];
        let call = Call::neighbour_alltoall(
            ring,
            &send,
            Some(Layout::packed(&leaving)),
            &mut got,
            Some(Layout::packed(&arriving)),
        );
        world.call(call).expect("goes well");
        assert_eq!(got, [100 + beside[0].0, 200 + beside[0].0, beside[1].0]);
    });
}

/// Sums of floats have the same bits on all ranks, and every time.
#[test]
fn floats_have_the_same_bits_everywhere() {
    for ranks in [3, 6, 7] {
        group(ranks, |comm| {
            let world = comm.world();
            for count in [1usize, 5, 20_000] {
                let mine: Vec<f64> =
                    (0..count).map(|at| (f64::from(comm.rank().0 * 7) + at as f64).sin() * 1e3).collect();
                let mut first = vec![0.0; count];
                world.allreduce(&mine, &mut first, Reduction::Sum).expect("goes well");
                let mut roots = first.clone();
                world.broadcast(&mut roots, Rank(0)).expect("goes well");
                let bits = |all: &[f64]| all.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&first), bits(&roots));
                let mut again = vec![0.0; count];
                world.allreduce(&mine, &mut again, Reduction::Sum).expect("goes well");
                assert_eq!(bits(&first), bits(&again));
            }
        });
    }
}

fn draw(random: &mut ChaCha8Rng, ranks: u32, salt: u64) -> Case<'static> {
    let operations: Vec<Operation> =
        Operation::ALL.into_iter().filter(|operation| !operation.is_among_neighbours()).collect();
    loop {
        let case = Case {
            operation: operations[random.random_range(0..operations.len())],
            algorithm: None,
            count: [0, 1, 1, 2, 7, 50, 700][random.random_range(0..7)],
            root: random.random_range(0..ranks),
            in_place: random.random_range(0..3) == 0,
            blocks: random.random_range(0..3) == 0,
            salt,
        };
        if case.is_sensible() {
            return case;
        }
    }
}

/// All ranks draw the same program; each starts the calls of different communicators in an order of its own.
fn random_program(comm: &Comm, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut own = ChaCha8Rng::seed_from_u64(seed ^ u64::from(comm.rank().0 + 1) << 32);
    let world = comm.world();
    let halves = world.split(Some(comm.rank().0 % 2), 0).expect("splits").expect("a colour");
    let reverse = world.split(Some(0), -i64::from(comm.rank().0)).expect("splits").expect("a colour");
    let communicators = [&world, &halves, &reverse];
    let products = matrix_product();
    // A call that is prepared once and started now and then.
    let count = 40;
    let first: Vec<u64> = vec![1; count];
    let mut repeated = world.allreduce_init(first, vec![0; count], Reduction::Sum).expect("is prepared");
    for salt in 0..40 {
        // A case for each communicator: all ranks draw the same, also where it is the others' half.
        let cases = communicators.map(|communicator| {
            let case = draw(&mut random, communicator.size().min(comm.size() / 2).max(1), salt);
            (communicator, case)
        });
        let is_repeated = random.random_range(0..3) == 0;
        if is_repeated {
            repeated.input().expect("went well").fill(salt);
            repeated.start().expect("starts");
        }
        if random.random_range(0..2) == 0 {
            for (communicator, case) in cases {
                case.run::<Matrix>(communicator, &products)
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        } else {
            at_once(&cases, &products, &mut own).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        if is_repeated {
            let sum = salt * u64::from(comm.size());
            assert!(repeated.output().expect("went well").iter().all(|got| *got == sum), "seed {seed}");
        }
    }
}

/// Starts the calls in this rank's own order, then waits for them in another.
fn at_once(
    cases: &[(&Communicator, Case<'_>); 3],
    products: &Reduction,
    own: &mut ChaCha8Rng,
) -> Result<(), CallError> {
    let mut data = cases.each_ref().map(|(on, case)| {
        let data = case.data::<Matrix>(on.rank().0, on.size());
        let recv = data.recv.clone();
        (data, recv)
    });
    let mut order = [0, 1, 2];
    order.swap(0, own.random_range(0..3));
    order.swap(1, own.random_range(1..3));
    {
        let [(data0, recv0), (data1, recv1), (data2, recv2)] = &mut data;
        let call = |at: usize, data, recv| {
            let (on, case): &(&Communicator, Case<'_>) = &cases[at];
            case.call::<Matrix>(on.rank().0, data, recv, products)
        };
        let mut calls =
            [Some(call(0, data0, recv0)), Some(call(1, data1, recv1)), Some(call(2, data2, recv2))];
        cases[0].0.scope(|first| {
            cases[1].0.scope(|second| {
                cases[2].0.scope(|third| {
                    let scopes = [first, second, third];
                    let mut requests = Vec::new();
                    for at in order {
                        requests.push(scopes[at].start(calls[at].take().expect("started once"))?);
                    }
                    requests.iter().rev().try_for_each(castell_comm::collective::Request::wait)
                })
            })
        })?;
    }
    for ((on, case), (data, recv)) in cases.iter().zip(&data) {
        case.check(on.rank().0, on.size(), recv, data);
    }
    Ok(())
}

#[test]
fn random_programs() {
    let seed = seed();
    for round in 0..6 {
        let ranks = [2, 3, 4, 5, 6, 8][round as usize];
        group(ranks, |comm| random_program(comm, seed + round));
    }
}
