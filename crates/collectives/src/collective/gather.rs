//! Gathers, scatters and allgathers: blocks that are put together or handed out, none of them changed.

use super::broadcast::{children_in_order, subtree_end};
use super::shape::Shape;
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// A rank's block of the output of a gather.
pub(super) fn gathered(shape: &Shape, rank: Rank) -> Span {
    let (first, count) = shape.block(rank.0);
    Span::output(first, count)
}

/// What a rank contributes to a gather: as many elements as its block has.
pub(super) fn contributed(shape: &Shape, rank: Rank) -> Span {
    Span::input(0, shape.block(rank.0).1)
}

/// The ranks other than the root, from its successor on.
fn others(shape: &Shape) -> impl Iterator<Item = Rank> {
    (1..shape.ranks).map(|turned| shape.real(turned))
}

pub(super) fn gather_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    if me != shape.root {
        weaver.send(shape.root, contributed(shape, me))?;
        return Ok(());
    }
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    for other in others(shape) {
        weaver.recv(other, gathered(shape, other))?;
    }
    Ok(())
}

/// ESPGOAL 5.4: the root is ready for a rank's first segment, calls for it, and is ready for the rest then.
pub(super) fn gather_linear_sync(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let halves = |span: Span| {
        let first = span.count.min(shape.segment);
        (span.part(0, first), span.part(first, span.count - first))
    };
    if me != shape.root {
        let (first, rest) = halves(contributed(shape, me));
        let called = weaver.await_signal(shape.root)?;
        let first = weaver.send(shape.root, first)?;
        let rest = weaver.send(shape.root, rest)?;
        weaver.order(Some(called), first)?;
        return weaver.order(first, rest);
    }
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    for other in others(shape) {
        let (first, rest) = halves(gathered(shape, other));
        let ready = weaver.recv(other, first)?;
        let call = weaver.signal(other)?;
        weaver.order_starts(ready, call)?;
        let rest = weaver.recv(other, rest)?;
        weaver.order(Some(call), rest)?;
    }
    Ok(())
}

/// Elements of the blocks of some ranks, numbered from the root on.
fn elements(shape: &Shape, turned: std::ops::Range<u32>) -> u64 {
    turned.map(|turned| shape.block(shape.real(turned).0).1).sum()
}

pub(super) fn gather_binomial(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let end = subtree_end(me, shape.ranks);
    let mine = contributed(shape, weaver.rank());
    if me > 0 && end == me + 1 {
        weaver.send(shape.real(me & (me - 1)), mine)?;
        return Ok(());
    }
    // The subtree's blocks in the order of its ranks; the root's, too, since they need not lie so in its output.
    let all = weaver.temporary(elements(shape, me..end));
    if me > 0 {
        weaver.copy(mine, all.part(0, mine.count))?;
    } else {
        weaver.copy(mine, gathered(shape, weaver.rank()))?;
    }
    for child in children_in_order(me, shape.ranks).rev() {
        let below = elements(shape, child..subtree_end(child, shape.ranks));
        weaver.recv(shape.real(child), all.part(elements(shape, me..child), below))?;
    }
    if me > 0 {
        weaver.send(shape.real(me & (me - 1)), all)?;
        return Ok(());
    }
    let mut at = mine.count;
    for other in others(shape) {
        let block = gathered(shape, other);
        weaver.copy(all.part(at, block.count), block)?;
        at += block.count;
    }
    Ok(())
}

/// A rank's block of a scatter's input.
pub(super) fn scattered(shape: &Shape, rank: Rank) -> Span {
    let (first, count) = shape.block(rank.0);
    Span::input(first, count)
}

/// What a rank gets of a scatter.
pub(super) fn got(shape: &Shape, rank: Rank) -> Span {
    Span::output(0, shape.block(rank.0).1)
}

/// The root's own block, which stays where it is if the scatter is in place.
pub(super) fn keep_own(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    if weaver.is_in_place() {
        return Ok(());
    }
    weaver.copy(scattered(shape, shape.root), got(shape, shape.root))
}

pub(super) fn scatter_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    if me != shape.root {
        weaver.recv(shape.root, got(shape, me))?;
        return Ok(());
    }
    for other in others(shape) {
        weaver.send(other, scattered(shape, other))?;
    }
    keep_own(shape, weaver)
}

/// Down a binomial tree from rank 0, which has the blocks in their order in `blocks`.
pub(super) fn scatter_of(shape: &Shape, weaver: &mut Weaver<'_>, blocks: Span) -> Result<(), GraphError> {
    let me = weaver.rank().0;
    let end = subtree_end(me, shape.ranks);
    let mut all = blocks;
    if me > 0 {
        all = weaver.temporary(elements(shape, me..end));
        weaver.recv(Rank(me & (me - 1)), all)?;
    }
    for child in children_in_order(me, shape.ranks) {
        let below = elements(shape, child..subtree_end(child, shape.ranks));
        weaver.send(Rank(child), all.part(elements(shape, me..child), below))?;
    }
    let own = got(shape, weaver.rank());
    weaver.copy(all.part(0, own.count), own)
}

pub(super) fn scatter_binomial(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = shape.turned(weaver.rank());
    let end = subtree_end(me, shape.ranks);
    let father = || shape.real(me & (me - 1));
    if me > 0 && end == me + 1 {
        weaver.recv(father(), got(shape, weaver.rank()))?;
        return Ok(());
    }
    let all = weaver.temporary(elements(shape, me..end));
    let own = shape.block(weaver.rank().0).1;
    if me > 0 {
        weaver.recv(father(), all)?;
    } else {
        let mut at = own;
        for other in others(shape) {
            let block = scattered(shape, other);
            weaver.copy(block, all.part(at, block.count))?;
            at += block.count;
        }
    }
    for child in children_in_order(me, shape.ranks) {
        let below = elements(shape, child..subtree_end(child, shape.ranks));
        weaver.send(shape.real(child), all.part(elements(shape, me..child), below))?;
    }
    if me > 0 { weaver.copy(all.part(0, own), got(shape, weaver.rank())) } else { keep_own(shape, weaver) }
}

pub(super) fn allgather_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    for step in 1..shape.ranks {
        weaver.send(shape.behind(me, step), contributed(shape, me))?;
    }
    for step in 1..shape.ranks {
        let from = shape.before(me, step);
        weaver.recv(from, gathered(shape, from))?;
    }
    Ok(())
}

/// Each rank runs twice, however many there are: to give its block, and to take all of them.
pub(super) fn allgather_gather_bcast(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let shape = Shape { root: Rank(0), ..shape.clone() };
    gather_linear(&shape, weaver)?;
    let (first, _) = shape.block(0);
    let whole = Span::output(first, elements(&shape, 0..shape.ranks));
    if weaver.rank() != shape.root {
        weaver.recv(shape.root, whole)?;
        return Ok(());
    }
    for other in others(&shape) {
        weaver.send(other, whole)?;
    }
    Ok(())
}

pub(super) fn allgather_ring(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    for step in 0..shape.ranks - 1 {
        let leaving =
            if step == 0 { contributed(shape, me) } else { gathered(shape, shape.before(me, step)) };
        weaver.send(shape.behind(me, 1), leaving)?;
        weaver.recv(shape.before(me, 1), gathered(shape, shape.before(me, step + 1)))?;
    }
    Ok(())
}

pub(super) fn allgather_doubling(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    let run = |first: u32, count: u32| {
        let (from, to) = (gathered(shape, Rank(first)), gathered(shape, Rank(first + count - 1)));
        Span::output(from.first, to.first + to.count - from.first)
    };
    let mut distance = 1;
    while distance < shape.ranks {
        let mine = me.0 & !(distance - 1);
        let peer = Rank(me.0 ^ distance);
        weaver.send(peer, run(mine, distance))?;
        weaver.recv(peer, run(mine ^ distance, distance))?;
        distance *= 2;
    }
    Ok(())
}

/// In each round a rank fetches, from those at the round's distances behind it, the blocks that follow the ones it has.
pub(super) fn allgather_bruck(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let (ranks, radix) = (u64::from(shape.ranks), u64::from(shape.ways) + 1);
    // Block q here is that of the rank q behind; elements(0..q) are before it.
    let mut starts = vec![0];
    for step in 0..shape.ranks {
        starts.push(starts[step as usize] + shape.block(shape.behind(me, step).0).1);
    }
    let all = weaver.temporary(starts[shape.ranks as usize]);
    let run = |from: u64, to: u64| {
        let (first, end) = (starts[from as usize], starts[to as usize]);
        all.part(first, end - first)
    };
    weaver.copy(contributed(shape, me), run(0, 1))?;
    let mut distance = 1;
    while distance < ranks {
        let steps = (1..radix).map(|way| way * distance).take_while(|&step| step < ranks);
        for step in steps.clone() {
            weaver.send(shape.before(me, step as u32), run(0, distance.min(ranks - step)))?;
        }
        for step in steps {
            weaver.recv(shape.behind(me, step as u32), run(step, step + distance.min(ranks - step)))?;
        }
        distance *= radix;
    }
    for step in 0..shape.ranks {
        let q = u64::from(step);
        weaver.copy(run(q, q + 1), gathered(shape, shape.behind(me, step)))?;
    }
    Ok(())
}
