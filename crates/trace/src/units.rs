//! Times as people read them.

use std::fmt;

/// A unit of time for one whole drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub name: &'static str,
    pub ps: u64,
}

const UNITS: [Unit; 5] = [
    Unit { name: "s", ps: 1_000_000_000_000 },
    Unit { name: "ms", ps: 1_000_000_000 },
    Unit { name: "µs", ps: 1_000_000 },
    Unit { name: "ns", ps: 1_000 },
    Unit { name: "ps", ps: 1 },
];

impl Unit {
    /// The unit in which `ps` picoseconds are a number of two digits at least, where there is one.
    pub fn of(ps: u64) -> Unit {
        UNITS.into_iter().find(|unit| ps / 10 >= unit.ps).unwrap_or(UNITS[UNITS.len() - 1])
    }

    /// A time in this unit, exactly, without its name.
    pub fn number(self, ps: u64) -> Number {
        Number { ps, unit: self }
    }

    /// A time in this unit, exactly, with its name.
    pub fn time(self, ps: u64) -> String {
        format!("{} {}", self.number(ps), self.name)
    }
}

/// A time without the name of its unit.
pub(crate) struct Number {
    ps: u64,
    unit: Unit,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut fraction) = (self.ps / self.unit.ps, self.ps % self.unit.ps);
        write!(f, "{whole}")?;
        if fraction == 0 {
            return Ok(());
        }
        let mut digits = self.unit.ps.ilog10() as usize;
        while fraction % 10 == 0 {
            (fraction, digits) = (fraction / 10, digits - 1);
        }
        write!(f, ".{fraction:0digits$}")
    }
}

/// Where an axis from 0 to `end_ps` gets its marks: at most `marks_max` intervals of 1, 2 or 5 times a power of ten.
pub(crate) fn marks(end_ps: u64, marks_max: u64) -> impl Iterator<Item = u64> {
    let at_least = (end_ps / marks_max.max(1)).max(1);
    let power = 10u64.pow(at_least.ilog10());
    let step = [1, 2, 5, 10].map(|factor| power.saturating_mul(factor));
    let step = step.into_iter().find(|step| *step >= at_least).unwrap_or(u64::MAX);
    (0..=end_ps / step).map(move |index| index * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_decimals() {
        let nanoseconds = Unit::of(99_999);
        assert_eq!(nanoseconds.name, "ns");
        let shown: Vec<_> = [0, 1, 10, 1_849_600, 2_000].map(|ps| nanoseconds.time(ps)).into();
        assert_eq!(shown, ["0 ns", "0.001 ns", "0.01 ns", "1849.6 ns", "2 ns"]);
        assert_eq!(Unit::of(0).time(9), "9 ps");
        assert_eq!(Unit::of(u64::MAX).time(u64::MAX), "18446744.073709551615 s");
    }

    #[test]
    fn axes_have_round_marks() {
        assert_eq!(
            marks(1_849_600, 10).collect::<Vec<_>>(),
            (0..10).map(|i| i * 200_000).collect::<Vec<_>>()
        );
        assert_eq!(marks(0, 10).collect::<Vec<_>>(), [0]);
        assert_eq!(marks(7, 3).collect::<Vec<_>>(), [0, 2, 4, 6]);
        for end_ps in [1, 99, 12_345, 1 << 40, u64::MAX] {
            let count = marks(end_ps, 8).count();
            assert!((1..=10).contains(&count), "{count} marks up to {end_ps}");
        }
    }
}
