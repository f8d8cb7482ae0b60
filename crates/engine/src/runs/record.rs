//! When operations started and finished, for timelines.

use super::reference::{RunRef, token};
use super::run::Run;
use crate::board::Record;
use crate::messages::{Messages, is_of_a_send};
use crate::number::context_of;
use castell_base::{Mixed, Rank, Tag};
use castell_goal::op::Op;
use castell_goal::schedule::{OpId, Schedule};
use castell_host::clock::now_ns;
use castell_host::journal::Journal;
use castell_trace::journal::{Action, EDGES_MAX, Event, Operation};
use castell_transport::Header;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// One operation of one run, on the job's clock (nanoseconds; the same in all processes of a host).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Serial number of the run within its rank, from 1.
    pub run: u64,
    /// Which operation.
    pub op: OpId,
    /// When it became ready and was started.
    pub start_ns: u64,
    /// When it was under way: its message with the transport, or waiting for room; its receive posted.
    pub begun_ns: u64,
    /// When its buffers were free again.
    pub end_ns: u64,
}

/// A message of a send that came in: whole, or word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Who sent it.
    pub source: Rank,
    /// With which label.
    pub tag: Tag,
    /// Counts the messages of that sender, in the order in which they were sent. Wraps around.
    pub sequence: u32,
    /// When it was taken in, on the job's clock. Nanoseconds.
    pub at_ns: u64,
    /// When the thread that took it in was woken last; 0: it never slept.
    pub woken_ns: u64,
    /// Whether it is for a call of a communicator, not for a run that a program started.
    pub is_of_call: bool,
}

/// Records every operation of every run, and every message that comes in: for whoever asks for them, in memory that grows with their
/// number; or in a journal, which is bounded.
#[derive(Default)]
pub(crate) struct Recorder {
    /// When the operations that go on were started, and were under way.
    started: HashMap<(u64, u32), (u64, u64), BuildHasherDefault<Mixed>>,
    pub(crate) done: Vec<Recorded>,
    pub(crate) arrived: Vec<Arrived>,
    woken_ns: u64,
    /// Of a receive from anybody that is about to be finished.
    sender: Option<(Rank, Tag)>,
    /// Where they go instead of the two lists.
    journal: Option<Arc<Journal>>,
}

impl Recorder {
    /// From now on all goes to the journal.
    pub(crate) fn note_in(&mut self, journal: Arc<Journal>) {
        self.journal = Some(journal);
    }

    /// The run that starts next is this call.
    #[cold]
    pub(crate) fn calls(&self, serial: u64, record: &Record) {
        if let Some(journal) = &self.journal {
            note_call(journal, number_of_run(serial), record);
        }
    }

    pub(crate) fn start(&mut self, run: RunRef, op: OpId) {
        self.started.insert((run.serial, op.0), (now_ns(), 0));
    }

    /// It will be asked whose message it got, if it is a receive that does not say.
    pub(crate) fn want_sender(&self, messages: &mut Messages, schedule: &Schedule, run: RunRef, op: OpId) {
        if let Some(senders) = &mut messages.senders
            && let Op::Recv { source, tag, .. } = schedule.op(op)
            && (source.is_none() || tag.is_none())
        {
            senders.want(token(run, op));
        }
    }

    pub(crate) fn learn_sender(&mut self, messages: &mut Messages, run: RunRef, op: OpId) {
        self.sender = messages.senders.as_mut().and_then(|senders| senders.take(token(run, op)));
    }

    /// It was started and goes on.
    pub(crate) fn begun(&mut self, run: RunRef, op: OpId) {
        if let Some((_, begun_ns)) = self.started.get_mut(&(run.serial, op.0)) {
            *begun_ns = now_ns();
        }
    }

    pub(crate) fn finish(&mut self, reference: RunRef, op: OpId, run: &Run) {
        let end_ns = now_ns();
        let (start_ns, begun_ns) = self.started.remove(&(reference.serial, op.0)).unwrap_or((end_ns, end_ns));
        let begun_ns = if begun_ns == 0 { end_ns } else { begun_ns };
        match &self.journal {
            None => self.done.push(Recorded { run: reference.serial, op, start_ns, begun_ns, end_ns }),
            Some(journal) => {
                let place = Place { run: number_of_run(reference.serial), is_step: false };
                let (sender, word) = (self.sender.take(), |peer| run.number_with(peer));
                note_operation(journal, &run.schedule, op, place, sender, &word, [start_ns, end_ns]);
            }
        }
    }

    pub(crate) fn drop_run(&mut self, run: RunRef) {
        self.started.retain(|(serial, _), _| *serial != run.serial);
    }

    /// The thread that drives was woken.
    pub(crate) fn woken(&mut self) {
        self.woken_ns = now_ns();
    }

    /// A message comes in.
    #[cold]
    pub(crate) fn arrives(&mut self, header: &Header) {
        if !is_of_a_send(header) {
            return;
        }
        if let Some(journal) = &self.journal {
            let event = Event::Arrived {
                source: Rank(header.source),
                tag: Tag(header.tag),
                word: header.run,
                sequence: header.sequence,
                at_ns: now_ns(),
            };
            journal.note(event.to_row());
        } else {
            self.arrived.push(Arrived {
                source: Rank(header.source),
                tag: Tag(header.tag),
                sequence: header.sequence,
                at_ns: now_ns(),
                woken_ns: self.woken_ns,
                is_of_call: context_of(header.run).is_some(),
            });
        }
    }
}

/// What a run is called in a journal.
pub(crate) fn number_of_run(serial: u64) -> u64 {
    serial << 1
}

/// What a call that its caller carries out step by step is called in a journal: calls of one set of slots have numbers.
pub(crate) fn number_of_steps(set: u32, number: u64) -> u64 {
    (u64::from(set) << 40 | number & ((1 << 40) - 1)) << 1 | 1
}

/// Whose operation it is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) run: u64,
    pub(crate) is_step: bool,
}

/// Notes which call a run is.
#[cold]
pub(crate) fn note_call(journal: &Journal, run: u64, record: &Record) {
    let [a, b, c, d, e, f, _] = *record.words();
    journal.note(Event::Call { run, words: [a, b, c, d, e, f] }.to_row());
}

/// Notes an operation that is over. `sender`: whose message a receive got that does not say, and its tag. `word`: by which messages with a
/// peer meet. `times`: start and end.
pub(crate) fn note_operation(
    journal: &Journal,
    schedule: &Schedule,
    op: OpId,
    place: Place,
    sender: Option<(Rank, Tag)>,
    word: &dyn Fn(Rank) -> u32,
    times: [u64; 2],
) {
    let (action, peer, tag, bytes) = match schedule.op(op) {
        Op::Proxy | Op::Wtime { .. } => (Action::Proxy, None, None, 0),
        Op::Send { bytes, dest, tag, .. } => (Action::Send, Some(dest), Some(tag), bytes),
        Op::Recv { bytes, source, tag, .. } => match sender {
            Some((source, tag)) => (Action::Recv, Some(source), Some(tag), bytes),
            None => (Action::Recv, source, tag, bytes),
        },
        Op::Calc { ns } | Op::Sleep { ns } => (Action::Calc, None, None, ns),
        Op::Call { .. } => (Action::Call, None, None, 0),
        Op::Local { .. } => (Action::Local, None, None, 0),
        Op::Put { bytes, dest, .. } => (Action::Put, Some(dest), None, bytes),
        Op::Get { bytes, source, .. } => (Action::Get, Some(source), None, bytes),
    };
    let operation = Operation {
        action,
        run: place.run,
        word: peer.map_or(0, word),
        is_step: place.is_step,
        peer,
        tag,
        bytes,
        name: schedule.label(op).map_or(0, |label| journal.name(label)),
        id: op.0,
        next: [0; 2],
        start_ns: times[0],
        end_ns: times[1],
    };
    let mut next = schedule.successors(op).map(|next| next.0);
    let first = [(); 2].map(|()| next.next().unwrap_or(0));
    journal.note(Event::Operation(Operation { next: first, ..operation }).to_row());
    note_edges(journal, place.run, op, false, next);
    note_edges(journal, place.run, op, true, schedule.start_successors(op).map(|next| next.0));
}

/// Notes who waits for an operation, besides those that its own row has.
fn note_edges(
    journal: &Journal,
    run: u64,
    op: OpId,
    at_start: bool,
    next: impl ExactSizeIterator<Item = u32>,
) {
    let mut next = next.peekable();
    while next.peek().is_some() {
        let next = [(); EDGES_MAX].map(|()| next.next().unwrap_or(0));
        journal.note(Event::Edges { run, id: op.0, at_start, next }.to_row());
    }
}
