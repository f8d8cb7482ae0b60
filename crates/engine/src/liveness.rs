//! What is known of who lives, how long nothing has moved, and what the thread that drives waits for.

use castell_base::Rank;
use castell_goal::schedule::{OpId, Schedule};
use castell_shm::job::{Death, Job, RankState};
use castell_shm::watch::Watch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the peers' processes are looked at where nobody else watches them.
const LIVENESS_PERIOD: Duration = Duration::from_millis(200);

/// What is known of who lives.
pub(super) struct Liveness {
    looked: Instant,
    /// Where nobody outside watches the ranks.
    watch: Option<Watch>,
    /// How long nothing has moved.
    pub(super) silence: Silence,
}

impl Liveness {
    pub(super) fn new(watch: Option<Watch>) -> Liveness {
        Liveness { looked: Instant::now(), watch, silence: Silence::default() }
    }

    /// Where nobody watches the processes: looks at all of them now and then, and announces who is gone.
    pub(super) fn look(&mut self, job: &Job, me: Rank) {
        let Some(watch) = &mut self.watch else { return };
        if self.looked.elapsed() < LIVENESS_PERIOD {
            return;
        }
        self.looked = Instant::now();
        for rank in (0..job.ranks()).map(Rank).filter(|rank| *rank != me) {
            let control = job.control(rank);
            let alive = control.state() == RankState::Alive;
            if alive && watch.has_ended(rank, control.pid(), control.start_time()) {
                job.mark_dead(rank, Death::Vanished);
            }
        }
    }
}

/// How long nothing has moved, and what was said about it.
#[derive(Default)]
pub(super) struct Silence {
    /// Since when; 0: something moved since it was last looked at.
    pub(super) since_ns: u64,
    pub(super) reported: bool,
    pub(super) requests_seen: u32,
}

impl Silence {
    /// Something moved.
    #[inline]
    pub(super) fn moved(&mut self) {
        self.since_ns = 0;
        self.reported = false;
    }

    /// A run starts: requests from before do not concern it if it is the only one.
    pub(super) fn run_starts(&mut self, job: &Job, alone: bool) {
        self.moved();
        if alone {
            self.requests_seen = job.stall_requests();
        }
    }
}

/// A compiled program that waits, for reports.
pub(super) struct Waiting {
    pub(super) schedule: Arc<Schedule>,
    pub(super) op: OpId,
    pub(super) peer: Rank,
}
