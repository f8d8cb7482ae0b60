//! Whether the messages of a collective can be read where they lie in their senders' buffers: nobody may write there before
//! whoever reads it has done so.
//!
//! Found out by a run of all ranks' programs in which each message tells how far its sender has come, and how far those had
//! of whom it has heard.

use super::bounce::{Bounce, Range, touched};
use super::certificate::Message;
use castell_goal::graph::Graph;
use castell_goal::op::{Buffer, Op};
use std::collections::HashMap;

/// How a rank's program uses memory. Moments are numbers of its messages that come before.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// What is sent, by message.
    sent: Vec<Option<Range>>,
    /// The moment from which on a received message is not looked at any more, by message.
    read_by: Vec<usize>,
    /// What is written, and when.
    written: Vec<(Range, usize)>,
}

impl Uses {
    /// Of a program whose operations stand in the order of the graph's vertices; `None`: operands of a step overlap in part, so
    /// that it cannot be made block by block.
    pub(super) fn of(graph: &Graph) -> Option<Uses> {
        let bounce = Bounce::endless(graph)?;
        let mut uses = Uses::default();
        // Of messages that are lent, which one it is.
        let mut lent = HashMap::new();
        for vertex in graph.vertices() {
            let op = graph.op(vertex);
            let (read, written) = touched(op);
            let before = uses.sent.len();
            match op {
                Op::Send { .. } => {
                    uses.sent.push(read.first().copied());
                    uses.read_by.push(0);
                }
                Op::Recv { .. } => {
                    uses.sent.push(None);
                    uses.read_by.push(before + 1);
                    match (bounce.lent_by(vertex), written) {
                        (Some(message), _) => drop(lent.insert(message, before)),
                        (None, Some(range)) => uses.written.push((range, before + 1)),
                        (None, None) => {}
                    }
                }
                Op::Local { b1, b2, .. } => {
                    let range = written?;
                    if read.iter().any(|read| read.overlaps(range) && !read.is_at(range)) {
                        return None;
                    }
                    uses.written.push((range, before));
                    for buffer in [b1, b2] {
                        let Buffer::Plain(place) = buffer else { return None };
                        if let Some(found) = bounce.lent_at(place) {
                            uses.read_by[*lent.get(&found.message)?] = before;
                        }
                    }
                }
                _ => {}
            }
        }
        Some(uses)
    }
}

/// What each rank knows after each number of its messages: how many messages of each rank are over, and all that comes
/// between them.
type Clocks = Vec<Vec<Box<[u32]>>>;

/// Whether nothing that is sent is written before it was read, in each of the two ways in which senders use memory: the call's buffers
/// apart, or one in the place of the other. (Their readers may do either.) The programs are known to come to an end.
pub(super) fn is_safe(programs: &[Vec<Message>], uses: &[[Uses; 2]]) -> [bool; 2] {
    let clocks = clocks(programs);
    let mut received = HashMap::new();
    for (me, program) in programs.iter().enumerate() {
        for (at, message) in program.iter().enumerate().filter(|(_, message)| !message.is_send) {
            let read_by = uses[me].iter().map(|uses| uses.read_by[at]).max();
            received.insert((message.peer, me as u32, message.place), read_by.expect("two ways"));
        }
    }
    let is_read_first = |me: usize, at: usize, message: &Message, uses: &Uses| {
        let read_by = received[&(me as u32, message.peer, message.place)];
        let Some(sent) = uses.sent[at] else { return true };
        let later = uses.written.iter().filter(|(range, moment)| *moment > at && range.overlaps(sent));
        later.clone().all(|(_, moment)| clocks[me][*moment][message.peer as usize] as usize >= read_by)
    };
    [0, 1].map(|way| {
        // A rank without messages would have nothing to wait with.
        programs.iter().enumerate().all(|(me, program)| {
            let mut sends = program.iter().enumerate().filter(|(_, message)| message.is_send);
            !program.is_empty() && sends.all(|(at, message)| is_read_first(me, at, message, &uses[me][way]))
        })
    })
}

/// Runs all programs; sends never wait.
fn clocks(programs: &[Vec<Message>]) -> Clocks {
    let ranks = programs.len();
    let mut clocks: Clocks = vec![vec![vec![0; ranks].into_boxed_slice()]; ranks];
    let mut under_way: HashMap<(u32, u32, u32), Box<[u32]>> = HashMap::new();
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for me in 0..ranks {
            while let Some(message) = programs[me].get(clocks[me].len() - 1) {
                let mut clock = clocks[me].last().expect("the start at least").clone();
                if message.is_send {
                    under_way.insert((me as u32, message.peer, message.place), clock.clone());
                } else {
                    let Some(sent) = under_way.remove(&(message.peer, me as u32, message.place)) else {
                        break;
                    };
                    clock.iter_mut().zip(&sent).for_each(|(own, of)| *own = (*own).max(*of));
                }
                clock[me] += 1;
                clocks[me].push(clock);
                has_moved = true;
            }
        }
    }
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::certificate::{Size, certify};
    use castell_base::{Rank, Tag};
    use castell_collectives::collective::{Collective, Shape};

    /// Whether messages may lie in their senders' buffers: where the sender does not call in place, and where it does.
    fn is_zero_copy(name: &str, ranks: u32) -> [bool; 2] {
        let collective = Collective::new(name, Shape::new(ranks, 100, 8)).expect("a collective");
        let verdict = |rank| {
            let found = certify(&collective, rank, Size::ZeroCopy);
            [found.is_some(), found.is_some_and(|found| found.is_safe_in_place)]
        };
        let verdicts: Vec<[bool; 2]> = (0..ranks).map(verdict).collect();
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{name}: all come to one verdict");
        verdicts[0]
    }

    #[test]
    fn collectives_that_leave_alone_what_is_read() {
        for name in
            ["alltoall:pairwise", "alltoall:linear", "scatter:linear", "allgather:linear", "allreduce:direct"]
        {
            assert!(is_zero_copy(name, 2) == [true; 2] && is_zero_copy(name, 5) == [true; 2], "{name}");
        }
        // In place, partial sums are written over what is sent, or has been: whoever has read it does not tell.
        for name in ["allreduce:recursive-doubling", "reduce_scatter:linear"] {
            assert_eq!(is_zero_copy(name, 4), [true, false], "{name}");
        }
    }

    /// A rank's messages: where it sends to or receives from, and 8 bytes there. The last entry is written in the end.
    fn rank(steps: &[(bool, u32, u64)], peer_of_writing: Option<u64>) -> (Vec<Message>, [Uses; 2]) {
        let mut graph = Graph::new();
        for (is_send, peer, at) in steps {
            let place = castell_goal::op::Place::user(*at);
            if *is_send {
                graph.send(place, 8, Rank(*peer), Tag(0)).expect("a send");
            } else {
                graph.recv(place, 8, Some(Rank(*peer)), Some(Tag(0))).expect("a receive");
            }
        }
        if let Some(at) = peer_of_writing {
            let [from, to] = [8000, at].map(castell_goal::op::Place::user);
            let copy = castell_goal::op::Arithmetic::new(
                castell_goal::op::Operator::Copy,
                castell_goal::op::ElementType::U8,
            );
            graph.local(from, from, to, copy.expect("a copy"), 8).expect("a copy");
        }
        let message = |&(is_send, peer, _): &(bool, u32, u64)| Message { is_send, peer, place: 0, bytes: 8 };
        let uses = [0, 1].map(|_| Uses::of(&graph).expect("whole operands"));
        (steps.iter().map(message).collect(), uses)
    }

    #[test]
    fn what_may_still_be_read_is_not_written() {
        let verdict = |ranks: Vec<(Vec<Message>, [Uses; 2])>| {
            let (programs, uses): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
            is_safe(&programs, &uses) == [true; 2]
        };
        let (send, receive) = (true, false);
        let reader = || rank(&[(receive, 0, 4000)], None);
        assert!(verdict(vec![rank(&[(send, 1, 4000)], None), reader()]));
        assert!(verdict(vec![rank(&[(send, 1, 4000)], Some(4008)), reader()]));
        assert!(!verdict(vec![rank(&[(send, 1, 4000)], Some(4004)), reader()]));
        // An answer says that it has been read; what was sent before does not.
        let asks = || rank(&[(send, 1, 4000), (receive, 1, 4100)], Some(4000));
        assert!(verdict(vec![asks(), rank(&[(receive, 0, 4000), (send, 0, 4200)], None)]));
        assert!(!verdict(vec![asks(), rank(&[(send, 0, 4200), (receive, 0, 4000)], None)]));
        // What comes is written where something is still sent from.
        let exchange = |peer| rank(&[(send, peer, 4000), (receive, peer, 4000)], None);
        assert!(!verdict(vec![exchange(1), exchange(0)]));
    }
}
