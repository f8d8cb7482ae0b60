//! How much somebody may say: so often at once, and so often a second from then on.

/// A bucket that fills steadily, up to its brim, and from which something is taken each time. It reads no clock: who uses it says what time it is.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// For one more.
    interval_ns: u64,
    /// How far ahead of the clock it may be emptied.
    brim_ns: u64,
    /// From when on it is full.
    full_at_ns: u64,
}

impl Bucket {
    /// Full, with room for `most`; `per_second` come in a second.
    ///
    /// # Panics
    /// If one of them is 0.
    pub const fn new(most: u32, per_second: u32) -> Bucket {
        assert!(most > 0 && per_second > 0, "nothing could ever be taken");
        let interval_ns = 1_000_000_000 / per_second as u64;
        Bucket { interval_ns, brim_ns: interval_ns * most as u64, full_at_ns: 0 }
    }

    /// Takes one; false if it is empty.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let full_at_ns = self.full_at_ns.max(now_ns) + self.interval_ns;
        let is_there = full_at_ns - now_ns <= self.brim_ns;
        if is_there {
            self.full_at_ns = full_at_ns;
        }
        is_there
    }

    /// When so many will be there, or as many as there is room for.
    pub fn when(&self, count: u32) -> u64 {
        let rest_ns = self.brim_ns.saturating_sub(self.interval_ns * u64::from(count));
        self.full_at_ns.saturating_sub(rest_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn so_many_at_once_and_then_as_they_come() {
        let mut bucket = Bucket::new(3, 1_000);
        let begin = 5 * MS;
        assert_eq!([(); 4].map(|()| bucket.take(begin)), [true, true, true, false]);
        assert_eq!(
            [bucket.when(1), bucket.when(3), bucket.when(9)],
            [begin + MS, begin + 3 * MS, begin + 3 * MS]
        );
        assert!(!bucket.take(begin + MS - 1) && bucket.take(begin + MS) && !bucket.take(begin + MS));
        // However long nothing was taken, there are no more than there is room for.
        assert_eq!((0..9).filter(|_| bucket.take(1_000 * MS)).count(), 3);
    }

    #[test]
    fn no_more_than_so_many_a_second_however_it_is_asked() {
        let mut bucket = Bucket::new(64, 250);
        let taken = (0..10_000_u64).filter(|tenth| bucket.take(tenth * MS / 10)).count();
        assert_eq!(taken, 64 + 249, "within the first second");
    }
}
