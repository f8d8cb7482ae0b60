//! The critical path of a timeline: what the end waited for, back to the beginning.
//!
//! From the last end on, each step goes to what let it happen: a rank that had finished all else before a message arrived waited for
//! that message, and so for its sender; otherwise it went on with what it had finished last.

use crate::{Activity, Dependence, Message, Rows, Span, Timeline, Travel};
use castell_base::Rank;
use std::collections::HashMap;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rank was busy with this span.
    Span(usize),
    /// This message was on its way to the rank.
    Message(usize),
    /// It could begin here since this dependence was met elsewhere, or earlier.
    Dependence(usize),
    /// A send waited until the rank's network interface, or the network, took its message.
    Held,
    /// Others computed until the barrier of a superstep.
    Others,
    /// Nothing was recorded.
    Gap,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub part: Part,
    /// Where; of a message, where it went.
    pub rank: Rank,
    /// Its start, picoseconds.
    pub start_ps: u64,
    /// Its end, picoseconds.
    pub end_ps: u64,
}

impl Step {
    /// What its time went into.
    pub fn name(&self, timeline: &Timeline) -> &'static str {
        match self.part {
            Part::Span(span) => match timeline.spans[span].activity {
                Activity::Compute => "computing",
                Activity::Send => "sending",
                Activity::Recv => "receiving",
                Activity::Other => "other",
                Activity::Wait => "waiting",
            },
            Part::Message(_) => "message",
            Part::Dependence(_) if timeline.rows == Rows::Workers => "starting tasks",
            // Tasks of a rank.
            Part::Dependence(one) if is_of_tasks(&timeline.dependences[one]) => "starting tasks",
            Part::Dependence(_) => "rendezvous",
            Part::Held => "gap between sends",
            Part::Others => "waiting for others",
            Part::Gap if timeline.rows == Rows::Workers => "without a task",
            Part::Gap => "nothing recorded",
        }
    }

    /// What the time of a message went into, where that is known.
    pub fn travel(&self, timeline: &Timeline) -> Option<Travel> {
        let Part::Message(message) = self.part else { return None };
        timeline.messages[message].travel.filter(|&travel| all_of(travel) <= self.end_ps - self.start_ps)
    }
}

/// The steps, the earliest first. They follow each other in time without overlapping.
pub fn critical_path(timeline: &Timeline) -> Vec<Step> {
    if timeline.rows == Rows::Workers && !timeline.dependences.is_empty() {
        return tasks(timeline);
    }
    let (walk, met) = (Walk::new(timeline), met(timeline));
    // Of a simulated run all is recorded.
    let is_simulated = timeline.messages.iter().any(|message| message.travel.is_some());
    let mut steps = Vec::new();
    let Some((mut rank, mut now)) = walk.last() else { return steps };
    // Each step but a gap goes back in time or to an earlier span; a gap is followed by another kind.
    let bound = 3 * (timeline.spans.len() + timeline.messages.len()) + timeline.dependences.len() + 2;
    let mut before = usize::MAX;
    for _ in 0..bound {
        let at = walk.ended(rank, now, before);
        // Nothing is busy with some messages that come: what they let happen begins as they are there.
        let idle_ps = at.map_or(0, |at| timeline.spans[walk.spans[rank.index()][at]].end_ps);
        let message = walk.awaited(rank, idle_ps, now).filter(|_| idle_ps < now);
        if let Some(index) = message.filter(|&index| timeline.messages[index].arrived_ps == now) {
            (rank, now, before) = walk.follow(index, rank, &mut steps);
            continue;
        }
        if let Some(&index) = met.get(&(rank, now)).filter(|_| idle_ps < now) {
            let one = &timeline.dependences[index];
            let within = walk.around(one);
            if one.ended_ps < now || within.is_some() || !is_of_tasks(one) {
                if one.ended_ps < now {
                    let part = Part::Dependence(index);
                    steps.push(Step { part, rank, start_ps: one.ended_ps, end_ps: now });
                }
                (rank, now, before) = match within {
                    Some(number) => walk.within(number, one.ended_ps, &mut steps),
                    None => walk.left(one.from, one.ended_ps, &mut steps),
                };
                continue;
            }
        }
        if idle_ps < now && (is_simulated || at.is_some()) {
            let part = match is_simulated {
                true if walk.is_send(steps.last(), rank) => Part::Held,
                true => Part::Others,
                false => Part::Gap,
            };
            steps.push(Step { part, rank, start_ps: idle_ps, end_ps: now });
            now = idle_ps;
        }
        let Some(at) = at else { break };
        let span = &timeline.spans[walk.spans[rank.index()][at]];
        let previous_ps = walk.end_before(rank, at);
        let may_wait = matches!(span.activity, Activity::Recv | Activity::Wait);
        // One that came before the receive began, while the rank had nothing to do, was waited for, too.
        let message = walk.awaited(rank, previous_ps, now).filter(|_| may_wait);
        let number = walk.spans[rank.index()][at];
        if let Some(index) = message {
            let landed_ps = timeline.messages[index].arrived_ps;
            if landed_ps < now {
                steps.push(Step { part: Part::Span(number), rank, start_ps: landed_ps, end_ps: now });
            }
            (rank, now, before) = walk.follow(index, rank, &mut steps);
            continue;
        }
        // A receive that had its message is busy only since the rank had time for it.
        let start_ps = match span.activity {
            Activity::Recv | Activity::Wait => span.start_ps.max(previous_ps.min(now)),
            _ => span.start_ps,
        };
        if start_ps < now {
            steps.push(Step { part: Part::Span(number), rank, start_ps, end_ps: now });
        }
        (now, before) = (start_ps, at);
    }
    steps.reverse();
    steps
}

/// Whether it is one of tasks of the same rank: whatever else begins since something happened has it from another rank.
fn is_of_tasks(one: &Dependence) -> bool {
    one.from == one.to
}

/// Which dependence was met last of those that let something begin on a row then.
fn met(timeline: &Timeline) -> HashMap<(Rank, u64), usize> {
    let mut met: HashMap<(Rank, u64), usize> = HashMap::new();
    for (at, one) in timeline.dependences.iter().enumerate() {
        let last = met.entry((one.to, one.began_ps)).or_insert(at);
        if timeline.dependences[*last].ended_ps < one.ended_ps {
            *last = at;
        }
    }
    met
}

/// Of spans that do not overlap on their rows, and begin when they may and their row is free.
fn tasks(timeline: &Timeline) -> Vec<Step> {
    let (walk, met) = (Walk::new(timeline), met(timeline));
    let mut steps: Vec<Step> = Vec::new();
    let Some((mut rank, mut now)) = walk.last() else { return steps };
    let bound = 3 * timeline.spans.len() + timeline.dependences.len() + 2;
    for _ in 0..bound {
        // What is under way, or was last: it began before now.
        let Some(at) = walk.begun(rank, now) else { break };
        let number = walk.spans[rank.index()][at];
        let span = &timeline.spans[number];
        if span.end_ps < now {
            steps.push(Step { part: Part::Gap, rank, start_ps: span.end_ps, end_ps: now });
            now = span.end_ps;
            continue;
        }
        steps.push(Step { part: Part::Span(number), rank, start_ps: span.start_ps, end_ps: now });
        now = span.start_ps;
        let busy_until = walk.busy_before(rank, at);
        let Some(&index) = met.get(&(rank, now)) else { continue };
        let one = &timeline.dependences[index];
        if one.ended_ps >= busy_until && one.ended_ps <= now {
            let step = Step { part: Part::Dependence(index), rank, start_ps: one.ended_ps, end_ps: now };
            steps.push(step);
            (rank, now) = (one.from, one.ended_ps);
        }
    }
    steps.reverse();
    steps
}

/// What the steps' time went into: the most first. Picoseconds.
pub fn parts(timeline: &Timeline, steps: &[Step]) -> Vec<(&'static str, u64)> {
    let told = steps.iter().flat_map(|step| {
        let receiving_ps = step.travel(timeline).map_or(0, |travel| travel.receiving_ps);
        [(step.name(timeline), step.end_ps - step.start_ps - receiving_ps), ("receiving", receiving_ps)]
    });
    summed(told)
}

/// What the time of the path's messages went into, the most first; nothing where nobody knows. Picoseconds.
pub fn message_parts(timeline: &Timeline, steps: &[Step]) -> Vec<(&'static str, u64)> {
    let told = steps.iter().flat_map(|step| {
        let known = step.travel(timeline);
        let queueing_ps = known.map_or(0, |known| step.end_ps - step.start_ps - all_of(known));
        let Travel { latency_ps, bandwidth_ps, .. } = known.unwrap_or_default();
        [("latency", latency_ps), ("bandwidth", bandwidth_ps), ("queueing", queueing_ps)]
    });
    summed(told)
}

fn all_of(Travel { latency_ps, bandwidth_ps, receiving_ps }: Travel) -> u64 {
    latency_ps.saturating_add(bandwidth_ps).saturating_add(receiving_ps)
}

/// The sum of each name, the largest first.
fn summed(told: impl Iterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    let mut parts: Vec<(&'static str, u64)> = Vec::new();
    for (name, ps) in told {
        match parts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += ps,
            None => parts.push((name, ps)),
        }
    }
    parts.retain(|(_, ps)| *ps > 0);
    parts.sort_by_key(|(name, ps)| (std::cmp::Reverse(*ps), *name));
    parts
}

/// Spans and messages by where and when they end.
struct Walk<'a> {
    timeline: &'a Timeline,
    /// A rank's spans by their ends.
    spans: Vec<Vec<usize>>,
    /// A rank's messages by when they arrived.
    messages: Vec<Vec<usize>>,
    /// What computes on a rank, where its tasks depend on each other.
    computing: Vec<Computing>,
}

/// Spans by their starts, to find one that was under way.
#[derive(Default)]
struct Computing {
    spans: Vec<usize>,
    starts: Vec<u64>,
    /// The latest end within each part: the whole of them is the first, halves of a part follow it at twice its place.
    ends: Vec<u64>,
}

impl Computing {
    fn of(timeline: &Timeline, mut spans: Vec<usize>) -> Computing {
        spans.retain(|span| timeline.spans[*span].activity == Activity::Compute);
        spans.sort_by_key(|&span| (timeline.spans[span].start_ps, span));
        // One more than there are, so that each place has some before it.
        let half = (spans.len() + 1).next_power_of_two();
        let mut ends = vec![0; 2 * half];
        for (at, &span) in spans.iter().enumerate() {
            ends[half + at] = timeline.spans[span].end_ps;
        }
        (1..half).rev().for_each(|part| ends[part] = ends[2 * part].max(ends[2 * part + 1]));
        let starts = spans.iter().map(|&span| timeline.spans[span].start_ps).collect();
        Computing { spans, starts, ends }
    }

    /// What began last of that which had begun before then, and ended after it.
    fn around(&self, at_ps: u64) -> Option<usize> {
        let half = self.ends.len() / 2;
        let begun = self.starts.partition_point(|start_ps| *start_ps < at_ps);
        // Up to the first part that is before all that began later, and has one that ends late enough; then down to that one.
        let mut part = half + begun;
        loop {
            if part.is_power_of_two() {
                return None;
            }
            if part % 2 == 1 && self.ends[part - 1] > at_ps {
                part -= 1;
                break;
            }
            part /= 2;
        }
        while part < half {
            part = 2 * part + usize::from(self.ends[2 * part + 1] > at_ps);
        }
        Some(self.spans[part - half])
    }
}

impl Walk<'_> {
    fn new(timeline: &Timeline) -> Walk<'_> {
        let mut spans = vec![Vec::new(); timeline.ranks as usize];
        for (number, span) in timeline.spans.iter().enumerate() {
            spans[span.rank.index()].push(number);
        }
        for of_rank in &mut spans {
            of_rank.sort_by_key(|&span| (timeline.spans[span].end_ps, timeline.spans[span].start_ps, span));
        }
        let mut messages = vec![Vec::new(); timeline.ranks as usize];
        for (number, message) in timeline.messages.iter().enumerate() {
            messages[message.to.index()].push(number);
        }
        for of_rank in &mut messages {
            of_rank.sort_by_key(|&message| (timeline.messages[message].arrived_ps, message));
        }
        let has_tasks = timeline.rows != Rows::Workers && timeline.dependences.iter().any(is_of_tasks);
        let computing = if has_tasks {
            spans.iter().map(|of| Computing::of(timeline, of.clone())).collect()
        } else {
            Vec::new()
        };
        Walk { timeline, spans, messages, computing }
    }

    /// The last end of all; a message's where nothing was busy with what came last.
    fn last(&self) -> Option<(Rank, u64)> {
        let Timeline { spans, messages, .. } = self.timeline;
        let span = spans.iter().max_by_key(|span| (span.end_ps, std::cmp::Reverse(span.rank)));
        let message =
            messages.iter().max_by_key(|message| (message.arrived_ps, std::cmp::Reverse(message.to)));
        let ends =
            [span.map(|span| (span.rank, span.end_ps)), message.map(|last| (last.to, last.arrived_ps))];
        ends.into_iter().flatten().reduce(|span, message| if message.1 > span.1 { message } else { span })
    }

    /// Goes back along a message that came to `rank`: where the path goes on, and before which span.
    fn follow(&self, index: usize, rank: Rank, steps: &mut Vec<Step>) -> (Rank, u64, usize) {
        let Message { from, sent_ps, arrived_ps, .. } = self.timeline.messages[index];
        steps.push(Step { part: Part::Message(index), rank, start_ps: sent_ps, end_ps: arrived_ps });
        self.left(from, sent_ps, steps)
    }

    /// In whose body it was that a task became ready, or began; none where something had just ended.
    fn around(&self, one: &Dependence) -> Option<usize> {
        let computing = self.computing.get(one.from.index()).filter(|_| is_of_tasks(one))?;
        let ended = self.ended(one.from, one.ended_ps, usize::MAX);
        let last = ended.map(|at| &self.timeline.spans[self.spans[one.from.index()][at]]);
        let has_ended = last.is_some_and(|span| span.end_ps == one.ended_ps);
        if has_ended { None } else { computing.around(one.ended_ps) }
    }

    /// Goes back in a span from a moment in it.
    fn within(&self, number: usize, until_ps: u64, steps: &mut Vec<Step>) -> (Rank, u64, usize) {
        let Span { rank, start_ps, .. } = self.timeline.spans[number];
        steps.push(Step { part: Part::Span(number), rank, start_ps, end_ps: until_ps });
        (rank, start_ps, usize::MAX)
    }

    /// Where the path goes on from a rank at a moment; a send may go on when its first byte is on the wire.
    fn left(&self, from: Rank, sent_ps: u64, steps: &mut Vec<Step>) -> (Rank, u64, usize) {
        let Some(number) = self.sending(from, sent_ps) else { return (from, sent_ps, usize::MAX) };
        let start_ps = self.timeline.spans[number].start_ps;
        steps.push(Step { part: Part::Span(number), rank: from, start_ps, end_ps: sent_ps });
        (from, start_ps, usize::MAX)
    }

    /// The place of the rank's last span that has ended by then, before a place.
    fn ended(&self, rank: Rank, by_ps: u64, before: usize) -> Option<usize> {
        let spans = &self.spans[rank.index()];
        let ended = spans.partition_point(|&span| self.timeline.spans[span].end_ps <= by_ps);
        ended.min(before).checked_sub(1)
    }

    /// The rank's send that is under way then, the one that ends first.
    fn sending(&self, rank: Rank, now: u64) -> Option<usize> {
        let spans = &self.spans[rank.index()];
        let ended = spans.partition_point(|&span| self.timeline.spans[span].end_ps <= now);
        let next = *spans.get(ended)?;
        let Span { activity, start_ps, .. } = self.timeline.spans[next];
        (activity == Activity::Send && start_ps < now).then_some(next)
    }

    /// Whether the step is a send of this rank.
    fn is_send(&self, step: Option<&Step>, rank: Rank) -> bool {
        let Some(Step { part: Part::Span(number), rank: of, .. }) = step else { return false };
        *of == rank && self.timeline.spans[*number].activity == Activity::Send
    }

    /// The place of the rank's last span that began before then, where spans do not overlap.
    fn begun(&self, rank: Rank, now: u64) -> Option<usize> {
        let spans = &self.spans[rank.index()];
        spans.partition_point(|&span| self.timeline.spans[span].start_ps < now).checked_sub(1)
    }

    /// Until when the rank was busy before the span at a place; waiting is not busy.
    fn busy_before(&self, rank: Rank, at: usize) -> u64 {
        let before = self.spans[rank.index()][..at].iter().rev().map(|&span| &self.timeline.spans[span]);
        before.take(2).find(|span| span.activity != Activity::Wait).map_or(0, |span| span.end_ps)
    }

    /// When the span before a place ended; 0 if there is none.
    fn end_before(&self, rank: Rank, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.timeline.spans[self.spans[rank.index()][before]].end_ps)
    }

    /// The last message that arrived between the two, and was under way before.
    fn awaited(&self, rank: Rank, after_ps: u64, by_ps: u64) -> Option<usize> {
        let messages = &self.messages[rank.index()];
        let arrived =
            messages.partition_point(|&message| self.timeline.messages[message].arrived_ps <= by_ps);
        let last = messages[..arrived].last().copied()?;
        let message = &self.timeline.messages[last];
        // Its rest may come while the rank takes it in.
        (message.head_ps > after_ps && message.sent_ps < message.arrived_ps).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Tag;

    fn span(rank: u32, activity: Activity, start_ps: u64, end_ps: u64) -> Span {
        Span { rank: Rank(rank), name: String::new(), activity, start_ps, end_ps }
    }

    fn message(from: u32, to: u32, sent_ps: u64, arrived_ps: u64, received_ps: u64) -> Message {
        let (from, to, head_ps) = (Rank(from), Rank(to), arrived_ps);
        Message { from, to, tag: Tag(0), bytes: 8, sent_ps, head_ps, arrived_ps, received_ps, travel: None }
    }

    fn path(spans: Vec<Span>, messages: Vec<Message>) -> Vec<(&'static str, u32, u64, u64)> {
        let timeline = Timeline { ranks: 3, spans, messages, ..Timeline::default() };
        let steps = critical_path(&timeline);
        for pair in steps.windows(2) {
            assert_eq!(pair[0].end_ps, pair[1].start_ps, "{steps:?}");
        }
        steps.iter().map(|step| (step.name(&timeline), step.rank.0, step.start_ps, step.end_ps)).collect()
    }

    #[test]
    fn who_was_waited_for_is_on_the_path() {
        use Activity::{Compute, Recv, Send};
        let spans = vec![
            span(0, Compute, 0, 100),
            span(0, Send, 100, 110),
            // Posted at the beginning, and not what rank 1 waited for until it had computed itself.
            span(1, Recv, 0, 150),
            span(1, Compute, 0, 50),
            span(1, Compute, 150, 170),
        ];
        let found = path(spans, vec![message(0, 1, 110, 140, 150)]);
        let expected = [
            ("computing", 0, 0, 100),
            ("sending", 0, 100, 110),
            ("message", 1, 110, 140),
            ("receiving", 1, 140, 150),
            ("computing", 1, 150, 170),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_message_that_came_in_time_is_not() {
        use Activity::{Compute, Recv, Send};
        let spans = vec![
            span(0, Send, 0, 10),
            span(1, Recv, 0, 105),
            span(1, Compute, 0, 100),
            span(1, Compute, 120, 130),
        ];
        let found = path(spans, vec![message(0, 1, 10, 30, 105)]);
        let expected = [
            ("computing", 1, 0, 100),
            ("receiving", 1, 100, 105),
            ("nothing recorded", 1, 105, 120),
            ("computing", 1, 120, 130),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn everything_has_a_path_that_ends() {
        assert_eq!(path(vec![], vec![]), []);
        // Spans and messages of no length at one moment, and messages that were there before they were sent.
        let random = |seed: u64| {
            let draw = |which: u64, of: u64| {
                (seed.wrapping_mul(6364136223846793005).wrapping_add(which.wrapping_mul(1442695040888963407))
                    >> 33)
                    % of
            };
            let spans = (0..40).map(|at| {
                let start = draw(3 * at, 50);
                span(
                    draw(3 * at + 1, 3) as u32,
                    Activity::ALL[(at % 5) as usize],
                    start,
                    start + draw(3 * at + 2, 9),
                )
            });
            let messages = (0..40).map(|at| {
                let sent = draw(at + 900, 50);
                message((at % 3) as u32, (at % 2) as u32, sent, sent + draw(at + 950, 5), draw(at + 990, 60))
            });
            path(spans.collect(), messages.collect())
        };
        (0..2000).for_each(|seed| drop(random(seed)));
    }
}
