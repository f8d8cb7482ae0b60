//! Rabenseifner's reduction to one rank: recursive halving, then a gather up a binomial tree.

use super::shape::Shape;
use super::weaver::{Span, Weaver};
use crate::language::Segment;
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// The ranks that halve the vector among them: as many as the largest power of two. Each of the others is the left
/// neighbour of one, to which it hands over what it has.
struct Halving {
    /// Working ranks.
    power: u32,
    /// Ranks that hand over.
    others: u32,
}

impl Halving {
    fn new(ranks: u32) -> Halving {
        let power = 1 << ranks.ilog2();
        Halving { power, others: ranks - power }
    }

    /// The working rank that stands for a rank, and whether it is that rank itself.
    fn working(&self, rank: Rank) -> (u32, bool) {
        if rank.0 < 2 * self.others { (rank.0 / 2, rank.0 % 2 == 1) } else { (rank.0 - self.others, true) }
    }

    fn real(&self, working: u32) -> Rank {
        Rank(if working < self.others { 2 * working + 1 } else { working + self.others })
    }
}

/// Partial results stand for consecutive ranks: those at distance 1 are combined first.
pub(super) fn reduce(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let halving = Halving::new(shape.ranks);
    let (working, works) = halving.working(me);
    let (collector, root_works) = halving.working(shape.root);
    let (input, output) = (Span::input(0, shape.count), Span::output(0, shape.count));
    if !works {
        weaver.send(halving.real(working), input)?;
        if me == shape.root {
            weaver.recv(halving.real(working), output)?;
        }
        return Ok(());
    }
    let into = if me == shape.root { output } else { weaver.temporary(shape.count) };
    let folded = working < halving.others;
    let mut value = input;
    if folded {
        let received = weaver.temporary(shape.count);
        weaver.recv(Rank(me.0 - 1), received)?;
        let apart = weaver.temporary(shape.count);
        weaver.reduce(&[received, value], apart)?;
        value = apart;
    }
    let mut held = vec![Segment { first: 0, count: shape.count }];
    let mut mask = 1;
    while mask < halving.power {
        let whole = held[held.len() - 1];
        let upper = u32::from(working & mask != 0);
        let (kept, left) = (whole.part(upper, 2), whole.part(1 - upper, 2));
        let partner = halving.real(working ^ mask);
        weaver.send(partner, value.part(left.first, left.count))?;
        let received = weaver.temporary(kept.count);
        weaver.recv(partner, received)?;
        let own = value.part(kept.first, kept.count);
        let last = mask * 2 == halving.power;
        let target = if last { into } else { weaver.temporary(shape.count) };
        let operands = if upper == 0 { [own, received] } else { [received, own] };
        weaver.reduce(&operands, target.part(kept.first, kept.count))?;
        value = target;
        held.push(kept);
        mask *= 2;
    }
    gather(&halving, weaver, working, collector, value, &held)?;
    if working != collector {
        return Ok(());
    }
    if root_works {
        return weaver.copy(value, output);
    }
    weaver.send(shape.root, value).map(|_| ())
}

/// Pairs at falling distances: whoever is on the collector's side gets the other's part. `held[i]` is what a rank held
/// after `i` halvings.
fn gather(
    halving: &Halving,
    weaver: &mut Weaver<'_>,
    working: u32,
    collector: u32,
    value: Span,
    held: &[Segment],
) -> Result<(), GraphError> {
    for stage in (0..held.len() - 1).rev() {
        let mask = 1 << stage;
        let partner = halving.real(working ^ mask);
        if (working ^ collector) & mask != 0 {
            let own = held[stage + 1];
            weaver.send(partner, value.part(own.first, own.count))?;
            return Ok(());
        }
        let other = held[stage].part(u32::from(working & mask == 0), 2);
        weaver.recv(partner, value.part(other.first, other.count))?;
    }
    Ok(())
}
