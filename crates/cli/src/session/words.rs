//! How times and numbers are said.

use castell_base::counted;

/// `1 processor`, `2 processors`.
pub fn count_processors(slots: u64) -> String {
    counted(slots, "processor")
}

/// A time in the two largest units that matter.
pub fn time(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..10 => format!("{}.{} s", s, ms % 1_000 / 100),
        10..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let said = [0, 1_290, 59_999, 61_000, 7_260_000, 90_000_000].map(time);
        assert_eq!(said, ["0.0 s", "1.2 s", "59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
