//! Every way in which one task may declare the same bytes more than once, or weak beside commutative, through the raw interface.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime, TaskError};
use std::sync::atomic::{AtomicU64, Ordering};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads start")
}

fn declared(start: usize, length: usize, kind: Kind) -> Declaration {
    Declaration { start, length, kind, weak: false, reduction: 0 }
}

fn weak(start: usize, length: usize, kind: Kind) -> Declaration {
    Declaration { weak: true, ..declared(start, length, kind) }
}

#[test]
fn a_task_declares_the_same_bytes_several_times() {
    const KINDS: [Kind; 5] = [Kind::In, Kind::Out, Kind::InOut, Kind::Concurrent, Kind::Commutative];
    let mut places = [0_u64; 2];
    let address = std::ptr::from_mut(&mut places) as usize;
    let mut expected = 0;
    runtime(2)
        .run(|context| {
            for first in KINDS {
                for second in KINDS {
                    for (overlap, is_weak) in [(0, false), (8, false), (0, true), (8, true)] {
                        // One asks for all of it alone, so each task has its turn.
                        let all = [
                            Declaration { weak: is_weak, ..declared(address, 16, first) },
                            declared(address + overlap, 8, second),
                            declared(address, 16, Kind::InOut),
                        ];
                        let number = expected;
                        expected += 1;
                        let body = move |_: &Context<'_>| {
                            // SAFETY: declared, and the places outlive the run.
                            let places = unsafe { &mut *(address as *mut u64).cast::<[u64; 2]>() };
                            assert_eq!(*places, [number; 2]);
                            places.iter_mut().for_each(|place| *place += 1);
                        };
                        // SAFETY: as declared.
                        unsafe { context.submit_raw(Attributes::NONE, &all, body) };
                    }
                }
            }
        })
        .expect("in order");
    assert_eq!(places, [expected; 2]);
}

#[test]
fn commutative_declared_twice_takes_one_turn() {
    static INSIDE: AtomicU64 = AtomicU64::new(0);
    static RAN: AtomicU64 = AtomicU64::new(0);
    let address = std::ptr::from_ref(&INSIDE) as usize;
    runtime(3)
        .run(|context| {
            for number in 0..300 {
                // The second half of what the first declares, the same, or more.
                let other = declared(address + number % 2 * 4, 4 + number % 3 * 2, Kind::Commutative);
                let both = [declared(address, 8, Kind::Commutative), other];
                let body = |_: &Context<'_>| {
                    assert_eq!(INSIDE.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
                    RAN.fetch_add(1, Ordering::Relaxed);
                    INSIDE.fetch_sub(1, Ordering::Relaxed);
                };
                // SAFETY: it accesses nothing but atomics.
                unsafe { context.submit_raw(Attributes::NONE, &both, body) };
            }
        })
        .expect("nobody waits for itself");
    assert_eq!(RAN.load(Ordering::Relaxed), 300);
}

#[test]
fn weak_beside_commutative_ends_in_no_deadlock() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    let places = [0_u64; 2];
    let one = places.as_ptr() as usize;
    let other = one + 8;
    runtime(2)
        .run(|context| {
            for round in 0..200 {
                // Each holds one place and has a child that needs both: with the weak access taken at its word, two of them
                // would wait for each other.
                let (held, passed_on) = if round % 2 == 0 { (one, other) } else { (other, one) };
                let kind = if round % 3 == 0 { Kind::InOut } else { Kind::Commutative };
                let outer = [declared(held, 8, Kind::Commutative), weak(passed_on, 8, kind)];
                let body = move |context: &Context<'_>| {
                    std::thread::yield_now();
                    let inner = [declared(held, 8, Kind::Commutative), declared(passed_on, 8, kind)];
                    let count = |_: &Context<'_>| {
                        RAN.fetch_add(1, Ordering::Relaxed);
                    };
                    // SAFETY: it accesses nothing but an atomic.
                    unsafe { context.submit_raw(Attributes::NONE, &inner, count) };
                };
                // SAFETY: as above.
                unsafe { context.submit_raw(Attributes::NONE, &outer, body) };
            }
        })
        .expect("nothing fails");
    assert_eq!(RAN.load(Ordering::Relaxed), 200);
}

#[test]
fn a_reduction_beside_something_else_is_refused() {
    let place = 0_u64;
    let start = std::ptr::from_ref(&place) as usize;
    let sum = Declaration { reduction: 7, ..declared(start, 8, Kind::Reduction) };
    let others =
        [declared(start, 4, Kind::In), Declaration { reduction: 8, ..sum }, weak(start + 7, 1, Kind::Out)];
    let runtime = runtime(1);
    for other in others {
        let error = runtime.run(|context| {
            let label = Attributes { label: "both", ..Attributes::NONE };
            // SAFETY: it accesses nothing.
            unsafe { context.submit_raw(label, &[sum, other], |_| panic!("must not run")) };
            context.taskwait().expect_err("refused")
        });
        let error = error.expect("taken by the wait");
        assert!(matches!(&error, TaskError::Contradiction { label, .. } if label == "both"), "{error}");
        assert!(error.to_string().contains("declares a reduction on [0x"), "{error}");
    }
    let twice = runtime.run(|context| {
        // SAFETY: as above.
        unsafe { context.submit_raw(Attributes::NONE, &[sum, sum], |_| ()) };
    });
    twice.expect("the same reduction twice is one");
}
