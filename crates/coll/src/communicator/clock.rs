//! One clock for the ranks of all hosts.

use super::{Communicator, SplitError};
use castell_base::Rank;
use castell_host::clock::now_ns;
use castell_model::clocks::{ClockMap, RoundTrip};

/// Questions to each host.
const QUESTIONS: usize = 40;

/// The clock of rank 0's host, as this rank knows it: [`Communicator::clock`]. On that host it is the host's own.
///
/// What is known of it becomes less exact with time, as clocks drift: [`JobClock::error_ns`] says how exact it is, and [`JobClock::ask`] again, some
/// time after the first, makes it exact for longer.
#[derive(Clone, Debug)]
pub struct JobClock {
    round_trips: Vec<RoundTrip>,
    map: ClockMap,
}

impl Communicator {
    /// A clock that is the same for all ranks, whichever hosts they are on. All ranks call it.
    ///
    /// Rank 0 asks a rank of each other host for the time there, 40 times, one host after the other; see [`castell_model::clocks`] for what follows
    /// from that.
    ///
    /// # Errors
    /// A rank died, or no context is left.
    pub fn clock(&self) -> Result<JobClock, SplitError> {
        let mut clock = JobClock { round_trips: Vec::new(), map: ClockMap::same() };
        clock.ask(self)?;
        Ok(clock)
    }

    /// Rank 0 of two asks the other one for its time.
    fn ask_for_time(&self) -> Result<Vec<[u64; 3]>, SplitError> {
        let mut answers = Vec::with_capacity(QUESTIONS);
        for _ in 0..QUESTIONS {
            let (mut question, sent_ns) = ([0u64], now_ns());
            self.broadcast(&mut question, Rank(0))?;
            let mut theirs_ns = [now_ns()];
            self.broadcast(&mut theirs_ns, Rank(1))?;
            answers.push([sent_ns, theirs_ns[0], now_ns()]);
        }
        Ok(answers)
    }
}

impl JobClock {
    /// Nanoseconds. It has no relation to the time of day.
    pub fn now_ns(&self) -> u64 {
        self.of_host_ns(now_ns())
    }

    /// What this clock says when the clock of this rank's host ([`castell_host::clock::now_ns`], and `wtime` in graphs, in seconds) says this.
    pub fn of_host_ns(&self, host_ns: u64) -> u64 {
        self.map.to_own(host_ns)
    }

    /// How far off this rank's times are now at most, compared with those of rank 0's host; times of two other hosts with both their errors
    /// together. Nanoseconds; a bound, as long as clocks drift evenly and by no more than 1 ms a second.
    pub fn error_ns(&self) -> f64 {
        self.map.error_ns(now_ns())
    }

    /// Asks once more. All ranks of the communicator that it was asked for at first call it.
    ///
    /// # Errors
    /// As for [`Communicator::clock`].
    pub fn ask(&mut self, among: &Communicator) -> Result<(), SplitError> {
        let Some(placement) = among.member.placement.clone() else { return Ok(()) };
        let me = among.rank();
        // Rank 0's host is the first.
        for host in 1..placement.hosts() {
            let asked = placement.members(host)[0];
            let colour = (me == Rank(0) || me == asked).then_some(0);
            let mut answers = match among.split(colour, i64::from(me.0))? {
                Some(pair) => pair.ask_for_time()?,
                None => vec![[0; 3]; QUESTIONS],
            };
            among.broadcast(answers.as_flattened_mut(), Rank(0))?;
            if placement.host_of(me) == host {
                let trips = answers.into_iter();
                self.round_trips.extend(trips.map(|[sent_ns, theirs_ns, back_ns]| RoundTrip {
                    sent_ns,
                    theirs_ns,
                    back_ns,
                }));
            }
        }
        self.map = ClockMap::of(&self.round_trips).unwrap_or_else(ClockMap::same);
        Ok(())
    }
}
