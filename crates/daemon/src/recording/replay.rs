//! A recorded day, once more.

use super::write::log_line;
use super::{Exact, Head, Line, VERSION};
use crate::Source;
use castell_base::Moment;
use castell_kernels::protocol::Shape;
use castell_strategy::{
    CollectionId, Event, Fault, Input, Keeper, Kernels, Node, NodeError, ResourceId, ResourceKind,
};
use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::Arc;

/// What a replay tells whoever watches.
#[derive(Debug)]
pub enum Seen<'a> {
    /// The node as it was before anything happened.
    Begin(&'a Node),
    /// Something happens from outside.
    Input(Moment, &'a Input),
    /// Something was decided, or follows.
    Event(&'a Event),
}

/// What came out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// What happened from outside.
    pub inputs: u64,
    /// Lines of the log that were compared.
    pub events: u64,
    /// The first line of the log that is another one this time.
    pub difference: Option<Difference>,
    /// The daemon was killed while it recorded, so that the end may be missing.
    pub is_cut: bool,
    /// When the last thing happened.
    pub until: Moment,
}

/// A line of the log that is another one this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the file, counted from 1.
    pub line: usize,
    /// What was recorded.
    pub recorded: Option<String>,
    /// What it is this time.
    pub replayed: Option<String>,
}

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RecordingError {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: WhatIsWrong,
}

/// What can be wrong about a line.
#[derive(Debug, thiserror::Error)]
pub enum WhatIsWrong {
    /// The file ends in the middle, or is no text.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Other words.
    #[error("this is no line of a recording: {0}")]
    Line(#[from] serde_json::Error),
    /// The first line is another one, or there is a second of its kind.
    #[error(
        "a recording begins with what the node was like, and has that once; `castell daemon --record` makes one"
    )]
    NoHead,
    /// Another version of the file.
    #[error("this recording has version {0}; this castell reads 1 to {VERSION}")]
    Version(u32),
    /// A script that is none.
    #[error(transparent)]
    Strategy(#[from] Fault),
    /// What cannot happen to a node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A name that is not in the first line.
    #[error("there is no resource `{0}`")]
    Resource(String),
    /// A number above those of the shapes so far.
    #[error("there is no shape {0}")]
    Shape(usize),
    /// A shape that is none.
    #[error("these kernels are none: {0}")]
    Kernels(String),
}

/// Decides the recorded day once more, by the same strategies, and compares each line of the log.
///
/// # Errors
/// It is no recording.
pub fn replay(file: impl BufRead, watch: &mut dyn FnMut(Seen<'_>)) -> Result<Replay, RecordingError> {
    let mut lines = whole_lines(file);
    let first = lines.next().transpose()?.unwrap_or_default();
    let at = |line: usize| move |what: WhatIsWrong| RecordingError { line, what };
    let keeper = parse(&first).and_then(begin).map_err(at(1))?;
    let resources = keeper.node().resources().iter().map(|resource| resource.name.clone()).collect();
    let replay = Replay { inputs: 0, events: 0, difference: None, is_cut: true, until: Moment::ZERO };
    let mut run = Run { keeper, resources, shapes: Vec::new(), log: VecDeque::new(), replay };
    watch(Seen::Begin(run.keeper.node()));
    for (number, line) in (2..).zip(lines) {
        let line = parse(&line?).map_err(at(number))?;
        run.take(number, line, watch).map_err(at(number))?;
        if run.replay.difference.is_some() {
            break;
        }
    }
    Ok(run.replay)
}

struct Run {
    keeper: Keeper,
    resources: Vec<String>,
    shapes: Vec<Arc<Kernels>>,
    /// Lines that have not been compared.
    log: VecDeque<String>,
    replay: Replay,
}

impl Run {
    fn take(
        &mut self,
        number: usize,
        line: Line,
        watch: &mut dyn FnMut(Seen<'_>),
    ) -> Result<(), WhatIsWrong> {
        let (at_ps, input) = match line {
            Line::Recording(_) => return Err(WhatIsWrong::NoHead),
            Line::Shape(shape) => return self.shape(&shape),
            Line::Log(line) => {
                self.compare(number, Some(line));
                return Ok(());
            }
            Line::End {} => {
                self.replay.is_cut = false;
                if !self.log.is_empty() {
                    self.compare(number, None);
                }
                return Ok(());
            }
            Line::Strategy { at_ps, strategy } => {
                let strategy = strategy.strategy()?;
                let at = self.time(at_ps);
                self.keeper.replace(at, strategy);
                self.follow(watch);
                return Ok(());
            }
            Line::Own { at_ps, .. } => {
                self.time(at_ps);
                return Ok(());
            }
            Line::Register { at_ps, application, shape, steps } => {
                let kernels = self.kernels(shape)?;
                (at_ps, Input::Register { application: application.into(), kernels, steps })
            }
            Line::Adopt { at_ps, application, shape, steps, on } => {
                let (kernels, on) = (self.kernels(shape)?, self.resource(&on)?);
                (at_ps, Input::Adopt { application: application.into(), kernels, steps, on })
            }
            Line::Ended { at_ps, on } => (at_ps, Input::Ended(self.resource(&on)?)),
            Line::Withdraw { at_ps, collection } => (at_ps, Input::Withdraw(CollectionId(collection))),
            Line::Governor { at_ps, level } => (at_ps, Input::Governor(level)),
            Line::Sensor { at_ps, name, value: Exact(value) } => (at_ps, Input::Sensor(name, value)),
            Line::Tick { at_ps } => (at_ps, Input::Tick),
        };
        let at = self.time(at_ps);
        watch(Seen::Input(at, &input));
        self.replay.inputs += 1;
        self.keeper.apply(at, input)?;
        while self.keeper.decide() {}
        self.follow(watch);
        Ok(())
    }

    fn time(&mut self, at_ps: u128) -> Moment {
        self.replay.until = self.replay.until.max(Moment(at_ps));
        Moment(at_ps)
    }

    fn follow(&mut self, watch: &mut dyn FnMut(Seen<'_>)) {
        for event in self.keeper.take_events() {
            self.log.push_back(log_line(&event, &self.resources));
            watch(Seen::Event(&event));
        }
    }

    fn compare(&mut self, line: usize, recorded: Option<String>) {
        let replayed = self.log.pop_front();
        if recorded != replayed {
            self.replay.difference = Some(Difference { line, recorded, replayed });
        }
        self.replay.events += 1;
    }

    fn shape(&mut self, shape: &Shape) -> Result<(), WhatIsWrong> {
        let (kernels, _) = shape.on(self.keeper.node()).map_err(WhatIsWrong::Kernels)?;
        self.shapes.push(Arc::new(kernels));
        Ok(())
    }

    fn kernels(&self, shape: usize) -> Result<Arc<Kernels>, WhatIsWrong> {
        self.shapes.get(shape).cloned().ok_or(WhatIsWrong::Shape(shape))
    }

    fn resource(&self, name: &str) -> Result<ResourceId, WhatIsWrong> {
        self.keeper.node().resource_named(name).ok_or_else(|| WhatIsWrong::Resource(name.into()))
    }
}

fn begin(line: Line) -> Result<Keeper, WhatIsWrong> {
    let Line::Recording(head) = line else { return Err(WhatIsWrong::NoHead) };
    let Head { version, resources, forbids, governor, sensors, strategy } = head;
    // What is new in the second is what nothing follows from.
    if !(1..=VERSION).contains(&version) {
        return Err(WhatIsWrong::Version(version));
    }
    let mut node = Node::new(resources.into_iter().map(|name| {
        let kind = ResourceKind::of(&name);
        (name, kind)
    }))?;
    for (level, names) in &forbids {
        node.set_forbidden(level, names)?;
    }
    sensors.iter().for_each(|(name, value)| node.set_sensor(name, value.0));
    node.set_governor(&governor);
    let mut keeper = Keeper::new(node, Source::strategy(&strategy)?);
    keeper.take_events();
    Ok(keeper)
}

fn parse(line: &str) -> Result<Line, WhatIsWrong> {
    Ok(serde_json::from_str(line)?)
}

/// The lines that have an end: who is killed while it writes leaves half a line.
fn whole_lines(mut file: impl BufRead) -> impl Iterator<Item = Result<String, RecordingError>> {
    let mut number = 0;
    std::iter::from_fn(move || {
        let mut line = String::new();
        number += 1;
        match file.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => Some(Ok(line)),
            Ok(_) => None,
            Err(error) => Some(Err(RecordingError { line: number, what: error.into() })),
        }
    })
}
