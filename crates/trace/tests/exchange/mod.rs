//! A timeline with everything in it, of any number of ranks.

use castell_base::{Rank, Tag};
use castell_trace::{Activity, Message, Span, Timeline};

/// A barrier by dissemination: in each round a rank sends to one twice as far away, receives, and computes a little; one
/// rank is late from the start, which is what the others wait for.
pub fn exchange(ranks: u32) -> Timeline {
    let (busy_ps, latency_ps, compute_ps) = (100_000, 450_000, 60_000);
    let mut timeline = Timeline {
        title: format!("barrier:dissemination on {ranks} ranks"),
        subtitle: "a message keeps its sender and its receiver busy for 100 ns and travels 450 ns; rank 1 starts late".into(),
        ranks,
        ..Timeline::default()
    };
    let mut now_ps: Vec<u64> = (0..ranks).map(|rank| if rank == 1 { 400_000 } else { 0 }).collect();
    for round in 0..ranks.next_power_of_two().ilog2() {
        let sent = timeline.messages.len();
        for rank in (0..ranks).map(Rank) {
            let to = Rank((rank.0 + (1 << round)) % ranks);
            let name = format!("send 8b to {to}");
            timeline.spans.push(after(&mut now_ps, rank, Activity::Send, name, busy_ps));
            let sent_ps = now_ps[rank.index()];
            let arrived_ps = sent_ps + latency_ps;
            let tag = Tag(round);
            timeline.messages.push(Message {
                from: rank,
                to,
                tag,
                bytes: 8,
                sent_ps,
                head_ps: arrived_ps,
                arrived_ps,
                received_ps: 0,
                travel: None,
            });
        }
        for message in &mut timeline.messages[sent..] {
            let rank = message.to;
            let wait_ps = message.arrived_ps.saturating_sub(now_ps[rank.index()]);
            let mut add = |activity, name: &str, duration_ps| {
                timeline.spans.push(after(&mut now_ps, rank, activity, name.into(), duration_ps));
                now_ps[rank.index()]
            };
            add(Activity::Wait, "wait for a message", wait_ps);
            message.received_ps = add(Activity::Recv, "recv 8b", busy_ps);
            add(Activity::Compute, "calc 60", compute_ps);
        }
    }
    timeline
}

/// The span that follows a rank's last.
fn after(now_ps: &mut [u64], rank: Rank, activity: Activity, name: String, duration_ps: u64) -> Span {
    let start_ps = now_ps[rank.index()];
    now_ps[rank.index()] += duration_ps;
    Span { rank, name, activity, start_ps, end_ps: start_ps + duration_ps }
}
