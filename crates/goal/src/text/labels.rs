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
    /// The first eight bytes, zeros behind a shorter label.
    head: u64,
    start: usize,
    generation: u32,
    bytes: u32,
    vertex: u32,
    line: u32,
}

/// A label as the table takes it.
#[derive(Clone, Copy)]
pub(super) struct Label {
    hash: u32,
    head: u64,
    start: usize,
    bytes: u32,
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
        Labels::for_many(text, 0)
    }

    /// A table that takes so many labels without growing.
    pub fn for_many(text: &'a [u8], labels: usize) -> Labels<'a> {
        // A hostile file must not be able to choose labels that collide. The seed decides where entries lie, never
        // what a look-up finds.
        let seed = RandomState::new().hash_one(0u8);
        let slots = (2 * labels + 1).next_power_of_two().max(SLOTS_MIN);
        Labels { text, slots: vec![Slot::default(); slots], generation: 1, used: 0, seed }
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

    /// The label at `text[start..end]`.
    #[inline]
    pub fn label(&self, start: usize, end: usize) -> Label {
        let number_at = split_number(&self.text[start..end]);
        let number = self.text[start + number_at..end].iter();
        let number = number.fold(0, |number, &digit| number * 10 + u64::from(digit - b'0'));
        self.numbered(start, end, number_at, number)
    }

    /// The label at `text[start..end]` that ends, from its byte `number_at` on, in a number of at most 18 digits, the
    /// first of them no 0.
    #[inline]
    pub fn numbered(&self, start: usize, end: usize, number_at: usize, number: u64) -> Label {
        let head = head(self.text, start, end);
        let mut state = self.seed ^ number_at as u64;
        if number_at <= 8 {
            state = mix(state ^ (head & mask(number_at)));
        } else {
            for at in (start..start + number_at).step_by(8) {
                state = mix(state ^ self::head(self.text, at, (at + 8).min(start + number_at)));
            }
        }
        let high = mix(state ^ (number / u64::from(RUN))) as u32;
        // The prefix's own bits shift the run, so that `a1` and `b1` start at different places.
        let hash = (high & !(RUN - 1)) | ((number as u32).wrapping_add(state as u32) & (RUN - 1));
        Label { hash, head, start, bytes: (end - start) as u32 }
    }

    /// Adds a label, or returns the definition that it has already.
    pub fn define(&mut self, label: Label, definition: Definition) -> Option<Definition> {
        match self.vacant(label) {
            Some(slot) => self.fill(slot, label, definition),
            None => return self.get(label),
        }
        None
    }

    /// The slot of a label that is not there yet; `None`: it is there.
    #[inline]
    pub fn vacant(&mut self, label: Label) -> Option<usize> {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        self.find(label).err()
    }

    /// Adds a label to its slot.
    #[inline]
    pub fn fill(&mut self, slot: usize, label: Label, definition: Definition) {
        let Label { head, start, bytes, .. } = label;
        let Definition { vertex, line } = definition;
        self.used += 1;
        self.slots[slot] = Slot { head, start, generation: self.generation, bytes, vertex, line };
    }

    /// What `label` stands for.
    #[inline]
    pub fn get(&self, label: Label) -> Option<Definition> {
        let slot = &self.slots[self.find(label).ok()?];
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
    fn find(&self, label: Label) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut index = label.hash as usize & mask;
        // At most half of the slots are in use, so the walk ends.
        loop {
            let slot = &self.slots[index];
            if slot.generation != self.generation {
                return Err(index);
            }
            if slot.head == label.head && slot.bytes == label.bytes && self.is_same(slot.start, label) {
                return Ok(index);
            }
            index = (index + 1) & mask;
        }
    }

    /// Whether the label at `start` is `label`, their first eight bytes and lengths being the same.
    #[inline]
    fn is_same(&self, start: usize, label: Label) -> bool {
        let bytes = label.bytes as usize;
        bytes <= 8 || self.text[start + 8..start + bytes] == self.text[label.start + 8..label.start + bytes]
    }

    fn grow(&mut self) {
        let doubled = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, doubled);
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.generation == self.generation) {
            let hash = self.label(slot.start, slot.start + slot.bytes as usize).hash;
            let mut index = hash as usize & mask;
            while self.slots[index].generation == self.generation {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }
}

/// The first eight bytes of `text[start..end]`, zeros behind a shorter one.
#[inline]
fn head(text: &[u8], start: usize, end: usize) -> u64 {
    if let Some(bytes) = text.get(start..start + 8) {
        let bytes = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        return bytes & mask(end - start);
    }
    let bytes = text[start..end].iter().rev();
    bytes.fold(0, |head, &byte| head << 8 | u64::from(byte))
}

/// The lowest so many bytes, up to all eight.
#[inline]
fn mask(bytes: usize) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// Where the number begins in which `label` ends. Leading zeros belong to what comes before it (`l1` and `l01` differ),
/// and so do all digits but the last 18.
#[inline]
fn split_number(label: &[u8]) -> usize {
    let mut start = label.len();
    let digits_max = label.len().saturating_sub(18);
    while start > digits_max && label[start - 1].is_ascii_digit() {
        start -= 1;
    }
    while start < label.len() && label[start] == b'0' {
        start += 1;
    }
    start
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
            assert_eq!(labels.define(labels.label(at, at + word.len()), definition), None, "{word}");
            at += word.len() + 1;
        }
    }

    /// Looks the words of `text` up where they stand a second time, from `at` on.
    fn check_all(labels: &Labels<'_>, text: &str, mut at: usize) {
        for (index, word) in text.split(' ').enumerate() {
            let label = labels.label(at, at + word.len());
            assert_eq!(labels.get(label).map(|definition| definition.vertex), Some(index as u32), "{word}");
            at += word.len() + 1;
        }
    }

    #[test]
    fn finds_what_was_defined_and_nothing_else() {
        let prefixes = ["l", "send_", "x0", "a_long_prefix_", "eightlet"];
        let words: Vec<String> = (0..5000).map(|n| format!("{}{n}", prefixes[n % 5])).collect();
        let text = words.join(" ");
        let looked_up = format!("{text} {text} l5000");
        let mut labels = Labels::new(looked_up.as_bytes());
        define_all(&mut labels, &text);
        check_all(&labels, &text, text.len() + 1);
        let unknown = labels.label(looked_up.len() - 5, looked_up.len());
        assert_eq!(labels.get(unknown), None);
        let first = labels.label(0, 2);
        assert!(labels.get(first).is_some());
        labels.clear();
        assert_eq!(labels.get(first), None);
    }

    #[test]
    fn tells_numbers_with_leading_zeros_apart() {
        let text =
            "l1 l01 l001 l10000000000000000000000001 l1_ l a99999999999999999999 l10000000000000000000000002";
        let looked_up = format!("{text} {text}");
        let mut labels = Labels::new(looked_up.as_bytes());
        define_all(&mut labels, text);
        check_all(&labels, text, text.len() + 1);
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

    /// Labels that differ in one byte or in their length, at the end of the text, too.
    #[test]
    fn every_byte_of_a_label_counts() {
        let long = "abcdefghijklmnopqrst";
        let mut words: Vec<String> = Vec::new();
        for length in 1..=long.len() {
            words.push(long[..length].to_owned());
            for place in 0..length {
                for other in ["z", "1", "0"].into_iter().filter(|other| place > 0 || *other == "z") {
                    words.push(format!("{}{other}{}", &long[..place], &long[place + 1..length]));
                }
            }
        }
        let text = words.join(" ");
        let looked_up = format!("{text} {text}");
        let mut labels = Labels::new(looked_up.as_bytes());
        define_all(&mut labels, &text);
        check_all(&labels, &text, text.len() + 1);
        for (word, rest) in [("abcdefgh", "i"), ("abc", ""), ("a", "b"), ("abcdefghijklmnop", "q")] {
            let short = format!("{word}{rest}");
            let mut labels = Labels::new(short.as_bytes());
            let label = labels.label(0, word.len());
            let definition = Definition { vertex: 3, line: 4 };
            assert_eq!(labels.define(label, definition), None);
            assert_eq!(labels.define(label, Definition { vertex: 5, line: 6 }), Some(definition));
            assert_eq!(labels.get(label), Some(definition));
            assert_eq!(labels.get(labels.label(0, short.len())), (rest.is_empty()).then_some(definition));
        }
    }

    /// When the generations come around, labels of the first must not come back.
    #[test]
    fn generations_may_come_around() {
        let mut labels = Labels::new(b"first second");
        let (first, second) = (labels.label(0, 5), labels.label(6, 12));
        labels.define(first, Definition { vertex: 1, line: 1 });
        labels.generation = u32::MAX;
        labels.define(second, Definition { vertex: 2, line: 1 });
        labels.clear();
        assert_eq!((labels.generation, labels.used), (1, 0));
        assert!(labels.get(first).is_none() && labels.get(second).is_none());
        labels.define(first, Definition { vertex: 1, line: 1 });
        labels.clear();
        assert_eq!(labels.generation, 2);
        assert!(labels.get(first).is_none());
    }

    /// Edits by the definition, from the end.
    fn edits(a: &[u8], b: &[u8]) -> usize {
        let (Some((last_a, a_before)), Some((last_b, b_before))) = (a.split_last(), b.split_last()) else {
            return a.len() + b.len();
        };
        let replaced = edits(a_before, b_before) + usize::from(last_a != last_b);
        let mut fewest = replaced.min(edits(a_before, b) + 1).min(edits(a, b_before) + 1);
        if let ([a_rest @ .., x, y], [b_rest @ .., v, w]) = (a, b)
            && (x, y) == (w, v)
        {
            fewest = fewest.min(edits(a_rest, b_rest) + 1);
        }
        fewest
    }

    #[test]
    fn distances_and_suggestions_are_by_the_definition() {
        use rand::{Rng, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(20_261_127);
        let mut suggested = 0;
        for _ in 0..400 {
            let word = |random: &mut rand_chacha::ChaCha8Rng| -> String {
                (0..random.random_range(1..7)).map(|_| ["a", "b", "c"][random.random_range(0..3)]).collect()
            };
            let mut words: Vec<String> = Vec::new();
            while words.len() < 4 {
                let next = word(&mut random);
                if !words.contains(&next) {
                    words.push(next);
                }
            }
            let text = words.join(" ");
            let mut labels = Labels::new(text.as_bytes());
            define_all(&mut labels, &text);
            let asked = word(&mut random);
            // One edit, and one more for each four bytes; but never as many as the label has.
            let limit = (1 + asked.len() / 4).min(asked.len() - 1);
            let by_distance = words.iter().map(|other| (edits(asked.as_bytes(), other.as_bytes()), other));
            let expected = by_distance.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits);
            assert_eq!(
                labels.closest(asked.as_bytes()),
                expected.map(|(_, other)| other.as_bytes()),
                "{asked}: {text}"
            );
            suggested += usize::from(expected.is_some());
            for other in &words {
                let fewest = edits(asked.as_bytes(), other.as_bytes());
                for limit in [fewest, 10] {
                    assert_eq!(
                        distance(asked.as_bytes(), other.as_bytes(), limit),
                        Some(fewest),
                        "{asked} {other}"
                    );
                }
                let less =
                    fewest.checked_sub(1).map(|less| distance(asked.as_bytes(), other.as_bytes(), less));
                assert!(less.is_none_or(|distance| distance.is_none()), "{asked} {other}");
            }
        }
        assert!((50..350).contains(&suggested), "{suggested}");
        // Longer ones are not compared.
        let (longest, longer) = ([b'x'; 32], [b'x'; 33]);
        assert_eq!(distance(&longest, &longest[1..], 5), Some(1));
        assert_eq!(distance(&longest[1..], &longest, 5), Some(1));
        assert_eq!(distance(&longer, &longest, 5), None);
        assert_eq!(distance(&longest, &longer, 5), None);
    }
}
