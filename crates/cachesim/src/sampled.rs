//! Distances of a sample of the blocks: SHARDS (Waldspurger et al., FAST 2015) with its correction of the number of accesses.
//!
//! A block is in the sample by its hash alone, so all accesses to it are. The distance among sampled blocks, divided by the rate,
//! estimates the distance among all. Blocks fall into a few groups by another hash; each group is a sample of its own,
//! and how much their curves differ tells the error.

use crate::{Histogram, MissRatioCurve, StackDistances};

/// Groups whose curves are compared.
const GROUPS: usize = 8;
/// Sizes that hold fewer blocks of the sample are not told apart.
const SAMPLED_MIN: f64 = 2.0;

/// Distances of sampled blocks.
#[derive(Clone, Debug)]
pub struct Sampled {
    threshold: u32,
    rate: f64,
    distances: StackDistances,
    groups: [StackDistances; GROUPS],
    whole: Histogram,
    parts: [Histogram; GROUPS],
    accesses: u64,
}

/// A rate outside 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a sample of {0} of the blocks cannot be taken: give a rate above 0 and up to 1")]
pub struct RateError(pub f64);

impl Sampled {
    /// A sample of this part of the blocks.
    ///
    /// # Errors
    /// The rate is not above 0 and at most 1.
    pub fn new(rate: f64) -> Result<Sampled, RateError> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(RateError(rate));
        }
        let threshold = (rate * f64::from(u32::MAX)).ceil() as u32;
        Ok(Sampled {
            threshold,
            rate: f64::from(threshold) / f64::from(u32::MAX),
            distances: StackDistances::new(),
            groups: std::array::from_fn(|_| StackDistances::new()),
            whole: Histogram::default(),
            parts: std::array::from_fn(|_| Histogram::default()),
            accesses: 0,
        })
    }

    /// Whether accesses to the block count at this rate: an observer may leave out those that don't, and say with
    /// [`Sampled::pass`] how many there were.
    #[inline]
    pub fn takes(&self, block: u64) -> bool {
        sampling_hash(block) <= self.threshold
    }

    /// The next access.
    #[inline]
    pub fn access(&mut self, block: u64) {
        self.accesses += 1;
        if self.takes(block) {
            self.take(block);
        }
    }

    /// So many accesses to blocks that are not in the sample.
    pub fn pass(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// The largest hash of a block in the sample, for observers that leave out the others.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Distinct blocks, estimated.
    pub fn blocks(&self) -> u64 {
        (self.distances.blocks() as f64 / self.rate) as u64
    }

    fn take(&mut self, block: u64) {
        let scaled = |distance: Option<u64>, rate: f64| distance.map(|blocks| (blocks as f64 / rate) as u64);
        let distance = scaled(self.distances.access(block), self.rate);
        self.whole.add_weighted(distance, 1.0 / self.rate);
        let group = (hash(block) >> 61) as usize % GROUPS;
        let rate = self.rate / GROUPS as f64;
        let distance = scaled(self.groups[group].access(block), rate);
        self.parts[group].add_weighted(distance, 1.0 / rate);
    }

    /// The estimated histogram. The sample has more or fewer accesses than its rate promises; the difference is put where most
    /// of it comes from, into the smallest distances.
    pub fn histogram(&self) -> Histogram {
        corrected(&self.whole, self.accesses as f64)
    }

    /// The estimated curve's standard error: the largest one over all cache sizes that the sample can tell apart.
    pub fn error(&self) -> f64 {
        let groups = self.groups();
        let sizes = groups.curves.iter().flat_map(|curve| curve.corners().iter().map(|(size, _)| *size));
        let told_apart = sizes.filter(|size| *size >= SAMPLED_MIN / self.rate);
        told_apart.map(|size| groups.standard_error(size)).fold(0.0, f64::max)
    }

    /// What the groups say, each of which is a sample of its own.
    pub fn groups(&self) -> Groups {
        let of = |part| MissRatioCurve::of(&corrected(part, self.accesses as f64));
        Groups { curves: self.parts.iter().map(of).collect(), rate: self.rate }
    }

    /// Memory held. Bytes.
    pub fn bytes(&self) -> usize {
        self.distances.bytes() + self.groups.iter().map(StackDistances::bytes).sum::<usize>()
    }
}

/// Curves of the groups of a sample: how far they lie apart tells how far off the whole sample's curve is.
#[derive(Clone, Debug)]
pub struct Groups {
    curves: Vec<MissRatioCurve>,
    rate: f64,
}

impl Groups {
    /// The standard error of the sample's miss ratio in a cache of so many blocks. A sample of all blocks has none.
    pub fn standard_error(&self, blocks: f64) -> f64 {
        let count = GROUPS as f64;
        let at: Vec<f64> = self.curves.iter().map(|curve| curve.at(blocks)).collect();
        let mean = at.iter().sum::<f64>() / count;
        let squares: f64 = at.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        (squares / (count * (count - 1.0)) * (1.0 - self.rate)).sqrt()
    }
}

fn corrected(histogram: &Histogram, accesses: f64) -> Histogram {
    let mut histogram = histogram.clone();
    let missing = accesses - histogram.accesses();
    histogram.add_weighted(Some(0), missing);
    histogram
}

/// Decides whether a block is in a sample: Murmur3's finishing step for 32 bits, of which an observer does eight at a time.
#[inline]
fn sampling_hash(block: u64) -> u32 {
    let mixed = block as u32 ^ ((block >> 32) as u32).wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

/// Spreads neighbouring blocks over all numbers (the finishing step of splitmix64).
#[inline]
fn hash(block: u64) -> u64 {
    let mixed = (block ^ (block >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
