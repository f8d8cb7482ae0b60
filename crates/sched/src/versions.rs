//! Which of a task's versions runs: the one that is expected to be over first.
//!
//! What a version takes is known from those that ran before, by label and kind, or from the program. A version whose time nobody knows is
//! tried once. Earliest finish by measured times is how OmpSs chose among versions (J. Planas, R. M. Badia, E. Ayguadé, J. Labarta,
//! "Self-adaptive OmpSs tasks in heterogeneous environments", IPDPS 2013), and StarPU's `dmda` does.

use crate::topology::Kind;
use std::collections::HashMap;

/// Labels whose times are kept apart; further ones share one entry.
pub const LABELS_MAX: usize = 1024;

/// So many runs count in a mean: what takes another time from some moment on is believed soon.
const RUNS_IN_MEAN: u64 = 32;

/// The versions of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    order: [Kind; Kind::COUNT],
    count: u8,
    given_ns: [u64; Kind::COUNT],
    /// They stand best first, whatever they take.
    pub is_ranked: bool,
}

impl Default for Versions {
    fn default() -> Versions {
        Versions { order: [Kind::CPU; Kind::COUNT], count: 0, given_ns: [0; Kind::COUNT], is_ranked: false }
    }
}

impl Versions {
    /// One more, for workers of this kind, behind the others; what it takes in nanoseconds, 0 if nobody knows. False if there is one for that kind, or
    /// there is no such kind.
    #[must_use]
    pub fn add(&mut self, kind: Kind, takes_ns: u64) -> bool {
        if kind.index() >= Kind::COUNT || self.kinds().contains(&kind) {
            return false;
        }
        self.order[usize::from(self.count)] = kind;
        self.given_ns[kind.index()] = takes_ns;
        self.count += 1;
        true
    }

    /// The one that was added last takes so many nanoseconds; 0: nobody knows.
    pub fn set_given(&mut self, takes_ns: u64) {
        if let Some(last) = self.kinds().last() {
            self.given_ns[last.index()] = takes_ns;
        }
    }

    /// Their kinds, in the order in which they were added.
    pub fn kinds(&self) -> &[Kind] {
        &self.order[..usize::from(self.count)]
    }

    /// Only those of kinds for which `keeps` says so.
    pub fn only(mut self, keeps: impl Fn(Kind) -> bool) -> Versions {
        let kinds = self.order;
        let kept = kinds[..usize::from(self.count)].iter().copied().filter(|&kind| keeps(kind));
        self.count = 0;
        for kind in kept {
            self.order[usize::from(self.count)] = kind;
            self.count += 1;
        }
        self
    }

    /// What the program says that the version of this kind takes, in nanoseconds.
    pub fn given_ns(&self, kind: Kind) -> Option<u64> {
        Some(self.given_ns[kind.index()]).filter(|&ns| ns > 0)
    }
}

/// A task that is to be run by one of its versions.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Its label: those with the same one are expected to take the same time for the same cost.
    pub label: &'a str,
    /// An estimate of its work in units of the program's own; 0 counts as 1.
    pub cost: u32,
    /// Its versions; at least one.
    pub versions: &'a Versions,
}

/// What was chosen for a task, to be told again when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Workers of this kind run it.
    pub kind: Kind,
    /// What it is expected to take, in nanoseconds; 0: not known.
    pub expected_ns: u64,
    /// It is the first of its label there.
    pub is_trial: bool,
}

/// How a task ended for which a version was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran, for so many nanoseconds.
    Ran(u64),
    /// It failed: how long that took says nothing.
    Failed,
    /// It was skipped.
    Skipped,
}

/// What versions with one label took on workers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The label; empty for those without one and those that are too many.
    pub label: String,
    /// The kind.
    pub kind: Kind,
    /// How many ran, and did not fail.
    pub runs: u64,
    /// The mean over the last ones, in nanoseconds a unit of cost; the first run counts only as long as there is no other.
    pub mean_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Times {
    runs: u64,
    mean_ns: u64,
    is_tried: bool,
}

/// What was chosen for workers of one kind and is not over.
#[derive(Clone, Copy, Default)]
struct Backlog {
    tasks: u64,
    ns: u64,
}

/// Chooses, and remembers.
pub struct Chooser {
    workers: [u64; Kind::COUNT],
    backlog: [Backlog; Kind::COUNT],
    labels: HashMap<Box<str>, [Times; Kind::COUNT]>,
}

impl Chooser {
    /// For so many workers of each kind.
    pub fn new(workers: [u64; Kind::COUNT]) -> Chooser {
        Chooser { workers, backlog: Default::default(), labels: HashMap::new() }
    }

    /// So many workers of each kind run tasks from now on.
    pub fn set_workers(&mut self, workers: [u64; Kind::COUNT]) {
        self.workers = workers;
    }

    /// The version that is over first if it is chosen now, as far as is known; of several, the one that was added first. If they are ranked:
    /// the best one with a worker that has nothing else of this to do, or else the one with the shortest queue.
    ///
    /// # Panics
    /// There is no version.
    pub fn choose(&mut self, wish: &Wish<'_>) -> Choice {
        let (kind, is_trial) = self.decide(wish);
        let expected_ns = self.expected_ns(wish, kind).unwrap_or(0);
        if is_trial {
            self.times_mut(wish.label)[kind.index()].is_tried = true;
        }
        self.note(Choice { kind, expected_ns, is_trial })
    }

    /// Somebody else has chosen the version for this kind.
    pub fn assign(&mut self, wish: &Wish<'_>, kind: Kind) -> Choice {
        let expected_ns = self.expected_ns(wish, kind).unwrap_or(0);
        self.note(Choice { kind, expected_ns, is_trial: false })
    }

    fn note(&mut self, choice: Choice) -> Choice {
        let backlog = &mut self.backlog[choice.kind.index()];
        (backlog.tasks, backlog.ns) = (backlog.tasks + 1, backlog.ns.saturating_add(choice.expected_ns));
        choice
    }

    fn decide(&self, wish: &Wish<'_>) -> (Kind, bool) {
        let kinds = wish.versions.kinds();
        let shortest = || kinds.iter().copied().min_by(|&one, &other| self.compare_queues(one, other));
        let nothing = "a task has a version";
        if wish.versions.is_ranked {
            let free = kinds.iter().copied().find(|&kind| self.is_free(kind));
            return (free.or_else(shortest).expect(nothing), false);
        }
        let times = self.times(wish.label);
        let is_untried =
            |&&kind: &&Kind| !times[kind.index()].is_tried && wish.versions.given_ns(kind).is_none();
        if kinds.len() > 1
            && let Some(&untried) = kinds.iter().find(is_untried)
        {
            return (untried, true);
        }
        let finish = |kind: Kind| {
            let own = u128::from(self.expected_ns(wish, kind)?);
            let before = if self.is_free(kind) { 0 } else { u128::from(self.backlog[kind.index()].ns) };
            // Compared as fractions: a queue is shared by its workers.
            Some(own + before / u128::from(self.workers[kind.index()].max(1)))
        };
        let earliest = kinds.iter().filter_map(|&kind| Some((finish(kind)?, kind)));
        let earliest = earliest.min_by_key(|&(finish, _)| finish).map(|(_, kind)| kind);
        (earliest.or_else(shortest).expect(nothing), false)
    }

    /// The task is over for which this was chosen.
    pub fn ended(&mut self, label: &str, cost: u32, choice: Choice, outcome: Outcome) {
        let backlog = &mut self.backlog[choice.kind.index()];
        backlog.tasks = backlog.tasks.saturating_sub(1);
        backlog.ns = backlog.ns.saturating_sub(choice.expected_ns);
        let times = &mut self.times_mut(label)[choice.kind.index()];
        match outcome {
            Outcome::Ran(ns) => {
                let ns = ns / u64::from(cost.max(1));
                // The first may have loaded, compiled, or touched what the others find there.
                let counting = times.runs.clamp(1, RUNS_IN_MEAN);
                let mean = i128::from(times.mean_ns);
                let mean = if times.runs < 2 {
                    ns
                } else {
                    (mean + (i128::from(ns) - mean) / i128::from(counting)) as u64
                };
                *times = Times { runs: times.runs + 1, mean_ns: mean, is_tried: true };
            }
            Outcome::Failed => {}
            // Another one is tried instead.
            Outcome::Skipped => times.is_tried &= !choice.is_trial,
        }
    }

    /// What was measured, by label and kind.
    pub fn measured(&self) -> Vec<Measured> {
        let of_label = |(label, times): (&str, &[Times; Kind::COUNT])| {
            let label = label.to_owned();
            let kinds = (0..).map(Kind).zip(*times).filter(|(_, times)| times.runs > 0);
            let measured = kinds.map(move |(kind, Times { runs, mean_ns, .. })| Measured {
                label: label.clone(),
                kind,
                runs,
                mean_ns,
            });
            measured.collect::<Vec<_>>()
        };
        let mut all: Vec<Measured> =
            self.labels.iter().map(|(label, times)| (&**label, times)).flat_map(of_label).collect();
        all.sort_by(|one, other| (&one.label, one.kind).cmp(&(&other.label, other.kind)));
        all
    }

    /// What is known of one version of a label, in nanoseconds a unit of cost.
    pub fn mean_ns(&self, label: &str, kind: Kind) -> Option<u64> {
        let times = self.times(label)[kind.index()];
        (times.runs > 0).then_some(times.mean_ns)
    }

    fn times(&self, label: &str) -> [Times; Kind::COUNT] {
        self.labels.get(label).or_else(|| self.labels.get("")).copied().unwrap_or_default()
    }

    fn times_mut(&mut self, label: &str) -> &mut [Times; Kind::COUNT] {
        let is_known = self.labels.contains_key(label);
        let label = if is_known || self.labels.len() < LABELS_MAX { label } else { "" };
        self.labels.entry(label.into()).or_default()
    }

    /// What the version for this kind is expected to take, in nanoseconds, as far as is known.
    pub fn expected_ns(&self, wish: &Wish<'_>, kind: Kind) -> Option<u64> {
        if let Some(given) = wish.versions.given_ns(kind) {
            return Some(given);
        }
        let times = self.times(wish.label)[kind.index()];
        (times.runs > 0).then(|| times.mean_ns.saturating_mul(u64::from(wish.cost.max(1))))
    }

    fn is_free(&self, kind: Kind) -> bool {
        self.backlog[kind.index()].tasks < self.workers[kind.index()]
    }

    /// By how much is queued for each worker.
    fn compare_queues(&self, one: Kind, other: Kind) -> std::cmp::Ordering {
        let tasks = |kind: Kind| u128::from(self.backlog[kind.index()].tasks);
        let workers = |kind: Kind| u128::from(self.workers[kind.index()].max(1));
        (tasks(one) * workers(other)).cmp(&(tasks(other) * workers(one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Kind = Kind::ACCELERATOR;

    fn versions(kinds: &[(Kind, u64)]) -> Versions {
        let mut versions = Versions::default();
        assert!(kinds.iter().all(|&(kind, ns)| versions.add(kind, ns)));
        versions
    }

    fn wish<'a>(label: &'a str, versions: &'a Versions) -> Wish<'a> {
        Wish { label, cost: 0, versions }
    }

    fn chooser(cpus: u64, gpus: u64) -> Chooser {
        let mut workers = [0; Kind::COUNT];
        (workers[0], workers[1]) = (cpus, gpus);
        Chooser::new(workers)
    }

    #[test]
    fn each_is_tried_once_and_then_the_earliest_is_chosen() {
        let (mut chooser, both) = (chooser(1, 1), versions(&[(Kind::CPU, 0), (GPU, 0)]));
        let tried = [chooser.choose(&wish("x", &both)), chooser.choose(&wish("x", &both))];
        assert_eq!(tried.map(|choice| (choice.kind, choice.is_trial)), [(Kind::CPU, true), (GPU, true)]);
        // Nothing is known yet: by the queues, and in the order in which they stand.
        let third = chooser.choose(&wish("x", &both));
        assert_eq!(third, Choice { kind: Kind::CPU, expected_ns: 0, is_trial: false });
        chooser.ended("x", 0, tried[0], Outcome::Ran(1000));
        chooser.ended("x", 0, third, Outcome::Skipped);
        chooser.ended("x", 0, tried[1], Outcome::Ran(300));
        // 300, 600, 900 on the GPU against 1000; the fourth would be over after 1200 there.
        let kinds = [(); 5].map(|()| chooser.choose(&wish("x", &both)).kind);
        assert_eq!(kinds, [GPU, GPU, GPU, Kind::CPU, GPU]);
        assert_eq!(chooser.measured().len(), 2);
    }

    #[test]
    fn what_the_program_says_is_believed() {
        let (mut chooser, both) = (chooser(1, 1), versions(&[(GPU, 500), (Kind::CPU, 500)]));
        let first = chooser.choose(&wish("x", &both));
        assert_eq!(first, Choice { kind: GPU, expected_ns: 500, is_trial: false });
        assert_eq!(chooser.choose(&wish("x", &both)).kind, Kind::CPU);
        chooser.ended("x", 0, first, Outcome::Ran(1_000_000));
        assert_eq!(chooser.choose(&wish("x", &both)).kind, GPU);
    }

    #[test]
    fn ranked_ones_take_the_best_that_is_free_and_then_the_shortest_queue() {
        let (mut chooser, mut both) = (chooser(2, 1), versions(&[(GPU, 9_000), (Kind::CPU, 1)]));
        both.is_ranked = true;
        let kinds = [(); 6].map(|()| chooser.choose(&wish("x", &both)).kind);
        assert_eq!(kinds, [GPU, Kind::CPU, Kind::CPU, GPU, Kind::CPU, Kind::CPU]);
        // Four for processors, two for the GPU: of five processors one is free, and then each has one.
        let mut workers = [0; Kind::COUNT];
        (workers[0], workers[1]) = (5, 1);
        chooser.set_workers(workers);
        assert_eq!([(); 2].map(|()| chooser.choose(&wish("x", &both)).kind), [Kind::CPU, Kind::CPU]);
    }

    /// What is queued is shared by the workers, of which one that is free begins at once.
    #[test]
    fn the_earliest_is_over_first_in_its_queue() {
        let (mut chooser, mut both) = (chooser(2, 1), versions(&[(Kind::CPU, 0), (GPU, 0)]));
        both.set_given(100);
        assert_eq!((both.given_ns(Kind::CPU), both.given_ns(GPU)), (None, Some(100)));
        let both = versions(&[(Kind::CPU, 1000), (GPU, 500)]);
        // The GPU after 500, 1000 (as early as a processor, which was added first), on either processor after 1000, then the
        // GPU's 1000 against 1000 + 2000 / 2, its 1500, 2000 (again not earlier).
        let kinds = [(); 6].map(|()| chooser.choose(&wish("x", &both)).kind);
        assert_eq!(kinds, [GPU, Kind::CPU, Kind::CPU, GPU, GPU, Kind::CPU]);
    }

    #[test]
    fn labels_without_a_place_share_one() {
        let mut chooser = chooser(1, 1);
        let one = versions(&[(Kind::CPU, 0)]);
        let mut run = |label: &str, ns| {
            let choice = chooser.choose(&wish(label, &one));
            chooser.ended(label, 0, choice, Outcome::Ran(ns));
            chooser.mean_ns(label, Kind::CPU)
        };
        for number in 0..LABELS_MAX {
            assert!(run(&format!("label {number}"), 7).is_some(), "{number}");
        }
        run("one more", 500);
        run("one more", 500);
        assert_eq!(run("another", 500), Some(500), "as those that came too late");
        assert_eq!(run("label 3", 7), Some(7));
    }

    #[test]
    fn times_are_for_a_unit_of_cost_and_the_first_run_is_forgotten() {
        let (mut chooser, both) = (chooser(1, 1), versions(&[(Kind::CPU, 0), (GPU, 0)]));
        let large = Wish { label: "x", cost: 10, versions: &both };
        let tried = [chooser.choose(&large), chooser.choose(&large)];
        chooser.ended("x", 10, tried[0], Outcome::Ran(10_000_000));
        assert_eq!(chooser.mean_ns("x", Kind::CPU), Some(1_000_000));
        let again = Choice { kind: Kind::CPU, expected_ns: 0, is_trial: false };
        for (ran, mean) in [(1000, 100), (2000, 150), (3000, 200)] {
            chooser.ended("x", 10, again, Outcome::Ran(ran));
            assert_eq!(chooser.mean_ns("x", Kind::CPU), Some(mean));
        }
    }

    #[test]
    fn who_fails_when_tried_is_not_chosen_and_who_is_skipped_is_tried_again() {
        let (mut chooser, both) = (chooser(1, 1), versions(&[(GPU, 0), (Kind::CPU, 0)]));
        let first = chooser.choose(&wish("x", &both));
        chooser.ended("x", 0, first, Outcome::Skipped);
        let second = chooser.choose(&wish("x", &both));
        assert_eq!((second.kind, second.is_trial), (GPU, true));
        chooser.ended("x", 0, second, Outcome::Failed);
        let third = chooser.choose(&wish("x", &both));
        assert_eq!((third.kind, third.is_trial), (Kind::CPU, true));
        chooser.ended("x", 0, third, Outcome::Ran(1_000_000_000));
        assert!((0..100).all(|_| chooser.choose(&wish("x", &both)).kind == Kind::CPU));
    }

    #[test]
    fn labels_are_bounded_and_kinds_once() {
        let mut chooser = chooser(1, 1);
        let one = versions(&[(Kind::CPU, 0)]);
        for number in 0..2 * LABELS_MAX {
            let label = format!("label {number}");
            let choice = chooser.choose(&wish(&label, &one));
            chooser.ended(&label, 0, choice, Outcome::Ran(7));
        }
        assert!(chooser.measured().len() <= LABELS_MAX + 1);
        let mut twice = one;
        assert!(!twice.add(Kind::CPU, 0) && !twice.add(Kind(8), 0) && twice.add(GPU, 3));
        assert_eq!(twice.only(|kind| kind == GPU).kinds(), [GPU]);
    }

    /// Whatever is chosen and however it ends: nothing is left in the queues at the end, and the same calls give the same choices.
    #[test]
    fn queues_are_empty_in_the_end() {
        for seed in 0..50_u64 {
            let run = || {
                let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut random = |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) % below
                };
                let mut chooser = Chooser::new([2, 1, 1, 0, 0, 0, 0, 0]);
                let (mut open, mut log) = (Vec::new(), Vec::new());
                for _ in 0..300 {
                    if random(2) == 0 || open.is_empty() {
                        let mut some = Versions::default();
                        (0..=random(3))
                            .for_each(|_| _ = some.add(Kind(random(3) as u8), random(2) * random(1000)));
                        some.is_ranked = random(4) == 0;
                        let (label, cost) = (["a", "b", ""][random(3) as usize], random(4) as u32);
                        let choice = chooser.choose(&Wish { label, cost, versions: &some });
                        assert!(some.kinds().contains(&choice.kind), "seed {seed}");
                        open.push((label, cost, choice));
                        log.push(choice);
                    } else {
                        let (label, cost, choice) = open.swap_remove(random(open.len() as u64) as usize);
                        let outcomes = [Outcome::Ran(random(5000)), Outcome::Failed, Outcome::Skipped];
                        chooser.ended(label, cost, choice, outcomes[random(3) as usize]);
                    }
                }
                for (label, cost, choice) in open {
                    chooser.ended(label, cost, choice, Outcome::Failed);
                }
                assert!(chooser.backlog.iter().all(|queue| (queue.tasks, queue.ns) == (0, 0)), "seed {seed}");
                log
            };
            assert_eq!(run(), run(), "seed {seed}");
        }
    }
}
