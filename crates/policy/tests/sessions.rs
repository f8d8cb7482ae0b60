//! Sessions under random requests: what holds after every step, and that everybody gets through.

use castell_policy::session::{
    Cluster, Decision, Event, Level, Placement, Policy, Refused, Request, Rules, Scheduler, SessionId, Shape,
    State,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What a test does next.
#[derive(Clone, Debug)]
enum Step {
    Ask(Box<Request>, bool),
    /// The n-th of those that run ends.
    End(usize),
    /// The n-th of all gives up or is killed, whatever it does.
    Kill(usize),
    /// The n-th of all is stopped by its user.
    Stop(usize),
    /// The n-th of those is resumed.
    Resume(usize),
    /// Something else is said about the n-th of all.
    Say(usize, i32, Option<u64>),
    /// Another policy takes over.
    Rules(Rules),
    /// Whoever decides dies, and another one goes on from what was saved.
    Restart,
}

fn request() -> impl Strategy<Value = Request> {
    let level = prop_oneof![8 => Just(Level::Thread), 1 => Just(Level::Core), 1 => Just(Level::Socket)];
    let estimate = prop_oneof![Just(None), (1u64..50).prop_map(Some)];
    let per_node = prop_oneof![4 => Just(None), 1 => (1u32..4).prop_map(Some)];
    (1u32..20, 1u32..4, level, 0u64..30, per_node, -1i32..2, estimate).prop_map(
        |(processes, threads, whole, memory_bytes, per_node_max, priority, estimate)| Request {
            processes,
            threads,
            whole,
            memory_bytes,
            per_node_max,
            priority,
            estimate,
            with: None,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (request(), any::<bool>()).prop_map(|(request, with)| Step::Ask(Box::new(request), with));
    let say = (any::<usize>(), -1i32..3, proptest::option::of(1u64..50));
    let step = prop_oneof![
        10 => ask,
        8 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::Kill),
        2 => any::<usize>().prop_map(Step::Stop),
        2 => any::<usize>().prop_map(Step::Resume),
        1 => say.prop_map(|(which, priority, estimate)| Step::Say(which, priority, estimate)),
        1 => rules().prop_map(Step::Rules),
        2 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..120)
}

fn rules() -> impl Strategy<Value = Rules> {
    (0..Policy::ALL.len(), any::<bool>(), 1u32..6, 1u32..4, 2u16..4).prop_map(
        |(policy, spread, overtaken_max, surpassed_max, sharing_max)| Rules {
            spread,
            overtaken_max,
            surpassed_max,
            sharing_max,
            patience: 3,
            assumed: 5,
            ..Rules::new(Policy::ALL[policy])
        },
    )
}

const MEMORY: u64 = 100;

fn cluster() -> Cluster {
    Cluster::uniform(3, Shape { sockets: 2, cores: 2, threads: 2, memory_bytes: MEMORY }).expect("a cluster")
}

/// What a world that carries the decisions out would see.
struct World {
    scheduler: Scheduler,
    rules: Rules,
    now: u64,
    next: u64,
    requests: BTreeMap<SessionId, Request>,
    /// Where those are pinned that were started.
    pinned: BTreeMap<SessionId, Placement>,
    stopped: BTreeSet<SessionId>,
    /// By their users, whatever they did before.
    held: BTreeSet<SessionId>,
    /// The first of those that each talks to.
    roots: BTreeMap<SessionId, SessionId>,
    /// In which order they were started.
    starts: Vec<SessionId>,
    log: Vec<Decision>,
}

impl World {
    fn new(rules: Rules) -> World {
        World {
            scheduler: Scheduler::new(cluster(), rules),
            rules,
            now: 0,
            next: 0,
            requests: BTreeMap::new(),
            pinned: BTreeMap::new(),
            stopped: BTreeSet::new(),
            held: BTreeSet::new(),
            roots: BTreeMap::new(),
            starts: Vec::new(),
            log: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        self.now += 1;
        match step {
            Step::Ask(request, with) => {
                let id = SessionId(self.next);
                self.next += 1;
                let mut request = (**request).clone();
                request.with = self.requests.keys().next_back().copied().filter(|_| *with);
                match self.scheduler.handle(self.now, Event::Request(id, request.clone())) {
                    Ok(decisions) => {
                        let root = request.with.map_or(id, |with| self.roots[&with]);
                        self.roots.insert(id, root);
                        self.requests.insert(id, request);
                        self.carry_out(decisions);
                    }
                    Err(Refused::TooManySlots { .. } | Refused::NeverFits { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Step::End(which) => {
                let running: Vec<SessionId> =
                    self.pinned.keys().filter(|id| !self.stopped.contains(id)).copied().collect();
                if let Some(id) = running.get(which % running.len().max(1)) {
                    self.end(*id);
                }
            }
            Step::Kill(which) => {
                let all: Vec<SessionId> = self.requests.keys().copied().collect();
                if let Some(id) = all.get(which % all.len().max(1)) {
                    self.end(*id);
                }
            }
            Step::Stop(which) => {
                let all: Vec<SessionId> = self.requests.keys().copied().collect();
                if let Some(id) = all.get(which % all.len().max(1)) {
                    self.held.insert(*id);
                    self.steer(Event::Stop(*id));
                }
            }
            Step::Resume(which) => {
                let all: Vec<SessionId> = self.held.iter().copied().collect();
                if let Some(id) = all.get(which % all.len().max(1)) {
                    self.held.remove(id);
                    self.steer(Event::Resume(*id));
                }
            }
            Step::Say(which, priority, estimate) => {
                let all: Vec<SessionId> = self.requests.keys().copied().collect();
                if let Some(id) = all.get(which % all.len().max(1)) {
                    self.steer(Event::Priority(*id, *priority));
                    self.check();
                    self.steer(Event::Estimate(*id, *estimate));
                }
            }
            Step::Rules(rules) => match self.scheduler.handle(self.now, Event::Rules(*rules)) {
                Ok(decisions) => {
                    self.rules = *rules;
                    self.carry_out(decisions);
                }
                Err(Refused::Shared { .. } | Refused::Crowded { .. }) => {
                    assert_eq!(*self.scheduler.rules(), self.rules);
                }
                Err(other) => panic!("{other}"),
            },
            Step::Restart => {
                let saved = serde_json::to_vec(&self.scheduler.saved()).expect("it is text");
                let saved = serde_json::from_slice(&saved).expect("what was written");
                let (scheduler, decisions) =
                    Scheduler::restore(cluster(), saved, self.now).expect("nothing has changed");
                self.scheduler = scheduler;
                self.carry_out(decisions);
            }
        }
        self.check();
    }

    fn steer(&mut self, event: Event) {
        let decisions = self.scheduler.handle(self.now, event).expect("it is there");
        self.carry_out(decisions);
    }

    fn end(&mut self, id: SessionId) {
        self.requests.remove(&id);
        self.pinned.remove(&id);
        self.stopped.remove(&id);
        self.held.remove(&id);
        let decisions = self.scheduler.handle(self.now, Event::End(id)).expect("it is there");
        self.carry_out(decisions);
    }

    /// Each decision must be possible when it comes.
    fn carry_out(&mut self, decisions: Vec<Decision>) {
        for decision in &decisions {
            match decision {
                Decision::Start(id, placement) => {
                    assert!(self.requests.contains_key(id));
                    self.starts.push(*id);
                    assert!(self.pinned.insert(*id, placement.clone()).is_none(), "{id:?} was started twice");
                }
                Decision::Suspend(id) => {
                    assert!(self.pinned.contains_key(id) && self.stopped.insert(*id), "{id:?} does not run");
                }
                Decision::Continue(id) => assert!(self.stopped.remove(id), "{id:?} was not suspended"),
                Decision::Repin(id, placement) => {
                    let before = self.pinned.insert(*id, placement.clone()).expect("it was started");
                    assert_eq!(before.processes(), placement.processes());
                }
            }
        }
        self.log.extend(decisions);
    }

    fn check(&self) {
        let cluster = cluster();
        let mut running: Vec<Vec<SessionId>> = vec![Vec::new(); cluster.num_slots()];
        let mut residents = running.clone();
        let mut memory = vec![0; cluster.num_nodes()];
        for (id, request) in &self.requests {
            let Some(home) = self.scheduler.home(*id) else {
                assert_eq!(self.scheduler.state(*id), Some(State::Waiting));
                continue;
            };
            assert_eq!(self.scheduler.state(*id) == Some(State::Suspended), self.stopped.contains(id));
            assert_eq!(home.processes(), request.processes);
            let slots: Vec<_> = home.slots().collect();
            assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len(), "a slot twice in {home:?}");
            let mut on_node = vec![0u32; cluster.num_nodes()];
            for process in slots.chunks(home.per_process() as usize) {
                let node = cluster.node_of(process[0]).0 as usize;
                assert!(
                    process.iter().all(|slot| cluster.node_of(*slot).0 as usize == node),
                    "a torn process"
                );
                memory[node] += request.memory_bytes;
                on_node[node] += 1;
            }
            assert!(on_node.iter().all(|count| *count <= request.per_node_max.unwrap_or(u32::MAX)));
            slots.iter().for_each(|slot| residents[slot.0 as usize].push(*id));
            if !self.stopped.contains(id) {
                assert!(!self.held.contains(id), "{id:?} runs although its user has stopped it");
                slots.iter().for_each(|slot| running[slot.0 as usize].push(*id));
            }
        }
        assert!(memory.iter().all(|bytes| *bytes <= MEMORY), "too much memory: {memory:?}");
        let root = |id: &SessionId| self.roots[id];
        for sessions in &running {
            match self.rules.policy.shares() {
                true => assert!(sessions.len() <= usize::from(self.rules.sharing_max)),
                false => assert!(
                    sessions.iter().map(root).collect::<BTreeSet<_>>().len() <= 1,
                    "strangers on one slot: {sessions:?}"
                ),
            }
        }
        self.check_pins(&cluster, &residents);
        if let Some(id) = self.requests.keys().next_back() {
            let explained = self.scheduler.explain(self.now, *id).expect("it is there");
            assert_eq!(explained.stopped, self.held.contains(id));
            assert!(explained.begins.is_none_or(|begins| begins >= self.now && !explained.stopped));
        }
        if self.held.is_empty() && self.stopped.len() == self.pinned.len() {
            assert!(self.requests.is_empty(), "nothing runs, but somebody waits or is suspended");
        }
    }

    /// Under sidestep, whoever came last to a node has its slots to itself, unless all of the node's slots are taken.
    fn check_pins(&self, cluster: &Cluster, residents: &[Vec<SessionId>]) {
        for (id, pinned) in &self.pinned {
            let home = self.scheduler.home(*id).expect("it was started");
            for (slot, before) in pinned.slots().zip(home.slots()) {
                assert_eq!(cluster.node_of(slot), cluster.node_of(before), "processes stay on their nodes");
            }
            if self.rules.policy != Policy::Sidestep {
                assert_eq!(pinned, home);
                continue;
            }
            let started = |id: &SessionId| self.starts.iter().position(|other| other == id);
            let nodes: BTreeSet<_> = home.slots().map(|slot| cluster.node_of(slot)).collect();
            let residents = |node| cluster.slots(node).flat_map(|slot| &residents[slot]);
            let newest = nodes.iter().all(|node| residents(*node).max_by_key(|id| started(id)) == Some(id));
            let grouped = self.requests.values().any(|request| request.with.is_some());
            let room = nodes.iter().all(|node| {
                let mine = home.slots().filter(|slot| cluster.node_of(*slot) == *node).count();
                mine < cluster.slots(*node).len()
            });
            if newest && room && !grouped {
                assert_eq!(pinned, home, "who came last stays");
                let others = self.pinned.iter().filter(|(other, _)| *other != id);
                for (other, placement) in others {
                    let shared = placement.slots().any(|slot| home.slots().any(|mine| mine == slot));
                    assert!(!shared, "{other:?} is on slots of {id:?}");
                }
            }
        }
    }

    /// Ends what runs until nothing is left, and counts the steps.
    fn drain(&mut self) {
        while !self.held.is_empty() {
            self.take(&Step::Resume(0));
        }
        let sessions = self.requests.len();
        let mut steps = 0;
        while !self.requests.is_empty() {
            self.take(&Step::End(0));
            steps += 1;
            assert!(steps <= sessions, "each end of a session is a step forward");
        }
        assert_eq!(self.scheduler.counts(), [0, 0, 0]);
    }
}

fn collect_numbers<'a>(value: &'a mut serde_json::Value, numbers: &mut Vec<&'a mut serde_json::Value>) {
    match value {
        serde_json::Value::Number(_) => numbers.push(value),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|value| collect_numbers(value, numbers)),
        serde_json::Value::Object(all) => {
            all.iter_mut().for_each(|(_, value)| collect_numbers(value, numbers));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_and_memory_are_given_once_and_everybody_gets_through(steps in steps(), rules in rules()) {
        let mut world = World::new(rules);
        steps.iter().for_each(|step| world.take(step));
        world.drain();
    }

    /// Numbers that somebody has changed are refused, or are another state that is sound.
    #[test]
    fn what_was_changed_meanwhile_does_no_harm(
        steps in steps(), rules in rules(), changes in proptest::collection::vec((any::<usize>(), any::<u64>()), 1..4),
    ) {
        let mut world = World::new(rules);
        steps.iter().for_each(|step| world.take(step));
        let mut saved = serde_json::to_value(world.scheduler.saved()).expect("it is text");
        for (which, number) in changes {
            let mut numbers = Vec::new();
            collect_numbers(&mut saved["sessions"], &mut numbers);
            let count = numbers.len().max(1);
            if let Some(place) = numbers.into_iter().nth(which % count) {
                *place = if number % 3 == 0 { number.into() } else { (number % 20).into() };
            }
        }
        let Ok(saved) = serde_json::from_value(saved) else { return Ok(()) };
        let Ok((mut scheduler, _)) = Scheduler::restore(cluster(), saved, world.now) else { return Ok(()) };
        let all: Vec<SessionId> = scheduler.saved().states().map(|(id, _)| id).collect();
        for (at, id) in all.into_iter().enumerate() {
            scheduler.handle(world.now + at as u64, Event::End(id)).expect("it is there");
        }
        prop_assert_eq!(scheduler.counts(), [0, 0, 0]);
    }

    #[test]
    fn the_same_events_give_the_same_decisions(steps in steps(), rules in rules()) {
        let [one, other] = [0, 1].map(|_| {
            let mut world = World::new(rules);
            steps.iter().for_each(|step| world.take(step));
            world.log
        });
        prop_assert_eq!(one, other);
    }

    /// A session in the middle of an endless stream of others of its priority starts, and ends, after a number of them that
    /// the rules bound; that is so for any stream and for every policy.
    #[test]
    fn nobody_starves(
        victim in request(), stream in proptest::collection::vec(request(), 1..8), rules in rules(), order in any::<u64>(),
    ) {
        let mut world = World::new(rules);
        let alike = |request: &Request| Request { estimate: None, priority: 0, ..request.clone() };
        let ask = |request: &Request| Step::Ask(Box::new(alike(request)), false);
        for request in &stream {
            world.take(&ask(request));
        }
        let id = SessionId(world.next);
        world.take(&ask(&victim));
        prop_assume!(world.requests.contains_key(&id));
        // Each step one comes and one of the others ends; the victim itself needs ten steps of running.
        let (mut random, mut ran, mut steps) = (order | 1, 0, 0u32);
        let bound = 40 * (rules.overtaken_max + rules.surpassed_max + 8) * 24;
        while ran < 10 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            world.take(&ask(&stream[(random >> 33) as usize % stream.len()]));
            let others: Vec<SessionId> =
                world.pinned.keys().filter(|other| **other != id && !world.stopped.contains(other)).copied().collect();
            world.now += 1;
            if !others.is_empty() {
                world.end(others[(random >> 40) as usize % others.len()]);
                world.check();
            }
            ran += u32::from(world.scheduler.state(id) == Some(State::Running));
            steps += 1;
            prop_assert!(steps < bound, "{steps} steps, and it has run in {ran} of them: {:?}", world.scheduler.state(id));
            prop_assume!(world.requests.len() < 400);
        }
    }
}

fn asked(scheduler: &mut Scheduler, now: u64, id: u64, request: Request) -> Vec<Decision> {
    scheduler.handle(now, Event::Request(SessionId(id), request)).expect("it is possible")
}

fn ended(scheduler: &mut Scheduler, now: u64, id: u64) -> Vec<Decision> {
    scheduler.handle(now, Event::End(SessionId(id))).expect("it is there")
}

fn flat(nodes: u32, slots: u32, policy: Policy) -> Scheduler {
    Scheduler::new(Cluster::uniform(nodes, Shape::flat(slots)).expect("a cluster"), Rules::new(policy))
}

fn kinds(decisions: &[Decision]) -> Vec<(char, u64)> {
    let kind = |decision: &Decision| match decision {
        Decision::Start(id, _) => ('s', id.0),
        Decision::Suspend(id) => ('z', id.0),
        Decision::Continue(id) => ('c', id.0),
        Decision::Repin(id, _) => ('p', id.0),
    };
    decisions.iter().map(kind).collect()
}

#[test]
fn the_four_policies_as_the_paper_has_them() {
    // A simulation on all of 4 nodes with 40 slots, then an analysis of 32.
    for (policy, expected) in [
        (Policy::Wait, vec![]),
        (Policy::Surpass, vec![('z', 0), ('s', 1)]),
        (Policy::Overbook, vec![('s', 1)]),
        (Policy::Sidestep, vec![('s', 1), ('p', 0)]),
    ] {
        let mut scheduler = flat(4, 40, policy);
        assert_eq!(kinds(&asked(&mut scheduler, 0, 0, Request::new(160))), [('s', 0)]);
        let decisions = asked(&mut scheduler, 1, 1, Request::new(32));
        assert_eq!(kinds(&decisions), expected, "{policy}");
        if let [Decision::Start(_, analysis), Decision::Repin(_, simulation)] = &decisions[..] {
            assert_eq!(analysis.runs().next(), Some(0..32));
            let mut crowd = [0; 160];
            simulation.slots().for_each(|slot| crowd[slot.0 as usize] += 1);
            assert_eq!(crowd[..40], [[0; 8], [0; 8], [0; 8], [0; 8], [5; 8]].concat());
            assert!(crowd[40..].iter().all(|count| *count == 1));
        }
        let after: &[_] = match policy {
            Policy::Wait => &[],
            Policy::Surpass => &[('c', 0)],
            Policy::Overbook => &[],
            _ => &[('p', 0)],
        };
        if policy != Policy::Wait {
            assert_eq!(kinds(&ended(&mut scheduler, 2, 1)), after, "{policy}");
        } else {
            assert_eq!(kinds(&ended(&mut scheduler, 2, 0)), [('s', 1)]);
        }
    }
    let mut spread = Scheduler::new(
        Cluster::uniform(4, Shape::flat(40)).expect("a cluster"),
        "sidestep+spread".parse().expect("a policy"),
    );
    asked(&mut spread, 0, 0, Request::new(160));
    let decisions = asked(&mut spread, 1, 1, Request::new(32));
    let Decision::Start(_, analysis) = &decisions[0] else { panic!("{decisions:?}") };
    assert_eq!(analysis.runs().collect::<Vec<_>>(), [0..8, 40..48, 80..88, 120..128]);
}

#[test]
fn what_never_fits_is_told_at_once() {
    let mut scheduler = flat(2, 4, Policy::Surpass);
    let refused = |scheduler: &mut Scheduler, request| {
        scheduler.handle(0, Event::Request(SessionId(9), request)).expect_err("it never fits")
    };
    assert_eq!(refused(&mut scheduler, Request::new(9)), Refused::TooManySlots { wanted: 9, there: 8 });
    let wide = Request { threads: 5, ..Request::new(1) };
    assert!(matches!(refused(&mut scheduler, wide), Refused::NeverFits { fitting: 0, .. }));
    let odd = Request { threads: 3, ..Request::new(3) };
    let Refused::TooManySlots { .. } = refused(&mut scheduler, odd) else { panic!("nine slots") };
    let nobody = Request { with: Some(SessionId(3)), ..Request::new(1) };
    assert_eq!(refused(&mut scheduler, nobody), Refused::Unknown { session: SessionId(3) });
    assert_eq!(refused(&mut scheduler, Request::new(0)), Refused::Nothing);
    assert_eq!(scheduler.counts(), [0, 0, 0]);
}

#[test]
fn suspended_sessions_keep_their_memory() {
    let shape = Shape { memory_bytes: 10, ..Shape::flat(2) };
    let cluster = Cluster::uniform(1, shape).expect("a cluster");
    let mut scheduler = Scheduler::new(cluster, Rules::new(Policy::Surpass));
    asked(&mut scheduler, 0, 0, Request { memory_bytes: 3, ..Request::new(2) });
    let heavy = Request { memory_bytes: 5, ..Request::new(1) };
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, heavy)), [], "6 of 10 bytes are taken");
    let light = Request { memory_bytes: 4, ..Request::new(1) };
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, light)), [('z', 0), ('s', 2)]);
    assert_eq!(kinds(&ended(&mut scheduler, 3, 2)), [('c', 0)]);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 1)]);
}

#[test]
fn who_talks_to_each_other_is_not_separated() {
    for policy in Policy::ALL {
        let mut scheduler = flat(1, 2, policy);
        asked(&mut scheduler, 0, 0, Request::new(2));
        let mate = Request { with: Some(SessionId(0)), ..Request::new(1) };
        assert_eq!(
            kinds(&asked(&mut scheduler, 1, 1, mate)),
            [('s', 1)],
            "{policy}: it neither waits nor suspends"
        );
        if policy == Policy::Surpass {
            assert_eq!(kinds(&asked(&mut scheduler, 2, 2, Request::new(1))), [('z', 0), ('z', 1), ('s', 2)]);
            assert_eq!(kinds(&ended(&mut scheduler, 3, 2)), [('c', 0), ('c', 1)]);
        }
    }
}

#[test]
fn short_ones_fill_gaps_without_delaying_the_first() {
    let mut scheduler = flat(1, 4, Policy::Wait);
    let with_estimate = |processes, estimate| Request { estimate: Some(estimate), ..Request::new(processes) };
    asked(&mut scheduler, 0, 0, with_estimate(3, 100));
    asked(&mut scheduler, 0, 1, with_estimate(4, 10));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 2, with_estimate(1, 100))), [], "it would end too late");
    assert_eq!(kinds(&asked(&mut scheduler, 1, 3, with_estimate(1, 99))), [('s', 3)]);
    assert_eq!(kinds(&ended(&mut scheduler, 50, 3)), [], "what is left is too long");
    assert_eq!(kinds(&ended(&mut scheduler, 100, 0)), [('s', 1)]);
}

#[test]
fn give_way_suspends_long_ones_for_short_ones_only() {
    let mut scheduler = flat(1, 2, Policy::GiveWay);
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(2) };
    asked(&mut scheduler, 0, 0, with_estimate(1000));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, with_estimate(900))), [], "not much shorter");
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, with_estimate(10))), [('z', 0), ('s', 2)]);
    assert_eq!(kinds(&ended(&mut scheduler, 12, 2)), [('c', 0)]);
    assert_eq!(kinds(&asked(&mut scheduler, 13, 3, Request::new(1))), [], "nobody knows how long it takes");
}

fn steered(scheduler: &mut Scheduler, now: u64, event: Event) -> Vec<(char, u64)> {
    kinds(&scheduler.handle(now, event).expect("it is possible"))
}

#[test]
fn who_is_stopped_makes_room_where_the_policy_suspends() {
    let [old, new] = [0, 1].map(SessionId);
    for (policy, stopped, resumed) in [
        (Policy::Surpass, vec![('z', 1), ('c', 0)], vec![('z', 0), ('c', 1)]),
        (Policy::Overbook, vec![('z', 1)], vec![('c', 1)]),
        (Policy::Sidestep, vec![('z', 1)], vec![('c', 1)]),
    ] {
        let mut scheduler = flat(1, 2, policy);
        asked(&mut scheduler, 0, 0, Request::new(2));
        asked(&mut scheduler, 1, 1, Request::new(2));
        assert_eq!(steered(&mut scheduler, 2, Event::Stop(new)), stopped, "{policy}");
        assert_eq!((scheduler.state(new), scheduler.is_stopped(new)), (Some(State::Suspended), true));
        assert_eq!(steered(&mut scheduler, 3, Event::Stop(new)), [], "{policy}: it is");
        assert_eq!(steered(&mut scheduler, 4, Event::Resume(new)), resumed, "{policy}");
        assert_eq!(
            scheduler.handle(5, Event::Resume(new)),
            Err(Refused::NotStopped { session: new }),
            "{policy}"
        );
        let explained = scheduler.explain(6, new).expect("it is there");
        assert_eq!((explained.stops, explained.since, explained.ran), (1, 4, 3), "{policy}");
        let suspensions = scheduler.explain(6, old).expect("it is there").suspensions;
        assert_eq!(suspensions, if policy == Policy::Surpass { 2 } else { 0 });
    }
    // Where nobody is ever suspended, nobody else gets the slots.
    let mut scheduler = flat(1, 2, Policy::Wait);
    asked(&mut scheduler, 0, 0, Request::new(2));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, Request::new(2))), []);
    assert_eq!(steered(&mut scheduler, 2, Event::Stop(old)), [('z', 0)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Resume(old)), [('c', 0)]);
}

#[test]
fn who_is_stopped_before_it_starts_is_passed_over() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    for id in 0..3 {
        asked(&mut scheduler, id, id, Request::new(2));
    }
    assert_eq!(steered(&mut scheduler, 3, Event::Stop(SessionId(1))), []);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 2)]);
    assert_eq!(steered(&mut scheduler, 5, Event::Resume(SessionId(1))), []);
    assert_eq!(kinds(&ended(&mut scheduler, 6, 2)), [('s', 1)]);
}

#[test]
fn a_stopped_session_is_surpassed_by_any_number_and_left_alone_when_it_is_resumed() {
    let mut scheduler = flat(1, 1, Policy::Surpass);
    let most = u64::from(scheduler.rules().surpassed_max);
    asked(&mut scheduler, 0, 0, Request::new(1));
    steered(&mut scheduler, 0, Event::Stop(SessionId(0)));
    for id in 1..=2 * most {
        assert_eq!(kinds(&asked(&mut scheduler, id, id, Request::new(1))), [('s', id)]);
        assert_eq!(kinds(&ended(&mut scheduler, id, id)), []);
    }
    assert_eq!(steered(&mut scheduler, 99, Event::Resume(SessionId(0))), [('c', 0)]);
    for id in 100..100 + most {
        assert_eq!(kinds(&asked(&mut scheduler, id, id, Request::new(1))), [('z', 0), ('s', id)]);
        assert_eq!(kinds(&ended(&mut scheduler, id, id)), [('c', 0)]);
    }
    assert_eq!(kinds(&asked(&mut scheduler, 200, 200, Request::new(1))), [], "it is left alone");
    assert_eq!(steered(&mut scheduler, 201, Event::Stop(SessionId(0))), [('z', 0), ('s', 200)]);
    assert_eq!(steered(&mut scheduler, 202, Event::Resume(SessionId(0))), [], "it came first");
    assert_eq!(kinds(&ended(&mut scheduler, 203, 200)), [('c', 0)]);
}

#[test]
fn a_stopped_session_delays_nobody_under_give_way_however_soon_it_is_due() {
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(1) };
    for later in [1, 1_000] {
        let mut scheduler = flat(1, 1, Policy::GiveWay);
        asked(&mut scheduler, 0, 0, with_estimate(20));
        assert_eq!(
            kinds(&asked(&mut scheduler, later, 1, with_estimate(10))),
            [],
            "it is no longer than others"
        );
        assert_eq!(steered(&mut scheduler, later, Event::Stop(SessionId(0))), [('z', 0), ('s', 1)]);
    }
}

#[test]
fn another_priority_is_another_turn() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    for id in 0..3 {
        asked(&mut scheduler, id, id, Request::new(2));
    }
    assert_eq!(scheduler.explain(3, SessionId(2)).expect("it waits").before, [SessionId(1)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Priority(SessionId(2), 1)), []);
    assert_eq!(scheduler.explain(3, SessionId(2)).expect("it waits").before, []);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 2)]);
    // Under surpass, it is enough to have the higher one.
    let mut scheduler = flat(1, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 0, Request { priority: 1, ..Request::new(2) });
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, Request::new(2))), []);
    assert_eq!(steered(&mut scheduler, 2, Event::Priority(SessionId(1), 2)), [('z', 0), ('s', 1)]);
}

#[test]
fn another_policy_takes_over_what_it_would_allow() {
    let to = |policy| Event::Rules(Rules::new(policy));
    // What waits starts where sharing is allowed; then there is no way back until one has ended.
    let mut scheduler = flat(1, 2, Policy::Wait);
    asked(&mut scheduler, 0, 0, Request::new(2));
    asked(&mut scheduler, 1, 1, Request::new(1));
    assert_eq!(steered(&mut scheduler, 2, to(Policy::Sidestep)), [('s', 1), ('p', 0)]);
    let [one, other] = [0, 1].map(SessionId);
    for policy in [Policy::Wait, Policy::Surpass, Policy::GiveWay] {
        let refused = scheduler.handle(3, to(policy));
        assert_eq!(refused, Err(Refused::Shared { one, other, policy }));
    }
    assert_eq!(scheduler.rules().policy, Policy::Sidestep);
    assert_eq!(steered(&mut scheduler, 4, to(Policy::Overbook)), [('p', 0)]);
    assert_eq!(kinds(&ended(&mut scheduler, 5, 1)), []);
    assert_eq!(steered(&mut scheduler, 6, to(Policy::Surpass)), []);
    // Who is suspended goes on where nobody is.
    assert_eq!(kinds(&asked(&mut scheduler, 7, 2, Request::new(1))), [('z', 0), ('s', 2)]);
    assert_eq!(
        scheduler.handle(8, to(Policy::Wait)),
        Err(Refused::Shared { one, other: SessionId(2), policy: Policy::Wait })
    );
    assert_eq!(steered(&mut scheduler, 9, to(Policy::GiveWay)), []);
    assert_eq!(steered(&mut scheduler, 10, to(Policy::Overbook)), [('c', 0)]);
    // Stopped by its user it takes no place where the policy suspends.
    assert_eq!(steered(&mut scheduler, 11, Event::Stop(one)), [('z', 0)]);
    assert_eq!(steered(&mut scheduler, 12, to(Policy::Surpass)), []);
    assert_eq!(steered(&mut scheduler, 13, Event::Resume(one)), [], "the other one came later");
    assert_eq!(kinds(&ended(&mut scheduler, 14, 2)), [('c', 0)]);
}

#[test]
fn who_is_to_go_on_together_does() {
    let mut scheduler = flat(1, 4, Policy::Surpass);
    asked(&mut scheduler, 0, 0, Request::new(2));
    asked(&mut scheduler, 1, 1, Request { with: Some(SessionId(0)), ..Request::new(2) });
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, Request::new(4))), [('z', 0), ('z', 1), ('s', 2)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Stop(SessionId(0))), []);
    assert_eq!(steered(&mut scheduler, 3, Event::Priority(SessionId(0), 1)), []);
    assert_eq!(steered(&mut scheduler, 4, Event::Resume(SessionId(0))), [], "not without the other one");
    assert_eq!(kinds(&ended(&mut scheduler, 5, 2)), [('c', 0), ('c', 1)]);
}

#[test]
fn why_it_waits_and_until_when() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(2) };
    asked(&mut scheduler, 0, 0, with_estimate(100));
    asked(&mut scheduler, 10, 1, with_estimate(50));
    asked(&mut scheduler, 20, 2, with_estimate(1));
    let waits = scheduler.explain(30, SessionId(2)).expect("it waits");
    assert_eq!((waits.state, waits.since, waits.slots, waits.free), (State::Waiting, 20, 2, 0));
    assert_eq!((waits.before, waits.begins), (vec![SessionId(1)], Some(150)));
    let [holder] = &waits.holders[..] else { panic!("{:?}", waits.holders) };
    assert_eq!((holder.session, holder.slots, holder.left), (SessionId(0), 2, Some(70)));
    // Who takes longer than it said, or says nothing, may take for ever.
    assert_eq!(scheduler.explain(101, SessionId(2)).expect("it waits").begins, None);
    assert_eq!(steered(&mut scheduler, 101, Event::Estimate(SessionId(0), Some(120))), []);
    assert_eq!(scheduler.explain(101, SessionId(2)).expect("it waits").begins, Some(170));
    assert_eq!(steered(&mut scheduler, 102, Event::Estimate(SessionId(0), None)), []);
    assert_eq!(scheduler.explain(102, SessionId(2)).expect("it waits").begins, None);
    assert_eq!(scheduler.explain(102, SessionId(9)), None);
    // Who is suspended ends later, also under another policy.
    let mut scheduler = flat(1, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 0, with_estimate(100));
    asked(&mut scheduler, 10, 1, with_estimate(200));
    for policy in [Policy::Surpass, Policy::GiveWay] {
        assert_eq!(steered(&mut scheduler, 20, Event::Rules(Rules::new(policy))), []);
        let suspended = scheduler.explain(20, SessionId(0)).expect("it is suspended");
        assert_eq!((suspended.ran, suspended.begins), (10, Some(210)));
        assert_eq!((suspended.suspensions, &suspended.suspended_by[..]), (1, &[SessionId(1)][..]));
    }
}

#[test]
fn what_cannot_have_been_saved_is_refused() {
    let mut scheduler = flat(2, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 1, Request::new(4));
    asked(&mut scheduler, 1, 2, Request { memory_bytes: 7, ..Request::new(2) });
    asked(&mut scheduler, 2, 3, Request { with: Some(SessionId(2)), ..Request::new(1) });
    let saved = scheduler.saved();
    let states: Vec<_> = saved.states().collect();
    assert_eq!(states[..2], [(SessionId(1), State::Suspended), (SessionId(2), State::Running)]);
    let restore = |saved, nodes| {
        let cluster = Cluster::uniform(nodes, Shape::flat(2)).expect("a cluster");
        Scheduler::restore(cluster, saved, 9).map(|(scheduler, decisions)| (scheduler.saved(), decisions))
    };
    assert_eq!(restore(saved.clone(), 2), Ok((saved.clone(), Vec::new())));
    assert!(restore(saved.clone(), 1).is_err(), "another cluster");
    let text = serde_json::to_string(&saved).expect("it is text");
    let broken = [
        (r#""policy":"surpass""#, r#""policy":"wait""#),
        (r#""state":"suspended""#, r#""state":"waiting""#),
        (r#""state":"suspended""#, r#""state":"running""#),
        (r#""arrival":1"#, r#""arrival":0"#),
        (r#""arrivals":3"#, r#""arrivals":1"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[1,4]]"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[4294967295,4]]"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[0,0]]"#),
        (r#""per_process":1"#, r#""per_process":0"#),
        (r#""starts":3"#, r#""starts":0"#),
    ];
    for (before, after) in broken {
        assert!(text.contains(before), "{before} in {text}");
        let saved = serde_json::from_str(&text.replacen(before, after, 1)).expect("it has the form");
        assert!(restore(saved, 2).is_err(), "{after}");
    }
}
