//! A cursor over the bytes of a text: blanks, comments, words, numbers; and where it stands.

use super::error::Problem;

/// Where something stands in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

/// A problem and where it shows. Small, because every step of the usual way could return one.
#[derive(Debug)]
pub(super) struct Fault {
    pub position: Position,
    pub problem: Box<Problem>,
}

impl Fault {
    #[cold]
    pub fn new(position: Position, problem: Problem) -> Fault {
        Fault { position, problem: Box::new(problem) }
    }
}

pub(super) struct Scanner<'a> {
    pub text: &'a [u8],
    pub at: usize,
    pub line: u32,
    pub line_start: usize,
}

/// Bytes that may continue a word.
pub(super) const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || b == b'_';
        byte += 1;
    }
    table
};

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8]) -> Scanner<'a> {
        // A byte order mark is no part of the text.
        let at = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        Scanner { text, at, line: 1, line_start: at }
    }

    /// The next byte; 0 at the end (and for a NUL, which no rule accepts either).
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    #[inline]
    pub fn position(&self) -> Position {
        self.position_of(self.at)
    }

    /// Position of a byte of the current line.
    #[inline]
    pub fn position_of(&self, at: usize) -> Position {
        let column = at.saturating_sub(self.line_start).saturating_add(1);
        Position { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    /// Skips blanks and comments of any kind within a statement.
    #[inline]
    pub fn skip_blanks(&mut self) -> Result<(), Fault> {
        loop {
            match self.peek() {
                b' ' | b'\t' => self.at += 1,
                b'/' => {
                    if !self.skip_comment()? {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Skips blanks, comments and ends of lines between statements.
    #[inline]
    pub fn skip_lines(&mut self) -> Result<(), Fault> {
        loop {
            self.skip_blanks()?;
            if !self.take_newline() {
                return Ok(());
            }
        }
    }

    /// Takes an end of line.
    #[inline]
    pub fn take_newline(&mut self) -> bool {
        let found = self.is_at_newline();
        if found {
            self.at += if self.text[self.at] == b'\n' { 1 } else { 2 };
            self.begin_line();
        }
        found
    }

    /// Whether an end of line stands here: `\n` or `\r\n`.
    #[inline]
    pub fn is_at_newline(&self) -> bool {
        match self.peek() {
            b'\n' => true,
            b'\r' => self.text.get(self.at + 1) == Some(&b'\n'),
            _ => false,
        }
    }

    fn begin_line(&mut self) {
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    /// Skips the comment that begins here, if one does. The newline that ends a `//` comment stays.
    #[cold]
    fn skip_comment(&mut self) -> Result<bool, Fault> {
        match self.text.get(self.at + 1) {
            Some(b'/') => {
                let rest = &self.text[self.at..];
                self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                Ok(true)
            }
            Some(b'*') => {
                let open = self.position();
                self.at += 2;
                while !self.text[self.at..].starts_with(b"*/") {
                    if self.is_at_end() {
                        return Err(Fault::new(open, Problem::CommentUnclosed));
                    }
                    self.at += 1;
                    if self.text[self.at - 1] == b'\n' {
                        self.begin_line();
                    }
                }
                self.at += 2;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// After an error: goes to the end of the line or the next `}`, whichever comes first.
    pub fn recover(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|byte| matches!(byte, b'\n' | b'}')).unwrap_or(rest.len());
    }

    /// Takes a word (`[a-zA-Z][a-zA-Z0-9_]*`, the longest), if one begins here, and returns where it began.
    #[inline]
    pub fn take_word(&mut self) -> Option<usize> {
        let start = self.at;
        if !self.peek().is_ascii_alphabetic() {
            return None;
        }
        let mut end = start + 1;
        while end < self.text.len() && WORD[usize::from(self.text[end])] {
            end += 1;
        }
        self.at = end;
        Some(start)
    }

    /// Takes `word` if it stands here, whatever follows: LogGOPSim's scanner wants no blank behind it.
    #[inline]
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    /// Takes `word` if it stands here as a whole word.
    #[inline]
    pub fn take_whole(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let follows = self.text.get(end).is_some_and(|&byte| WORD[usize::from(byte)]);
        !follows && self.take(word)
    }

    /// Takes a decimal number of at most `limit`.
    #[inline]
    pub fn take_number(&mut self, what: &'static str, limit: u64) -> Result<u64, Fault> {
        let start = self.at;
        let mut number: u64 = 0;
        let mut fits = true;
        while self.at < self.text.len() {
            let digit = self.text[self.at].wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            match number.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit))) {
                Some(next) => number = next,
                None => fits = false,
            }
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected(format!("a number ({what})")));
        }
        if !fits || number > limit {
            return Err(self.too_large(start, what, limit));
        }
        Ok(number)
    }

    /// Takes a number that may be written in hexadecimal with `0x`.
    pub fn take_address(&mut self, what: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        if !(self.take("0x") || self.take("0X")) {
            return self.take_number(what, u64::MAX);
        }
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 0 {
            return Err(self.expected("hexadecimal digits".into()));
        }
        let mut number: u64 = 0;
        for &byte in &self.text[self.at..self.at + digits] {
            let digit = (byte as char).to_digit(16).map_or(0, u64::from);
            if number >> 60 != 0 {
                self.at += digits;
                return Err(self.too_large(start, what, u64::MAX));
            }
            number = number << 4 | digit;
        }
        self.at += digits;
        Ok(number)
    }

    #[cold]
    fn too_large(&self, start: usize, what: &'static str, limit: u64) -> Fault {
        let written = &self.text[start..self.at];
        let digits = match written.len() {
            0..=40 => String::from_utf8_lossy(written).into_owned(),
            length => format!("{}… ({length} digits)", String::from_utf8_lossy(&written[..20])),
        };
        self.fault(start, Problem::TooLarge { what, digits, limit })
    }

    /// The fault "expected … , found what stands here".
    #[cold]
    pub fn expected(&self, expected: String) -> Fault {
        self.fault(self.at, Problem::Expected { expected, found: self.found() })
    }

    /// A fault at a byte of the current line.
    #[cold]
    pub fn fault(&self, at: usize, problem: Problem) -> Fault {
        Fault::new(self.position_of(at), problem)
    }

    /// What stands here, for an error message: a word, a number, or one character.
    fn found(&self) -> String {
        let rest = &self.text[self.at.min(self.text.len())..];
        match rest {
            [] => return "the end of the file".into(),
            [b'\n', ..] | [b'\r', b'\n', ..] => return "the end of the line".into(),
            [b'\r', ..] => return "a carriage return without a line feed".into(),
            _ => (),
        }
        let length = rest.iter().take_while(|&&byte| WORD[usize::from(byte)]).count();
        if length > 0 {
            let shown = String::from_utf8_lossy(&rest[..length.min(40)]);
            return format!("`{shown}{}`", if length > 40 { "…" } else { "" });
        }
        let window = &rest[..rest.len().min(4)];
        let valid = match std::str::from_utf8(window) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default(),
        };
        match valid.chars().next() {
            Some(character) if character.is_whitespace() => {
                format!("the blank U+{:04X}", u32::from(character))
            }
            Some(character) if !character.is_control() => format!("`{character}`"),
            Some(character) => format!("the control character U+{:04X}", u32::from(character)),
            None => format!("the byte 0x{:02X}, which is not UTF-8", rest[0]),
        }
    }
}
