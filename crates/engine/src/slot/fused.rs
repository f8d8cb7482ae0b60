//! Which operations of a small collective's program are made in one step: messages that are awaited together, and those that are
//! reduced where they lie.

use super::bounce::Bounce;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, Buffer, Op, Place};

/// Operations that follow one another and are one step.
pub(super) enum Row<'a> {
    /// So many empty messages are awaited.
    Heard { messages: usize },
    /// So many messages are awaited, and reduced with other operands.
    Reduced {
        messages: usize,
        operands: Vec<Operand<'a>>,
        into: Buffer<'a>,
        arithmetic: Arithmetic,
        count: u64,
    },
}

/// An operand of a reduction.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// The message that the row receives so many behind the first one.
    Received(usize),
    Here(Buffer<'a>),
}

impl Row<'_> {
    /// Operations in it.
    pub(super) fn len(&self) -> usize {
        match self {
            Row::Heard { messages } => *messages,
            Row::Reduced { messages, operands, .. } => messages + operands.len() - 1,
        }
    }
}

/// The row that the first of these vertices begins. `bounce` tells which messages are only read.
pub(super) fn row<'a>(graph: &'a Graph, bounce: &Bounce, vertices: &[Vertex]) -> Option<Row<'a>> {
    let size = |vertex: &Vertex| match graph.op(*vertex) {
        Op::Recv { bytes, .. } => Some(bytes),
        _ => None,
    };
    let bytes = size(vertices.first()?)?;
    let messages = vertices.iter().take_while(|vertex| size(vertex) == Some(bytes)).count();
    if bytes == 0 {
        return (messages > 1).then_some(Row::Heard { messages });
    }
    if messages == 1 {
        // A step saves nothing, and lines come faster when they are copied than one by one as they are reduced.
        return None;
    }
    let (received, behind) = vertices.split_at(messages);
    let places: Vec<Place> =
        received.iter().map(|vertex| lent(graph, bounce, *vertex)).collect::<Option<_>>()?;
    let operand = |buffer: Buffer<'a>| {
        let at = match buffer {
            Buffer::Plain(place) => places.iter().position(|received| *received == place),
            Buffer::Vector(..) => None,
        };
        at.map_or(Operand::Here(buffer), Operand::Received)
    };
    let Op::Local { b1, b2, b3: into, arithmetic, count } = graph.op(*behind.first()?) else { return None };
    let mut operands = vec![operand(b1), operand(b2)];
    for vertex in &behind[1..] {
        match graph.op(*vertex) {
            Op::Local { b1, b2, b3, arithmetic: same, count: as_many }
                if is_at(b1, into) && is_at(b3, into) && same == arithmetic && as_many == count =>
            {
                operands.push(operand(b2));
            }
            _ => break,
        }
    }
    let is_operand =
        |at| operands.iter().any(|operand| matches!(operand, Operand::Received(of) if *of == at));
    // Whatever else reads it would have to find it in its memory.
    let is_used_once = |at| is_operand(at) && bounce.readings(graph, received[at]) == 1;
    let is_whole = count * arithmetic.element().bytes() == bytes && (0..messages).all(is_used_once);
    let copies = arithmetic.operator() == castell_goal::op::Operator::Copy;
    (is_whole && !copies).then_some(Row::Reduced { messages, operands, into, arithmetic, count })
}

/// Where a received message would be copied to that need not be.
fn lent(graph: &Graph, bounce: &Bounce, vertex: Vertex) -> Option<Place> {
    bounce.lent_by(vertex)?;
    match graph.op(vertex) {
        Op::Recv { buffer: Buffer::Plain(place), .. } => Some(place),
        _ => None,
    }
}

fn is_at(buffer: Buffer<'_>, other: Buffer<'_>) -> bool {
    matches!((buffer, other), (Buffer::Plain(first), Buffer::Plain(second)) if first == second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::{Rank, Tag};
    use castell_goal::op::{ElementType, Operator};

    /// Two messages, reduced in this order behind the rank's own operand.
    fn graph(order: [u64; 2], count: u64) -> Graph {
        let mut graph = Graph::new();
        let sum = Arithmetic::new(Operator::Add, ElementType::U64).expect("a sum");
        graph.allocate_scratchpad(160);
        for at in [0, 80] {
            graph.recv(Place::scratch(at), 80, Some(Rank(1)), Some(Tag(at as u32))).expect("a receive");
        }
        let (own, into) = (Place::user(64), Place::user(256));
        graph.local(own, Place::scratch(order[0]), into, sum, count).expect("a sum");
        graph.local(into, Place::scratch(order[1]), into, sum, count).expect("a sum");
        graph
    }

    fn found(graph: &Graph) -> Option<Vec<Option<usize>>> {
        let bounce = Bounce::endless(graph).expect("fits");
        let vertices: Vec<Vertex> = graph.vertices().collect();
        let row = row(graph, &bounce, &vertices)?;
        assert_eq!(row.len(), vertices.len());
        let Row::Reduced { operands, .. } = row else { panic!("it is reduced") };
        let received = |operand: &Operand<'_>| match operand {
            Operand::Received(at) => Some(*at),
            Operand::Here(_) => None,
        };
        Some(operands.iter().map(received).collect())
    }

    #[test]
    fn messages_are_reduced_in_the_order_of_the_program() {
        assert_eq!(found(&graph([0, 80], 10)), Some(vec![None, Some(0), Some(1)]));
        assert_eq!(found(&graph([80, 0], 10)), Some(vec![None, Some(1), Some(0)]));
        assert_eq!(found(&graph([0, 0], 10)), None, "one is left");
        assert_eq!(found(&graph([0, 80], 5)), None, "half of each");
    }

    #[test]
    fn what_is_read_again_is_received() {
        let mut graph = graph([0, 80], 10);
        let copy = Arithmetic::new(Operator::Copy, ElementType::U64).expect("a copy");
        graph.local(Place::scratch(80), Place::VOID, Place::user(512), copy, 10).expect("a copy");
        assert_eq!(found(&graph), None);
    }

    #[test]
    fn empty_messages_are_awaited_together() {
        let mut graph = Graph::new();
        for rank in 1..4 {
            graph.recv(Place::VOID, 0, Some(Rank(rank)), Some(Tag(0))).expect("a receive");
        }
        let bounce = Bounce::endless(&graph).expect("fits");
        let vertices: Vec<Vertex> = graph.vertices().collect();
        assert_eq!(row(&graph, &bounce, &vertices).map(|row| row.len()), Some(3));
        assert!(row(&graph, &bounce, &vertices[2..]).is_none());
    }
}
