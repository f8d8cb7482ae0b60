//! The collective operations, by name and number.

use std::fmt;

/// A collective operation. Its number is part of what ranks compare of their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Everybody waits for everybody.
    Barrier,
    /// A vector from the root to all.
    Broadcast,
    /// A block of each rank to the root.
    Gather,
    /// A block to each rank from the root.
    Scatter,
    /// A block of each rank to all.
    Allgather,
    /// The reduced vector at the root.
    Reduce,
    /// The reduced vector at all ranks.
    Allreduce,
    /// A block of the reduced vector at each rank.
    ReduceScatter,
    /// A block from each rank to each rank.
    Alltoall,
    /// The vectors of the ranks up to each one, reduced.
    Scan,
    /// The vectors of the ranks before each one, reduced.
    Exscan,
    /// A block to all neighbours.
    NeighbourAllgather,
    /// A block to each neighbour.
    NeighbourAlltoall,
}

impl Operation {
    /// All of them, by number; those of neighbours last.
    pub const ALL: [Operation; 13] = [
        Operation::Barrier,
        Operation::Broadcast,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::ReduceScatter,
        Operation::Alltoall,
        Operation::Scan,
        Operation::Exscan,
        Operation::NeighbourAllgather,
        Operation::NeighbourAlltoall,
    ];

    /// Those with several algorithms, of which one is chosen: all but those of neighbours.
    pub const WITH_CHOICE: &'static [Operation] = Operation::ALL.split_at(11).0;

    /// The name, as it stands before the colon of an algorithm's.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "barrier",
            Operation::Broadcast => "bcast",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Allgather => "allgather",
            Operation::Reduce => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Alltoall => "alltoall",
            Operation::Scan => "scan",
            Operation::Exscan => "exscan",
            Operation::NeighbourAllgather => "neighbour_allgather",
            Operation::NeighbourAlltoall => "neighbour_alltoall",
        }
    }

    /// The operation of that name, if it is one with a choice of algorithms.
    pub fn with_choice(name: &str) -> Option<Operation> {
        Operation::WITH_CHOICE.iter().copied().find(|operation| operation.name() == name)
    }

    /// Whether blocks are exchanged with neighbours only.
    pub fn is_among_neighbours(self) -> bool {
        matches!(self, Operation::NeighbourAllgather | Operation::NeighbourAlltoall)
    }

    /// Whether what ranks contribute is combined.
    pub fn reduces(self) -> bool {
        use Operation::{Allreduce, Exscan, Reduce, ReduceScatter, Scan};
        matches!(self, Reduce | Allreduce | ReduceScatter | Scan | Exscan)
    }

    /// Whether data goes one way only, to a root or away from it: calls one behind the other overlap then.
    pub fn is_one_way(self) -> bool {
        matches!(self, Operation::Broadcast | Operation::Gather | Operation::Scatter | Operation::Reduce)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_go_together() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            let found = (!operation.is_among_neighbours()).then_some(operation);
            assert_eq!(Operation::with_choice(operation.name()), found);
        }
        assert_eq!(Operation::WITH_CHOICE.last(), Some(&Operation::Exscan));
    }
}
