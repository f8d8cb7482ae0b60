//! A parameter that may depend on the size of the message.

use castell_base::Time;
use std::fmt;
use std::sync::Arc;

/// A time that is the same for every message, or one that depends on the message's size through a table.
///
/// Between two sizes of a table the time is interpolated linearly and rounded once, half a picosecond up; below the
/// smallest size it is that of the smallest; above the largest the last two entries' line goes on, but not below 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BySize {
    /// The same for every message.
    Constant(Time),
    /// (bytes, time) by rising size; made by [`BySize::table`].
    Table(Table),
}

/// The entries of a [`BySize::Table`]: at least one, each size once, rising.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table(Arc<[(u64, Time)]>);

impl Table {
    /// (bytes, time) by rising size.
    pub fn entries(&self) -> &[(u64, Time)] {
        &self.0
    }
}

impl From<Time> for BySize {
    fn from(time: Time) -> BySize {
        BySize::Constant(time)
    }
}

impl BySize {
    /// A table of (bytes, time), in any order.
    ///
    /// # Errors
    ///
    /// An empty table, or one that has a size twice.
    pub fn table(mut entries: Vec<(u64, Time)>) -> Result<BySize, String> {
        entries.sort_unstable();
        if entries.is_empty() {
            return Err("a table needs at least one entry `BYTES:TIME`".to_owned());
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("the table has two entries for {} bytes", pair[0].0));
        }
        Ok(BySize::Table(Table(entries.into())))
    }

    /// The time for a message of `bytes` bytes.
    pub fn of(&self, bytes: u64) -> Time {
        match self {
            BySize::Constant(time) => *time,
            BySize::Table(table) => interpolate(table.entries(), bytes),
        }
    }

    /// The same with another time for each.
    pub(crate) fn map(&self, change: impl Fn(Time) -> Time) -> BySize {
        match self {
            BySize::Constant(time) => BySize::Constant(change(*time)),
            BySize::Table(table) => {
                let entries = table.entries().iter().map(|&(bytes, time)| (bytes, change(time)));
                BySize::Table(Table(entries.collect()))
            }
        }
    }

    /// Reads `880ns`, or `table(8:880ns,64:890ns)` with sizes in bytes.
    ///
    /// # Errors
    ///
    /// What was expected and what was found.
    pub fn parse(text: &str) -> Result<BySize, String> {
        let text = text.trim();
        let Some(list) = text.strip_prefix("table(").and_then(|rest| rest.strip_suffix(')')) else {
            return Time::parse(text).map(BySize::Constant).map_err(|error| error.to_string());
        };
        let entry = |entry: &str| {
            let wrong = || format!("expected `BYTES:TIME` such as 64:890ns, found `{}`", entry.trim());
            let (bytes, time) = entry.split_once(':').ok_or_else(wrong)?;
            let bytes = bytes.trim().parse().map_err(|_| wrong())?;
            Ok((bytes, Time::parse(time.trim()).map_err(|error| error.to_string())?))
        };
        let entries: Result<Vec<(u64, Time)>, String> = list.split(',').map(entry).collect();
        BySize::table(entries?)
    }
}

impl fmt::Display for BySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self {
            BySize::Constant(time) => return time.fmt(f),
            BySize::Table(table) => table.entries(),
        };
        f.write_str("table(")?;
        for (index, (bytes, time)) in table.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{bytes}:{time}")?;
        }
        f.write_str(")")
    }
}

fn interpolate(table: &[(u64, Time)], bytes: u64) -> Time {
    let above = table.partition_point(|entry| entry.0 < bytes);
    let (low, high) = match above {
        0 => return table[0].1,
        _ if table.len() == 1 => return table[0].1,
        above if above == table.len() => (table[above - 2], table[above - 1]),
        above => (table[above - 1], table[above]),
    };
    let (width, offset) = (i128::from(high.0 - low.0), i128::from(bytes - low.0));
    let rise = i128::from(high.1.0) - i128::from(low.1.0);
    // At most 2^65 * 2^64 in size: the product of the largest offset and rise overflows only for absurd tables.
    let numerator = rise.saturating_mul(offset);
    let rounded = (numerator.saturating_mul(2).saturating_add(width)).div_euclid(2 * width);
    let ps = i128::from(low.1.0).saturating_add(rounded);
    Time(ps.clamp(0, i128::from(u64::MAX)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_interpolated_and_goes_on_in_its_last_direction() {
        let table = BySize::parse("table(64:30ns, 8:10ns,128:20ns)").unwrap();
        let cases = [(0, 10_000), (8, 10_000), (36, 20_000), (64, 30_000), (96, 25_000), (128, 20_000)];
        for (bytes, ps) in cases {
            assert_eq!(table.of(bytes), Time(ps), "{bytes}");
        }
        assert_eq!(table.of(192), Time(10_000));
        assert_eq!(table.of(1_000_000), Time::ZERO);
        assert_eq!(BySize::parse(&table.to_string()).as_ref(), Ok(&table));
        assert_eq!(BySize::parse("table(8:1ns)").unwrap().of(1 << 40), Time(1_000));
        assert_eq!(BySize::Constant(Time(7)).of(3), Time(7));
        let largest = BySize::table(vec![(0, Time::ZERO), (1, Time::MAX)]).unwrap();
        assert_eq!(largest.of(u64::MAX), Time::MAX);
    }

    #[test]
    fn wrong_tables_are_refused() {
        for (text, reason) in [
            ("table()", "BYTES:TIME"),
            ("table(8=1ns)", "BYTES:TIME"),
            ("table(8:1ns,8:2ns)", "two entries for 8 bytes"),
            ("table(8:-1ns)", "negative"),
            ("table(8:1ns", "expected a time"),
        ] {
            let error = BySize::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
