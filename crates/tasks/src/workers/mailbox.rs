//! The program's side of the CPU mailbox: a thread that sleeps until another process asks for something.

use super::{WorkerId, Workers};
use crate::error::TaskError;
use crate::lifecycle::shared::Shared;
use castell_host::mailbox::{Agent, FOLDER, Mailbox, Place, default_path};
use castell_sched::LeafId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Says that a runtime is to have a mailbox: `1` for the usual place, or a path.
const VARIABLE: &str = "CASTELL_TASKS_MAILBOX";

/// A mailbox and who reads it.
pub struct Listener {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

/// Where the environment wants the mailbox, if anywhere.
pub fn mailbox_from_environment() -> Option<PathBuf> {
    let value = std::env::var_os(VARIABLE)?;
    match value.to_str() {
        Some("" | "0" | "off") => None,
        Some("1" | "on") => {
            let path = default_path(Path::new(FOLDER), std::process::id());
            // Another runtime of this process has it.
            let is_taken = Agent::open(&path).is_ok_and(|agent| agent.owner() == std::process::id());
            (!is_taken).then_some(path)
        }
        _ => Some(value.into()),
    }
}

impl Listener {
    /// Makes a mailbox at `path` for the workers at `places`, all of which run, and starts its thread. `set` takes a worker away or
    /// gives it back, and says whether it did.
    ///
    /// # Errors
    /// The mailbox or the thread cannot be made.
    pub fn start(
        path: &Path,
        places: &[Place],
        mut set: impl FnMut(usize, bool) -> bool + Send + 'static,
    ) -> Result<Listener, TaskError> {
        let mailbox = Mailbox::create(path, places).map_err(|error| TaskError::Mailbox(Arc::new(error)))?;
        let mailbox = Arc::new(mailbox);
        let inside = Arc::clone(&mailbox);
        let thread = std::thread::Builder::new()
            .name("castell-cpus".to_owned())
            .spawn(move || {
                while !inside.is_closed() {
                    let attended = inside.attend(&mut set);
                    inside.sleep(attended);
                }
            })
            .map_err(|error| TaskError::NoThread { worker: 0, reason: error.to_string() })?;
        Ok(Listener { mailbox, thread })
    }

    /// As [`Listener::start`], for the workers of a runtime.
    pub(super) fn of_runtime(shared: &Arc<Shared>, path: &Path) -> Result<Listener, TaskError> {
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
        let weak = Arc::downgrade(shared);
        Listener::start(path, &places, move |worker, wanted| {
            weak.upgrade().is_some_and(|shared| set(&shared, WorkerId(worker as u32), wanted))
        })
    }

    /// The program itself has taken a worker away or given it back: the mailbox shows it.
    pub fn note(&self, worker: usize, enabled: bool) {
        self.mailbox.note(worker, enabled);
    }

    /// Closes the mailbox; nothing that is asked for later happens.
    pub fn stop(self) {
        self.mailbox.close();
        // Its panic would be a broken invariant, already printed.
        let _ = self.thread.join();
    }
}

fn set(shared: &Arc<Shared>, worker: WorkerId, enabled: bool) -> bool {
    let done = if enabled { Workers::enable(shared, worker) } else { Workers::disable(shared, worker) };
    done.is_ok()
}
