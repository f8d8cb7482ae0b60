//! The quick way through a rank's block.
//!
//! Nearly all lines of nearly all texts are of two kinds: one of LogGOPSim's operations, perhaps with a label and with
//! numbers behind it, and a dependency. They are read here without asking at each step what else could stand there. A line
//! that is anything else, or that has something wrong with it, is left as it stands: the grammar, and what is said of a
//! mistake, are in `parser` and `operation` alone.

use super::labels::{Definition, Label, Labels};
use super::operation::{PEER_MAX, TAG_MAX};
use super::parser::Parser;
use super::scanner::{Scanner, WORD};
use super::{LABEL_BYTES_MAX, RESERVED};
use crate::codec::kind;
use crate::graph::Vertex;

impl Parser<'_> {
    /// Takes statements of the current rank for as long as they are of the usual kinds.
    #[inline]
    pub fn take_usual(&mut self) {
        loop {
            self.scanner.skip_empty_lines();
            if self.usual_statement().is_none() {
                return;
            }
        }
    }

    /// Takes one statement; `None`: it is another, or wrong, and nothing happened.
    #[inline]
    fn usual_statement(&mut self) -> Option<()> {
        let mut cursor = Cursor { text: self.scanner.text, at: self.scanner.at };
        let word = cursor.word()?;
        if let Some(kind) = cursor.behind_label() {
            let statement = cursor.operation(kind)?;
            self.add_labelled(&word, &statement)?;
        } else if cursor.take(b" requires ") || cursor.take_loosely(b"requires") {
            self.depend(&word, &mut cursor, false)?;
        } else if cursor.take_loosely(b"irequires") {
            self.depend(&word, &mut cursor, true)?;
        } else {
            let kind = Kind::of(word.bytes(cursor.text))?;
            let statement = cursor.operation(kind)?;
            self.add(&statement, word.start)?;
        }
        self.scanner.at = cursor.at;
        Some(())
    }

    #[inline]
    fn add_labelled(&mut self, word: &Word, statement: &Statement) -> Option<()> {
        let bytes = word.bytes(self.scanner.text);
        if bytes.len() > LABEL_BYTES_MAX
            || bytes.len() >= 4 && RESERVED.iter().any(|word| word.as_bytes() == bytes)
        {
            return None;
        }
        let label = word.label(&self.labels);
        let slot = self.labels.vacant(label)?;
        let vertex = self.add(statement, word.start)?;
        self.labels.fill(slot, label, Definition { vertex: vertex.0, line: self.scanner.line });
        self.name(vertex, word.start..word.end)
    }

    #[inline]
    fn add(&mut self, statement: &Statement, start: usize) -> Option<Vertex> {
        let Statement { operation, size, peer, tag, cpu, nic } = *statement;
        let column = u16::try_from(start - self.scanner.line_start + 1).unwrap_or(u16::MAX);
        let position = (self.scanner.line, column);
        let vertex = match operation {
            Kind::Send => self.graph.add_plain(kind::SEND, size, [peer], tag, position),
            Kind::Recv => self.graph.add_plain(kind::RECV, size, [peer], tag, position),
            Kind::Calc => self.graph.add_plain(kind::CALC, size, [], 0, position),
        }?;
        if cpu != 0 {
            self.graph.set_cpu(vertex, cpu).ok()?;
        }
        if nic != 0 {
            self.graph.set_nic(vertex, nic).ok()?;
        }
        Some(vertex)
    }

    /// `A requires B`, from behind the verb on.
    #[inline]
    fn depend(&mut self, target: &Word, cursor: &mut Cursor<'_>, on_start: bool) -> Option<()> {
        cursor.skip_blanks();
        let prerequisite = cursor.word()?;
        cursor.end_of_statement()?;
        let (target, prerequisite) = (self.vertex(target)?, self.vertex(&prerequisite)?);
        // Waiting for itself is refused.
        match on_start {
            false => self.graph.requires(prerequisite, target).ok(),
            true => self.graph.irequires(prerequisite, target).ok(),
        }
    }

    #[inline]
    fn vertex(&self, word: &Word) -> Option<Vertex> {
        let definition = self.labels.get(word.label(&self.labels))?;
        (definition.vertex != Definition::BROKEN).then_some(Vertex(definition.vertex))
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Send,
    Recv,
    Calc,
}

impl Kind {
    #[inline]
    fn of(word: &[u8]) -> Option<Kind> {
        match word {
            b"send" => Some(Kind::Send),
            b"recv" => Some(Kind::Recv),
            b"calc" => Some(Kind::Calc),
            _ => None,
        }
    }
}

/// An operation as written. What is left out is 0.
struct Statement {
    operation: Kind,
    /// Bytes, or nanoseconds.
    size: u64,
    peer: u32,
    tag: u32,
    cpu: u8,
    nic: u8,
}

/// A word, and what its hash takes.
struct Word {
    start: usize,
    end: usize,
    /// Where the number begins in which it ends, if it does and that begins with no 0; and the number.
    numbered: Option<(usize, u64)>,
}

impl Word {
    #[inline]
    fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start..self.end]
    }

    #[inline]
    fn label(&self, labels: &Labels<'_>) -> Label {
        match self.numbered {
            Some((number_at, number)) => labels.numbered(self.start, self.end, number_at, number),
            None => labels.label(self.start, self.end),
        }
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn skip_blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self, word: &[u8; N]) -> bool {
        let found = self.text.get(self.at..self.at + N).is_some_and(|next| next == word);
        if found {
            self.at += N;
        }
        found
    }

    /// Takes a word with blanks before it; what else is here stays.
    #[inline(always)]
    fn take_loosely<const N: usize>(&mut self, word: &[u8; N]) -> bool {
        let before = self.at;
        self.skip_blanks();
        let found = self.take(word);
        if !found {
            self.at = before;
        }
        found
    }

    /// Takes the colon behind a label and the operation's word behind that.
    #[inline(always)]
    fn behind_label(&mut self) -> Option<Kind> {
        if self.take(b": send ") {
            return Some(Kind::Send);
        }
        if self.take(b": recv ") {
            return Some(Kind::Recv);
        }
        if self.take(b": calc ") {
            return Some(Kind::Calc);
        }
        let before = self.at;
        if self.take_loosely(b":") {
            self.skip_blanks();
            let kind = self.text.get(self.at..self.at + 4).and_then(Kind::of);
            if kind.is_some() {
                self.at += 4;
                return kind;
            }
            self.at = before;
        }
        None
    }

    #[inline(always)]
    fn word(&mut self) -> Option<Word> {
        let start = self.at;
        if !self.peek().is_ascii_alphabetic() {
            return None;
        }
        self.at += 1;
        while WORD_BUT_DIGITS[usize::from(self.peek())] {
            self.at += 1;
        }
        let number_at = self.at;
        let number = self.digits();
        if WORD[usize::from(self.peek())] {
            while WORD[usize::from(self.peek())] {
                self.at += 1;
            }
            return Some(Word { start, end: self.at, numbered: None });
        }
        let number = number.filter(|_| self.text[number_at] != b'0');
        Some(Word { start, end: self.at, numbered: number.map(|number| (number_at - start, number)) })
    }

    /// A number of 1 to 18 digits.
    #[inline(always)]
    fn digits(&mut self) -> Option<u64> {
        let start = self.at;
        let mut number: u64 = 0;
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        (1..=18).contains(&(self.at - start)).then_some(number)
    }

    #[inline(always)]
    fn number(&mut self, limit: u64) -> Option<u64> {
        self.skip_blanks();
        self.digits().filter(|number| *number <= limit)
    }

    /// An operation from behind its word on, to the end of the statement.
    #[inline(always)]
    fn operation(&mut self, operation: Kind) -> Option<Statement> {
        let size = self.number(u64::MAX)?;
        let mut statement = Statement { operation, size, peer: 0, tag: 0, cpu: 0, nic: 0 };
        let is_there = match operation {
            Kind::Send => self.take(b"b to ") || self.take_loosely(b"b") && self.take_loosely(b"to"),
            Kind::Recv => self.take(b"b from ") || self.take_loosely(b"b") && self.take_loosely(b"from"),
            Kind::Calc => true,
        };
        if !is_there {
            return None;
        }
        if !matches!(operation, Kind::Calc) {
            statement.peer = self.number(PEER_MAX)? as u32;
        }
        if self.peek() == b'\n' {
            return Some(statement);
        }
        let mut seen = [matches!(operation, Kind::Calc), false, false];
        loop {
            self.skip_blanks();
            let option = match self.peek() {
                b't' if self.take(b"tag") => 0,
                b'c' if self.take(b"cpu") => 1,
                b'n' if self.take(b"nic") => 2,
                _ => break,
            };
            if std::mem::replace(&mut seen[option], true) {
                return None;
            }
            match option {
                0 => statement.tag = self.number(TAG_MAX)? as u32,
                1 => statement.cpu = self.number(u8::MAX.into())? as u8,
                _ => statement.nic = self.number(u8::MAX.into())? as u8,
            }
        }
        self.end_of_statement()?;
        Some(statement)
    }

    /// Nothing but blanks follows in this line.
    #[inline(always)]
    fn end_of_statement(&mut self) -> Option<()> {
        self.skip_blanks();
        match self.peek() {
            b'\n' | b'}' => Some(()),
            b'\r' if self.text.get(self.at + 1) == Some(&b'\n') => Some(()),
            _ => (self.at >= self.text.len()).then_some(()),
        }
    }
}

/// Bytes that may continue a word and are no digits.
const WORD_BUT_DIGITS: [bool; 256] = {
    let mut table = WORD;
    let mut digit = b'0';
    while digit <= b'9' {
        table[digit as usize] = false;
        digit += 1;
    }
    table
};

impl Scanner<'_> {
    /// Skips blanks and ends of lines, up to anything else.
    #[inline]
    fn skip_empty_lines(&mut self) {
        loop {
            match self.peek() {
                b'\n' | b'\r' => {
                    if !self.take_newline() {
                        return;
                    }
                }
                b' ' | b'\t' => self.at += 1,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::text::{ParseErrors, print};
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Everything that a text says of a program.
    fn told(parsed: Result<Program, ParseErrors>) -> Result<(String, Vec<String>), String> {
        let program = parsed.map_err(|errors| errors.to_string())?;
        let mut printed = String::new();
        print(&program, &mut printed).expect("a string takes everything");
        let graphs = program.graphs().flat_map(|(rank, graph)| {
            let vertex =
                move |vertex| format!("{rank} {:?} {:?}", graph.label(vertex), graph.position(vertex));
            graph.vertices().map(vertex)
        });
        Ok((printed, graphs.collect()))
    }

    #[track_caller]
    fn same_both_ways(text: &[u8]) {
        let quick = Parser::new(text).parse("text");
        let mut slow = Parser::new(text);
        slow.is_quick = false;
        let slow = slow.parse("text");
        assert_eq!(told(quick), told(slow), "{}", String::from_utf8_lossy(text));
    }

    const STATEMENTS: [&str; 40] = [
        "l1: send 10b to 1 tag 3 cpu 2 nic 1",
        "l2: recv 7b from 2",
        "l3: calc 100",
        "l3 requires l1",
        "l2 irequires l3",
        "send 1b to 0",
        "recv 1b from -1 tag -1",
        "calc 18446744073709551615",
        "calc 123456789012345678 cpu 255",
        "l4:send 1b to 4294967294 tag 4294967294",
        "l5 : recv  5 b  from 3\tcpu 1 // a comment",
        "a_1_2: calc 007",
        "rx0_0_1: recv 36000b from 1 tag 0",
        "rx0_0_1 requires a_1_2",
        "l01: calc 1",
        "l01 requires l1",
        "sender: calc 1",
        "recvs: send1b to 1",
        "send: calc 1",
        "requires: calc 3",
        "l3 requires requires",
        "sleep: sleep 5",
        "put: put 8b to 1 at @0",
        "scratchpad 64b",
        "proxy",
        "l6: local add f64 2 @0 @8 into @8",
        "l7: calc 5 any 1 concurrent",
        "l8: calc 5 cpu 1 cpu 2",
        "l9: send 5b to 1 tag 1 tag 2",
        "l10: calc 5 tag 1",
        "l11: send 5b to -1",
        "l12: recv 5b to 1",
        "l13: calc 99999999999999999999",
        "l14: calc 1 cpu 256",
        "l15 requires l99",
        "l1 requires l1",
        "l16: calc 1 }",
        "l17: calc 1\r",
        "/* over\nlines */ l18: calc 2",
        "a_label_of_more_than_eight_bytes1: calc 2",
    ];

    #[test]
    fn statements_mean_the_same_both_ways() {
        for one in STATEMENTS {
            for other in STATEMENTS {
                same_both_ways(
                    format!("num_ranks 2\nrank 0 {{\n{one}\n{other}\n}}\nrank 1 {{ {other}\n }}").as_bytes(),
                );
                same_both_ways(format!("num_ranks 1\nrank 0 {{\nl1: calc 1\n{one}\n{other}").as_bytes());
            }
        }
    }

    #[test]
    fn mutated_texts_mean_the_same_both_ways() {
        let seed = 20_261_122;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..4000 {
            let mut text = String::from("num_ranks 1\nrank 0 {\n").into_bytes();
            for index in 0..random.random_range(1..12) {
                let statement = STATEMENTS[..15].choose(&mut random).expect("there are some");
                let number = format!("{}", random.random_range(0..20) + index);
                text.extend(statement.replace("l1:", &format!("l{number}:")).bytes());
                text.push(b'\n');
            }
            text.push(b'}');
            for _ in 0..random.random_range(0..3) {
                let at = random.random_range(0..text.len());
                match random.random_range(0..3) {
                    0 => {
                        text[at] = *b" \t\n\r:}/b-0129a_\x00\xff".choose(&mut random).expect("there are some")
                    }
                    1 => drop(text.remove(at)),
                    _ => text.truncate(at),
                }
                if text.is_empty() {
                    break;
                }
            }
            same_both_ways(&text);
        }
    }

    /// Whether the first line behind the blanks is taken the quick way, up to its end.
    fn is_taken(line: &str, behind: &str) -> bool {
        let text = format!("{line}{behind}");
        let mut parser = Parser::new(text.as_bytes());
        for label in ["a", "b1"] {
            let Some(place) = text.find(label) else { continue };
            let vertex = parser.graph.calc(0).expect("legal");
            let definition = Definition { vertex: vertex.0, line: 1 };
            parser.labels.define(parser.labels.label(place, place + label.len()), definition);
        }
        parser.take_usual();
        let (at, taken) = (parser.scanner.at, parser.scanner.at > 0);
        assert!(!taken || at >= line.trim_end().len(), "{line}: up to {at}");
        taken
    }

    #[test]
    fn usual_lines_are_taken_the_quick_way() {
        let lines = b"l1: calc 1\n\r\n \tl2: calc 2\r\n\n\tcalc 3\n l2 requires l1\n";
        let mut parser = Parser::new(lines);
        parser.take_usual();
        let taken = (parser.graph.len(), parser.graph.edge_count(), parser.scanner.at, parser.scanner.line);
        assert_eq!(taken, (3, 1, lines.len(), 7));
        let long = format!("{}: calc 5", "x".repeat(LABEL_BYTES_MAX));
        for line in [
            "send 10b to 1",
            "send 0b to 4294967294 tag 4294967294 cpu 255 nic 255",
            "send\t10 b\tto 1\ttag 3",
            "recv 10b from 0",
            "recv 10 b from 0 nic 1 cpu 2 tag 5",
            "calc 999999999999999999",
            "calc 0 cpu 1",
            "l1: send 10b to 1",
            "l2: recv 10b from 1",
            "l3: calc 1",
            "l4 : send 10b to 1",
            "l5 :\trecv 10b from 1",
            "l6:calc 1",
            "l7 :calc1",
            "l8:send10b to1tag2cpu3nic4",
            "l9:recv10b from0nic1",
            "send1: calc 1",
            "calcs: calc 1",
            "l01: calc 1",
            "l1_x: calc 1",
            "a requires b1",
            "a\trequires\tb1",
            "a irequires b1",
            "a  irequires  b1",
            &long,
        ] {
            for behind in ["\n", "", " \n", "\t\r\n", "}", " }\n"] {
                assert!(is_taken(line, behind), "{line:?} {behind:?}");
            }
        }
        // Another kind, or wrong.
        for line in [
            "send 10b to -1",
            "send 10b to 4294967295",
            "send 10b to 1 tag 4294967295",
            "send 10b from 1",
            "recv 10b to 1",
            "send 10 to 1",
            "calc 1 cpu 256",
            "calc 1 nic 1 nic 2",
            "calc 1 tag 1",
            "calc 1 any 1",
            "calc 1234567890123456789",
            "sleep 1",
            "l1: sleep 1",
            "send: calc 1",
            "a requires a",
            "a requires c",
            "c irequires a",
            "a requires b1 b1",
            &format!("x{long}"),
        ] {
            assert!(!is_taken(line, "\n"), "{line:?}");
        }
    }

    /// A label is the same label whether it is defined, and used, the quick way or the other.
    #[test]
    fn labels_mean_the_same_both_ways() {
        let digits = "123456789012345678901234567890";
        let mut labels: Vec<String> =
            ["l", "l0", "l1", "l01", "l10", "l00100", "a1b2", "a1_", "a_1", "eightlet", "eightlet9"]
                .map(String::from)
                .into();
        for count in [17, 18, 19, 20, 30] {
            labels.push(format!("n{}", &digits[..count]));
            labels.push(format!("n0{}", &digits[..count]));
            labels.push(format!("a_long_prefix_{}", &digits[..count]));
        }
        for label in &labels {
            for kind in ["calc 1", "calc 1 concurrent"] {
                for behind in ["", " // slow"] {
                    let text = format!(
                        "num_ranks 1\nrank 0 {{\nz: calc 2\n{label}: {kind}\nz requires {label}{behind}\n{label} \
                         irequires z{behind}\n}}"
                    );
                    same_both_ways(text.as_bytes());
                    let program = Parser::new(text.as_bytes())
                        .parse("text")
                        .unwrap_or_else(|errors| panic!("{errors}"));
                    let edges: Vec<_> = program.rank(castell_base::Rank(0)).edges().collect();
                    assert_eq!(edges.len(), 2, "{text}");
                }
            }
        }
    }
}
