//! Whether a task that is created alone is left to its creator while others sleep.
//!
//! To hand a task to a worker that sleeps costs a system call and a change of threads. Where each task creates the next one and ends,
//! nothing runs at the same time for it. But nobody can know that the creator is about to end. So one idle worker may *watch*: it sleeps
//! for a moment only, looks, and sleeps again. While somebody watches, a task stays where it was created as long as it is alone there: its
//! creator's worker mostly takes it at once. If the same one is still there when the watcher looks the next time, the watcher
//! takes it. So no task waits for more than two moments while a worker is idle.
//!
//! *Nothing is forgotten*: a creator puts the task into its queue, then the light barrier, then looks whether somebody watches. Who watches no more
//! says so, then the heavy barrier, then looks into all queues, and calls another idle worker if there is something. One of them sees the other.
//!
//! Somebody watches only where that pays: now and then, when tasks are created alone, it is tried, and goes on if more of them are created than
//! were before. Otherwise they are left alone twice as long as the time before.

use crate::workers::WorkerId;
use castell_base::sync::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long the watcher sleeps; the system adds some tens of microseconds.
pub(super) const MOMENT: Duration = Duration::from_micros(50);
/// How it goes without is seen in so much time: at least, and at most.
const WINDOW: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(2)];
/// In which so many tasks are created alone, at least.
const FEW: u64 = 8;
/// So many times as many must be created with a watcher.
const GAIN: f64 = 1.5;
/// And one in so much time.
const FLOW: Duration = Duration::from_micros(10);
/// For how long nobody watches where it did not pay: at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(64)];
/// For how long it is not asked again where it did.
const TRUST: Duration = Duration::from_millis(50);

const NOBODY: u32 = u32::MAX;

/// Who watches, and what is known of whether it pays.
pub(super) struct Watch {
    watcher: AtomicU32,
    habits: Mutex<Habits>,
}

/// When to watch.
struct Habits {
    /// Since when nobody watches, and how many tasks had been created alone by then.
    since: Option<(Instant, u64)>,
    /// Tasks a nanosecond that were created alone without a watcher.
    without: f64,
    patience: Duration,
    rests_until: Option<Instant>,
    trusts_until: Option<Instant>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { watcher: AtomicU32::new(NOBODY), habits: Mutex::new(Habits::new()) }
    }

    /// Whether a task that is alone in a worker's queue may stay there. After it was put there, and the light barrier.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.watcher.load(Ordering::Relaxed) != NOBODY
    }

    /// Who watches: somebody that others are not to claim if they find another.
    pub(super) fn watcher(&self) -> Option<WorkerId> {
        let watcher = self.watcher.load(Ordering::Relaxed);
        (watcher != NOBODY).then_some(WorkerId(watcher))
    }

    /// The worker, which is idle and about to sleep, watches from now on: true if nobody does, and it may pay. So many tasks have been
    /// created alone by now.
    pub(super) fn begin(&self, worker: WorkerId, lone: u64) -> bool {
        !self.is_on() && self.habits().begins(lone, Instant::now()) && self.take(worker)
    }

    /// The worker is the one that watches, unless there is one.
    pub(super) fn take(&self, worker: WorkerId) -> bool {
        self.watcher.compare_exchange(NOBODY, worker.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether the watcher goes on: so many tasks were created alone in so much time.
    pub(super) fn goes_on(&self, lone: u64, time: Duration) -> bool {
        self.habits().go_on(lone, time, Instant::now())
    }

    /// The watcher watches no more. Then it has to look into all queues, after the heavy barrier.
    pub(super) fn end(&self) {
        self.watcher.store(NOBODY, Ordering::Relaxed);
    }

    fn habits(&self) -> MutexGuard<'_, Habits> {
        self.habits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Habits {
    fn new() -> Habits {
        Habits { since: None, without: 0.0, patience: PATIENCE[0], rests_until: None, trusts_until: None }
    }

    fn begins(&mut self, lone: u64, now: Instant) -> bool {
        if self.trusts_until.is_some_and(|until| now < until) {
            return true; // somebody watched, and got something to do
        }
        self.trusts_until = None;
        if self.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        let Some((since, before)) = self.since else {
            self.since = Some((now, lone));
            return false;
        };
        let window = now - since;
        if window < WINDOW[0] {
            return false;
        }
        // Who asked before may have counted later.
        let created = lone.saturating_sub(before);
        self.since = Some((now, lone));
        self.without = pace(created, window);
        window <= WINDOW[1] && created >= FEW
    }

    fn go_on(&mut self, lone: u64, time: Duration, now: Instant) -> bool {
        let least = (GAIN * self.without).max(pace(1, FLOW));
        if pace(lone, time) < least {
            (self.since, self.trusts_until) = (None, None);
            self.rests_until = Some(now + self.patience);
            self.patience = (2 * self.patience).min(PATIENCE[1]);
            return false;
        }
        self.patience = PATIENCE[0];
        if now >= *self.trusts_until.get_or_insert(now + TRUST) {
            (self.since, self.trusts_until) = (None, None);
            return false;
        }
        true
    }
}

/// So many a nanosecond.
fn pace(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_nanos().max(1) as f64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A clock, and how many tasks have been created alone.
    struct World(Instant, u64);

    impl World {
        /// Nobody watches for so many microseconds, in each hundred of which so many are created alone; whether somebody begins then.
        fn passes(&mut self, habits: &mut Habits, micros: u64, pace: u64) -> bool {
            self.0 += Duration::from_micros(micros);
            self.1 += micros * pace / 100;
            habits.begins(self.1, self.0)
        }

        /// Somebody watches for so long.
        fn watches(&mut self, habits: &mut Habits, micros: u64, pace: u64) -> bool {
            let (time, lone) = (Duration::from_micros(micros), micros * pace / 100);
            self.0 += time;
            self.1 += lone;
            habits.go_on(lone, time, self.0)
        }
    }

    fn begin() -> (Habits, World) {
        let (mut habits, mut world) = (Habits::new(), World(Instant::now(), 0));
        assert!(!world.passes(&mut habits, 0, 0), "nothing is known");
        (habits, world)
    }

    #[test]
    fn nobody_watches_where_hardly_a_task_is_alone() {
        let (mut habits, mut world) = begin();
        assert!(!world.passes(&mut habits, 50, 100), "too short to say something");
        assert!(!world.passes(&mut habits, 100_000, 1), "that may have been long ago");
        assert!(!world.passes(&mut habits, 200, 3));
        assert!(world.passes(&mut habits, 200, 4));
        let (now, lone) = (world.0 + WINDOW[0], world.1 - 1);
        assert!(!habits.begins(lone, now), "who counted before, asks after somebody who counted later");
    }

    #[test]
    fn who_watches_goes_on_while_more_is_created() {
        let (mut habits, mut world) = begin();
        assert!(world.passes(&mut habits, 100, 20));
        for _ in 0..500 {
            assert!(world.watches(&mut habits, 100, 31));
        }
        assert!(world.passes(&mut habits, 10, 0), "it was given something meanwhile: the next one watches");
        assert!(!world.watches(&mut habits, 100, 31), "for so long it was trusted");
        assert!(!world.passes(&mut habits, 10, 20), "now it is seen once more how it goes without");
        assert!(!world.passes(&mut habits, 10, 20));
        assert!(world.passes(&mut habits, 100, 20));
        assert!(!world.watches(&mut habits, 100, 29), "not enough is gained");
    }

    #[test]
    fn in_vain_it_is_tried_less_and_less() {
        let (mut habits, mut world) = begin();
        for patience_ms in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(world.passes(&mut habits, 100, 20));
            assert!(!world.watches(&mut habits, 100, 20));
            assert!(!world.passes(&mut habits, patience_ms * 1000 - 1, 20));
            assert!(!world.passes(&mut habits, 1, 20), "from now on it is seen how it goes without");
        }
        assert!(world.passes(&mut habits, 100, 20));
        assert!(world.watches(&mut habits, 100, 40));
        assert!(!world.watches(&mut habits, 100, 9), "one in ten microseconds is the least");
        assert_eq!(habits.patience, 2 * PATIENCE[0]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::fences;
    use super::super::stations::Stations;
    use super::*;
    use castell_sched::{Kind, Topology};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Leaves the one task in the queue if somebody watches, and else calls somebody.
    fn create(stations: &Stations<u64>, queue: &Mutex<bool>) {
        *queue.lock().expect("no panic") = true;
        fences::light();
        if stations.any_idle(Kind::CPU) && !stations.watch.is_on() {
            call(stations);
        }
    }

    fn call(stations: &Stations<u64>) {
        if let Some(claim) = stations.claim(Kind::CPU, None) {
            stations.ring(claim, 0);
        }
    }

    /// The worker waits for the task, not as one that watches.
    fn wait(stations: &Stations<u64>, queue: &Mutex<bool>, worker: WorkerId) {
        loop {
            stations.register(worker);
            fences::heavy();
            if std::mem::take(&mut *queue.lock().expect("no panic")) {
                stations.withdraw(worker, |_| ());
                return;
            }
            while !stations.poll(worker, |_| ()) {
                stations.sleep(worker, None);
            }
        }
    }

    fn model(check: impl Fn(Arc<(Stations<u64>, Mutex<bool>)>) + Sync + Send + 'static) {
        // Three threads: what goes wrong, goes wrong with few changes between them.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let topology: Topology = "cpu:2".parse().expect("a topology");
            check(Arc::new((Stations::new(&topology), Mutex::new(false))));
        });
    }

    /// A watcher that becomes one that sleeps finds what was left because it watched.
    #[test]
    fn nothing_is_left_behind_by_one_that_goes_on_to_sleep() {
        model(|shared| {
            assert!(shared.0.watch.take(WorkerId(0)));
            shared.0.register(WorkerId(0));
            let creator = {
                let shared = shared.clone();
                thread::spawn(move || create(&shared.0, &shared.1))
            };
            shared.0.withdraw(WorkerId(0), |_| ());
            shared.0.watch.end();
            wait(&shared.0, &shared.1, WorkerId(0));
            creator.join().expect("it ends");
        });
    }

    /// A watcher that has something else to do calls somebody for what was left because it watched.
    #[test]
    fn nothing_is_left_behind_by_one_that_goes_away() {
        model(|shared| {
            assert!(shared.0.watch.take(WorkerId(0)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || wait(&shared.0, &shared.1, WorkerId(1)))
            };
            let creator = {
                let shared = shared.clone();
                thread::spawn(move || create(&shared.0, &shared.1))
            };
            shared.0.watch.end();
            fences::heavy();
            if shared.0.any_idle(Kind::CPU) && *shared.1.lock().expect("no panic") {
                call(&shared.0);
            }
            creator.join().expect("it ends");
            other.join().expect("it ends");
        });
    }
}
