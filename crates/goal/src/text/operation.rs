//! What an operation's line says: LogGOPSim's three operations and ours, options, buffers.

use super::error::Problem;
use super::parser::Parser;
use super::scanner::Fault;
use crate::graph::{GraphError, Vertex};
use crate::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use castell_base::{Rank, Tag};
use std::ops::Range;

/// Operations that LogGOPSim does not have.
const EXTENSIONS: [&str; 7] = ["local", "sleep", "proxy", "wtime", "put", "get", "call"];
pub(super) const PEER_MAX: u64 = u32::MAX as u64 - 1;
pub(super) const TAG_MAX: u64 = Tag::MAX.0 as u64;
/// What LogGOPSim's tools store for -1, and some of them print.
const ANY: u64 = u32::MAX as u64;

/// A buffer as written.
#[derive(Clone)]
enum Operand {
    Plain(Place),
    List(List),
}

/// A list of blocks as written.
#[derive(Clone)]
struct List {
    memory: Memory,
    /// Which of [`Parser::blocks`].
    blocks: Range<usize>,
    /// Where it is written.
    at: usize,
}

/// Words behind an operation, each at most once and in any order.
#[derive(Default)]
struct Options {
    tag: Option<Option<Tag>>,
    at: Option<Operand>,
    into: Option<Operand>,
    cpu: Option<u8>,
    nic: Option<u8>,
    any: Option<u32>,
    concurrent: bool,
}

/// Which options an operation has besides those that all have.
#[derive(Clone, Copy)]
struct Allowed {
    operation: &'static str,
    tag: bool,
    at: bool,
    into: bool,
}

impl Allowed {
    fn none(operation: &'static str) -> Allowed {
        Allowed { operation, tag: false, at: false, into: false }
    }

    fn names(self) -> String {
        let own = [("`tag`, ", self.tag), ("`at`, ", self.at), ("`into`, ", self.into)];
        let own: String = own.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        format!("{own}`cpu`, `nic`, `any`, `concurrent` or the end of the line")
    }
}

impl Parser<'_> {
    /// Takes one of our words, if one stands here as a whole.
    pub fn take_extension(&mut self) -> Option<&'static str> {
        EXTENSIONS.into_iter().find(|word| self.scanner.take_whole(word))
    }

    /// Takes an operation's word. LogGOPSim's need no blank behind them here.
    #[inline]
    pub fn take_operation(&mut self) -> Option<&'static str> {
        let standard = ["send", "recv", "calc"].into_iter().find(|word| self.scanner.take(word));
        standard.or_else(|| self.take_extension())
    }

    /// Reads an operation from behind its word on, and adds it. `start` is where the statement began.
    #[inline]
    pub fn operation(&mut self, word: &'static str, start: usize) -> Result<Vertex, Fault> {
        let position = self.scanner.position_of(start);
        self.blocks.clear();
        let mut options = Options::default();
        let added = match word {
            "send" => self.send(&mut options)?,
            "recv" => self.recv(&mut options)?,
            "calc" => self.calc(&mut options)?,
            "sleep" => self.sleep(&mut options)?,
            "proxy" => {
                self.options(Allowed::none("proxy"), &mut options)?;
                self.graph.proxy()
            }
            "local" => self.local(&mut options)?,
            "wtime" => self.wtime(&mut options)?,
            "put" => self.put(&mut options)?,
            "get" => self.get(&mut options)?,
            _ => self.call(&mut options)?,
        };
        let refused = |error| Fault::new(position, Problem::Refused(error));
        let vertex = added.map_err(refused)?;
        let column = u16::try_from(position.column).unwrap_or(u16::MAX);
        self.graph.set_position(vertex, position.line, column).map_err(refused)?;
        self.set_traits(vertex, &options).map_err(refused)?;
        Ok(vertex)
    }

    #[inline]
    fn set_traits(&mut self, vertex: Vertex, options: &Options) -> Result<(), GraphError> {
        if let Some(cpu) = options.cpu {
            self.graph.set_cpu(vertex, cpu)?;
        }
        if let Some(nic) = options.nic {
            self.graph.set_nic(vertex, nic)?;
        }
        if let Some(any) = options.any {
            self.graph.set_any(vertex, any)?;
        }
        if options.concurrent {
            self.graph.set_concurrent(vertex)?;
        }
        Ok(())
    }

    /// `10b to 1 [tag 3] [at …]`
    #[inline]
    fn send(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let bytes = self.bytes()?;
        let dest = self.peer("to", "the receiver")?;
        self.options(Allowed { tag: true, at: true, ..Allowed::none("send") }, options)?;
        let tag = options.tag.flatten().unwrap_or(Tag(0));
        Ok(match options.at.clone() {
            None => self.graph.send(Place::VOID, bytes, dest, tag),
            Some(Operand::Plain(place)) => self.graph.send(place, bytes, dest, tag),
            Some(Operand::List(list)) => {
                self.holds(&list, bytes)?;
                self.graph.send_vec(list.memory, &self.blocks[list.blocks], dest, tag)
            }
        })
    }

    /// `10b from 1 [tag 3] [at …]`; -1: any.
    #[inline]
    fn recv(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let bytes = self.bytes()?;
        self.keyword("from")?;
        let source = self.number_or_any("the sender", PEER_MAX)?.map(|rank| Rank(rank as u32));
        self.options(Allowed { tag: true, at: true, ..Allowed::none("recv") }, options)?;
        let tag = options.tag.unwrap_or(Some(Tag(0)));
        Ok(match options.at.clone() {
            None => self.graph.recv(Place::VOID, bytes, source, tag),
            Some(Operand::Plain(place)) => self.graph.recv(place, bytes, source, tag),
            Some(Operand::List(list)) => {
                self.holds(&list, bytes)?;
                self.graph.recv_vec(list.memory, &self.blocks[list.blocks], source, tag)
            }
        })
    }

    #[inline]
    fn calc(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let ns = self.number("a duration in nanoseconds", u64::MAX)?;
        self.options(Allowed::none("calc"), options)?;
        Ok(self.graph.calc(ns))
    }

    fn sleep(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let ns = self.number("a duration in nanoseconds", u64::MAX)?;
        self.options(Allowed::none("sleep"), options)?;
        Ok(self.graph.sleep(ns))
    }

    /// `add f64 16 @0 @128 into @256`; copy has one operand.
    fn local(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        self.scanner.skip_blanks()?;
        let position = self.scanner.position();
        let find = |this: &mut Self, operator: &Operator| this.scanner.take_whole(operator.name());
        let Some(operator) = Operator::ALL.into_iter().find(|operator| find(self, operator)) else {
            let names = Operator::ALL.map(Operator::name).join(", ");
            return Err(self.scanner.expected(format!("an operator ({names})")));
        };
        self.scanner.skip_blanks()?;
        let find = |this: &mut Self, element: &ElementType| this.scanner.take_whole(element.name());
        let Some(element) = ElementType::ALL.into_iter().find(|element| find(self, element)) else {
            let names = ElementType::ALL.map(ElementType::name).join(", ");
            return Err(self.scanner.expected(format!("a type ({names})")));
        };
        let arithmetic = Arithmetic::new(operator, element);
        let arithmetic = arithmetic.map_err(|error| Fault::new(position, Problem::Illegal(error)))?;
        let count = self.number("a number of elements", u64::MAX)?;
        let b1 = self.operand()?;
        let b2 = if operator == Operator::Copy { Operand::Plain(Place::VOID) } else { self.operand()? };
        self.own_word("into")?;
        let b3 = self.operand()?;
        self.options(Allowed::none("local"), options)?;
        if let (Operand::Plain(b1), Operand::Plain(b2), Operand::Plain(b3)) = (&b1, &b2, &b3) {
            return Ok(self.graph.local(*b1, *b2, *b3, arithmetic, count));
        }
        // Lists and plain places together: a place counts as a list of one block.
        let Some(bytes) = count.checked_mul(element.bytes()) else {
            return Ok(Err(GraphError::SizeOverflow { operation: operator.name() }));
        };
        let (b1, b2, b3) = (self.as_list(b1, bytes)?, self.as_list(b2, bytes)?, self.as_list(b3, bytes)?);
        let list = |(memory, blocks): (Memory, Range<usize>)| (memory, &self.blocks[blocks]);
        Ok(self.graph.local_vec(list(b1), list(b2), list(b3), arithmetic))
    }

    /// `into @0`
    fn wtime(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        self.own_word("into")?;
        let place = self.operand()?;
        self.options(Allowed::none("wtime"), options)?;
        let place = self.plain(Some(place))?;
        Ok(self.graph.wtime(place))
    }

    /// `8b to 1 [at @0] [into @64]`: from here into the receiver's scratchpad.
    fn put(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let bytes = self.bytes()?;
        let dest = self.peer("to", "the rank to write to")?;
        self.options(Allowed { at: true, into: true, ..Allowed::none("put") }, options)?;
        let (local, remote) = (self.plain(options.at.take())?, self.plain(options.into.take())?);
        Ok(self.graph.put(local, bytes, dest, remote))
    }

    /// `8b from 1 [at @64] [into @0]`: from the other's scratchpad to here.
    fn get(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        let bytes = self.bytes()?;
        let source = self.peer("from", "the rank to read from")?;
        self.options(Allowed { at: true, into: true, ..Allowed::none("get") }, options)?;
        let (remote, local) = (self.plain(options.at.take())?, self.plain(options.into.take())?);
        Ok(self.graph.get(local, bytes, source, remote))
    }

    /// `0xF(0xC)`: address of a function and its argument.
    fn call(&mut self, options: &mut Options) -> Result<Result<Vertex, GraphError>, Fault> {
        self.scanner.skip_blanks()?;
        let function = self.scanner.take_address("the address of a function")?;
        self.punctuation("(")?;
        self.scanner.skip_blanks()?;
        let context = self.scanner.take_address("the function's argument")?;
        self.punctuation(")")?;
        self.options(Allowed::none("call"), options)?;
        Ok(self.graph.call(function, context))
    }

    /// `scratchpad 64b`, from behind the word on.
    pub fn scratchpad(&mut self, start: usize) -> Result<(), Fault> {
        let bytes = self.bytes()?;
        let twice = std::mem::replace(&mut self.scratchpad_seen, true);
        self.graph.allocate_scratchpad(bytes);
        let position = self.scanner.position_of(start);
        self.end_of_statement(|| "the end of the line".into())?;
        if twice { Err(Fault::new(position, Problem::ScratchpadTwice)) } else { Ok(()) }
    }

    /// Reads options up to the end of the statement.
    #[inline]
    fn options(&mut self, allowed: Allowed, options: &mut Options) -> Result<(), Fault> {
        loop {
            self.scanner.skip_blanks()?;
            let at = self.scanner.at;
            let (name, has, twice) = match self.scanner.peek() {
                b't' if self.scanner.take("tag") => ("tag", allowed.tag, options.tag.is_some()),
                b'c' if self.scanner.take("cpu") => ("cpu", true, options.cpu.is_some()),
                b'n' if self.scanner.take("nic") => ("nic", true, options.nic.is_some()),
                b'a' if self.scanner.take_whole("at") => ("at", allowed.at, options.at.is_some()),
                b'i' if self.scanner.take_whole("into") => ("into", allowed.into, options.into.is_some()),
                b'a' if self.scanner.take_whole("any") => ("any", true, options.any.is_some()),
                b'c' if self.scanner.take_whole("concurrent") => ("concurrent", true, options.concurrent),
                _ => return self.end_of_statement(|| allowed.names()),
            };
            if !has {
                let (operation, option) = (allowed.operation, name);
                return Err(self.scanner.fault(at, Problem::OptionForeign { operation, option }));
            }
            if twice {
                return Err(self.scanner.fault(at, Problem::OptionTwice(name)));
            }
            match name {
                "tag" => options.tag = Some(self.tag(allowed.operation)?),
                "cpu" => options.cpu = Some(self.number("the processor", u8::MAX.into())? as u8),
                "nic" => options.nic = Some(self.number("the network interface", u8::MAX.into())? as u8),
                "at" => options.at = Some(self.operand()?),
                "into" => options.into = Some(self.operand()?),
                "any" => options.any = Some(self.number("a number of dependencies", u32::MAX.into())? as u32),
                _ => options.concurrent = true,
            }
        }
    }

    #[inline]
    fn tag(&mut self, operation: &'static str) -> Result<Option<Tag>, Fault> {
        self.scanner.skip_blanks()?;
        let at = self.scanner.at;
        let tag = self.number_or_any("the tag", TAG_MAX)?.map(|tag| Tag(tag as u32));
        if tag.is_none() && operation != "recv" {
            return Err(self.scanner.fault(at, Problem::SendToAny("tag")));
        }
        Ok(tag)
    }

    /// A number, or -1 (also as 2^32 - 1) for any.
    #[inline]
    fn number_or_any(&mut self, what: &'static str, limit: u64) -> Result<Option<u64>, Fault> {
        self.scanner.skip_blanks()?;
        if self.scanner.peek() == b'-' {
            let at = self.scanner.at;
            if self.scanner.take("-1") && !self.scanner.peek().is_ascii_digit() {
                return Ok(None);
            }
            self.scanner.at = at;
            return Err(self.scanner.expected(format!("a number ({what}) or -1 (any)")));
        }
        let at = self.scanner.at;
        match self.scanner.take_number(what, ANY) {
            Ok(ANY) => Ok(None),
            Ok(number) if number <= limit => Ok(Some(number)),
            _ => {
                self.scanner.at = at;
                self.scanner.take_number(what, limit).map(Some)
            }
        }
    }

    /// `to 1` or `from 1`, where -1 has no meaning.
    #[inline]
    fn peer(&mut self, keyword: &'static str, what: &'static str) -> Result<Rank, Fault> {
        self.keyword(keyword)?;
        self.scanner.skip_blanks()?;
        if self.scanner.text[self.scanner.at..].starts_with(b"-1") {
            return Err(self.scanner.fault(self.scanner.at, Problem::SendToAny("receiver")));
        }
        Ok(Rank(self.scanner.take_number(what, PEER_MAX)? as u32))
    }

    /// `10b`
    #[inline]
    fn bytes(&mut self) -> Result<u64, Fault> {
        let bytes = self.number("a size in bytes", u64::MAX)?;
        self.scanner.skip_blanks()?;
        if self.scanner.take("b") {
            return Ok(bytes);
        }
        Err(self.scanner.expected("`b` (bytes) behind the size".into()))
    }

    #[inline]
    fn number(&mut self, what: &'static str, limit: u64) -> Result<u64, Fault> {
        self.scanner.skip_blanks()?;
        self.scanner.take_number(what, limit)
    }

    /// A word of LogGOPSim's, which wants no blank behind it.
    #[inline]
    fn keyword(&mut self, word: &'static str) -> Result<(), Fault> {
        self.scanner.skip_blanks()?;
        if self.scanner.take(word) {
            return Ok(());
        }
        Err(self.scanner.expected(format!("`{word}`")))
    }

    fn own_word(&mut self, word: &'static str) -> Result<(), Fault> {
        self.scanner.skip_blanks()?;
        if self.scanner.take_whole(word) {
            return Ok(());
        }
        Err(self.scanner.expected(format!("`{word}`")))
    }

    fn punctuation(&mut self, mark: &'static str) -> Result<(), Fault> {
        self.keyword(mark)
    }

    /// `@16`, `0x7f00`, `void`, or a list: `@[0:8,16:8]`, `[0x7f00:8]`, `void[0:8]`.
    fn operand(&mut self) -> Result<Operand, Fault> {
        self.scanner.skip_blanks()?;
        let at = self.scanner.at;
        let memory = match self.scanner.peek() {
            b'@' => {
                self.scanner.at += 1;
                Memory::Scratch
            }
            b'v' if self.scanner.take_whole("void") => Memory::Void,
            b'0' if self.scanner.text[self.scanner.at + 1..].starts_with(b"x") => Memory::User,
            b'[' => Memory::User,
            _ => {
                return Err(self
                    .scanner
                    .expected("a buffer (`@offset`, `0xaddress`, `void` or a list)".into()));
            }
        };
        self.scanner.skip_blanks()?;
        if self.scanner.take("[") {
            return Ok(Operand::List(List { memory, blocks: self.list()?, at }));
        }
        Ok(Operand::Plain(match memory {
            Memory::Void => Place::VOID,
            Memory::User => Place::user(self.scanner.take_address("an address")?),
            Memory::Scratch => Place::scratch(self.scanner.take_address("an offset in the scratchpad")?),
        }))
    }

    /// `0:8,16:8]`: offset and length of each block. The brackets may be empty.
    fn list(&mut self) -> Result<Range<usize>, Fault> {
        let first = self.blocks.len();
        self.scanner.skip_blanks()?;
        while !self.scanner.take("]") {
            if self.blocks.len() > first {
                self.punctuation(",")?;
                self.scanner.skip_blanks()?;
            }
            let offset = self.scanner.take_address("the offset of a block")?;
            self.punctuation(":")?;
            let bytes = self.number("the length of a block in bytes", u64::MAX)?;
            self.blocks.push(Block { offset, bytes });
            self.scanner.skip_blanks()?;
            if !matches!(self.scanner.peek(), b',' | b']') {
                return Err(self.scanner.expected("`,` or `]`".into()));
            }
        }
        Ok(first..self.blocks.len())
    }

    /// The place that an operand names, where it cannot be a list.
    fn plain(&self, operand: Option<Operand>) -> Result<Place, Fault> {
        match operand {
            None => Ok(Place::VOID),
            Some(Operand::Plain(place)) => Ok(place),
            Some(Operand::List(list)) => Err(self.scanner.fault(list.at, Problem::ListForeign)),
        }
    }

    /// Memory and blocks of an operand: a place counts as a list of one block.
    fn as_list(&mut self, operand: Operand, bytes: u64) -> Result<(Memory, Range<usize>), Fault> {
        match operand {
            Operand::List(list) => {
                self.holds(&list, bytes)?;
                Ok((list.memory, list.blocks))
            }
            Operand::Plain(Place { memory, offset }) => {
                let at = self.blocks.len();
                self.blocks.push(Block { offset, bytes });
                Ok((memory, at..at + 1))
            }
        }
    }

    /// Refuses a list whose lengths don't add up to `bytes`.
    fn holds(&self, list: &List, bytes: u64) -> Result<(), Fault> {
        let lengths = self.blocks[list.blocks.clone()].iter().map(|block| block.bytes);
        let blocks = lengths.fold(0u64, u64::saturating_add);
        if blocks == bytes {
            return Ok(());
        }
        Err(self.scanner.fault(list.at, Problem::BlocksDisagree { blocks, bytes }))
    }
}
