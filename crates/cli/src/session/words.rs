//! How times and numbers are said.

use castell_base::counted;
use castell_prof::probe::parse_size;

/// `1 processor`, `2 processors`.
pub fn count_processors(slots: u64) -> String {
    counted(slots, "processor")
}

/// A session, as people name it.
pub fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a session has a number, which `castell session list` shows".to_owned())
}

/// Bytes as `--memory` takes them; the memory of sessions is counted in all of them.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().or_else(|| parse_size(text));
    bytes.ok_or_else(|| "write memory in bytes, or as 500M or 1.5G".to_owned())
}

/// `1 GiB`, `1.5 GiB`, `1000 B`: as many digits as say it to the byte, or two after the point.
pub fn bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| bytes >= *size) else {
        return format!("{bytes} B");
    };
    let hundredths = (u128::from(bytes) * 100 / u128::from(size)) as u64;
    let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
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
    fn memory_is_read_and_said() {
        assert_eq!(
            ["0", "1G", "500M", "1.5GiB", "123456789", "18446744073709551615"].map(memory),
            [0, 1 << 30, 500 << 20, 3 << 29, 123_456_789, u64::MAX].map(Ok)
        );
        assert!(memory("much").unwrap_err().contains("1.5G"));
        assert_eq!(
            [1 << 30, 500 << 20, 3 << 29, 1_000, 2_000].map(bytes),
            ["1 GiB", "500 MiB", "1.5 GiB", "1000 B", "1.95 KiB"]
        );
    }

    #[test]
    fn times_have_two_units() {
        let said = [0, 1_290, 59_999, 61_000, 7_260_000, 90_000_000].map(time);
        assert_eq!(said, ["0.0 s", "1.2 s", "59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
