//! Tries a strategy out on random nodes: does it fail, decide what cannot be carried out, or decide differently the second time?

use crate::collection::{CollectionId, Kernel, Kernels, Ranking};
use crate::keeper::{Event, Fault, Happened, Keeper, Strategy};
use crate::node::{Node, ResourceId, ResourceKind};
use castell_base::random::Key;
use castell_base::{Rank, Time};
use rand_core::RngCore;
use std::sync::Arc;

/// What a strategy did on random nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nodes that it was tried on.
    pub nodes: u64,
    /// What happened there: arrivals, ends of steps, ticks, changes.
    pub happened: u64,
    /// What it decided.
    pub decisions: u64,
    /// Nodes on which, at the end, collections wait although nothing runs and resources that they have kernels for are allowed.
    pub stalled: u64,
    /// The first thing that is wrong; the check ends there.
    pub wrong: Option<Wrong>,
}

/// Something wrong with a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// On which node, counted from 0.
    pub node: u64,
    /// After how many of the things that happened there.
    pub step: usize,
    /// What.
    pub what: Finding,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It fails.
    Fault(Fault),
    /// Two that were told the same decided differently.
    Differs {
        /// What one of them did.
        one: Option<Happened>,
        /// What the other did.
        other: Option<Happened>,
    },
}

/// Things that happen on a node, at most.
const STEPS_MAX: u64 = 60;

/// Tries strategies that `make` makes on so many random nodes; the same seed gives the same nodes. Two at a time are told the same.
///
/// # Errors
/// `make` fails.
pub fn check(
    make: &mut dyn FnMut() -> Result<Box<dyn Strategy>, Fault>,
    seed: u64,
    nodes: u64,
) -> Result<Report, Fault> {
    check_on(&Setting { node: None, kernels: &[] }, make, seed, nodes)
}

/// The same on nodes that begin like this one, with an application's kernels: for its own strategy, which may know its node and what it
/// can run. Without kernels collections have one for each resource.
///
/// # Errors
/// `make` fails.
pub fn check_own(
    own: &Node,
    kernels: &[Arc<Kernels>],
    make: &mut dyn FnMut() -> Result<Box<dyn Strategy>, Fault>,
    seed: u64,
    nodes: u64,
) -> Result<Report, Fault> {
    let all = (0..own.resources().len()).map(|at| Kernel { resource: ResourceId(at), step_time: None });
    let all = Kernels::new(all.collect(), Vec::new()).map(Arc::new);
    let all = all.as_ref().map(std::slice::from_ref).unwrap_or_default();
    let kernels = if kernels.is_empty() { all } else { kernels };
    check_on(&Setting { node: Some(own.of_application()), kernels }, make, seed, nodes)
}

/// What is not left to chance.
struct Setting<'a> {
    node: Option<Node>,
    /// None: any.
    kernels: &'a [Arc<Kernels>],
}

fn check_on(
    setting: &Setting<'_>,
    make: &mut dyn FnMut() -> Result<Box<dyn Strategy>, Fault>,
    seed: u64,
    nodes: u64,
) -> Result<Report, Fault> {
    let mut report = Report::default();
    for number in 0..nodes {
        let mut random = Random(Key { seed, rank: Rank(0), operation: number }.stream(0));
        report.nodes += 1;
        let node = setting.node.clone().unwrap_or_else(|| node(&mut random));
        let strategies = [make()?, make()?];
        if let Some(wrong) = one_node(random, (&node, setting.kernels), strategies, number, &mut report) {
            report.wrong = Some(wrong);
            break;
        }
    }
    Ok(report)
}

/// A stream of small numbers.
struct Random(castell_base::random::Philox);

impl Random {
    /// A number below this.
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

fn one_node(
    mut random: Random,
    (node, kernels): (&Node, &[Arc<Kernels>]),
    twins: [Box<dyn Strategy>; 2],
    number: u64,
    report: &mut Report,
) -> Option<Wrong> {
    let mut keepers = twins.map(|strategy| Keeper::new(node.clone(), strategy));
    let mut now = Time::ZERO;
    for step in 0..random.below(STEPS_MAX) as usize {
        now += Time::from_us(random.below(4_000_000));
        happen(&mut random, kernels, &mut keepers, now);
        let [one, other] = keepers.each_mut().map(Keeper::take_events);
        report.happened += 1;
        report.decisions +=
            one.iter().filter(|event| matches!(event.what, Happened::Decided(_))).count() as u64;
        if let Some(what) = finding(&one, &other) {
            return Some(Wrong { node: number, step, what });
        }
    }
    report.stalled += u64::from(is_stalled(keepers[0].node()));
    None
}

fn finding(one: &[Event], other: &[Event]) -> Option<Finding> {
    let fault = one.iter().find_map(|event| match &event.what {
        Happened::Fault(fault) => Some(fault.clone()),
        _ => None,
    });
    if let Some(fault) = fault {
        return Some(Finding::Fault(fault));
    }
    if one == other {
        return None;
    }
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let at = |events: &[Event]| events.get(same).map(|event| event.what.clone());
    Some(Finding::Differs { one: at(one), other: at(other) })
}

/// One to four resources, of which `low` forbids some in half of the nodes.
fn node(random: &mut Random) -> Node {
    let mut names = vec!["one_core", "all_cores", "gpu", "fpga"];
    for _ in 0..random.below(names.len() as u64) {
        let at = random.below(names.len() as u64);
        names.remove(at as usize);
    }
    let resources = names.iter().map(|name| ((*name).to_owned(), ResourceKind::of(name)));
    let mut node = Node::new(resources).expect("each has a name of its own");
    if random.below(2) == 0 {
        let forbidden: Vec<_> = names.iter().skip(1).map(|name| (*name).to_owned()).collect();
        node.set_forbidden("low", &forbidden).expect("they are there");
    }
    node.set_sensor("battery", random.below(100) as f64 / 100.0);
    node
}

/// Kernels for some of the resources, with or without times, ranked by times or anyhow.
fn kernels(random: &mut Random, resources: usize) -> Arc<Kernels> {
    let mut order: Vec<_> = (0..resources).map(ResourceId).collect();
    for at in 1..order.len() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order.truncate(1 + random.below(resources as u64) as usize);
    let mut kernels = Vec::new();
    for &resource in &order {
        let time = Time::from_us(1 + random.below(20_000_000));
        kernels.push(Kernel { resource, step_time: (random.below(5) > 0).then_some(time) });
    }
    let ranking = Ranking { name: "performance".into(), order };
    let rankings = if random.below(2) == 0 { Vec::new() } else { vec![ranking] };
    Arc::new(Kernels::new(kernels, rankings).expect("kernels that are there"))
}

/// Something happens, to both alike.
fn happen(random: &mut Random, given: &[Arc<Kernels>], keepers: &mut [Keeper; 2], now: Time) {
    let node = keepers[0].node();
    let running: Vec<_> =
        (0..node.resources().len()).filter(|at| node.resources()[*at].running.is_some()).collect();
    let resources = node.resources().len();
    let all: Vec<CollectionId> = node.collections().map(|collection| collection.id).collect();
    match random.below(10) {
        0..=3 => {
            let kernels = match given {
                [] => kernels(random, resources),
                given => given[random.below(given.len() as u64) as usize].clone(),
            };
            let steps = 1 + random.below(3) as u32;
            let name: Arc<str> = ["solver", "product", "filter"][random.below(3) as usize].into();
            for keeper in keepers.iter_mut() {
                keeper
                    .register(now, name.clone(), kernels.clone(), steps)
                    .expect("kernels for what is there");
            }
        }
        4..=6 if !running.is_empty() => {
            let ended = ResourceId(running[random.below(running.len() as u64) as usize]);
            keepers.iter_mut().for_each(|keeper| keeper.ended(now, ended).expect("something runs there"));
        }
        7 => {
            let level = ["high", "low", "medium"][random.below(3) as usize];
            keepers.iter_mut().for_each(|keeper| keeper.set_governor(now, level));
        }
        8 if !all.is_empty() => {
            let gone = all[random.below(all.len() as u64) as usize];
            keepers.iter_mut().for_each(|keeper| keeper.withdraw(now, gone));
        }
        9 => {
            let value = random.below(100) as f64 / 100.0;
            keepers.iter_mut().for_each(|keeper| keeper.set_sensor(now, "battery", value));
        }
        _ => keepers.iter_mut().for_each(|keeper| keeper.tick(now)),
    }
    keepers.iter_mut().for_each(|keeper| keeper.tick(now));
}

fn is_stalled(node: &Node) -> bool {
    let is_idle = node.resources().iter().all(|resource| resource.running.is_none());
    let could_run = |id: &CollectionId| {
        let collection = node.collection(*id).expect("it waits");
        collection.kernels.all().iter().any(|kernel| !node.resources()[kernel.resource.0].is_forbidden)
    };
    is_idle && node.waiting().iter().any(could_run)
}
