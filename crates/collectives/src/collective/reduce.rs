//! Reductions: to one rank, to all, and with a block of the result for each.

use super::broadcast::{self, binomial_in_order, children_in_order};
use super::gather;
use super::shape::{Blocks, Shape};
use super::weaver::{Region, Span, Weaver};
use crate::language::Segment;
use castell_base::Rank;
use castell_goal::graph::GraphError;

fn whole(shape: &Shape) -> Span {
    Span::input(0, shape.count)
}

pub(super) fn reduce_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    if weaver.rank() != shape.root {
        weaver.send(shape.root, whole(shape))?;
        return Ok(());
    }
    let operands = of_all(shape, weaver, whole(shape))?;
    weaver.reduce(&operands, Span::output(0, shape.count))
}

/// This rank's own operand and what all others send of it, in the order of the ranks.
fn of_all(shape: &Shape, weaver: &mut Weaver<'_>, own: Span) -> Result<Vec<Span>, GraphError> {
    let mut operands = Vec::new();
    for rank in (0..shape.ranks).map(Rank) {
        if rank == weaver.rank() {
            operands.push(own);
            continue;
        }
        let received = weaver.temporary(own.count);
        weaver.recv(rank, received)?;
        operands.push(received);
    }
    Ok(operands)
}

/// Each rank reduces a part of all vectors, and the root gathers the parts.
pub(super) fn reduce_direct(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let (me, ranks) = (weaver.rank(), shape.ranks);
    let vector = Segment { first: 0, count: shape.count };
    let part_of = |rank: u32| vector.part(rank, ranks);
    let own = part_of(me.0);
    for rank in (0..ranks).filter(|&rank| rank != me.0) {
        let left = part_of(rank);
        weaver.send(Rank(rank), Span::input(left.first, left.count))?;
    }
    let operands = of_all(shape, weaver, Span::input(own.first, own.count))?;
    if me != shape.root {
        let result = weaver.temporary(own.count);
        weaver.reduce(&operands, result)?;
        return weaver.send(shape.root, result).map(|_| ());
    }
    weaver.reduce(&operands, Span::output(own.first, own.count))?;
    for rank in (0..ranks).filter(|&rank| rank != me.0) {
        let part = part_of(rank);
        weaver.recv(Rank(rank), Span::output(part.first, part.count))?;
    }
    Ok(())
}

/// From the last rank down to the first, and from there to the root.
pub(super) fn reduce_chain(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    for (first, count) in shape.segments() {
        let own = Span::input(first, count);
        let mut partial = own;
        if me.0 + 1 < shape.ranks {
            let received = weaver.temporary(count);
            weaver.recv(Rank(me.0 + 1), received)?;
            partial = result_of(shape, weaver, me.0 == 0, first, count);
            weaver.reduce(&[own, received], partial)?;
        }
        if me.0 > 0 {
            weaver.send(Rank(me.0 - 1), partial)?;
        } else {
            pass_on(shape, weaver, partial)?;
        }
        if me == shape.root && me.0 > 0 {
            weaver.recv(Rank(0), Span::output(first, count))?;
        }
    }
    Ok(())
}

/// Where rank 0 puts a result: into its output if it is the root, else anywhere.
fn result_of(shape: &Shape, weaver: &mut Weaver<'_>, last: bool, first: u64, count: u64) -> Span {
    if last && shape.root == Rank(0) { Span::output(first, count) } else { weaver.temporary(count) }
}

/// Rank 0 has the result (of these elements of the vector): it keeps it or sends it to the root.
fn pass_on(shape: &Shape, weaver: &mut Weaver<'_>, result: Span) -> Result<(), GraphError> {
    if shape.root == Rank(0) {
        let output = Span::output(result.first, result.count);
        return if result.region == Region::Input { weaver.copy(result, output) } else { Ok(()) };
    }
    weaver.send(shape.root, result).map(|_| ())
}

/// The tree of the binomial broadcast, whose distances double, the other way round.
pub(super) fn reduce_binomial(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let first = if me > 0 { me.ilog2() + 1 } else { 0 };
    let children = (first..u32::BITS).map(|bit| u64::from(me) + (1 << bit));
    let children = children.take_while(|&child| child < u64::from(shape.ranks)).map(|child| child as u32);
    let mut children: Vec<u32> = children.collect();
    // Who is farthest has the fewest ranks behind it.
    children.reverse();
    let result =
        partial_of_tree(shape, weaver, children.into_iter().map(|child| shape.real(child)), me == 0)?;
    if me > 0 {
        weaver.send(shape.real(me - (1 << me.ilog2())), result)?;
        return Ok(());
    }
    weaver.copy(result, Span::output(0, shape.count))
}

pub(super) fn reduce_binomial_in_order(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let result = partial_of_tree(shape, weaver, in_order(shape, me), me.0 == 0 && shape.root == me)?;
    if me.0 > 0 {
        weaver.send(Rank(me.0 & (me.0 - 1)), result)?;
    } else if shape.root == me {
        return weaver.copy(result, Span::output(0, shape.count));
    } else {
        weaver.send(shape.root, result)?;
    }
    if me == shape.root {
        weaver.recv(Rank(0), Span::output(0, shape.count))?;
    }
    Ok(())
}

/// The children of a rank in the tree whose subtrees are consecutive ranks, the nearest first.
fn in_order(shape: &Shape, me: Rank) -> impl Iterator<Item = Rank> + use<> {
    children_in_order(me.0, shape.ranks).rev().map(Rank)
}

/// Reduces what the children send behind the rank's own vector, each as it comes: those of the smallest subtrees come first. Returns
/// where the result lies.
fn partial_of_tree(
    shape: &Shape,
    weaver: &mut Weaver<'_>,
    children: impl Iterator<Item = Rank>,
    into_output: bool,
) -> Result<Span, GraphError> {
    let mut result = whole(shape);
    for child in children {
        let received = weaver.temporary(shape.count);
        weaver.recv(child, received)?;
        let partial = result;
        if partial.region == Region::Input {
            result = if into_output { Span::output(0, shape.count) } else { weaver.temporary(shape.count) };
        }
        weaver.reduce(&[partial, received], result)?;
    }
    Ok(result)
}

/// Each rank runs twice, however many there are: to give what it has, and to take the result.
pub(super) fn allreduce_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let shape = Shape { root: Rank(0), ..shape.clone() };
    reduce_linear(&shape, weaver)?;
    broadcast::linear(&shape, weaver)
}

pub(super) fn allreduce_reduce_bcast(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let shape = Shape { root: Rank(0), ..shape.clone() };
    reduce_binomial_in_order(&shape, weaver)?;
    binomial_in_order(&shape, weaver)
}

pub(super) fn allreduce_ring(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let parts = Blocks::Even(shape.count);
    let at = |rank: Rank| parts.block(rank.0, shape.ranks);
    let output = |rank: Rank| Span::output(at(rank).0, at(rank).1);
    let result = round_the_ring(shape, weaver, &parts)?;
    weaver.copy(result, output(me))?;
    for step in 0..shape.ranks - 1 {
        weaver.send(shape.behind(me, 1), output(shape.before(me, step)))?;
        weaver.recv(shape.before(me, 1), output(shape.before(me, step + 1)))?;
    }
    Ok(())
}

/// A reduce-scatter on a ring: a block's partial result starts behind its owner and reaches it last. Returns where the
/// rank's own block of the result lies.
fn round_the_ring(shape: &Shape, weaver: &mut Weaver<'_>, blocks: &Blocks) -> Result<Span, GraphError> {
    let me = weaver.rank();
    let own = |rank: Rank| {
        let (first, count) = blocks.block(rank.0, shape.ranks);
        Span::input(first, count)
    };
    let mut leaving = own(shape.before(me, 1));
    for step in 1..shape.ranks {
        weaver.send(shape.behind(me, 1), leaving)?;
        let block = own(shape.before(me, step + 1));
        let received = weaver.temporary(block.count);
        weaver.recv(shape.before(me, 1), received)?;
        leaving = weaver.temporary(block.count);
        weaver.reduce(&[received, block], leaving)?;
    }
    Ok(if shape.ranks == 1 { own(me) } else { leaving })
}

pub(super) fn reduce_scatter_ring(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let result = round_the_ring(shape, weaver, &shape.blocks)?;
    weaver.copy(result, Span::output(0, result.count))
}

pub(super) fn reduce_scatter_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let block = |rank: Rank| {
        let (first, count) = shape.block(rank.0);
        Span::input(first, count)
    };
    for step in 1..shape.ranks {
        let to = shape.behind(me, step);
        weaver.send(to, block(to))?;
    }
    let mine = block(me);
    let mut operands = vec![mine; shape.ranks as usize];
    for step in 1..shape.ranks {
        let from = shape.before(me, step);
        operands[from.index()] = weaver.temporary(mine.count);
        weaver.recv(from, operands[from.index()])?;
    }
    weaver.reduce(&operands, Span::output(0, mine.count))
}

/// The whole vector to rank 0, and the blocks out again.
pub(super) fn reduce_scatter_tree(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let (first, count) = shape.block(shape.ranks - 1);
    let shape = Shape { root: Rank(0), count: first + count, ..shape.clone() };
    let me = weaver.rank();
    let result = partial_of_tree(&shape, weaver, in_order(&shape, me), false)?;
    if me.0 > 0 {
        weaver.send(Rank(me.0 & (me.0 - 1)), result)?;
    }
    gather::scatter_of(&shape, weaver, result)
}
