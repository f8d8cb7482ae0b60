//! How many cores of a node each of two programs should get.

use super::Error;

/// Cores of a program, at most.
const CORES_MAX: u32 = 65_536;

/// How long a program takes on how many cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Cores and seconds, ascending by cores.
    points: Vec<(u32, f64)>,
}

/// One way to share a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Cores of the first program; the second has the others.
    pub cores: u32,
    /// Seconds that each takes there.
    pub seconds: [f64; 2],
    /// Each program's best time on the whole node, divided by its time here.
    pub efficiency: [f64; 2],
}

impl Share {
    /// What both do together, where 1 is what the node does when one has it after the other, each at its best (Weidendorfer and
    /// Breitbart, COSH 2016, figure 1).
    pub fn combined(&self) -> f64 {
        self.efficiency[0] + self.efficiency[1]
    }
}

impl Curve {
    /// Reads `CORES,SECONDS` lines. Empty lines, those that begin with `#`, and a first line of words are left out.
    ///
    /// ```
    /// use castell_policy::placement::{Curve, shares};
    ///
    /// let saturated = Curve::parse("cores,seconds\n1,8\n2,4\n3,4\n4,4").unwrap();
    /// let parallel = Curve::parse("1,8\n2,4\n3,2.7\n4,2").unwrap();
    /// let best = shares(&saturated, &parallel, 4).into_iter().max_by(|a, b| a.combined().total_cmp(&b.combined()));
    /// assert_eq!(best.unwrap().cores, 2);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Curve`] with the first line that is wrong, and for less than one line.
    pub fn parse(text: &str) -> Result<Curve, Error> {
        let mut points: Vec<(u32, f64)> = Vec::new();
        let mut is_first = true;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let is_header =
                std::mem::take(&mut is_first) && line.starts_with(|first: char| first.is_alphabetic());
            if is_header {
                continue;
            }
            let wrong = || Error::Curve { line: at + 1, reason: format!("{line:?} is no CORES,SECONDS") };
            let (cores, seconds) = line.split_once(',').ok_or_else(wrong)?;
            let cores = cores.trim().parse().ok().filter(|cores| (1..=CORES_MAX).contains(cores));
            let seconds = seconds.trim().parse().ok().filter(|seconds| (1e-12..1e12).contains(seconds));
            let (cores, seconds) = cores.zip(seconds).ok_or_else(wrong)?;
            if points.iter().any(|point| point.0 == cores) {
                return Err(Error::Curve {
                    line: at + 1,
                    reason: format!("a second line for {cores} cores"),
                });
            }
            points.push((cores, seconds));
        }
        if points.is_empty() {
            return Err(Error::Curve { line: 1, reason: "there is no line CORES,SECONDS".into() });
        }
        points.sort_unstable_by_key(|point| point.0);
        Ok(Curve { points })
    }

    /// Seconds on so many cores: straight between neighbouring points; `None` outside of them.
    pub fn at(&self, cores: u32) -> Option<f64> {
        let behind = self.points.partition_point(|point| point.0 < cores);
        let next = self.points.get(behind)?;
        if next.0 == cores {
            return Some(next.1);
        }
        let before = self.points[..behind].last()?;
        let way = f64::from(cores - before.0) / f64::from(next.0 - before.0);
        Some(before.1 + (next.1 - before.1) * way)
    }

    /// The most cores that it knows.
    pub fn cores_max(&self) -> u32 {
        self.points.last().map_or(0, |point| point.0)
    }

    /// The shortest time on at most so many cores.
    fn best(&self, cores: u32) -> Option<f64> {
        let times = (1..=cores).filter_map(|cores| self.at(cores));
        times.min_by(f64::total_cmp)
    }
}

/// All ways to share so many cores that both curves know, ascending by the first one's.
pub fn shares(first: &Curve, second: &Curve, cores: u32) -> Vec<Share> {
    let cores = cores.min(CORES_MAX);
    let (Some(one), Some(other)) = (first.best(cores), second.best(cores)) else { return Vec::new() };
    let of = |mine: u32| {
        let seconds = [first.at(mine)?, second.at(cores - mine)?];
        Some(Share { cores: mine, seconds, efficiency: [one / seconds[0], other / seconds[1]] })
    };
    (1..cores).filter_map(of).collect()
}
