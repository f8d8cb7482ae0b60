//! All ways to put jobs on nodes of two slots, each evaluated: what the average slowdown of a schedule can be, and how often.
//!
//! Listed one by one where there are not too many ([`Survey::list`]).

use super::{Error, Jobs, Natural, Slowdowns, count::Counter};

/// Ways that are listed, at most.
pub const WAYS_MAX: u64 = 300_000_000;
/// Groups of twins, at most.
pub const GROUPS_MAX: usize = 4;

/// What a set of ways has.
#[derive(Clone, Debug, PartialEq)]
pub struct Subset {
    /// How many ways.
    pub ways: u64,
    /// The smallest average slowdown of a way. Factors: 1 is no slowdown.
    pub best: f64,
    /// The mean over all ways.
    pub average: f64,
    /// The largest.
    pub worst: f64,
    /// Ways by their average slowdown, in bins of [`Survey::bin`] from 1 on.
    pub histogram: Vec<u64>,
    sum: f64,
}

impl Default for Subset {
    fn default() -> Subset {
        Subset {
            ways: 0,
            best: f64::INFINITY,
            average: f64::NAN,
            worst: f64::NEG_INFINITY,
            histogram: Vec::new(),
            sum: 0.0,
        }
    }
}

impl Subset {
    fn add(&mut self, slowdown: f64, times: u64, bin: f64) {
        if times == 0 {
            return;
        }
        self.ways += times;
        self.sum += (slowdown - 1.0) * times as f64;
        (self.best, self.worst) = (self.best.min(slowdown), self.worst.max(slowdown));
        let at = (((slowdown - 1.0) / bin).max(0.0) as usize).min(BINS_MAX);
        if self.histogram.len() <= at {
            self.histogram.resize(at + 1, 0);
        }
        self.histogram[at] += times;
    }

    fn finish(&mut self) {
        self.average = 1.0 + self.sum / self.ways as f64;
    }
}

/// Bins of a histogram, at most; what is beyond falls into the last.
const BINS_MAX: usize = 20_000;

/// All ways, and some sets of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Width of a bin of the histograms, in factors.
    pub bin: f64,
    /// All ways.
    pub all: Subset,
    /// Those without two instances of one program on a node.
    pub no_twins: Subset,
    /// The others.
    pub twins: Subset,
    /// Those without twins, if the pair that is put together last is not looked at. It is what is left over, so a program that
    /// lists ways may forget to check it: with 2 instances of each of 10 programs that gives 669,734.
    pub no_twins_but_last: Subset,
    /// The others of these.
    pub twins_before_last: Subset,
    /// For each group of programs: ways with twins of one of them.
    pub groups: Vec<Subset>,
    /// For each group: its ways, each once for every pair of such twins in it, the last pair not looked at.
    pub groups_by_pair: Vec<Subset>,
}

impl Survey {
    /// Lists all ways, in the order of the programs: the first that has an instance left gets each possible partner in turn. `groups` has
    /// the programs of each group of twins. `seen` is told the average slowdown of each way.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for more than [`WAYS_MAX`] ways or [`GROUPS_MAX`] groups.
    pub fn list(
        jobs: &Jobs,
        slowdowns: &Slowdowns,
        groups: &[Vec<usize>],
        bin: f64,
        mut seen: impl FnMut(f64),
    ) -> Result<Survey, Error> {
        let ways = Counter::default().ways(jobs, |_| true)?;
        if ways > Natural::from(WAYS_MAX) || groups.len() > GROUPS_MAX {
            return Err(Error::TooLarge {
                what: "listing all ways",
                limit: format!("{WAYS_MAX} ways or {GROUPS_MAX} groups"),
                instead: "count them without slowdowns, or give fewer jobs",
            });
        }
        let programs = jobs.programs().len();
        let mut survey = Survey::empty(bin, groups.len());
        let pairs = (0..programs).flat_map(|one| (0..programs).map(move |other| (one, other)));
        let mut group_of = vec![0u32; programs];
        for (group, members) in groups.iter().enumerate() {
            members.iter().for_each(|&program| group_of[program] |= 1 << (8 * group));
        }
        let mut listing = Listing {
            left: jobs.programs().iter().map(|program| program.instances).collect(),
            open: (jobs.total() / 2) as u32,
            costs: pairs
                .map(|(one, other)| slowdowns.of(one, other) + slowdowns.of(other, one) - 2.0)
                .collect(),
            group_of,
            found: &mut |way: &Way| {
                let average = 1.0 + way.cost / jobs.total().max(1) as f64;
                seen(average);
                survey.add(average, way);
            },
        };
        if jobs.total().is_multiple_of(2) {
            listing.go(0, 0, Way::default());
        }
        survey.finish();
        Ok(survey)
    }

    fn empty(bin: f64, groups: usize) -> Survey {
        let subset = Subset::default;
        Survey {
            bin,
            all: subset(),
            no_twins: subset(),
            twins: subset(),
            no_twins_but_last: subset(),
            twins_before_last: subset(),
            groups: vec![subset(); groups],
            groups_by_pair: vec![subset(); groups],
        }
    }

    fn add(&mut self, average: f64, way: &Way) {
        self.all.add(average, 1, self.bin);
        let has_twins = way.twins > 0 || way.is_last_twin;
        if has_twins { &mut self.twins } else { &mut self.no_twins }.add(average, 1, self.bin);
        if way.twins > 0 { &mut self.twins_before_last } else { &mut self.no_twins_but_last }
            .add(average, 1, self.bin);
        for (at, (group, by_pair)) in self.groups.iter_mut().zip(&mut self.groups_by_pair).enumerate() {
            let of = |counts: u32| u64::from(counts >> (8 * at) & 0xff);
            let pairs = of(way.by_group);
            group.add(average, u64::from(pairs + of(way.last_group) > 0), self.bin);
            by_pair.add(average, pairs, self.bin);
        }
    }

    fn finish(&mut self) {
        let subsets = [
            &mut self.all,
            &mut self.no_twins,
            &mut self.twins,
            &mut self.no_twins_but_last,
            &mut self.twins_before_last,
        ];
        subsets.into_iter().chain(&mut self.groups).chain(&mut self.groups_by_pair).for_each(Subset::finish);
    }
}

/// A way, as far as it is made.
#[derive(Clone, Copy, Default)]
struct Way {
    /// What all jobs suffer more than alone.
    cost: f64,
    /// Pairs of twins but for the last pair.
    twins: u32,
    is_last_twin: bool,
    /// Those of each group: eight bits each. No group has more than 255 in a way that is listed: there would be too many ways.
    by_group: u32,
    last_group: u32,
}

struct Listing<'a> {
    left: Vec<u32>,
    /// Pairs that are still to be made.
    open: u32,
    costs: Vec<f64>,
    group_of: Vec<u32>,
    found: &'a mut dyn FnMut(&Way),
}

impl Listing<'_> {
    /// Gives the first program with an instance left a partner; `from` is where to go on for `first`, so that no way comes twice.
    fn go(&mut self, mut first: usize, mut from: usize, way: Way) {
        while first < self.left.len() && self.left[first] == 0 {
            first += 1;
            from = first;
        }
        if first == self.left.len() {
            return (self.found)(&way);
        }
        self.left[first] -= 1;
        self.open -= 1;
        for second in from..self.left.len() {
            if self.left[second] == 0 {
                continue;
            }
            self.left[second] -= 1;
            let mut next = way;
            next.cost += self.costs[first * self.left.len() + second];
            match (first == second, self.open) {
                (false, _) => {}
                (true, 0) => {
                    next.is_last_twin = true;
                    next.last_group = self.group_of[first];
                }
                (true, _) => {
                    next.twins += 1;
                    next.by_group += self.group_of[first];
                }
            }
            self.go(first, second, next);
            self.left[second] += 1;
        }
        self.left[first] += 1;
        self.open += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(jobs: &Jobs) -> Slowdowns {
        let names = jobs.programs().iter().map(|program| program.name.clone()).collect();
        Slowdowns::from_fn(names, |one, other| 1.0 + ((one * 7 + other * 3) % 11) as f64 / 100.0)
    }

    #[test]
    fn listing_gives_the_papers_numbers() {
        let jobs = Jobs::alike(10, 2).unwrap();
        let groups = [vec![0, 1, 9], vec![2, 5, 7, 8], vec![3, 4, 6]];
        let mut ways = 0;
        let survey = Survey::list(&jobs, &costs(&jobs), &groups, 0.001, |_| ways += 1).unwrap();
        assert_eq!((ways, survey.all.ways), (1_436_714, 1_436_714));
        assert_eq!((survey.no_twins.ways, survey.twins.ways), (499_194, 937_520));
        assert_eq!((survey.no_twins_but_last.ways, survey.twins_before_last.ways), (669_734, 766_980));
        let by_pair: Vec<u64> = survey.groups_by_pair.iter().map(|group| group.ways).collect();
        assert_eq!(by_pair, [305_062, 381_989, 421_743]);
        assert_eq!(survey.all.histogram.iter().sum::<u64>(), 1_436_714);
    }

    #[test]
    fn averages_are_those_of_counting() {
        let jobs = Jobs::parse("a,3\nb,2\nc,1\nd,4").unwrap();
        let slowdowns = costs(&jobs);
        let mut counter = Counter::default();
        for may_be_twins in [true, false] {
            let survey = Survey::list(&jobs, &slowdowns, &[], 0.01, |_| {}).unwrap();
            let subset = if may_be_twins { survey.all } else { survey.no_twins };
            let ways = counter.ways(&jobs, |_| may_be_twins).unwrap();
            let mut sum = 0.0;
            let add = |one: usize, other: usize, of: &Natural| {
                sum += of.ratio(&ways) * (slowdowns.of(one, other) + slowdowns.of(other, one) - 2.0);
            };
            counter.pairs(&jobs, |_| may_be_twins, add).unwrap();
            assert_eq!(ways.to_u64(), Some(subset.ways));
            assert!((subset.average - 1.0 - sum / 10.0).abs() < 1e-12);
        }
    }
}
