//! Schedules as bytes, out and in again: whatever comes in is verified completely before anything trusts it.
//!
//! Verification takes time and memory in proportion to the bytes given, whatever they say: three passes over the
//! records, two bits a word and one counter a join.

use crate::codec::{
    self, COUNT_ESCAPE, COUNT_SHIFT, JOIN, LANES, Layout, SOLE, STARTS, TAG, VECTOR, WIDE, kind,
};
use crate::compile::scratch_ranges;
use crate::op::{Block, Buffer, Memory, Op, Operator, Place};
use crate::schedule::{ANY_JOIN, HEADER_WORDS, Labels, Parts, Schedule, WORDS_MAX, header};
use castell_base::Rank;

/// First word of a schedule: "CSTL".
const MAGIC: u32 = u32::from_le_bytes(*b"CSTL");
/// Version of the format that `SCHEDULE.md` documents.
const VERSION: u32 = 1;

/// Why bytes are not a schedule that can be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Not even a header.
    #[error("{bytes} bytes are too few for a schedule, whose header takes {}; the file is cut off", 4 * HEADER_WORDS)]
    TooShort {
        /// Bytes given.
        bytes: usize,
    },
    /// The first four bytes are others than `CSTL`.
    #[error(
        "not a compiled schedule: it starts with {found:#010x} instead of `CSTL`; compile a graph to get one"
    )]
    Magic {
        /// The first word.
        found: u32,
    },
    /// Written by another version.
    #[error(
        "schedule format version {found}, but this program reads version {VERSION}; compile the graph again"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// Cut off, or followed by something else.
    #[error(
        "the header announces {announced} bytes, but there are {bytes}; the schedule was cut off or extended"
    )]
    Length {
        /// Length in the header.
        announced: u64,
        /// Bytes given.
        bytes: usize,
    },
    /// The bytes were changed.
    #[error(
        "checksum {computed:#010x} instead of {stored:#010x}: the schedule was damaged; compile the graph again"
    )]
    Checksum {
        /// CRC-32 in the header.
        stored: u32,
        /// CRC-32 of the bytes.
        computed: u32,
    },
    /// Something is not as a compiler writes it.
    #[error("byte {at}: {problem}; this is no schedule that castell wrote, compile the graph again")]
    Invalid {
        /// Where, in bytes from the start.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// The schedule holds addresses of the process that compiled it.
    #[error(
        "byte {at}: the operation uses an address of the process that compiled it; use the scratchpad, \
         or load it in that very process as one that may hold addresses"
    )]
    Address {
        /// Where, in bytes from the start.
        at: usize,
    },
}

impl Schedule {
    /// The schedule as bytes, as `SCHEDULE.md` documents them; the same on every machine.
    ///
    /// ```
    /// use castell_goal::graph::Graph;
    /// use castell_goal::schedule::Schedule;
    ///
    /// let mut graph = Graph::new();
    /// graph.calc(100)?;
    /// let schedule = graph.compile()?;
    /// let mut bytes = schedule.to_bytes();
    /// assert_eq!(Schedule::from_bytes(&bytes)?, schedule);
    /// bytes[76] ^= 1;
    /// assert!(Schedule::from_bytes(&bytes).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let labels = self.labels();
        let text_words = labels.text.len().div_ceil(4);
        let total = 4 * (self.words().len() + 2 * labels.ids.len() + text_words);
        let mut bytes = Vec::with_capacity(total);
        for &word in self.words().iter().chain(&labels.ids).chain(&labels.ends) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(labels.text.as_bytes());
        bytes.resize(total, 0);
        let mut put = |at: usize, word: u32| bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        put(header::MAGIC, MAGIC);
        put(header::VERSION, VERSION);
        put(header::BYTES, total as u32);
        put(header::BYTES + 1, (total as u64 >> 32) as u32);
        let checksum = crc32fast::hash(&bytes[4 * (header::CHECKSUM + 1)..]);
        bytes[4 * header::CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads and verifies a schedule. Addresses ([`Memory::User`], `call`) are refused: they mean nothing here.
    ///
    /// # Errors
    /// Anything that [`Schedule::to_bytes`] would not have written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Schedule, FormatError> {
        read(bytes, false)
    }

    /// As [`Schedule::from_bytes`], but leaves addresses alone. Running such a schedule reads, writes and calls them:
    /// only for bytes that this very process wrote.
    ///
    /// # Errors
    /// As [`Schedule::from_bytes`].
    pub fn from_bytes_trusting_addresses(bytes: &[u8]) -> Result<Schedule, FormatError> {
        read(bytes, true)
    }
}

fn read(bytes: &[u8], addresses: bool) -> Result<Schedule, FormatError> {
    let mut words = unwrap(bytes)?;
    let sections = Sections::new(&words)?;
    let mut verifier = Verifier::new(&words, sections, addresses);
    verifier.records()?;
    verifier.edges()?;
    let labels = verifier.labels(&bytes[4 * sections.names_at..])?;
    let group = (Rank(words[header::RANK]), words[header::RANKS]);
    words[..header::RANK].fill(0);
    words.truncate(sections.names_at);
    let field = |at: usize| words[at];
    Ok(Schedule::from_parts(Parts {
        ops: field(header::OPS),
        independent: field(header::INDEPENDENT),
        joins: field(header::JOINS),
        ready_max: field(header::READY_MAX),
        records_end: field(header::JOINS_AT),
        scratchpad_bytes: wide(field(header::SCRATCHPAD), field(header::SCRATCHPAD + 1)),
        labels,
        group,
        words,
    }))
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Checks magic, version, length and checksum, and turns bytes into words.
fn unwrap(bytes: &[u8]) -> Result<Vec<u32>, FormatError> {
    if bytes.len() < 4 * HEADER_WORDS {
        return Err(FormatError::TooShort { bytes: bytes.len() });
    }
    let word = |at: usize| {
        u32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]])
    };
    if word(header::MAGIC) != MAGIC {
        return Err(FormatError::Magic { found: word(header::MAGIC) });
    }
    if word(header::VERSION) != VERSION {
        return Err(FormatError::Version { found: word(header::VERSION) });
    }
    let announced = wide(word(header::BYTES), word(header::BYTES + 1));
    if announced != bytes.len() as u64 || !bytes.len().is_multiple_of(4) {
        return Err(FormatError::Length { announced, bytes: bytes.len() });
    }
    let computed = crc32fast::hash(&bytes[4 * (header::CHECKSUM + 1)..]);
    if computed != word(header::CHECKSUM) {
        return Err(FormatError::Checksum { stored: word(header::CHECKSUM), computed });
    }
    Ok((0..bytes.len() / 4).map(word).collect())
}

/// Where the parts of a schedule lie, in words.
#[derive(Clone, Copy)]
struct Sections {
    records_end: usize,
    needs_at: usize,
    blocks_at: usize,
    names_at: usize,
    names: usize,
}

impl Sections {
    fn new(words: &[u32]) -> Result<Sections, FormatError> {
        let field = |at: usize| words[at] as usize;
        let sections = Sections {
            records_end: field(header::JOINS_AT),
            needs_at: field(header::NEEDS_AT),
            blocks_at: field(header::BLOCKS_AT),
            names_at: field(header::NAMES_AT),
            names: field(header::NAMES),
        };
        let Sections { records_end, needs_at, blocks_at, names_at, names } = sections;
        let joins = field(header::JOINS) as u64;
        let ordered = HEADER_WORDS <= records_end
            && needs_at as u64 == records_end as u64 + joins
            && blocks_at as u64 == needs_at as u64 + joins
            && blocks_at <= names_at
            && (names_at - blocks_at).is_multiple_of(4)
            && names_at as u64 + 2 * names as u64 <= words.len() as u64
            && names_at as u64 <= WORDS_MAX;
        if !ordered {
            return invalid(header::JOINS_AT, "the sections do not follow one another within the schedule");
        }
        let (rank, ranks) = (field(header::RANK), field(header::RANKS));
        if rank >= ranks.max(1) {
            return invalid(header::RANK, "the rank is not in its group");
        }
        Ok(sections)
    }
}

fn invalid<T>(at_words: usize, problem: &'static str) -> Result<T, FormatError> {
    Err(FormatError::Invalid { at: 4 * at_words, problem })
}

/// One bit a word of the record section.
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 != 0)
    }

    fn set(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
}

struct Verifier<'a> {
    words: &'a [u32],
    sections: Sections,
    addresses: bool,
    /// Where records start.
    starts: Bits,
    /// First record that is not independent.
    dependent_at: usize,
}

impl<'a> Verifier<'a> {
    fn new(words: &'a [u32], sections: Sections, addresses: bool) -> Verifier<'a> {
        let starts = Bits(vec![0; sections.records_end / 64 + 1]);
        Verifier { words, sections, addresses, starts, dependent_at: sections.records_end }
    }

    fn layout(&self, at: usize) -> Option<Layout> {
        Layout::of(&self.words[..self.sections.records_end], at)
    }

    /// Each record by itself, the table of joins, and the counts in the header.
    fn records(&mut self) -> Result<(), FormatError> {
        let Sections { records_end, needs_at, blocks_at, names_at, .. } = self.sections;
        let joins = &self.words[records_end..needs_at];
        let independent = self.words[header::INDEPENDENT];
        let (mut ops, mut joined, mut next_block, mut ready_max) = (0u32, 0, 0, u64::from(independent));
        let mut at = HEADER_WORDS;
        while at < records_end {
            let Some(layout) = self.layout(at) else { return invalid(at, "the operation is cut off") };
            if ops == independent {
                self.dependent_at = at;
            }
            self.starts.set(at);
            if layout.head & JOIN != 0 {
                if joins.get(joined).is_none_or(|join| join & !ANY_JOIN != at as u32) {
                    return invalid(at, "the operation is not where the table of joins says");
                }
                if ops < independent {
                    return invalid(at, "an independent operation has a counter");
                }
                joined += 1;
            }
            next_block = self.record(at, layout, next_block)?;
            ready_max += ((layout.successors + layout.start_successors) as u64).saturating_sub(1);
            ops += 1;
            at = layout.end;
        }
        if ops != self.words[header::OPS] || independent > ops {
            return invalid(header::OPS, "the number of operations is wrong");
        }
        if joined != joins.len() {
            return invalid(header::JOINS, "the number of joins is wrong");
        }
        if next_block != (names_at - blocks_at) / 4 {
            return invalid(header::BLOCKS_AT, "the block lists do not fill the appendix");
        }
        if u64::from(self.words[header::READY_MAX]) != ready_max.min(u64::from(ops)) {
            return invalid(header::READY_MAX, "the bound of ready operations is wrong");
        }
        Ok(())
    }

    /// One record's head word and body; returns the block behind its lists.
    fn record(&self, at: usize, layout: Layout, next_block: usize) -> Result<usize, FormatError> {
        let Layout { head, lanes, body, end, .. } = layout;
        let first_count = (head >> COUNT_SHIFT == COUNT_ESCAPE) as usize;
        if first_count == 1 && layout.successors < COUNT_ESCAPE as usize {
            return invalid(at, "a small number of successors has a word of its own");
        }
        if head & STARTS != 0 && layout.start_successors == 0 {
            return invalid(at, "the number of start-successors is 0");
        }
        if head & LANES != 0 && (self.words[lanes] == 0 || self.words[lanes] > 0xffff) {
            return invalid(
                lanes,
                "processor and interface have 8 bits each, and are left out if both are 0",
            );
        }
        if !legal_head(head) {
            return invalid(at, "the operation's code or flags mean nothing");
        }
        let next_block = self.block_lists(layout, next_block)?;
        let body = &self.words[body..end];
        if head & codec::KIND == kind::LOCAL && codec::arithmetic_of(body[0]).is_none() {
            return invalid(layout.body, "the operator is not defined for the element type");
        }
        let blocks = &self.words[self.sections.blocks_at..self.sections.names_at];
        let op = codec::decode(head, body, blocks);
        self.peers(at, op, head)?;
        self.sizes(at, op)?;
        self.places(at, head, op)?;
        Ok(next_block)
    }

    /// The record's lists begin where those before it ended, and lie in the appendix.
    fn block_lists(&self, layout: Layout, next_block: usize) -> Result<usize, FormatError> {
        let total = (self.sections.names_at - self.sections.blocks_at) / 4;
        let pairs = layout.end - 2 * codec::block_lists(layout.head);
        let mut next = next_block;
        for pair in self.words[pairs..layout.end].chunks_exact(2) {
            let (first, count) = (pair[0] as usize, pair[1] as usize);
            if first != next || count > total - next {
                return invalid(pairs, "a block list is not behind the one before it in the appendix");
            }
            next += count;
        }
        Ok(next)
    }

    fn peers(&self, at: usize, op: Op<'_>, head: u32) -> Result<(), FormatError> {
        let ranks = self.words[header::RANKS];
        let (peer, tag) = match op {
            Op::Send { dest, tag, .. } => (Some(dest), Some(tag)),
            Op::Recv { source, tag, .. } => (source, tag),
            Op::Put { dest: peer, .. } | Op::Get { source: peer, .. } => (Some(peer), None),
            _ => return Ok(()),
        };
        if peer.is_some_and(|peer| peer.0 == codec::ANY || ranks > 0 && peer.0 >= ranks) {
            return invalid(at, "the peer is not in the group");
        }
        if tag.is_some_and(|tag| tag.0 == codec::ANY || head & TAG != 0 && tag.0 == 0) {
            return invalid(at, "the tag is reserved, or 0 and yet written out");
        }
        Ok(())
    }

    /// Sizes agree with one another, and no buffer ends beyond 64 bits.
    fn sizes(&self, at: usize, op: Op<'_>) -> Result<(), FormatError> {
        let holds = |buffer: Buffer<'_>, bytes: u64| match buffer {
            Buffer::Plain(Place { offset, .. }) => offset.checked_add(bytes).is_some(),
            Buffer::Vector(memory, blocks) => {
                let fits = |b: Block| memory == Memory::Void || b.offset.checked_add(b.bytes).is_some();
                let sum = blocks.iter().try_fold(0u64, |sum, block| sum.checked_add(block.bytes));
                sum == Some(bytes) && blocks.iter().all(fits)
            }
        };
        let plain = |place: Place, bytes: u64| holds(Buffer::Plain(place), bytes);
        let good = match op {
            Op::Send { buffer, bytes, .. } | Op::Recv { buffer, bytes, .. } => holds(buffer, bytes),
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let copy = arithmetic.operator() == Operator::Copy;
                let bytes = count.checked_mul(arithmetic.element().bytes());
                let second = |bytes: u64| match b2 {
                    _ if !copy => holds(b2, bytes),
                    Buffer::Plain(place) => place == Place::VOID,
                    Buffer::Vector(memory, blocks) => memory == Memory::Void && blocks.is_empty(),
                };
                bytes.is_some_and(|bytes| holds(b1, bytes) && second(bytes) && holds(b3, bytes))
            }
            Op::Wtime { b3 } => plain(b3, 8),
            Op::Put { local, bytes, remote, .. } | Op::Get { local, bytes, remote, .. } => {
                plain(local, bytes) && plain(remote, bytes) && remote.memory != Memory::User
            }
            Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => true,
        };
        if good { Ok(()) } else { invalid(at, "the operation's sizes do not agree with its buffers") }
    }

    /// Buffers lie in the scratchpad, and nothing is an address unless that is allowed.
    fn places(&self, at: usize, head: u32, op: Op<'_>) -> Result<(), FormatError> {
        let address = matches!(op, Op::Call { .. })
            || (0..3).any(|which| codec::memory(head, which) == Some(Memory::User));
        if address && !self.addresses {
            return Err(FormatError::Address { at: 4 * at });
        }
        let scratchpad = wide(self.words[header::SCRATCHPAD], self.words[header::SCRATCHPAD + 1]);
        let mut inside = true;
        scratch_ranges(op, |offset, bytes| {
            inside &= offset.checked_add(bytes).is_some_and(|end| end <= scratchpad);
        });
        if inside { Ok(()) } else { invalid(at, "a buffer leaves the scratchpad") }
    }

    /// Each edge leads forward to a record, by the right kind of entry; each record that is neither independent nor
    /// a join is the target of exactly one. With all edges leading forward there is no cycle.
    fn edges(&self) -> Result<(), FormatError> {
        let Sections { records_end, needs_at, blocks_at, .. } = self.sections;
        let (joins, needs) = (&self.words[records_end..needs_at], &self.words[needs_at..blocks_at]);
        let mut in_degrees = vec![0u32; joins.len()];
        let mut released = Bits(vec![0; records_end / 64 + 1]);
        let (mut at, mut soles) = (HEADER_WORDS, 0u32);
        while let Some(layout) = self.layout(at) {
            for index in layout.entries..layout.entries + layout.successors + layout.start_successors {
                let entry = self.words[index];
                let target = if entry & SOLE != 0 { Some(&entry) } else { joins.get(entry as usize) };
                let Some(target) = target.map(|&target| (target & !SOLE) as usize) else {
                    return invalid(index, "a successor is not in the table of joins");
                };
                if target <= at || target < self.dependent_at || !self.starts.get(target) {
                    return invalid(index, "a successor is not an operation further on");
                }
                if entry & SOLE == 0 {
                    in_degrees[entry as usize] += 1;
                } else if self.words[target] & JOIN != 0 || released.get(target) {
                    return invalid(index, "a successor marked as waiting for this edge only has others");
                } else {
                    released.set(target);
                    soles += 1;
                }
            }
            at = layout.end;
        }
        let ops = self.words[header::OPS];
        if soles + joins.len() as u32 != ops - self.words[header::INDEPENDENT] {
            return invalid(
                header::INDEPENDENT,
                "an operation waits for nothing, yet is not among the independent",
            );
        }
        for (index, ((&join, &need), in_degree)) in joins.iter().zip(needs).zip(in_degrees).enumerate() {
            let right = if join & ANY_JOIN != 0 {
                0 < need && need <= in_degree
            } else {
                1 < need && need == in_degree
            };
            if !right {
                return invalid(
                    needs_at + index,
                    "a counter is not the number of edges that end at its operation",
                );
            }
        }
        Ok(())
    }

    /// The labels: of ascending records, not empty, UTF-8; `bytes` are the section's.
    fn labels(&self, bytes: &[u8]) -> Result<Labels, FormatError> {
        let Sections { names_at, names, .. } = self.sections;
        let (ids, rest) = self.words[names_at..].split_at(names);
        let ends = &rest[..names];
        let text_at = names_at + 2 * names;
        let text = &bytes[8 * names..];
        let text_bytes = ends.last().map_or(0, |&end| end as usize);
        if ids.windows(2).any(|pair| pair[0] >= pair[1])
            || ids.iter().any(|&id| !self.starts.get(id as usize))
        {
            return invalid(names_at, "a label is of no operation, or out of order");
        }
        if ends.first() == Some(&0) || ends.windows(2).any(|pair| pair[0] >= pair[1]) {
            return invalid(names_at + names, "a label is empty, or out of order");
        }
        if text.len() != text_bytes.next_multiple_of(4) || text[text_bytes..].iter().any(|&byte| byte != 0) {
            return invalid(text_at, "the text of the labels has another length than they have");
        }
        match std::str::from_utf8(&text[..text_bytes]) {
            Ok(text) if ends.iter().all(|&end| text.is_char_boundary(end as usize)) => {
                Ok(Labels { ids: ids.to_vec(), ends: ends.to_vec(), text: text.to_owned() })
            }
            _ => invalid(text_at, "a label is not UTF-8"),
        }
    }
}

/// Whether the kind exists and has only flags that mean something for it.
fn legal_head(head: u32) -> bool {
    let memories = |which: &[usize]| which.iter().fold(0, |bits, &which| bits | 3 << codec::MEMORY[which]);
    let allowed = match head & codec::KIND {
        kind::PROXY => 0,
        kind::SEND | kind::RECV => memories(&[0]) | WIDE | VECTOR | TAG,
        kind::CALC | kind::SLEEP | kind::CALL => WIDE,
        kind::LOCAL => memories(&[0, 1, 2]) | WIDE | VECTOR,
        kind::WTIME => memories(&[2]) | WIDE,
        kind::PUT | kind::GET => memories(&[0, 2]) | WIDE,
        _ => return false,
    };
    let of_kind = memories(&[0, 1, 2]) | WIDE | VECTOR | TAG;
    head & of_kind & !allowed == 0 && (0..3).all(|which| codec::memory(head, which).is_some())
}
