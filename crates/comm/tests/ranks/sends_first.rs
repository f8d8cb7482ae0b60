//! Started calls in which all ranks send before they wait: nobody depends on a rank that has started one.

use crate::group::{group, group_with};
use castell_base::Rank;
use castell_comm::collective::{Call, Reduction};
use castell_comm::job::{JobOptions, Progress};
use castell_comm::{Comm, Communicator};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// After which a wait is one in vain.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls a rank starts before it waits for the first: more than a ring has room for.
const AT_ONCE: usize = 600;

/// Starts a small call of each kind, does something else, waits for all and checks what they brought.
fn call_each(world: &Communicator, number: u64, between: &dyn Fn()) {
    let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
    let value = |rank: u64, to: u64| 10_000 * number + 100 * rank + to;
    let row: Vec<u64> = (0..size).map(|to| value(me, to)).collect();
    let (mut column, mut all, mut sum, mut one) =
        (vec![0; size as usize], vec![0; size as usize], [0], [if me == 0 { value(0, 0) } else { 0 }]);
    let (own, word) = ([value(me, 0)], format!("a{size}"));
    world
        .scope(|scope| {
            let calls = [
                scope.start(Call::alltoall(&row, &mut column))?,
                scope.start(Call::allgather(&own, &mut all).by("linear"))?,
                scope.start(Call::allreduce(&own, &mut sum, Reduction::Sum).by(&word))?,
                scope.start(Call::broadcast(&mut one, Rank(0)).by("linear"))?,
            ];
            between();
            calls.into_iter().try_for_each(|call| call.wait())
        })
        .expect("goes well");
    assert!(column.iter().enumerate().all(|(from, found)| *found == value(from as u64, me)));
    assert!(all.iter().enumerate().all(|(from, found)| *found == value(from as u64, 0)));
    assert_eq!((sum[0], one[0]), ((0..size).map(|rank| value(rank, 0)).sum(), value(0, 0)));
}

/// Rank 1 starts, and does nothing for its calls until all others have ended theirs.
#[test]
fn who_has_started_is_not_waited_for() {
    for ranks in [2, 3, 5] {
        let ended = AtomicU32::new(0);
        let rounds = AtomicU32::new(0);
        group(ranks, |comm| {
            let world = comm.world();
            for number in 0..10 {
                call_each(&world, number, &|| {});
            }
            let is_away = comm.rank() == Rank(1);
            if is_away {
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            world.barrier().expect("goes well");
            let all_others = (ranks - 1) * rounds.load(Ordering::SeqCst);
            let others = Cell::new(0);
            call_each(&world, 11, &|| {
                let start = Instant::now();
                while is_away && others.get() < all_others && start.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(1));
                    others.set(ended.load(Ordering::SeqCst));
                }
            });
            if !is_away {
                ended.fetch_add(1, Ordering::SeqCst);
            }
            for number in 20..30 {
                call_each(&world, number, &|| {});
            }
            assert!(!is_away || others.get() == all_others, "the others waited for a rank that had started");
        });
    }
}

/// Some are started ahead of all others, by far more than there is room for.
#[test]
fn many_are_started_at_once() {
    let all_at_once = |comm: &Comm| {
        let world = comm.world();
        let size = world.size() as usize;
        for first in 0..comm.size() {
            if comm.rank().0 != first {
                std::thread::sleep(Duration::from_millis(3));
            }
            let rows: Vec<Vec<u64>> = (0..AT_ONCE as u64)
                .map(|at| (0..size as u64).map(|to| at << 32 | u64::from(comm.rank().0) << 16 | to).collect())
                .collect();
            let mut columns = vec![vec![0; size]; AT_ONCE];
            world
                .scope(|scope| {
                    let calls = rows
                        .iter()
                        .zip(&mut columns)
                        .map(|(row, column)| scope.start(Call::alltoall(row, column).by("linear")));
                    let calls = calls.collect::<Result<Vec<_>, _>>()?;
                    // From behind, too.
                    calls.into_iter().rev().try_for_each(|call| call.wait())
                })
                .expect("goes well");
            for (at, column) in columns.iter().enumerate() {
                let right = |from: usize| (at << 32 | from << 16) as u64 | u64::from(comm.rank().0);
                assert!(column.iter().enumerate().all(|(from, found)| *found == right(from)), "call {at}");
            }
        }
    };
    for ranks in [2, 4] {
        group(ranks, all_at_once);
    }
    group_with(&JobOptions { rings: false, progress: Progress::Peers, ..JobOptions::new(3) }, all_at_once);
}

/// Calls that stay in their processes, and such as others carry on.
#[test]
fn both_kinds_go_on_side_by_side() {
    group(4, |comm| {
        let world = comm.world();
        let me = u64::from(world.rank().0);
        for round in 0..200u64 {
            let (own, mut sum, mut other) = ([round + me], [0], [0]);
            let (row, mut column) = ([[round, me]; 4].concat(), [[0u64; 2]; 4].concat());
            world
                .scope(|scope| {
                    let calls = [
                        scope.start(Call::barrier().by("dissemination"))?,
                        scope.start(Call::alltoall(&row, &mut column).by("linear"))?,
                        scope.start(
                            Call::allreduce(&own, &mut sum, Reduction::Sum).by("recursive-doubling"),
                        )?,
                        scope.start(Call::allreduce(&own, &mut other, Reduction::Sum).by("a4"))?,
                    ];
                    if round % 7 == me {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    calls.into_iter().try_for_each(|call| call.wait())
                })
                .expect("goes well");
            assert_eq!((sum[0], other[0]), (4 * round + 6, 4 * round + 6));
            assert!(column.chunks(2).enumerate().all(|(from, found)| found == [round, from as u64]));
        }
    });
}
