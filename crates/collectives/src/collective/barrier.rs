//! Barriers: no rank leaves before all have entered. Their one element has no bytes; it carries what waits for what.

use super::broadcast;
use super::reduce;
use super::shape::Shape;
use super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;

pub(super) fn dissemination(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let me = weaver.rank();
    let mut here = Span::input(0, 1);
    let radix = u64::from(shape.ways) + 1;
    let mut distance = 1;
    while distance < u64::from(shape.ranks) {
        let steps = (1..radix).map(|way| way * distance).take_while(|&step| step < u64::from(shape.ranks));
        let steps: Vec<u32> = steps.map(|step| step as u32).collect();
        for &step in &steps {
            weaver.send(shape.behind(me, step), here)?;
        }
        let mut operands = vec![here];
        for &step in &steps {
            let heard = weaver.temporary(1);
            weaver.recv(shape.before(me, step), heard)?;
            operands.push(heard);
        }
        here = weaver.temporary(1);
        weaver.reduce(&operands, here)?;
        distance *= radix;
    }
    Ok(())
}

pub(super) fn linear(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    if weaver.rank() != Rank(0) {
        weaver.send(Rank(0), Span::input(0, 1))?;
        weaver.recv(Rank(0), Span::output(0, 1))?;
        return Ok(());
    }
    let mut operands = vec![Span::input(0, 1)];
    for peer in (1..shape.ranks).map(Rank) {
        let heard = weaver.temporary(1);
        weaver.recv(peer, heard)?;
        operands.push(heard);
    }
    weaver.reduce(&operands, Span::output(0, 1))?;
    for peer in (1..shape.ranks).map(Rank) {
        weaver.send(peer, Span::output(0, 1))?;
    }
    Ok(())
}

pub(super) fn tree(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let shape = Shape { root: Rank(0), count: 1, ..shape.clone() };
    reduce::reduce_binomial(&shape, weaver)?;
    broadcast::binomial_in_order(&shape, weaver)
}
