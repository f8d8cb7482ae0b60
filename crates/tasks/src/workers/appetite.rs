//! Whether it pays that an idle worker takes tasks from others.
//!
//! A task that runs elsewhere than where it was created costs some tens to hundreds of nanoseconds for it, since its record moves from
//! one cache to the other and its memory back. Where tasks are shorter than that, all is over sooner if their creator runs them. How
//! much it is depends on the machine, on who else uses it and on what the creator does meanwhile. So a worker that has taken
//! tasks which were small lets others alone for a moment, and then compares: whether more tasks were created and ended in a
//! microsecond without it or with it. If without, it lets others alone again, twice as long each time; if with, it asks
//! itself only after some milliseconds again.

use std::time::{Duration, Instant};

/// Tasks of others to look at before it decides.
const ENOUGH: u64 = 32;
/// Tasks for which it is not busy for so long are small: for each; for each of its accesses; and for each time that a worker had
/// nothing to do and was given something, however much.
const WORTH: [Duration; 3] = [Duration::from_nanos(600), Duration::from_nanos(400), Duration::from_micros(1)];
/// For how long others are let alone at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(2)];
/// For how long it takes tasks before it compares, at least; after so long without enough of them it looks once more how it goes without.
const TRIAL: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
/// For how long it then takes tasks, if that was better, at first and at most.
const TRUST: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(32)];
/// So much more must be done with it than without it: it is somebody's processor.
const GAIN: f64 = 1.25;

/// Tasks of bodies that are awake elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) tasks: u64,
    /// How many accesses they have.
    pub(crate) accesses: u64,
}

/// How many tasks had been created and ended by some moment, anywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) at: Instant,
    pub(super) steps: u64,
}

/// What a worker remembers of the tasks that it took from others.
pub(super) struct Appetite {
    /// Since when it has been busy, and what it had taken by then.
    since: Option<(Instant, Taken)>,
    busy: Duration,
    taken: Taken,
    /// How often it was given something meanwhile.
    times: u64,
    patience: Duration,
    /// Steps a nanosecond while it let others alone, and when that was over.
    without: Option<(f64, Progress)>,
    trust: Duration,
    trusts_until: Option<Instant>,
}

impl Taken {
    fn plus(self, other: Taken) -> Taken {
        Taken { tasks: self.tasks + other.tasks, accesses: self.accesses + other.accesses }
    }

    fn minus(self, earlier: Taken) -> Taken {
        Taken { tasks: self.tasks - earlier.tasks, accesses: self.accesses - earlier.accesses }
    }

    /// The time for which these, given so many times, should keep a worker busy.
    fn worth_ns(self, times: u64) -> u128 {
        let parts = WORTH.iter().zip([self.tasks, self.accesses, times]);
        parts.map(|(worth, count)| worth.as_nanos() * u128::from(count)).sum()
    }
}

impl Progress {
    /// Steps a nanosecond from here to `later`.
    fn pace(self, later: Progress) -> f64 {
        (later.steps - self.steps) as f64 / (later.at - self.at).as_nanos().max(1) as f64
    }
}

impl Appetite {
    pub(super) fn new() -> Appetite {
        Appetite {
            since: None,
            busy: Duration::ZERO,
            taken: Taken::default(),
            times: 0,
            patience: PATIENCE[0],
            without: None,
            trust: TRUST[0],
            trusts_until: None,
        }
    }

    /// The worker, which had nothing to do, has something; so much it has taken until now.
    pub(super) fn begins(&mut self, taken: Taken) {
        self.since = Some((Instant::now(), taken));
    }

    /// The worker has nothing to do, and has taken so much until now; for how long it should let others alone, if so.
    pub(super) fn ends(&mut self, taken: Taken, now: impl FnOnce() -> Progress) -> Option<Duration> {
        let (since, before) = self.since.take()?;
        self.digest(since.elapsed(), taken.minus(before), now)
    }

    /// It has let others alone; `to` is no later than `from` if nothing went on meanwhile.
    pub(super) fn rested(&mut self, from: Progress, to: Progress) {
        self.without = (to.at > from.at).then(|| (from.pace(to), to));
    }

    fn digest(&mut self, busy: Duration, taken: Taken, now: impl FnOnce() -> Progress) -> Option<Duration> {
        self.busy += busy;
        self.taken = self.taken.plus(taken);
        self.times += 1;
        if self.taken.tasks < ENOUGH {
            return None;
        }
        let (busy, taken) = (std::mem::take(&mut self.busy), std::mem::take(&mut self.taken));
        if busy.as_nanos() >= taken.worth_ns(std::mem::take(&mut self.times)) {
            (self.patience, self.trust) = (PATIENCE[0], TRUST[0]);
            (self.without, self.trusts_until) = (None, None);
            return None;
        }
        self.compare(now())
    }

    /// The tasks were small.
    fn compare(&mut self, now: Progress) -> Option<Duration> {
        if self.trusts_until.is_some_and(|until| now.at < until) {
            return None;
        }
        let Some((without, since)) = self.without else { return Some(PATIENCE[0]) };
        let trial = now.at - since.at;
        if trial < TRIAL[0] {
            return None;
        }
        self.without = None;
        if trial > TRIAL[1] {
            return Some(PATIENCE[0]);
        }
        if since.pace(now) > GAIN * without {
            self.trusts_until = Some(now.at + self.trust);
            self.trust = (2 * self.trust).min(TRUST[1]);
            self.patience = PATIENCE[0];
            return None;
        }
        self.trust = TRUST[0];
        self.patience = (2 * self.patience).min(PATIENCE[1]);
        Some(self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tasks: u64, accesses: u64) -> Taken {
        Taken { tasks, accesses }
    }

    /// A clock, and how many steps there have been.
    struct World(Progress);

    impl World {
        /// So many microseconds, with so many steps in each.
        fn pass(&mut self, micros: u64, pace: u64) -> Progress {
            let Progress { at, steps } = self.0;
            self.0 = Progress { at: at + Duration::from_micros(micros), steps: steps + micros * pace };
            self.0
        }

        /// The worker takes small tasks for so long; for how long it then rests, if it does.
        fn takes(&mut self, appetite: &mut Appetite, micros: u64, pace: u64) -> Option<Duration> {
            let now = self.pass(micros, pace);
            appetite.digest(Duration::from_micros(3), taken(32, 0), || now)
        }

        fn rests(&mut self, appetite: &mut Appetite, micros: u64, pace: u64) {
            let from = self.0;
            appetite.rested(from, self.pass(micros, pace));
        }
    }

    fn begin() -> (Appetite, World) {
        (Appetite::new(), World(Progress { at: Instant::now(), steps: 0 }))
    }

    #[test]
    fn small_tasks_are_left_to_their_creator_for_longer_and_longer_if_that_is_better() {
        let (mut appetite, mut world) = begin();
        assert_eq!(world.takes(&mut appetite, 100, 10), Some(PATIENCE[0]), "to see how it goes without");
        world.rests(&mut appetite, 100, 20);
        assert_eq!(world.takes(&mut appetite, 10, 10), None, "too short to compare");
        assert_eq!(world.takes(&mut appetite, 40, 10), Some(2 * PATIENCE[0]));
        for _ in 0..10 {
            world.rests(&mut appetite, 100, 20);
            assert!(world.takes(&mut appetite, 50, 20).is_some(), "the same is not better");
        }
        world.rests(&mut appetite, 100, 20);
        assert_eq!(world.takes(&mut appetite, 50, 10), Some(PATIENCE[1]));
    }

    #[test]
    fn small_tasks_are_taken_where_more_is_done_so() {
        let (mut appetite, mut world) = begin();
        let trust = TRUST.map(|trust| trust.as_micros() as u64);
        assert!(world.takes(&mut appetite, 100, 20).is_some());
        world.rests(&mut appetite, 100, 10);
        assert_eq!(world.takes(&mut appetite, 50, 20), None);
        assert_eq!(world.takes(&mut appetite, trust[0] - 1, 1), None, "it is trusted");
        assert_eq!(world.takes(&mut appetite, 1, 1), Some(PATIENCE[0]), "and then compared again");
        for _ in 0..10 {
            world.rests(&mut appetite, 100, 10);
            assert_eq!(world.takes(&mut appetite, 50, 20), None);
            world.pass(trust[1], 20);
            assert_eq!(world.takes(&mut appetite, 0, 0), Some(PATIENCE[0]));
        }
    }

    #[test]
    fn what_is_not_small_is_taken() {
        let (mut appetite, mut world) = begin();
        let now = world.pass(1, 1);
        let enough = 32 * WORTH[0] + WORTH[2];
        assert_eq!(appetite.digest(enough, taken(31, 0), || now), None, "too few to say something");
        assert_eq!(appetite.digest(enough, taken(1, 0), || now), None);
        assert_eq!(appetite.digest(enough, taken(32, 1), || now), Some(PATIENCE[0]));
        for _ in 0..100 {
            assert_eq!(appetite.digest(Duration::from_millis(1), taken(1, 2), || now), None, "descendants");
        }
    }
}
