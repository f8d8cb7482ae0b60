//! Devices: leaves with a worker of their own, which runs the tasks that are made for devices of their kind.

use crate::error::TaskError;
use crate::lifecycle::shared::Shared;
use crate::workers::WorkerId;
use castell_sched::Kind;
use std::any::Any;
use std::sync::Arc;

/// A device as the program gave it.
pub(crate) type Handle = Arc<dyn Any + Send + Sync>;

/// The devices of a runtime: the last workers, in the order in which they were named.
#[derive(Clone, Default)]
pub(crate) struct Devices {
    /// Workers that run on processors, or that a described machine has.
    workers: usize,
    handles: Vec<(Kind, Handle)>,
}

impl Devices {
    pub(crate) fn add(&mut self, kind: Kind, handle: Handle) {
        self.handles.push((kind, handle));
    }

    /// The kinds, in order.
    ///
    /// # Errors
    /// One of them is not a device's.
    pub(crate) fn kinds(&self) -> Result<Vec<Kind>, TaskError> {
        let check = |&(kind, _): &(Kind, Handle)| match kind {
            Kind::CPU => Err(TaskError::NotADevice { kind: kind.0 }),
            Kind(kind) if usize::from(kind) >= Kind::COUNT => Err(TaskError::NotADevice { kind }),
            kind => Ok(kind),
        };
        self.handles.iter().map(check).collect()
    }

    /// They come behind so many other workers.
    pub(crate) fn behind(mut self, workers: usize) -> Devices {
        self.workers = workers;
        self
    }

    /// The device whose worker this is.
    pub(crate) fn of(&self, worker: WorkerId) -> Option<&Handle> {
        let number = worker.index().checked_sub(self.workers)?;
        self.handles.get(number).map(|(_, handle)| handle)
    }
}

/// Whether a task of this kind finds somebody to run it.
///
/// # Errors
/// It does not.
#[inline]
pub(crate) fn check_kind(shared: &Shared, kind: Kind, label: &str) -> Result<(), TaskError> {
    if kind == Kind::CPU || shared.workers.has(kind) {
        return Ok(());
    }
    Err(TaskError::NoDevice { label: label.to_owned(), kind: kind.0 })
}
