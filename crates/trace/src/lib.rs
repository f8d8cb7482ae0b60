//! Timelines out: what happened when, as files that people and viewers read.
//!
//! This room turns spans and messages into text; it knows nothing of graphs, clocks or files. Start at [`Timeline`].
#![forbid(unsafe_code)]

mod alike;
pub mod calls;
mod chrome;
mod html;
pub mod joined;
pub mod journal;
mod kinds;
mod lanes;
mod own;
mod paraver;
pub mod path;
pub mod svg;
mod units;
pub mod waits;

pub use chrome::write_chrome;
pub use html::write_html;
pub use paraver::write_paraver;
pub use svg::{Look, SvgOptions, Theme, write_svg, write_svg_beside};

use castell_base::{Rank, Tag};

/// What a span's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Busy with a message on its way out.
    Send,
    /// Busy with a message coming in; in a recording of real processes also the wait for it.
    Recv,
    /// Computing.
    Compute,
    /// Anything else: local operations, time stamps, one-sided operations.
    Other,
    /// Nothing to do until a message or another operation comes.
    Wait,
}

impl Activity {
    /// Every activity, in the order of its number.
    pub const ALL: [Activity; 5] =
        [Activity::Send, Activity::Recv, Activity::Compute, Activity::Other, Activity::Wait];

    /// The word for it, as viewers show it.
    pub fn name(self) -> &'static str {
        ["send", "recv", "compute", "other", "wait"][self as usize]
    }
}

/// One operation of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub rank: Rank,
    /// What is written on it.
    pub name: String,
    /// What it is.
    pub activity: Activity,
    /// Start, in picoseconds from the timeline's zero.
    pub start_ps: u64,
    /// End, in picoseconds; not before the start.
    pub end_ps: u64,
}

/// A message from one rank to another: an arrow. Times are picoseconds from the timeline's zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Sender.
    pub from: Rank,
    /// Receiver.
    pub to: Rank,
    /// Its label.
    pub tag: Tag,
    /// Its size.
    pub bytes: u64,
    /// When it left its sender; where nobody knows, when its send started.
    pub sent_ps: u64,
    /// When its first byte was at its receiver, which may have to take in the rest; where nobody knows, the same as `arrived_ps`.
    pub head_ps: u64,
    /// When all of it was at its receiver; where nobody knows, the same as `received_ps`.
    pub arrived_ps: u64,
    /// When its receive was finished.
    pub received_ps: u64,
    /// What the time until it had arrived went into, where that is known: a model knows, a clock does not.
    pub travel: Option<Travel>,
}

/// What a message's time from its departure to its arrival went into. For the rest it stood still: for a link, for its receiver's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// However large it is; picoseconds.
    pub latency_ps: u64,
    /// For each of its bytes; picoseconds.
    pub bandwidth_ps: u64,
    /// Its receiver was busy taking it in; picoseconds.
    pub receiving_ps: u64,
}

/// What let a span begin: another one's end, or the moment in which another one created it. Times are picoseconds from the timeline's zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// Where that was.
    pub from: Rank,
    /// When.
    pub ended_ps: u64,
    /// Where the span is.
    pub to: Rank,
    /// When it began, or went on.
    pub began_ps: u64,
}

/// What a timeline's rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Processes of a program.
    #[default]
    Ranks,
    /// Threads that run tasks.
    Workers,
    /// Nodes of a cluster.
    Nodes,
}

impl Rows {
    /// The word for one of them.
    pub fn name(self) -> &'static str {
        match self {
            Rows::Ranks => "rank",
            Rows::Workers => "worker",
            Rows::Nodes => "node",
        }
    }
}

/// A number over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted.
    pub name: String,
    /// From when on it is how much: picoseconds from the timeline's zero, in order.
    pub samples: Vec<(u64, i64)>,
}

/// When a row was through, of a timeline that is part of a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// Before the part begins.
    Before,
    /// Within it.
    Within,
    /// After its end.
    Later,
}

/// A whole run, real or simulated.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Its title: the program or the schedule.
    pub title: String,
    /// Shown below: the cost model with its parameters, or how messages travelled. May be empty.
    pub subtitle: String,
    /// How many ranks.
    pub ranks: u32,
    /// What they did.
    pub spans: Vec<Span>,
    /// What they sent.
    pub messages: Vec<Message>,
    /// What computing may be, the most time first: a span whose name is such a word, or that and numbers, has its colour. Empty: it has one
    /// colour. See [`Timeline::coloured_by_label`].
    pub kinds: Vec<String>,
    /// Of each span that waited for others, what it waited for last.
    pub dependences: Vec<Dependence>,
    /// What the rows are.
    pub rows: Rows,
    /// What is counted over all of them; drawings leave it out.
    pub counters: Vec<Counter>,
    /// Of a part, by row: when it was through. Empty: this is no part, and all were through within it.
    pub through: Vec<Through>,
    /// Spans that were left out when it was recorded, for want of room.
    pub dropped: u64,
    /// The rows that are of interest: drawings have no others, pages show these first. `None`: all.
    pub only: Option<Vec<Rank>>,
}

impl Timeline {
    /// What happened between two moments, counted from the first of them. A message belongs to it that was received then.
    #[must_use]
    pub fn between(mut self, from_ps: u64, to_ps: u64) -> Timeline {
        let mut ends = vec![0; self.ranks as usize];
        for span in &self.spans {
            let end = &mut ends[span.rank.index()];
            *end = span.end_ps.max(*end);
        }
        let through = |end: u64| match end {
            _ if end > to_ps => Through::Later,
            _ if end <= from_ps && from_ps > 0 => Through::Before,
            _ => Through::Within,
        };
        self.through = ends.into_iter().map(through).collect();
        let inside = |ps: u64| ps.clamp(from_ps, to_ps) - from_ps;
        self.spans.retain(|span| span.start_ps < to_ps && span.end_ps > from_ps);
        for span in &mut self.spans {
            (span.start_ps, span.end_ps) = (inside(span.start_ps), inside(span.end_ps));
        }
        self.messages.retain(|message| message.received_ps > from_ps && message.sent_ps < to_ps);
        for message in &mut self.messages {
            let Message { sent_ps, head_ps, arrived_ps, received_ps, travel, .. } = message;
            // Of a part of it nobody knows.
            travel.take_if(|_| *sent_ps < from_ps || *arrived_ps > to_ps);
            for time in [sent_ps, head_ps, arrived_ps, received_ps] {
                *time = inside(*time);
            }
        }
        self.dependences.retain(|one| one.began_ps > from_ps && one.ended_ps < to_ps);
        for Dependence { ended_ps, began_ps, .. } in &mut self.dependences {
            (*ended_ps, *began_ps) = (inside(*ended_ps), inside(*began_ps));
        }
        for counter in &mut self.counters {
            counter.samples.retain(|(ps, _)| (from_ps..=to_ps).contains(ps));
            counter.samples.iter_mut().for_each(|(ps, _)| *ps -= from_ps);
        }
        self
    }

    /// Whether this row is to be seen.
    pub fn is_seen(&self, rank: Rank) -> bool {
        rank.0 < self.ranks && self.only.as_ref().is_none_or(|only| only.contains(&rank))
    }

    /// Without what happened on rows that are not to be seen, and the messages to and from them: for formats that cannot hide.
    #[must_use]
    pub fn seen(mut self) -> Timeline {
        let seen: Vec<bool> = (0..self.ranks).map(|rank| self.is_seen(Rank(rank))).collect();
        self.spans.retain(|span| seen[span.rank.index()]);
        self.messages.retain(|message| seen[message.from.index()] && seen[message.to.index()]);
        self.dependences.retain(|one| seen[one.from.index()] && seen[one.to.index()]);
        self
    }

    /// The last moment that is in it, in picoseconds.
    pub fn end_ps(&self) -> u64 {
        let spans = self.spans.iter().map(|span| span.end_ps);
        let messages = self.messages.iter().map(|message| message.received_ps.max(message.arrived_ps));
        spans.chain(messages).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_from_its_beginning() {
        let span = |start_ps, end_ps| Span {
            rank: Rank(0),
            name: String::new(),
            activity: Activity::Compute,
            start_ps,
            end_ps,
        };
        let message = |sent_ps, received_ps| Message {
            from: Rank(0),
            to: Rank(0),
            tag: Tag(0),
            bytes: 1,
            sent_ps,
            head_ps: received_ps,
            arrived_ps: received_ps,
            received_ps,
            travel: None,
        };
        let timeline = Timeline {
            ranks: 1,
            spans: vec![span(0, 10), span(5, 15), span(15, 40), span(30, 40)],
            messages: vec![message(0, 10), message(8, 12), message(25, 50)],
            counters: vec![Counter { name: "live".into(), samples: vec![(5, 1), (20, 2)] }],
            ..Timeline::default()
        };
        let part = timeline.between(10, 30);
        let times: Vec<_> = part.spans.iter().map(|span| (span.start_ps, span.end_ps)).collect();
        assert_eq!(times, [(0, 5), (5, 20)]);
        assert_eq!(part.through, [Through::Later]);
        let times: Vec<_> =
            part.messages.iter().map(|message| (message.sent_ps, message.received_ps)).collect();
        assert_eq!(times, [(0, 2), (15, 20)]);
        assert_eq!(part.counters[0].samples, [(10, 2)]);
        let nobody = Timeline { only: Some(vec![Rank(7)]), ..part }.seen();
        assert!(nobody.spans.is_empty() && nobody.messages.is_empty());
    }
}
