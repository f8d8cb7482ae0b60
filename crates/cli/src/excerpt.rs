//! Lines of a user's text with a mark below the place that a message is about.

use crate::colour::Stream;
use castell_goal::text::ParseErrors;
use std::fmt;
use std::path::Path;

/// No more places are shown in one go.
const SHOWN_MAX: usize = 20;
/// No more columns of a line are shown.
const COLUMNS_MAX: usize = 160;

/// A message and where it points to in the file, both from 1.
#[derive(Debug)]
pub struct Problem {
    pub text: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// What is wrong with a file, one after the other.
#[derive(Debug)]
pub struct Problems {
    /// As messages name it.
    pub file: String,
    pub problems: Vec<Problem>,
    /// What is to be said in the end.
    pub closing: String,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closing = (!self.closing.is_empty()).then_some(self.closing.as_str());
        let texts: Vec<&str> =
            self.problems.iter().map(|problem| problem.text.as_str()).chain(closing).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// Those of a text that cannot be read.
    pub fn of(errors: &ParseErrors) -> Problems {
        let problem = |error: &castell_goal::text::ParseError| Problem {
            text: format!("{}:{error}", errors.file),
            line: Some(error.line),
            column: Some(error.column),
        };
        let closing = if errors.stopped {
            format!("{}: too many errors; the rest of the file was not read", errors.file)
        } else {
            String::new()
        };
        Problems { file: errors.file.clone(), problems: errors.errors.iter().map(problem).collect(), closing }
    }

    /// The messages, each with the line that it is about where the file still has it.
    pub fn with_excerpts(&self, stream: Stream) -> String {
        let source = Source::of(&self.file);
        let mut text = String::new();
        for (at, problem) in self.problems.iter().enumerate() {
            text.push_str(&problem.text);
            text.push('\n');
            if at < SHOWN_MAX {
                text.push_str(&source.excerpt(problem.line, problem.column, stream));
            }
        }
        text + &self.closing
    }
}

/// The lines of a file that was read before.
pub struct Source(Option<String>);

impl Source {
    /// What is in it now; nothing where it was no text.
    pub fn of(file: &str) -> Source {
        Source(std::fs::read(Path::new(file)).ok().and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// The line, and below it a mark from the column to the end of the word there; nothing where there is no such line.
    pub fn excerpt(&self, line: Option<u32>, column: Option<u32>, stream: Stream) -> String {
        let (Some(text), Some(number)) = (&self.0, line) else { return String::new() };
        let Some(line) = text.lines().nth(number.saturating_sub(1) as usize) else { return String::new() };
        let bar = stream.dim(&format!("{number:>6} | "));
        // One column a character, whatever it is.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = line.chars().take(COLUMNS_MAX).map(plain).collect();
        let Some(start) = column.map(|column| column.saturating_sub(1) as usize) else {
            return format!("{bar}{shown}\n");
        };
        let before = line.get(..start.min(line.len())).map_or(0, |before| before.chars().count());
        if before >= COLUMNS_MAX {
            return String::new();
        }
        let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
        let rest: String = line.chars().skip(before).collect();
        let word = rest.chars().take_while(is_word).count().clamp(1, COLUMNS_MAX - before);
        let mark = stream.red(&"^".repeat(word));
        format!("{bar}{shown}\n{}{}{mark}\n", stream.dim("       | "), " ".repeat(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_marked() {
        let source = Source(Some("one\n\tl2: sned 8b\nü: x\n".into()));
        let plain = Stream::PLAIN;
        let excerpt = |line, column| source.excerpt(Some(line), column, plain);
        assert_eq!(excerpt(2, Some(6)), "     2 |  l2: sned 8b\n       |      ^^^^\n");
        // Columns count bytes, marks characters.
        assert_eq!(excerpt(3, Some(5)), "     3 | ü: x\n       |    ^\n");
        assert_eq!(excerpt(1, None), "     1 | one\n");
        // The end of a line, beyond it, within a character, and lines that are not there.
        assert!(excerpt(1, Some(4)).ends_with("|    ^\n"));
        assert!(excerpt(1, Some(999)).ends_with("|    ^\n"));
        assert!(excerpt(3, Some(2)).contains('^'));
        assert_eq!(excerpt(9, Some(1)), "");
        assert_eq!(Source(None).excerpt(Some(1), Some(1), plain), "");
    }

    #[test]
    fn long_lines_are_cut() {
        let source = Source(Some("x".repeat(10_000)));
        let excerpt = source.excerpt(Some(1), Some(3), Stream::PLAIN);
        assert!(excerpt.lines().all(|line| line.len() < COLUMNS_MAX + 20), "{excerpt}");
        assert_eq!(source.excerpt(Some(1), Some(5000), Stream::PLAIN), "");
    }
}
