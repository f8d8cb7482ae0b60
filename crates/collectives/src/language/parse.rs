//! From text to words.

use super::{Fold, Merged, Stage, Word};

/// Text that is no word of the language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`, character {}: expected {expected}, found {found}", position + 1)]
pub struct ParseError {
    /// The whole text.
    pub text: String,
    /// Where in it reading stopped: characters before that place.
    pub position: usize,
    /// What could have stood there.
    pub expected: &'static str,
    /// What stands there instead.
    pub found: String,
}

/// Reads a whole word; nothing at all is the empty word.
pub(super) fn word(text: &str) -> Result<Word, ParseError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut stages = Vec::new();
    scanner.skip_spaces();
    if scanner.at == text.len() {
        return Ok(Word { stages });
    }
    stages.push(stage(&mut scanner)?);
    while scanner.take(',') {
        stages.push(stage(&mut scanner)?);
    }
    if scanner.at < text.len() {
        return Err(scanner.error("`,` or the end"));
    }
    Ok(Word { stages })
}

fn stage(scanner: &mut Scanner<'_>) -> Result<Stage, ParseError> {
    for letter in ['a', 'c', 'e', 'm', 'n', 'r', 'g'] {
        if scanner.take(letter) {
            return Ok(match letter {
                'a' => Stage::Factor { factor: factor(scanner)? },
                'c' => Stage::Collapse(fold(scanner)?),
                'e' => Stage::Expand(fold(scanner)?),
                'm' => Stage::Merge(merged(scanner)?),
                'n' => Stage::InverseMerge(merged(scanner)?),
                'r' => Stage::ReduceScatter { factor: factor(scanner)? },
                _ => Stage::Allgather { factor: factor(scanner)? },
            });
        }
    }
    Err(scanner.error("a stage: a4, c6m2, e6m2, m1g2a3, n1g3a2, r4 or g4"))
}

fn factor(scanner: &mut Scanner<'_>) -> Result<u32, ParseError> {
    scanner.number(2, "a factor of at least 2")
}

/// The `6m2` of `c6m2`, the `3m3k2` of `c3m3k2`.
fn fold(scanner: &mut Scanner<'_>) -> Result<Fold, ParseError> {
    let ranks = scanner.number(2, "a number of ranks, at least 2")?;
    scanner.letter('m', "`m` and the block size, as in `c6m2`")?;
    let block = scanner.number(2, "a block size of at least 2")?;
    let keep = if scanner.take('k') {
        let at = scanner.at;
        let keep = scanner.number(1, "1, or 2 of a block of 3")?;
        if keep != 1 && (keep, block) != (2, 3) {
            scanner.at = at;
            return Err(scanner.error("1, or 2 of a block of 3"));
        }
        keep
    } else {
        1
    };
    Ok(Fold { ranks, block, keep })
}

/// The `1g2a3` of `m1g2a3`.
fn merged(scanner: &mut Scanner<'_>) -> Result<Merged, ParseError> {
    let remainder = scanner.number(1, "a number of ranks that stand aside, at least 1")?;
    scanner.letter('g', "`g` and the number of groups, as in `m1g2a3`")?;
    let groups = scanner.number(1, "a number of groups, at least 1")?;
    scanner.letter('a', "`a` and the factor, as in `m1g2a3`")?;
    Ok(Merged { remainder, groups, factor: factor(scanner)? })
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    /// Steps over `wanted` if it stands here; spaces before it do not count.
    fn take(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// Steps over `wanted`, which has to stand here.
    fn letter(&mut self, wanted: char, expected: &'static str) -> Result<(), ParseError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// A decimal number of at least `least`.
    fn number(&mut self, least: u32, expected: &'static str) -> Result<u32, ParseError> {
        let digits = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        let number = self.text[self.at..][..digits].parse().ok().filter(|&number| number >= least);
        let number = number.ok_or_else(|| self.error(expected))?;
        self.at += digits;
        Ok(number)
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// What stands here is not what was expected.
    fn error(&self, expected: &'static str) -> ParseError {
        let rest = &self.text[self.at..];
        let run = rest.bytes().take_while(u8::is_ascii_digit).count();
        let found = match rest.chars().next() {
            None => "the end".into(),
            Some(_) if run > 0 => format!("`{}`", &rest[..run]),
            Some(character) => format!("`{character}`"),
        };
        let position = self.text[..self.at].chars().count();
        ParseError { text: self.text.into(), position, expected, found }
    }
}
