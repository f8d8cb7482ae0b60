//! Counts all ways to put jobs on nodes of two slots, without listing them.
//!
//! Neither nodes nor instances of a program are told apart, so a way is a multiset of pairs of programs: a graph on the programs
//! with as many edge ends at each as it has instances, where edges may be double and may be loops (twins). The number depends only
//! on how many programs have how many ends left, so there are few states, each counted once.

use super::{Error, Jobs, Natural};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// States that are counted, at most.
pub const STATES_MAX: usize = 2_000_000;
/// Programs of which ways are counted, at most: one level of calls each.
pub const PROGRAMS_MAX: usize = 1_000;

/// Programs that are alike for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Class {
    /// Jobs that have no partner yet.
    left: u32,
    /// Whether two of them may be partners.
    may_be_twins: bool,
}

/// How many programs of each class there are, ascending by class.
type State = Vec<(Class, u32)>;

/// Counts ways to pair jobs. Keeps what it has counted, so that similar questions cost little.
#[derive(Debug, Default)]
pub struct Counter {
    known: HashMap<State, Natural>,
    /// Binomial coefficients: row by row of Pascal's triangle.
    choices: Vec<Vec<Natural>>,
}

impl Counter {
    /// Ways to put the jobs on nodes in pairs; programs for which `may_be_twins` says no have no two instances on one node. With an
    /// odd number of jobs there is none: add a program without work.
    ///
    /// ```
    /// use castell_policy::placement::{Jobs, count::Counter};
    ///
    /// let (jobs, mut counter) = (Jobs::alike(10, 2).unwrap(), Counter::default());
    /// assert_eq!(counter.ways(&jobs, |_| true).unwrap().to_string(), "1436714");
    /// assert_eq!(counter.ways(&jobs, |_| false).unwrap().to_string(), "499194");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] above [`STATES_MAX`] states or [`PROGRAMS_MAX`] programs.
    pub fn ways(&mut self, jobs: &Jobs, may_be_twins: impl Fn(usize) -> bool) -> Result<Natural, Error> {
        let left = jobs.programs().iter().map(|program| program.instances);
        self.ways_of(left.enumerate().map(|(program, left)| (left, may_be_twins(program))))
    }

    /// Over all ways, the sum of how often each pair of programs is in them: `pairs(p, q, sum)` for p ≤ q, p before q in the
    /// list. Divided by [`Counter::ways`] it is how often a way has that pair on average.
    ///
    /// # Errors
    ///
    /// As [`Counter::ways`].
    pub fn pairs(
        &mut self,
        jobs: &Jobs,
        may_be_twins: impl Fn(usize) -> bool,
        mut pair: impl FnMut(usize, usize, &Natural),
    ) -> Result<(), Error> {
        let class = |program: usize| Class {
            left: jobs.programs()[program].instances,
            may_be_twins: may_be_twins(program),
        };
        let programs = jobs.programs().len();
        let mut all = BTreeMap::new();
        (0..programs).for_each(|program| *all.entry(class(program)).or_insert(0) += 1);
        let mut known: HashMap<(Class, Class, bool), Natural> = HashMap::new();
        for first in 0..programs {
            for second in first..programs {
                let (one, other) = (class(first).min(class(second)), class(first).max(class(second)));
                let key = (one, other, first == second);
                let sum = match known.entry(key) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        entry.insert(self.with_pair(&all, one, other, first == second)?)
                    }
                };
                pair(first, second, sum);
            }
        }
        Ok(())
    }

    /// Sum over m ≥ 1 of the ways that have a pair at least m times: what is left when m of it are taken out.
    fn with_pair(
        &mut self,
        all: &BTreeMap<Class, u32>,
        one: Class,
        other: Class,
        is_twin: bool,
    ) -> Result<Natural, Error> {
        let mut sum = Natural::default();
        if is_twin && !one.may_be_twins {
            return Ok(sum);
        }
        let times = if is_twin { one.left / 2 } else { one.left.min(other.left) };
        for taken in 1..=times {
            let mut rest = all.clone();
            let mut shrink = |class: Class, by: u32| {
                *rest.get_mut(&class).expect("a program is of its class") -= 1;
                *rest.entry(Class { left: class.left - by, ..class }).or_insert(0) += 1;
            };
            if is_twin {
                shrink(one, 2 * taken);
            } else {
                shrink(one, taken);
                shrink(other, taken);
            }
            sum.add(&self.count(tidy(rest))?);
        }
        Ok(sum)
    }

    /// Ways for programs that have so many jobs left, and may be twins or not.
    pub(super) fn ways_of(
        &mut self,
        programs: impl IntoIterator<Item = (u32, bool)>,
    ) -> Result<Natural, Error> {
        let mut state = BTreeMap::new();
        for (left, may_be_twins) in programs {
            *state.entry(Class { left, may_be_twins }).or_insert(0) += 1;
        }
        self.count(tidy(state))
    }

    fn count(&mut self, state: State) -> Result<Natural, Error> {
        let jobs: u64 = state.iter().map(|(class, programs)| u64::from(class.left * programs)).sum();
        let programs: u64 = state.iter().map(|(_, programs)| u64::from(*programs)).sum();
        match jobs {
            0 => return Ok(Natural::from(1)),
            odd if odd % 2 == 1 => return Ok(Natural::default()),
            _ => {}
        }
        if programs > PROGRAMS_MAX as u64 {
            return Err(Error::TooLarge {
                what: "counting all ways",
                limit: format!("{PROGRAMS_MAX} programs"),
                instead: "leave programs out",
            });
        }
        if let Some(known) = self.known.get(&state) {
            return Ok(known.clone());
        }
        if self.known.len() >= STATES_MAX {
            return Err(Error::TooLarge {
                what: "counting all ways",
                limit: format!("{STATES_MAX} steps"),
                instead: "give fewer programs or instances",
            });
        }
        let number = self.count_by_partners(&state)?;
        self.known.insert(state, number.clone());
        Ok(number)
    }

    /// Gives one program of the last class its partners in all ways, and counts the ways for the rest.
    fn count_by_partners(&mut self, state: &State) -> Result<Natural, Error> {
        let mut rest = state.clone();
        let (class, programs) = rest.last_mut().expect("there are jobs");
        let class = *class;
        *programs -= 1;
        rest.retain(|(_, programs)| *programs > 0);
        let twins_max = if class.may_be_twins { class.left / 2 } else { 0 };
        let mut number = Natural::default();
        for twins in 0..=twins_max {
            let mut ends = BTreeMap::new();
            ends.insert((Vec::new(), class.left - 2 * twins), Natural::from(1));
            for &(class, programs) in &rest {
                let mut next = BTreeMap::new();
                for ((state, open), ways) in ends {
                    self.spread(class, programs, open, (state, ways), &mut next);
                }
                ends = next;
            }
            for ((state, open), ways) in ends {
                if open == 0 {
                    let state = state.into_iter().fold(BTreeMap::new(), |mut state, (class, programs)| {
                        *state.entry(class).or_insert(0) += programs;
                        state
                    });
                    number.add(&ways.times(&self.count(tidy(state))?));
                }
            }
        }
        Ok(number)
    }

    /// All ways to give up to `open` partners from programs of one class: into `ends`, what is left of the class, how many
    /// partners are still open, and how many ways lead there.
    fn spread(
        &mut self,
        class: Class,
        programs: u32,
        open: u32,
        (before, ways): (State, Natural),
        ends: &mut BTreeMap<(State, u32), Natural>,
    ) {
        // How many programs give how many partners each, most first.
        let mut choices = vec![(before, programs, open, ways)];
        for partners in (1..=class.left).rev() {
            let mut next = Vec::new();
            for (state, programs, open, ways) in choices {
                for givers in 0..=programs.min(open / partners) {
                    let ways = ways.times(&self.choose(programs, givers));
                    let mut state = state.clone();
                    if givers > 0 && partners < class.left {
                        state.push((Class { left: class.left - partners, ..class }, givers));
                    }
                    next.push((state, programs - givers, open - givers * partners, ways));
                }
            }
            choices = next;
        }
        for (mut state, programs, open, ways) in choices {
            if programs > 0 {
                state.push((class, programs));
            }
            ends.entry((state, open)).or_default().add(&ways);
        }
    }

    /// How many sets of `chosen` there are among `all`.
    fn choose(&mut self, all: u32, chosen: u32) -> Natural {
        while self.choices.len() <= all as usize {
            let one = Natural::from(1);
            let row = match self.choices.last() {
                None => vec![one],
                Some(above) => {
                    let inner = above.windows(2).map(|two| {
                        let mut sum = two[0].clone();
                        sum.add(&two[1]);
                        sum
                    });
                    [one.clone()].into_iter().chain(inner).chain([one.clone()]).collect()
                }
            };
            self.choices.push(row);
        }
        self.choices[all as usize][chosen as usize].clone()
    }
}

/// Without programs that have no jobs left, and without empty classes.
fn tidy(state: BTreeMap<Class, u32>) -> State {
    state.into_iter().filter(|(class, programs)| class.left > 0 && *programs > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All ways, by listing them: the first job that has no partner gets each in turn.
    fn listed(left: &mut Vec<u32>, may_be_twins: &[bool], from: (usize, usize)) -> u64 {
        let Some(first) = left.iter().position(|&left| left > 0) else { return 1 };
        let start = if from.0 == first { from.1 } else { first };
        left[first] -= 1;
        let mut ways = 0;
        for second in start..left.len() {
            if left[second] > 0 && (second != first || may_be_twins[first]) {
                left[second] -= 1;
                ways += listed(left, may_be_twins, (first, second));
                left[second] += 1;
            }
        }
        left[first] += 1;
        ways
    }

    fn jobs(instances: &[u32]) -> Jobs {
        let program =
            |(at, &instances): (usize, &u32)| super::super::Program { name: format!("{at}"), instances };
        Jobs::new(instances.iter().enumerate().map(program)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn counting_is_listing(programs in proptest::collection::vec((1u32..5, any::<bool>()), 0..6)) {
            let (mut left, twins): (Vec<u32>, Vec<bool>) = programs.into_iter().unzip();
            let jobs = jobs(&left);
            let counted = Counter::default().ways(&jobs, |program| twins[program]).unwrap();
            prop_assert_eq!(counted, Natural::from(listed(&mut left, &twins, (usize::MAX, 0))));
        }

        #[test]
        fn every_way_has_all_jobs_in_pairs(instances in proptest::collection::vec(1u32..4, 1..6), twins: bool) {
            let jobs = jobs(&instances);
            let mut counter = Counter::default();
            let ways = counter.ways(&jobs, |_| twins).unwrap();
            let mut sums = vec![Natural::default(); instances.len()];
            counter.pairs(&jobs, |_| twins, |one, other, sum| {
                sums[one].add(sum);
                sums[other].add(sum);
            }).unwrap();
            for (program, sum) in sums.iter().enumerate() {
                let expected = ways.times(&Natural::from(u64::from(instances[program])));
                prop_assert_eq!(sum, &expected);
            }
        }
    }

    #[test]
    fn a_hundred_programs_are_counted_exactly() {
        let mut counter = Counter::default();
        // Loops and double edges apart, 2-regular graphs on labelled vertices: a(n) follows from a(n-1), a(n-2), a(n-3).
        let without_twins = |n: u64| {
            let mut a = [1u64, 0, 1, 1].map(Natural::from).to_vec();
            for k in 4..=n {
                let product = |factor: u64, at: u64| a[at as usize].times(&Natural::from(factor));
                let mut sum = product(k - 1, k - 1);
                sum.add(&product(k - 1, k - 2));
                let half = product((k - 1) * (k - 2) / 2, k - 3);
                a.push(sum.minus(&half).expect("counts are no less than nothing"));
            }
            a[n as usize].clone()
        };
        for programs in [10, 11, 100] {
            let jobs = Jobs::alike(programs, 2).unwrap();
            assert_eq!(counter.ways(&jobs, |_| false).unwrap(), without_twins(u64::from(programs)));
        }
    }
}
