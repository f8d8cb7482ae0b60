//! What holds for every scheduler under every order of calls. A failing case is printed with its calls and its seed.

use castell_sched::tree::KEEP;
use castell_sched::{AnyScheduler, Kind, LeafId, Options, Ready, Topology};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Call {
    Add { from: Option<u32>, priority: i32, accelerator: bool, place: Option<usize> },
    Finish { from: u32, successors: u8 },
    Get(u32),
    Disable(u32),
    Enable(u32),
}

fn call() -> impl Strategy<Value = Call> {
    let leaf = || 0..14u32;
    prop_oneof![
        6 => (prop::option::weighted(0.8, leaf()), -2..3i32, prop::bool::weighted(0.2), prop::option::weighted(0.3, 0..3usize))
            .prop_map(|(from, priority, accelerator, place)| Call::Add { from, priority, accelerator, place }),
        2 => (leaf(), 0..4u8).prop_map(|(from, successors)| Call::Finish { from, successors }),
        6 => leaf().prop_map(Call::Get),
        1 => leaf().prop_map(Call::Disable),
        1 => leaf().prop_map(Call::Enable),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let names = [
        "tree",
        "tree:pull=off",
        "tree:fifo,pull=off",
        "tree:priority,successor=0.5",
        "tree:lifo,threshold=0,pull=off",
        "tree:lifo,threshold=500",
        "tree:fifo,threshold=3,rebalance=off,pull=off",
        "tree:lifo,rebalance=off,locality=off",
        "central",
        "central:lifo,slots=off",
        "delegation:fifo,successor=off",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| name.parse().expect("a scheduler"))
}

struct Check {
    topology: Topology,
    scheduler: AnyScheduler<u32>,
    /// What a leaf keeps at most besides the threshold, if there is a bound.
    kept: Option<u32>,
    next: u32,
    /// The kind of each task that has not come out.
    inside: HashMap<u32, Kind>,
    enabled: Vec<bool>,
}

impl Check {
    fn new(options: Options, seed: u64) -> Check {
        let topology: Topology = "numa:2 cpu:6 accelerator:1".parse().expect("a topology");
        let scheduler = AnyScheduler::new(topology.clone(), options, seed);
        let enabled = vec![true; topology.leaves()];
        let kept = if options.pull { Some(KEEP) } else { options.rebalance.then_some(0) };
        Check { topology, scheduler, kept, next: 0, inside: HashMap::new(), enabled }
    }

    fn ready(&mut self, priority: i32, kind: Kind, place: Option<usize>) -> Ready<u32> {
        self.next += 1;
        self.inside.insert(self.next, kind);
        Ready { task: self.next, priority, kind, place }
    }

    fn carry_out(&mut self, call: Call) {
        match call {
            Call::Add { from, priority, accelerator, place } => {
                let kind = if accelerator { Kind::ACCELERATOR } else { Kind::CPU };
                let ready = self.ready(priority, kind, place);
                self.scheduler.add(from.map(LeafId), ready);
            }
            Call::Finish { from, successors } => {
                let ready = (0..successors).map(|_| self.ready(0, Kind::CPU, None)).collect();
                self.scheduler.add_ready(LeafId(from), ready);
            }
            Call::Get(leaf) => {
                self.get(LeafId(leaf));
            }
            Call::Disable(leaf) => self.disable(LeafId(leaf)),
            Call::Enable(leaf) => {
                self.enabled[leaf as usize] = true;
                self.scheduler.enable(LeafId(leaf));
            }
        }
        self.scheduler.drain_log().for_each(drop);
        assert_eq!(self.scheduler.len(), self.inside.len(), "none lost, none twice");
        self.bounds();
    }

    fn get(&mut self, leaf: LeafId) -> bool {
        let Some(ready) = self.scheduler.get(leaf) else { return false };
        assert!(self.enabled[leaf.index()], "a disabled leaf holds nothing");
        let kind = self.inside.remove(&ready.task).expect("came out once");
        assert_eq!(kind, self.topology.kind_of(leaf), "a leaf gets what it can run");
        true
    }

    fn disable(&mut self, leaf: LeafId) {
        let kind = self.topology.kind_of(leaf);
        let same = |other: &LeafId| self.enabled[other.index()] && self.topology.kind_of(*other) == kind;
        let last = self.topology.all().filter(same).all(|other| other == leaf);
        assert_eq!(self.scheduler.disable(leaf), !last, "the last of its kind is refused");
        self.enabled[leaf.index()] &= last;
    }

    fn bounds(&mut self) {
        let AnyScheduler::Tree(tree) = &self.scheduler else { return };
        if let Some(kept) = self.kept {
            let limit = tree.threshold().max(kept) as usize;
            let most = self.topology.all().map(|leaf| tree.queued_at(leaf)).max().unwrap_or(0);
            assert!(most <= limit, "a leaf keeps {most} of {limit}");
        }
    }

    /// All leaves that are there ask until nothing is left.
    fn drain(&mut self) {
        let mut rounds = 0;
        while !self.inside.is_empty() {
            for leaf in
                self.topology.clone().all().filter(|leaf| self.enabled[leaf.index()]).collect::<Vec<_>>()
            {
                self.get(leaf);
            }
            rounds += 1;
            assert!(rounds < 10_000, "{} tasks cannot be got", self.inside.len());
        }
        assert!(self.scheduler.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_task_is_lost_or_comes_twice(options in options(), seed: u64, calls in prop::collection::vec(call(), 0..200)) {
        let mut check = Check::new(options, seed);
        calls.into_iter().for_each(|call| check.carry_out(call));
        check.drain();
    }

    /// Once the dynamic threshold has come down, no leaf goes hungry while another hoards: who asks, gets.
    #[test]
    fn asking_often_enough_always_helps(seed: u64, count in 1..200u32, asker in 0..6u32) {
        let mut check = Check::new("tree:lifo,pull=off".parse().expect("a scheduler"), seed);
        for _ in 0..count {
            check.carry_out(Call::Add { from: Some(7), priority: 0, accelerator: false, place: None });
        }
        for _ in 0..count {
            let got = (0..40).any(|_| check.get(LeafId(asker)));
            prop_assert!(got, "{} left", check.inside.len());
        }
    }

    /// With `pull`, who asks gets something as long as anybody holds something.
    #[test]
    fn an_idle_leaf_finds_what_others_hold(seed: u64, calls in prop::collection::vec(call(), 0..200), asker in 0..6u32) {
        let mut check = Check::new("tree:lifo,locality=off".parse().expect("a scheduler"), seed);
        calls.into_iter().for_each(|call| check.carry_out(call));
        check.carry_out(Call::Enable(asker));
        let AnyScheduler::Tree(tree) = &check.scheduler else { unreachable!() };
        let queues = check.topology.all().filter(|&leaf| check.topology.kind_of(leaf) == Kind::CPU);
        if queues.map(|leaf| tree.queued_at(leaf)).sum::<usize>() > 0 {
            prop_assert!(check.get(LeafId(asker)));
        }
    }

    /// With `pull`, nothing stays in a queue of processors while one of them waits.
    #[test]
    fn nobody_waits_while_others_hold_something(seed: u64, calls in prop::collection::vec(call(), 0..200)) {
        let mut check = Check::new("tree:lifo,locality=off".parse().expect("a scheduler"), seed);
        (0..14).for_each(|leaf| check.carry_out(Call::Get(leaf)));
        for call in calls.into_iter().filter(|call| !matches!(call, Call::Enable(_))) {
            let gets = if let Call::Get(leaf) = call { Some(leaf as usize) } else { None };
            let before = check.inside.len();
            check.carry_out(call);
            let waits = gets.is_some_and(|leaf| check.enabled[leaf]) && check.inside.len() == before;
            let AnyScheduler::Tree(tree) = &check.scheduler else { unreachable!() };
            let kind = check.topology.kind_of(LeafId(gets.unwrap_or(0) as u32));
            let queues = check.topology.all().filter(|&leaf| check.topology.kind_of(leaf) == kind);
            prop_assert!(!waits || queues.map(|leaf| tree.queued_at(leaf)).sum::<usize>() == 0);
        }
    }
}
