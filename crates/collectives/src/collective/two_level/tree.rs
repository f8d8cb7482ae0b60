//! In which order vectors are reduced, wherever their ranks are: by the binary tree over all ranks in their order.
//!
//! A node of level l has the ranks k·2^l to (k + 1)·2^l - 1, as far as there are such. Its value is that of its left half combined with
//! that of its right half. Whoever has all vectors of a node can compute it; who has some more can join nodes. So results have the same
//! bits for each placement. It costs that a host passes on a value a node that lies within it and in no larger one that does: one where
//! 2^l ranks from k·2^l on share a host, at most 2 log r where r consecutive ones do, and r where they are dealt out in turn.

use super::super::shape::Shape;
use super::super::weaver::{Span, Weaver};
use super::levels::Levels;
use super::parts::{Held, Key, Parts};
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// The tree over a group, for vectors of so many elements.
pub(super) struct Tree<'a> {
    levels: &'a Levels<'a>,
    ranks: u32,
    count: u64,
    /// The order is all the same: hosts pass one value on, whoever their ranks are.
    is_exact: bool,
    /// Where the whole result goes if it is computed here.
    result: Option<Span>,
}

impl<'a> Tree<'a> {
    /// For vectors of `count` elements.
    pub fn new(levels: &'a Levels<'a>, shape: &Shape, count: u64) -> Tree<'a> {
        Tree { levels, ranks: shape.ranks, count, is_exact: shape.is_exact, result: None }
    }

    /// The same, the result being wanted here.
    pub fn into(self, result: Span) -> Tree<'a> {
        Tree { result: Some(result), ..self }
    }

    /// The same, in the order of the tree even where others would do.
    pub fn in_order(self) -> Tree<'a> {
        Tree { is_exact: false, ..self }
    }

    /// A rank's vector.
    pub fn leaf(rank: Rank, span: Span) -> Held {
        Held { key: (rank.0, rank.0 + 1), span }
    }

    /// The largest nodes that have these ranks only, which ascend.
    pub fn nodes(&self, ranks: &[Rank]) -> Vec<Key> {
        if self.is_exact {
            return ranks.first().map(|rank| (rank.0, rank.0 + 1)).into_iter().collect();
        }
        let mut nodes: Vec<Key> = Vec::new();
        for rank in ranks {
            nodes.push((rank.0, rank.0 + 1));
            while let [.., left, right] = nodes[..]
                && self.are_halves(left, right)
            {
                nodes.truncate(nodes.len() - 2);
                nodes.push((left.0, right.1));
            }
        }
        nodes
    }

    fn are_halves(&self, left: Key, right: Key) -> bool {
        let size = left.1 - left.0;
        let end = left.0.saturating_add(size.saturating_mul(2)).min(self.ranks);
        size.is_power_of_two()
            && left.0.is_multiple_of(size.saturating_mul(2))
            && left.1 == right.0
            && right.1 == end
    }

    /// Adds a part behind others, joining what are halves of one node.
    pub fn push(&self, weaver: &mut Weaver<'_>, nodes: &mut Vec<Held>, part: Held) -> Result<(), GraphError> {
        nodes.push(part);
        while let [.., left, right] = nodes[..]
            && self.are_halves(left.key, right.key)
        {
            let key = (left.key.0, right.key.1);
            let span = match self.result.filter(|_| key == (0, self.ranks)) {
                Some(result) => result,
                None => weaver.temporary(self.count),
            };
            weaver.reduce(&[left.span, right.span], span)?;
            nodes.truncate(nodes.len() - 2);
            nodes.push(Held { key, span });
        }
        Ok(())
    }

    /// Makes the result of what all ranks together have, where it is wanted.
    pub fn finish(&self, weaver: &mut Weaver<'_>, mut held: Vec<Held>) -> Result<(), GraphError> {
        held.sort_by_key(|part| part.key);
        if !self.is_exact {
            held = self.join(weaver, held)?;
        }
        let Some(result) = self.result else { return Ok(()) };
        let spans: Vec<Span> = held.iter().map(|part| part.span).collect();
        weaver.reduce(&spans, result)
    }
}

impl Parts for Tree<'_> {
    fn of(&self, hosts: &[u32]) -> Vec<(Key, u64)> {
        self.nodes(&self.levels.members_of(hosts)).into_iter().map(|node| (node, self.count)).collect()
    }

    fn join(&self, weaver: &mut Weaver<'_>, held: Vec<Held>) -> Result<Vec<Held>, GraphError> {
        if self.is_exact {
            let Some(&first) = held.first().filter(|_| held.len() > 1) else { return Ok(held) };
            let spans: Vec<Span> = held.iter().map(|part| part.span).collect();
            let span = weaver.temporary(self.count);
            weaver.reduce(&spans, span)?;
            return Ok(vec![Held { span, ..first }]);
        }
        let mut nodes = Vec::new();
        for part in held {
            self.push(weaver, &mut nodes, part)?;
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Placement;
    use super::*;
    use castell_goal::graph::Graph;
    use std::sync::Arc;

    /// The nodes of some ranks among so many.
    fn nodes(ranks: u32, of: &[u32]) -> Vec<Key> {
        let placement = Some(Arc::new(Placement::consecutive(ranks, ranks)));
        let shape = Shape { placement, ..Shape::new(ranks, 1, 8) };
        let mut graph = Graph::new();
        let levels = Levels::new(&shape, &Weaver::new(&mut graph, Rank(0), 8, 0));
        Tree::new(&levels, &shape, 1).nodes(&of.iter().copied().map(Rank).collect::<Vec<_>>())
    }

    #[test]
    fn ranks_form_the_largest_nodes() {
        assert_eq!(nodes(8, &[0, 1, 2, 3]), [(0, 4)]);
        assert_eq!(nodes(8, &[1, 2, 3, 4, 5]), [(1, 2), (2, 4), (4, 6)]);
        assert_eq!(nodes(8, &[0, 2, 4, 6]), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        // What lacks its right half is its left half.
        assert_eq!(nodes(5, &[0, 1, 2, 3, 4]), [(0, 5)]);
        assert_eq!(nodes(11, &[8, 9, 10]), [(8, 11)]);
        assert_eq!(nodes(11, &[4, 5, 6, 7, 8, 9, 10]), [(4, 8), (8, 11)]);
        assert_eq!(nodes(1, &[0]), [(0, 1)]);
    }
}
