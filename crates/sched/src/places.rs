//! Where data was written last: which bytes to remember of a region, and what follows from what is remembered.
//!
//! Remembering every byte would cost more than a hint is worth. So of each region a few addresses are remembered: the
//! multiples of a power of two that is about a quarter of its length. The multiples of the larger of two such powers are
//! among those of the smaller: so a region finds what a larger or a smaller one, that it is part of or contains, has left
//! behind, up to about a quarter or four times its length.

/// The addresses that stand for a region: at least one, at most eight, each for as many of its bytes.
///
/// ```
/// use castell_sched::places::samples;
/// assert_eq!(samples(4096, 4096).collect::<Vec<_>>(), [4096, 5120, 6144, 7168]);
/// assert_eq!(samples(7, 1).collect::<Vec<_>>(), [7]);
/// ```
pub fn samples(start: usize, length: usize) -> impl Iterator<Item = usize> {
    let length = length.max(1);
    let stride = if length < 8 { 1 } else { 1 << (length.ilog2() - 2) };
    let last = start.saturating_add(length - 1);
    let first = start.checked_next_multiple_of(stride).filter(|&first| first <= last).unwrap_or(start);
    // Fewer than eight bytes are told by their first.
    let end = if length < 8 { first } else { last };
    (first..=end).step_by(stride)
}

/// How many different NUMA nodes a vote tells apart; further ones do not count.
const CANDIDATES: usize = 8;

/// Bytes by the NUMA node that wrote them last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    bytes: [(usize, u64); CANDIDATES],
    candidates: usize,
}

impl Vote {
    /// No byte is known.
    pub fn new() -> Vote {
        Vote::default()
    }

    /// So many bytes were written last on `numa`.
    pub fn add(&mut self, numa: usize, bytes: u64) {
        let known = self.bytes[..self.candidates].iter_mut().find(|(candidate, _)| *candidate == numa);
        if let Some((_, sum)) = known {
            *sum += bytes;
        } else if self.candidates < CANDIDATES {
            self.bytes[self.candidates] = (numa, bytes);
            self.candidates += 1;
        }
    }

    /// The node that wrote most; of several, the first that was named. `None` if no byte is known.
    pub fn winner(&self) -> Option<usize> {
        let most = self.bytes[..self.candidates].iter().map(|(_, bytes)| *bytes).max()?;
        self.bytes[..self.candidates].iter().find(|(_, bytes)| *bytes == most).map(|(numa, _)| *numa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_a_few_samples_all_inside() {
        for length in (1..300).chain([1 << 20, (1 << 20) + 17, usize::MAX / 2]) {
            for start in [0, 1, 63, 4096, 1 << 40] {
                let samples: Vec<usize> = samples(start, length).collect();
                assert!((1..=8).contains(&samples.len()), "{start} {length}: {}", samples.len());
                let inside = |&at: &usize| at >= start && at - start < length;
                assert!(samples.iter().all(inside), "{start} {length}: {samples:?}");
            }
        }
    }

    #[test]
    fn parts_and_wholes_find_each_other() {
        let whole: Vec<usize> = samples(1 << 20, 1 << 16).collect();
        for parts in [1, 2, 4] {
            let length = (1 << 16) / parts;
            for part in 0..parts {
                let part: Vec<usize> = samples((1 << 20) + part * length, length).collect();
                assert!(part.iter().any(|at| whole.contains(at)), "{parts}");
            }
        }
    }

    #[test]
    fn most_bytes_win() {
        let mut vote = Vote::new();
        assert_eq!(vote.winner(), None);
        vote.add(3, 10);
        vote.add(1, 10);
        assert_eq!(vote.winner(), Some(3));
        vote.add(1, 1);
        assert_eq!(vote.winner(), Some(1));
        (10..30).for_each(|numa| vote.add(numa, 100));
        assert!(vote.winner().is_some_and(|numa| numa >= 10));
    }
}
