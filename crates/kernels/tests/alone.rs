//! Applications without a daemon: many threads, one resource each at a time.

use castell_kernels::{Application, Kernel, KernelsError, Ranking};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

fn kernel(resource: &str) -> Kernel {
    Kernel { resource: resource.into(), step_ns: None }
}

/// What runs where, as the kernels themselves see it.
#[derive(Default)]
struct Seen {
    busy: [AtomicBool; 3],
    steps: AtomicU32,
}

impl Seen {
    fn run(&self, kernel: usize) {
        assert!(!self.busy[kernel].swap(true, Ordering::AcqRel), "two on one resource");
        thread::yield_now();
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.busy[kernel].store(false, Ordering::Release);
    }
}

#[test]
fn threads_take_turns_on_resources() {
    let application = Application::open_at("test", None).expect("opens");
    let kernels = [kernel("one_core"), kernel("all_cores"), kernel("gpu")];
    let collection = application.register(&kernels, &[]).expect("sound");
    let seen = Seen::default();
    // More threads than the mailbox has slots.
    thread::scope(|scope| {
        for number in 0..80 {
            let (collection, seen) = (&collection, &seen);
            scope.spawn(move || {
                for round in 0..25 {
                    let steps = 1 + (number + round) % 3;
                    let mut expected = 0;
                    let run = collection.run(steps, |step| {
                        assert_eq!(step.step, expected);
                        expected += 1;
                        seen.run(step.kernel);
                    });
                    run.expect("runs");
                    assert_eq!(expected, steps);
                }
            });
        }
    });
    let wanted: u32 = (0..80).flat_map(|number| (0..25).map(move |round| 1 + (number + round) % 3)).sum();
    assert_eq!(seen.steps.load(Ordering::Relaxed), wanted);
    assert!(!application.has_daemon());
}

#[test]
fn the_first_ranking_decides_where_all_are_free() {
    let application = Application::open_at("test", None).expect("opens");
    let ranking = |name: &str, order: [&str; 2]| Ranking {
        name: name.into(),
        order: order.map(str::to_owned).to_vec(),
    };
    let kernels = [kernel("one_core"), kernel("gpu")];
    for (order, expected) in [(["gpu", "one_core"], 1), (["one_core", "gpu"], 0)] {
        let rankings = [ranking("energy", order), ranking("performance", ["one_core", "gpu"])];
        let collection = application.register(&kernels, &rankings).expect("sound");
        collection.run(1, |step| assert_eq!(step.kernel, expected)).expect("runs");
    }
    // Without a ranking by the times.
    let timed = |resource: &str, step_ns| Kernel { resource: resource.into(), step_ns: Some(step_ns) };
    let collection = application.register(&[timed("one_core", 9), timed("gpu", 4)], &[]).expect("sound");
    collection.run(1, |step| assert_eq!(step.kernel, 1)).expect("runs");
}

#[test]
fn what_is_wrong_is_said() {
    let application = Application::open_at("test", None).expect("opens");
    let refused = |kernels: &[Kernel], rankings: &[Ranking]| {
        application.register(kernels, rankings).expect_err("it is wrong").to_string()
    };
    assert!(refused(&[], &[]).contains("nothing could ever run"));
    assert_eq!(refused(&[kernel("gpu"), kernel("gpu")], &[]), "two kernels for gpu: give one");
    let ranking = Ranking { name: "energy".into(), order: vec!["gpu".into(), "fpga".into()] };
    assert!(refused(&[kernel("gpu")], &[ranking]).contains("`energy`"));
    assert!(refused(&[kernel("")], &[]).contains("1 to 256 bytes"));
    let collection = application.register(&[kernel("gpu")], &[]).expect("sound");
    assert!(matches!(collection.run(0, |_| ()), Err(KernelsError::Refused { .. })));
    collection.run(1, |_| ()).expect("the slot is still of use");
}

#[test]
fn kernels_that_panic_give_their_place_up() {
    let application = Application::open_at("test", None).expect("opens");
    let collection = application.register(&[kernel("gpu")], &[]).expect("sound");
    for _ in 0..100 {
        let run = || collection.run(2, |_| panic!("on purpose"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }
    let mut steps = 0;
    collection.run(2, |_| steps += 1).expect("the place is free");
    assert_eq!(steps, 2);
}

#[test]
fn who_waits_while_the_application_is_closed_is_told() {
    let application = Application::open_at("test", None).expect("opens");
    let collection = application.register(&[kernel("gpu")], &[]).expect("sound");
    let (holds, goes_on) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            collection.run(2, |_| {
                holds.store(true, Ordering::Release);
                while !goes_on.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        });
        while !holds.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        let waiter = scope.spawn(|| collection.run(1, |_| unreachable!("the place is taken")));
        thread::sleep(Duration::from_millis(20));
        drop(application);
        assert!(matches!(waiter.join().expect("no panic"), Err(KernelsError::Closed(_))));
        goes_on.store(true, Ordering::Release);
        // Its first step was granted; there is nobody to grant the second one.
        assert!(matches!(holder.join().expect("no panic"), Err(KernelsError::Closed(_))));
    });
    assert!(matches!(collection.run(1, |_| ()), Err(KernelsError::Closed(_))));
}
