//! Which operations are the calls that sent and received the messages.
//!
//! A message says when it left, arrived and was received, and operations when they began and ended: those that belong
//! together are found by their times. Where operations follow one another without a gap, a moment lies in two of them;
//! no operation is given two messages while another one fits.

use crate::{Activity, Message, Span};
use castell_base::Rank;

/// A call that has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The operation with this place among its rank's.
    Operation(usize),
    /// A receive that took no time, at this moment: the message had been taken in before.
    Instant(u64),
}

/// What is known of messages and operations together.
pub(super) struct Calls {
    /// Of each message, its send and its receive. `None`: no operation fits.
    pub of_messages: Vec<(Option<usize>, Option<Call>)>,
    /// By rank and operation: a message that no receive had asked for yet was taken in here; that is no receive.
    pub takes_in: Vec<Vec<bool>>,
    /// By rank, the moments of its instant receives, in order.
    pub instants: Vec<Vec<u64>>,
}

impl Calls {
    /// `ranks` has each rank's operations in order of their starts, each with a lane.
    pub fn of(messages: &[Message], ranks: &[Vec<(usize, &Span)>]) -> Calls {
        let unused = || -> Vec<Vec<bool>> { ranks.iter().map(|spans| vec![false; spans.len()]).collect() };
        let mut order: Vec<usize> = (0..messages.len()).collect();
        let mut found = Calls {
            of_messages: vec![(None, None); messages.len()],
            takes_in: unused(),
            instants: vec![Vec::new(); ranks.len()],
        };
        let mut used = unused();
        order.sort_by_key(|&at| messages[at].sent_ps);
        for &at in &order {
            let Message { from, sent_ps, .. } = messages[at];
            let mut operations = Operations { spans: &ranks[from.index()], used: &mut used[from.index()] };
            found.of_messages[at].0 = operations.take_around(Activity::Send, sent_ps);
        }
        order.sort_by_key(|&at| messages[at].received_ps);
        let mut used = unused();
        // First what fits exactly, so that nothing else takes it.
        for &at in &order {
            let Message { to, head_ps, received_ps, .. } = messages[at];
            let mut operations = Operations { spans: &ranks[to.index()], used: &mut used[to.index()] };
            let exact = operations.take_from(head_ps, |end_ps| end_ps == received_ps);
            found.of_messages[at].1 = exact.map(Call::Operation);
        }
        for &at in &order {
            let Message { to, head_ps, received_ps, .. } = messages[at];
            let mut operations = Operations { spans: &ranks[to.index()], used: &mut used[to.index()] };
            if found.of_messages[at].1.is_none()
                && let Some(span) = operations.take_from(head_ps, |end_ps| end_ps < received_ps)
            {
                found.takes_in[to.index()][span] = true;
                found.instants[to.index()].push(received_ps);
                found.of_messages[at].1 = Some(Call::Instant(received_ps));
            }
        }
        for &at in &order {
            let Message { to, received_ps, .. } = messages[at];
            let mut operations = Operations { spans: &ranks[to.index()], used: &mut used[to.index()] };
            if found.of_messages[at].1.is_none() {
                let around = operations.take_around(Activity::Recv, received_ps);
                found.of_messages[at].1 = around.map(Call::Operation);
            }
        }
        found
    }

    /// The call that an operation is, by Extrae's number. What takes in a message early is one that looks for messages: time
    /// that the program spends in MPI, but no receive.
    pub fn number(&self, rank: Rank, operation: usize, activity: Activity) -> Option<u32> {
        match activity {
            Activity::Send => Some(super::SEND),
            Activity::Recv if self.takes_in[rank.index()][operation] => Some(super::PROBE),
            Activity::Recv => Some(super::RECV),
            _ => None,
        }
    }
}

/// A rank's operations, and which of them have their messages.
struct Operations<'a> {
    spans: &'a [(usize, &'a Span)],
    used: &'a mut [bool],
}

/// So many operations before a moment are looked at.
const LOOKED_AT_MAX: usize = 1000;

impl Operations<'_> {
    /// An operation that receives, begins at a moment and ends when it should; it is used then.
    fn take_from(&mut self, start_ps: u64, ends: impl Fn(u64) -> bool) -> Option<usize> {
        let first = self.spans.partition_point(|(_, span)| span.start_ps < start_ps);
        let begun = self.spans[first..].iter().take_while(|(_, span)| span.start_ps == start_ps);
        let fits = |&at: &usize| {
            let span = self.spans[at].1;
            !self.used[at] && span.activity == Activity::Recv && ends(span.end_ps)
        };
        let found = (first..first + begun.count()).find(fits)?;
        self.used[found] = true;
        Some(found)
    }

    /// The first unused operation of a kind that had begun by a moment and lasted up to it at least, or the last used one.
    fn take_around(&mut self, activity: Activity, moment_ps: u64) -> Option<usize> {
        let begun = self.spans.partition_point(|(_, span)| span.start_ps <= moment_ps);
        let near = (begun.saturating_sub(LOOKED_AT_MAX)..begun).filter(|&at| {
            let span = self.spans[at].1;
            span.activity == activity && span.end_ps >= moment_ps
        });
        let near: Vec<usize> = near.collect();
        let found = near.iter().copied().find(|&at| !self.used[at]).or(near.last().copied())?;
        self.used[found] = true;
        Some(found)
    }
}
