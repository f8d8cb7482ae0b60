//! Large messages that are reduced where they arrive: the operation behind a receive reads each piece out of the pipe or of the
//! sender's pool, and the message is written down nowhere.
//!
//! It is done where nobody can tell: nothing but that operation reads the message, and it lacks nothing but the message
//! when the first piece comes. Whatever it would have to wait for has ended then, so that it may as well begin.

use super::memory::{Space, local_plain};
use castell_goal::op::{Arithmetic, Buffer, Memory, Op, Operator, Place};
use castell_goal::schedule::{OpId, Schedule};

/// A receive whose message one operation reads, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    recv: OpId,
    local: OpId,
}

/// The receives of a schedule whose messages may be reduced as they come.
#[derive(Debug, Default)]
pub(super) struct Folds {
    pairs: Box<[Pair]>,
    are_large: bool,
}

/// Bytes of the scratchpad that an operation touches.
struct Touch {
    start: u64,
    end: u64,
    op: OpId,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Received,
    Operand,
    Otherwise,
}

impl Folds {
    /// Those of messages of more than so many bytes whose pieces are multiples of `piece_bytes`, but for the last one.
    pub(super) fn of(schedule: &Schedule, more_than_bytes: u64, piece_bytes: impl Fn(u64) -> u64) -> Folds {
        if schedule.max_message_bytes() <= more_than_bytes {
            return Folds::default();
        }
        let none = Folds { are_large: true, ..Folds::default() };
        let Some(mut touches) = touches(schedule) else { return none };
        touches.sort_unstable_by_key(|touch| (touch.start, touch.end, touch.op));
        let mut pairs = Vec::new();
        for group in overlapping(&touches) {
            let [first, second] = group else { continue };
            let (recv, local) = match (first.how, second.how) {
                (How::Received, How::Operand) => (first.op, second.op),
                (How::Operand, How::Received) => (second.op, first.op),
                _ => continue,
            };
            let is_whole = first.start == second.start && first.end == second.end;
            let bytes = first.end - first.start;
            let waits = schedule.successors(recv).any(|next| next == local);
            let Op::Local { arithmetic, .. } = schedule.op(local) else { continue };
            let is_even = piece_bytes(bytes).is_multiple_of(arithmetic.element().bytes());
            if is_whole && bytes > more_than_bytes && waits && is_even && schedule.traits(local).any.is_none()
            {
                pairs.push(Pair { recv, local });
            }
        }
        pairs.sort_unstable_by_key(|pair| pair.recv);
        Folds { pairs: pairs.into(), ..none }
    }

    /// Whether the schedule has messages of that size at all.
    pub(super) fn are_large(&self) -> bool {
        self.are_large
    }

    /// The operation that reads a receive's message.
    pub(super) fn reader(&self, recv: OpId) -> Option<OpId> {
        let at = self.pairs.binary_search_by_key(&recv, |pair| pair.recv).ok()?;
        Some(self.pairs[at].local)
    }
}

/// What the operations do with the scratchpad; `None` if it is not known of one of them.
fn touches(schedule: &Schedule) -> Option<Vec<Touch>> {
    let mut touches = Vec::new();
    for op in schedule.operations() {
        let mut touch = |buffer: Buffer<'_>, bytes: u64, how: How| match buffer {
            Buffer::Plain(Place { memory: Memory::Scratch, offset }) => {
                if bytes > 0 {
                    touches.push(Touch { start: offset, end: offset + bytes, op, how });
                }
                Some(())
            }
            Buffer::Vector(Memory::Scratch, _) => None,
            Buffer::Plain(_) | Buffer::Vector(..) => Some(()),
        };
        match schedule.op(op) {
            Op::Send { buffer, bytes, .. } => touch(buffer, bytes, How::Otherwise)?,
            Op::Recv { buffer, bytes, .. } => touch(buffer, bytes, How::Received)?,
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = count * arithmetic.element().bytes();
                let is_plain = [b1, b2, b3].iter().all(|buffer| matches!(buffer, Buffer::Plain(_)));
                let how = match arithmetic.operator() {
                    Operator::Copy => How::Otherwise,
                    _ if !is_plain => How::Otherwise,
                    _ => How::Operand,
                };
                touch(b1, bytes, how)?;
                if arithmetic.operator() != Operator::Copy {
                    touch(b2, bytes, how)?;
                }
                touch(b3, bytes, How::Otherwise)?;
            }
            Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } => {}
            _ => return None,
        }
    }
    Some(touches)
}

/// The groups of touches that meet, each of which begins where those before it have ended.
fn overlapping(touches: &[Touch]) -> impl Iterator<Item = &[Touch]> {
    let mut rest = touches;
    std::iter::from_fn(move || {
        let mut end = rest.first()?.end;
        let mut count = 1;
        while let Some(next) = rest.get(count).filter(|next| next.start < end) {
            end = end.max(next.end);
            count += 1;
        }
        let (group, behind) = rest.split_at(count);
        rest = behind;
        Some(group)
    })
}

/// An operation that reads a message as it comes.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) recv: OpId,
    pub(super) local: OpId,
    arithmetic: Arithmetic,
    /// The operands and the result; the message's place is not looked at.
    places: [*mut u8; 3],
    /// Which operand the message is.
    message: usize,
}

impl Fold {
    /// The operation, one of whose operands is the message that would be received.
    pub(super) fn new(schedule: &Schedule, recv: OpId, local: OpId, space: Space) -> Option<Fold> {
        let Op::Local { b1, b2, b3, arithmetic, .. } = schedule.op(local) else { return None };
        let (Buffer::Plain(message), _) = super::memory::receive_of(schedule, recv) else { return None };
        let (Buffer::Plain(p1), Buffer::Plain(p2), Buffer::Plain(p3)) = (b1, b2, b3) else { return None };
        let message = [p1, p2].iter().position(|place| *place == message)?;
        Some(Fold { recv, local, arithmetic, places: [p1, p2, p3].map(|place| space.place(place)), message })
    }

    /// Reduces a piece of the message that lies `behind` bytes behind its start.
    ///
    /// # Safety
    /// The piece is whole elements, and readable; the operation's other buffers are its own.
    pub(super) unsafe fn apply(&self, piece: *mut u8, behind: u64, bytes: u64) {
        let mut places = self.places.map(|place| place.wrapping_add(behind as usize));
        places[self.message] = piece;
        let [p1, p2, p3] = places;
        // SAFETY: the caller's promise.
        unsafe { local_plain(self.arithmetic, p1, p2, p3, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::{Rank, Tag};
    use castell_goal::graph::{Graph, Vertex};
    use castell_goal::op::ElementType;

    const BYTES: u64 = 4096;

    fn sum() -> Arithmetic {
        Arithmetic::new(Operator::Add, ElementType::U64).expect("a sum")
    }

    /// A message of 4 KiB to the start of the scratchpad, and the sum of it and the rank's own operand.
    fn graph() -> (Graph, Vertex, Vertex) {
        let mut graph = Graph::new();
        graph.allocate_scratchpad(4 * BYTES);
        let recv = graph.recv(Place::scratch(0), BYTES, Some(Rank(1)), Some(Tag(0))).expect("a receive");
        let own = Place::user(64);
        let local = graph.local(own, Place::scratch(0), Place::user(8192), sum(), BYTES / 8).expect("a sum");
        graph.requires(recv, local).expect("an edge");
        (graph, recv, local)
    }

    fn found(graph: &Graph) -> usize {
        let schedule = graph.compile().expect("compiles");
        let folds = Folds::of(&schedule, 1024, |_| 4096);
        for pair in &folds.pairs {
            assert_eq!(folds.reader(pair.recv), Some(pair.local));
            assert!(matches!(schedule.op(pair.recv), Op::Recv { .. }));
            assert!(matches!(schedule.op(pair.local), Op::Local { .. }));
        }
        folds.pairs.len()
    }

    #[test]
    fn what_one_operation_reads_is_reduced_as_it_comes() {
        assert_eq!(found(&graph().0), 1);
    }

    #[test]
    fn what_others_look_at_is_written_down() {
        let (mut sent, recv, _) = graph();
        let send = sent.send(Place::scratch(8), 8, Rank(1), Tag(1)).expect("a send");
        sent.requires(recv, send).expect("an edge");
        assert_eq!(found(&sent), 0, "a part of it is sent on");

        let (mut written, _, local) = graph();
        let again = written.recv(Place::scratch(0), BYTES, Some(Rank(2)), Some(Tag(0))).expect("a receive");
        written.requires(local, again).expect("an edge");
        assert_eq!(found(&written), 0, "another message comes to the same place");

        let (mut called, _, _) = graph();
        called.call(1, 0).expect("a call");
        assert_eq!(found(&called), 0, "a function may look at everything");
    }

    #[test]
    fn only_whole_messages_that_are_waited_for_are() {
        let half = |count: u64, waits: bool| {
            let mut graph = Graph::new();
            graph.allocate_scratchpad(BYTES);
            let recv = graph.recv(Place::scratch(0), BYTES, Some(Rank(1)), Some(Tag(0))).expect("a receive");
            let into = Place::user(8192);
            let local = graph.local(into, Place::scratch(0), into, sum(), count).expect("a sum");
            if waits {
                graph.requires(recv, local).expect("an edge");
            }
            found(&graph)
        };
        assert_eq!((half(BYTES / 8, true), half(BYTES / 16, true), half(BYTES / 8, false)), (1, 0, 0));
    }
}
