//! A node whose strategy is exchanged all the time, for good ones and for bad ones; and ticks.

mod shipped;

use castell_base::random::Key;
use castell_base::{Moment, Rank, Time};
use castell_luau::Script;
use castell_luau::sandbox::Limits;
use castell_luau::shipped::ALL;
use castell_strategy::{
    CollectionId, Decision, Fault, Happened, Keeper, Kernel, Kernels, Node, Place, ResourceId, ResourceKind,
    Strategy,
};
use rand_core::RngCore;
use shipped::shipped;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const MS: fn(u64) -> Time = |ms| Time::from_us(1000 * ms);

fn node() -> Node {
    let names = ["one_core", "all_cores", "gpu"].map(|name| (name.to_owned(), ResourceKind::of(name)));
    Node::new(names).expect("three names")
}

/// What a node has to do with a collection: registered, then as many steps as it has, each begun and ended in turn, then nothing more.
#[derive(Default)]
struct Books {
    steps_left: BTreeMap<CollectionId, u32>,
    running: BTreeMap<ResourceId, CollectionId>,
    done: usize,
    faults: usize,
}

impl Books {
    fn follow(&mut self, keeper: &mut Keeper, seed: u64) {
        for event in keeper.take_events() {
            match event.what {
                Happened::Started(start) => {
                    let runs_already = self.running.values().any(|running| *running == start.collection);
                    assert!(!runs_already, "seed {seed}: {start:?} runs twice");
                    let before = self.running.insert(start.resource, start.collection);
                    assert_eq!(before, None, "seed {seed}: two on {:?}", start.resource);
                    assert!(self.steps_left[&start.collection] > 0, "seed {seed}");
                }
                Happened::Ended { collection, resource, is_done } => {
                    assert_eq!(self.running.remove(&resource), Some(collection), "seed {seed}");
                    let left = self.steps_left.get_mut(&collection).expect("it was registered");
                    *left -= 1;
                    assert_eq!(is_done, *left == 0, "seed {seed}");
                    if is_done {
                        self.steps_left.remove(&collection);
                        self.done += 1;
                    }
                }
                Happened::Withdrawn(collection) => {
                    self.running.retain(|_, running| *running != collection);
                    self.steps_left.remove(&collection).expect("it was there");
                }
                Happened::Fault(_) => self.faults += 1,
                _ => {}
            }
        }
        self.compare(keeper.node(), seed);
    }

    /// Each collection is in one place, the one that it is said to be in, and none is forgotten.
    fn compare(&self, node: &Node, seed: u64) {
        assert_eq!(node.collections().len(), self.steps_left.len(), "seed {seed}");
        let mut places = BTreeMap::new();
        node.waiting()
            .iter()
            .for_each(|id| assert!(places.insert(*id, Place::Waiting).is_none(), "seed {seed}"));
        for (at, resource) in node.resources().iter().enumerate() {
            let at = ResourceId(at);
            assert_eq!(resource.running, self.running.get(&at).copied(), "seed {seed}");
            let queued = resource.queue.iter().map(|id| (*id, Place::Queued(at)));
            for (id, place) in queued.chain(resource.running.map(|id| (id, Place::Running(at)))) {
                assert!(places.insert(id, place).is_none(), "seed {seed}: {id:?} is in two places");
            }
        }
        for collection in node.collections() {
            assert_eq!(places.get(&collection.id), Some(&collection.place), "seed {seed}");
        }
    }
}

/// Bad ones: each does something wrong sooner or later.
const BAD: [&str; 5] = [
    "return { choose = function() while true do end end }",
    "return { choose = function(node) if #node.waiting > 3 then return 1, 'gpu' end end }",
    "local n = 0 return { tick = 1, on_tick = function() error('late') end, choose = function() end }",
    "return { choose = function(node) return node.waiting[1], node.waiting[1] and 'gpu' end }",
    "local kept = {} return { choose = function(node) for i = 1, 1e5 do kept[#kept + 1] = { i } end end }",
];

fn bad(number: usize) -> Script {
    let limits = Limits { steps_max: 20_000, memory_bytes_max: 4 << 20, time: None };
    Script::load("bad.luau", BAD[number], limits).expect("it loads")
}

/// Exchanged two thousand times under load: not one collection is lost or runs twice.
#[test]
fn nothing_is_lost_however_often_the_strategy_is_exchanged() {
    for seed in 0..4 {
        let mut random = Key { seed, rank: Rank(0), operation: 0 }.stream(0);
        let mut below = move |end: usize| (random.next_u64() % end as u64) as usize;
        let mut keeper = Keeper::new(node(), Box::new(shipped("short-term")));
        let (mut books, mut now, mut registered, mut withdrawn) = (Books::default(), Time::ZERO, 0, 0);
        keeper.node_mut().set_forbidden("low", &["gpu".into()]).expect("it is there");
        for _ in 0..500 {
            now += MS(below(2000) as u64);
            let strategy =
                if below(3) == 0 { bad(below(BAD.len())) } else { shipped(ALL[below(ALL.len())].name) };
            keeper.replace(now, Box::new(strategy));
            books.follow(&mut keeper, seed);
            for _ in 0..below(3) {
                let steps = 1 + below(3) as u32;
                let id = keeper
                    .register(now, "a".into(), some_kernels(&mut below), steps)
                    .expect("kernels that are there");
                books.steps_left.insert(id, steps);
                registered += 1;
                books.follow(&mut keeper, seed);
            }
            keeper.tick(now);
            match below(12) {
                0 => keeper.set_governor(now, ["high", "low"][below(2)]),
                1 => {
                    let gone = keeper.node().collections().next().map(|collection| collection.id);
                    withdrawn += usize::from(gone.is_some());
                    gone.into_iter().for_each(|id| keeper.withdraw(now, id));
                }
                _ => {}
            }
            books.follow(&mut keeper, seed);
            for _ in 0..below(12) {
                let Some(&on) = books.running.keys().nth(below(3)) else { continue };
                keeper.ended(now, on).expect("it runs");
                books.follow(&mut keeper, seed);
            }
        }
        // In the end a good one, and all gets done.
        keeper.set_governor(now, "high");
        keeper.replace(now, Box::new(shipped("short-term")));
        books.follow(&mut keeper, seed);
        while let Some(&on) = books.running.keys().next() {
            now += MS(1);
            keeper.ended(now, on).expect("it runs");
            books.follow(&mut keeper, seed);
        }
        assert_eq!((books.steps_left.len(), books.done), (0, registered - withdrawn), "seed {seed}");
        assert!(books.faults > 50, "seed {seed}: {} bad ones were found", books.faults);
    }
}

fn some_kernels(below: &mut impl FnMut(usize) -> usize) -> Arc<Kernels> {
    // One that runs under `low`, too.
    let mut kernels =
        vec![Kernel { resource: ResourceId(below(2)), step_time: Some(MS(1 + below(5000) as u64)) }];
    if below(2) == 0 {
        kernels.push(Kernel {
            resource: ResourceId(2),
            step_time: (below(4) > 0).then(|| MS(1 + below(5000) as u64)),
        });
    }
    Arc::new(Kernels::new(kernels, Vec::new()).expect("kernels"))
}

/// Notes when it is called, and has an interval that can be changed from outside.
struct Clockwork {
    calls_ms: Arc<Mutex<Vec<u64>>>,
    interval_ms: Arc<Mutex<u64>>,
}

impl Strategy for Clockwork {
    fn name(&self) -> &str {
        "clockwork"
    }

    fn tick(&self) -> Option<Time> {
        Some(MS(*self.interval_ms.lock().expect("unharmed"))).filter(|interval| *interval > Time::ZERO)
    }

    fn choose(&mut self, _: &Node) -> Result<Option<Decision>, Fault> {
        Ok(None)
    }

    fn on_tick(&mut self, node: &Node) -> Result<(), Fault> {
        self.calls_ms.lock().expect("unharmed").push(node.now().since_beginning().0 / 1_000_000_000);
        Ok(())
    }
}

#[test]
fn ticks_can_be_changed_and_a_clock_may_jump() {
    let (calls_ms, interval_ms) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(10)));
    let mut keeper = Keeper::new(
        node(),
        Box::new(Clockwork { calls_ms: calls_ms.clone(), interval_ms: interval_ms.clone() }),
    );
    let calls = || std::mem::take(&mut *calls_ms.lock().expect("unharmed"));
    (0..35).for_each(|ms| keeper.tick(MS(ms)));
    assert_eq!(calls(), [10, 20, 30]);
    // The clock jumps over five of them: one is due, and the next where it would have been.
    (85..95).for_each(|ms| keeper.tick(MS(ms)));
    assert_eq!(calls(), [85, 90]);
    // It goes back: nothing happens until it has caught up.
    (0..94).for_each(|ms| keeper.tick(MS(ms)));
    assert_eq!((calls().len(), keeper.node().now()), (0, Moment::from(MS(94))));
    *interval_ms.lock().expect("unharmed") = 3;
    (94..107).for_each(|ms| keeper.tick(MS(ms)));
    assert_eq!(calls(), [100, 103, 106], "a new interval begins behind the call that changed it");
    *interval_ms.lock().expect("unharmed") = 0;
    (107..200).for_each(|ms| keeper.tick(MS(ms)));
    assert_eq!((calls().len(), keeper.next_tick()), (1, None));
}

#[test]
fn a_script_changes_its_own_interval() {
    let text = "local s = { tick = 1 } function s.on_tick(node) s.tick = if node.now < 3 then 2 else 0 end \
                function s.choose() end return s";
    let script = Script::load("own.luau", text, Limits::default()).expect("it loads");
    let mut keeper = Keeper::new(node(), Box::new(script));
    let mut at = Vec::new();
    while let Some(next) = keeper.next_tick() {
        at.push(next);
        keeper.tick(next);
    }
    assert_eq!(at, [MS(1000), MS(3000)].map(Moment::from));
}

/// A keeper that has run for longer than a [`Time`] can tell, with every strategy: it decides as it did in its first minute.
#[test]
fn years_later_all_is_as_in_the_beginning() {
    let minute = |name: &str, begin: Moment| {
        let mut node = node();
        node.set_now(begin);
        let mut keeper = Keeper::new(node, Box::new(shipped(name)));
        let mut random = Key { seed: 7, rank: Rank(0), operation: 0 }.stream(0);
        let mut below = move |end: usize| (random.next_u64() % end as u64) as usize;
        let mut log = Vec::new();
        for ms in (0..60_000).step_by(100) {
            let now = begin + MS(ms);
            if ms % 1_500 == 0 {
                let kernels = some_kernels(&mut below);
                keeper.register(now, "a".into(), kernels, 2).expect("it can run there");
            }
            if ms % 700 == 0 {
                let running: Vec<_> = (0..3)
                    .map(ResourceId)
                    .filter(|id| keeper.node().resources()[id.0].running.is_some())
                    .collect();
                running.into_iter().for_each(|on| keeper.ended(now, on).expect("something runs"));
            }
            keeper.tick(now);
            let next = keeper.next_tick().map(|next| next - begin);
            log.push(format!("{next:?} {:?}", keeper.shown()));
            log.extend(
                keeper.take_events().iter().map(|event| format!("{} {:?}", event.at - begin, event.what)),
            );
        }
        log
    };
    let end = Moment::from(Time::MAX);
    for strategy in ALL {
        let first = minute(strategy.name, Moment::ZERO);
        assert!(first.len() > 700, "{}", strategy.name);
        for begin in [Moment(end.0 - u128::from(MS(30_000).0)), Moment(end.0 * 20)] {
            assert_eq!(minute(strategy.name, begin), first, "{}: from {begin} on", strategy.name);
        }
    }
}

#[test]
fn what_a_strategy_shows_is_bounded_and_as_it_is_now() {
    let banking = Box::new(shipped("banking"));
    let mut keeper = Keeper::new(node(), banking);
    assert!(keeper.shown().is_empty());
    let kernel = |resource| Kernel { resource, step_time: None };
    let kernels = Arc::new(Kernels::new(vec![kernel(ResourceId(2))], Vec::new()).expect("one kernel"));
    keeper.register(Time::ZERO, "one".into(), kernels, 1).expect("it can run there");
    // A device costs 10 of 100.
    assert_eq!(keeper.shown(), BTreeMap::from([("budget".to_owned(), 90.0)]));

    let script = |shown: &str| {
        let text = format!("return {{ choose = function() return nil end, shown = {shown} }}");
        Script::load("shows", &text, Limits::default())
    };
    let odd = "{ good = 1.5, text = 'no', infinite = math.huge, [3] = 4, [string.rep('x', 65)] = 1 }";
    let shown = script(odd).expect("a strategy").shown();
    let good = shown.get("good").copied();
    assert_eq!((good, shown.len()), (Some(1.5), 1 + usize::from(shown.contains_key("3"))));
    let many = "(function() local t = {} for i = 1, 1000 do t['n' .. i] = i end return t end)()";
    assert_eq!(script(many).expect("a strategy").shown().len(), 32);
    assert!(script("7").err().expect("no table").to_string().contains("a table of numbers by name"));
}
