//! Which applications are stopped, by a signal or by whoever debugs them, and in somebody's way. Nobody tells the daemon: it has to look.

use castell_host::process::Pid;
use std::collections::BTreeSet;

/// How often it is looked while somebody waits.
const EVERY_NS: u64 = 250_000_000;
/// How often it is looked whether who is stopped goes on, while nobody else waits.
const ALONE_EVERY_NS: u64 = 1_000_000_000;

/// Those that were stopped when it was looked last.
#[derive(Default)]
pub(crate) struct Stopped {
    clients: BTreeSet<u64>,
    looked_ns: u64,
}

impl Stopped {
    pub(crate) fn has(&self, number: u64) -> bool {
        self.clients.contains(&number)
    }

    pub(crate) fn all(&self) -> Vec<u64> {
        self.clients.iter().copied().collect()
    }

    /// It has gone.
    pub(crate) fn forget(&mut self, number: u64) {
        self.clients.remove(&number);
    }

    /// When it is looked next, by the host's clock; none where nobody would gain by it.
    pub(crate) fn next_ns(&self, somebody_waits: bool) -> Option<u64> {
        match (somebody_waits, self.clients.is_empty()) {
            (true, _) => Some(self.looked_ns + EVERY_NS),
            (false, false) => Some(self.looked_ns + ALONE_EVERY_NS),
            (false, true) => None,
        }
    }

    /// Whether it is time to look: then it is looked now.
    pub(crate) fn begin(&mut self, somebody_waits: bool, now_ns: u64) -> bool {
        let is_due = self.next_ns(somebody_waits).is_some_and(|due_ns| due_ns <= now_ns);
        if is_due {
            self.looked_ns = now_ns;
        }
        is_due
    }

    /// Looks at one, which has this process; whether it is otherwise than before.
    pub(crate) fn look(&mut self, number: u64, pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match pid.is_some_and(Pid::is_stopped) {
            true => self.clients.insert(number),
            false => self.clients.remove(&number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_where_nobody_waits() {
        let mut stopped = Stopped::default();
        let later = 10 * EVERY_NS;
        assert_eq!((stopped.next_ns(false), stopped.begin(false, later)), (None, false));
        assert!(stopped.begin(true, later) && !stopped.begin(true, later + EVERY_NS - 1));
        assert_eq!(stopped.next_ns(true), Some(later + EVERY_NS));
        // This process runs.
        assert!(!stopped.look(3, std::process::id()) && stopped.all().is_empty());
        stopped.clients.insert(3);
        assert_eq!(stopped.next_ns(false), Some(later + ALONE_EVERY_NS));
        assert!(stopped.look(3, std::process::id()) && !stopped.has(3));
        assert_eq!(stopped.next_ns(false), None);
    }
}
