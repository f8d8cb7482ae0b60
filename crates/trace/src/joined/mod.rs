//! The journals of all ranks as one timeline.
//!
//! A rank's row has what it did for its graphs, when it truly waited (a call of castell had to wait, and nothing moved), and the rest
//! of the time as the program's own. Messages are paired by their order between two ranks.

mod ends;
mod row;

pub use row::{Noted, Row, TaskNote, Waited};

use crate::journal::{Action, Event, Operation};
use crate::waits::{Pending, true_waits};
use crate::{Activity, Dependence, Message, Span, Timeline};
use castell_base::Rank;
use ends::MessageEnds;
use std::collections::HashMap;

/// What one rank noted.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// In the order in which they were noted.
    pub events: Vec<Event>,
    /// Names by number.
    pub names: HashMap<u32, String>,
    /// Events for which there was no room.
    pub dropped: u64,
}

/// How to read the notes.
pub struct Reading<'a> {
    /// Says in words what a collective call was.
    pub describe: &'a dyn Fn(&[u64; 6]) -> String,
    /// Larger messages travel when both sides are there: their data lands when the receive ends.
    pub eager_bytes: u64,
}

/// The notes of ranks 0, 1, …, in order.
pub struct Joined<'a> {
    /// By rank.
    pub rows: Vec<Row<'a>>,
    /// When the first event of all was.
    pub zero_ns: u64,
    reading: &'a Reading<'a>,
    messages: Vec<Message>,
}

impl<'a> Joined<'a> {
    /// Puts the notes in order, and together what belongs together.
    pub fn of(ranks: &'a [Notes], reading: &'a Reading<'a>) -> Joined<'a> {
        let zero_ns =
            ranks.iter().flat_map(|notes| &notes.events).filter_map(Event::first_ns).min().unwrap_or(0);
        let mut rows: Vec<Row<'_>> =
            (0..).map(Rank).zip(ranks).map(|(rank, notes)| Row::of(rank, notes)).collect();
        let messages = MessageEnds::of(&rows).pair(&mut rows, reading.eager_bytes);
        rows.iter_mut().for_each(Row::begin_steps);
        let mut joined = Joined { rows, zero_ns, reading, messages: Vec::new() };
        joined.messages =
            messages.iter().map(|message| message.timed(&|ns| joined.picoseconds(ns))).collect();
        joined.messages.sort_by_key(|message| (message.sent_ps, message.from, message.to, message.tag));
        joined
    }

    /// What an operation was, in words.
    pub fn describe(&self, row: &Row<'_>, operation: &Operation) -> String {
        row.describe(operation, self.reading)
    }

    /// The call that an operation belongs to, and its label.
    pub fn label(&self, row: &Row<'_>, operation: &Operation) -> Option<String> {
        row.label(operation, self.reading)
    }

    /// What happened, to be drawn.
    pub fn timeline(&self) -> Timeline {
        let mut timeline = Timeline {
            ranks: self.rows.len() as u32,
            dropped: self.rows.iter().map(|row| row.notes.dropped).sum(),
            messages: self.messages.clone(),
            ..Timeline::default()
        };
        for row in &self.rows {
            self.draw(row, &mut timeline.spans);
            let tasks = row.tasks.iter().zip(row.met_ns());
            timeline.dependences.extend(tasks.filter_map(|(task, met_ns)| {
                let (ended_ps, began_ps) = (self.picoseconds(met_ns?), self.picoseconds(task.start_ns));
                Some(Dependence { from: row.rank, ended_ps, to: row.rank, began_ps })
            }));
        }
        timeline
    }

    fn picoseconds(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.zero_ns).saturating_mul(1000)
    }

    fn draw(&self, row: &Row<'_>, spans: &mut Vec<Span>) {
        let span = |name, activity, start_ns, end_ns| Span {
            rank: row.rank,
            name,
            activity,
            start_ps: self.picoseconds(start_ns),
            end_ps: self.picoseconds(end_ns),
        };
        let (mut busy, mut pending, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for noted in &row.operations {
            let operation = &noted.operation;
            let Some(activity) = activity(operation) else { continue };
            let name = self.describe(row, operation);
            if let Some(came_ns) = noted.landed_ns {
                let came_ps = came_ns.max(operation.start_ns).min(operation.end_ns);
                pending.push(Pending { posted_ps: operation.start_ns, came_ps });
                names.push(format!("waits for {name}"));
            }
            busy.push((noted.began_ns, operation.end_ns));
            spans.push(span(name, activity, noted.began_ns, operation.end_ns));
        }
        for task in &row.tasks {
            let TaskNote { start_ns, end_ns, .. } = *task;
            busy.push((start_ns, end_ns));
            spans.push(span(row.describe_task(task), Activity::Compute, start_ns, end_ns));
        }
        let outside = row.outside();
        for &(start_ns, end_ns) in &outside {
            spans.push(span(OWN.to_owned(), Activity::Compute, start_ns, end_ns));
        }
        busy.extend(outside);
        // Nanoseconds, here: any unit will do.
        let waited = true_waits(&busy, &pending).into_iter();
        spans.extend(
            waited.map(|one| span(names[one.pending].clone(), Activity::Wait, one.start_ps, one.end_ps)),
        );
    }
}

/// What is written on the time in which a program was not in castell.
pub const OWN: &str = "the program";

/// Puts the notes of ranks 0, 1, … together. Times count from the first event of all.
pub fn join(ranks: &[Notes], reading: &Reading<'_>) -> Timeline {
    Joined::of(ranks, reading).timeline()
}

/// What an operation's time went into; `None`: it takes none.
fn activity(operation: &Operation) -> Option<Activity> {
    Some(match operation.action {
        Action::Send | Action::Put => Activity::Send,
        Action::Recv | Action::Get => Activity::Recv,
        Action::Calc | Action::Call => Activity::Compute,
        Action::Local => Activity::Other,
        Action::Proxy => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::critical_path;
    use castell_base::Tag;

    fn operation(action: Action, peer: u32, start_ns: u64, end_ns: u64) -> Operation {
        Operation {
            action,
            run: 1,
            word: 0,
            is_step: false,
            peer: Some(Rank(peer)),
            tag: Some(Tag(7)),
            bytes: 8,
            name: 0,
            id: 0,
            next: [0; 2],
            start_ns,
            end_ns,
        }
    }

    fn notes(events: Vec<Event>) -> Notes {
        Notes { events, ..Notes::default() }
    }

    fn joined(ranks: &[Notes]) -> Timeline {
        join(ranks, &Reading { describe: &|words| format!("call {}", words[0]), eager_bytes: 1000 })
    }

    fn row(timeline: &Timeline, rank: u32) -> Vec<(&str, Activity, u64, u64)> {
        let mut spans: Vec<_> = timeline
            .spans
            .iter()
            .filter(|span| span.rank == Rank(rank))
            .map(|span| (&*span.name, span.activity, span.start_ps / 1000, span.end_ps / 1000))
            .collect();
        spans.sort_by_key(|span| (span.2, span.3));
        spans
    }

    /// Rank 1 posts its receive early and computes; only what is left of the wait when it asks counts.
    #[test]
    fn who_computes_does_not_wait() {
        let sender = notes(vec![
            Event::Entered { at_ns: 1000 },
            Event::Operation(operation(Action::Send, 1, 1500, 1510)),
            Event::Left { at_ns: 1600 },
        ]);
        let receiver = notes(vec![
            Event::Entered { at_ns: 1000 },
            Event::Arrived { source: Rank(0), tag: Tag(7), word: 0, sequence: 0, at_ns: 1520 },
            Event::Operation(operation(Action::Recv, 0, 1010, 1525)),
            Event::Waited { start_ns: 1400, end_ns: 1530, run: None },
            Event::Left { at_ns: 1600 },
        ]);
        let timeline = joined(&[sender, receiver]);
        assert_eq!(
            row(&timeline, 1),
            [
                ("the program", Activity::Compute, 0, 400),
                ("waits for recv 8b from 0 tag 7", Activity::Wait, 400, 520),
                ("recv 8b from 0 tag 7", Activity::Recv, 520, 525),
                ("the program", Activity::Compute, 530, 600),
            ]
        );
        let message = timeline.messages[0];
        let times = (message.sent_ps, message.arrived_ps, message.received_ps);
        assert_eq!((timeline.messages.len(), times), (1, (500_000, 520_000, 525_000)));
    }

    /// The steps of a call last while they wait: what came is what was sent.
    #[test]
    fn steps_wait_for_their_senders() {
        let step = |action, peer, start_ns, end_ns| {
            Event::Operation(Operation { is_step: true, ..operation(action, peer, start_ns, end_ns) })
        };
        let call = Event::Call { run: 1, words: [5; 6] };
        let sender = notes(vec![call, step(Action::Send, 1, 100, 110)]);
        let receiver = notes(vec![
            call,
            step(Action::Recv, 0, 0, 120),
            Event::Waited { start_ns: 0, end_ns: 121, run: None },
        ]);
        let timeline = joined(&[sender, receiver]);
        let expected = [
            ("waits for call 5: recv 8b from 0", Activity::Wait, 0, 110),
            ("call 5: recv 8b from 0", Activity::Recv, 110, 120),
        ];
        assert_eq!(row(&timeline, 1), expected);
        assert_eq!(timeline.messages[0].arrived_ps, 110_000);
    }

    /// A step that combines two messages does so when the second one is there.
    #[test]
    fn a_step_begins_when_it_has_all() {
        let step = |action, peer, start_ns, end_ns| {
            Event::Operation(Operation { is_step: true, ..operation(action, peer, start_ns, end_ns) })
        };
        let combined =
            vec![step(Action::Recv, 0, 0, 60), step(Action::Recv, 1, 0, 60), step(Action::Local, 0, 0, 60)];
        let waited = Event::Waited { start_ns: 0, end_ns: 60, run: None };
        let timeline = joined(&[
            notes(vec![step(Action::Send, 2, 10, 20)]),
            notes(vec![step(Action::Send, 2, 40, 50)]),
            notes([combined, vec![waited]].concat()),
        ]);
        let busy = row(&timeline, 2).into_iter().filter(|span| span.1 != Activity::Wait);
        assert!(busy.clone().all(|span| (span.2, span.3) == (50, 60)), "{:?}", row(&timeline, 2));
        let waits = row(&timeline, 2).into_iter().filter(|span| span.1 == Activity::Wait);
        let waits: Vec<_> = waits.map(|span| (span.0, span.2, span.3)).collect();
        assert_eq!(
            waits,
            [("waits for recv 8b from 0 tag 7", 0, 20), ("waits for recv 8b from 1 tag 7", 20, 50)]
        );
    }

    #[test]
    fn large_messages_land_when_they_are_received() {
        let large = |action, peer, start_ns, end_ns| {
            Event::Operation(Operation { bytes: 4000, ..operation(action, peer, start_ns, end_ns) })
        };
        let heard = Event::Arrived { source: Rank(0), tag: Tag(7), word: 0, sequence: 0, at_ns: 20 };
        let timeline = joined(&[
            notes(vec![large(Action::Send, 1, 0, 900)]),
            notes(vec![heard, large(Action::Recv, 0, 5, 900)]),
        ]);
        assert_eq!(timeline.messages[0].arrived_ps, 900_000);
    }

    #[test]
    fn nothing_noted_is_an_empty_timeline() {
        let timeline = joined(&[Notes { dropped: 3, ..Notes::default() }, Notes::default()]);
        assert_eq!((timeline.ranks, timeline.dropped, timeline.spans.len()), (2, 3, 0));
    }

    /// Tasks have their names and workers; a task is no waiting.
    #[test]
    fn tasks_are_drawn() {
        let names = HashMap::from([(3, "potrf".to_owned())]);
        let task = Event::Task { worker: 2, name: 3, start_ns: 10, end_ns: 30, id: 0, after: 0, ready_ns: 0 };
        let timeline = joined(&[Notes { events: vec![task], names, dropped: 0 }]);
        assert!(row(&timeline, 0).contains(&("potrf (worker 2)", Activity::Compute, 0, 20)));
    }

    fn task(worker: u32, times: [u64; 3], id: u64, after: u64) -> Event {
        let [ready_ns, start_ns, end_ns] = times;
        Event::Task { worker, name: 0, start_ns, end_ns, id, after, ready_ns }
    }

    /// Steps of the critical path, in nanoseconds.
    fn path(timeline: &Timeline) -> Vec<(&'static str, u64, u64)> {
        let steps = critical_path(timeline).into_iter();
        steps.map(|step| (step.name(timeline), step.start_ps / 1000, step.end_ps / 1000)).collect()
    }

    /// The path goes from a task to the one that it waited for, whatever else ended meanwhile.
    #[test]
    fn tasks_wait_for_who_made_them_ready() {
        let timeline = joined(&[notes(vec![
            task(0, [5, 10, 100], 1, 0),
            task(1, [5, 20, 130], 2, 0),
            // The number is given again to one that comes later.
            task(2, [101, 140, 200], 3, 1),
            task(0, [150, 150, 190], 1, 0),
            Event::Waited { start_ns: 5, end_ns: 200, run: None },
        ])]);
        let expected = [
            ("starting tasks", 5, 10),
            ("computing", 10, 100),
            ("starting tasks", 100, 140),
            ("computing", 140, 200),
        ];
        assert_eq!(
            path(&timeline).iter().map(|(name, from, to)| (*name, from + 5, to + 5)).collect::<Vec<_>>(),
            expected
        );
    }

    /// One that waited for its worker goes on with what ran there; one that another one has created, within that one's body.
    #[test]
    fn tasks_wait_for_workers_and_creators() {
        let waited = Event::Waited { start_ns: 1, end_ns: 300, run: None };
        let busy = joined(&[notes(vec![
            task(0, [1, 1, 50], 1, 0),
            task(1, [1, 1, 90], 2, 0),
            task(1, [51, 95, 300], 3, 1),
            waited,
        ])]);
        assert_eq!(path(&busy), [("computing", 0, 89), ("starting tasks", 89, 94), ("computing", 94, 299)]);
        let created = joined(&[notes(vec![
            task(0, [1, 1, 250], 1, 0),
            task(1, [2, 3, 8], 2, 1),
            task(1, [40, 60, 300], 3, 1),
            waited,
        ])]);
        assert_eq!(
            path(&created),
            [("computing", 0, 39), ("starting tasks", 39, 59), ("computing", 59, 299)]
        );
        // Its creator waited, and its worker ran it meanwhile.
        let within = joined(&[notes(vec![task(0, [1, 1, 300], 1, 0), task(0, [10, 60, 100], 2, 1), waited])]);
        assert_eq!(path(&within), [("computing", 0, 299)]);
    }
}
