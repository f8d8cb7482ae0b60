//! Ranks that go: what they sent still counts, and what they left open is settled.
//!
//! ```text
//!   here ──▶ gone, as the segment says ──▶ heard out: the inbox was seen empty ──▶ told ──▶ settled: nothing of the
//!            (the job's epoch changes)     afterwards, or often enough                      dead is left in the queue
//! ```

use super::Shm;
use crate::job::{Job, RankState};
use castell_base::Rank;
use castell_transport::{Down, Events};

/// More than a full queue of messages: what a gone rank left behind has been taken in by then.
const POLLS_AT_DEPARTURE: usize = 1024;

pub(super) struct Departures {
    epoch_seen: u32,
    /// By rank: it is gone, and was told or will be.
    noticed: Box<[bool]>,
    /// Gone, and not told yet.
    untold: Vec<(Rank, Down)>,
    polls_left: usize,
    /// Somebody died, and may have left something open in this rank's queue.
    is_unsettled: bool,
}

/// How a rank went, if it has gone.
pub(super) fn end_of(job: &Job, rank: Rank) -> Option<Down> {
    match job.control(rank).state() {
        RankState::Dead(_) => Some(Down::Died),
        RankState::Finished => Some(Down::Left),
        RankState::Unborn | RankState::Alive => None,
    }
}

impl Departures {
    pub(super) fn new(ranks: usize) -> Departures {
        Departures {
            epoch_seen: 0,
            noticed: vec![false; ranks].into(),
            untold: Vec::new(),
            polls_left: 0,
            is_unsettled: false,
        }
    }

    #[inline(always)]
    pub(super) fn has_news(&self, job: &Job) -> bool {
        job.epoch() != self.epoch_seen || !self.untold.is_empty()
    }

    #[inline(always)]
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }
}

impl Shm {
    /// Notices who has gone, and tells it once all that they sent has been handed over; says how many were told.
    #[cold]
    pub(super) fn tell_departures(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let (job, departures) = (&self.job, &mut self.departures);
        // Read first: who goes after this may have sent something that this round does not wait for.
        let epoch = job.epoch();
        if epoch != departures.epoch_seen {
            departures.epoch_seen = epoch;
            departures.polls_left = POLLS_AT_DEPARTURE;
            for rank in (0..job.ranks()).map(Rank).filter(|rank| *rank != self.me) {
                if !departures.noticed[rank.index()]
                    && let Some(why) = end_of(job, rank)
                {
                    departures.noticed[rank.index()] = true;
                    departures.untold.push((rank, why));
                }
            }
        }
        let is_heard_out = self.rings.is_empty() && self.consumer.is_empty();
        departures.polls_left = departures.polls_left.saturating_sub(1);
        let mut told = 0;
        if is_heard_out || departures.polls_left == 0 {
            for (rank, why) in departures.untold.drain(..budget.min(departures.untold.len())) {
                events.down(rank, self.delivered[rank.index()], why);
                departures.is_unsettled = true;
                told += 1;
            }
        }
        if departures.is_unsettled {
            // Not only when there is nothing else to do: what the dead left open takes room away from the living.
            let is_dead = |rank: Rank| matches!(job.control(rank).state(), RankState::Dead(_));
            departures.is_unsettled = !self.consumer.reclaim_dead(&is_dead);
        }
        told
    }
}
