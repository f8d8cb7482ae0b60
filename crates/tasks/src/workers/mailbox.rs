//! The runtime's side of the CPU mailbox: a thread that sleeps until another process asks for something.

use super::{WorkerId, Workers};
use crate::error::TaskError;
use crate::lifecycle::shared::Shared;
use castell_host::mailbox::{FOLDER, Mailbox, Place, default_path};
use castell_sched::LeafId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Says that a runtime is to have a mailbox: `1` for the usual place, or a path.
const VARIABLE: &str = "CASTELL_TASKS_MAILBOX";

/// A mailbox and who reads it.
pub(super) struct Reader {
    pub(super) mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

/// Where the environment wants the mailbox, if anywhere.
pub(crate) fn mailbox_from_environment() -> Option<PathBuf> {
    let value = std::env::var_os(VARIABLE)?;
    match value.to_str() {
        Some("" | "0" | "off") => None,
        Some("1" | "on") => Some(default_path(Path::new(FOLDER), std::process::id())),
        _ => Some(value.into()),
    }
}

impl Reader {
    /// Makes the mailbox and starts its thread.
    pub(super) fn start(shared: &Arc<Shared>, path: &Path) -> Result<Reader, TaskError> {
        let workers = &shared.workers;
        let place = |leaf: LeafId| Place {
            // A worker that may run on several processors is on none of them.
            cpu: workers.cpus[leaf.index()]
                .first()
                .copied()
                .filter(|_| workers.cpus[leaf.index()].len() == 1),
            kind: workers.topology.kind_of(leaf).0,
        };
        let places: Vec<Place> = workers.topology.all().map(place).collect();
        let mailbox = Mailbox::create(path, &places).map_err(|error| TaskError::Mailbox(Arc::new(error)))?;
        let mailbox = Arc::new(mailbox);
        let (inside, weak) = (Arc::clone(&mailbox), Arc::downgrade(shared));
        let thread = std::thread::Builder::new()
            .name("castell-cpus".to_owned())
            .spawn(move || {
                loop {
                    let Some(shared) = weak.upgrade().filter(|_| !inside.is_closed()) else { return };
                    let attended =
                        inside.attend(|worker, wanted| set(&shared, WorkerId(worker as u32), wanted));
                    drop(shared);
                    inside.sleep(attended);
                }
            })
            .map_err(|error| TaskError::NoThread { worker: 0, reason: error.to_string() })?;
        Ok(Reader { mailbox, thread })
    }

    /// Closes the mailbox; nothing that is asked for later happens.
    pub(super) fn stop(self) {
        self.mailbox.close();
        // Its panic would be a broken invariant, already printed.
        let _ = self.thread.join();
    }
}

fn set(shared: &Arc<Shared>, worker: WorkerId, enabled: bool) -> bool {
    let done = if enabled { Workers::enable(shared, worker) } else { Workers::disable(shared, worker) };
    done.is_ok()
}
