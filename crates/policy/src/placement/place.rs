//! A placement: which programs share a node, how often, and what that costs.

use super::{Error, Jobs, Slowdowns, grouping, optimum};
use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::collections::BTreeMap;

/// By what rule jobs are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The least average slowdown: proved for two slots a node, with a bound for more.
    Optimum,
    /// At random, but no two instances of one program on a node as far as that is possible (de Blanche and Lundqvist, "Terrible
    /// twins", COSH 2016). Needs no slowdowns.
    Twins,
    /// At random.
    Random,
    /// In the order in which they came, node by node.
    FirstFit,
}

/// The nodes that jobs are put on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nodes {
    /// How many there are.
    pub nodes: u64,
    /// Slots of each.
    pub per_node: u32,
}

impl Nodes {
    /// As few nodes of so many slots as the jobs need.
    pub fn enough(jobs: &Jobs, per_node: u32) -> Nodes {
        Nodes { nodes: jobs.total().div_ceil(u64::from(per_node.max(1))), per_node }
    }

    fn slots(&self) -> u64 {
        self.nodes.saturating_mul(u64::from(self.per_node))
    }
}

/// The same jobs on each of some nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Numbers of the programs in the jobs, ascending; fewer than there are slots where some stay empty.
    pub programs: Vec<usize>,
    /// How many nodes have just these.
    pub nodes: u64,
}

/// What is known about the distance from the best placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proof {
    /// No placement has a smaller average.
    Optimum,
    /// No placement has an average slowdown below this factor.
    AtLeast(f64),
    /// Nothing: the rule does not look at slowdowns.
    None,
}

/// Jobs on nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// What nodes have; nodes without a job are left out.
    pub groups: Vec<Group>,
    /// How good it is known to be.
    pub proof: Proof,
}

/// What a placement costs, over its jobs. Factors: 1 is no slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The mean.
    pub average: f64,
    /// The least that a job suffers.
    pub best: f64,
    /// The most.
    pub worst: f64,
    /// Nodes with two or more instances of one program.
    pub twins: u64,
}

/// How much a job suffers in a group: what it suffers beside each of the others, added up. For groups of two that is the table; for
/// larger ones it is an assumption.
pub fn slowdown_of(at: usize, programs: &[usize], slowdowns: &Slowdowns) -> f64 {
    let others = programs.iter().enumerate().filter(|(other, _)| *other != at);
    others.fold(1.0, |sum, (_, &other)| sum + slowdowns.of(programs[at], other) - 1.0)
}

/// Puts jobs on nodes. `slowdowns` has the jobs' programs in their order ([`Slowdowns::select`]); no job may suffer a factor above
/// `slowdown_max`, which only [`Rule::Optimum`] looks at. The same seed gives the same placement.
///
/// ```
/// use castell_policy::placement::{Jobs, Nodes, Rule, Slowdowns, place};
///
/// // a computes, b is bound by memory (figure 1 of "Terrible twins").
/// let jobs = Jobs::parse("a,2\nb,2").unwrap();
/// let slowdowns = Slowdowns::parse("program,a,b\na,1,1\nb,1,2").unwrap();
/// let nodes = Nodes { nodes: 2, per_node: 2 };
/// let best = place(&jobs, nodes, Rule::Optimum, Some(&slowdowns), f64::INFINITY, 1).unwrap();
/// assert_eq!(best.outcome(&slowdowns).average, 1.0);
/// let first = place(&jobs, nodes, Rule::FirstFit, None, f64::INFINITY, 1).unwrap();
/// assert_eq!(first.outcome(&slowdowns).average, 1.5);
/// ```
///
/// # Errors
///
/// [`Error`] if there are too few slots, no placement keeps to `slowdown_max`, or the optimum would take too long.
pub fn place(
    jobs: &Jobs,
    nodes: Nodes,
    rule: Rule,
    slowdowns: Option<&Slowdowns>,
    slowdown_max: f64,
    seed: u64,
) -> Result<Placement, Error> {
    if nodes.slots() < jobs.total() {
        return Err(Error::TooManyJobs { jobs: jobs.total(), slots: nodes.slots() });
    }
    match (rule, slowdowns) {
        (Rule::Optimum, None) => Err(Error::NoSlowdowns),
        (Rule::Optimum, Some(slowdowns)) if nodes.per_node == 2 => {
            optimum::pairs(jobs, nodes, slowdowns, slowdown_max)
        }
        (Rule::Optimum, Some(slowdowns)) => grouping::groups(jobs, nodes, slowdowns, slowdown_max, seed),
        _ => Ok(by_order(jobs, nodes, rule, seed)),
    }
}

/// Fills nodes one after the other, or deals jobs out so that twins are apart.
fn by_order(jobs: &Jobs, nodes: Nodes, rule: Rule, seed: u64) -> Placement {
    let programs = jobs.programs().iter().enumerate();
    let mut list: Vec<usize> =
        programs.flat_map(|(program, of)| std::iter::repeat_n(program, of.instances as usize)).collect();
    if rule != Rule::FirstFit {
        shuffle(&mut list, seed);
    }
    let mut placed = Vec::new();
    if rule == Rule::Twins {
        placed = apart(list, jobs, nodes, seed);
    } else {
        placed.extend(list.chunks(nodes.per_node.max(1) as usize).map(<[usize]>::to_vec));
    }
    Placement::of_nodes(placed, Proof::None)
}

/// Deals jobs out program by program, over the nodes in turn: twins share a node only where a program has more instances than there
/// are nodes. Which programs follow each other is random, and so is which jobs meet.
fn apart(list: Vec<usize>, jobs: &Jobs, nodes: Nodes, seed: u64) -> Vec<Vec<usize>> {
    let count = jobs.total().div_ceil(u64::from(nodes.per_node.max(1))).min(nodes.nodes) as usize;
    let mut placed: Vec<Vec<usize>> =
        list.chunks(nodes.per_node.max(1) as usize).map(<[usize]>::to_vec).collect();
    placed.resize(count, Vec::new());
    let has_twins = |node: &[usize]| (1..node.len()).any(|at| node[..at].contains(&node[at]));
    let mut random = Philox::new(seed, Rank(0), 1, 0);
    // A random exchange mends most; what is left after some is dealt out anew.
    for node in 0..placed.len() {
        for _ in 0..TRIES_MAX {
            if !has_twins(&placed[node]) {
                break;
            }
            let other = below(&mut random, placed.len());
            let Some(from) =
                (1..placed[node].len()).find(|&at| placed[node][..at].contains(&placed[node][at]))
            else {
                break;
            };
            let to = below(&mut random, placed[other].len());
            let (mine, theirs) = (placed[node][from], placed[other][to]);
            let is_better =
                other != node && !placed[node].contains(&theirs) && !placed[other].contains(&mine);
            if is_better {
                (placed[node][from], placed[other][to]) = (theirs, mine);
            }
        }
    }
    if placed.iter().any(|node| has_twins(node)) {
        let mut programs: Vec<usize> = (0..jobs.programs().len()).collect();
        shuffle(&mut programs, seed);
        programs.sort_by_key(|&program| std::cmp::Reverse(jobs.programs()[program].instances));
        placed = vec![Vec::new(); count];
        let dealt = programs
            .iter()
            .flat_map(|&program| std::iter::repeat_n(program, jobs.programs()[program].instances as usize));
        dealt.enumerate().for_each(|(at, program)| placed[at % count].push(program));
    }
    placed
}

/// Exchanges that are tried for a node with twins.
const TRIES_MAX: usize = 200;

pub(super) fn below(random: &mut Philox, end: usize) -> usize {
    (random.next_u64() % end.max(1) as u64) as usize
}

/// A random order, each as likely (Fisher and Yates).
pub(super) fn shuffle(list: &mut [usize], seed: u64) {
    let mut random = Philox::new(seed, Rank(0), 0, 0);
    for end in (1..list.len()).rev() {
        list.swap(end, below(&mut random, end + 1));
    }
}

impl Placement {
    /// Counts nodes that have the same jobs.
    pub(super) fn of_nodes(nodes: impl IntoIterator<Item = Vec<usize>>, proof: Proof) -> Placement {
        let mut groups = BTreeMap::new();
        for mut programs in nodes {
            programs.sort_unstable();
            if !programs.is_empty() {
                *groups.entry(programs).or_insert(0) += 1;
            }
        }
        let groups = groups.into_iter().map(|(programs, nodes)| Group { programs, nodes });
        Placement { groups: groups.collect(), proof }
    }

    /// What it costs.
    pub fn outcome(&self, slowdowns: &Slowdowns) -> Outcome {
        let (mut sum, mut jobs, mut best, mut worst) = (0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        for group in &self.groups {
            for at in 0..group.programs.len() {
                let slowdown = slowdown_of(at, &group.programs, slowdowns);
                sum += (slowdown - 1.0) * group.nodes as f64;
                jobs += group.nodes as f64;
                (best, worst) = (slowdown.min(best), slowdown.max(worst));
            }
        }
        if jobs == 0.0 {
            return Outcome { average: 1.0, best: 1.0, worst: 1.0, twins: 0 };
        }
        Outcome { average: 1.0 + sum / jobs, best, worst, twins: self.twins() }
    }

    /// Nodes with two or more instances of one program.
    pub fn twins(&self) -> u64 {
        let twins = self.groups.iter().filter(|group| group.programs.windows(2).any(|two| two[0] == two[1]));
        twins.map(|group| group.nodes).sum()
    }
}
