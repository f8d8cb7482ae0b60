//! Blocks, labels and dependencies; `operation` reads what an operation's line says.

use super::error::{ERRORS_MAX, ParseError, ParseErrors, Problem};
use super::labels::{Definition, Labels};
use super::scanner::{Fault, Position, Scanner};
use super::{LABEL_BYTES_MAX, RESERVED};
use crate::graph::{EdgeKind, Graph, GraphError, NO_LABEL, Vertex};
use crate::op::Block;
use crate::program::Program;
use castell_base::Rank;
use std::ops::Range;

/// A use of a label that is not defined yet: whether it is unknown or early shows at the end of the rank.
struct Undefined {
    label: Range<usize>,
    position: Position,
}

/// A rank whose block is open.
struct Open {
    rank: u32,
    line: u32,
    /// Its place is wrong: it is read for its errors only.
    discard: bool,
}

/// What was read of a part of a text.
pub(super) struct Piece {
    pub ranks: Vec<Graph>,
    pub rank_next: u32,
    /// The program's; the largest number where the part did not say.
    pub num_ranks: u32,
}

pub(super) struct Parser<'a> {
    pub scanner: Scanner<'a>,
    /// The current rank's graph.
    pub graph: Graph,
    /// Blocks of the statement in hand; here so that no line allocates.
    pub blocks: Vec<Block>,
    pub scratchpad_seen: bool,
    /// Usual lines are taken the quick way; the tests compare it with the other.
    pub is_quick: bool,
    pub labels: Labels<'a>,
    /// Names of the current rank's vertices: start and length of each, and all of them.
    names: Vec<(u32, u32)>,
    name_bytes: Vec<u8>,
    undefined: Vec<Undefined>,
    ranks: Vec<Graph>,
    num_ranks: Option<u32>,
    rank_next: u32,
    ranks_disordered: bool,
    open: Option<Open>,
    /// Label of the statement in hand.
    label: Option<Range<usize>>,
    errors: Vec<ParseError>,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a [u8]) -> Parser<'a> {
        Parser {
            scanner: Scanner::new(text),
            graph: Graph::new(),
            blocks: Vec::new(),
            scratchpad_seen: false,
            is_quick: true,
            labels: Labels::new(text),
            names: Vec::new(),
            name_bytes: Vec::new(),
            undefined: Vec::new(),
            ranks: Vec::new(),
            num_ranks: None,
            rank_next: 0,
            ranks_disordered: false,
            open: None,
            label: None,
            errors: Vec::new(),
        }
    }

    /// For a text behind which whole ranks are known to stand, all up to `rank`, which begins it in line `line`.
    pub fn behind(text: &'a [u8], line: u32, rank: u32) -> Parser<'a> {
        let mut parser = Parser::new(text);
        parser.scanner.line = line;
        (parser.num_ranks, parser.rank_next) = (Some(u32::MAX), rank);
        parser
    }

    pub fn parse(mut self, file: &str) -> Result<Program, ParseErrors> {
        let stopped = self.read_all();
        match (self.errors.is_empty(), self.num_ranks) {
            (true, Some(ranks)) => Ok(Program::with_graphs(ranks, self.ranks)),
            _ => {
                self.errors.sort_by_key(|error| (error.line, error.column));
                self.errors.truncate(ERRORS_MAX);
                Err(ParseErrors { file: file.into(), errors: self.errors, stopped })
            }
        }
    }

    /// Reads a part of a text; `None` where anything is wrong.
    pub fn parse_piece(mut self) -> Option<Piece> {
        self.read_all();
        let Parser { errors, num_ranks, ranks, rank_next, .. } = self;
        errors.is_empty().then_some(Piece { ranks, rank_next, num_ranks: num_ranks? })
    }

    /// Reads up to the end, or to as many errors as are reported: then there may be more to read.
    fn read_all(&mut self) -> bool {
        let mut stopped = false;
        loop {
            if self.is_quick && self.open.is_some() {
                self.take_usual();
            }
            match self.step() {
                Ok(true) => (),
                Ok(false) => break,
                Err(fault) => {
                    self.report(fault);
                    self.scanner.recover();
                }
            }
            if self.errors.len() >= ERRORS_MAX {
                stopped = !self.scanner.is_at_end();
                break;
            }
        }
        self.settle_undefined();
        stopped
    }

    /// Reads one statement or one brace; false at the end.
    #[inline]
    fn step(&mut self) -> Result<bool, Fault> {
        self.label = None;
        self.scanner.skip_lines()?;
        let at = self.scanner.at;
        match (self.scanner.take_word(), &self.open) {
            (Some(start), Some(_)) => self.statement(start),
            (Some(start), None) => self.outside(start),
            (None, _) if self.scanner.is_at_end() => return self.end(),
            (None, Some(_)) if self.scanner.take("}") => {
                self.close();
                Ok(())
            }
            (None, open) => {
                let may_stand = match open {
                    Some(_) => "an operation, a label or `}`",
                    None if self.num_ranks.is_none() => "`num_ranks N`",
                    None => "`rank R {`",
                };
                let fault = self.scanner.expected(may_stand.into());
                // Whatever stands here is not taken by `recover`, so the reader has to get past it.
                self.scanner.at = at + 1;
                Err(fault)
            }
        }?;
        Ok(true)
    }

    /// A word where no rank is open.
    fn outside(&mut self, start: usize) -> Result<(), Fault> {
        match &self.scanner.text[start..self.scanner.at] {
            b"num_ranks" => self.num_ranks(start),
            b"rank" => self.rank(start),
            _ => {
                self.scanner.at = start;
                let expected = if self.num_ranks.is_none() { "`num_ranks N`" } else { "`rank R {`" };
                let fault = self.scanner.expected(expected.into());
                self.scanner.take_word();
                Err(fault)
            }
        }
    }

    fn num_ranks(&mut self, start: usize) -> Result<(), Fault> {
        if self.num_ranks.is_some() {
            return Err(self.scanner.fault(start, Problem::RanksTwice));
        }
        self.scanner.skip_blanks()?;
        let at = self.scanner.at;
        // The last number means "any source".
        let ranks = self.scanner.take_number("the number of ranks", u64::from(u32::MAX - 1))?;
        self.num_ranks = Some(ranks as u32);
        if ranks == 0 { Err(self.scanner.fault(at, Problem::NoRanks)) } else { Ok(()) }
    }

    /// `rank R {`, from behind the first word on.
    fn rank(&mut self, start: usize) -> Result<(), Fault> {
        if let Some(Open { rank, line, .. }) = self.open {
            self.report(self.scanner.fault(start, Problem::Unclosed { rank, line }));
            self.close();
        }
        let line = self.scanner.position().line;
        let fault = match self.rank_header(line) {
            Err(fault) if self.open.is_none() => fault,
            result => return result,
        };
        // The block behind a wrong header is read for its errors, or each of its lines would be one.
        let rest = self.scanner.text[self.scanner.at..].iter();
        let brace = rest.take_while(|&&byte| byte != b'\n').position(|&byte| byte == b'{');
        if let Some(brace) = brace {
            self.scanner.at += brace + 1;
            self.open = Some(Open { rank: self.rank_next, line, discard: true });
        }
        Err(fault)
    }

    fn rank_header(&mut self, line: u32) -> Result<(), Fault> {
        self.scanner.skip_blanks()?;
        let at = self.scanner.at;
        let rank = self.scanner.take_number("the rank", u64::from(u32::MAX - 1))? as u32;
        let (number, wrong) = (self.scanner.position_of(at), self.misplaced(rank));
        self.rank_next = self.rank_next.max(rank + 1);
        self.scanner.skip_lines()?;
        if !self.scanner.take("{") {
            return Err(self.scanner.expected("`{`".into()));
        }
        self.open = Some(Open { rank, line, discard: wrong.is_some() });
        match wrong {
            Some(problem) => Err(Fault::new(number, problem)),
            None => Ok(()),
        }
    }

    /// What is wrong with `rank` standing here.
    fn misplaced(&mut self, rank: u32) -> Option<Problem> {
        let Some(ranks) = self.num_ranks else {
            // Said once; ranks are then taken as they come.
            self.num_ranks = Some(u32::MAX);
            return Some(Problem::RanksUnknown);
        };
        let expected = self.rank_next;
        if rank >= ranks {
            return Some(Problem::RankBeyond { rank, ranks });
        }
        if rank == expected || self.ranks_disordered {
            return None;
        }
        self.ranks_disordered = true;
        if rank < expected {
            return Some(Problem::RankTwice(rank));
        }
        Some(Problem::RankOutOfOrder { expected, found: rank })
    }

    /// Ends the open rank's block.
    fn close(&mut self) {
        self.settle_undefined();
        self.labels.clear();
        self.scratchpad_seen = false;
        let mut graph = self.graph.take_compact();
        let names = String::from_utf8(self.name_bytes.clone()).expect("labels are ASCII");
        graph.set_labels(self.names.clone(), names);
        self.names.clear();
        self.name_bytes.clear();
        // After an error there will be no program: then graphs are not kept.
        if self.open.take().is_some_and(|open| !open.discard) && self.errors.is_empty() {
            self.ranks.push(graph);
        }
    }

    fn end(&mut self) -> Result<bool, Fault> {
        if let Some(Open { rank, line, .. }) = self.open {
            let fault = self.scanner.fault(self.scanner.at, Problem::Unclosed { rank, line });
            self.report(fault);
            self.close();
        }
        if self.num_ranks.is_none() && self.errors.is_empty() {
            self.report(self.scanner.expected("`num_ranks N`".into()));
        }
        Ok(false)
    }

    /// A statement of a rank, from behind its first word on.
    #[inline]
    fn statement(&mut self, start: usize) -> Result<(), Fault> {
        let (text, end) = (self.scanner.text, self.scanner.at);
        let word = &text[start..end];
        self.scanner.skip_blanks()?;
        match word {
            b"send" | b"recv" | b"calc" | b"rank" | b"num_ranks" if self.scanner.peek() == b':' => {
                let label = String::from_utf8_lossy(word).into_owned();
                return Err(self.scanner.fault(start, Problem::LabelReserved(label)));
            }
            b"send" => return self.operation("send", start).map(|_| ()),
            b"recv" => return self.operation("recv", start).map(|_| ()),
            b"calc" => return self.operation("calc", start).map(|_| ()),
            b"rank" => return self.rank(start),
            b"num_ranks" => return Err(self.scanner.fault(start, Problem::RanksTwice)),
            _ => (),
        }
        if self.scanner.take(":") {
            return self.labelled(start..end);
        }
        if self.scanner.take("requires") {
            return self.dependency(start..end, EdgeKind::Finish);
        }
        if self.scanner.take("irequires") {
            return self.dependency(start..end, EdgeKind::Start);
        }
        // A word of ours: it is an operation only where it is neither a label nor part of a dependency, because
        // LogGOPSim allows it as a label.
        self.scanner.at = start;
        if self.scanner.take_whole("scratchpad") {
            return self.scratchpad(start);
        }
        let Some(operation) = self.take_extension() else {
            self.scanner.at = end;
            self.scanner.skip_blanks()?;
            return Err(self.scanner.expected("`:`, `requires` or `irequires`".into()));
        };
        self.operation(operation, start).map(|_| ())
    }

    /// `label: operation`, from behind the colon on.
    #[inline]
    fn labelled(&mut self, label: Range<usize>) -> Result<(), Fault> {
        self.label = Some(label.clone());
        self.scanner.skip_blanks()?;
        let position = self.scanner.position_of(label.start);
        let result = match self.take_operation() {
            Some(operation) => self.operation(operation, label.start),
            None => Err(self.scanner.expected("an operation behind the label".into())),
        };
        // A label is known even where its operation is wrong, so that one mistake gives one message.
        let vertex = result.as_ref().map_or(Definition::BROKEN, |vertex| vertex.0);
        self.define(label, vertex, position)?;
        result.map(|_| ())
    }

    #[inline]
    fn define(&mut self, label: Range<usize>, vertex: u32, position: Position) -> Result<(), Fault> {
        let Range { start, end } = label.clone();
        if end - start > LABEL_BYTES_MAX {
            return Err(Fault::new(position, Problem::LabelLong(end - start)));
        }
        let name = || String::from_utf8_lossy(&self.scanner.text[start..end]).into_owned();
        let definition = Definition { vertex, line: position.line };
        let known = self.labels.define(self.labels.label(start, end), definition);
        if let Some(Definition { line: first, .. }) = known {
            return Err(Fault::new(position, Problem::LabelTwice { label: name(), first }));
        }
        if vertex == Definition::BROKEN {
            return Ok(());
        }
        let full = Problem::Refused(GraphError::Full { what: "bytes of labels" });
        self.name(Vertex(vertex), label).ok_or_else(|| Fault::new(position, full))
    }

    /// Names a vertex; `None` above 4 GiB of names.
    #[inline]
    pub fn name(&mut self, vertex: Vertex, label: Range<usize>) -> Option<()> {
        let start = u32::try_from(self.name_bytes.len()).ok().filter(|&start| start != NO_LABEL)?;
        let bytes = label.len();
        match self.scanner.text.get(label.start..label.start + 8) {
            // Most labels are short: a fixed number of bytes takes no call.
            Some(eight) if bytes <= 8 => {
                let eight: [u8; 8] = eight.try_into().expect("eight bytes");
                self.name_bytes.extend_from_slice(&eight);
                self.name_bytes.truncate(start as usize + bytes);
            }
            _ => self.name_bytes.extend_from_slice(&self.scanner.text[label]),
        }
        if self.names.len() < vertex.index() {
            self.names.resize(vertex.index(), (NO_LABEL, 0));
        }
        self.names.push((start, bytes as u32));
        Some(())
    }

    /// `A requires B`, from behind the verb on.
    #[inline]
    fn dependency(&mut self, target: Range<usize>, kind: EdgeKind) -> Result<(), Fault> {
        let target_at = self.scanner.position_of(target.start);
        self.scanner.skip_blanks()?;
        let Some(start) = self.scanner.take_word() else {
            return Err(self.scanner.expected("a label".into()));
        };
        let prerequisite = start..self.scanner.at;
        let prerequisite_at = self.scanner.position_of(start);
        self.end_of_statement(|| "the end of the line".into())?;
        let ends = (self.resolve(target, target_at), self.resolve(prerequisite.clone(), prerequisite_at));
        let (Some(target), Some(prerequisite_vertex)) = ends else { return Ok(()) };
        if target == prerequisite_vertex {
            let label = String::from_utf8_lossy(&self.scanner.text[prerequisite]).into_owned();
            return Err(Fault::new(target_at, Problem::SelfDependency(label)));
        }
        let added = match kind {
            EdgeKind::Finish => self.graph.requires(prerequisite_vertex, target),
            EdgeKind::Start => self.graph.irequires(prerequisite_vertex, target),
        };
        added.map_err(|error| Fault::new(target_at, Problem::Refused(error)))
    }

    /// The vertex of a label; `None` where there is none (then that is noted) or its operation was wrong.
    #[inline]
    fn resolve(&mut self, label: Range<usize>, position: Position) -> Option<Vertex> {
        match self.labels.get(self.labels.label(label.start, label.end)) {
            Some(Definition { vertex: Definition::BROKEN, .. }) => None,
            Some(Definition { vertex, .. }) => Some(Vertex(vertex)),
            None => {
                if self.undefined.len() < ERRORS_MAX {
                    self.undefined.push(Undefined { label, position });
                }
                None
            }
        }
    }

    /// At the end of a rank: says of each label that was not defined when used whether it ever was.
    fn settle_undefined(&mut self) {
        for Undefined { label, position } in std::mem::take(&mut self.undefined) {
            let bytes = &self.scanner.text[label.clone()];
            let definition = self.labels.get(self.labels.label(label.start, label.end));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let label = text(&bytes[..bytes.len().min(LABEL_BYTES_MAX)]);
            let problem = match definition {
                Some(Definition { line: defined, .. }) => Problem::LabelEarly { label, defined },
                None => Problem::LabelUnknown { label, closest: self.labels.closest(bytes).map(text) },
            };
            self.label = None;
            self.report(Fault::new(position, problem));
        }
    }

    #[cold]
    fn report(&mut self, fault: Fault) {
        let text = self.scanner.text;
        let label = self.label.clone().map(|range| range.start..range.end.min(range.start + LABEL_BYTES_MAX));
        self.errors.push(ParseError {
            line: fault.position.line,
            column: fault.position.column,
            rank: self.open.as_ref().map(|open| Rank(open.rank)),
            label: label.map(|range| String::from_utf8_lossy(&text[range]).into_owned()),
            problem: *fault.problem,
        });
    }

    /// Checks that nothing but blanks and comments follows in this line.
    #[inline]
    pub fn end_of_statement(&mut self, expected: impl Fn() -> String) -> Result<(), Fault> {
        self.scanner.skip_blanks()?;
        if matches!(self.scanner.peek(), b'\n' | b'}')
            || self.scanner.is_at_end()
            || self.scanner.is_at_newline()
        {
            return Ok(());
        }
        Err(self.scanner.expected(expected()))
    }
}

/// Whether `label` can stand in a text as a label.
pub(super) fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(word)
        && bytes.len() <= LABEL_BYTES_MAX
        && !RESERVED.contains(&label)
}
