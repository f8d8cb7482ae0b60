//! The table of one rank's labels, used again from rank to rank.
//!
//! Labels in the wild are a letter and a running number, defined and used in nearly the order of the numbers. The
//! table keeps that locality: the last five bits of a trailing number choose the slot inside a run of 32, the rest is
//! hashed. Keys are ranges of the text, so nothing is allocated a label, and a generation number empties the table
//! in constant time (a first rank with a million labels does not make a thousand small ranks slow).

use std::hash::{BuildHasher, RandomState};

/// What a label stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// Index of the vertex; [`Definition::BROKEN`] where the operation had an error.
    pub vertex: u32,
    /// Line of the definition.
    pub line: u32,
}

impl Definition {
    /// The vertex of an operation that was refused: the label is known, edges to it are dropped silently.
    pub const BROKEN: u32 = u32::MAX;
}

#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    hash: u32,
    start: usize,
    bytes: u32,
    vertex: u32,
    line: u32,
}

pub(super) struct Labels<'a> {
    text: &'a [u8],
    slots: Vec<Slot>,
    generation: u32,
    used: usize,
    seed: u64,
}

const SLOTS_MIN: usize = 64;
/// A wrong label is compared with so many others.
const COMPARED_MAX: usize = 50_000;
const RUN: u32 = 32;

impl<'a> Labels<'a> {
    pub fn new(text: &'a [u8]) -> Labels<'a> {
        // A hostile file must not be able to choose labels that collide. The seed decides where entries lie, never
        // what a look-up finds.
        let seed = RandomState::new().hash_one(0u8);
        Labels { text, slots: vec![Slot::default(); SLOTS_MIN], generation: 1, used: 0, seed }
    }

    /// Forgets all labels.
    pub fn clear(&mut self) {
        self.used = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(Slot::default());
            self.generation = 1;
        }
    }

    /// Adds the label at `text[start..end]`, or returns the definition that it has already.
    #[inline]
    pub fn define(&mut self, start: usize, end: usize, definition: Definition) -> Option<Definition> {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = self.hash(&self.text[start..end]);
        let index = match self.find(hash, &self.text[start..end]) {
            Ok(index) => {
                let slot = &self.slots[index];
                return Some(Definition { vertex: slot.vertex, line: slot.line });
            }
            Err(index) => index,
        };
        self.used += 1;
        self.slots[index] = Slot {
            generation: self.generation,
            hash,
            start,
            bytes: (end - start) as u32,
            vertex: definition.vertex,
            line: definition.line,
        };
        None
    }

    /// What `label` stands for.
    #[inline]
    pub fn get(&self, label: &[u8]) -> Option<Definition> {
        let index = self.find(self.hash(label), label).ok()?;
        let slot = &self.slots[index];
        Some(Definition { vertex: slot.vertex, line: slot.line })
    }

    /// The label most like `label`, if one is similar; of several, the first in the text.
    pub fn closest(&self, label: &[u8]) -> Option<&'a [u8]> {
        let limit = (1 + label.len() / 4).min(label.len().saturating_sub(1));
        let current = self.slots.iter().filter(|slot| slot.generation == self.generation).take(COMPARED_MAX);
        let similar = current.filter(|slot| (slot.bytes as usize).abs_diff(label.len()) <= limit);
        similar
            .filter_map(|slot| {
                let other = &self.text[slot.start..slot.start + slot.bytes as usize];
                Some((distance(label, other, limit)?, slot.start, other))
            })
            .min()
            .map(|(_, _, other)| other)
    }

    /// The slot that holds the label, or the empty one where it would go.
    #[inline]
    fn find(&self, hash: u32, label: &[u8]) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        // At most half of the slots are in use, so the walk ends.
        loop {
            let slot = &self.slots[index];
            if slot.generation != self.generation {
                return Err(index);
            }
            let same = slot.hash == hash && slot.bytes as usize == label.len();
            if same && self.text[slot.start..slot.start + label.len()] == *label {
                return Ok(index);
            }
            index = (index + 1) & mask;
        }
    }

    #[inline]
    fn hash(&self, label: &[u8]) -> u32 {
        let (prefix, number) = split_number(label);
        let mut state = self.seed ^ prefix.len() as u64;
        for chunk in prefix.chunks(8) {
            let word = chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            state = mix(state ^ word);
        }
        let run = u64::from(RUN);
        let high = mix(state ^ (number / run)) as u32;
        // The prefix's own bits shift the run, so that `a1` and `b1` start at different places.
        (high & !(RUN - 1)) | ((number as u32).wrapping_add(state as u32) & (RUN - 1))
    }

    fn grow(&mut self) {
        let doubled = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, doubled);
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.generation == self.generation) {
            let mut index = slot.hash as usize & mask;
            while self.slots[index].generation == self.generation {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }
}

/// Splits `label` into what comes before its trailing number, and the number. Leading zeros belong to the first
/// part (`l1` and `l01` differ), and so do all digits but the last 18.
#[inline]
fn split_number(label: &[u8]) -> (&[u8], u64) {
    let mut start = label.len();
    let digits_max = label.len().saturating_sub(18);
    while start > digits_max && label[start - 1].is_ascii_digit() {
        start -= 1;
    }
    while start < label.len() && label[start] == b'0' {
        start += 1;
    }
    let number = label[start..].iter().fold(0, |number, &digit| number * 10 + u64::from(digit - b'0'));
    (&label[..start], number)
}

/// Spreads 64 bits over 64 bits (the finaliser of a multiply-and-fold hash).
#[inline]
fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    (product as u64) ^ (product >> 64) as u64
}

/// Edits (insert, delete, replace, swap neighbours) from `a` to `b`, unless there are more than `limit` or a label
/// is too long to be worth it.
fn distance(a: &[u8], b: &[u8], limit: usize) -> Option<usize> {
    const LONG: usize = 32;
    if a.len() > LONG || b.len() > LONG {
        return None;
    }
    let (mut before, mut last, mut row) = ([0; LONG + 1], [0; LONG + 1], [0; LONG + 1]);
    (0..=b.len()).for_each(|j| last[j] = j);
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, last) = (last, row);
    }
    Some(last[b.len()]).filter(|&edits| edits <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define_all<'a>(labels: &mut Labels<'a>, text: &'a str) {
        let mut at = 0;
        for (index, word) in text.split(' ').enumerate() {
            let definition = Definition { vertex: index as u32, line: 1 };
            assert_eq!(labels.define(at, at + word.len(), definition), None, "{word}");
            at += word.len() + 1;
        }
    }

    #[test]
    fn finds_what_was_defined_and_nothing_else() {
        let words: Vec<String> = (0..5000).map(|n| format!("{}{n}", ["l", "send_", "x0"][n % 3])).collect();
        let text = words.join(" ");
        let mut labels = Labels::new(text.as_bytes());
        define_all(&mut labels, &text);
        for (index, word) in words.iter().enumerate() {
            assert_eq!(labels.get(word.as_bytes()).map(|d| d.vertex), Some(index as u32), "{word}");
        }
        assert_eq!(labels.get(b"l5000"), None);
        labels.clear();
        assert_eq!(labels.get(b"l0"), None);
    }

    #[test]
    fn tells_numbers_with_leading_zeros_apart() {
        let text = "l1 l01 l001 l10000000000000000000000001 l1_ l a99999999999999999999";
        let mut labels = Labels::new(text.as_bytes());
        define_all(&mut labels, text);
        for (index, word) in text.split(' ').enumerate() {
            assert_eq!(labels.get(word.as_bytes()).map(|d| d.vertex), Some(index as u32), "{word}");
        }
    }

    #[test]
    fn suggests_the_closest_label() {
        let text = "first second third";
        let mut labels = Labels::new(text.as_bytes());
        define_all(&mut labels, text);
        assert_eq!(labels.closest(b"frist"), Some(&b"first"[..]));
        assert_eq!(labels.closest(b"secon"), Some(&b"second"[..]));
        assert_eq!(labels.closest(b"zzz"), None);
    }
}
