//! Where a program comes from.

use crate::error::{OperationName, SimError};
use crate::instrument::Flight;
use castell_base::Rank;
use castell_collectives::pattern::Pattern;
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use castell_goal::program::Program;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::schedule_set::ScheduleSet;
use std::borrow::Cow;

/// A program to simulate.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Graphs; they are compiled first.
    Program(&'a Program),
    /// Compiled schedules, one a rank.
    Schedules(&'a [Schedule]),
    /// Compiled schedules from a file.
    Set(&'a ScheduleSet),
    /// A generator; each rank's graph is made and compiled.
    Pattern(&'a dyn Pattern),
    /// What was compiled before.
    Compiled(&'a Schedules<'a>),
}

impl<'a> From<&'a Schedules<'a>> for Source<'a> {
    fn from(schedules: &'a Schedules<'a>) -> Self {
        Source::Compiled(schedules)
    }
}

impl<'a> From<&'a Program> for Source<'a> {
    fn from(program: &'a Program) -> Self {
        Source::Program(program)
    }
}

impl<'a> From<&'a [Schedule]> for Source<'a> {
    fn from(schedules: &'a [Schedule]) -> Self {
        Source::Schedules(schedules)
    }
}

impl<'a> From<&'a dyn Pattern> for Source<'a> {
    fn from(pattern: &'a dyn Pattern) -> Self {
        Source::Pattern(pattern)
    }
}

impl<'a> From<&'a Box<dyn Pattern>> for Source<'a> {
    fn from(pattern: &'a Box<dyn Pattern>) -> Self {
        Source::Pattern(&**pattern)
    }
}

impl<'a> From<&'a ScheduleSet> for Source<'a> {
    fn from(set: &'a ScheduleSet) -> Self {
        Source::Set(set)
    }
}

impl<'a> Source<'a> {
    /// Size of the program.
    pub fn ranks(&self) -> u32 {
        match self {
            Source::Program(program) => program.num_ranks(),
            Source::Schedules(schedules) => schedules.len() as u32,
            Source::Set(set) => set.num_ranks(),
            Source::Pattern(pattern) => pattern.ranks(),
            Source::Compiled(schedules) => schedules.ranks(),
        }
    }
}

fn compile<'a>(program: &Program) -> Result<Vec<Cow<'a, Schedule>>, SimError> {
    let compile = |rank: u32| {
        let compiled = program.rank(Rank(rank)).compile();
        compiled.map(Cow::Owned).map_err(|error| SimError::Compile { rank: Rank(rank), error })
    };
    (0..program.num_ranks()).map(compile).collect()
}

fn generate<'a>(pattern: &dyn Pattern) -> Result<Vec<Cow<'a, Schedule>>, SimError> {
    let generate = |rank: u32| {
        let (rank, mut graph) = (Rank(rank), Graph::new());
        pattern.build(rank, &mut graph).map_err(|error| SimError::Generate { rank, error })?;
        let compiled = graph.compile().map_err(|error| SimError::Compile { rank, error })?;
        Ok(Cow::Owned(compiled))
    };
    (0..pattern.ranks()).map(generate).collect()
}

/// A program that was compiled once, to be simulated any number of times.
///
/// ```
/// use castell_collectives::generator::{Generator, Options};
/// use castell_sim::{Schedules, Source};
/// let pattern = Generator::parse("pingpong", &Options::new(2))?;
/// let schedules = Schedules::new(Source::from(&pattern))?;
/// assert_eq!(schedules.ranks(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Schedules<'a> {
    schedules: Vec<Cow<'a, Schedule>>,
}

impl<'a> Schedules<'a> {
    /// Compiles a program and looks whether the peers that it names exist.
    ///
    /// # Errors
    /// A graph that cannot be compiled, a peer that does not exist.
    pub fn new(source: impl Into<Source<'a>>) -> Result<Schedules<'a>, SimError> {
        let schedules = match source.into() {
            Source::Program(program) => compile(program)?,
            Source::Pattern(pattern) => generate(pattern)?,
            Source::Schedules(schedules) => schedules.iter().map(Cow::Borrowed).collect(),
            Source::Set(set) => {
                (0..set.num_ranks()).map(|rank| Cow::Borrowed(set.rank(Rank(rank)))).collect()
            }
            Source::Compiled(schedules) => {
                // They were looked at already.
                let borrowed = schedules.iter().map(|(_, schedule)| Cow::Borrowed(schedule));
                return Ok(Schedules { schedules: borrowed.collect() });
            }
        };
        let schedules = Schedules { schedules };
        schedules.check_peers()?;
        Ok(schedules)
    }

    /// Size of the program.
    pub fn ranks(&self) -> u32 {
        self.schedules.len() as u32
    }

    /// What a rank executes.
    ///
    /// # Panics
    /// Where there is no such rank.
    #[inline]
    pub fn of(&self, rank: Rank) -> &Schedule {
        &self.schedules[rank.index()]
    }

    /// What all ranks execute.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, &Schedule)> {
        self.schedules.iter().enumerate().map(|(rank, schedule)| (Rank(rank as u32), &**schedule))
    }

    /// An operation as messages name it.
    pub fn name(&self, rank: Rank, operation: OpId) -> Box<OperationName> {
        let schedule = self.of(rank);
        let name = match schedule.label(operation) {
            Some(label) => format!("`{label}`"),
            None => {
                let number = schedule.operations().position(|id| id == operation).unwrap_or(0);
                format!("operation {number}")
            }
        };
        Box::new(OperationName { rank, name, what: describe(schedule.op(operation)) })
    }

    /// Whether a message fits its receive.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check_sizes(&self, message: &Flight, receive: OpId) -> Result<(), SimError> {
        match self.of(message.to).op(receive) {
            Op::Recv { bytes, .. } if bytes != message.bytes => Err(SimError::SizeMismatch {
                send: self.name(message.from, message.operation),
                sent: message.bytes,
                recv: self.name(message.to, receive),
                expected: bytes,
            }),
            _ => Ok(()),
        }
    }

    fn check_peers(&self) -> Result<(), SimError> {
        let ranks = self.ranks();
        for (rank, schedule) in self.iter() {
            let peers = schedule.peers();
            let last = peers.destinations.last().max(peers.sources.last());
            if last.is_none_or(|last| last.0 < ranks) {
                continue;
            }
            for operation in schedule.operations() {
                if let Some(peer) = peer(schedule.op(operation)).filter(|peer| peer.0 >= ranks) {
                    let operation = self.name(rank, operation);
                    return Err(SimError::UnknownRank { operation, peer, ranks });
                }
            }
        }
        Ok(())
    }
}

/// The other rank of an operation, if it has one.
fn peer(op: Op<'_>) -> Option<Rank> {
    match op {
        Op::Send { dest, .. } | Op::Put { dest, .. } => Some(dest),
        Op::Recv { source, .. } => source,
        Op::Get { source, .. } => Some(source),
        _ => None,
    }
}

/// What an operation does, in a few words.
fn describe(op: Op<'_>) -> String {
    match op {
        Op::Proxy => "proxy".into(),
        Op::Send { bytes, dest, tag, .. } => format!("send of {bytes} bytes to rank {dest}, tag {tag}"),
        Op::Recv { bytes, source, tag, .. } => {
            let source = source.map_or("any rank".into(), |source| format!("rank {source}"));
            let tag = tag.map_or("any tag".into(), |tag| format!("tag {tag}"));
            format!("recv of {bytes} bytes from {source}, {tag}")
        }
        Op::Calc { ns } => format!("calc of {ns} ns"),
        Op::Sleep { ns } => format!("sleep of {ns} ns"),
        Op::Local { arithmetic, count, .. } => {
            format!("{} of {count} {}", arithmetic.operator().name(), arithmetic.element().name())
        }
        Op::Wtime { .. } => "wtime".into(),
        Op::Call { .. } => "call".into(),
        Op::Put { bytes, dest, .. } => format!("put of {bytes} bytes to rank {dest}"),
        Op::Get { bytes, source, .. } => format!("get of {bytes} bytes from rank {source}"),
    }
}
