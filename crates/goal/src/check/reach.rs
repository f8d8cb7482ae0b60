//! Whether one operation of a rank is surely over, or surely started, before another starts.
//!
//! Each operation is two points, its start and its finish, unless the rank has no edge that waits for a start only:
//! then one point does. Most questions are answered by two labellings made in one depth-first search: an interval of
//! the search's tree (a point below another surely comes after it), and the least number that a point's descendants
//! have in the order in which the search left them (a point outside that range surely is no descendant). The others
//! are searched, within a bound.
//!
//! An operation with `any = k` below its number of dependencies waits for no single one of them: it surely comes
//! after a point only where so many of its dependencies do that fewer than `k` are left.

use super::order::{Order, Targets};
use crate::graph::{Graph, Vertex};
use std::collections::HashMap;

/// Points that all searches together may visit, in a program.
pub(super) const VISITS_MAX: u64 = 50_000_000;
/// Points that one search may visit.
const SEARCH_MAX: u64 = 200_000;

/// Answers for one rank.
pub(super) struct Reach<'a> {
    order: &'a Order,
    targets: Targets,
    vertices: u32,
    /// Points of finishes start here; 0: there is one point an operation.
    finishes: u32,
    /// Of operations with `any` below their in-degree: how many dependencies have to come after a point for the
    /// operation to come after it.
    needs: HashMap<u32, u32>,
    /// Where the search entered and where it left each point's subtree.
    tree: Vec<[u32; 2]>,
    /// The order in which the search left the points, and the least of all descendants'.
    left: Vec<[u32; 2]>,
    /// Search in which a point was last visited.
    visited: Vec<u32>,
    search: u32,
}

impl<'a> Reach<'a> {
    /// Labels the points of an acyclic graph.
    pub fn of(graph: &'a Graph, order: &'a Order) -> Reach<'a> {
        assert!(order.acyclic, "only what has an order can be asked about it");
        let (targets, vertices) = (Targets::of(graph), graph.len() as u32);
        let split = !targets.of_start.is_empty();
        let points = if split { 2 * graph.len() } else { graph.len() };
        let (finishes, visited) = (if split { vertices } else { 0 }, vec![0; points]);
        let (tree, left, needs) = (Vec::new(), Vec::new(), needs(graph));
        let mut reach = Reach { order, targets, vertices, finishes, needs, tree, left, visited, search: 0 };
        reach.label();
        reach
    }

    /// Whether `a` is over whenever `b` starts; `None` where `budget` did not last to find out.
    pub fn finished_before(&mut self, a: Vertex, b: Vertex, budget: &mut u64) -> Option<bool> {
        self.reaches(a.0 + self.finishes, b.0, budget)
    }

    /// Whether `a` has started whenever `b` starts; `None` where `budget` did not last to find out.
    pub fn started_before(&mut self, a: Vertex, b: Vertex, budget: &mut u64) -> Option<bool> {
        self.reaches(a.0, b.0, budget)
    }

    /// As [`Reach::finished_before`], where that is plain to see.
    pub fn plainly_finished_before(&self, a: Vertex, b: Vertex) -> bool {
        a != b && self.below(a.0 + self.finishes, b.0)
    }

    fn reaches(&mut self, from: u32, to: u32, budget: &mut u64) -> Option<bool> {
        if from == to || self.place(from) >= self.place(to) || !self.may_reach(from, to) {
            return Some(false);
        }
        if self.below(from, to) {
            return Some(true);
        }
        self.search(from, to, budget)
    }

    /// Depth-first from `from`, past points that cannot reach `to`.
    fn search(&mut self, from: u32, to: u32, budget: &mut u64) -> Option<bool> {
        self.search += 1;
        let search = self.search;
        let mut visited = std::mem::take(&mut self.visited);
        let limit = SEARCH_MAX.min(*budget);
        let mut visits = 0;
        let answer = self.walk(from, to, &mut |target| {
            visits += 1;
            let new = std::mem::replace(&mut visited[target as usize], search) != search;
            if visits > limit { None } else { Some(new) }
        });
        self.visited = visited;
        *budget -= visits.min(limit);
        answer
    }

    /// The search itself; `visit` says whether a point is new, or that there have been too many.
    fn walk(&self, from: u32, to: u32, visit: &mut impl FnMut(u32) -> Option<bool>) -> Option<bool> {
        let mut met: HashMap<u32, u32> = HashMap::new();
        let mut stack = vec![from];
        while let Some(point) = stack.pop() {
            let (own_finish, targets) = self.next(point);
            for &target in own_finish.iter().chain(targets) {
                if !(target == to || self.may_reach(target, to)) {
                    continue;
                }
                if let Some(&need) = self.needs.get(&target) {
                    let met = met.entry(target).or_default();
                    *met += 1;
                    if *met < need {
                        continue;
                    }
                }
                if target == to || self.below(target, to) {
                    return Some(true);
                }
                if visit(target)? {
                    stack.push(target);
                }
            }
        }
        Some(false)
    }

    /// What follows directly: an operation's finish its start, other starts a finish or start.
    fn next(&self, point: u32) -> (Option<u32>, &[u32]) {
        match self.finishes {
            0 => (None, self.targets.of_finish.of_vertex(point)),
            _ if point < self.vertices => {
                (Some(point + self.vertices), self.targets.of_start.of_vertex(point))
            }
            _ => (None, self.targets.of_finish.of_vertex(point - self.vertices)),
        }
    }

    /// Place of a point in an order in which everything comes behind what it waits for.
    fn place(&self, point: u32) -> u64 {
        let place = |vertex: u32| u64::from(self.order.place[vertex as usize]);
        match self.finishes {
            0 => place(point),
            _ if point < self.vertices => 2 * place(point),
            _ => 2 * place(point - self.vertices) + 1,
        }
    }

    /// Whether `to` lies in the tree below `from`: then it surely comes after it.
    fn below(&self, from: u32, to: u32) -> bool {
        let [entered, left] = self.tree[from as usize];
        (entered..=left).contains(&self.tree[to as usize][0])
    }

    /// Whether `to` can be a descendant of `from`.
    fn may_reach(&self, from: u32, to: u32) -> bool {
        let [from_left, from_least] = self.left[from as usize];
        let [to_left, to_least] = self.left[to as usize];
        from_least <= to_least && to_left < from_left
    }

    /// Makes both labellings.
    fn label(&mut self) {
        let mut by_place: Vec<u32> = vec![0; self.vertices as usize];
        (0..self.vertices).for_each(|vertex| by_place[self.order.place[vertex as usize] as usize] = vertex);
        // The tree does not enter operations that wait for no single one of their dependencies; the other labelling
        // has to, so that a point is left after all its descendants.
        let (tree, mut left) = self.depth_first(&by_place, |target| !self.needs.contains_key(&target));
        if !self.needs.is_empty() {
            left = self.depth_first(&by_place, |_| true).1;
        }
        let mut least = left.clone();
        for &vertex in by_place.iter().rev() {
            let finish = (self.finishes > 0).then(|| vertex + self.finishes);
            for point in finish.into_iter().chain([vertex]) {
                let (own_finish, targets) = self.next(point);
                let next = own_finish.iter().chain(targets).map(|&target| least[target as usize]);
                least[point as usize] = next.min().unwrap_or(u32::MAX).min(least[point as usize]);
            }
        }
        self.tree = tree;
        self.left = left.into_iter().zip(least).map(|(left, least)| [left, least]).collect();
    }

    /// Walks all points from the operations in order; says when each was entered, the last that was entered below
    /// it, and in which order they were left.
    fn depth_first(&self, by_place: &[u32], enters: impl Fn(u32) -> bool) -> (Vec<[u32; 2]>, Vec<u32>) {
        const NEVER: u32 = u32::MAX;
        let mut tree = vec![[NEVER, 0]; self.visited.len()];
        let mut left = vec![0; self.visited.len()];
        let (mut entered, mut leaving) = (0, 0);
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for &root in by_place {
            if tree[root as usize][0] == NEVER {
                tree[root as usize][0] = entered;
                entered += 1;
                stack.push((root, 0));
            }
            while let Some((point, done)) = stack.last_mut() {
                let (own_finish, targets) = self.next(*point);
                let own = usize::from(own_finish.is_some());
                let target = if *done < own { own_finish } else { targets.get(*done - own).copied() };
                *done += 1;
                let Some(target) = target else {
                    tree[*point as usize][1] = entered - 1;
                    left[*point as usize] = leaving;
                    leaving += 1;
                    stack.pop();
                    continue;
                };
                if tree[target as usize][0] == NEVER && enters(target) {
                    tree[target as usize][0] = entered;
                    entered += 1;
                    stack.push((target, 0));
                }
            }
        }
        (tree, left)
    }
}

/// Of operations with `any` below their in-degree: how many of their dependencies have to come after a point.
fn needs(graph: &Graph) -> HashMap<u32, u32> {
    let mut needs = HashMap::new();
    if graph.any_vertices().next().is_none() {
        return needs;
    }
    let mut in_degrees = vec![0u32; graph.len()];
    graph.edges().for_each(|edge| in_degrees[edge.target.index()] += 1);
    for (vertex, any) in graph.any_vertices() {
        let in_degree = in_degrees[vertex.index()];
        if any < in_degree {
            needs.insert(vertex.0, in_degree - any + 1);
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Found;
    use crate::program::Program;
    use castell_base::Rank;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn random_graph(random: &mut ChaCha8Rng) -> Graph {
        let mut graph = Graph::new();
        let starts = random.random_bool(0.5);
        for index in 0..random.random_range(1..14u32) {
            let vertex = graph.proxy().unwrap();
            let mut edges = 0;
            for from in (0..index).map(Vertex) {
                match random.random_range(0..8) {
                    0 if starts => graph.irequires(from, vertex).unwrap(),
                    1 | 2 => graph.requires(from, vertex).unwrap(),
                    _ => continue,
                }
                edges += 1;
            }
            if edges > 0 && random.random_bool(0.2) {
                graph.set_any(vertex, random.random_range(1..=edges)).unwrap();
            }
        }
        graph
    }

    /// By the definition: `a` never finishes (or never starts); does `b` start all the same?
    fn surely_before(graph: &Graph, a: Vertex, b: Vertex, only_started: bool) -> bool {
        let (mut started, mut finished) = (vec![false; graph.len()], vec![false; graph.len()]);
        for vertex in graph.vertices() {
            let into: Vec<_> = graph.edges().filter(|edge| edge.target == vertex).collect();
            let met = into.iter().filter(|edge| match edge.kind {
                crate::graph::EdgeKind::Finish => finished[edge.prerequisite.index()],
                crate::graph::EdgeKind::Start => started[edge.prerequisite.index()],
            });
            let need = graph.traits(vertex).any.map_or(into.len(), |any| any as usize);
            started[vertex.index()] = met.count() >= need && !(only_started && vertex == a);
            finished[vertex.index()] = started[vertex.index()] && vertex != a;
        }
        !started[b.index()] && a != b
    }

    #[test]
    fn agrees_with_the_definition() {
        for seed in 0..300 {
            let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(seed));
            let program = Program::new(1);
            let order = Order::of(Rank(0), &graph, &mut Found::new(&program));
            let mut reach = Reach::of(&graph, &order);
            let mut budget = VISITS_MAX;
            for (a, b) in graph.vertices().flat_map(|a| graph.vertices().map(move |b| (a, b))) {
                let expected = surely_before(&graph, a, b, false);
                assert_eq!(
                    reach.finished_before(a, b, &mut budget),
                    Some(expected),
                    "seed {seed} {a:?} {b:?}"
                );
                assert!(expected || !reach.plainly_finished_before(a, b), "seed {seed} {a:?} {b:?}");
                let expected = surely_before(&graph, a, b, true);
                assert_eq!(
                    reach.started_before(a, b, &mut budget),
                    Some(expected),
                    "seed {seed} {a:?} {b:?}"
                );
            }
        }
    }

    /// Asks about all pairs, of ends and of starts, with so much to spend each: what is answered, and what was spent.
    fn ask(
        graph: &Graph,
        budget: impl Fn(Vertex, Vertex, bool) -> u64,
        mut told: impl FnMut(Vertex, Vertex, bool, Option<bool>, u64),
    ) {
        let program = Program::new(1);
        let order = Order::of(Rank(0), graph, &mut Found::new(&program));
        let mut reach = Reach::of(graph, &order);
        for (a, b) in graph.vertices().flat_map(|a| graph.vertices().map(move |b| (a, b))) {
            for only_started in [false, true] {
                let given = budget(a, b, only_started);
                let mut left = given;
                let answer = match only_started {
                    true => reach.started_before(a, b, &mut left),
                    false => reach.finished_before(a, b, &mut left),
                };
                // What comes later in the order is before nothing that comes earlier.
                if order.place[a.index()] >= order.place[b.index()] {
                    assert_eq!((answer, left), (Some(false), given), "{a:?} {b:?}");
                }
                told(a, b, only_started, answer, given - left);
            }
        }
    }

    #[test]
    fn a_forest_is_known_without_a_search() {
        for seed in 0..100 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut graph = Graph::new();
            let starts = random.random_bool(0.5);
            for index in 0..random.random_range(1..14u32) {
                let vertex = graph.proxy().unwrap();
                if index > 0 && random.random_bool(0.8) {
                    let from = Vertex(random.random_range(0..index));
                    let edge = if starts && random.random() { Graph::irequires } else { Graph::requires };
                    edge(&mut graph, from, vertex).unwrap();
                    // As many as there are: all.
                    if random.random() {
                        graph.set_any(vertex, 1).unwrap();
                    }
                }
            }
            ask(
                &graph,
                |_, _, _| 0,
                |a, b, only_started, answer, _| {
                    let expected = surely_before(&graph, a, b, only_started);
                    assert_eq!(answer, Some(expected), "seed {seed} {a:?} {b:?}");
                },
            );
        }
    }

    #[test]
    fn searches_spend_what_they_visit_and_no_more() {
        let mut spent = HashMap::new();
        for seed in 0..200 {
            let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(seed));
            ask(
                &graph,
                |_, _, _| 1000,
                |a, b, only_started, answer, visits| {
                    assert!(answer.is_some());
                    spent.insert((a, b, only_started), visits);
                },
            );
            ask(
                &graph,
                |a, b, start| spent[&(a, b, start)],
                |a, b, start, answer, visits| {
                    assert!(answer.is_some() && visits == spent[&(a, b, start)], "seed {seed} {a:?} {b:?}");
                },
            );
            ask(
                &graph,
                |a, b, start| spent[&(a, b, start)].saturating_sub(1),
                |a, b, start, answer, visits| {
                    let needed = spent[&(a, b, start)];
                    assert_eq!(
                        (answer.is_none(), visits),
                        (needed > 0, needed.saturating_sub(1)),
                        "seed {seed} {a:?} {b:?}"
                    );
                },
            );
        }
        assert!(spent.values().any(|visits| *visits > 1));
    }

    /// A search ends where it meets what has the end of the question below it in the tree.
    #[test]
    fn searches_end_where_the_tree_goes_on() {
        let mut graph = Graph::new();
        let [a, b, c, d, e] = [(); 5].map(|()| graph.proxy().unwrap());
        for (from, to) in [(a, b), (a, c), (b, d), (c, d), (d, e)] {
            graph.requires(from, to).unwrap();
        }
        ask(
            &graph,
            |_, _, _| 0,
            |from, to, _, answer, _| {
                assert!((from, to) != (c, e) || answer == Some(true));
            },
        );
    }
}
