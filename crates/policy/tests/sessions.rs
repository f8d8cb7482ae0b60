//! Sessions under random requests: what holds after every step, and that everybody gets through. Cases by hand stand in `session_cases.rs`.

use castell_policy::session::{
    Adopted, Cluster, Decision, Event, Foreseen, Level, Needs, Placement, Policy, Refused, Request, Rules,
    Scheduler, SessionId, Shape, Slot, Slowdown, State,
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
    /// The n-th of all needs something else.
    Need(usize, Needs),
    /// Another policy takes over.
    Rules(Rules),
    /// Processors are taken away: each slot whose bit is set, and no other.
    Offline(u32),
    /// Something else is foreseen.
    Foresee(Vec<u8>),
    /// The n-th of all, or all that say nothing, allow so much.
    Limit(Option<usize>, Option<Slowdown>),
    /// The n-th of all runs something else than was thought.
    Name(usize, Option<String>),
    /// Whoever decides dies, and another one goes on from what was saved.
    Restart,
    /// The same, and nothing was saved: what was started is taken over as it is, what waits asks again.
    Lose,
}

/// Any that are as they may be; some name their slots.
fn request() -> impl Strategy<Value = Request> {
    prop_oneof![5 => any_slots(), 1 => (any_slots(), named()).prop_map(|(any, slots)| Request {
        threads: 1,
        whole: Level::Thread,
        per_node_max: None,
        processes: slots.len() as u32,
        slots,
        ..any
    })]
}

fn named() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::btree_set(0u32..24, 1..6).prop_map(|slots| slots.into_iter().collect())
}

fn needs() -> impl Strategy<Value = Needs> {
    let memory = || prop_oneof![1 => Just(0), 1 => 0u64..40];
    prop_oneof![
        (1u32..20, memory()).prop_map(|(processes, memory_bytes)| Needs {
            processes,
            slots: Vec::new(),
            memory_bytes
        }),
        (named(), memory()).prop_map(|(slots, memory_bytes)| Needs {
            processes: slots.len() as u32,
            slots,
            memory_bytes
        }),
    ]
}

fn any_slots() -> impl Strategy<Value = Request> {
    let level = prop_oneof![8 => Just(Level::Thread), 1 => Just(Level::Core), 1 => Just(Level::Socket)];
    let estimate = prop_oneof![Just(None), (1u64..50).prop_map(Some)];
    let per_node = prop_oneof![4 => Just(None), 1 => (1u32..4).prop_map(Some)];
    let company = (program(), limit(), user());
    (1u32..20, 1u32..4, level, 0u64..30, per_node, -1i32..2, estimate, company).prop_map(
        |(processes, threads, whole, memory_bytes, per_node_max, priority, estimate, company)| Request {
            processes,
            threads,
            whole,
            memory_bytes,
            per_node_max,
            slots: Vec::new(),
            user: company.2,
            priority,
            estimate,
            with: None,
            program: company.0,
            slowdown_max: company.1,
        },
    )
}

/// One of three, or another one of which nobody knows anything.
fn program() -> impl Strategy<Value = Option<String>> {
    (0..5usize).prop_map(|which| ["a", "b", "c", "unknown"].get(which).map(|&name| name.to_owned()))
}

/// One of two, mostly the same one.
fn user() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 1 => Just(1)]
}

fn limit() -> impl Strategy<Value = Option<Slowdown>> {
    prop_oneof![3 => Just(None), 1 => (10u32..25).prop_map(|tenths| Some(Slowdown::of_factor(f64::from(tenths) / 10.0)))]
}

/// How much `a`, `b` and `c` slow each other, in twentieths; of pairs with 0 nothing is known.
fn foreseen() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![1 => Just(0u8), 2 => 18u8..50], 9)
}

fn table(twentieths: &[u8]) -> Foreseen {
    let mut foreseen = Foreseen::new();
    for (at, factor) in twentieths.iter().enumerate().filter(|(_, factor)| **factor > 0) {
        let [program, neighbour] = [at / 3, at % 3].map(|which| ["a", "b", "c"][which]);
        foreseen.set(program, neighbour, Slowdown::of_factor(f64::from(*factor) / 20.0));
    }
    foreseen
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
        2 => (any::<usize>(), needs()).prop_map(|(which, needs)| Step::Need(which, needs)),
        1 => rules().prop_map(Step::Rules),
        1 => foreseen().prop_map(Step::Foresee),
        1 => (proptest::option::of(any::<usize>()), limit()).prop_map(|(which, most)| Step::Limit(which, most)),
        1 => (any::<usize>(), program()).prop_map(|(which, program)| Step::Name(which, program)),
        2 => Just(Step::Restart),
        1 => Just(Step::Lose),
        1 => prop_oneof![1 => Just(0), 1 => 0u32..1 << 24].prop_map(Step::Offline),
    ];
    proptest::collection::vec(step, 1..120)
}

fn rules() -> impl Strategy<Value = Rules> {
    (0..Policy::ALL.len(), any::<bool>(), any::<bool>(), 1u32..6, 1u32..4, 2u16..4, limit()).prop_map(
        |(policy, spread, share_users, overtaken_max, surpassed_max, sharing_max, slowdown_max)| Rules {
            share_users,
            slowdown_max,
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
    offline: BTreeSet<Slot>,
    foreseen: Foreseen,
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
            offline: BTreeSet::new(),
            foreseen: Foreseen::new(),
            log: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        self.now += 1;
        match step {
            Step::Ask(request, with) => self.ask(request, *with),
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
            Step::Need(which, needs) => self.need(*which, needs),
            Step::Rules(rules) => match self.scheduler.handle(self.now, Event::Rules(*rules)) {
                Ok(decisions) => {
                    self.rules = *rules;
                    self.carry_out(decisions);
                }
                Err(Refused::Shared { .. } | Refused::Crowded { .. } | Refused::Users { .. }) => {
                    assert_eq!(*self.scheduler.rules(), self.rules);
                }
                Err(other) => panic!("{other}"),
            },
            Step::Restart => {
                let saved = serde_json::to_vec(&self.scheduler.saved()).expect("it is text");
                let saved = serde_json::from_slice(&saved).expect("what was written");
                let (scheduler, decisions) = Scheduler::restore(
                    cluster(),
                    saved,
                    self.offline.clone(),
                    self.foreseen.clone(),
                    self.now,
                )
                .expect("nothing has changed");
                self.scheduler = scheduler;
                self.carry_out(decisions);
            }
            Step::Lose => self.lose(),
            Step::Foresee(_) | Step::Limit(..) | Step::Name(..) => self.say_of_company(step),
            Step::Offline(bits) => {
                self.offline = (0..24).filter(|slot| bits & 1 << slot != 0).map(Slot).collect();
                self.steer(Event::Offline(self.offline.clone()));
            }
        }
        self.check();
    }

    fn ask(&mut self, request: &Request, with: bool) {
        let id = SessionId(self.next);
        self.next += 1;
        let mut request = request.clone();
        request.with = self.requests.keys().next_back().copied().filter(|_| with);
        match self.scheduler.handle(self.now, Event::Request(id, request.clone())) {
            Ok(decisions) => {
                let root = request.with.map_or(id, |with| self.roots[&with]);
                self.roots.insert(id, root);
                self.requests.insert(id, request);
                self.carry_out(decisions);
            }
            Err(Refused::OtherUser { session }) => {
                assert!(!self.rules.share_users && self.requests[&session].user != request.user);
            }
            Err(Refused::TooManySlots { .. } | Refused::NeverFits { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// Whoever decides dies with all that was written.
    fn lose(&mut self) {
        let before = std::mem::replace(&mut self.scheduler, Scheduler::new(cluster(), self.rules));
        let mut groups: BTreeMap<SessionId, SessionId> = BTreeMap::new();
        self.steer(Event::Foreseen(self.foreseen.clone()));
        self.steer(Event::Offline(self.offline.clone()));
        let started: Vec<SessionId> =
            self.starts.iter().copied().filter(|id| self.pinned.contains_key(id)).collect();
        for id in started {
            let home = before.home(id).expect("it was started").clone();
            let request = self.requests.get_mut(&id).expect("it is there");
            request.with = groups.get(&self.roots[&id]).copied();
            groups.entry(self.roots[&id]).or_insert(id);
            let stands = self.stopped.contains(&id);
            let adopted = Adopted { request: request.clone(), home: home.slots().collect(), stands };
            self.scheduler.adopt(self.now, id, adopted).expect("it was so before");
            self.pinned.insert(id, home);
            if self.rules.policy.suspends() {
                self.held.remove(&id);
            }
        }
        let decisions = self.scheduler.settled(self.now);
        self.carry_out(decisions);
        let waiting: Vec<SessionId> =
            self.requests.keys().copied().filter(|id| !self.pinned.contains_key(id)).collect();
        for id in waiting {
            let request = self.requests.get_mut(&id).expect("it is there");
            request.with = groups.get(&self.roots[&id]).copied();
            groups.entry(self.roots[&id]).or_insert(id);
            let request = request.clone();
            self.steer(Event::Request(id, request));
            if self.held.contains(&id) && self.scheduler.home(id).is_none() {
                self.steer(Event::Stop(id));
            }
            if self.scheduler.home(id).is_some() {
                self.held.remove(&id);
            }
        }
    }

    /// What is refused changes nothing.
    fn need(&mut self, which: usize, needs: &Needs) {
        let all: Vec<SessionId> = self.requests.keys().copied().collect();
        let Some(id) = all.get(which % all.len().max(1)).copied() else { return };
        let before = self.scheduler.saved();
        match self.scheduler.handle(self.now, Event::Needs(id, needs.clone())) {
            Ok(decisions) => {
                let request = self.requests.get_mut(&id).expect("it is there");
                let Needs { processes, slots, memory_bytes } = needs.clone();
                (request.processes, request.slots, request.memory_bytes) = (processes, slots, memory_bytes);
                self.carry_out(decisions);
            }
            Err(Refused::Exists { .. } | Refused::Unknown { .. }) => panic!("it is there, once"),
            Err(_) => assert_eq!(self.scheduler.saved(), before),
        }
    }

    /// What is known of programs, or allowed, is something else.
    fn say_of_company(&mut self, step: &Step) {
        let all: Vec<SessionId> = self.requests.keys().copied().collect();
        let nth = |which: usize| all.get(which % all.len().max(1)).copied();
        match step {
            Step::Foresee(twentieths) => {
                self.foreseen = table(twentieths);
                self.steer(Event::Foreseen(self.foreseen.clone()));
            }
            Step::Limit(None, most) => {
                self.rules.slowdown_max = *most;
                self.steer(Event::SlowdownMax(None, *most));
            }
            Step::Limit(Some(which), most) => {
                if let Some(id) = nth(*which) {
                    self.requests.get_mut(&id).expect("it is there").slowdown_max = *most;
                    self.steer(Event::SlowdownMax(Some(id), *most));
                }
            }
            Step::Name(which, program) => {
                if let Some(id) = nth(*which) {
                    self.requests.get_mut(&id).expect("it is there").program.clone_from(program);
                    self.steer(Event::Program(id, program.clone()));
                }
            }
            _ => unreachable!("{step:?} is about something else"),
        }
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
                    assert!(
                        placement.slots().all(|slot| !self.offline.contains(&slot)),
                        "{placement:?} is offline"
                    );
                    self.check_company(*id, placement);
                    self.starts.push(*id);
                    assert!(self.pinned.insert(*id, placement.clone()).is_none(), "{id:?} was started twice");
                }
                Decision::Suspend(id) => {
                    assert!(self.pinned.contains_key(id) && self.stopped.insert(*id), "{id:?} does not run");
                }
                Decision::Continue(id) => assert!(self.stopped.remove(id), "{id:?} was not suspended"),
                Decision::Repin(id, placement) => {
                    assert_eq!(placement.processes(), self.requests[id].processes);
                    self.pinned.insert(*id, placement.clone()).expect("it was started");
                }
            }
        }
        self.log.extend(decisions);
    }

    /// Who starts is not slowed down by more than it or its neighbours allow, and neither are they, unless it talks to one that was started.
    fn check_company(&self, id: SessionId, placement: &Placement) {
        let cluster = cluster();
        if self.pinned.keys().any(|other| self.roots[other] == self.roots[&id]) {
            return;
        }
        let limit = |id: &SessionId| self.requests[id].slowdown_max.or(self.rules.slowdown_max);
        let of = |one: &SessionId, other: &SessionId| {
            let [program, neighbour] = [one, other].map(|id| self.requests[id].program.as_deref());
            program
                .zip(neighbour)
                .and_then(|(program, neighbour)| self.foreseen.of(program, neighbour))
                .unwrap_or(Slowdown::NONE)
        };
        for node in placement.nodes(&cluster) {
            let is_there = |placement: &Placement| placement.nodes(&cluster).contains(&node);
            let runs = self.pinned.iter().filter(|(other, at)| !self.stopped.contains(other) && is_there(at));
            let others: Vec<SessionId> = runs.map(|(other, _)| *other).collect();
            let all = |one: &SessionId, more: Option<&SessionId>| {
                let rest = others.iter().chain(more).filter(|other| *other != one);
                rest.map(|other| of(one, other)).fold(Slowdown::NONE, Slowdown::times)
            };
            if let Some(most) = limit(&id) {
                assert!(all(&id, None) <= most, "{id:?} is slowed down by {others:?} by more than {most}");
                assert!(
                    others.iter().all(|other| of(other, &id) <= most),
                    "{id:?} slows one of {others:?} down by more than {most}"
                );
            }
            for other in &others {
                let Some(most) = limit(other) else { continue };
                assert!(of(&id, other) <= most, "{other:?} slows {id:?} down by more than {most}");
                let does = of(other, &id);
                assert!(
                    does == Slowdown::NONE || all(other, Some(&id)) <= most,
                    "{other:?} is slowed down by more than {most}"
                );
            }
        }
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
            let is_named =
                request.slots.is_empty() || home.slots().map(|slot| slot.0).eq(request.slots.clone());
            assert!(is_named, "{home:?} are not those that were named: {:?}", request.slots);
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
        let user = |id: &SessionId| self.requests[id].user;
        for sessions in &running {
            let users: BTreeSet<u32> = sessions.iter().map(user).collect();
            assert!(self.rules.share_users || users.len() <= 1, "two users on one slot: {sessions:?}");
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
            // Those that are left want more than is online.
            assert!(self.stopped.is_empty(), "nothing runs, but somebody is suspended");
            assert!(
                self.requests.is_empty() || !self.offline.is_empty() && self.scheduler.counts()[0] == 0,
                "nothing runs, but somebody waits"
            );
        }
    }

    /// Under sidestep, whoever came last to a node has its slots to itself, unless all of the node's slots are taken, or may be another user's.
    fn check_pins(&self, cluster: &Cluster, residents: &[Vec<SessionId>]) {
        self.check_users_where_pinned(cluster);
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
            let online = |node| cluster.slots(node).any(|slot| !self.offline.contains(&Slot(slot as u32)));
            let strays = |slot: &Slot| self.offline.contains(slot) && online(cluster.node_of(*slot));
            assert!(!pinned.slots().any(|slot| strays(&slot)), "{id:?} is pinned where nothing runs");
            if !self.offline.is_empty() {
                continue;
            }
            let users = nodes.iter().flat_map(|node| residents(*node)).map(|id| self.requests[id].user);
            let apart = !self.rules.share_users && users.collect::<BTreeSet<_>>().len() > 1;
            if newest && room && !grouped && !apart {
                assert_eq!(pinned, home, "who came last stays");
                let others = self.pinned.iter().filter(|(other, _)| *other != id);
                for (other, placement) in others {
                    let shared = placement.slots().any(|slot| home.slots().any(|mine| mine == slot));
                    assert!(!shared, "{other:?} is on slots of {id:?}");
                }
            }
        }
    }

    /// Who has stepped aside is on nobody else's slots, unless some of its own were taken away.
    fn check_users_where_pinned(&self, cluster: &Cluster) {
        if self.rules.share_users || !self.offline.is_empty() {
            return;
        }
        let mut users = vec![BTreeSet::new(); cluster.num_slots()];
        for (id, pinned) in self.pinned.iter().filter(|(id, _)| !self.stopped.contains(id)) {
            for slot in pinned.slots() {
                users[slot.0 as usize].insert(self.requests[id].user);
            }
        }
        let crowded = users.iter().position(|users| users.len() > 1);
        assert_eq!(crowded, None, "processes of two users are pinned to one slot: {:?}", self.pinned);
    }

    /// Ends what runs until nothing is left, and counts the steps.
    fn drain(&mut self) {
        self.take(&Step::Offline(0));
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
        let Ok((mut scheduler, _)) = Scheduler::restore(cluster(), saved, BTreeSet::new(), world.foreseen.clone(), world.now) else { return Ok(()) };
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
        twentieths in foreseen(),
    ) {
        let mut world = World::new(rules);
        world.take(&Step::Foresee(twentieths));
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
