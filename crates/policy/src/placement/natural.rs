//! Whole numbers of any size, as far as counting needs them.

use std::cmp::Ordering;

/// A whole number without a bound; counts of schedules soon have hundreds of digits.
///
/// ```
/// use castell_policy::placement::Natural;
///
/// let mut power = Natural::from(1);
/// (0..100).for_each(|_| power = power.times(&Natural::from(2)));
/// assert_eq!(power.to_string(), "1267650600228229401496703205376");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Natural {
    /// Low word first; the last is not 0.
    words: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(value: u64) -> Natural {
        let mut natural = Natural { words: vec![value as u32, (value >> 32) as u32] };
        natural.trim();
        natural
    }
}

impl Natural {
    /// Adds another one.
    pub fn add(&mut self, other: &Natural) {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        let mut carry = 0;
        for (at, word) in self.words.iter_mut().enumerate() {
            let sum = u64::from(*word) + u64::from(other.words.get(at).copied().unwrap_or(0)) + carry;
            *word = sum as u32;
            carry = sum >> 32;
        }
        if carry > 0 {
            self.words.push(carry as u32);
        }
    }

    /// What is left without a smaller one; `None` if that is larger.
    pub fn minus(&self, other: &Natural) -> Option<Natural> {
        if *self < *other {
            return None;
        }
        let mut left = self.clone();
        let mut borrow = 0;
        for (at, word) in left.words.iter_mut().enumerate() {
            let taken = u64::from(other.words.get(at).copied().unwrap_or(0)) + borrow;
            borrow = u64::from(u64::from(*word) < taken);
            *word = ((borrow << 32) + u64::from(*word) - taken) as u32;
        }
        left.trim();
        Some(left)
    }

    /// The product.
    pub fn times(&self, other: &Natural) -> Natural {
        let mut words = vec![0u32; self.words.len() + other.words.len()];
        for (at, &left) in self.words.iter().enumerate() {
            let mut carry = 0;
            for (shift, &right) in other.words.iter().enumerate() {
                let sum = u64::from(left) * u64::from(right) + u64::from(words[at + shift]) + carry;
                words[at + shift] = sum as u32;
                carry = sum >> 32;
            }
            words[at + other.words.len()] = carry as u32;
        }
        let mut product = Natural { words };
        product.trim();
        product
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.words.is_empty()
    }

    /// The same as a machine's number, if it fits.
    pub fn to_u64(&self) -> Option<u64> {
        let word = |at: usize| u64::from(self.words.get(at).copied().unwrap_or(0));
        (self.words.len() <= 2).then(|| word(0) | word(1) << 32)
    }

    /// This number divided by another one, to about 15 digits; of 0 by 0, 0.
    pub fn ratio(&self, other: &Natural) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        let (left, left_words) = self.leading();
        let (right, right_words) = other.leading();
        left / right * 2f64.powi(32 * (left_words as i32 - right_words as i32))
    }

    /// The number of its bits.
    pub fn bits(&self) -> u64 {
        self.words.last().map_or(0, |&last| 32 * self.words.len() as u64 - u64::from(last.leading_zeros()))
    }

    /// The number that these words are, low word first.
    pub fn from_words(words: Vec<u32>) -> Natural {
        let mut natural = Natural { words };
        natural.trim();
        natural
    }

    /// The first words as a number, and how many words stand behind them.
    fn leading(&self) -> (f64, usize) {
        let behind = self.words.len().saturating_sub(3);
        let leading = self.words[behind..].iter().rev();
        (leading.fold(0.0, |value, &word| value * 4_294_967_296.0 + f64::from(word)), behind)
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let longer = self.words.len().cmp(&other.words.len());
        longer.then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }
}

impl std::fmt::Display for Natural {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const BASE: u64 = 1_000_000_000;
        let mut words = self.words.clone();
        let mut parts = Vec::new();
        while !words.is_empty() {
            let mut rest = 0;
            for word in words.iter_mut().rev() {
                let value = rest << 32 | u64::from(*word);
                *word = (value / BASE) as u32;
                rest = value % BASE;
            }
            parts.push(rest);
            while words.last() == Some(&0) {
                words.pop();
            }
        }
        let first = parts.pop().unwrap_or(0);
        let behind: String = parts.iter().rev().map(|part| format!("{part:09}")).collect();
        out.pad_integral(true, "", &format!("{first}{behind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn natural(value: u128) -> Natural {
        let words = (0..4).map(|at| (value >> (32 * at)) as u32).collect();
        Natural::from_words(words)
    }

    proptest! {
        #[test]
        fn numbers_add_multiply_and_print_as_machine_ones(one: u64, other: u64, third: u32) {
            let (wide, narrow) = (u128::from(one) * u128::from(other), u128::from(third));
            let product = Natural::from(one).times(&Natural::from(other));
            prop_assert_eq!(&product, &natural(wide));
            prop_assert_eq!(product.to_string(), wide.to_string());
            let mut sum = product.clone();
            sum.add(&natural(narrow));
            prop_assert_eq!(&sum, &natural(wide + narrow));
            prop_assert_eq!(sum.minus(&product), Some(natural(narrow)));
            prop_assert_eq!(product.cmp(&natural(narrow)), wide.cmp(&narrow));
            prop_assert_eq!(natural(wide).bits(), u64::from(128 - wide.leading_zeros()));
            let exact = wide as f64 / (narrow + 1) as f64;
            prop_assert!((natural(wide).ratio(&natural(narrow + 1)) / exact.max(1e-300) - 1.0).abs() < 1e-12 || wide == 0);
        }
    }
}
