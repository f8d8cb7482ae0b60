//! A program: one graph for each rank.

use crate::graph::{Graph, Vertex};
use castell_base::Rank;

/// What a group of ranks does: a [`Graph`] for each.
///
/// Memory follows the ranks that have a graph, not the number of ranks: those at the end may be left out, and are
/// then empty.
///
/// ```
/// use castell_base::{Rank, Tag};
/// use castell_goal::{op::Place, program::Program};
///
/// let mut program = Program::new(1000);
/// program.rank_mut(Rank(1)).recv(Place::VOID, 8, Some(Rank(0)), None)?;
/// assert_eq!(program.operations(), 1);
/// assert!(program.rank(Rank(999)).is_empty());
/// assert_eq!(program.graphs().count(), 2); // ranks 0 and 1
/// # Ok::<(), castell_goal::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Program {
    graphs: Vec<Graph>,
    num_ranks: u32,
    empty: Graph,
}

impl Program {
    /// A program in which no rank does anything.
    pub fn new(num_ranks: u32) -> Program {
        Program { num_ranks, ..Program::default() }
    }

    /// A program of these graphs, for the first ranks in order; ranks behind them are empty.
    ///
    /// # Panics
    /// Where there are more graphs than ranks.
    pub fn with_graphs(num_ranks: u32, graphs: Vec<Graph>) -> Program {
        assert!(graphs.len() <= num_ranks as usize, "{} graphs for {num_ranks} ranks", graphs.len());
        Program { graphs, num_ranks, empty: Graph::new() }
    }

    /// Size of the group.
    pub fn num_ranks(&self) -> u32 {
        self.num_ranks
    }

    /// The graph of a rank.
    ///
    /// # Panics
    /// Where there is no such rank.
    pub fn rank(&self, rank: Rank) -> &Graph {
        assert!(rank.0 < self.num_ranks, "rank {rank} of {}", self.num_ranks);
        self.graphs.get(rank.index()).unwrap_or(&self.empty)
    }

    /// The graph of a rank, to add to.
    ///
    /// # Panics
    /// Where there is no such rank.
    pub fn rank_mut(&mut self, rank: Rank) -> &mut Graph {
        assert!(rank.0 < self.num_ranks, "rank {rank} of {}", self.num_ranks);
        if self.graphs.len() <= rank.index() {
            self.graphs.resize_with(rank.index() + 1, Graph::new);
        }
        &mut self.graphs[rank.index()]
    }

    /// The ranks that have a graph, in order; all ranks behind them are empty.
    pub fn graphs(&self) -> impl ExactSizeIterator<Item = (Rank, &Graph)> {
        self.graphs.iter().enumerate().map(|(rank, graph)| (Rank(rank as u32), graph))
    }

    /// Number of operations of all ranks.
    pub fn operations(&self) -> u64 {
        self.graphs.iter().map(|graph| graph.len() as u64).sum()
    }

    /// A vertex as messages name it: its label, or its number in the rank.
    pub fn name(&self, rank: Rank, vertex: Vertex) -> String {
        self.rank(rank).name(vertex)
    }
}
