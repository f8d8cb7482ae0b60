//! Neighbour collectives: each rank exchanges blocks with the ranks of its own lists only.

use super::memory::{Memory, Messages};
use super::shape::Blocks;
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::{Graph, GraphError};

/// A rank's neighbours, and its data. Where a rank stands several times in the lists of two neighbours, its messages go to
/// its places in the other one's list in their order.
///
/// ```
/// use castell_base::Rank;
/// use castell_collectives::collective::{Blocks, Memory, Neighbours};
/// use castell_goal::graph::Graph;
/// use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
///
/// // Rank 3 of a ring of 8 sends both its neighbours the same two numbers and gets two from each.
/// let ring = Neighbours {
///     sources: vec![Rank(2), Rank(4)],
///     destinations: vec![Rank(2), Rank(4)],
///     element_bytes: 8,
///     leaving: Blocks::Uniform(2),
///     arriving: Blocks::Uniform(2),
/// };
/// let combine = Arithmetic::new(Operator::Add, ElementType::F64)?; // nothing is combined
/// let [input, output, temporary] = [0, 16, 48].map(Place::scratch);
/// let memory = Memory { input, output, temporary, in_place: false, combine: &combine };
/// let mut graph = Graph::new();
/// graph.allocate_scratchpad(48);
/// ring.allgather(Rank(3), &memory, &mut graph)?;
/// assert_eq!(graph.len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// From whom blocks come, one for each entry.
    pub sources: Vec<Rank>,
    /// To whom blocks go, one for each entry.
    pub destinations: Vec<Rank>,
    /// Size of an element.
    pub element_bytes: u64,
    /// The block for each destination; of an allgather, the first one goes to all.
    pub leaving: Blocks,
    /// The block from each source.
    pub arriving: Blocks,
}

impl Neighbours {
    /// Appends the rank's part of an allgather: its block to each destination, a block from each source.
    ///
    /// # Errors
    /// A graph that is full, buffers beyond 64 bits.
    ///
    /// # Panics
    /// In place, which neighbour collectives cannot be; so does the alltoall.
    pub fn allgather(&self, rank: Rank, memory: &Memory<'_>, graph: &mut Graph) -> Result<(), GraphError> {
        self.exchange(rank, memory, graph, &Messages::default(), |_| 0)
    }

    /// Appends the rank's part of an alltoall: a block of its own to each destination, a block from each source.
    ///
    /// # Errors
    /// A graph that is full, buffers beyond 64 bits.
    pub fn alltoall(&self, rank: Rank, memory: &Memory<'_>, graph: &mut Graph) -> Result<(), GraphError> {
        self.exchange(rank, memory, graph, &Messages::default(), |index| index)
    }

    /// Either of them (`all_the_same`: the allgather), with messages that go as told.
    ///
    /// # Errors
    /// A graph that is full, buffers beyond 64 bits.
    pub fn with_messages(
        &self,
        messages: &Messages,
        all_the_same: bool,
        rank: Rank,
        memory: &Memory<'_>,
        graph: &mut Graph,
    ) -> Result<(), GraphError> {
        self.exchange(rank, memory, graph, messages, |index| if all_the_same { 0 } else { index })
    }

    fn exchange(
        &self,
        rank: Rank,
        memory: &Memory<'_>,
        graph: &mut Graph,
        messages: &Messages,
        block: impl Fn(u32) -> u32,
    ) -> Result<(), GraphError> {
        assert!(!memory.in_place, "neighbour collectives have no calls in place");
        let weaver = Weaver::new(graph, rank, self.element_bytes, 0).with_messages(messages);
        let mut weaver = weaver.with_memory(memory, None);
        let (leaving, arriving) = (self.destinations.len() as u32, self.sources.len() as u32);
        for (index, &source) in (0..).zip(&self.sources) {
            let (first, count) = self.arriving.block(index, arriving);
            weaver.recv(source, Span::output(first, count))?;
        }
        for (index, &destination) in (0..).zip(&self.destinations) {
            let (first, count) = self.leaving.block(block(index), leaving);
            weaver.send(destination, Span::input(first, count))?;
        }
        Ok(())
    }
}
