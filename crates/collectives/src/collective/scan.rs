//! Scans: rank r gets what ranks 0 to r contribute, reduced in their order; of an exclusive scan, ranks 0 to r - 1.

use super::shape::Shape;
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;

pub(super) fn scan_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let (own, output) = (Span::input(0, shape.count), Span::output(0, shape.count));
    if me.0 == 0 {
        weaver.copy(own, output)?;
    } else {
        let before = weaver.temporary(shape.count);
        weaver.recv(Rank(me.0 - 1), before)?;
        weaver.reduce(&[before, own], output)?;
    }
    if me.0 + 1 < shape.ranks {
        weaver.send(Rank(me.0 + 1), output)?;
    }
    Ok(())
}

pub(super) fn exscan_linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let own = Span::input(0, shape.count);
    let mut through = own;
    let mut before = None;
    if me.0 > 0 {
        let received = weaver.temporary(shape.count);
        weaver.recv(Rank(me.0 - 1), received)?;
        before = Some(received);
    }
    if me.0 + 1 < shape.ranks {
        if let Some(before) = before {
            through = weaver.temporary(shape.count);
            weaver.reduce(&[before, own], through)?;
        }
        weaver.send(Rank(me.0 + 1), through)?;
    }
    before.map_or(Ok(()), |before| weaver.copy(before, Span::output(0, shape.count)))
}

pub(super) fn scan_doubling(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let (through, _) = doubling(shape, weaver)?;
    weaver.copy(through, Span::output(0, shape.count))
}

pub(super) fn exscan_doubling(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let (_, before) = doubling(shape, weaver)?;
    before.map_or(Ok(()), |before| weaver.copy(before, Span::output(0, shape.count)))
}

/// In round k a rank gets, from the one 2^k before it, what that one and as many before it have reduced. Returns where
/// the reduction up to this rank lies, and that of the ranks before it.
fn doubling(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(Span, Option<Span>), GraphError> {
    let me = weaver.rank().0;
    let (mut through, mut before) = (Span::input(0, shape.count), None);
    let mut distance = 1;
    while distance < shape.ranks {
        if distance < shape.ranks - me {
            weaver.send(Rank(me + distance), through)?;
        }
        if distance <= me {
            let received = weaver.temporary(shape.count);
            weaver.recv(Rank(me - distance), received)?;
            let further = weaver.temporary(shape.count);
            weaver.reduce(&[received, through], further)?;
            before = match before {
                None => Some(received),
                Some(before) => {
                    let further = weaver.temporary(shape.count);
                    weaver.reduce(&[received, before], further)?;
                    Some(further)
                }
            };
            through = further;
        }
        distance = distance.saturating_mul(2);
    }
    Ok((through, before))
}
