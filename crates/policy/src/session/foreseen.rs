//! What programs are expected to do to each other, as whoever asks for decisions knows it.

use crate::placement::Slowdowns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// By which factor something runs longer, in thousandths: 1 is no slowdown, 1.25 a quarter longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Slowdown {
    thousandths: u32,
}

/// A number that is no slowdown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no slowdown: write by which factor something may run longer, from 1 to 1000, as in 1.2")]
pub struct NoSlowdown(String);

impl Slowdown {
    /// None at all.
    pub const NONE: Slowdown = Slowdown { thousandths: 1_000 };
    /// More is not told apart.
    const MOST: u32 = 1_000_000;

    /// A factor to three digits: from a thousandth, of one who runs faster, to a thousand.
    pub fn of_factor(factor: f64) -> Slowdown {
        // What is no number becomes 0, and so the least.
        Slowdown { thousandths: ((factor * 1e3).round() as u32).clamp(1, Slowdown::MOST) }
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        f64::from(self.thousandths) / 1e3
    }

    /// Both one after the other.
    pub fn times(self, other: Slowdown) -> Slowdown {
        let product = u64::from(self.thousandths) * u64::from(other.thousandths) / 1_000;
        Slowdown { thousandths: product.clamp(1, Slowdown::MOST.into()) as u32 }
    }

    /// What is left of a speed.
    pub(crate) fn slowed(self, speed: u64) -> u64 {
        (u128::from(speed) * 1_000 / u128::from(self.thousandths)) as u64
    }
}

impl From<Slowdown> for f64 {
    fn from(slowdown: Slowdown) -> f64 {
        slowdown.factor()
    }
}

impl TryFrom<f64> for Slowdown {
    type Error = NoSlowdown;

    fn try_from(factor: f64) -> Result<Slowdown, NoSlowdown> {
        match (1e-3..=1e3).contains(&factor) {
            true => Ok(Slowdown::of_factor(factor)),
            false => Err(NoSlowdown(factor.to_string())),
        }
    }
}

impl FromStr for Slowdown {
    type Err = NoSlowdown;

    /// A limit: nobody is to run faster beside others than alone.
    fn from_str(text: &str) -> Result<Slowdown, NoSlowdown> {
        let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1e3).contains(factor));
        factor.map(Slowdown::of_factor).ok_or_else(|| NoSlowdown(text.to_owned()))
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.factor().to_string())
    }
}

/// Programs beside each other: by which factor the one runs longer beside the other than alone. Of pairs that are not in it nothing is
/// known, and they keep nobody apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    pairs: BTreeMap<String, BTreeMap<String, Slowdown>>,
}

impl Foreseen {
    /// Nothing is known.
    pub fn new() -> Foreseen {
        Foreseen::default()
    }

    /// A program is slowed down so much beside a neighbour; that it would run faster is not believed.
    pub fn set(&mut self, program: &str, neighbour: &str, slowdown: Slowdown) {
        self.pairs
            .entry(program.to_owned())
            .or_default()
            .insert(neighbour.to_owned(), slowdown.max(Slowdown::NONE));
    }

    /// How much a program is slowed down beside a neighbour, if that is known.
    pub fn of(&self, program: &str, neighbour: &str) -> Option<Slowdown> {
        self.pairs.get(program)?.get(neighbour).copied()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl From<&Slowdowns> for Foreseen {
    fn from(table: &Slowdowns) -> Foreseen {
        let mut foreseen = Foreseen::new();
        for (at, program) in table.names().iter().enumerate() {
            for (beside, neighbour) in table.names().iter().enumerate() {
                foreseen.set(program, neighbour, Slowdown::of_factor(table.of(at, beside)));
            }
        }
        foreseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdowns_are_read_as_they_are_printed() {
        for text in ["1", "1.2", "1.005", "1000"] {
            let slowdown: Slowdown = text.parse().expect("a slowdown");
            assert_eq!(slowdown.to_string(), text);
            let json = serde_json::to_string(&slowdown).expect("it is text");
            assert_eq!(serde_json::from_str::<Slowdown>(&json).ok(), Some(slowdown), "{json}");
        }
        for bad in ["0.9", "1001", "NaN", "inf", "-2", "much", ""] {
            assert!(bad.parse::<Slowdown>().is_err(), "{bad}");
        }
    }

    #[test]
    fn factors_are_multiplied_and_bounded() {
        let half = Slowdown::of_factor(1.5);
        assert_eq!(half.times(half), Slowdown::of_factor(2.25));
        let most = Slowdown::of_factor(f64::INFINITY);
        assert_eq!((most.times(most), most.factor()), (most, 1e3));
        let mut foreseen = Foreseen::new();
        foreseen.set("cg", "ep", Slowdown::of_factor(0.2));
        assert_eq!(foreseen.of("cg", "ep"), Some(Slowdown::NONE));
        assert_eq!(half.slowed(720_720), 480_480);
    }

    #[test]
    fn a_table_is_what_is_known() {
        let table = Slowdowns::parse("program,cg,ep\ncg,1.8,5%\nep,1,1\n").expect("a table");
        let foreseen = Foreseen::from(&table);
        assert_eq!(foreseen.of("cg", "ep"), Some(Slowdown::of_factor(1.05)));
        assert_eq!((foreseen.of("cg", "lu"), foreseen.of("lu", "cg")), (None, None));
    }
}
