//! Broadcasts: the root's output becomes everybody's.

use super::shape::{Blocks, Shape};
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;

pub(super) fn linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let whole = Span::output(0, shape.count);
    if weaver.rank() != shape.root {
        weaver.recv(shape.root, whole)?;
        return Ok(());
    }
    for other in 1..shape.ranks {
        weaver.send(shape.real(other), whole)?;
    }
    Ok(())
}

pub(super) fn chain(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let next = (me + 1 < shape.ranks).then(|| me + 1);
    pipelined(shape, weaver, me.checked_sub(1), next)
}

pub(super) fn binary(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    binary_segmented(&Shape { segment: shape.count, ..shape.clone() }, weaver)
}

pub(super) fn binary_segmented(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let both = [2 * u64::from(me) + 1, 2 * u64::from(me) + 2];
    let children = both.into_iter().filter(|&child| child < u64::from(shape.ranks));
    pipelined(shape, weaver, me.checked_sub(1).map(|me| me / 2), children.map(|child| child as u32))
}

/// Segment by segment from the father to the children.
fn pipelined(
    shape: &Shape,
    weaver: &mut Weaver<'_>,
    father: Option<u32>,
    children: impl IntoIterator<Item = u32>,
) -> Result<(), GraphError> {
    let children: Vec<Rank> = children.into_iter().map(|child| shape.real(child)).collect();
    for (first, count) in shape.segments() {
        let segment = Span::output(first, count);
        if let Some(father) = father {
            weaver.recv(shape.real(father), segment)?;
        }
        for &child in &children {
            weaver.send(child, segment)?;
        }
    }
    Ok(())
}

pub(super) fn binomial(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    tree_of_radix(shape, weaver, 2)
}

pub(super) fn k_nomial(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    tree_of_radix(shape, weaver, u64::from(shape.ways) + 1)
}

/// In round r each of the first radix^r ranks sends to those radix^r, 2·radix^r, … behind it.
fn tree_of_radix(shape: &Shape, weaver: &mut Weaver<'_>, radix: u64) -> Result<(), GraphError> {
    let (me, ranks) = (u64::from(shape.turned(weaver.rank())), u64::from(shape.ranks));
    let whole = Span::output(0, shape.count);
    let mut distance = 1;
    while distance * radix <= me {
        distance *= radix;
    }
    if me > 0 {
        weaver.recv(shape.real((me % distance) as u32), whole)?;
        distance *= radix;
    }
    while distance < ranks {
        for child in (1..radix).map(|way| me + way * distance).take_while(|&child| child < ranks) {
            weaver.send(shape.real(child as u32), whole)?;
        }
        distance *= radix;
    }
    Ok(())
}

/// Rank r's descendants are r + 1 to r + m; its children differ from it in one bit below its lowest set one.
pub(super) fn binomial_in_order(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let whole = Span::output(0, shape.count);
    if me > 0 {
        weaver.recv(shape.real(me & (me - 1)), whole)?;
    }
    for child in children_in_order(me, shape.ranks) {
        weaver.send(shape.real(child), whole)?;
    }
    Ok(())
}

/// The children of a rank in the binomial tree whose subtrees are consecutive ranks, those of the largest first.
pub(super) fn children_in_order(me: u32, ranks: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
    let bits = if me == 0 { u32::BITS } else { me.trailing_zeros() };
    let all = (0..bits).rev().map(move |bit| u64::from(me) + (1 << bit));
    all.filter(move |&child| child < u64::from(ranks)).map(|child| child as u32)
}

/// The ranks of the subtree that begins at `me`: me, …, end - 1.
pub(super) fn subtree_end(me: u32, ranks: u32) -> u32 {
    if me == 0 { ranks } else { ranks.min(me.saturating_add(1 << me.trailing_zeros())) }
}

/// The root scatters even parts, which then go round a ring.
pub(super) fn scatter_allgather(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    scatter_allgather_among(shape.ranks, me, shape.count, |turned| shape.real(turned), weaver)
}

/// The same of an output of `count` elements among so many, of which number 0 has them and `me` is this one; `real` are their ranks.
pub(super) fn scatter_allgather_among(
    ranks: u32,
    me: u32,
    count: u64,
    real: impl Fn(u32) -> Rank,
    weaver: &mut Weaver<'_>,
) -> Result<(), GraphError> {
    // Parts are numbered from the root on, so that subtrees are consecutive parts.
    let parts = Blocks::Even(count);
    let part = |turned: u32| {
        let (first, count) = parts.block(turned, ranks);
        Span::output(first, count)
    };
    let run = |from: u32, to: u32| {
        let (first, last) = (part(from), part(to - 1));
        Span::output(first.first, last.first + last.count - first.first)
    };
    if me > 0 {
        weaver.recv(real(me & (me - 1)), run(me, subtree_end(me, ranks)))?;
    }
    for child in children_in_order(me, ranks) {
        weaver.send(real(child), run(child, subtree_end(child, ranks)))?;
    }
    // What a subtree's head has already comes to it once more, as in every ring; only what it has not is received.
    let has = |turned: u32, part: u32| (turned..subtree_end(turned, ranks)).contains(&part);
    let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    for step in 0..ranks - 1 {
        let leaving = (me + ranks - step) % ranks;
        let arriving = (previous + ranks - step) % ranks;
        if !has(next, leaving) {
            weaver.send(real(next), part(leaving))?;
        }
        if !has(me, arriving) {
            weaver.recv(real(previous), part(arriving))?;
        }
    }
    Ok(())
}
