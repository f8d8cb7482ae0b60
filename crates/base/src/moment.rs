//! Moments on clocks that go on for years.

use crate::time::{Time, fmt_ps};
use std::fmt;
use std::ops::{Add, Sub};

/// A moment on a clock that does not end: whole picoseconds since the clock's beginning.
///
/// [`Time`] ends after 213 days, which is enough for whatever is simulated. Whoever lives longer than that keeps moments, and has times between two
/// of them.
///
/// ```
/// use castell_base::{Moment, Time};
/// let late = Moment::from(Time::MAX) + Time::from_ns(5);
/// assert_eq!(late - Moment::from(Time::MAX), Time::from_ns(5));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u128);

impl Moment {
    /// The clock's beginning.
    pub const ZERO: Moment = Moment(0);

    /// So many nanoseconds after it.
    pub const fn from_ns(ns: u64) -> Moment {
        Moment(ns as u128 * 1_000)
    }

    /// In seconds after it, rounded to what a double can hold: after a year to some nanoseconds.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// How long after the clock's beginning; at most [`Time::MAX`], which means "later than can be told".
    pub fn since_beginning(self) -> Time {
        self - Moment::ZERO
    }
}

impl From<Time> for Moment {
    fn from(time: Time) -> Moment {
        Moment(u128::from(time.0))
    }
}

impl Add<Time> for Moment {
    type Output = Moment;
    fn add(self, time: Time) -> Moment {
        Moment(self.0.saturating_add(u128::from(time.0)))
    }
}

/// The time from one to the other: from 0 to [`Time::MAX`].
impl Sub for Moment {
    type Output = Time;
    fn sub(self, earlier: Moment) -> Time {
        Time(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(u64::MAX))
    }
}

/// As the time since the clock's beginning is written.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_ps(self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_where_times_end() {
        let end = Moment::from(Time::MAX);
        let later = end + Time::MAX;
        assert_eq!(later - end, Time::MAX);
        assert_eq!((end - later, later.since_beginning()), (Time::ZERO, Time::MAX));
        assert_eq!(Moment::from_ns(u64::MAX).to_string(), "18446744073.709551615s");
        for ps in [0, 1, 999, 1_000, 1_500_000, u64::MAX] {
            assert_eq!(Moment::from(Time(ps)).to_string(), Time(ps).to_string());
        }
    }
}
