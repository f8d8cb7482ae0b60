//! How much memory a call needs, and the shape of its data.

use super::call::{Call, Count, Layout};
use super::error::Reason;
use super::{Operation, Span};
use castell_base::Rank;
use castell_collectives::collective::{Blocks, Shape};

/// A rank in its communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

fn argument<T>(text: String) -> Result<T, Reason> {
    Err(Reason::Argument(text))
}

/// Elements that each buffer must have; `None`: it is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
}

/// The number of elements of the vector, or of each block; `None`: each block has its own.
#[inline]
pub(crate) fn count_of(call: &Call<'_>, seat: Seat) -> Result<Option<u64>, Reason> {
    match call.count {
        Count::Of(count) => Ok(Some(count)),
        Count::Listed => Ok(None),
        Count::Share(all) if all.is_multiple_of(u64::from(seat.size)) => Ok(Some(all / u64::from(seat.size))),
        Count::Share(all) => argument(format!(
            "{all} elements cannot be cut in a block for each of {} ranks: give a multiple of that",
            seat.size
        )),
    }
}

impl Seat {
    #[inline]
    fn is_root(self, call: &Call<'_>) -> bool {
        call.root == Some(self.rank)
    }

    /// What the call needs, blocks being of one size.
    #[inline]
    pub(crate) fn needs(self, call: &Call<'_>, count: u64) -> Result<Needs, Reason> {
        let Some(all) = count.checked_mul(u64::from(self.size)) else {
            return argument(format!("{} blocks of {count} elements are too many", self.size));
        };
        let is_root = self.is_root(call);
        let (input, output) = match call.operation {
            Operation::Barrier => (None, None),
            Operation::Broadcast => (None, Some(count)),
            Operation::Gather => (Some(count), is_root.then_some(all)),
            Operation::Scatter => (is_root.then_some(all), (!call.in_place).then_some(count)),
            Operation::Allgather => (Some(count), Some(all)),
            Operation::Reduce => (Some(count), is_root.then_some(count)),
            Operation::Allreduce | Operation::Scan | Operation::Exscan => (Some(count), Some(count)),
            Operation::ReduceScatter if call.in_place => (None, Some(all)),
            Operation::ReduceScatter => (Some(all), Some(count)),
            Operation::Alltoall => (Some(all), Some(all)),
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => (None, None),
        };
        let input = if call.in_place && call.operation != Operation::Scatter { None } else { input };
        Ok(Needs { input, output })
    }

    /// What the call needs where each block has its own size.
    pub(crate) fn needs_of_blocks(self, call: &Call<'_>) -> Result<Needs, Reason> {
        let is_root = self.is_root(call);
        let end = |what, layout: Option<Layout<'_>>| end_of(what, layout, self.size as usize);
        let (input, output) = match call.operation {
            Operation::Gather if is_root => {
                let own = own_count(call.arriving, self.rank);
                (Some(own), Some(end("of the blocks that arrive", call.arriving)?))
            }
            Operation::Gather => (None, None),
            Operation::Scatter if is_root => {
                let own = own_count(call.leaving, self.rank);
                let end = end("of the blocks that leave", call.leaving)?;
                (Some(end), (!call.in_place).then_some(own))
            }
            Operation::Scatter => (None, None),
            Operation::Allgather => {
                let end = end("of the blocks that arrive", call.arriving)?;
                (Some(own_count(call.arriving, self.rank)), Some(end))
            }
            Operation::ReduceScatter => {
                let end = end("of the blocks", call.leaving)?;
                if call.in_place {
                    (None, Some(end))
                } else {
                    (Some(end), Some(own_count(call.leaving, self.rank)))
                }
            }
            Operation::Alltoall => (
                Some(end("of the blocks that leave", call.leaving)?),
                Some(end("of the blocks that arrive", call.arriving)?),
            ),
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => {
                return self.needs_of_neighbours(call);
            }
            other => unreachable!("{} has no blocks", other.name()),
        };
        let input = if call.in_place && call.operation != Operation::Scatter { None } else { input };
        Ok(Needs { input, output })
    }

    fn needs_of_neighbours(self, call: &Call<'_>) -> Result<Needs, Reason> {
        let neighbours = call.neighbours.expect("neighbour collectives have neighbours");
        for rank in neighbours.sources.iter().chain(neighbours.destinations) {
            if rank.0 >= self.size {
                return argument(format!("rank {rank} is no neighbour: ranks are 0 to {}", self.size - 1));
            }
        }
        let input = match call.leaving {
            Some(layout) => {
                Some(end_of("of the blocks that leave", Some(layout), neighbours.destinations.len())?)
            }
            None => None,
        };
        let output = match call.arriving {
            Some(layout) => {
                Some(end_of("of the blocks that arrive", Some(layout), neighbours.sources.len())?)
            }
            None => None,
        };
        Ok(Needs { input, output })
    }

    /// An error where a buffer is too small or the call cannot be made here.
    #[inline]
    pub(crate) fn check(self, call: &Call<'_>, needs: Needs) -> Result<(), Reason> {
        if call.root.is_some_and(|root| root >= self.size) {
            let root = call.root.unwrap_or(0);
            return argument(format!("the root is {root}; ranks are 0 to {}", self.size - 1));
        }
        let only_root = matches!(call.operation, Operation::Gather | Operation::Scatter | Operation::Reduce);
        if call.in_place && only_root && !self.is_root(call) {
            return argument("only the root calls it in place".into());
        }
        enough("sends", call.input, needs.input)?;
        enough("receives", call.output, needs.output)
    }

    /// The shape of the call's data.
    pub(crate) fn shape(self, call: &Call<'_>, count: Option<u64>) -> Shape {
        let width = call.element.bytes();
        let Some(count) = count else { return self.shape_of_blocks(call, width) };
        let shape = match call.operation {
            Operation::ReduceScatter => {
                // The vector is as long as all blocks.
                Shape::new(self.size, count * u64::from(self.size), width).with_blocks(Blocks::Uniform(count))
            }
            _ => Shape::new(self.size, count, width),
        };
        shape.with_root(Rank(call.root.unwrap_or(0)))
    }

    fn shape_of_blocks(self, call: &Call<'_>, width: u64) -> Shape {
        // The count is no element's: blocks have their own.
        let shape = Shape::new(self.size, 1, width).with_root(Rank(call.root.unwrap_or(0)));
        let own = |count: u64| {
            let block = |rank| (0, if rank == self.rank { count } else { 0 });
            Blocks::Listed((0..self.size).map(block).collect())
        };
        let is_root = self.is_root(call);
        let leaving = match call.operation {
            Operation::Gather if is_root => listed(call.arriving),
            Operation::Gather => own(call.input.count),
            Operation::Scatter if !is_root => own(call.output.count),
            Operation::Allgather => listed(call.arriving),
            _ => listed(call.leaving),
        };
        let arriving = call.arriving.map_or(Blocks::Uniform(0), |layout| listed(Some(layout)));
        let count = match call.operation {
            Operation::ReduceScatter => total(call.leaving).max(1),
            _ => 1,
        };
        Shape { blocks: leaving, arriving, count, ..shape }
    }
}

/// Blocks that a call told of.
pub(crate) fn listed(layout: Option<Layout<'_>>) -> Blocks {
    let Some(layout) = layout else { return Blocks::Uniform(0) };
    match layout.starts {
        None => Blocks::packed(layout.counts),
        Some(starts) => Blocks::Listed(starts.iter().copied().zip(layout.counts.iter().copied()).collect()),
    }
}

/// Elements of all blocks.
pub(crate) fn total(layout: Option<Layout<'_>>) -> u64 {
    layout.map_or(0, |layout| layout.counts.iter().sum())
}

fn own_count(layout: Option<Layout<'_>>, rank: u32) -> u64 {
    layout.and_then(|layout| layout.counts.get(rank as usize).copied()).unwrap_or(0)
}

fn end_of(what: &str, layout: Option<Layout<'_>>, blocks: usize) -> Result<u64, Reason> {
    let Some(layout) = layout else {
        return argument(format!("the sizes {what} are missing; the root has to tell them"));
    };
    let starts = layout.starts.map_or(layout.counts.len(), <[u64]>::len);
    if layout.counts.len() != blocks || starts != blocks {
        let found = layout.counts.len().min(starts);
        return argument(format!("{blocks} sizes and starts {what} are needed, here are {found}"));
    }
    let mut next = 0u64;
    let mut end = 0u64;
    for (at, &count) in layout.counts.iter().enumerate() {
        let start = layout.starts.map_or(next, |starts| starts[at]);
        let Some(block_end) = start.checked_add(count) else {
            return argument(format!("block {at} {what} ends beyond 64 bits"));
        };
        next = block_end;
        end = end.max(if count > 0 { block_end } else { 0 });
    }
    Ok(end)
}

#[inline]
fn enough(does: &str, span: Span, needed: Option<u64>) -> Result<(), Reason> {
    match needed {
        Some(needed) if span.count < needed => {
            argument(format!("the buffer that it {does} has {} elements, {needed} are needed", span.count))
        }
        _ => Ok(()),
    }
}
