//! What a rank's process does: the rounds, each together with the others, and saying how they went.

use super::carrier::Carries;
use castell_base::Rank;
use castell_comm::engine::{Arrived, Recorded};
use castell_comm::{Comm, Counters};
use castell_goal::schedule::Schedule;
use castell_host::clock::now_ns;
use std::sync::Arc;

/// Who hears how a rank's rounds went. Times are those of the rank's host.
pub trait Told {
    /// A round has started and ended.
    fn round(&self, rank: Rank, round: usize, start_ns: u64, end_ns: u64);
    /// The last round has ended, or one has failed.
    fn outcome(&self, rank: Rank, start_ns: u64, end_ns: u64, counters: Counters, failure: Option<&str>);
    /// When the operations of the last round started and finished.
    fn records(&self, rank: Rank, recorded: &[Recorded]);
    /// What messages came in meanwhile.
    fn arrivals(&self, rank: Rank, arrived: &[Arrived]);
}

/// How a program is executed.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Factor on computing and sleeping times.
    pub calc_scale: f64,
    /// How often.
    pub count: usize,
    /// Whether the operations of the last round are recorded.
    pub records: bool,
}

/// All rounds of a rank; `meet` lets it wait for the others before each. What the process ends with.
pub fn execute(
    schedule: &Arc<Schedule>,
    (comm, carrier): (&Comm, &mut dyn Carries),
    rounds: Rounds,
    told: &dyn Told,
    meet: &dyn Fn(&Comm, usize) -> Result<(), String>,
) -> i32 {
    let rank = comm.rank();
    comm.set_calc_scale(rounds.calc_scale);
    for round in 0..rounds.count {
        let is_last = round + 1 == rounds.count;
        if is_last && rounds.records {
            // Before they meet: what comes first comes from who has met all.
            comm.record();
        }
        let met = meet(comm, round);
        let before = comm.counters();
        let start_ns = now_ns();
        let outcome = met.and_then(|()| carrier.carry(comm, schedule));
        let end_ns = now_ns();
        let outcome = if is_last { outcome.and_then(|()| carrier.finish(comm)) } else { outcome };
        let failure = outcome.err();
        if failure.is_none() {
            told.round(rank, round, start_ns, end_ns);
        }
        if is_last || failure.is_some() {
            let now = comm.counters();
            let (messages, bytes) = (now.messages - before.messages, now.bytes - before.bytes);
            let counters = carrier.sent(Counters { messages, bytes, ..now });
            told.outcome(rank, start_ns, end_ns, counters, failure.as_deref());
        }
        if failure.is_some() {
            comm.finalize();
            return 1;
        }
    }
    told.records(rank, &of_the_program(comm.take_record(), schedule));
    let arrived: Vec<Arrived> = comm.take_arrivals().into_iter().filter(|one| !one.is_of_call).collect();
    told.arrivals(rank, &arrived);
    comm.finalize();
    0
}

/// What belongs to the last run, not to a call by which the ranks met before it.
fn of_the_program(mut recorded: Vec<Recorded>, schedule: &Schedule) -> Vec<Recorded> {
    let last = recorded.iter().map(|one| one.run).max();
    recorded.retain(|one| !schedule.is_empty() && Some(one.run) == last);
    recorded
}
