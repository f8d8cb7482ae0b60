//! Which messages were whose.

use super::row::{Noted, Row};
use crate::Message;
use crate::journal::{Action, Operation};
use castell_base::{Rank, Tag};
use std::collections::{HashMap, VecDeque};

/// Between whom messages meet: sender, receiver, word, tag, and whether steps carry them.
type Channel = (Rank, Rank, u32, Tag, bool);

/// Sends and receives of each channel in order: the n-th of one side belongs to the n-th of the other. A receive
/// of which nobody knows whose message it got gets no arrow.
#[derive(Default)]
pub(super) struct MessageEnds {
    /// Where they stand in their rows.
    sends: HashMap<Channel, Vec<usize>>,
    receives: HashMap<Channel, Vec<usize>>,
    came: HashMap<Channel, VecDeque<u64>>,
}

/// A message in nanoseconds.
pub(super) struct Met {
    from: Rank,
    to: Rank,
    tag: Tag,
    bytes: u64,
    sent_ns: u64,
    arrived_ns: u64,
    received_ns: u64,
}

impl Met {
    pub fn timed(&self, picoseconds: &dyn Fn(u64) -> u64) -> Message {
        let sent_ps = picoseconds(self.sent_ns);
        let received_ps = picoseconds(self.received_ns).max(sent_ps);
        let arrived_ps = picoseconds(self.arrived_ns).max(sent_ps).min(received_ps);
        Message {
            from: self.from,
            to: self.to,
            tag: self.tag,
            bytes: self.bytes,
            sent_ps,
            head_ps: arrived_ps,
            arrived_ps,
            received_ps,
            travel: None,
        }
    }
}

impl MessageEnds {
    pub fn of(rows: &[Row<'_>]) -> MessageEnds {
        let mut ends = MessageEnds::default();
        for row in rows {
            for (at, Noted { operation, .. }) in row.operations.iter().enumerate() {
                let Operation { word, is_step, .. } = *operation;
                let (Some(peer), Some(tag)) = (operation.peer, operation.tag) else { continue };
                match operation.action {
                    Action::Send => {
                        ends.sends.entry((row.rank, peer, word, tag, is_step)).or_default().push(at);
                    }
                    Action::Recv => {
                        ends.receives.entry((peer, row.rank, word, tag, is_step)).or_default().push(at);
                    }
                    _ => {}
                }
            }
            for &(source, _, tag, word, at_ns) in &row.arrived {
                ends.came.entry((source, row.rank, word, tag, false)).or_default().push_back(at_ns);
            }
        }
        ends
    }

    /// The messages; rows learn which operations have one, and when those of receives were there.
    pub fn pair(mut self, rows: &mut [Row<'_>], eager_bytes: u64) -> Vec<Met> {
        let mut messages = Vec::new();
        for (channel, receives) in self.receives {
            let (from, to, _, tag, is_step) = channel;
            let mut came = self.came.remove(&channel).unwrap_or_default();
            // A peer that nobody has is in no row.
            let sends = self.sends.remove(&channel).unwrap_or_default();
            let mut sends = sends.into_iter();
            for at in receives {
                let (sent, heard_ns) = (sends.next(), came.pop_front());
                let send = sent.map(|at| {
                    let noted = &mut rows[from.index()].operations[at];
                    noted.is_met = true;
                    noted.operation
                });
                let there_ns = if is_step { send.map(|send| send.end_ns) } else { heard_ns };
                let noted = &mut rows[to.index()].operations[at];
                noted.landed_ns = there_ns;
                let Some(send) = send else { continue };
                noted.is_met = true;
                let receive = noted.operation;
                let is_large = !is_step && send.bytes > eager_bytes;
                let arrived_ns = there_ns.filter(|_| !is_large).unwrap_or(receive.end_ns);
                let (bytes, sent_ns, received_ns) = (send.bytes, send.start_ns, receive.end_ns);
                messages.push(Met { from, to, tag, bytes, sent_ns, arrived_ns, received_ns });
            }
        }
        messages
    }
}
