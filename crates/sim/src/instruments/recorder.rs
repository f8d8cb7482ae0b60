//! Everything that happened, as a timeline.

use crate::instrument::{Cause, Flight, Instrument};
use crate::source::Schedules;
use castell_base::{Rank, Time};
use castell_goal::op::Op;
use castell_goal::schedule::OpId;
use castell_trace::{Activity, Dependence, Message, Span, Timeline, Travel};
use std::collections::{HashMap, HashSet};

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
    /// Which message a receive met last, and when.
    met: HashMap<(Rank, OpId), (u64, Time)>,
    /// When ranks were through with something.
    ends: HashSet<(Rank, Time)>,
    dependences: Vec<Dependence>,
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
            dependences: self.dependences.clone(),
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
    fn ready(&mut self, rank: Rank, _operation: OpId, at: Time, cause: Cause) {
        let Cause::Receive(peer, receive) = cause else { return };
        // A rendezvous let the rank go on: the receiver was busy until then, or its own message was late.
        let met = self.met.get(&(peer, receive)).filter(|(_, met)| *met == at);
        let message = met.and_then(|(number, _)| self.messages.get(number));
        let own = message.filter(|message| message.head_ps == at.0 && !self.ends.contains(&(peer, at)));
        let own = own.map(|message| (rank, message.sent_ps));
        let (from, ended_ps) = own.unwrap_or((peer, at.0));
        self.dependences.push(Dependence { from, ended_ps, to: rank, began_ps: at.0 });
    }

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
            self.ends.insert((rank, to));
            self.spans.push(Busy { rank, activity, owner, operation, from, to });
        }
    }

    fn departed(&mut self, message: &Flight, at: Time) {
        let &Flight { number, from, to, tag, bytes, .. } = message;
        let (sent_ps, head_ps, arrived_ps, received_ps) = (at.0, at.0, at.0, at.0);
        let message =
            Message { from, to, tag, bytes, sent_ps, head_ps, arrived_ps, received_ps, travel: None };
        self.messages.insert(number, message);
    }

    fn arrived(&mut self, message: &Flight, at: Time, complete: Time) {
        if let Some(message) = self.messages.get_mut(&message.number) {
            message.head_ps = at.0;
            (message.arrived_ps, message.received_ps) = (complete.0, complete.0);
        }
    }

    fn travelled(&mut self, message: &Flight, travel: Travel) {
        if let Some(message) = self.messages.get_mut(&message.number) {
            message.travel = Some(travel);
        }
    }

    fn received(&mut self, message: &Flight, receive: OpId, at: Time, done: Time) {
        self.met.insert((message.to, receive), (message.number, at));
        if let Some(message) = self.messages.get_mut(&message.number) {
            message.received_ps = done.0;
        }
    }
}
