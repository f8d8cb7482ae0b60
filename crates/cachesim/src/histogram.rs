//! Distances counted in buckets.

/// Buckets between a power of two and the next.
const PER_OCTAVE: usize = 16;
/// Distances below this have a bucket each.
const EXACT: u64 = PER_OCTAVE as u64;

/// How many accesses had which distance. Exact below 16 blocks, then 16 buckets from each power of two to the next, so that a
/// bucket is at most a sixteenth of its distance wide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    buckets: Vec<f64>,
    first: f64,
}

/// A bucket that something fell into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The smallest distance in it. Blocks.
    pub from: u64,
    /// Behind the largest one. Blocks.
    pub to: u64,
    /// Accesses; of a sample, as many as each stands for.
    pub accesses: f64,
}

impl Histogram {
    /// Counts an access; `None`: the first of its block.
    #[inline(always)]
    pub fn add(&mut self, distance: Option<u64>) {
        self.add_weighted(distance, 1.0);
    }

    /// Counts an access that stands for `weight` ones.
    #[inline(always)]
    pub fn add_weighted(&mut self, distance: Option<u64>, weight: f64) {
        let Some(distance) = distance else {
            self.first += weight;
            return;
        };
        let bucket = bucket_of(distance);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0.0);
        }
        self.buckets[bucket] += weight;
    }

    /// Adds another one's counts.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0.0);
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.first += other.first;
    }

    /// What was counted since an earlier state of this histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0.0));
        let buckets = self.buckets.iter().zip(before).map(|(now, before)| (now - before).max(0.0));
        Histogram { buckets: buckets.collect(), first: (self.first - earlier.first).max(0.0) }
    }

    /// Accesses counted.
    pub fn accesses(&self) -> f64 {
        self.buckets.iter().sum::<f64>() + self.first
    }

    /// Accesses to blocks that were not touched before: they miss in every cache.
    pub fn first_accesses(&self) -> f64 {
        self.first
    }

    /// The buckets that hold something, by distance.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let holding = self.buckets.iter().enumerate().filter(|(_, accesses)| **accesses != 0.0);
        holding.map(|(at, accesses)| Bucket { from: start_of(at), to: start_of(at + 1), accesses: *accesses })
    }
}

#[inline(always)]
fn bucket_of(distance: u64) -> usize {
    if distance < EXACT {
        return distance as usize;
    }
    let octave = distance.ilog2();
    let inside = (distance >> (octave - PER_OCTAVE.ilog2())) as usize - PER_OCTAVE;
    (octave - PER_OCTAVE.ilog2() + 1) as usize * PER_OCTAVE + inside
}

fn start_of(bucket: usize) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket as u64;
    }
    let (octave, inside) = (bucket / PER_OCTAVE - 1, bucket % PER_OCTAVE);
    ((PER_OCTAVE + inside) as u64) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_lies_in_its_bucket_and_buckets_are_narrow() {
        let near = |power: u32| [-1i64, 0, 1].map(|step| (1u64 << power).wrapping_add_signed(step));
        for distance in (0..5000).chain((6..60).flat_map(near)) {
            let (from, to) = (start_of(bucket_of(distance)), start_of(bucket_of(distance) + 1));
            assert!((from..to).contains(&distance), "{distance} in {from}..{to}");
            assert!((to - from) * EXACT <= from.max(EXACT), "{from}..{to}");
        }
    }
}
