//! Everything at once: workers come and go, groups are cancelled, tasks fail, pause and wait for events.

use castell_tasks::data::Data;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, Event, Runtime, Waker};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const WORKERS: usize = 4;
const PLACES: usize = 6;
const ROUNDS: u64 = 12;

/// What tells tasks to go on, from outside.
enum Outside {
    Wake(Waker),
    Fulfil(Event),
}

/// What the bodies of a round share.
#[derive(Clone)]
struct Round {
    outside: mpsc::Sender<Outside>,
    /// How many bodies have added to each place.
    added: Arc<[AtomicU64; PLACES]>,
    failed: Arc<AtomicU64>,
}

fn body(context: &Context<'_>, seed: u64, round: &Round) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    match random.random_range(0..40) {
        0 => {
            round.failed.fetch_add(1, Ordering::Relaxed);
            context.fail("as drawn");
        }
        1 => {
            context.cancel();
        }
        2 | 3 => {
            round.outside.send(Outside::Wake(context.pausing())).expect("received");
            context.block();
        }
        4 | 5 => {
            round.outside.send(Outside::Fulfil(context.event())).expect("received");
        }
        6 => {
            context.block_for(Duration::from_micros(200));
        }
        7..12 => {
            for child in 0..random.random_range(1..6) {
                let (round, seed) = (round.clone(), seed.wrapping_mul(31).wrapping_add(child + 1));
                context.submit((), move |context, ()| body(context, seed, &round));
            }
            if random.random() {
                // Failures are counted where they happen.
                let _ = context.taskwait();
            }
        }
        _ => {}
    }
}

/// Creates tasks over shared places; the sums must fit the bodies that ran.
fn program(context: &Context<'_>, seed: u64, round: &Round) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut places: Vec<Data<u64>> = (0..PLACES).map(|_| Data::new(0)).collect();
    for _ in 0..20 {
        let in_group = context.group(|| {
            for _ in 0..random.random_range(1..20) {
                let (round, seed) = (round.clone(), random.random());
                let (one, two) = (random.random_range(0..PLACES), random.random_range(0..PLACES));
                let task = context
                    .task()
                    .priority(random.random_range(0..3))
                    .deferred_if(random.random_range(0..20) > 0);
                if one == two {
                    task.submit((), move |context, ()| body(context, seed, &round));
                } else {
                    let accesses = (places[one].read(), places[two].write());
                    task.submit(accesses, move |context, (_, mut place)| {
                        *place += 1;
                        round.added[two].fetch_add(1, Ordering::Relaxed);
                        body(context, seed, &round);
                    });
                }
            }
        });
        // What fails is counted where it happens; what was skipped added nothing.
        let _ = in_group;
    }
    let waited = context.taskwait();
    if round.failed.load(Ordering::Relaxed) == 0 {
        waited.expect("nothing failed");
    }
    for (place, added) in places.iter_mut().zip(round.added.iter()) {
        assert_eq!(
            *place.get(context).expect("the wait has ended the failures"),
            added.load(Ordering::Relaxed)
        );
    }
}

/// `CASTELL_STRESS_SECONDS`: at least so long, instead of some rounds.
fn longer() -> Duration {
    let seconds = std::env::var("CASTELL_STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

#[test]
fn nothing_is_lost_whatever_happens() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = std::env::var("CASTELL_STRESS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| now.expect("after 1970").as_nanos() as u64);
    println!("seed {seed}");
    let mut rounds = 0;
    let runtime = Runtime::builder().workers(WORKERS).build().expect("threads start");
    let over = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&runtime, &over, seed));
        scope.spawn(move || {
            while let Ok(outside) = receiver.recv() {
                match outside {
                    Outside::Wake(waker) => waker.unblock(),
                    Outside::Fulfil(event) => event.fulfill(),
                }
            }
        });
        let begun = Instant::now();
        let enough = |number: u64| number >= ROUNDS && begun.elapsed() >= longer();
        for number in (0..).take_while(|number| !enough(*number)) {
            rounds = number + 1;
            let round = Round { outside: sender.clone(), added: Arc::default(), failed: Arc::default() };
            let run = runtime.run(|context| program(context, seed.wrapping_add(number), &round));
            run.unwrap_or_else(|error| panic!("seed {seed}, round {number}: {error}"));
        }
        over.store(true, Ordering::Relaxed);
        drop(sender);
    });
    println!("{rounds} rounds, {} tasks", runtime.tasks_created());
    // The last round's record goes a moment after its waiter was told.
    let deadline = Instant::now() + Duration::from_secs(30);
    while runtime.tasks_live() > 0 {
        assert!(Instant::now() < deadline, "seed {seed}: {} records were left behind", runtime.tasks_live());
        std::thread::yield_now();
    }
}

/// Takes workers away and gives them back.
fn disturb(runtime: &Runtime, over: &AtomicBool, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(!seed);
    while !over.load(Ordering::Relaxed) {
        let worker = WorkerId(random.random_range(0..WORKERS as u32));
        // The last one is refused.
        let _ = if random.random() { runtime.disable_worker(worker) } else { runtime.enable_worker(worker) };
        std::thread::sleep(Duration::from_micros(random.random_range(10..500)));
    }
    for worker in 0..WORKERS {
        runtime.enable_worker(WorkerId(worker as u32)).expect("it exists");
    }
}
