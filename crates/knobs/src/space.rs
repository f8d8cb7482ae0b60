//! Knobs, and all settings of them.

use rand::Rng;
use std::fmt;

/// A value for each knob, in their order.
pub type Setting = Vec<i64>;

/// An integer that can be set: a name, and the values that are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    name: String,
    low: i64,
    high: i64,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So much more each time; the upper end is one of the values in any case.
    By(i64),
    /// So many times as much.
    Times(i64),
}

/// Why something is no knob, or no set of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// Not written as a knob is.
    #[error("`{0}`: write NAME=LO..HI, with a step NAME=LO..HI:4 or a factor NAME=LO..HI:*2")]
    Form(String),
    /// A name that no environment variable can have.
    #[error("`{0}` cannot be a knob's name: letters, digits, _ and - that do not begin with a digit")]
    Name(String),
    /// No values.
    #[error("knob `{0}` has no values: its range ends below its beginning, or its step is none")]
    Empty(String),
    /// Two of one name.
    #[error("knob `{0}` is there twice")]
    Twice(String),
    /// No knobs.
    #[error("there is no knob")]
    None,
}

impl Knob {
    /// `NAME=LO..HI`, `NAME=LO..HI:STEP` or `NAME=LO..HI:*FACTOR`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Knob, KnobError> {
        let form = || KnobError::Form(text.to_owned());
        let (name, range) = text.split_once('=').ok_or_else(form)?;
        let mut letters = name.chars();
        let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        if !letters.next().is_some_and(is_letter)
            || !letters.all(|letter| is_letter(letter) || letter.is_ascii_digit() || letter == '-')
        {
            return Err(KnobError::Name(name.to_owned()));
        }
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let (low, high) = range.split_once("..").ok_or_else(form)?;
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| form());
        let (low, high) = (number(low)?, number(high)?);
        let step = match step.strip_prefix('*') {
            Some(factor) => Step::Times(number(factor)?),
            None => Step::By(number(step.strip_prefix('+').unwrap_or(step))?),
        };
        let is_right = match step {
            Step::By(step) => step > 0,
            Step::Times(factor) => factor > 1 && low > 0,
        };
        if low > high || !is_right || high.checked_sub(low).is_none() {
            return Err(KnobError::Empty(name.to_owned()));
        }
        Ok(Knob { name: name.to_owned(), low, high, step })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the environment variable that has its value: `-` is `_` there.
    pub fn variable(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The least and the greatest value.
    pub fn range(&self) -> (i64, i64) {
        (self.low, self.high)
    }

    /// How many values it has.
    pub fn count(&self) -> u64 {
        let span = self.high.abs_diff(self.low);
        match self.step {
            Step::By(step) => span.div_ceil(step.unsigned_abs()) + 1,
            Step::Times(factor) => {
                let values = std::iter::successors(Some(self.low), |value| value.checked_mul(factor));
                values.take_while(|value| *value < self.high).count() as u64 + 1
            }
        }
    }

    /// Its values by their number, from 0; numbers past the last are the last.
    pub fn value(&self, number: u64) -> i64 {
        let value = match self.step {
            Step::By(step) => i64::try_from(number)
                .ok()
                .and_then(|n| n.checked_mul(step))
                .and_then(|n| n.checked_add(self.low)),
            Step::Times(factor) => u32::try_from(number)
                .ok()
                .and_then(|n| factor.checked_pow(n))
                .and_then(|n| n.checked_mul(self.low)),
        };
        value.unwrap_or(self.high).min(self.high)
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}", self.name, self.low, self.high)?;
        match self.step {
            Step::By(1) => Ok(()),
            Step::By(step) => write!(f, ":{step}"),
            Step::Times(factor) => write!(f, ":*{factor}"),
        }
    }
}

/// Some knobs: all settings of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    knobs: Vec<Knob>,
}

impl Space {
    /// # Errors
    /// No knob, or two of one name.
    pub fn new(knobs: Vec<Knob>) -> Result<Space, KnobError> {
        if knobs.is_empty() {
            return Err(KnobError::None);
        }
        for (at, knob) in knobs.iter().enumerate() {
            if knobs[..at].iter().any(|other| other.variable() == knob.variable()) {
                return Err(KnobError::Twice(knob.name.clone()));
            }
        }
        Ok(Space { knobs })
    }

    /// The knobs.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// The setting with these numbers of values; what lies outside is at the edge.
    pub(crate) fn setting(&self, numbers: &[f64]) -> Setting {
        let number = |(knob, number): (&Knob, &f64)| {
            let last = knob.count() - 1;
            knob.value((number.round().max(0.0) as u64).min(last))
        };
        self.knobs.iter().zip(numbers).map(number).collect()
    }

    /// Any numbers of values, each as likely as another.
    pub(crate) fn anywhere(&self, rng: &mut impl Rng) -> Vec<f64> {
        self.knobs.iter().map(|knob| rng.random_range(0..knob.count()) as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<i64> {
        let knob = Knob::parse(text).expect(text);
        (0..knob.count()).map(|number| knob.value(number)).collect()
    }

    #[test]
    fn values_go_to_the_end_by_steps_or_factors() {
        assert_eq!(values("a=1..4"), [1, 2, 3, 4]);
        assert_eq!(values("a=-3..4:3"), [-3, 0, 3, 4]);
        assert_eq!(values("a=64..1000:*4"), [64, 256, 1000]);
        assert_eq!(values("a=64..1024:*4"), [64, 256, 1024]);
        assert_eq!(values("rx-usecs=7..7"), [7]);
        let wide = Knob::parse("a=0..9223372036854775807").expect("all that there are");
        assert_eq!(wide.value(wide.count() - 1), i64::MAX);
        assert_eq!(Knob::parse("rx-usecs=1..9").expect("right").variable(), "rx_usecs");
    }

    #[test]
    fn what_is_no_knob_says_why() {
        for (text, part) in [
            ("a", "write NAME=LO..HI"),
            ("a=1", "write NAME=LO..HI"),
            ("a=1..x", "write NAME=LO..HI"),
            ("=1..2", "cannot be a knob's name"),
            ("1a=1..2", "cannot be a knob's name"),
            ("a b=1..2", "cannot be a knob's name"),
            ("a=2..1", "has no values"),
            ("a=1..2:0", "has no values"),
            ("a=0..2:*2", "has no values"),
            ("a=1..2:*1", "has no values"),
            ("a=-9223372036854775808..9223372036854775807", "has no values"),
        ] {
            let error = Knob::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let knob = |text| Knob::parse(text).expect(text);
        assert_eq!(Space::new(vec![]), Err(KnobError::None));
        let twice = Space::new(vec![knob("a-b=1..2"), knob("a_b=1..2")]);
        assert_eq!(twice, Err(KnobError::Twice("a_b".to_owned())));
    }

    #[test]
    fn knobs_are_printed_as_they_are_read() {
        for text in ["a=1..2", "rx-usecs=-5..1023:4", "eager=64..65536:*2"] {
            assert_eq!(Knob::parse(text).expect(text).to_string(), text);
        }
    }
}
