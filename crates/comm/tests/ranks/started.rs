//! Small started calls: each is a program with a cursor, of which many are under way at a time, in any order and beside blocking calls.

use crate::group::{group, group_with, seed};
use castell_base::Rank;
use castell_comm::collective::{Call, CallError, RawRequest, Reason, Reduction};
use castell_comm::job::JobOptions;
use castell_comm::{Comm, Communicator};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// For how long a rank does something else at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// More calls than a sender has places.
const AT_ONCE: usize = 70;

/// A call under way, its buffers, and what they must hold in the end.
struct Open {
    request: RawRequest,
    buffers: [Vec<u64>; 2],
    expected: Vec<u64>,
}

impl Open {
    /// Starts a call, the `number`th; all ranks say the same.
    fn start(world: &Communicator, kind: u32, length: usize, root: u32, number: u64) -> Open {
        let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
        let value = |rank: u64| 1000 * number + rank;
        let all = |length: usize| (0..size).flat_map(|rank| vec![value(rank); length]).collect();
        let (is_root, to) = (me == u64::from(root), Rank(root));
        let whole = length * size as usize;
        let sum = vec![(0..size).map(value).sum(); length];
        let (own, untouched) = (vec![value(me); length], vec![7; length]);
        let (send, recv, expected): (_, _, Vec<u64>) = match kind {
            0 => (vec![], vec![], vec![]),
            1 => (vec![], if is_root { own } else { untouched }, vec![value(u64::from(root)); length]),
            2 if is_root => (own, vec![7; whole], all(length)),
            2 => (own, vec![], vec![]),
            3 if is_root => (all(length), untouched, own),
            3 => (vec![], untouched, own),
            4 if is_root => (own, untouched, sum),
            4 => (own, vec![], vec![]),
            5 => (own, untouched, sum),
            6 => (own, vec![7; whole], all(length)),
            _ => (vec![value(me); whole], vec![7; whole], all(length)),
        };
        let mut buffers = [send, recv];
        let [send, recv] = &mut buffers;
        let call = match kind {
            0 => Call::barrier(),
            1 => Call::broadcast(recv, to).by("linear"),
            2 => Call::gather(send, recv, to).by("linear"),
            3 => Call::scatter(send, recv, to).by("linear"),
            4 => Call::reduce(send, recv, Reduction::Sum, to).by("linear"),
            5 => Call::allreduce(send, recv, Reduction::Sum),
            6 => Call::allgather(send, recv).by("linear"),
            _ => Call::alltoall(send, recv).by("linear"),
        };
        // SAFETY: the vectors' memory stays where it is, and as it is until the call has ended: dropping the request waits for it.
        let mut request = unsafe { world.prepare_raw(&call) }.expect("is prepared");
        // SAFETY: as above.
        unsafe { request.start() }.expect("starts");
        Open { request, buffers, expected }
    }

    fn wait(mut self) -> Result<(), CallError> {
        self.request.wait()?;
        assert_eq!(self.buffers[1], self.expected);
        Ok(())
    }
}

/// Calls of all kinds under way, waited for and asked for in any order by each rank on its own, blocking ones in between, ranks that
/// are late.
#[test]
fn calls_end_in_any_order_and_overwrite_nothing() {
    let seed = seed();
    for ranks in [2, 3, 6] {
        group(ranks, |comm| {
            let world = comm.world();
            let second = world.dup().expect("a copy");
            let mut all = ChaCha8Rng::seed_from_u64(seed ^ u64::from(ranks) << 32);
            let mut own = ChaCha8Rng::seed_from_u64(seed ^ u64::from(world.rank().0 + 1) << 40);
            let mut open = Vec::new();
            for number in 0..1500 {
                let kind = all.random_range(0..8);
                let (length, root) = ([1, 6, 7, 60][all.random_range(0..4)], all.random_range(0..ranks));
                let on = if all.random_bool(0.2) { &second } else { &world };
                if own.random_bool(0.003) {
                    std::thread::sleep(Duration::from_micros(500));
                }
                open.push(Open::start(on, kind, length, root, number));
                if all.random_bool(0.1) {
                    let mut sum = [0];
                    world.allreduce(&[number], &mut sum, Reduction::Sum).expect("goes well");
                    assert_eq!(sum, [number * u64::from(ranks)]);
                }
                if own.random_bool(0.3) {
                    let at = own.random_range(0..open.len());
                    if open[at].request.test().is_some_and(|outcome| outcome.is_ok()) {
                        open.swap_remove(at).wait().expect("it has ended");
                    }
                }
                // Places are few: everybody lets go of the same calls now and then.
                if all.random_bool(0.05) {
                    open.shuffle(&mut own);
                    open.drain(..).try_for_each(Open::wait).expect("go well");
                }
            }
            open.into_iter().try_for_each(Open::wait).expect("go well");
            assert!(world.cache_counts().programs > 100, "{:?}", world.cache_counts());
        });
    }
}

/// One rank starts more calls than it has places, and then computes until all others have ended theirs, also in a function that is
/// called with the engine in hand: the others get what they need of it all the same.
#[test]
fn who_computes_sends_what_it_has_started() {
    for ranks in [2, 4] {
        // By the others, in all rounds.
        let ended = AtomicU32::new(0);
        let rounds = AtomicU32::new(0);
        let all_ended = || ended.load(Ordering::SeqCst) == (ranks - 1) * rounds.load(Ordering::SeqCst);
        let compute = || {
            let since = Instant::now();
            while !all_ended() && since.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        group(ranks, |comm| {
            let world = comm.world();
            for (kind, in_a_run) in [(5, false), (7, true), (1, false), (5, true)] {
                let is_away = comm.rank() == Rank(1);
                if is_away {
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
                world.barrier().expect("goes well");
                let start = |number| Open::start(&world, kind, 4, 1, number);
                let mut open: Vec<Open> = (0..AT_ONCE as u64).map(start).collect();
                if is_away && in_a_run {
                    comm.scope(|scope| {
                        let mut graph = scope.graph();
                        graph.call(&compute).expect("a call");
                        scope.run(&graph.compile().expect("compiles")).expect("starts");
                    });
                } else if is_away {
                    compute();
                }
                assert!(!is_away || all_ended(), "kind {kind}: the others waited for a rank that computes");
                open.drain(..).rev().try_for_each(Open::wait).expect("go well");
                if !is_away {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
}

/// Two threads of each rank wait for calls that one of them has started, the second one first.
#[test]
fn threads_wait_for_calls_of_one_communicator() {
    group(3, |comm| {
        let world = comm.world();
        for round in 0..100u64 {
            let (first, second) = ([round], [2 * round]);
            let (mut sum, mut other) = ([0], [0]);
            world.scope(|scope| {
                let one = scope.start(Call::allreduce(&first, &mut sum, Reduction::Sum)).expect("starts");
                let two = scope.start(Call::allreduce(&second, &mut other, Reduction::Sum)).expect("starts");
                std::thread::scope(|threads| {
                    threads.spawn(move || one.wait().expect("goes well"));
                    two.wait().expect("goes well");
                });
            });
            assert_eq!((sum[0], other[0]), (3 * round, 6 * round));
        }
    });
}

/// Who leaves the job ends what it has started first, also what nobody waits for.
#[test]
fn leaving_ends_what_was_started() {
    for round in 0..5 {
        group(3, |comm| {
            let world = comm.world();
            if comm.rank().0 == round % 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            for number in 0..AT_ONCE as u64 {
                std::mem::forget(Open::start(&world, 5, 3, 0, number));
            }
        });
    }
}

#[test]
fn different_started_calls_are_errors_on_both_sides() {
    group(3, |comm| {
        let world = comm.world();
        let is_other = comm.rank() == Rank(1);
        for number in 0..3 {
            // Those before and behind go on.
            let before = Open::start(&world, 6, 2, 0, number);
            let different = Open::start(&world, if is_other { 7 } else { 5 }, 2, 0, number);
            let behind = Open::start(&world, 5, 2, 0, number);
            let error = different.wait().expect_err("they differ").to_string();
            assert!(error.contains("the calls differ") || error.contains("failed because"), "{error}");
            before.wait().expect("goes well");
            behind.wait().expect("goes well");
            world.barrier().expect("goes well");
        }
    });
}

/// Who has left is named, by those that wait and by those that ask.
#[test]
fn who_has_left_is_named() {
    for asks in [false, true] {
        group_with(&JobOptions::new(3), |comm: &Comm| {
            let world = comm.world();
            world.barrier().expect("goes well");
            if comm.rank() == Rank(2) {
                return;
            }
            let mut open: Vec<Open> = (0..5).map(|number| Open::start(&world, 5, 1, 0, number)).collect();
            for mut open in open.drain(..) {
                while asks && open.request.run().is_some_and(|run| !run.is_done()) {
                    std::thread::yield_now();
                }
                let error = open.request.wait().expect_err("rank 2 has left");
                let Reason::Failed(failure) = &error.reason else { panic!("{error}") };
                assert_eq!(failure.cause.culprit(comm.rank()), Rank(2), "{error}");
            }
        });
    }
}
