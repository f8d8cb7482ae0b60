//! Virtual time, and times per byte, as exact numbers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

/// Virtual time and durations: whole picoseconds, from 0 to 213 days.
///
/// Arithmetic saturates: nothing wraps around, and [`Time::MAX`] means "later than can be told".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// Units that a time can be written in, with their length in picoseconds; the longest last.
const UNITS: [(&str, u64); 5] =
    [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];

impl Time {
    /// The beginning; no time at all.
    pub const ZERO: Time = Time(0);
    /// The end of time, to which arithmetic saturates.
    pub const MAX: Time = Time(u64::MAX);

    /// So many picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// So many nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1_000))
    }

    /// So many microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(1_000_000))
    }

    /// The nearest whole number of picoseconds; what is negative or no number becomes 0.
    #[inline]
    pub fn from_ps_f64(ps: f64) -> Time {
        // The conversion cuts off, saturates, and takes what is not a number for 0.
        Time((ps + 0.5) as u64)
    }

    /// In nanoseconds, rounded to what a double can hold.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The sum, at most [`Time::MAX`].
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }

    /// The difference, at least 0.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// The sum, unless it is too late to be told.
    pub const fn checked_add(self, other: Time) -> Option<Time> {
        match self.0.checked_add(other.0) {
            Some(ps) => Some(Time(ps)),
            None => None,
        }
    }

    /// The difference, unless it is negative.
    pub const fn checked_sub(self, other: Time) -> Option<Time> {
        match self.0.checked_sub(other.0) {
            Some(ps) => Some(Time(ps)),
            None => None,
        }
    }

    /// The product, unless it is too long to be told.
    pub const fn checked_mul(self, times: u64) -> Option<Time> {
        match self.0.checked_mul(times) {
            Some(ps) => Some(Time(ps)),
            None => None,
        }
    }

    /// Reads `880ns`, `1.5us`, `2911ps`, `3ms`, `1s` or `0`, exactly.
    ///
    /// # Errors
    ///
    /// Without a unit, negative, with a part of a picosecond, or longer than 213 days.
    pub fn parse(text: &str) -> Result<Time, QuantityError> {
        text.parse()
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        self.saturating_add(other)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0.saturating_mul(times))
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Time, QuantityError> {
        let wrong = |reason| QuantityError::new("a time such as 880ns, 1.5us or 3ms", text, reason);
        let (numerator, denominator) = duration(text).map_err(wrong)?;
        if numerator % denominator != 0 {
            return Err(wrong("it has a part of a picosecond, the smallest time there is"));
        }
        let ps = u64::try_from(numerator / denominator);
        ps.map(Time).map_err(|_| wrong("it is longer than 213 days, the longest time there is"))
    }
}

/// In the longest unit of which there is at least one, exactly: what is printed reads as the same time.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_ps(self.0.into(), f)
    }
}

/// As [`Time`] is written.
pub(crate) fn fmt_ps(ps: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if ps == 0 {
        return f.pad("0ns");
    }
    let mut units = UNITS.iter().rev().map(|(unit, length)| (*unit, u128::from(*length)));
    let (unit, length) = units.find(|(_, length)| *length <= ps).expect("1 ps is");
    let mut text = (ps / length).to_string();
    let digits = length.ilog10() as usize;
    let rest = ps % length;
    if rest > 0 {
        text += &format!(".{rest:0digits$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    f.pad(&(text + unit))
}

/// A time for each byte, as an exact fraction: so many picoseconds for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerByte {
    ps: u64,
    bytes: u64,
}

impl Default for PerByte {
    fn default() -> PerByte {
        PerByte::ZERO
    }
}

impl PerByte {
    /// Bytes cost nothing.
    pub const ZERO: PerByte = PerByte { ps: 0, bytes: 1 };

    /// `ps` picoseconds for `bytes` bytes, in lowest terms.
    ///
    /// # Panics
    ///
    /// If `bytes` is 0.
    pub const fn new(ps: u64, bytes: u64) -> PerByte {
        assert!(bytes > 0, "a time for no bytes");
        let divisor = greatest_common_divisor(ps as u128, bytes as u128) as u64;
        PerByte { ps: ps / divisor, bytes: bytes / divisor }
    }

    /// So many nanoseconds a byte.
    pub const fn from_ns(ns: u64) -> PerByte {
        PerByte { ps: ns.saturating_mul(1_000), bytes: 1 }
    }

    /// The nearest 1/1000 of a picosecond a byte; what is negative or no number becomes 0.
    pub fn from_ps_f64(ps: f64) -> PerByte {
        PerByte::new(Time::from_ps_f64(ps * 1e3).0, 1_000)
    }

    /// Numerator: picoseconds for [`PerByte::bytes`].
    pub const fn ps(self) -> u64 {
        self.ps
    }

    /// Denominator, never 0.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Picoseconds a byte, rounded to what a double can hold.
    pub fn as_ps_f64(self) -> f64 {
        self.ps as f64 / self.bytes as f64
    }

    /// What `bytes` bytes cost: rounded once, half a picosecond up; at most [`Time::MAX`].
    pub const fn of(self, bytes: u64) -> Time {
        if self.bytes == 1 {
            return Time(self.ps.saturating_mul(bytes));
        }
        let denominator = self.bytes as u128;
        // Not (2 * product + denominator) / (2 * denominator): that overflows for the largest product.
        let product = self.ps as u128 * bytes as u128;
        let (quotient, remainder) = (product / denominator, product % denominator);
        let rounded = quotient + (remainder >= denominator - remainder) as u128;
        if rounded > u64::MAX as u128 { Time::MAX } else { Time(rounded as u64) }
    }

    /// Reads a time a byte, `0.4ns`, `6ns` or `100ps/3B` (for three bytes), or a rate, `10GB/s`, `1.5GiB/s`, `100Gbit/s`.
    ///
    /// # Errors
    ///
    /// Without a unit, negative, a rate of zero, or a fraction whose terms have more than 64 bits.
    pub fn parse(text: &str) -> Result<PerByte, QuantityError> {
        text.parse()
    }
}

impl FromStr for PerByte {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<PerByte, QuantityError> {
        let wrong = |reason| {
            QuantityError::new("a time a byte such as 0.4ns, or a rate such as 10GB/s", text, reason)
        };
        let text = text.trim();
        let (numerator, denominator) = match (text.strip_suffix("/s"), text.split_once('/')) {
            (Some(amount), _) => {
                let (bytes, seconds) = amount_of_data(amount).map_err(wrong)?;
                (seconds * 1_000_000_000_000, bytes)
            }
            (None, Some((time, bytes))) => {
                let count = bytes.trim_end_matches('B');
                let count: u64 = if count.is_empty() { Ok(1) } else { count.parse() }
                    .map_err(|_| wrong("after the slash stands a whole number of bytes"))?;
                let (numerator, denominator) = duration(time).map_err(wrong)?;
                (numerator, denominator * u128::from(count))
            }
            (None, None) => duration(text).map_err(wrong)?,
        };
        if denominator == 0 {
            return Err(wrong("nothing would ever arrive"));
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        match (u64::try_from(numerator / divisor), u64::try_from(denominator / divisor)) {
            (Ok(ps), Ok(bytes)) => Ok(PerByte { ps, bytes }),
            _ => Err(wrong("it has more digits than are kept")),
        }
    }
}

/// Exactly: what is printed reads as the same time a byte.
impl fmt::Display for PerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes == 1 {
            return Time(self.ps).fmt(f);
        }
        // A denominator of twos and fives is a decimal fraction of a picosecond.
        let places = (1..=18u32).find(|&places| 10u128.pow(places) % u128::from(self.bytes) == 0);
        let Some(places) = places else { return f.pad(&format!("{}ps/{}B", self.ps, self.bytes)) };
        let scaled = u128::from(self.ps) * (10u128.pow(places) / u128::from(self.bytes));
        let (unit, digits) = if self.ps / self.bytes >= 1_000 { ("ns", places + 3) } else { ("ps", places) };
        let (whole, rest) = (scaled / 10u128.pow(digits), scaled % 10u128.pow(digits));
        let text = format!("{whole}.{rest:0digits$}", digits = digits as usize);
        f.pad(&format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.')))
    }
}

/// A text that is not the quantity it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`: {reason}")]
pub struct QuantityError {
    /// What should stand there, with examples.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl QuantityError {
    fn new(expected: &'static str, found: &str, reason: &'static str) -> QuantityError {
        QuantityError { expected, found: found.chars().take(80).collect(), reason }
    }
}

/// A number and a unit of time as a fraction of picoseconds.
fn duration(text: &str) -> Result<(u128, u128), &'static str> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_'));
    let number = &text[..text.len() - unit.len()];
    let (numerator, denominator) = decimal(number)?;
    let unit = match unit.trim() {
        "" if numerator == 0 => "s",
        "" => return Err("the unit is missing: ps, ns, us, ms or s"),
        "µs" | "μs" => "us",
        unit => unit,
    };
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, length) = unit.ok_or("the unit is none of ps, ns, us, ms and s")?;
    let numerator = numerator.checked_mul(u128::from(*length)).ok_or("it has more digits than are kept")?;
    Ok((numerator, denominator))
}

/// `10GB` as a fraction of bytes: numerator, denominator.
fn amount_of_data(text: &str) -> Result<(u128, u128), &'static str> {
    const UNKNOWN: &str = "the unit is none of B, bit, with k, M, G, T, Ki, Mi, Gi or Ti before it";
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_'));
    let (numerator, denominator) = decimal(&text[..text.len() - unit.len()])?;
    let unit = unit.trim();
    let (prefix, bits) = match (unit.strip_suffix("bit"), unit.strip_suffix('B')) {
        (Some(prefix), _) => (prefix, 1),
        (None, Some(prefix)) => (prefix, 8),
        _ => return Err(UNKNOWN),
    };
    let factor: u128 = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(UNKNOWN),
    };
    let numerator = numerator.checked_mul(factor * bits).ok_or("it has more digits than are kept")?;
    Ok((numerator, denominator * 8))
}

/// An unsigned decimal number as numerator and power of ten.
fn decimal(text: &str) -> Result<(u128, u128), &'static str> {
    const DIGITS_MAX: usize = 18;
    if text.starts_with('-') {
        return Err("it is negative");
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = || whole.bytes().chain(fraction.bytes());
    if text.is_empty() || text == "." || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err("it does not start with a number");
    }
    if whole.trim_start_matches('0').len() > DIGITS_MAX || fraction.len() > DIGITS_MAX {
        return Err("it has more digits than are kept");
    }
    let numerator = digits().fold(0, |value: u128, digit| value * 10 + u128::from(digit - b'0'));
    Ok((numerator, 10u128.pow(fraction.len() as u32)))
}

const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly() {
        let cases = [
            ("880ns", 880_000),
            ("1.5us", 1_500_000),
            ("1.5 us", 1_500_000),
            ("2911ps", 2_911),
            ("3ms", 3_000_000_000),
            ("1s", 1_000_000_000_000),
            ("0.000000000001s", 1),
            ("0", 0),
            ("0.0", 0),
            ("007.50ns", 7_500),
            ("2µs", 2_000_000),
            ("18446744.073709551615s", u64::MAX),
        ];
        for (text, ps) in cases {
            assert_eq!(Time::parse(text), Ok(Time(ps)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_reason() {
        let cases = [
            ("", "does not start with a number"),
            (".", "does not start with a number"),
            ("ns", "does not start with a number"),
            ("1_000ns", "does not start with a number"),
            ("5", "unit is missing"),
            ("5 parsec", "none of ps, ns"),
            ("-5ns", "negative"),
            ("0.5ps", "part of a picosecond"),
            ("18446744.073709551616s", "213 days"),
            ("1e3ns", "none of ps, ns"),
            ("1234567890123456789012s", "more digits"),
            ("0.1234567890123456789ns", "more digits"),
        ];
        for (text, reason) in cases {
            let error = Time::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_printed_time_reads_as_itself() {
        for ps in [0, 1, 999, 1_000, 1_001, 1_500, 880_000, 42_441_527_748_000, u64::MAX] {
            let text = Time(ps).to_string();
            assert_eq!(Time::parse(&text), Ok(Time(ps)), "{text}");
        }
        assert_eq!(Time(1_839_600).to_string(), "1.8396us");
        assert_eq!(Time::from_ns(880).to_string(), "880ns");
        assert_eq!(Time::ZERO.to_string(), "0ns");
        assert_eq!(format!("{:>6}", Time(5)), "   5ps");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Time(1), Time::MAX);
        assert_eq!(Time(1) - Time(2), Time::ZERO);
        assert_eq!(Time(u64::MAX / 2) * 3, Time::MAX);
        assert_eq!(Time(1).checked_sub(Time(2)), None);
        assert_eq!(Time::MAX.checked_add(Time(1)), None);
        assert_eq!(Time::MAX.checked_mul(2), None);
        assert_eq!(Time::from_ps_f64(-3.0), Time::ZERO);
        assert_eq!(Time::from_ps_f64(f64::NAN), Time::ZERO);
        assert_eq!(Time::from_ps_f64(2.5), Time(3));
    }

    #[test]
    fn times_a_byte_are_read_exactly_and_rounded_once() {
        let cases = [
            ("0.4ns", 8, 3_200),
            ("6ns", 7, 42_000),
            ("0.0001ns", 5, 1),
            ("0.0001ns", 4, 0),
            ("100ps/3B", 3, 100),
            ("100ps/3", 1, 33),
            ("200ps/3B", 1, 67),
            ("10GB/s", 1, 100),
            ("100Gbit/s", 100, 8_000),
            ("1GiB/s", 1 << 30, 1_000_000_000_000),
            ("0.5B/s", 1, 2_000_000_000_000),
            ("0", 1_000, 0),
        ];
        for (text, bytes, ps) in cases {
            let per_byte = PerByte::parse(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(per_byte.of(bytes), Time(ps), "{text}");
            assert_eq!(PerByte::parse(&per_byte.to_string()), Ok(per_byte), "{text} {per_byte}");
        }
        assert_eq!(PerByte::parse("0.4ns").map(|beta| beta.to_string()), Ok("400ps".to_owned()));
        assert_eq!(PerByte::new(u64::MAX, 2).of(u64::MAX), Time::MAX);
        assert_eq!(PerByte::new(1, 2).of(1), Time(1));
        for text in ["0B/s", "3", "4x/s", "1ns/0B", "1ns/xB", "-1GB/s"] {
            assert!(PerByte::parse(text).is_err(), "{text}");
        }
    }
}
