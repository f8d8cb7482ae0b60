//! The cheapest perfect matching of a general graph: Edmonds' blossoms, one tree at a time, on a dense matrix of costs.
//!
//! Every vertex has a potential and every blossom (an odd circle of vertices and smaller blossoms, tight all round) a surplus of its
//! own. No edge costs less than what its ends and the blossoms around one end say; matched edges cost just that. So the sum of the
//! potentials is a proof that no matching is cheaper. A tree grows from a vertex without a mate along tight edges, potentials
//! move until one more edge is tight, and the tree ends at another such vertex. A vertex is looked at a constant number of times in
//! a tree, apart from those inside new blossoms: n² steps a tree where there are few blossoms.

use super::dual::Cost;

/// No node, no vertex.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Free,
    /// An even number of edges from the root: its potential rises.
    Even,
    /// An odd number: its potential falls.
    Odd,
}

/// Vertices and blossoms, and the tree that grows.
struct Search<'a, C: Fn(usize, usize) -> Cost> {
    cost: &'a C,
    vertices: usize,
    mate: Vec<usize>,
    /// Of a vertex: its potential with the surplus of all blossoms around it.
    potential: Vec<i64>,
    /// Of a vertex: the outermost blossom around it, or itself.
    top: Vec<usize>,
    /// Of a vertex: the even vertex with the tightest edge to it, outside its own blossom.
    from: Vec<usize>,
    /// Of a node, and so the rest: vertices first, then blossoms.
    label: Vec<Label>,
    /// The edge by which it is in the tree: the vertex outside, the vertex inside.
    link: Vec<(usize, usize)>,
    base: Vec<usize>,
    surplus: Vec<i64>,
    /// The circle that a blossom is; the first has the base.
    children: Vec<Vec<usize>>,
    /// From each child to the next in the circle: a vertex in one, a vertex in the other.
    edges: Vec<Vec<(usize, usize)>>,
    /// Numbers of blossoms that are no more.
    unused: Vec<usize>,
}

/// A perfect matching of `vertices` vertices at the least cost: the mate of each, and a number below which no such matching costs:
/// what this one costs. `None` if there is none.
///
/// `potentials` have to be such that no edge costs less than its ends say, all of the same parity as the costs are: even; `mates` are
/// a beginning, of tight edges only (`usize::MAX`: none yet).
pub(super) fn match_all(
    vertices: usize,
    cost: &impl Fn(usize, usize) -> Cost,
    potentials: Vec<i64>,
    mates: Vec<usize>,
) -> Option<(Vec<usize>, i128)> {
    let mut search = Search {
        cost,
        vertices,
        mate: mates,
        potential: potentials,
        top: (0..vertices).collect(),
        from: vec![NONE; vertices],
        label: vec![Label::Free; vertices],
        link: vec![(NONE, NONE); vertices],
        base: (0..vertices).collect(),
        surplus: vec![0; vertices],
        children: vec![Vec::new(); vertices],
        edges: vec![Vec::new(); vertices],
        unused: Vec::new(),
    };
    for root in 0..vertices {
        if search.mate[root] == NONE && !search.grow(root) {
            return None;
        }
    }
    let dual = search.dual();
    Some((search.mate, dual))
}

impl<C: Fn(usize, usize) -> Cost> Search<'_, C> {
    /// Grows a tree from a vertex until it has a mate; whether it found one.
    fn grow(&mut self, root: usize) -> bool {
        self.label.fill(Label::Free);
        self.from.fill(NONE);
        let root = self.top[root];
        self.link[root] = (NONE, NONE);
        self.become_even(root);
        loop {
            let Some(tight) = self.tighten() else { return false };
            match tight {
                Tight::Surplus(blossom) => self.expand(blossom),
                Tight::Edge(even, vertex) if self.label[self.top[vertex]] == Label::Even => {
                    self.shrink(even, vertex);
                }
                Tight::Edge(even, vertex) => {
                    let node = self.top[vertex];
                    let base = self.base[node];
                    if self.mate[base] == NONE {
                        self.augment(even, vertex);
                        return true;
                    }
                    self.label[node] = Label::Odd;
                    self.link[node] = (even, vertex);
                    let next = self.mate[base];
                    self.link[self.top[next]] = (base, next);
                    self.become_even(self.top[next]);
                }
            }
        }
    }

    /// Moves the potentials of the tree until something is tight: that.
    fn tighten(&mut self) -> Option<Tight> {
        let mut least = i64::MAX;
        let mut tight = None;
        for vertex in 0..self.vertices {
            let from = self.from[vertex];
            if from == NONE {
                continue;
            }
            let step = match self.label[self.top[vertex]] {
                Label::Odd => continue,
                Label::Free => self.slack(from, vertex),
                Label::Even => self.slack(from, vertex) / 2,
            };
            if step < least {
                (least, tight) = (step, Some(Tight::Edge(from, vertex)));
                if least == 0 {
                    return tight;
                }
            }
        }
        for node in self.vertices..self.label.len() {
            if self.label[node] == Label::Odd && self.surplus[node] < least && self.is_top(node) {
                (least, tight) = (self.surplus[node], Some(Tight::Surplus(node)));
            }
        }
        tight?;
        for vertex in 0..self.vertices {
            self.potential[vertex] += match self.label[self.top[vertex]] {
                Label::Even => least,
                Label::Odd => -least,
                Label::Free => 0,
            };
        }
        for node in self.vertices..self.label.len() {
            if self.is_top(node) {
                self.surplus[node] += match self.label[node] {
                    Label::Even => least,
                    Label::Odd => -least,
                    Label::Free => 0,
                };
            }
        }
        tight
    }

    /// Whether it is a blossom that lies in no other.
    fn is_top(&self, node: usize) -> bool {
        !self.children[node].is_empty() && self.top[self.base[node]] == node
    }

    /// What the edge costs more than its ends say; they lie in no common blossom.
    #[inline]
    fn slack(&self, one: usize, other: usize) -> i64 {
        match (self.cost)(one, other) {
            Cost::Never => i64::MAX,
            Cost::Of(cost) => cost - self.potential[one] - self.potential[other],
        }
    }

    fn become_even(&mut self, node: usize) {
        self.label[node] = Label::Even;
        for vertex in self.inside(node) {
            self.reach_from(vertex);
        }
    }

    /// Notes the edges of an even vertex where they are the tightest.
    fn reach_from(&mut self, vertex: usize) {
        for other in 0..self.vertices {
            if self.top[other] == self.top[vertex] {
                continue;
            }
            let slack = self.slack(vertex, other);
            let known = self.from[other];
            if slack < i64::MAX && (known == NONE || slack < self.slack(known, other)) {
                self.from[other] = vertex;
            }
        }
    }

    fn inside(&self, node: usize) -> Vec<usize> {
        let (mut found, mut open) = (Vec::new(), vec![node]);
        while let Some(node) = open.pop() {
            if node < self.vertices {
                found.push(node);
            }
            open.extend(self.children[node].iter().rev());
        }
        found
    }

    /// Makes the circle that a tight edge between two even nodes closes one node.
    fn shrink(&mut self, one: usize, other: usize) {
        let (left, right) = (self.way_up(self.top[one]), self.way_up(self.top[other]));
        let shared = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
        let left = &left[..left.len() - shared + 1];
        let right = &right[..right.len() - shared];
        // From where the ways part down to one, over the edge, and from the other up again.
        let children: Vec<usize> = left.iter().rev().chain(right).copied().collect();
        let down = left[..left.len() - 1].iter().rev().map(|&node| self.link[node]);
        let up = right.iter().map(|&node| (self.link[node].1, self.link[node].0));
        let edges: Vec<(usize, usize)> = down.chain([(one, other)]).chain(up).collect();
        let odd: Vec<usize> =
            children.iter().copied().filter(|&node| self.label[node] == Label::Odd).collect();
        let odd: Vec<usize> = odd.into_iter().flat_map(|node| self.inside(node)).collect();
        let blossom = self.new_node();
        self.base[blossom] = self.base[children[0]];
        self.link[blossom] = self.link[children[0]];
        self.label[blossom] = Label::Even;
        self.surplus[blossom] = 0;
        self.children[blossom] = children;
        self.edges[blossom] = edges;
        let inside = self.inside(blossom);
        inside.iter().for_each(|&vertex| self.top[vertex] = blossom);
        odd.into_iter().for_each(|vertex| self.reach_from(vertex));
        // What was tightest may be inside now.
        let even: Vec<usize> =
            (0..self.vertices).filter(|&vertex| self.is_even_outside(vertex, blossom)).collect();
        for vertex in inside {
            let edges = even.iter().map(|&other| (self.slack(other, vertex), other));
            let tightest = edges.min().filter(|(slack, _)| *slack < i64::MAX);
            self.from[vertex] = tightest.map_or(NONE, |(_, other)| other);
        }
    }

    fn is_even_outside(&self, vertex: usize, blossom: usize) -> bool {
        self.top[vertex] != blossom && self.label[self.top[vertex]] == Label::Even
    }

    fn new_node(&mut self) -> usize {
        if let Some(node) = self.unused.pop() {
            return node;
        }
        self.label.push(Label::Free);
        self.link.push((NONE, NONE));
        self.base.push(NONE);
        self.surplus.push(0);
        self.children.push(Vec::new());
        self.edges.push(Vec::new());
        self.label.len() - 1
    }

    /// The nodes from an even one to the root.
    fn way_up(&self, node: usize) -> Vec<usize> {
        let mut way = vec![node];
        loop {
            let (outside, _) = self.link[*way.last().expect("it begins with a node")];
            if outside == NONE {
                return way;
            }
            way.push(self.top[outside]);
        }
    }

    /// Takes an odd blossom without surplus apart: the way through it stays in the tree.
    fn expand(&mut self, blossom: usize) {
        let children = std::mem::take(&mut self.children[blossom]);
        let edges = std::mem::take(&mut self.edges[blossom]);
        let (outside, entry) = self.link[blossom];
        for &child in &children {
            self.inside(child).into_iter().for_each(|vertex| self.top[vertex] = child);
            self.label[child] = Label::Free;
        }
        let length = children.len();
        let first =
            children.iter().position(|&child| child == self.top[entry]).expect("the edge ends inside");
        self.label[children[first]] = Label::Odd;
        self.link[children[first]] = (outside, entry);
        // To the base, over the matched edge of the entry: an even number of edges.
        let mut at = first;
        let mut is_even = false;
        while at != 0 {
            let (next, link) = if first % 2 == 1 {
                ((at + 1) % length, edges[at])
            } else {
                (at - 1, (edges[at - 1].1, edges[at - 1].0))
            };
            at = next;
            is_even = !is_even;
            self.link[children[at]] = link;
            self.label[children[at]] = if is_even { Label::Even } else { Label::Odd };
        }
        self.label[blossom] = Label::Free;
        self.unused.push(blossom);
        for child in children {
            if self.label[child] == Label::Even {
                self.become_even(child);
            }
        }
    }

    /// Matches an even vertex with one that is in no tree and has none, and all on the way to the root anew.
    fn augment(&mut self, even: usize, vertex: usize) {
        self.rebase(self.top[vertex], vertex);
        self.mate[vertex] = even;
        let (mut inside, mut outside) = (even, vertex);
        loop {
            let node = self.top[inside];
            let (odd, _) = self.link[node];
            self.rebase(node, inside);
            self.mate[inside] = outside;
            if odd == NONE {
                return;
            }
            let node = self.top[odd];
            (inside, outside) = self.link[node];
            self.rebase(node, outside);
            self.mate[outside] = inside;
        }
    }

    /// Matches what is inside a node so that this vertex is left for an edge to the outside.
    fn rebase(&mut self, node: usize, vertex: usize) {
        self.base[node] = vertex;
        if node < self.vertices {
            return;
        }
        let inside = |search: &Self, child: usize| search.inside(child).contains(&vertex);
        let mut children = std::mem::take(&mut self.children[node]);
        let mut edges = std::mem::take(&mut self.edges[node]);
        let first = children.iter().position(|&child| inside(self, child)).expect("the vertex is inside");
        children.rotate_left(first);
        edges.rotate_left(first);
        self.rebase(children[0], vertex);
        for at in (1..children.len()).step_by(2) {
            let (one, other) = edges[at];
            self.rebase(children[at], one);
            self.rebase(children[at + 1], other);
            (self.mate[one], self.mate[other]) = (other, one);
        }
        self.children[node] = children;
        self.edges[node] = edges;
    }

    /// What the potentials and surpluses sum up to: no perfect matching costs less.
    fn dual(&self) -> i128 {
        let mut total: i128 = self.potential.iter().map(|&of| i128::from(of)).sum();
        for node in self.vertices..self.label.len() {
            if self.surplus[node] > 0 && !self.children[node].is_empty() {
                total -= i128::from(self.surplus[node]) * (self.inside(node).len() as i128 - 1);
            }
        }
        total
    }
}

/// What became tight.
#[derive(Clone, Copy)]
enum Tight {
    /// An edge from an even vertex to one outside its node.
    Edge(usize, usize),
    /// The condition that a blossom's surplus is not negative.
    Surplus(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By trying all: what the rest costs at least, by set of matched vertices.
    fn cheapest(vertices: usize, cost: &impl Fn(usize, usize) -> Cost) -> Option<i64> {
        let mut best = vec![None; 1 << vertices];
        best[(1 << vertices) - 1] = Some(0i64);
        for set in (0..(1usize << vertices) - 1).rev() {
            let one = set.trailing_ones() as usize;
            let others = (one + 1..vertices).filter(|other| set >> other & 1 == 0);
            let costs = others.filter_map(|other| match cost(one, other) {
                Cost::Of(cost) => best[set | 1 << one | 1 << other].map(|rest: i64| rest + cost),
                Cost::Never => None,
            });
            best[set] = costs.min();
        }
        best[0]
    }

    fn check(vertices: usize, costs: &[Option<i64>]) {
        let cost = |one: usize, other: usize| {
            let (one, other) = (one.min(other), one.max(other));
            costs[(one * vertices + other) % costs.len()].map_or(Cost::Never, |cost| Cost::Of(2 * cost))
        };
        let least = costs.iter().flatten().min().copied().unwrap_or(0);
        let found = match_all(
            vertices,
            &cost,
            vec![least; vertices].iter().map(|y| y / 2 * 2 - 2).collect(),
            vec![NONE; vertices],
        );
        let expected = cheapest(vertices, &cost);
        let Some((mates, dual)) = found else {
            assert_eq!(expected, None);
            return;
        };
        let mut total = 0;
        for (one, &other) in mates.iter().enumerate() {
            assert_eq!(mates[other], one);
            let Cost::Of(cost) = cost(one, other) else { panic!("an edge that is none") };
            total += i128::from(cost);
        }
        assert_eq!(Some(total / 2), expected.map(i128::from));
        assert_eq!(dual, total / 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn no_matching_is_cheaper(
            half in 1usize..6,
            costs in proptest::collection::vec(proptest::option::weighted(0.8, 0i64..12), 144),
        ) {
            check(2 * half, &costs);
        }

        #[test]
        fn not_with_wide_costs_either(half in 1usize..7, costs in proptest::collection::vec((0i64..1_000_000).prop_map(Some), 196)) {
            check(2 * half, &costs);
        }
    }
}
