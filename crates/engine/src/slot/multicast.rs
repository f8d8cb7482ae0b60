//! Which small messages of a rank's program are written once, where all their receivers read them: multicasts.
//!
//! Messages that follow one another and have the same bytes are one multicast. Nothing is received or computed between them, so that
//! none of them tells its receiver more than the first one does, nor comes earlier than it would have.

use super::PLACES;
use super::bounce::{Range, touched};
use castell_goal::graph::Graph;
use castell_goal::op::Op;

/// Receivers for whom a message is written once.
const RECEIVERS_MIN: usize = 2;

/// A message that is one of a multicast's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multicast {
    /// Which of its sender's multicasts in the call.
    pub(crate) index: u32,
    /// The first of its messages, with which it is written.
    pub(crate) is_first: bool,
}

/// Messages with the same bytes.
struct Alike {
    content: Option<Range>,
    messages: Vec<usize>,
}

/// Of each message of a program, in the order of its vertices, the multicast that it belongs to.
pub(super) fn multicasts(graph: &Graph) -> Vec<Option<Multicast>> {
    let (mut found, mut next) = (Vec::new(), 0);
    let mut row: Vec<Alike> = Vec::new();
    for vertex in graph.vertices() {
        let op = graph.op(vertex);
        match op {
            Op::Proxy => continue,
            Op::Send { bytes, .. } => {
                let content = touched(op).0.first().copied();
                let same = |alike: &&mut Alike| match (alike.content, content) {
                    (Some(first), Some(second)) => first.is_at(second),
                    (first, second) => first.is_none() && second.is_none() && bytes == 0,
                };
                match row.iter_mut().find(same) {
                    Some(alike) => alike.messages.push(found.len()),
                    None => row.push(Alike { content, messages: vec![found.len()] }),
                }
            }
            _ => settle(&mut row, &mut found, &mut next),
        }
        if matches!(op, Op::Send { .. } | Op::Recv { .. }) {
            found.push(None);
        }
    }
    settle(&mut row, &mut found, &mut next);
    found
}

/// A row of messages is over.
fn settle(row: &mut Vec<Alike>, found: &mut [Option<Multicast>], next: &mut u32) {
    for alike in row.drain(..).filter(|alike| alike.messages.len() >= RECEIVERS_MIN) {
        if *next as usize == PLACES {
            continue;
        }
        for (at, message) in alike.messages.into_iter().enumerate() {
            found[message] = Some(Multicast { index: *next, is_first: at == 0 });
        }
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::{Rank, Tag};
    use castell_goal::op::Place;

    fn found(messages: &[(bool, u64, u64)]) -> Vec<Option<(u32, bool)>> {
        let mut graph = Graph::new();
        for (at, (is_send, place, bytes)) in messages.iter().enumerate() {
            let (place, peer) = (Place::user(*place), Rank(at as u32));
            if *is_send {
                graph.send(place, *bytes, peer, Tag(0)).expect("a send");
            } else {
                graph.recv(place, *bytes, Some(peer), Some(Tag(0))).expect("a receive");
            }
        }
        multicasts(&graph).into_iter().map(|multicast| multicast.map(|of| (of.index, of.is_first))).collect()
    }

    #[test]
    fn the_same_bytes_are_written_once() {
        let (first, more) = (Some((0, true)), Some((0, false)));
        assert_eq!(found(&[(true, 64, 8), (true, 64, 8), (true, 64, 8)]), [first, more, more]);
        assert_eq!(found(&[(true, 64, 0), (true, 72, 0)]), [first, more]);
        assert_eq!(found(&[(true, 64, 8), (true, 72, 8), (true, 64, 4)]), [None; 3]);
        // Between them something came.
        assert_eq!(found(&[(true, 64, 8), (false, 96, 8), (true, 64, 8)]), [None; 3]);
        assert_eq!(found(&[(true, 64, 0), (false, 96, 0), (true, 64, 0)]), [None; 3]);
    }

    #[test]
    fn a_sender_has_few_multicasts() {
        let pair = |at| [(true, 64 * at, 8), (true, 64 * at, 8), (false, 4096, 8)];
        let rows: Vec<_> = (1..=PLACES as u64 + 1).flat_map(pair).collect();
        let found = found(&rows);
        let multicasts = found.iter().flatten().filter(|(_, is_first)| *is_first).count();
        assert_eq!((multicasts, found[3 * PLACES]), (PLACES, None));
    }
}
