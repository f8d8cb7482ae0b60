//! Other processes take threads away from the program's tasks and give them back: `castell cpus`, through the same mailbox as that of castell's
//! own programs (`CASTELL_TASKS_MAILBOX`). Number n is the thread that is n in its team, in each team.

use castell_host::mailbox::Place;
use castell_tasks::Team;
use castell_tasks::workers::{Listener, mailbox_from_environment};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What this process has of it, once a team has been made.
static CPUS: Mutex<Option<Cpus>> = Mutex::new(None);

struct Cpus {
    /// In a fork's child nobody listens to the parent's mailbox.
    process: u32,
    /// What the mailbox says of each thread.
    enabled: Vec<bool>,
    teams: Vec<Weak<Team>>,
    listener: Option<Listener>,
}

/// The process has a new team: what was taken away is taken away there, too. `usual` is how many threads a region has that does not say itself.
pub(crate) fn join(team: &Arc<Team>, usual: impl FnOnce() -> usize) {
    static IS_WANTED: OnceLock<bool> = OnceLock::new();
    if !*IS_WANTED.get_or_init(|| mailbox_from_environment().is_some()) {
        return;
    }
    let mut cpus = lock();
    if cpus.as_ref().is_none_or(|cpus| cpus.process != std::process::id()) {
        // Never dropped: the mailbox of a fork's parent is not this process's.
        std::mem::forget(cpus.replace(Cpus::begin(team.size().max(usual()))));
    }
    if let Some(cpus) = &mut *cpus {
        cpus.teams.retain(|team| team.strong_count() > 0);
        cpus.teams.push(Arc::downgrade(team));
        cpus.tell(team);
    }
}

/// The process ends.
pub(crate) fn end() {
    let Ok(mut cpus) = CPUS.try_lock() else { return };
    let ours = cpus.as_mut().filter(|cpus| cpus.process == std::process::id());
    let listener = ours.and_then(|cpus| cpus.listener.take());
    drop(cpus); // its thread may be waiting for that
    listener.into_iter().for_each(Listener::stop);
}

fn lock() -> MutexGuard<'static, Option<Cpus>> {
    CPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cpus {
    /// For so many threads.
    fn begin(threads: usize) -> Cpus {
        let places = vec![Place { cpu: None, kind: 0 }; threads];
        let listener = mailbox_from_environment().and_then(|path| {
            let listener = Listener::start(&path, &places, set);
            listener
                .inspect_err(|error| castell_host::say(&format!("nobody can take threads away: {error}")))
                .ok()
        });
        Cpus { process: std::process::id(), enabled: vec![true; threads], teams: Vec::new(), listener }
    }

    /// Has a team keep to what the mailbox says. One whose threads are all taken away keeps the last of them.
    fn tell(&self, team: &Team) {
        for wanted in [true, false] {
            let numbers = 0..team.size().min(self.enabled.len());
            for number in numbers.filter(|&number| self.enabled[number] == wanted) {
                let _ = team.set_enabled(number, wanted);
            }
        }
    }
}

/// Somebody asks for a thread, or gives it back; false if it is the last.
fn set(number: usize, wanted: bool) -> bool {
    let mut cpus = lock();
    let Some(cpus) = &mut *cpus else { return false };
    let others =
        cpus.enabled.iter().enumerate().filter(|(other, enabled)| **enabled && *other != number).count();
    if !wanted && others == 0 {
        return false;
    }
    cpus.enabled[number] = wanted;
    cpus.teams.iter().filter_map(Weak::upgrade).for_each(|team| cpus.tell(&team));
    true
}
