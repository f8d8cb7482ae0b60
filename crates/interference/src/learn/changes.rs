//! Paces around changes.
//!
//! On a shared machine paces that are minutes apart differ by more than neighbours cost. So a pace is compared only with that of the
//! same program a few seconds before, when exactly one neighbour more, less or another was there.

use std::collections::{BTreeMap, VecDeque};

/// What compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// Looks that a window lasts, before the change and after it.
    pub width: usize,
    /// Looks after it that do not count: caches take a while to be as they will be.
    pub settle: usize,
    /// Looks further apart than that are not of one story: the machine slept, or the clock was set. Seconds.
    pub gap_s_max: f64,
}

impl Default for Windows {
    /// For looks a second apart.
    fn default() -> Windows {
        Windows { width: 3, settle: 1, gap_s_max: 3.0 }
    }
}

/// A session that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Its number, or another one that is its own.
    pub session: u64,
    /// The program that it runs.
    pub program: String,
    /// What it has done so far: instructions, or something else that goes on as its work does.
    pub work: f64,
    /// For how long it has had processors so far. Seconds, of all threads.
    pub cpu_s: f64,
}

/// How much slower a program was beside a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The program.
    pub program: String,
    /// The neighbour that came or went.
    pub neighbour: String,
    /// Who went when it came, if somebody did: on a busy node the next one starts when another has ended.
    pub instead_of: Option<String>,
    /// Its pace without the neighbour, or with whom it came instead of, by that with it.
    pub slowdown: f64,
    /// Sessions that were there all the time besides these two.
    pub others: usize,
}

/// A program that has processors for less of a window has no pace.
const BUSY_MIN: f64 = 0.1;
/// Paces within one window that differ by more are another phase of the program, not a neighbour.
const STEADY: f64 = 1.5;

/// Looks at the sessions of a node, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    windows: Windows,
    moments: VecDeque<Moment>,
}

#[derive(Clone, Debug)]
struct Moment {
    at_s: f64,
    looks: BTreeMap<u64, Look>,
}

impl Changes {
    /// Nothing was looked at yet.
    pub fn new(windows: Windows) -> Changes {
        Changes { windows, moments: VecDeque::new() }
    }

    /// Takes the sessions that run (those that stand still do not), and says what follows from a change some looks ago, if there was one.
    pub fn look(&mut self, at_s: f64, looks: impl IntoIterator<Item = Look>) -> Vec<Observation> {
        let gap = self.moments.back().map_or(0.0, |last| at_s - last.at_s);
        if !(0.0..=self.windows.gap_s_max).contains(&gap) {
            self.moments.clear();
        }
        let looks = looks.into_iter().map(|look| (look.session, look)).collect();
        self.moments.push_back(Moment { at_s, looks });
        if self.moments.len() > self.before() + self.windows.settle + self.before() {
            self.moments.pop_front();
        }
        self.observations().unwrap_or_default()
    }

    /// Looks of a window: its ends included.
    fn before(&self) -> usize {
        self.windows.width + 1
    }

    fn observations(&self) -> Option<Vec<Observation>> {
        let window = self.before();
        if self.moments.len() < window + self.windows.settle + window {
            return None;
        }
        let (before, after) = (&self.moments[0], &self.moments[self.moments.len() - 1]);
        // Whoever is there in the one and not in the other: at most one each way.
        let mut came = after.looks.keys().filter(|session| !before.looks.contains_key(session));
        let mut went = before.looks.keys().filter(|session| !after.looks.contains_key(session));
        let (neighbour, instead_of, has_come) = match (came.next(), went.next()) {
            (Some(session), None) => (&after.looks[session], None, true),
            (None, Some(session)) => (&before.looks[session], None, false),
            (Some(session), Some(other)) => (&after.looks[session], Some(&before.looks[other]), true),
            (None, None) => return None,
        };
        let is_one = came.next().is_none() && went.next().is_none();
        let same = |from: usize, to: usize, as_in: &Moment| {
            self.moments.range(from..to).all(|moment| moment.looks.keys().eq(as_in.looks.keys()))
        };
        let length = self.moments.len();
        if !is_one || !same(0, window, before) || !same(window, length, after) {
            return None;
        }
        let stay = before.looks.keys().filter(|session| after.looks.contains_key(session));
        let of = |session: &u64| {
            let paces = [self.pace(*session, 0, window)?, self.pace(*session, length - window, length)?];
            let slowdown = if has_come { paces[0] / paces[1] } else { paces[1] / paces[0] };
            let program = after.looks[session].program.clone();
            let others = after.looks.len() - 1 - usize::from(has_come);
            // An `exec` in between: two programs cannot be compared.
            (program == before.looks[session].program).then(|| Observation {
                program,
                neighbour: neighbour.program.clone(),
                instead_of: instead_of.map(|other| other.program.clone()),
                slowdown,
                others,
            })
        };
        Some(stay.filter_map(of).collect())
    }

    /// Work a second of processors in a window; none if the program waits, or its pace changes by itself.
    fn pace(&self, session: u64, from: usize, to: usize) -> Option<f64> {
        let moments: Vec<(f64, &Look)> =
            self.moments.range(from..to).map(|moment| (moment.at_s, &moment.looks[&session])).collect();
        let between = |one: &(f64, &Look), other: &(f64, &Look)| {
            let (seconds, cpu_s) = (other.0 - one.0, other.1.cpu_s - one.1.cpu_s);
            let pace = (other.1.work - one.1.work) / cpu_s;
            (cpu_s >= BUSY_MIN * seconds && pace > 0.0 && pace.is_finite()).then_some(pace)
        };
        let whole = between(&moments[0], &moments[moments.len() - 1])?;
        let is_steady = moments.windows(2).all(|two| {
            between(&two[0], &two[1]).is_some_and(|pace| (whole / STEADY..=whole * STEADY).contains(&pace))
        });
        is_steady.then_some(whole)
    }
}
