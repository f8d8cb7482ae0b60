//! What happens, written down.

use super::{Exact, Head, Line, VERSION};
use crate::{DaemonError, Source};
use castell_base::Moment;
use castell_host::say;
use castell_kernels::protocol::Shape;
use castell_strategy::{Event, Input, Kernels, Node, ResourceId};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording under way. What cannot be written ends it, and not the daemon.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    resources: Vec<String>,
    /// Numbers of kernels by their address; the kernels are kept, so that no others get it.
    shapes: HashMap<usize, (Arc<Kernels>, usize)>,
}

impl Recording {
    /// Begins one, of a node on which nothing has happened yet and whose strategy came from this source.
    ///
    /// # Errors
    /// There is a file of that name, or it cannot be made.
    pub fn create(path: &Path, node: &Node, strategy: &Source) -> Result<Recording, DaemonError> {
        let what = || format!("make the recording {} (what is there is not overwritten)", path.display());
        let file = File::options().write(true).create_new(true).open(path);
        let file = BufWriter::new(file.map_err(DaemonError::system(what()))?);
        let resources: Vec<_> = node.resources().iter().map(|resource| resource.name.clone()).collect();
        let names =
            |ids: &mut dyn Iterator<Item = ResourceId>| ids.map(|id| resources[id.0].clone()).collect();
        let head = Head {
            version: VERSION,
            forbids: node.forbidden().map(|(level, mut ids)| (level.to_owned(), names(&mut ids))).collect(),
            governor: node.governor().into(),
            sensors: node.sensors().iter().map(|(name, value)| (name.clone(), Exact(*value))).collect(),
            strategy: strategy.clone(),
            resources: resources.clone(),
        };
        let mut recording =
            Recording { path: path.into(), file: Some(file), resources, shapes: HashMap::new() };
        recording.line(&Line::Recording(head));
        recording.flush();
        Ok(recording)
    }

    /// Something happened.
    pub(crate) fn input(&mut self, at: Moment, input: &Input) {
        let at_ps = at.0;
        let line = match input {
            Input::Register { application, kernels, steps } => Line::Register {
                at_ps,
                application: application.to_string(),
                shape: self.shape(kernels),
                steps: *steps,
            },
            Input::Adopt { application, kernels, steps, on } => Line::Adopt {
                at_ps,
                application: application.to_string(),
                shape: self.shape(kernels),
                steps: *steps,
                on: self.resources[on.0].clone(),
            },
            Input::Ended(on) => Line::Ended { at_ps, on: self.resources[on.0].clone() },
            Input::Withdraw(id) => Line::Withdraw { at_ps, collection: id.0 },
            Input::Governor(level) => Line::Governor { at_ps, level: level.clone() },
            Input::Sensor(name, value) => Line::Sensor { at_ps, name: name.clone(), value: Exact(*value) },
            Input::Tick => Line::Tick { at_ps },
        };
        self.line(&line);
    }

    /// Another strategy takes over.
    pub(crate) fn strategy(&mut self, at: Moment, strategy: &Source) {
        self.line(&Line::Strategy { at_ps: at.0, strategy: strategy.clone() });
    }

    /// An application's own strategy has a say from now on, or none. What it chooses is registered, and so is recorded as such.
    pub(crate) fn own(&mut self, at: Moment, application: &str, strategy: Option<&Source>) {
        let (application, strategy) = (application.to_owned(), strategy.cloned());
        self.line(&Line::Own { at_ps: at.0, application, strategy });
    }

    /// Something was decided.
    pub(crate) fn event(&mut self, event: &Event) {
        let line = log_line(event, &self.resources);
        self.line(&Line::Log(line));
    }

    /// All that has happened so far is in the file.
    pub(crate) fn flush(&mut self) {
        self.write(|file| file.flush());
    }

    /// The daemon ends, and nothing is missing.
    pub(crate) fn end(mut self) {
        self.line(&Line::End {});
        self.flush();
    }

    fn shape(&mut self, kernels: &Arc<Kernels>) -> usize {
        let (address, next) = (Arc::as_ptr(kernels).addr(), self.shapes.len());
        if let Some((_, number)) = self.shapes.get(&address) {
            return *number;
        }
        self.shapes.insert(address, (kernels.clone(), next));
        let name = |id: &ResourceId| self.resources[id.0].clone();
        let rankings = kernels.rankings().iter();
        let shape = Shape {
            kernels: kernels
                .all()
                .iter()
                // An application says nanoseconds.
                .map(|kernel| (name(&kernel.resource), kernel.step_time.map(|time| time.0 / 1_000)))
                .collect(),
            rankings: rankings
                .map(|ranking| (ranking.name.clone(), ranking.order.iter().map(name).collect()))
                .collect(),
        };
        self.line(&Line::Shape(shape));
        next
    }

    fn line(&mut self, line: &Line) {
        self.write(|file| {
            serde_json::to_writer(&mut *file, line)?;
            file.write_all(b"\n")
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = write(file) {
            say(&format!("the recording {} ends here: {error}", self.path.display()));
            // Without another try when it is dropped.
            drop(self.file.take().map(BufWriter::into_parts));
        }
    }
}

/// A line of the log; the same event gives the same line, to the byte.
pub(super) fn log_line(event: &Event, resources: &[String]) -> String {
    event.line(|id| format!("#{}", id.0), |on| resources[on.0].clone())
}
