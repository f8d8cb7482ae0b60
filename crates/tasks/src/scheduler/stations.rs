//! Where idle workers wait: a set of those that have nothing, and for each a polling slot and a bell.
//!
//! | a worker's bell | its bit in the set | means |
//! |---|---|---|
//! | `QUIET` | set | it polls; whoever takes the bit out may fill its slot, and has to ring |
//! | `QUIET` | not set | it works, or somebody is about to ring |
//! | `ASLEEP` | as above | it sleeps: a ring wakes it |
//! | `RUNG` | not set | its slot has been filled, perhaps with nothing |
//!
//! *No lost wake-up*: a worker sets its bit, then the heavy barrier, then looks into all queues, then sleeps. Whoever adds
//! a task puts it into a queue, then the light barrier, then looks at the count of idle workers. One of them sees the
//! other. Who sleeps for a moment only does without the barrier, and looks again.

use super::fences;
use super::watch::Watch;
use crate::workers::WorkerId;
use castell_base::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, spin_hint};
use castell_sched::{Kind, Topology};
use std::ptr::NonNull;
use std::time::Duration;

const QUIET: u32 = 0;
const ASLEEP: u32 = 1;
const RUNG: u32 = 2;

/// The most tasks that a polling slot takes at once.
pub(super) const SLOT_TASKS: usize = if cfg!(loom) { 2 } else { 64 };
const LOOKS_FOR_RING: u32 = if cfg!(loom) { 1 } else { 1000 };

/// The idle workers of one kind.
#[repr(align(128))]
struct Kinds {
    count: AtomicU32,
}

/// One worker's place to wait, on cache lines of its own.
#[repr(align(128))]
struct Station<T> {
    bell: AtomicU32,
    count: AtomicU32,
    slot: [AtomicPtr<T>; SLOT_TASKS],
    kind: Kind,
}

/// All workers' places to wait.
pub(super) struct Stations<T> {
    kinds: Box<[Kinds]>,
    /// By kind and then by word of 64 workers: who is idle.
    idle: Box<[AtomicU64]>,
    words: usize,
    stations: Box<[Station<T>]>,
    /// By NUMA node and then by word of 64 workers: who belongs to it.
    near: Box<[u64]>,
    pub(super) watch: Watch,
}

/// The right to fill an idle worker's slot, and the duty to ring.
pub(super) struct Claim(pub(super) WorkerId);

impl<T> Stations<T> {
    pub(super) fn new(topology: &Topology) -> Self {
        let words = topology.leaves().div_ceil(64);
        let station = |leaf| Station {
            bell: AtomicU32::new(QUIET),
            count: AtomicU32::new(0),
            slot: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            kind: topology.kind_of(leaf),
        };
        let mut near = vec![0; words * topology.numa_nodes()];
        for leaf in topology.all() {
            near[topology.numa_of(leaf) * words + leaf.index() / 64] |= bit(WorkerId(leaf.0));
        }
        Stations {
            kinds: (0..Kind::COUNT).map(|_| Kinds { count: AtomicU32::new(0) }).collect(),
            idle: (0..words * Kind::COUNT).map(|_| AtomicU64::new(0)).collect(),
            words,
            stations: topology.all().map(station).collect(),
            near: near.into(),
            watch: Watch::new(),
        }
    }

    /// Whether some worker of this kind may be idle. After a task was put into a queue and the light barrier.
    #[inline]
    pub(super) fn any_idle(&self, kind: Kind) -> bool {
        self.idle(kind) != 0
    }

    /// How many workers of this kind may be idle.
    pub(super) fn idle(&self, kind: Kind) -> usize {
        self.kinds[kind.index()].count.load(Ordering::Relaxed) as usize
    }

    /// The worker has nothing to do, and can be handed something from now on.
    pub(super) fn register(&self, worker: WorkerId) {
        let station = &self.stations[worker.index()];
        station.bell.store(QUIET, Ordering::Relaxed);
        station.count.store(0, Ordering::Relaxed);
        self.kinds[station.kind.index()].count.fetch_add(1, Ordering::Relaxed);
        // Release: whoever takes the bit out sees the bell and the count as set above.
        self.word(worker).fetch_or(bit(worker), Ordering::AcqRel);
    }

    /// The worker goes on by itself: `None` if nobody has claimed it, else what it is being handed.
    pub(super) fn withdraw(&self, worker: WorkerId, take: impl FnMut(NonNull<T>)) -> bool {
        if self.take_out(worker) {
            return false;
        }
        let bell = &self.stations[worker.index()].bell;
        let mut looks = 0;
        while bell.load(Ordering::Acquire) != RUNG {
            looks += 1;
            if looks < LOOKS_FOR_RING {
                spin_hint();
            } else if bell.compare_exchange(QUIET, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) != Err(RUNG)
            {
                fences::sleep(bell, ASLEEP);
            }
        }
        self.empty_slot(worker, take);
        true
    }

    /// Whether somebody has rung; if so the worker is not registered any more, and `take` gets what it is handed.
    #[inline]
    pub(super) fn poll(&self, worker: WorkerId, take: impl FnMut(NonNull<T>)) -> bool {
        if self.stations[worker.index()].bell.load(Ordering::Acquire) != RUNG {
            return false;
        }
        self.empty_slot(worker, take);
        true
    }

    /// Sleeps until somebody rings or the time is up. The worker is registered, and has looked into all queues after the
    /// heavy barrier.
    pub(super) fn sleep(&self, worker: WorkerId, timeout: Option<Duration>) {
        let bell = &self.stations[worker.index()].bell;
        if bell.compare_exchange(QUIET, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
            return;
        }
        fences::sleep_for(bell, ASLEEP, timeout);
        let _ = bell.compare_exchange(ASLEEP, QUIET, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Claims an idle worker that runs `kind`, of NUMA node `numa` rather than of another, and one that watches only if there is no
    /// other.
    pub(super) fn claim(&self, kind: Kind, numa: Option<usize>) -> Option<Claim> {
        let watcher = self.watch.watcher();
        let is_watcher = |word| watcher.filter(|watcher| watcher.index() / 64 == word).map_or(0, bit);
        let near = numa.and_then(|numa| self.near.get(numa * self.words..(numa + 1) * self.words));
        let near = near.unwrap_or(&[]).iter().enumerate().filter(|(_, mask)| **mask != 0);
        near.map(|(word, mask)| (word, *mask))
            .chain((0..self.words).map(|word| (word, u64::MAX)))
            .find_map(|(word, mask)| self.claim_in(kind, word, mask & !is_watcher(word)))
            .or_else(|| {
                let watcher = watcher.filter(|watcher| self.stations[watcher.index()].kind == kind)?;
                self.claim_worker(watcher)
            })
    }

    fn claim_in(&self, kind: Kind, word: usize, mask: u64) -> Option<Claim> {
        let idle = &self.idle[kind.index() * self.words + word];
        let mut seen = idle.load(Ordering::Relaxed) & mask;
        while seen != 0 {
            let worker = WorkerId((word * 64) as u32 + seen.trailing_zeros());
            if self.take_out(worker) {
                return Some(Claim(worker));
            }
            seen = idle.load(Ordering::Relaxed) & mask;
        }
        None
    }

    /// Claims this worker, if it is idle.
    pub(super) fn claim_worker(&self, worker: WorkerId) -> Option<Claim> {
        self.take_out(worker).then_some(Claim(worker))
    }

    /// Puts a task into a claimed worker's slot; at most [`SLOT_TASKS`], `number` counts them from 0.
    pub(super) fn fill(&self, claim: &Claim, number: usize, task: NonNull<T>) {
        self.stations[claim.0.index()].slot[number].store(task.as_ptr(), Ordering::Relaxed);
    }

    /// Tells a claimed worker that its slot has `count` tasks.
    pub(super) fn ring(&self, claim: Claim, count: usize) {
        let station = &self.stations[claim.0.index()];
        station.count.store(count as u32, Ordering::Relaxed);
        // Release: the slot and its count. The worker is still there: it cannot go on before the bell.
        if station.bell.swap(RUNG, Ordering::Release) == ASLEEP {
            fences::wake(&station.bell);
        }
    }

    fn empty_slot(&self, worker: WorkerId, mut take: impl FnMut(NonNull<T>)) {
        let station = &self.stations[worker.index()];
        let count = station.count.load(Ordering::Relaxed) as usize;
        for task in &station.slot[..count] {
            take(NonNull::new(task.load(Ordering::Relaxed)).expect("the slot was filled up to its count"));
        }
        station.bell.store(QUIET, Ordering::Relaxed);
    }

    /// Takes a worker's bit out; true if it was set: whoever gets true has claimed it.
    fn take_out(&self, worker: WorkerId) -> bool {
        let bit = bit(worker);
        if self.word(worker).load(Ordering::Relaxed) & bit == 0 {
            return false; // as most of the time, and nobody's cache line changes
        }
        if self.word(worker).fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            return false;
        }
        self.kinds[self.stations[worker.index()].kind.index()].count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn word(&self, worker: WorkerId) -> &AtomicU64 {
        let kind = self.stations[worker.index()].kind;
        &self.idle[kind.index() * self.words + worker.index() / 64]
    }
}

fn bit(worker: WorkerId) -> u64 {
    1 << (worker.0 % 64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn task(number: usize) -> NonNull<u64> {
        NonNull::new((number * 8) as *mut u64).expect("not null")
    }

    fn stations(topology: &str) -> Stations<u64> {
        Stations::new(&topology.parse().expect("a topology"))
    }

    #[test]
    fn claims_prefer_the_own_node_and_the_right_kind() {
        let stations = stations("numa:2 cpu:64 accelerator:1");
        let (near, far, accelerator) = (WorkerId(70), WorkerId(3), WorkerId(64));
        [near, far, accelerator].into_iter().for_each(|worker| stations.register(worker));
        let claimed = |kind, numa| stations.claim(kind, numa).map(|claim| claim.0);
        assert_eq!(claimed(Kind::CPU, Some(1)), Some(near));
        assert_eq!(claimed(Kind::CPU, Some(1)), Some(far));
        assert!(!stations.any_idle(Kind::CPU) && stations.any_idle(Kind::ACCELERATOR));
        assert_eq!(claimed(Kind::CPU, None), None);
        assert_eq!(claimed(Kind::ACCELERATOR, Some(1)), Some(accelerator));
    }

    #[test]
    fn claims_prefer_the_own_node_among_few() {
        let stations = stations("numa:3 cpu:2");
        (0..6).for_each(|worker| stations.register(WorkerId(worker)));
        let claimed = |numa| stations.claim(Kind::CPU, numa).map(|claim| claim.0.0);
        assert_eq!([Some(2), Some(1), Some(1), Some(1), None].map(claimed), [4, 2, 3, 0, 1].map(Some));
    }

    #[test]
    fn a_slot_takes_several() {
        let stations = stations("cpu:2");
        let worker = WorkerId(1);
        stations.register(worker);
        assert!(!stations.poll(worker, |_| panic!("nothing yet")));
        let claim = stations.claim_worker(worker).expect("idle");
        assert!(stations.claim_worker(worker).is_none());
        (0..3).for_each(|number| stations.fill(&claim, number, task(number + 1)));
        stations.ring(claim, 3);
        let mut got = Vec::new();
        assert!(stations.poll(worker, |task| got.push(task)));
        assert_eq!(got, [task(1), task(2), task(3)]);
        stations.register(worker);
        assert!(!stations.withdraw(worker, |_| panic!("nobody came")));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A worker waits for the one task that another thread puts into a queue, or into its slot.
    fn hand_over(direct: bool) {
        loom::model(move || {
            let topology: Topology = "cpu:1".parse().expect("a topology");
            let shared = Arc::new((Stations::<u64>::new(&topology), Mutex::new(None)));
            let adder = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (stations, queue) = &*shared;
                    let task = NonNull::<u64>::dangling();
                    if direct && let Some(claim) = stations.claim(Kind::CPU, Some(0)) {
                        stations.fill(&claim, 0, task);
                        return stations.ring(claim, 1);
                    }
                    *queue.lock().expect("no panic") = Some(8);
                    fences::light();
                    if stations.any_idle(Kind::CPU)
                        && let Some(claim) = stations.claim(Kind::CPU, None)
                    {
                        stations.ring(claim, 0);
                    }
                })
            };
            let (stations, queue) = &*shared;
            let worker = WorkerId(0);
            let mut got = 0;
            while got == 0 {
                stations.register(worker);
                fences::heavy();
                if queue.lock().expect("no panic").take().is_some() {
                    got += 1;
                    stations.withdraw(worker, |_| got += 1);
                    break;
                }
                while !stations.poll(worker, |_| got += 1) {
                    stations.sleep(worker, None);
                }
            }
            adder.join().expect("the adder ends");
            assert_eq!(got, 1);
        });
    }

    #[test]
    fn no_wake_up_is_lost_through_the_queue() {
        hand_over(false);
    }

    #[test]
    fn no_task_is_lost_in_the_slot() {
        hand_over(true);
    }
}
