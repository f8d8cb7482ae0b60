//! Where the large messages of a rank's program lie in its bounce buffer, and which it need not copy out of there.

use super::BOUNCE_BYTES;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Buffer, Memory, Op, Place};

/// Messages begin at cache lines.
const ALIGNMENT: u64 = 64;

/// A message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Where it lies in the bounce buffer. Bytes.
    pub(crate) offset: u64,
    /// An earlier message of the program was the same: it is there already.
    pub(crate) is_there: bool,
}

/// Part of a message that was received: which of those that are lent, and from which of its bytes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) message: usize,
    pub(crate) offset: u64,
}

/// Bytes of a program's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    place: Place,
    bytes: u64,
}

impl Range {
    fn of(buffer: Buffer<'_>, bytes: u64) -> Option<Range> {
        match buffer {
            Buffer::Plain(place) if place.memory != Memory::Void && bytes > 0 => Some(Range { place, bytes }),
            _ => None,
        }
    }

    fn end(self) -> u64 {
        self.place.offset + self.bytes
    }

    /// Whether both are the same bytes.
    pub(super) fn is_at(self, other: Range) -> bool {
        self.place == other.place && self.bytes == other.bytes
    }

    pub(super) fn overlaps(self, other: Range) -> bool {
        self.place.memory == other.place.memory
            && self.place.offset < other.end()
            && other.place.offset < self.end()
    }

    fn holds(self, other: Range) -> bool {
        self.place.memory == other.place.memory
            && self.place.offset <= other.place.offset
            && other.end() <= self.end()
    }
}

/// What an operation reads and writes.
pub(super) fn touched(op: Op<'_>) -> (Vec<Range>, Option<Range>) {
    match op {
        Op::Send { buffer, bytes, .. } => (Range::of(buffer, bytes).into_iter().collect(), None),
        Op::Recv { buffer, bytes, .. } => (Vec::new(), Range::of(buffer, bytes)),
        Op::Local { b1, b2, b3, arithmetic, count } => {
            let bytes = count * arithmetic.element().bytes();
            (
                [b1, b2].into_iter().filter_map(|buffer| Range::of(buffer, bytes)).collect(),
                Range::of(b3, bytes),
            )
        }
        _ => (Vec::new(), None),
    }
}

/// Whether a program that is made `count` times, each `stride` bytes behind the one before, leaves what it has sent alone in those
/// that follow.
pub fn leaves_alone(sender: &Graph, writer: &Graph, stride: u64, count: u64) -> bool {
    let of_user = |range: &Range| range.place.memory == Memory::User;
    let sent = sender.vertices().filter(|vertex| matches!(sender.op(*vertex), Op::Send { .. }));
    let sent: Vec<Range> = sent.flat_map(|vertex| touched(sender.op(vertex)).0).filter(of_user).collect();
    let written = writer.vertices().filter_map(|vertex| touched(writer.op(vertex)).1).filter(of_user);
    written.into_iter().all(|written| {
        sent.iter().all(|sent| {
            // Moved on by at least one stride, and by no more than all of them, they would have to meet.
            let least = (sent.place.offset + 1).saturating_sub(written.end()).div_ceil(stride).max(1);
            least >= count || written.place.offset + least * stride >= sent.end()
        })
    })
}

/// The bounce buffer of a rank's program.
#[derive(Debug, Default)]
pub(crate) struct Bounce {
    /// Of each vertex, if it sends bytes.
    given: Vec<Option<Given>>,
    /// Received messages that stay with their senders: the vertex, and the range that the message would be copied to.
    lent: Vec<(Vertex, Range)>,
    /// What the messages take.
    bytes: usize,
}

impl Bounce {
    /// The bounce buffer of a program whose operations stand in the order of the graph's vertices; `None`: it would be too large.
    /// Functions that are called must not touch what the program sends.
    pub(crate) fn of(graph: &Graph) -> Option<Bounce> {
        Bounce::endless(graph).filter(|bounce| bounce.bytes <= BOUNCE_BYTES)
    }

    /// The same of a program whose messages stay in the sender's buffers, so that they need no room.
    pub(crate) fn endless(graph: &Graph) -> Option<Bounce> {
        let mut bounce = Bounce::default();
        let (mut there, mut end) = (Vec::<(Range, u64)>::new(), 0u64);
        for vertex in graph.vertices() {
            let op = graph.op(vertex);
            let (read, written) = touched(op);
            let mut given = None;
            if let (Op::Send { .. }, [range]) = (op, &read[..]) {
                let same =
                    |(other, _): &&(Range, u64)| other.place == range.place && other.bytes == range.bytes;
                if let Some((_, offset)) = there.iter().find(same) {
                    given = Some(Given { offset: *offset, is_there: true });
                } else {
                    there.push((*range, end));
                    given = Some(Given { offset: end, is_there: false });
                    end = end.checked_add(range.bytes.checked_next_multiple_of(ALIGNMENT)?)?;
                }
            }
            bounce.given.push(given);
            if let Some(written) = written {
                there.retain(|(range, _)| !range.overlaps(written));
                if matches!(op, Op::Recv { .. }) && bounce.can_be_lent(graph, vertex, written) {
                    bounce.lent.push((vertex, written));
                }
            }
        }
        bounce.bytes = end as usize;
        Some(bounce)
    }

    /// Whether a received message need not be copied to its range: nobody else sees that memory, and what the program reads
    /// there lies within the message.
    fn can_be_lent(&self, graph: &Graph, received: Vertex, range: Range) -> bool {
        range.place.memory == Memory::Scratch
            && graph.vertices().filter(|vertex| *vertex != received).all(|vertex| {
                let op = graph.op(vertex);
                let (read, written) = touched(op);
                let reads_right = |read: &Range| {
                    !read.overlaps(range) || (range.holds(*read) && matches!(op, Op::Local { .. }))
                };
                !written.is_some_and(|written| written.overlaps(range)) && read.iter().all(reads_right)
            })
    }

    /// What a vertex sends.
    pub(crate) fn given(&self, vertex: Vertex) -> Option<Given> {
        self.given[vertex.index()]
    }

    /// The number of a vertex's message among those that are lent, if it is one.
    pub(crate) fn lent_by(&self, vertex: Vertex) -> Option<usize> {
        self.lent.iter().position(|(lent, _)| *lent == vertex)
    }

    /// How many operands of the program's operations lie in a message that is lent.
    pub(super) fn readings(&self, graph: &Graph, received: Vertex) -> usize {
        let Some((_, range)) = self.lent.iter().find(|(lent, _)| *lent == received) else { return 0 };
        let readings =
            |vertex| touched(graph.op(vertex)).0.iter().filter(|read| read.overlaps(*range)).count();
        graph.vertices().map(readings).sum()
    }

    /// The message in which an operand lies, if that is lent.
    pub(crate) fn lent_at(&self, place: Place) -> Option<Lent> {
        let first = Range { place, bytes: 1 };
        let message = self.lent.iter().position(|(_, range)| range.holds(first))?;
        Some(Lent { message, offset: place.offset - self.lent[message].1.place.offset })
    }

    /// What its messages take. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages are lent.
    pub(crate) fn lent_count(&self) -> usize {
        self.lent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::{Rank, Tag};
    use castell_goal::op::{Arithmetic, ElementType, Operator};

    #[test]
    fn what_was_written_again_is_sent_again() {
        let mut graph = Graph::new();
        let user = Place::user(4096);
        let send = |graph: &mut Graph| graph.send(user, 100, Rank(1), Tag(0)).expect("a send");
        let vertices = [send(&mut graph), send(&mut graph)];
        graph.recv(Place::user(4195), 10, Some(Rank(1)), Some(Tag(0))).expect("a receive");
        let last = send(&mut graph);
        let bounce = Bounce::of(&graph).expect("fits");
        let found = [vertices[0], vertices[1], last].map(|vertex| bounce.given(vertex).expect("a send"));
        assert_eq!(found.map(|given| (given.offset, given.is_there)), [(0, false), (0, true), (128, false)]);
    }

    #[test]
    fn what_was_sent_is_left_alone_in_later_segments() {
        let verdict = |sent, written, stride, count| {
            let mut graph = Graph::new();
            graph.send(Place::user(sent), 100, Rank(1), Tag(0)).expect("a send");
            graph.recv(Place::user(written), 100, Some(Rank(1)), Some(Tag(0))).expect("a receive");
            leaves_alone(&graph, &graph, stride, count)
        };
        assert!(verdict(4096, 4096, 100, 9), "the same bytes in each segment");
        assert!(verdict(4096, 9000, 100, 9) && verdict(9000, 4096, 100, 9), "far apart");
        assert!(!verdict(4196, 4096, 100, 2), "the next segment's");
        assert!(!verdict(9000, 4096, 100, 50) && verdict(9000, 4096, 100, 49), "in the 49th that follows");
        assert!(!verdict(4296, 4096, 100, 9) && verdict(4296, 4096, 100, 2) && !verdict(4296, 4096, 100, 3));
        assert!(verdict(4096, 4195, 100, 9), "behind it already");
    }

    #[test]
    fn what_is_only_read_is_lent() {
        let mut graph = Graph::new();
        let sum = Arithmetic::new(Operator::Add, ElementType::U64).expect("a sum");
        let recv = |graph: &mut Graph, at| {
            graph.recv(Place::scratch(at), 80, Some(Rank(1)), Some(Tag(0))).expect("a receive")
        };
        graph.allocate_scratchpad(400);
        let [only_read, written, sent] = [0, 80, 160].map(|at| recv(&mut graph, at));
        graph.local(Place::scratch(8), Place::user(8), Place::user(8), sum, 9).expect("a sum");
        graph.local(Place::user(8), Place::user(8), Place::scratch(152), sum, 1).expect("a sum");
        graph.send(Place::scratch(160), 80, Rank(1), Tag(0)).expect("a send");
        let bounce = Bounce::of(&graph).expect("fits");
        assert_eq!(bounce.lent_by(only_read), Some(0));
        assert_eq!((bounce.lent_by(written), bounce.lent_by(sent), bounce.lent_count()), (None, None, 1));
        assert_eq!(bounce.lent_at(Place::scratch(8)), Some(Lent { message: 0, offset: 8 }));
        assert_eq!(bounce.lent_at(Place::scratch(80)), None);
    }
}
