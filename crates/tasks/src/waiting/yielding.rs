//! What a lent thread whose processor was taken away does where it could run tasks: it leaves them to others as long as these get on.

use std::time::{Duration, Instant};

/// If no task is created or ends for so long, it takes one after all: others may be held up by what it holds, a lock for instance.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a thread that waits remembers while it leaves tasks to others.
#[derive(Default)]
pub(crate) struct Yielding {
    /// Since when no task was created or has ended, and how many had by then.
    since: Option<(Instant, u64)>,
    /// Nobody was free when it looked last.
    nobody: bool,
}

impl Yielding {
    /// Whether a thread whose processor was taken away is to run nothing now, and to look again in a moment: somebody is free to run what is
    /// ready, or may be soon. `steps` tells how many tasks have been created and have ended.
    pub(crate) fn is_due(&mut self, anybody_free: bool, steps: impl FnOnce() -> u64) -> bool {
        if !anybody_free {
            // Perhaps just on the way to the barrier; from the second time on, nobody else can.
            return !std::mem::replace(&mut self.nobody, true);
        }
        self.nobody = false;
        let steps = steps();
        match self.since {
            Some((since, before)) if before == steps => since.elapsed() < PATIENCE,
            _ => {
                self.since = Some((Instant::now(), steps));
                true
            }
        }
    }

    /// It has run something.
    pub(crate) fn has_run(&mut self) {
        self.since = None;
    }
}
