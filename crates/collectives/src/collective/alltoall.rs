//! Alltoalls: a block from each rank for each other one.

use super::shape::Shape;
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// The block for a rank, and where that from a rank goes; what is exchanged in place is copied apart before.
pub(super) struct Exchange<'a> {
    shape: &'a Shape,
    /// What the blocks are counted from.
    leaving: Span,
}

impl Exchange<'_> {
    pub fn new<'a>(shape: &'a Shape, weaver: &mut Weaver<'_>) -> Result<Exchange<'a>, GraphError> {
        let ends = (0..shape.ranks).map(|rank| shape.block(rank)).map(|(first, count)| first + count);
        let input = Span::input(0, ends.max().unwrap_or(0));
        if !weaver.is_in_place() {
            return Ok(Exchange { shape, leaving: input });
        }
        let apart = weaver.temporary(input.count);
        for (first, count) in (0..shape.ranks).map(|rank| shape.block(rank)) {
            weaver.copy(input.part(first, count), apart.part(first, count))?;
        }
        Ok(Exchange { shape, leaving: apart })
    }

    pub fn to(&self, rank: Rank) -> Span {
        let (first, count) = self.shape.block(rank.0);
        self.leaving.part(first, count)
    }

    pub fn from(&self, rank: Rank) -> Span {
        let (first, count) = self.shape.arriving.block(rank.0, self.shape.ranks);
        Span::output(first, count)
    }
}

/// All blocks leave before the first one is awaited: who carries the operations out in this order waits once for all.
pub(super) fn linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let exchange = Exchange::new(shape, weaver)?;
    for to in (1..shape.ranks).map(|step| shape.behind(me, step)) {
        weaver.send(to, exchange.to(to))?;
    }
    for from in (1..shape.ranks).map(|step| shape.before(me, step)) {
        weaver.recv(from, exchange.from(from))?;
    }
    weaver.copy(exchange.to(me), exchange.from(me))
}

/// A rank sends to the next one only once it has what came from the last one.
pub(super) fn pairwise(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let exchange = Exchange::new(shape, weaver)?;
    weaver.copy(exchange.to(me), exchange.from(me))?;
    let mut before = [None; 2];
    for step in 1..shape.ranks {
        let (to, from) = (shape.behind(me, step), shape.before(me, step));
        let sent = weaver.send(to, exchange.to(to))?;
        let received = weaver.recv(from, exchange.from(from))?;
        for done in before {
            weaver.order(done, sent)?;
        }
        // A step without messages of its own waits for nothing, and the next one for the last that had some.
        before = [sent.or(before[0]), received.or(before[1])];
    }
    Ok(())
}

/// In round k, the blocks whose distance to their rank has bit k set go that far together (Bruck et al. 1997).
pub(super) fn bruck(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let exchange = Exchange::new(shape, weaver)?;
    let count = shape.block(0).1;
    // Block q is for the rank q behind, or came from the rank q before.
    let blocks = weaver.temporary(count * u64::from(shape.ranks));
    let block = |q: u32| blocks.part(count * u64::from(q), count);
    for q in 0..shape.ranks {
        weaver.copy(exchange.to(shape.behind(me, q)), block(q))?;
    }
    let mut distance = 1;
    while distance < shape.ranks {
        let moving: Vec<u32> = (0..shape.ranks).filter(|q| q & distance != 0).collect();
        let packed = weaver.temporary(count * moving.len() as u64);
        let arrived = weaver.temporary(count * moving.len() as u64);
        for (index, &q) in moving.iter().enumerate() {
            weaver.copy(block(q), packed.part(count * index as u64, count))?;
        }
        weaver.send(shape.behind(me, distance), packed)?;
        weaver.recv(shape.before(me, distance), arrived)?;
        for (index, &q) in moving.iter().enumerate() {
            weaver.copy(arrived.part(count * index as u64, count), block(q))?;
        }
        distance *= 2;
    }
    for q in 0..shape.ranks {
        weaver.copy(block(q), exchange.from(shape.before(me, q)))?;
    }
    Ok(())
}
