//! From text to words.

use super::{Stage, Word};

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

/// Reads a whole word.
pub(super) fn word(text: &str) -> Result<Word, ParseError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut stages = vec![stage(&mut scanner)?];
    while scanner.take(',') {
        stages.push(stage(&mut scanner)?);
    }
    if scanner.at < text.len() {
        return Err(scanner.error("`,` or the end"));
    }
    Ok(Word { stages })
}

fn stage(scanner: &mut Scanner<'_>) -> Result<Stage, ParseError> {
    if !scanner.take('a') {
        return Err(scanner.error("a stage such as `a4`"));
    }
    let factor = scanner.number(2, "a factor of at least 2")?;
    Ok(Stage::Factor { factor })
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
