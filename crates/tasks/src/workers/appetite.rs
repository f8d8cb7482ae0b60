//! Whether it pays that an idle worker takes tasks from others.
//!
//! A task that runs elsewhere than where it was created costs a few hundred nanoseconds for it, since its record moves from one
//! cache to the other and its memory back. Where tasks are shorter than that, all is over sooner if their creator runs them.
//! So a worker compares what it has done with how many tasks of bodies that are awake elsewhere it needed for that, and if
//! these were small, lets others alone for a while: a short one first, twice as long each time that it was so again.

use std::time::{Duration, Instant};

/// Tasks of others to look at before it decides.
const ENOUGH: u64 = 32;
/// What it costs to move a task, and so how long one has to keep another worker busy to be worth it; what each access adds; and
/// what it costs each time that a worker had nothing to do and is given something, however much.
const WORTH: [Duration; 3] = [Duration::from_nanos(600), Duration::from_nanos(400), Duration::from_micros(1)];
/// For how long others are let alone at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(2)];

/// Tasks of bodies that are awake elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) tasks: u64,
    /// How many accesses they have.
    pub(crate) accesses: u64,
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

impl Appetite {
    pub(super) fn new() -> Appetite {
        Appetite {
            since: None,
            busy: Duration::ZERO,
            taken: Taken::default(),
            times: 0,
            patience: PATIENCE[0],
        }
    }

    /// The worker, which had nothing to do, has something; so much it has taken until now.
    pub(super) fn begins(&mut self, taken: Taken) {
        self.since = Some((Instant::now(), taken));
    }

    /// The worker has nothing to do, and has taken so much until now; for how long it should let others alone, if so.
    pub(super) fn ends(&mut self, taken: Taken) -> Option<Duration> {
        let (since, before) = self.since.take()?;
        self.digest(since.elapsed(), taken.minus(before))
    }

    fn digest(&mut self, busy: Duration, taken: Taken) -> Option<Duration> {
        self.busy += busy;
        self.taken = self.taken.plus(taken);
        self.times += 1;
        if self.taken.tasks < ENOUGH {
            return None;
        }
        let (busy, taken) = (std::mem::take(&mut self.busy), std::mem::take(&mut self.taken));
        if busy.as_nanos() >= taken.worth_ns(std::mem::take(&mut self.times)) {
            self.patience = PATIENCE[0];
            return None;
        }
        let patience = self.patience;
        self.patience = (2 * patience).min(PATIENCE[1]);
        Some(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tasks: u64, accesses: u64) -> Taken {
        Taken { tasks, accesses }
    }

    #[test]
    fn small_tasks_are_left_to_their_creator_for_longer_and_longer() {
        let mut appetite = Appetite::new();
        let small = Duration::from_micros(3);
        assert_eq!(appetite.digest(small, taken(31, 0)), None, "too few to say something");
        assert_eq!(appetite.digest(small, taken(1, 0)), Some(PATIENCE[0]));
        assert_eq!(appetite.digest(small, taken(32, 0)), Some(2 * PATIENCE[0]));
        (0..10).for_each(|_| assert!(appetite.digest(small, taken(100, 0)).is_some()));
        assert_eq!(appetite.digest(small, taken(100, 0)), Some(PATIENCE[1]));
        let enough = 32 * WORTH[0] + WORTH[2];
        assert_eq!(appetite.digest(enough, taken(32, 0)), None, "these were worth it");
        assert_eq!(appetite.digest(enough, taken(32, 1)), Some(PATIENCE[0]));
    }

    #[test]
    fn one_task_with_many_descendants_is_worth_it() {
        let mut appetite = Appetite::new();
        for _ in 0..100 {
            assert_eq!(appetite.digest(Duration::from_millis(1), taken(1, 2)), None);
        }
    }
}
