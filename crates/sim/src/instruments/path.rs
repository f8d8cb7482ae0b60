//! The critical path: the chain of operations and messages that the end of the run had to wait for.

use crate::instrument::{Cause, Flight, Instrument};
use castell_base::{Rank, Time};
use castell_goal::schedule::OpId;
use castell_trace::Activity;
use std::collections::HashMap;

/// Finds out what the last operation waited for, what that waited for, and so on back to the beginning.
///
/// Where an operation waited for several things, the one that came last is on the path. Takes memory for every operation.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    operations: HashMap<(Rank, OpId), Node>,
    /// Who occupied each processor last, and until when.
    occupants: HashMap<(Rank, u8), (Link, Time)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    started: Time,
    finished: Time,
    released_by: Option<Link>,
    /// What occupied the processor before, and until when.
    held_by: Option<(Link, Time)>,
    /// For receives: the message, and when it arrived.
    message: Option<((Rank, OpId), Time)>,
}

/// What came before: an operation of this or another rank, or the arrival of a message that one sent.
type Link = (Rank, OpId);

/// An operation on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub rank: Rank,
    /// Which.
    pub operation: OpId,
    /// When it started.
    pub started: Time,
    /// When it had finished.
    pub finished: Time,
    /// Whether the step after it waited for a message that this one sent.
    pub by_message: bool,
}

impl CriticalPath {
    /// The path, in order of time.
    pub fn steps(&self) -> Vec<Step> {
        // Of several that finish last: the first of the lowest rank, so that the answer is always the same.
        let last = self.operations.iter().max_by(|(a, x), (b, y)| x.finished.cmp(&y.finished).then(b.cmp(a)));
        let mut next = last.map(|(&at, _)| (at, false));
        let mut steps = Vec::new();
        // Each link leads back in time or to what was released earlier; the bound is for what should never be.
        while let Some(((rank, operation), by_message)) =
            next.filter(|_| steps.len() <= self.operations.len())
        {
            let Some(node) = self.operations.get(&(rank, operation)) else { break };
            steps.push(Step { rank, operation, started: node.started, finished: node.finished, by_message });
            let released = node.released_by.and_then(|before| self.operations.get(&before));
            let released = released.map_or(Time::ZERO, |before| before.finished);
            next = match (node.message, node.held_by) {
                (Some((sender, arrived)), _) if arrived >= node.started => Some((sender, true)),
                (_, Some((holder, until))) if until > released => Some((holder, holder.0 != rank)),
                _ => node.released_by.map(|before| (before, false)),
            };
        }
        steps.reverse();
        steps
    }

    fn node(&mut self, rank: Rank, operation: OpId) -> &mut Node {
        self.operations.entry((rank, operation)).or_default()
    }
}

impl Instrument for CriticalPath {
    fn ready(&mut self, rank: Rank, operation: OpId, _at: Time, cause: Cause) {
        self.node(rank, operation).released_by = match cause {
            Cause::Start => None,
            Cause::Operation(before) => Some((rank, before)),
            Cause::Receive(peer, receive) => Some((peer, receive)),
        };
    }

    fn started(&mut self, rank: Rank, operation: OpId, at: Time) {
        self.node(rank, operation).started = at;
    }

    fn finished(&mut self, rank: Rank, operation: OpId, at: Time) {
        self.node(rank, operation).finished = at;
    }

    fn busy(
        &mut self,
        rank: Rank,
        processor: Option<u8>,
        activity: Activity,
        operation: (Rank, OpId),
        _from: Time,
        to: Time,
    ) {
        let Some(processor) = processor else { return };
        let before = self.occupants.insert((rank, processor), (operation, to));
        // What takes a message in is known by the send.
        if activity != Activity::Recv {
            self.node(operation.0, operation.1).held_by = before;
        }
    }

    fn received(&mut self, message: &Flight, receive: OpId, at: Time, _done: Time) {
        self.node(message.to, receive).message = Some(((message.from, message.operation), at));
    }
}
