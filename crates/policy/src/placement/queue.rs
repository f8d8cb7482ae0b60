//! A live queue: which jobs that wait start now, and beside whom, on nodes where others run already.
//!
//! Partners are chosen when jobs start, not when they are submitted: only then is it known who runs. In the order of the queue each job
//! takes the slot where least is lost; then jobs that were placed in this round trade places as long as that helps, also to make room for
//! one that found none. A job of which nothing is known is kept from its twins, instances of its own program ("Terrible twins", COSH 2016),
//! until it has waited for long enough.

/// A node as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// How many jobs of one slot it takes in all.
    pub slots: u32,
    /// How many slots are taken, also by jobs that are not in `running`.
    pub taken: u32,
    /// Programs that run there.
    pub running: Vec<usize>,
}

/// A job of one slot that could start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its program.
    pub program: usize,
    /// It takes any slot now, whoever is there.
    pub is_impatient: bool,
}

/// What becomes of a job that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It starts on the node of this number.
    Start(usize),
    /// No slot is free.
    Full,
    /// Slots are free, but only beside jobs that it is to be kept from.
    Apart,
}

/// What is known of how much programs suffer beside each other.
pub trait Knowledge {
    /// By which factor `program` runs longer beside `neighbour`; `None` if nobody knows.
    fn slowdown(&self, program: usize, neighbour: usize) -> Option<f64>;
    /// No job may suffer more, as far as it is known.
    fn slowdown_max(&self) -> f64;
    /// Whether two are instances of one program, and so kept apart if nothing is known of them.
    fn are_twins(&self, one: usize, other: usize) -> bool {
        one == other
    }
}

/// What is lost beside a neighbour of whom nothing is known: less than beside most that are known to hurt, more than alone.
pub const UNKNOWN: f64 = 0.05;
/// Rounds of trading places, at most.
const ROUNDS: usize = 16;

/// What becomes of each job that waits, in the order of the queue.
///
/// ```
/// use castell_policy::placement::queue::{Choice, Knowledge, Node, Waiting, choose};
///
/// struct Nothing;
/// impl Knowledge for Nothing {
///     fn slowdown(&self, _: usize, _: usize) -> Option<f64> {
///         None
///     }
///     fn slowdown_max(&self) -> f64 {
///         f64::INFINITY
///     }
/// }
/// let nodes = [0, 1].map(|program| Node { slots: 2, taken: 1, running: vec![program] });
/// let waiting = [0, 0, 0].map(|program| Waiting { program, is_impatient: false });
/// assert_eq!(choose(&nodes, &waiting, &Nothing), [Choice::Start(1), Choice::Apart, Choice::Apart]);
/// ```
pub fn choose(nodes: &[Node], waiting: &[Waiting], knowledge: &impl Knowledge) -> Vec<Choice> {
    let mut round = Round {
        nodes,
        waiting,
        knowledge,
        placed: vec![None; waiting.len()],
        on: vec![Vec::new(); nodes.len()],
    };
    // Who has waited for long enough chooses first.
    let (impatient, others): (Vec<usize>, Vec<usize>) =
        (0..waiting.len()).partition(|&job| waiting[job].is_impatient);
    for job in impatient.into_iter().chain(others) {
        if let Some((_, node)) = round.cheapest(job) {
            round.put(job, node);
        } else {
            round.make_room(job);
        }
    }
    for _ in 0..ROUNDS {
        if !round.trade() {
            break;
        }
    }
    let is_full = (0..nodes.len()).all(|node| round.free(node) == 0);
    let choice = |node: &Option<usize>| match node {
        Some(node) => Choice::Start(*node),
        None if is_full => Choice::Full,
        None => Choice::Apart,
    };
    round.placed.iter().map(choice).collect()
}

/// What has been decided so far.
struct Round<'a, K> {
    nodes: &'a [Node],
    waiting: &'a [Waiting],
    knowledge: &'a K,
    /// By job: its node.
    placed: Vec<Option<usize>>,
    /// By node: the jobs of this round.
    on: Vec<Vec<usize>>,
}

impl<K: Knowledge> Round<'_, K> {
    fn free(&self, node: usize) -> usize {
        let Node { slots, taken, .. } = self.nodes[node];
        (slots.saturating_sub(taken) as usize).saturating_sub(self.on[node].len())
    }

    fn put(&mut self, job: usize, node: usize) {
        self.placed[job] = Some(node);
        self.on[node].push(job);
    }

    fn take(&mut self, job: usize) {
        if let Some(node) = self.placed[job].take() {
            self.on[node].retain(|other| *other != job);
        }
    }

    /// What is lost if `job` runs on `node`, by itself and by those that are there without `absent`; `None` if it is to be kept from them.
    fn cost(&self, job: usize, node: usize, absent: Option<usize>) -> Option<f64> {
        let Waiting { program, is_impatient } = self.waiting[job];
        let of_round = self.on[node].iter().filter(|other| **other != job && Some(**other) != absent);
        let starting = of_round.map(|&other| self.waiting[other].program);
        let mut sum = 0.0;
        for neighbour in self.nodes[node].running.iter().copied().chain(starting) {
            let loss = self.loss(program, neighbour);
            if loss.is_none() && !is_impatient {
                return None;
            }
            // Where it must be, what is forbidden is still worse than what is not.
            sum += loss.unwrap_or(1e3);
        }
        Some(sum)
    }

    /// What two lose to each other; `None` if they are to be kept apart.
    fn loss(&self, one: usize, other: usize) -> Option<f64> {
        let both = [self.knowledge.slowdown(one, other), self.knowledge.slowdown(other, one)];
        if both[0].is_none() && self.knowledge.are_twins(one, other) {
            return None;
        }
        let is_too_slow = both.iter().flatten().any(|factor| *factor > self.knowledge.slowdown_max());
        let sum = both.map(|factor| factor.map_or(UNKNOWN, |factor| (factor - 1.0).max(0.0))).iter().sum();
        (!is_too_slow).then_some(sum)
    }

    /// The node where least is lost, and how much: among equal ones the one with most free slots, and of those the first.
    fn cheapest(&self, job: usize) -> Option<(f64, usize)> {
        let free = (0..self.nodes.len()).filter(|&node| self.free(node) > 0);
        let costs = free.filter_map(|node| Some((self.cost(job, node, None)?, node)));
        costs.min_by(|(one, first), (other, second)| {
            one.total_cmp(other).then(self.free(*second).cmp(&self.free(*first))).then(first.cmp(second))
        })
    }

    /// `job` found no slot: one that was placed in this round goes elsewhere, if that makes room.
    fn make_room(&mut self, job: usize) {
        let placed: Vec<(usize, usize)> =
            self.placed.iter().enumerate().filter_map(|(other, node)| Some((other, (*node)?))).collect();
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for (other, node) in placed {
            let Some(cost) = self.cost(job, node, Some(other)) else { continue };
            self.take(other);
            self.put(job, node);
            let elsewhere = self.cheapest(other);
            self.take(job);
            self.put(other, node);
            if let Some((moved, to)) = elsewhere
                && best.is_none_or(|(least, ..)| cost + moved < least)
            {
                best = Some((cost + moved, other, node, to));
            }
        }
        if let Some((_, other, node, to)) = best {
            self.take(other);
            self.put(job, node);
            self.put(other, to);
        }
    }

    /// Two jobs of this round trade places, or one moves to a free slot, where that loses less; whether any did.
    fn trade(&mut self) -> bool {
        let mut has_helped = false;
        let placed: Vec<usize> = (0..self.placed.len()).filter(|&job| self.placed[job].is_some()).collect();
        for (at, &one) in placed.iter().enumerate() {
            has_helped |= self.move_to_better(one);
            for &other in &placed[at + 1..] {
                has_helped |= self.swap_if_better(one, other);
            }
        }
        has_helped
    }

    fn move_to_better(&mut self, job: usize) -> bool {
        let Some(node) = self.placed[job] else { return false };
        let now = self.cost(job, node, None).unwrap_or(f64::INFINITY);
        match self.cheapest(job) {
            Some((cost, to)) if to != node && is_less(cost, now) => {
                self.take(job);
                self.put(job, to);
                true
            }
            _ => false,
        }
    }

    fn swap_if_better(&mut self, one: usize, other: usize) -> bool {
        let (Some(here), Some(there)) = (self.placed[one], self.placed[other]) else { return false };
        if here == there || self.waiting[one].program == self.waiting[other].program {
            return false;
        }
        let sum = |costs: [Option<f64>; 2]| Some(costs[0]? + costs[1]?);
        let now = sum([self.cost(one, here, None), self.cost(other, there, None)]).unwrap_or(f64::INFINITY);
        let then = sum([self.cost(one, there, Some(other)), self.cost(other, here, Some(one))]);
        let Some(_) = then.filter(|then| is_less(*then, now)) else { return false };
        for (job, node) in [(one, there), (other, here)] {
            self.take(job);
            self.put(job, node);
        }
        true
    }
}

/// By more than what adding in another order may change.
fn is_less(one: f64, other: f64) -> bool {
    one < other - 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slowdowns by (program, neighbour); what is beyond is not known.
    struct Table(Vec<Vec<f64>>, f64);

    impl Knowledge for Table {
        fn slowdown(&self, program: usize, neighbour: usize) -> Option<f64> {
            self.0.get(program)?.get(neighbour).copied()
        }

        fn slowdown_max(&self) -> f64 {
            self.1
        }
    }

    fn nothing() -> Table {
        Table(Vec::new(), f64::INFINITY)
    }

    fn empty(nodes: usize) -> Vec<Node> {
        vec![Node { slots: 2, taken: 0, running: Vec::new() }; nodes]
    }

    fn jobs(programs: &[usize]) -> Vec<Waiting> {
        programs.iter().map(|&program| Waiting { program, is_impatient: false }).collect()
    }

    /// Programs by node after a round.
    fn after(nodes: &[Node], waiting: &[Waiting], choices: &[Choice]) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = nodes.iter().map(|node| node.running.clone()).collect();
        for (job, choice) in waiting.iter().zip(choices) {
            if let Choice::Start(node) = choice {
                all[*node].push(job.program);
            }
        }
        all
    }

    #[test]
    fn twins_are_kept_apart_in_whatever_order_they_come() {
        for programs in
            [vec![0, 0, 1, 1, 2, 2], vec![0, 1, 2, 0, 1, 2], vec![0, 1, 2, 2, 1, 0], vec![0, 1, 1, 0, 2, 2]]
        {
            let (nodes, waiting) = (empty(3), jobs(&programs));
            let choices = choose(&nodes, &waiting, &nothing());
            let all = after(&nodes, &waiting, &choices);
            assert!(all.iter().all(|node| node.len() == 2 && node[0] != node[1]), "{programs:?}: {all:?}");
        }
    }

    #[test]
    fn one_moves_so_that_another_is_no_twin() {
        // The first takes the empty slot beside 1, where the second could not be anywhere else.
        let nodes = [0, 1].map(|program| Node { slots: 2, taken: 1, running: vec![program] });
        assert_eq!(choose(&nodes, &jobs(&[2, 0]), &nothing()), [Choice::Start(0), Choice::Start(1)]);
        assert_eq!(choose(&nodes, &jobs(&[2, 1]), &nothing()), [Choice::Start(1), Choice::Start(0)]);
    }

    #[test]
    fn who_waited_for_long_enough_takes_what_there_is() {
        let nodes = [Node { slots: 2, taken: 1, running: vec![0] }];
        let mut waiting = jobs(&[0, 0]);
        assert_eq!(choose(&nodes, &waiting, &nothing()), [Choice::Apart, Choice::Apart]);
        waiting[1].is_impatient = true;
        assert_eq!(choose(&nodes, &waiting, &nothing()), [Choice::Full, Choice::Start(0)]);
    }

    #[test]
    fn less_is_lost_after_trading() {
        // 0 and 1 hurt each other, 2 and 3 do; taken in order 0 and 1 would go to 2 and 3 in the wrong way.
        let table = |hurts: fn(usize, usize) -> bool, max| {
            let row = |one| (0..4).map(|other| if hurts(one, other) { 2.0 } else { 1.1 }).collect();
            Table((0..4).map(row).collect(), max)
        };
        let hurts = |one, other| matches!((one, other), (0, 3) | (3, 0) | (1, 2) | (2, 1));
        let nodes = [2, 3].map(|program| Node { slots: 2, taken: 1, running: vec![program] });
        let choices = choose(&nodes, &jobs(&[0, 1]), &table(hurts, f64::INFINITY));
        assert_eq!(choices, [Choice::Start(0), Choice::Start(1)]);
        let all_hurt = |_, _| true;
        assert_eq!(choose(&nodes, &jobs(&[0, 1]), &table(all_hurt, 1.5)), [Choice::Apart, Choice::Apart]);
    }

    fn queues() -> impl Strategy<Value = (Vec<Node>, Vec<Waiting>)> {
        let node = (1u32..4, prop::collection::vec(0usize..6, 0..4)).prop_map(|(slots, mut running)| {
            running.truncate(slots as usize);
            Node { slots, taken: running.len() as u32, running }
        });
        let job = (0usize..6, prop::bool::weighted(0.1));
        let job = job.prop_map(|(program, is_impatient)| Waiting { program, is_impatient });
        (prop::collection::vec(node, 0..6), prop::collection::vec(job, 0..20))
    }

    proptest! {
        #[test]
        fn no_slot_is_given_twice_and_none_stays_free_beside_who_could_take_it((nodes, waiting) in queues()) {
            let choices = choose(&nodes, &waiting, &nothing());
            let all = after(&nodes, &waiting, &choices);
            for (node, there) in nodes.iter().zip(&all) {
                prop_assert!(there.len() <= node.slots as usize);
            }
            for (job, choice) in waiting.iter().zip(&choices) {
                let open = nodes.iter().zip(&all).filter(|(node, there)| there.len() < node.slots as usize);
                match choice {
                    Choice::Start(_) => {}
                    Choice::Full => prop_assert_eq!(open.count(), 0),
                    Choice::Apart => {
                        prop_assert!(!job.is_impatient);
                        for (_, there) in open {
                            prop_assert!(there.contains(&job.program));
                        }
                    }
                }
            }
        }

        #[test]
        fn patient_twins_never_meet((nodes, waiting) in queues()) {
            let waiting: Vec<Waiting> = waiting.iter().map(|job| Waiting { is_impatient: false, ..*job }).collect();
            let choices = choose(&nodes, &waiting, &nothing());
            for (node, there) in nodes.iter().zip(after(&nodes, &waiting, &choices)) {
                for (at, program) in there.iter().enumerate().skip(node.running.len()) {
                    prop_assert!(!there[..at].contains(program), "{:?}", there);
                }
            }
        }
    }
}
