//! A task goes where most of its data was written last. Which worker runs what is steered by taking the others away.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, Runtime};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn runtime(scheduler: &str, topology: &str) -> Runtime {
    Runtime::builder().topology(topology).scheduler(scheduler).build().expect("threads start")
}

/// Lets only `worker` run tasks.
fn only(runtime: &Runtime, worker: u32) {
    runtime.enable_worker(WorkerId(worker)).expect("there is such a worker");
    for other in runtime.workers().iter().filter(|status| status.worker.0 != worker) {
        runtime.disable_worker(other.worker).expect("not the last");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while runtime.workers().iter().any(|status| status.held != status.enabled) {
        assert!(Instant::now() < deadline, "workers stop at the next task boundary");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn declare(start: usize, length: usize, kind: Kind) -> Declaration {
    Declaration { start, length, kind, weak: false, reduction: 0 }
}

/// Runs a task with these accesses; returns its place.
fn place_of(runtime: &Runtime, declared: Vec<Declaration>) -> Option<usize> {
    static PLACE: Mutex<Option<usize>> = Mutex::new(None);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().expect("no test panics here");
    let body = move |context: &Context<'_>| {
        let look = |context: &Context<'_>| *PLACE.lock().expect("nobody panics") = context.place();
        // SAFETY: the body touches none of it.
        unsafe { context.submit_raw(Attributes::NONE, &declared, look) };
        context.taskwait()
    };
    runtime.run(body).expect("nothing fails").expect("nothing fails");
    *PLACE.lock().expect("nobody panics")
}

const A: usize = 1 << 20;
const B: usize = 2 << 20;

#[test]
fn most_of_the_data_says_where() {
    let runtime = runtime("tree", "numa:2 cpu:1");
    assert_eq!(place_of(&runtime, vec![declare(A, 4096, Kind::In)]), None, "nobody has written it");
    only(&runtime, 1);
    place_of(&runtime, vec![declare(A, 4096, Kind::Out)]);
    assert_eq!(place_of(&runtime, vec![declare(A, 4096, Kind::In)]), Some(1));
    only(&runtime, 0);
    assert_eq!(place_of(&runtime, vec![declare(A, 4096, Kind::In)]), Some(1), "reading moves nothing");
    place_of(&runtime, vec![declare(B, 1024, Kind::Commutative)]);
    let both = |a, b| vec![declare(A, a, Kind::In), declare(B, b, Kind::InOut)];
    assert_eq!(place_of(&runtime, both(4096, 1024)), Some(1), "most of it");
    assert_eq!(place_of(&runtime, both(256, 1024)), Some(0), "most of what this one uses");
    assert_eq!(place_of(&runtime, vec![declare(A + 2048, 2048, Kind::InOut)]), Some(1), "a part");
    assert_eq!(place_of(&runtime, vec![declare(A + 2048, 2048, Kind::InOut)]), Some(0), "written since");
}

#[test]
fn weak_accesses_and_empty_ones_say_nothing() {
    let runtime = runtime("tree", "numa:2 cpu:1");
    only(&runtime, 1);
    let weak = Declaration { weak: true, ..declare(A, 4096, Kind::InOut) };
    place_of(&runtime, vec![weak]);
    assert_eq!(place_of(&runtime, vec![declare(A, 4096, Kind::In)]), None);
    place_of(&runtime, vec![declare(A, 4096, Kind::Out)]);
    assert_eq!(place_of(&runtime, vec![weak]), None);
    assert_eq!(place_of(&runtime, vec![]), None);
}

#[test]
fn it_can_be_switched_off() {
    for (scheduler, topology) in
        [("tree:locality=off", "numa:2 cpu:1"), ("tree", "cpu:2"), ("central", "numa:2 cpu:1")]
    {
        let runtime = runtime(scheduler, topology);
        only(&runtime, 1);
        place_of(&runtime, vec![declare(A, 4096, Kind::Out)]);
        assert_eq!(place_of(&runtime, vec![declare(A, 4096, Kind::In)]), None, "{scheduler} {topology}");
    }
}

/// Tasks that depend on each other run right, wherever they are sent.
#[test]
fn chains_over_several_nodes_keep_their_order() {
    for scheduler in ["tree", "tree:fifo", "tree:lifo,pull=off", "tree:priority,successor=0.5"] {
        let runtime = runtime(scheduler, "numa:3 cpu:1");
        let sums = runtime.run(|context| {
            let mut blocks = vec![0_u64; 24];
            let at = |block: usize| &raw const blocks[block] as usize;
            for sweep in 1..=20 {
                for block in 0..24 {
                    let (own, before) = (at(block), at((block + 23) % 24));
                    let declared = [declare(own, 8, Kind::InOut), declare(before, 8, Kind::In)];
                    // SAFETY: the body touches what is declared; the blocks live until the taskwait.
                    unsafe {
                        context.submit_raw(Attributes::NONE, &declared, move |_| {
                            let (own, before) = (own as *mut u64, before as *const u64);
                            *own = own.read().wrapping_mul(3).wrapping_add(*before + sweep);
                        });
                    }
                }
            }
            context.taskwait().expect("nothing fails");
            std::mem::take(&mut blocks)
        });
        let mut expected = vec![0_u64; 24];
        for sweep in 1..=20 {
            for block in 0..24 {
                let before = expected[(block + 23) % 24];
                expected[block] = expected[block].wrapping_mul(3).wrapping_add(before + sweep);
            }
        }
        assert_eq!(sums.expect("nothing fails"), expected, "{scheduler}");
    }
}
