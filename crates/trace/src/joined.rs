//! The journals of all ranks as one timeline.
//!
//! A rank's row has what it did for its graphs, when it truly waited (a call of castell had to wait, and nothing moved), and the rest
//! of the time as the program's own. Messages are paired by their order between two ranks.

use crate::journal::{Action, Event, Operation};
use crate::waits::{Pending, true_waits};
use crate::{Activity, Message, Span, Timeline};
use castell_base::{Rank, Tag};
use std::collections::{HashMap, VecDeque};

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

/// Puts the notes of ranks 0, 1, … together. Times count from the first event of all.
pub fn join(ranks: &[Notes], reading: &Reading<'_>) -> Timeline {
    let zero_ns = ranks.iter().flat_map(|notes| &notes.events).filter_map(first_ns).min().unwrap_or(0);
    let mut timeline = Timeline {
        ranks: ranks.len() as u32,
        dropped: ranks.iter().map(|notes| notes.dropped).sum(),
        ..Timeline::default()
    };
    let rows: Vec<Row> = (0..).map(Rank).zip(ranks).map(|(rank, notes)| Row::of(rank, notes)).collect();
    let ends = MessageEnds::of(&rows);
    let (messages, landed) = ends.pair(&rows, reading.eager_bytes, zero_ns);
    timeline.messages = messages;
    for (row, landed) in rows.iter().zip(landed) {
        row.draw(&landed, reading, zero_ns, &mut timeline.spans);
    }
    timeline
}

fn first_ns(event: &Event) -> Option<u64> {
    match *event {
        Event::Entered { at_ns } | Event::Left { at_ns } | Event::Arrived { at_ns, .. } => Some(at_ns),
        Event::Waited { start_ns, .. } | Event::Task { start_ns, .. } => Some(start_ns),
        Event::Operation(operation) => Some(operation.start_ns),
        Event::Call { .. } => None,
    }
}

fn last_ns(event: &Event) -> Option<u64> {
    match *event {
        Event::Waited { end_ns, .. } | Event::Task { end_ns, .. } => Some(end_ns),
        Event::Operation(operation) => Some(operation.end_ns),
        _ => first_ns(event),
    }
}

fn picoseconds(ns: u64, zero_ns: u64) -> u64 {
    ns.saturating_sub(zero_ns).saturating_mul(1000)
}

/// One rank's notes by kind.
struct Row<'a> {
    rank: Rank,
    notes: &'a Notes,
    /// By their starts.
    operations: Vec<Operation>,
    calls: HashMap<u64, [u64; 6]>,
    /// When threads of the program waited in castell.
    inside: Vec<(u64, u64)>,
    tasks: Vec<(u32, u32, u64, u64)>,
    arrived: Vec<(Rank, u32, Tag, u32, u64)>,
    /// From its first to its last event.
    entered_ns: u64,
    left_ns: u64,
}

impl<'a> Row<'a> {
    fn of(rank: Rank, notes: &'a Notes) -> Row<'a> {
        let mut row = Row {
            rank,
            notes,
            operations: Vec::new(),
            calls: HashMap::new(),
            inside: Vec::new(),
            tasks: Vec::new(),
            arrived: Vec::new(),
            entered_ns: notes.events.iter().filter_map(first_ns).min().unwrap_or(0),
            left_ns: notes.events.iter().filter_map(last_ns).max().unwrap_or(0),
        };
        for event in &notes.events {
            match *event {
                Event::Entered { .. } | Event::Left { .. } => {}
                Event::Operation(operation) => row.operations.push(operation),
                Event::Call { run, words } => {
                    row.calls.insert(run, words);
                }
                Event::Waited { start_ns, end_ns } => row.inside.push((start_ns, end_ns)),
                Event::Arrived { source, tag, word, sequence, at_ns } => {
                    row.arrived.push((source, sequence, tag, word, at_ns));
                }
                Event::Task { worker, name, start_ns, end_ns } => {
                    row.tasks.push((worker, name, start_ns, end_ns));
                }
            }
        }
        row.operations.sort_by_key(|operation| (operation.start_ns, operation.run));
        // They are counted from 0 on, far below where the count begins again.
        row.arrived.sort_unstable();
        row
    }

    fn name_of(&self, number: u32) -> Option<&str> {
        self.notes.names.get(&number).map(String::as_str)
    }

    /// An operation in words, with the call that it belongs to.
    fn describe(&self, operation: &Operation, reading: &Reading<'_>) -> String {
        let bytes = operation.bytes;
        let peer = operation.peer.map_or("any".to_owned(), |peer| peer.to_string());
        let call = self.calls.get(&operation.run);
        let tag = match (operation.tag, call) {
            // The tags of calls are castell's own.
            (_, Some(_)) => String::new(),
            (Some(tag), None) => format!(" tag {tag}"),
            (None, None) => " tag any".to_owned(),
        };
        let text = match operation.action {
            Action::Send => format!("send {bytes}b to {peer}{tag}"),
            Action::Recv => format!("recv {bytes}b from {peer}{tag}"),
            Action::Calc => format!("calc {bytes}"),
            Action::Call => "call".to_owned(),
            Action::Local => "local".to_owned(),
            Action::Put => format!("put {bytes}b to {peer}"),
            Action::Get => format!("get {bytes}b from {peer}"),
        };
        let label = self.name_of(operation.name).map(|label| format!("{label}: ")).unwrap_or_default();
        match call {
            Some(words) => format!("{}: {label}{text}", (reading.describe)(words)),
            None => format!("{label}{text}"),
        }
    }

    /// `landed`: when the message of each receive came, where that is known.
    fn draw(&self, landed: &[Option<u64>], reading: &Reading<'_>, zero_ns: u64, spans: &mut Vec<Span>) {
        let rank = self.rank;
        let span = |name, activity, start_ns, end_ns| Span {
            rank,
            name,
            activity,
            start_ps: picoseconds(start_ns, zero_ns),
            end_ps: picoseconds(end_ns, zero_ns),
        };
        let (mut busy, mut pending, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let begun = self.steps_begin(landed);
        for (operation, landed) in self.operations.iter().zip(landed) {
            let name = self.describe(operation, reading);
            let mut start_ns = operation.start_ns;
            if let Some(came_ns) = landed {
                start_ns = start_ns.max(*came_ns).min(operation.end_ns);
                pending.push(Pending { posted_ps: operation.start_ns, came_ps: start_ns });
                names.push(format!("waits for {name}"));
            }
            if let Some(came_ns) = begun.get(&step_of(operation)).filter(|_| operation.is_step) {
                start_ns = start_ns.max(*came_ns).min(operation.end_ns);
            }
            busy.push((start_ns, operation.end_ns));
            spans.push(span(name, activity(operation.action), start_ns, operation.end_ns));
        }
        for &(worker, name, start_ns, end_ns) in &self.tasks {
            let name = match self.name_of(name) {
                Some(name) => format!("{name} (worker {worker})"),
                None => format!("task (worker {worker})"),
            };
            busy.push((start_ns, end_ns));
            spans.push(span(name, Activity::Compute, start_ns, end_ns));
        }
        let outside = self.outside();
        for &(start_ns, end_ns) in &outside {
            spans.push(span("the program".to_owned(), Activity::Compute, start_ns, end_ns));
        }
        busy.extend(outside);
        // Nanoseconds, here: any unit will do.
        let waited = true_waits(&busy, &pending).into_iter();
        spans.extend(
            waited.map(|one| span(names[one.pending].clone(), Activity::Wait, one.start_ps, one.end_ps)),
        );
    }

    /// When the last message of each step was there: what one step does with several of them, it does then.
    fn steps_begin(&self, landed: &[Option<u64>]) -> HashMap<(u64, u64, u64), u64> {
        let mut begun = HashMap::new();
        for (operation, landed) in self.operations.iter().zip(landed) {
            if let Some(came_ns) = landed.filter(|_| operation.is_step) {
                let last_ns = begun.entry(step_of(operation)).or_insert(came_ns);
                *last_ns = came_ns.max(*last_ns);
            }
        }
        begun
    }

    /// When the program was not waiting in castell, from its first to its last event.
    fn outside(&self) -> Vec<(u64, u64)> {
        let mut inside = self.inside.clone();
        inside.sort_unstable();
        let (mut outside, mut free_ns) = (Vec::new(), self.entered_ns);
        for (start_ns, end_ns) in inside {
            if start_ns > free_ns {
                outside.push((free_ns, start_ns));
            }
            free_ns = free_ns.max(end_ns);
        }
        if self.left_ns > free_ns {
            outside.push((free_ns, self.left_ns));
        }
        outside
    }
}

/// What operations of one step have in common.
fn step_of(operation: &Operation) -> (u64, u64, u64) {
    (operation.run, operation.start_ns, operation.end_ns)
}

fn activity(action: Action) -> Activity {
    match action {
        Action::Send | Action::Put => Activity::Send,
        Action::Recv | Action::Get => Activity::Recv,
        Action::Calc | Action::Call => Activity::Compute,
        Action::Local => Activity::Other,
    }
}

/// Between whom messages meet: sender, receiver, word, tag, and whether steps carry them.
type Channel = (Rank, Rank, u32, Tag, bool);

/// Sends and receives of each channel in order: the n-th of one side belongs to the n-th of the other. Receives from any rank or with
/// any tag get no arrow.
#[derive(Default)]
struct MessageEnds {
    /// Where they stand in their rows.
    sends: HashMap<Channel, Vec<usize>>,
    receives: HashMap<Channel, Vec<usize>>,
    came: HashMap<Channel, VecDeque<u64>>,
}

impl MessageEnds {
    fn of(rows: &[Row<'_>]) -> MessageEnds {
        let mut ends = MessageEnds::default();
        for row in rows {
            for (at, operation) in row.operations.iter().enumerate() {
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

    /// The messages, and for each rank's operations when the message of a receive was there.
    fn pair(
        mut self,
        rows: &[Row<'_>],
        eager_bytes: u64,
        zero_ns: u64,
    ) -> (Vec<Message>, Vec<Vec<Option<u64>>>) {
        let mut landed: Vec<Vec<Option<u64>>> =
            rows.iter().map(|row| vec![None; row.operations.len()]).collect();
        let mut messages = Vec::new();
        for (channel, receives) in self.receives {
            let (from, to, _, tag, is_step) = channel;
            let mut came = self.came.remove(&channel).unwrap_or_default();
            let sends = self.sends.remove(&channel).unwrap_or_default();
            let mut sends = sends.iter().map(|&at| &rows[from.index()].operations[at]);
            for at in receives {
                let receive = &rows[to.index()].operations[at];
                let (send, heard_ns) = (sends.next(), came.pop_front());
                let there_ns = if is_step { send.map(|send| send.end_ns) } else { heard_ns };
                landed[to.index()][at] = there_ns;
                let Some(send) = send else { continue };
                let is_large = !is_step && send.bytes > eager_bytes;
                let data_ns = there_ns.filter(|_| !is_large).unwrap_or(receive.end_ns);
                let sent_ps = picoseconds(send.start_ns, zero_ns);
                let received_ps = picoseconds(receive.end_ns, zero_ns).max(sent_ps);
                let arrived_ps = picoseconds(data_ns, zero_ns).max(sent_ps).min(received_ps);
                messages.push(Message {
                    from,
                    to,
                    tag,
                    bytes: send.bytes,
                    sent_ps,
                    head_ps: arrived_ps,
                    arrived_ps,
                    received_ps,
                    travel: None,
                });
            }
        }
        messages.sort_by_key(|message| (message.sent_ps, message.from, message.to, message.tag));
        (messages, landed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            Event::Waited { start_ns: 1400, end_ns: 1530 },
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
        let receiver =
            notes(vec![call, step(Action::Recv, 0, 0, 120), Event::Waited { start_ns: 0, end_ns: 121 }]);
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
        let waited = Event::Waited { start_ns: 0, end_ns: 60 };
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
        let task = Event::Task { worker: 2, name: 3, start_ns: 10, end_ns: 30 };
        let timeline = joined(&[Notes { events: vec![task], names, dropped: 0 }]);
        assert!(row(&timeline, 0).contains(&("potrf (worker 2)", Activity::Compute, 0, 20)));
    }
}
