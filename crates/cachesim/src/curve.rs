//! Miss ratios of caches of every size, read off distances.

use crate::Histogram;

/// What part of the accesses misses in a fully associative cache that drops the least recently used block, for every size.
///
/// ```
/// use castell_cachesim::{Histogram, MissRatioCurve};
///
/// let mut histogram = Histogram::default();
/// for distance in [None, None, Some(1), Some(1)] {
///     histogram.add(distance);
/// }
/// let curve = MissRatioCurve::of(&histogram);
/// assert_eq!((curve.at(1.0), curve.at(2.0)), (1.0, 0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatioCurve {
    /// Sizes from which on the ratio holds, in blocks, ascending; the first is 0.
    steps: Vec<(f64, f64)>,
}

impl MissRatioCurve {
    /// The curve of a histogram; of one without accesses, nothing misses.
    pub fn of(histogram: &Histogram) -> MissRatioCurve {
        let all = histogram.accesses();
        if all <= 0.0 {
            return MissRatioCurve { steps: vec![(0.0, 0.0)] };
        }
        let mut steps = vec![(0.0, 1.0)];
        let mut hits = 0.0;
        for bucket in histogram.buckets() {
            // Within a bucket distances are taken to be spread evenly.
            steps.push((bucket.from as f64, 1.0 - hits / all));
            hits += bucket.accesses;
            steps.push((bucket.to as f64, (1.0 - hits / all).max(0.0)));
        }
        MissRatioCurve { steps }
    }

    /// The curve of a loop over so many blocks, again and again: everything misses in a cache of less, nothing in others.
    pub fn cyclic(blocks: f64) -> MissRatioCurve {
        MissRatioCurve { steps: vec![(0.0, 1.0), (blocks, 1.0), (blocks, 0.0)] }
    }

    /// The miss ratio of a cache of so many blocks.
    pub fn at(&self, blocks: f64) -> f64 {
        let behind = self.steps.partition_point(|(size, _)| *size <= blocks);
        let Some(before) = behind.checked_sub(1).map(|at| self.steps[at]) else { return 1.0 };
        let Some(next) = self.steps.get(behind) else { return before.1 };
        let way = (blocks - before.0) / (next.0 - before.0);
        before.1 + (next.1 - before.1) * way
    }

    /// The corners of the curve: sizes in blocks, and ratios. Between them it is straight.
    pub fn corners(&self) -> &[(f64, f64)] {
        &self.steps
    }

    /// The largest difference to another curve, at a size where either has a corner.
    pub fn distance_to(&self, other: &MissRatioCurve) -> f64 {
        let sizes = self.steps.iter().chain(&other.steps).map(|(size, _)| *size);
        sizes.map(|size| (self.at(size) - other.at(size)).abs()).fold(0.0, f64::max)
    }
}
