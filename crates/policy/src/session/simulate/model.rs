//! How much of its speed a session keeps beside others.

use std::fmt;
use std::str::FromStr;

/// What slows sessions down that share slots or nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Processes that do not wait for each other go on at the mean of their speeds; else all are as slow as the slowest.
    pub loose: bool,
    /// So many threads at full speed use up a node's memory; more share it. None where memory slows nobody down.
    pub bandwidth: Option<u32>,
}

/// A text that is no such model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no model of sharing: write `tight` or `loose` (do processes wait for each other?), and `bandwidth=N` behind it where N threads use up a node's memory, as in `tight,bandwidth=20`"
)]
pub struct NoSpeed(String);

impl FromStr for Speed {
    type Err = NoSpeed;

    fn from_str(text: &str) -> Result<Speed, NoSpeed> {
        let mut speed = Speed::default();
        for part in text.split(',') {
            match (part, part.strip_prefix("bandwidth=").map(str::parse::<u32>)) {
                ("tight", _) => speed.loose = false,
                ("loose", _) => speed.loose = true,
                (_, Some(Ok(processes))) if processes > 0 => speed.bandwidth = Some(processes),
                _ => return Err(NoSpeed(text.to_owned())),
            }
        }
        Ok(speed)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.loose { "loose" } else { "tight" })?;
        self.bandwidth.map_or(Ok(()), |processes| write!(f, ",bandwidth={processes}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_as_they_are_printed() {
        for text in ["tight", "loose", "tight,bandwidth=20", "loose,bandwidth=1"] {
            assert_eq!(text.parse::<Speed>().expect("a model").to_string(), text);
        }
        for bad in ["", "tight,", "bandwidth=0", "bandwidth=x", "fast"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
    }
}
