//! From what the ranks recorded to a timeline.

use super::results::{Results, Summary};
use castell_base::{Rank, Tag};
use castell_comm::engine::{Recorded, describe};
use castell_goal::op::Op;
use castell_goal::schedule::Schedule;
use castell_trace::{Activity, Message, Span, Timeline};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Everything that happened, from the first rank's start on.
pub fn collect(file: &Path, schedules: &[Arc<Schedule>], results: &Results, summary: &Summary) -> Timeline {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut timeline = Timeline {
        title: name.into_owned(),
        subtitle: "executed over shared memory".into(),
        ranks: schedules.len() as u32,
        ..Timeline::default()
    };
    let mut ends = MessageEnds::default();
    for (rank, schedule) in schedules.iter().enumerate() {
        let rank = Rank(rank as u32);
        let mut recorded = results.recorded(rank);
        for one in &mut recorded {
            one.start_ns = one.start_ns.saturating_sub(summary.zero_ns);
            one.end_ns = one.end_ns.saturating_sub(summary.zero_ns);
        }
        recorded.sort_by_key(|one| one.start_ns);
        for one in &recorded {
            timeline.spans.push(span(rank, schedule, one));
            ends.add(rank, schedule.op(one.op), one);
        }
    }
    timeline.messages = ends.pair();
    timeline
}

fn span(rank: Rank, schedule: &Schedule, recorded: &Recorded) -> Span {
    let activity = match schedule.op(recorded.op) {
        Op::Send { .. } | Op::Put { .. } => Activity::Send,
        Op::Recv { .. } | Op::Get { .. } => Activity::Recv,
        Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => Activity::Compute,
        _ => Activity::Other,
    };
    let name = describe(schedule, recorded.op);
    Span {
        rank,
        name,
        activity,
        start_ps: picoseconds(recorded.start_ns),
        end_ps: picoseconds(recorded.end_ns),
    }
}

fn picoseconds(ns: u64) -> u64 {
    ns.saturating_mul(1000)
}

/// When the sends started and how many bytes each had; and when the receives were through. Nanoseconds.
#[derive(Default)]
struct Ends {
    sent: Vec<(u64, u64)>,
    received_ns: Vec<u64>,
}

/// Sends and receives of each (sender, receiver, tag), in order: the n-th of one side belongs to the n-th of the
/// other. Receives from any rank or with any tag get no arrow.
#[derive(Default)]
struct MessageEnds {
    ends: HashMap<(Rank, Rank, Tag), Ends>,
}

impl MessageEnds {
    fn add(&mut self, rank: Rank, op: Op<'_>, recorded: &Recorded) {
        match op {
            Op::Send { dest, tag, bytes, .. } => {
                self.ends.entry((rank, dest, tag)).or_default().sent.push((recorded.start_ns, bytes));
            }
            Op::Recv { source: Some(source), tag: Some(tag), .. } => {
                self.ends.entry((source, rank, tag)).or_default().received_ns.push(recorded.end_ns);
            }
            _ => {}
        }
    }

    fn pair(self) -> Vec<Message> {
        let mut messages = Vec::new();
        for ((from, to, tag), ends) in self.ends {
            let pairs = ends.sent.into_iter().zip(ends.received_ns);
            messages.extend(pairs.map(|((sent_ns, bytes), received_ns)| {
                let received_ps = picoseconds(received_ns);
                // The engine records when operations are through, not when bytes come in.
                let (sent_ps, arrived_ps) = (picoseconds(sent_ns), received_ps);
                Message { from, to, tag, bytes, sent_ps, arrived_ps, received_ps }
            }));
        }
        messages.sort_by_key(|message| (message.sent_ps, message.from, message.to, message.tag));
        messages
    }
}
