//! How many tasks a node may keep, and how many move when it has too many or is asked for some.

/// How the threshold behaves (paper, sections 4.1.3 and 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdPolicy {
    /// The same number throughout; the paper's plots have 20.
    Static(u32),
    /// Starts at 0; an overflow that reaches the root doubles it, a request that reaches the root halves it.
    Dynamic,
}

/// The threshold of all nodes, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    policy: ThresholdPolicy,
    value: u32,
}

impl Threshold {
    /// The dynamic threshold stops doubling here, so that it never wraps.
    pub const MAX: u32 = 1 << 30;

    /// At its start.
    pub fn new(policy: ThresholdPolicy) -> Threshold {
        let value = match policy {
            ThresholdPolicy::Static(value) => value,
            ThresholdPolicy::Dynamic => 0,
        };
        Threshold { policy, value }
    }

    /// How many tasks a node may keep.
    pub fn value(&self) -> u32 {
        self.value
    }

    /// An overflow reached the root.
    pub fn overflowed(&mut self) {
        if self.policy == ThresholdPolicy::Dynamic {
            self.value = doubled(self.value);
        }
    }

    /// A request reached the root and found nothing; says whether the threshold has become smaller.
    pub fn starved(&mut self) -> bool {
        let before = self.value;
        if self.policy == ThresholdPolicy::Dynamic {
            self.value = halved(self.value);
        }
        self.value < before
    }
}

/// The dynamic threshold after an overflow reached the root: 0 becomes 2, anything else twice as much.
#[inline]
pub fn doubled(threshold: u32) -> u32 {
    (threshold * 2).clamp(2, Threshold::MAX)
}

/// The dynamic threshold after a request reached the root.
#[inline]
pub fn halved(threshold: u32) -> u32 {
    threshold / 2
}

/// How many of `length` tasks leave a node so that at most `threshold` stay: `max(1, ⌈length/2⌉)`, until they fit.
///
/// (Section 4.1.1 of the paper moves half of the queue, section 4.1.3 half of the threshold; the latter moves nothing
/// at threshold 0, so it is the former here.)
///
/// ```
/// use castell_sched::overflow_count;
/// assert_eq!(overflow_count(20, 20), 0);
/// assert_eq!(overflow_count(21, 20), 11);
/// assert_eq!(overflow_count(1, 0), 1);
/// ```
#[inline]
pub fn overflow_count(length: usize, threshold: u32) -> usize {
    let mut left = length;
    while left > threshold as usize {
        left -= left.div_ceil(2).max(1);
    }
    length - left
}

/// How many of `length` tasks a node gives to a child that asks: half of them, but no more than the child can keep
/// (one runs at once, `threshold` wait), and at least one.
///
/// ```
/// use castell_sched::grant_count;
/// assert_eq!(grant_count(10, 20), 5);
/// assert_eq!(grant_count(10, 0), 1);
/// assert_eq!(grant_count(0, 20), 0);
/// ```
#[inline]
pub fn grant_count(length: usize, threshold: u32) -> usize {
    length.div_ceil(2).min(threshold as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic() {
        let mut threshold = Threshold::new(ThresholdPolicy::Dynamic);
        assert!(!threshold.starved());
        let mut seen = vec![threshold.value()];
        for _ in 0..3 {
            threshold.overflowed();
            seen.push(threshold.value());
        }
        while threshold.starved() {
            seen.push(threshold.value());
        }
        assert_eq!(seen, [0, 2, 4, 8, 4, 2, 1, 0]);
        (0..100).for_each(|_| threshold.overflowed());
        assert_eq!(threshold.value(), Threshold::MAX);
    }

    #[test]
    fn a_static_threshold_stays() {
        let mut threshold = Threshold::new(ThresholdPolicy::Static(20));
        threshold.overflowed();
        assert!(!threshold.starved());
        assert_eq!(threshold.value(), 20);
    }

    #[test]
    fn what_stays_fits_and_what_leaves_is_needed() {
        for threshold in 0..40 {
            for length in 0..200usize {
                let leaves = overflow_count(length, threshold);
                assert!(length - leaves <= threshold as usize);
                assert_eq!(leaves == 0, length <= threshold as usize);
                let grant = grant_count(length, threshold);
                assert!(grant <= length && grant <= threshold as usize + 1 && (grant > 0) == (length > 0));
            }
        }
    }
}
