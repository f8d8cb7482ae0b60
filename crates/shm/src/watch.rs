//! Looking after each other, where nobody else watches the processes.

use castell_base::Rank;
use castell_host::process::{Pid, Process};

/// What one rank knows about the processes of the others.
///
/// Descriptors are opened on first use, so that ranks that have nothing to do with each other cost nothing.
#[derive(Debug)]
pub struct Watch {
    peers: Vec<Peer>,
}

#[derive(Debug)]
enum Peer {
    /// Not looked at yet.
    Unknown,
    /// Held by a descriptor.
    Held(Process),
    /// No descriptor to be had (too many open files, an old kernel): looked up in `/proc` each time.
    Numbered,
    /// Has ended.
    Gone,
}

impl Watch {
    /// A watch over that many ranks.
    pub fn new(ranks: u32) -> Watch {
        Watch { peers: (0..ranks).map(|_| Peer::Unknown).collect() }
    }

    /// Whether the process of `rank` has ended. It is told by its number and its start time (see [`own_identity`]),
    /// since the number may be in use again. One system call, once the rank is known.
    ///
    /// [`own_identity`]: Watch::own_identity
    pub fn has_ended(&mut self, rank: Rank, pid: u32, start_time: u64) -> bool {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
        let is_same = || pid.start_time() == Some(start_time);
        let peer = &mut self.peers[rank.index()];
        if matches!(peer, Peer::Unknown) {
            *peer = match Process::open(pid) {
                // The descriptor is of the process that has the number now: is it still the right one?
                Ok(process) if is_same() => Peer::Held(process),
                Ok(_) => Peer::Gone,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Peer::Gone,
                Err(_) => Peer::Numbered,
            };
        }
        let gone = match peer {
            Peer::Held(process) => process.has_ended(),
            Peer::Numbered => !is_same(),
            Peer::Gone => true,
            Peer::Unknown => false,
        };
        if gone {
            *peer = Peer::Gone;
        }
        gone
    }

    /// What this process has to tell the others about itself: its number and start time.
    pub fn own_identity() -> (u32, u64) {
        let pid = Pid::current();
        (pid.raw() as u32, pid.start_time().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_living_and_the_dead() {
        let (me, my_start) = Watch::own_identity();
        // SAFETY: the child only sleeps.
        let child = unsafe {
            castell_host::process::fork(|| {
                std::thread::sleep(Duration::from_secs(30));
                0
            })
        }
        .expect("fork");
        let (pid, start) = (child.pid().raw() as u32, child.pid().start_time().expect("alive"));
        let mut watch = Watch::new(4);
        assert!(!watch.has_ended(Rank(0), me, my_start));
        assert!(!watch.has_ended(Rank(1), pid, start));
        assert!(watch.has_ended(Rank(2), pid, start + 1), "a later process with the number");
        assert!(!watch.has_ended(Rank(3), 0, 0), "not there yet");
        child.signal(libc::SIGKILL).expect("kill");
        while !child.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(watch.has_ended(Rank(1), pid, start), "before its parent took notice");
        child.wait().expect("wait");
        assert!(watch.has_ended(Rank(1), pid, start));
        assert!(Watch::new(1).has_ended(Rank(0), pid, start));
    }
}
