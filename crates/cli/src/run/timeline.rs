//! From what the ranks recorded to a timeline.

use super::results::{Results, Summary};
use castell_base::{Rank, Tag};
use castell_comm::engine::{Arrived, Recorded, describe};
use castell_goal::op::Op;
use castell_goal::schedule::Schedule;
use castell_trace::waits::{Pending, true_waits};
use castell_trace::{Activity, Message, Span, Timeline};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// Everything that happened, from the first rank's start on. Larger messages than `eager_bytes` travel when both sides are there,
/// so that their data lands when the receive ends.
pub fn collect(
    file: &Path,
    schedules: &[Arc<Schedule>],
    results: &Results,
    summary: &Summary,
    eager_bytes: u32,
    carried: &str,
) -> Timeline {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut timeline = Timeline {
        title: name.into_owned(),
        subtitle: carried.into(),
        ranks: schedules.len() as u32,
        ..Timeline::default()
    };
    let mut ends = MessageEnds::default();
    for (rank, schedule) in (0..).map(Rank).zip(schedules) {
        let mut recorded = results.recorded(rank);
        for one in &mut recorded {
            one.start_ns = one.start_ns.saturating_sub(summary.zero_ns);
            one.begun_ns = one.begun_ns.saturating_sub(summary.zero_ns);
            one.end_ns = one.end_ns.saturating_sub(summary.zero_ns);
        }
        recorded.sort_by_key(|one| one.start_ns);
        let came = Came::of(results.arrived(rank), summary.zero_ns);
        add_rank(&mut timeline, rank, schedule, &recorded, came.clone());
        for one in &recorded {
            ends.add(rank, schedule.op(one.op), one);
        }
        ends.came.extend(came.times.into_iter().map(|((source, tag), times)| ((source, rank, tag), times)));
    }
    timeline.messages = ends.pair(u64::from(eager_bytes));
    timeline
}

/// When the messages of each sender and tag came to a rank, in their order. Nanoseconds.
#[derive(Clone, Default)]
struct Came {
    times: HashMap<(Rank, Tag), VecDeque<u64>>,
}

impl Came {
    fn of(mut arrived: Vec<Arrived>, zero_ns: u64) -> Came {
        // They are counted from 0 on, far below where the count begins again.
        arrived.sort_by_key(|one| (one.source, one.sequence));
        let mut came = Came::default();
        for one in arrived {
            came.times.entry((one.source, one.tag)).or_default().push_back(one.at_ns.saturating_sub(zero_ns));
        }
        came
    }

    /// The next one's, for the next receive.
    fn take(&mut self, op: Op<'_>) -> Option<u64> {
        let Op::Recv { source: Some(source), tag: Some(tag), .. } = op else { return None };
        self.times.get_mut(&(source, tag))?.pop_front()
    }
}

/// A rank's operations. A receive begins when its message has come: that it was posted before costs nothing by itself. What the
/// rank waited is told apart.
fn add_rank(timeline: &mut Timeline, rank: Rank, schedule: &Schedule, recorded: &[Recorded], mut came: Came) {
    let first = timeline.spans.len();
    let (mut pending, mut names) = (Vec::new(), Vec::new());
    for one in recorded {
        let mut span = span(rank, schedule, one);
        if let Some(came_ns) = came.take(schedule.op(one.op)) {
            let posted_ps = span.start_ps;
            span.start_ps = posted_ps.max(picoseconds(came_ns)).min(span.end_ps);
            pending.push(Pending { posted_ps, came_ps: span.start_ps });
            names.push(format!("waits for {}", span.name));
        }
        timeline.spans.push(span);
    }
    let busy: Vec<(u64, u64)> =
        timeline.spans[first..].iter().map(|span| (span.start_ps, span.end_ps)).collect();
    timeline.spans.extend(true_waits(&busy, &pending).into_iter().map(|waited| Span {
        rank,
        name: names[waited.pending].clone(),
        activity: Activity::Wait,
        start_ps: waited.start_ps,
        end_ps: waited.end_ps,
    }));
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

/// When the sends had handed their messages over and how many bytes each had; and when the receives were through. Nanoseconds.
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
    came: HashMap<(Rank, Rank, Tag), VecDeque<u64>>,
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

    fn pair(mut self, eager_bytes: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        for ((from, to, tag), ends) in self.ends {
            let mut came = self.came.remove(&(from, to, tag)).unwrap_or_default();
            let pairs = ends.sent.into_iter().zip(ends.received_ns);
            messages.extend(pairs.map(|((sent_ns, bytes), received_ns)| {
                let came_ns = came.pop_front().filter(|_| bytes <= eager_bytes).unwrap_or(received_ns);
                let received_ps = picoseconds(received_ns);
                let sent_ps = picoseconds(sent_ns);
                let arrived_ps = picoseconds(came_ns).max(sent_ps).min(received_ps);
                Message {
                    from,
                    to,
                    tag,
                    bytes,
                    sent_ps,
                    head_ps: arrived_ps,
                    arrived_ps,
                    received_ps,
                    travel: None,
                }
            }));
        }
        messages.sort_by_key(|message| (message.sent_ps, message.from, message.to, message.tag));
        messages
    }
}
