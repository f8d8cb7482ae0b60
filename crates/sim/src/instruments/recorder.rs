//! Everything that happened, as a timeline.

use crate::instrument::{Flight, Instrument};
use crate::source::Schedules;
use castell_base::{Rank, Time};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use castell_trace::{Activity, Message, Span, Timeline};
use std::collections::HashMap;

/// Records every span and message of a run. Takes memory for each.
///
/// ```
/// use castell_collectives::generator::{Generator, Options};
/// use castell_model::Model;
/// use castell_sim::instruments::Recorder;
/// use castell_sim::{Machine, Schedules, Simulation};
///
/// let pattern = Generator::parse("pingpong", &Options::new(2))?;
/// let schedules = Schedules::new(&pattern)?;
/// let machine = Machine::new(Model::parse("plb")?);
/// let mut recorder = Recorder::default();
/// Simulation::new(&schedules, &machine).run_with(&mut recorder)?;
/// let timeline = recorder.timeline(&schedules);
/// assert_eq!(timeline.messages.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Recorder {
    spans: Vec<Busy>,
    /// By number; those that are not received yet last until they arrive.
    messages: HashMap<u64, Message>,
}

/// A processor of `rank` was busy with an operation of `owner`.
#[derive(Clone, Copy, Debug)]
struct Busy {
    rank: Rank,
    activity: Activity,
    owner: Rank,
    operation: OpId,
    from: Time,
    to: Time,
}

impl Recorder {
    /// What was recorded, without title.
    pub fn timeline(&self, schedules: &Schedules<'_>) -> Timeline {
        let span = |&Busy { rank, activity, owner, operation, from, to }: &Busy| {
            let mut name = name(schedules, owner, operation);
            if owner != rank {
                name = format!("takes in: rank {owner}, {name}");
            }
            Span { rank, name, activity, start_ps: from.0, end_ps: to.0 }
        };
        let mut messages: Vec<(u64, Message)> =
            self.messages.iter().map(|(&n, &message)| (n, message)).collect();
        messages.sort_by_key(|&(number, _)| number);
        Timeline {
            ranks: schedules.ranks(),
            spans: self.spans.iter().map(span).collect(),
            messages: messages.into_iter().map(|(_, message)| message).collect(),
            ..Timeline::default()
        }
    }
}

/// Label and what it does.
fn name(schedules: &Schedules<'_>, rank: Rank, operation: OpId) -> String {
    let schedule = schedules.of(rank);
    let what = match schedule.op(operation) {
        Op::Send { bytes, dest, tag, .. } => format!("send {bytes} B to {dest}, tag {tag}"),
        Op::Put { bytes, dest, .. } => format!("put {bytes} B to {dest}"),
        Op::Get { bytes, source, .. } => format!("get {bytes} B from {source}"),
        Op::Calc { .. } => "calc".into(),
        Op::Sleep { .. } => "sleep".into(),
        Op::Local { arithmetic, count, .. } => {
            format!("{} {count} {}", arithmetic.operator().name(), arithmetic.element().name())
        }
        _ => "operation".into(),
    };
    match schedule.label(operation) {
        Some(label) => format!("{label}: {what}"),
        None => what,
    }
}

impl Instrument for Recorder {
    fn busy(
        &mut self,
        rank: Rank,
        _processor: Option<u8>,
        activity: Activity,
        (owner, operation): (Rank, OpId),
        from: Time,
        to: Time,
    ) {
        if to > from {
            self.spans.push(Busy { rank, activity, owner, operation, from, to });
        }
    }

    fn departed(&mut self, message: &Flight, at: Time) {
        let &Flight { number, from, to, tag, bytes, .. } = message;
        let (sent_ps, head_ps, arrived_ps, received_ps) = (at.0, at.0, at.0, at.0);
        let message = Message { from, to, tag, bytes, sent_ps, head_ps, arrived_ps, received_ps };
        self.messages.insert(number, message);
    }

    fn arrived(&mut self, message: &Flight, at: Time, complete: Time) {
        if let Some(message) = self.messages.get_mut(&message.number) {
            message.head_ps = at.0;
            (message.arrived_ps, message.received_ps) = (complete.0, complete.0);
        }
    }

    fn received(&mut self, message: &Flight, _receive: OpId, _at: Time, done: Time) {
        if let Some(message) = self.messages.get_mut(&message.number) {
            message.received_ps = done.0;
        }
    }
}
