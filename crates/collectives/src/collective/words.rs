//! Words of the schedule language, moving data.

use super::shape::Shape;
use super::weaver::{Span, Weaver};
use crate::language::{Fitted, Fold, Operand, Segment, Stage, Word};
use castell_base::Rank;
use castell_goal::graph::GraphError;

impl Word {
    /// Groups of `group` consecutive ranks report to their last one; those do recursive doubling and tell the others.
    /// Ranks in no whole group are leaders themselves.
    pub fn hierarchical(ranks: u32, group: u32) -> Word {
        let group = group.max(2);
        let grouped = ranks / group * group;
        let leaders = ranks - grouped / group * (group - 1);
        let mut word = Word::recursive_doubling(leaders);
        if grouped > 0 {
            let fold = Fold { ranks: grouped, block: group, keep: 1 };
            word.stages.insert(0, Stage::Collapse(fold));
            word.stages.push(Stage::Expand(fold));
        }
        word
    }
}

/// A vector that lies somewhere.
#[derive(Clone, Copy)]
struct Vector(Span);

impl Vector {
    fn at(self, segment: Segment) -> Span {
        self.0.part(segment.first, segment.count)
    }
}

pub(super) fn allreduce(fitted: &Fitted, count: u64, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let steps = fitted.steps(weaver.rank(), count);
    let (input, output) = (Vector(Span::input(0, count)), Vector(Span::output(0, count)));
    if steps.is_empty() {
        return weaver.copy(input.0, output.0);
    }
    let last = steps.iter().rposition(|step| step.reduction.is_some());
    let mut value = input;
    let mut turns = Turns { count, vectors: Vec::new() };
    for (index, step) in steps.iter().enumerate() {
        for transfer in &step.sends {
            weaver.send(transfer.peer, value.at(transfer.segment))?;
        }
        if step.receives.is_empty() {
            continue;
        }
        let into = if last.is_none_or(|last| index >= last) { output } else { turns.next(weaver) };
        let Some(reduction) = &step.reduction else {
            // What arrives is all that a rank will have which has reduced nothing yet.
            if value.0 == input.0 {
                value = into;
            }
            for transfer in &step.receives {
                weaver.recv(transfer.peer, value.at(transfer.segment))?;
            }
            continue;
        };
        let mut received = Vec::new();
        for transfer in &step.receives {
            let slot = weaver.temporary(transfer.segment.count);
            weaver.recv(transfer.peer, slot)?;
            received.push(slot);
        }
        reduce(
            weaver,
            &reduction.operands,
            value.at(reduction.segment),
            &received,
            into.at(reduction.segment),
        )?;
        for rest in around(reduction.segment, step.held) {
            weaver.copy(value.at(rest), into.at(rest))?;
        }
        value = into;
    }
    Ok(())
}

/// Temporary vectors, used by turns: what is reduced into one has gone on from the other.
struct Turns {
    count: u64,
    vectors: Vec<Vector>,
}

impl Turns {
    fn next(&mut self, weaver: &mut Weaver<'_>) -> Vector {
        if self.vectors.len() < 2 {
            let vector = Vector(weaver.temporary(self.count));
            self.vectors.insert(0, vector);
        } else {
            self.vectors.swap(0, 1);
        }
        self.vectors[0]
    }
}

fn reduce(
    weaver: &mut Weaver<'_>,
    operands: &[Operand],
    own: Span,
    received: &[Span],
    into: Span,
) -> Result<(), GraphError> {
    let operand = |operand: &Operand| match *operand {
        Operand::Own => own,
        Operand::Received(index) => received[index],
    };
    weaver.reduce(&operands.iter().map(operand).collect::<Vec<_>>(), into)
}

/// What is held besides the segment that was reduced.
fn around(reduced: Segment, held: Segment) -> [Segment; 2] {
    let (end, held_end) = (reduced.first + reduced.count, held.first + held.count);
    [
        Segment { first: held.first, count: reduced.first - held.first },
        Segment { first: end, count: held_end - end },
    ]
}

/// The word whose first half is a reduce-scatter (`r` stages), or whose second half is an allgather (`g` stages);
/// `None` for other words.
pub(super) fn whole(half: Word, operation: &str) -> Option<Word> {
    let scatter = |stage: &Stage| match *stage {
        Stage::ReduceScatter { factor } if operation == "reduce_scatter" => Some(factor),
        Stage::Allgather { factor } if operation == "allgather" => Some(factor),
        _ => None,
    };
    let mut factors: Vec<u32> = half.stages.iter().map(scatter).collect::<Option<_>>()?;
    if operation == "allgather" {
        factors.reverse();
    }
    let scatter = factors.iter().map(|&factor| Stage::ReduceScatter { factor });
    let gather = factors.iter().rev().map(|&factor| Stage::Allgather { factor });
    Some(Word { stages: scatter.chain(gather).collect() })
}

/// Blocks in the order in which a word's reduce-scatter leaves them: segments of blocks are consecutive elements.
struct Order {
    /// The rank whose block is at each place.
    ranks: Vec<Rank>,
    /// First element of each place; the last entry is the end.
    starts: Vec<u64>,
}

impl Order {
    fn new(fitted: &Fitted, shape: &Shape) -> Order {
        let mut ranks = vec![Rank(0); shape.ranks as usize];
        for rank in (0..shape.ranks).map(Rank) {
            ranks[fitted.part(rank) as usize] = rank;
        }
        let mut starts = vec![0];
        for rank in &ranks {
            starts.push(starts[starts.len() - 1] + shape.block(rank.0).1);
        }
        Order { ranks, starts }
    }

    /// The elements of a segment of blocks in a vector that is in this order.
    fn at(&self, vector: Span, blocks: Segment) -> Span {
        let (first, end) = (blocks.first as usize, (blocks.first + blocks.count) as usize);
        vector.part(self.starts[first], self.starts[end] - self.starts[first])
    }

    /// All of them.
    fn vector(&self, weaver: &mut Weaver<'_>) -> Span {
        weaver.temporary(self.starts[self.starts.len() - 1])
    }

    /// The place of a rank's block.
    fn place(&self, index: usize) -> Segment {
        Segment { first: index as u64, count: 1 }
    }
}

pub(super) fn reduce_scatter(
    fitted: &Fitted,
    shape: &Shape,
    weaver: &mut Weaver<'_>,
) -> Result<(), GraphError> {
    let order = Order::new(fitted, shape);
    let me = weaver.rank();
    let mut value = order.vector(weaver);
    for (index, rank) in order.ranks.iter().enumerate() {
        let (first, count) = shape.block(rank.0);
        weaver.copy(Span::input(first, count), order.at(value, order.place(index)))?;
    }
    let mut held = Segment { first: 0, count: u64::from(shape.ranks) };
    for step in fitted.steps(me, u64::from(shape.ranks)) {
        let Some(reduction) = &step.reduction else { break };
        for transfer in &step.sends {
            weaver.send(transfer.peer, order.at(value, transfer.segment))?;
        }
        held = reduction.segment;
        let size = order.at(value, held).count;
        let mut received = Vec::new();
        for transfer in &step.receives {
            let slot = weaver.temporary(size);
            weaver.recv(transfer.peer, slot)?;
            received.push(slot);
        }
        let into = order.vector(weaver);
        reduce(weaver, &reduction.operands, order.at(value, held), &received, order.at(into, held))?;
        value = into;
    }
    let result = order.at(value, held);
    weaver.copy(result, Span::output(0, result.count))
}

pub(super) fn allgather(fitted: &Fitted, shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let order = Order::new(fitted, shape);
    let me = weaver.rank();
    let all = order.vector(weaver);
    let own = order.place(fitted.part(me) as usize);
    weaver.copy(Span::input(0, shape.block(me.0).1), order.at(all, own))?;
    for step in fitted.steps(me, u64::from(shape.ranks)).iter().filter(|step| step.reduction.is_none()) {
        for transfer in &step.sends {
            weaver.send(transfer.peer, order.at(all, transfer.segment))?;
        }
        for transfer in &step.receives {
            weaver.recv(transfer.peer, order.at(all, transfer.segment))?;
        }
    }
    for (index, rank) in order.ranks.iter().enumerate() {
        let (first, count) = shape.block(rank.0);
        weaver.copy(order.at(all, order.place(index)), Span::output(first, count))?;
    }
    Ok(())
}
