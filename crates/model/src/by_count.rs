//! A parameter that may depend on the number of messages.

use crate::BySize;
use castell_base::Time;
use std::fmt;

/// A time that is the same however many messages are sent at once, or one that depends on their number through a table,
/// written and interpolated as [`BySize`] is: `table(1:900ns,2:600ns,8:400ns)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ByCount(BySize);

impl ByCount {
    /// A table of (messages, time), in any order.
    ///
    /// # Errors
    ///
    /// An empty table, or one that has a number twice.
    pub fn table(entries: Vec<(u64, Time)>) -> Result<ByCount, String> {
        BySize::table(entries).map(ByCount)
    }

    /// The time if `messages` messages are sent at once.
    pub fn of(&self, messages: u64) -> Time {
        self.0.of(messages)
    }

    /// The same with another time for each.
    pub(crate) fn map(&self, change: impl Fn(Time) -> Time) -> ByCount {
        ByCount(self.0.map(change))
    }

    /// Reads a time, or a table of times.
    ///
    /// # Errors
    ///
    /// What was expected and what was found.
    pub fn parse(text: &str) -> Result<ByCount, String> {
        BySize::parse(text).map(ByCount)
    }
}

impl From<Time> for ByCount {
    fn from(time: Time) -> ByCount {
        ByCount(time.into())
    }
}

impl fmt::Display for ByCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
