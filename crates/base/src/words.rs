//! Numbers in sentences.

/// A number of things.
///
/// ```
/// assert_eq!(castell_base::counted(1u32, "rank"), "1 rank");
/// assert_eq!(castell_base::counted(2usize, "rank"), "2 ranks");
/// ```
pub fn counted(number: impl TryInto<u64>, what: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
