//! Applications that are stopped, by a signal or by whoever debugs them. Nobody tells the daemon: where others wait, it looks whether those
//! are stopped that run there. One that is gets no kernels until it goes on, and where its kernel stands still others may run.

use crate::serve::Daemon;
use castell_host::clock;
use castell_host::process::Pid;
use std::collections::BTreeSet;

/// How often it is looked while somebody waits.
const EVERY_NS: u64 = 250_000_000;
/// How often it is looked whether who is stopped goes on, while nobody else waits.
const ALONE_EVERY_NS: u64 = 1_000_000_000;

/// Those that are stopped and in somebody's way.
#[derive(Default)]
pub(crate) struct Stopped {
    clients: BTreeSet<u64>,
    looked_ns: u64,
}

impl Stopped {
    pub(crate) fn has(&self, number: u64) -> bool {
        self.clients.contains(&number)
    }

    /// It has gone.
    pub(crate) fn forget(&mut self, number: u64) {
        self.clients.remove(&number);
    }
}

impl Daemon {
    /// When it is looked next, by the host's clock; none while nobody waits.
    pub(crate) fn next_look_ns(&self) -> Option<u64> {
        let somebody_waits = self.desk.is_open() && self.desk.keeper().node().has_choice();
        match (somebody_waits, self.stopped.clients.is_empty()) {
            (true, _) => Some(self.stopped.looked_ns + EVERY_NS),
            (false, false) => Some(self.stopped.looked_ns + ALONE_EVERY_NS),
            (false, true) => None,
        }
    }

    /// Looks, if it is time to.
    pub(crate) fn look_who_is_stopped(&mut self) {
        let Some(due_ns) = self.next_look_ns() else { return };
        let now_ns = clock::now_ns();
        if now_ns < due_ns {
            return;
        }
        self.stopped.looked_ns = now_ns;
        self.look_again_at_stopped();
        let in_the_way = self.desk.in_the_way();
        in_the_way.into_iter().for_each(|number| self.see(number));
    }

    /// Looks whether those go on that were stopped.
    pub(crate) fn look_again_at_stopped(&mut self) {
        let stopped: Vec<u64> = self.stopped.clients.iter().copied().collect();
        stopped.into_iter().for_each(|number| self.see(number));
    }

    /// Who was stopped has said something.
    pub(crate) fn look_again_at(&mut self, number: u64) {
        if self.stopped.has(number) {
            self.see(number);
        }
    }

    fn see(&mut self, number: u64) {
        let Some(client) = self.clients.get(&number) else { return };
        // Not what it says of itself: that number may be one of another namespace.
        let pid = i32::try_from(client.peer.pid).ok().and_then(Pid::from_raw);
        let is_other = match pid.is_some_and(Pid::is_stopped) {
            true => self.stopped.clients.insert(number),
            false => self.stopped.clients.remove(&number),
        };
        if is_other {
            self.park_if_it_stands(number);
        }
    }
}
