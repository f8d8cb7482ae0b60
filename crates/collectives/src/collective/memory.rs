//! Where a rank's data lies, how it is reduced, and how messages go.

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Place};
use std::sync::Arc;

/// How elements are reduced: `b3[i] = b1[i] op b2[i]` for `count` elements.
///
/// [`Arithmetic`] does it with a local operation; a user's operator becomes a call.
pub trait Combine {
    /// Appends the reduction of `b1` and `b2` (in this order) into `b3`, which may be `b1` or apart from both.
    ///
    /// # Errors
    /// A graph that is full, buffers beyond 64 bits.
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError>;
}

impl Combine for Arithmetic {
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        graph.local(b1, b2, b3, *self, count)
    }
}

/// Where a rank's data lies, and how it is reduced.
pub struct Memory<'a> {
    /// What the rank contributes; broadcasts don't look at it.
    pub input: Place,
    /// What it gets; of a broadcast's root, what it contributes.
    pub output: Place,
    /// `Collective::temporary_bytes` bytes that nothing else uses meanwhile.
    pub temporary: Place,
    /// The input is not at `input` but in the output, where MPI expects it with `MPI_IN_PLACE`: at its start, in gathers and
    /// allgathers at the rank's own block. At a scatter's root: the root's own block stays in the input.
    pub in_place: bool,
    /// The operator.
    pub combine: &'a dyn Combine,
}

/// How a collective's messages go, where it is not all ranks of a job that take part, or others go on beside it.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// The tag of the first message between two ranks; the others have those behind it. Messages of collectives with
    /// different tags do not match.
    pub first_tag: Tag,
    /// The rank in the job of each rank of the group; `None`: they are the same.
    pub members: Option<Arc<[Rank]>>,
    /// Send blocks without elements, too: where only one side knows a block's size, the other one hears of it.
    pub even_empty: bool,
}

impl Messages {
    pub(super) fn member(&self, rank: Rank) -> Rank {
        self.members.as_ref().map_or(rank, |members| members[rank.index()])
    }
}
