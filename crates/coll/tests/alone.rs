//! Blocking calls of a rank that is alone: the first one is compiled, and those like it only pass their data on.

use castell_base::Rank;
use castell_coll::Communicator;
use castell_coll::collective::{Call, Reduction};

const ROOT: Rank = Rank(0);
const LENGTHS: [usize; 6] = [0, 1, 2, 5, 700, 3000];

type Make = for<'a> fn(&'a [u64], &'a mut [u64]) -> Call<'a>;

/// All operations whose result is the rank's own contribution.
const PASSING: [(&str, Make); 8] = [
    ("gather", |send, recv| Call::gather(send, recv, ROOT)),
    ("scatter", |send, recv| Call::scatter(send, recv, ROOT)),
    ("allgather", |send, recv| Call::allgather(send, recv)),
    ("alltoall", |send, recv| Call::alltoall(send, recv)),
    ("reduce", |send, recv| Call::reduce(send, recv, Reduction::Sum, ROOT)),
    ("allreduce", |send, recv| Call::allreduce(send, recv, Reduction::Sum)),
    ("reduce-scatter", |send, recv| Call::reduce_scatter_block(send, recv, Reduction::Sum)),
    ("scan", |send, recv| Call::scan(send, recv, Reduction::Sum)),
];

/// Those that leave what is there as it is.
const LEAVING: [(&str, Make); 4] = [
    ("broadcast", |_, data| Call::broadcast(data, ROOT)),
    ("exscan", |send, recv| Call::exscan(send, recv, Reduction::Sum)),
    ("allreduce in place", |_, data| Call::allreduce_in_place(data, Reduction::Sum)),
    ("allgather in place", |_, data| Call::allgather_in_place(data)),
];

fn numbers(length: usize, first: u64) -> Vec<u64> {
    (first..first + length as u64).collect()
}

#[test]
fn each_call_has_its_own_data() {
    let world = Communicator::world(&castell_coll::alone().expect("a group of one"));
    for length in LENGTHS {
        for (calls, passes) in [(&PASSING[..], true), (&LEAVING[..], false)] {
            for (name, make) in calls {
                for repeat in 0..4 {
                    let sent = numbers(length, 1000 * repeat);
                    let mut received = numbers(length, 77 + repeat);
                    let before = received.clone();
                    world.call(make(&sent, &mut received)).expect(name);
                    let expected = if passes { &sent } else { &before };
                    assert_eq!(&received, expected, "{name} of {length}, call {repeat}");
                    world.barrier().expect("nobody to wait for");
                }
            }
        }
    }
}

/// The same buffers again and again, so that each call but the first is the last one again.
#[test]
fn a_call_that_comes_again_reads_anew() {
    let world = Communicator::world(&castell_coll::alone().expect("a group of one"));
    for (name, make) in PASSING {
        for length in LENGTHS {
            let (mut sent, mut received) = (vec![0; length], vec![1; length]);
            for call in 0..5 {
                sent.fill(call);
                world.call(make(&sent, &mut received)).expect(name);
                assert_eq!(received, sent, "{name} of {length}, call {call}");
            }
        }
    }
    let counts = world.cache_counts();
    let calls = (PASSING.len() * LENGTHS.len() * 5) as u64;
    assert_eq!(counts.hits + counts.misses, calls, "{counts:?}");
    assert!(counts.misses <= (PASSING.len() * LENGTHS.len()) as u64, "{counts:?}");
}

#[test]
fn what_cannot_be_is_refused_all_the_same() {
    let process = castell_coll::alone().expect("a group of one");
    let world = Communicator::world(&process);
    let (sent, mut sum) = ([1.5f64; 4], [0.0; 4]);
    for _ in 0..3 {
        world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    }
    world.call(Call::allreduce(&sent, &mut sum, Reduction::Sum).by("nonsense")).expect_err("no algorithm");
    world.allreduce(&sent, &mut sum, Reduction::BitAnd).expect_err("no bits in floating-point numbers");
    world.call(Call::allreduce(&sent, &mut sum[..3], Reduction::Sum)).expect_err("too little room");
    world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    process.finalize();
    world.allreduce(&sent, &mut sum, Reduction::Sum).expect_err("the group was left");
}

/// Who wants to know when operations start and finish is told of all of them.
#[test]
fn operations_are_recorded() {
    let process = castell_coll::alone().expect("a group of one");
    let world = Communicator::world(&process);
    let (sent, mut sum) = ([3u64; 4], [0; 4]);
    for _ in 0..3 {
        world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    }
    process.record();
    world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    let of_one = process.take_record().len();
    assert!(of_one > 0);
    for _ in 0..2 {
        world.allreduce(&sent, &mut sum, Reduction::Sum).expect("a sum");
    }
    assert_eq!((process.take_record().len(), sum), (2 * of_one, sent));
}
