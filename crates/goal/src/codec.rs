//! The record: how one operation lies in a stream of 32-bit words, in graphs and schedules alike.
//!
//! `SCHEDULE.md` documents every bit. A record is a head word, optional counts, the entries of its successors, and
//! a *body* with the operation's own fields. The body's length follows from the head word alone, so a graph's bodies
//! are copied into a schedule as they are.

use crate::op::{Arithmetic, Block, Blocks, Buffer, ElementType, Memory, Op, Operator, Place};
use castell_base::{Rank, Tag};

/// Codes of the operations (bits 0-4 of the head word).
pub(crate) mod kind {
    pub const PROXY: u32 = 0;
    pub const SEND: u32 = 1;
    pub const RECV: u32 = 2;
    pub const CALC: u32 = 3;
    pub const SLEEP: u32 = 4;
    pub const LOCAL: u32 = 5;
    pub const WTIME: u32 = 6;
    pub const CALL: u32 = 7;
    pub const PUT: u32 = 8;
    pub const GET: u32 = 9;
}

/// Bits 0-4 of the head word.
pub(crate) const KIND: u32 = 31;
/// Where the memory codes of the three buffers start.
pub(crate) const MEMORY: [u32; 3] = [5, 7, 9];
/// Sizes, offsets and durations take two words, low first.
pub(crate) const WIDE: u32 = 1 << 11;
/// Buffers are block lists in the appendix.
pub(crate) const VECTOR: u32 = 1 << 12;
/// A tag word is present (absent: tag 0).
pub(crate) const TAG: u32 = 1 << 13;
/// A word with processor and network interface is present (absent: both 0).
pub(crate) const LANES: u32 = 1 << 14;
/// The vertex is concurrent.
pub(crate) const CONCURRENT: u32 = 1 << 15;
/// The record has a counter of unmet dependencies.
pub(crate) const JOIN: u32 = 1 << 16;
/// A count of start-successors is present.
pub(crate) const STARTS: u32 = 1 << 17;
/// Where the number of successors starts.
pub(crate) const COUNT_SHIFT: u32 = 18;
/// This number of successors means that the real one is in the next word.
pub(crate) const COUNT_ESCAPE: u32 = 0x3fff;
/// In a successor entry: the low bits are the record's offset, and this edge is the target's only one.
pub(crate) const SOLE: u32 = 1 << 31;
/// In the word of a peer or tag: any.
pub(crate) const ANY: u32 = u32::MAX;
/// The longest body: a wide local operation.
const BODY_WORDS_MAX: usize = 9;

/// A head word and a body in the making.
pub(crate) struct Encoder {
    pub head: u32,
    body: [u32; BODY_WORDS_MAX],
    len: usize,
}

impl Encoder {
    /// Starts a record; `sizes` are all the numbers that may need 64 bits.
    pub fn new(kind: u32, sizes: &[u64]) -> Encoder {
        let wide = sizes.iter().any(|&size| size > u64::from(u32::MAX));
        Encoder { head: kind | if wide { WIDE } else { 0 }, body: [0; BODY_WORDS_MAX], len: 0 }
    }

    pub fn word(mut self, word: u32) -> Encoder {
        self.body[self.len] = word;
        self.len += 1;
        self
    }

    pub fn size(self, size: u64) -> Encoder {
        let wide = self.head & WIDE != 0;
        let low = self.word(size as u32);
        if wide { low.word((size >> 32) as u32) } else { low }
    }

    /// The buffer number `which` (0 to 2) is contiguous.
    pub fn place(mut self, which: usize, place: Place) -> Encoder {
        self.head |= memory_code(place.memory) << MEMORY[which];
        if place.memory == Memory::Void { self } else { self.size(place.offset) }
    }

    /// The buffer number `which` is a list of `count` blocks from block `first` of the appendix on.
    pub fn blocks(mut self, which: usize, memory: Memory, first: u32, count: u32) -> Encoder {
        self.head |= memory_code(memory) << MEMORY[which] | VECTOR;
        self.word(first).word(count)
    }

    pub fn tag(mut self, tag: u32) -> Encoder {
        if tag == 0 {
            return self;
        }
        self.head |= TAG;
        self.word(tag)
    }

    pub fn body(&self) -> &[u32] {
        &self.body[..self.len]
    }
}

fn memory_code(memory: Memory) -> u32 {
    match memory {
        Memory::Void => 0,
        Memory::User => 1,
        Memory::Scratch => 2,
    }
}

/// The memory of buffer number `which`; `None` for the one code that means nothing.
#[inline]
pub(crate) fn memory(head: u32, which: usize) -> Option<Memory> {
    match head >> MEMORY[which] & 3 {
        0 => Some(Memory::Void),
        1 => Some(Memory::User),
        2 => Some(Memory::Scratch),
        _ => None,
    }
}

/// The code of a legal operator and type.
pub(crate) fn arithmetic_code(arithmetic: Arithmetic) -> u32 {
    arithmetic.operator() as u32 | (arithmetic.element() as u32) << 8
}

/// The operator and type behind a code, where it is legal.
#[inline]
pub(crate) fn arithmetic_of(code: u32) -> Option<Arithmetic> {
    if code >> 16 != 0 {
        return None;
    }
    let operator = *Operator::ALL.get((code & 0xff) as usize)?;
    let element = *ElementType::ALL.get((code >> 8) as usize)?;
    Arithmetic::new(operator, element).ok()
}

/// Appends a block as it lies in an appendix.
pub(crate) fn push_block(appendix: &mut Vec<u32>, block: Block) {
    let (offset, bytes) = (block.offset, block.bytes);
    appendix.extend([offset as u32, (offset >> 32) as u32, bytes as u32, (bytes >> 32) as u32]);
}

/// How many words the body behind this head word takes; 0 for unknown kinds.
#[inline(always)]
pub(crate) fn body_words(head: u32) -> usize {
    let size = if head & WIDE == 0 { 1 } else { 2 };
    let tag = (head & TAG != 0) as usize;
    let vector = head & VECTOR != 0;
    let held = |which: usize| if head >> MEMORY[which] & 3 == 0 { 0 } else { size };
    match head & KIND {
        kind::SEND | kind::RECV => size + 1 + tag + if vector { 2 } else { held(0) },
        kind::CALC | kind::SLEEP => size,
        kind::LOCAL => 1 + size + if vector { 6 } else { held(0) + held(1) + held(2) },
        kind::WTIME => held(2),
        kind::CALL => 2 * size,
        kind::PUT | kind::GET => size + 1 + held(0) + held(2),
        _ => 0,
    }
}

/// How many (first block, number of blocks) pairs end the body.
#[inline]
pub(crate) fn block_lists(head: u32) -> usize {
    match (head & VECTOR != 0, head & KIND) {
        (true, kind::LOCAL) => 3,
        (true, _) => 1,
        _ => 0,
    }
}

/// Where the parts of a record lie in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub head: u32,
    /// First successor entry; the start-successors' follow the successors'.
    pub entries: usize,
    pub successors: usize,
    pub start_successors: usize,
    /// The word with processor and interface, if any, then the body.
    pub lanes: usize,
    pub body: usize,
    /// First word behind the record.
    pub end: usize,
}

impl Layout {
    /// Takes the record at `at` apart; `None` where it does not fit into `words`.
    #[inline(always)]
    pub fn of(words: &[u32], at: usize) -> Option<Layout> {
        let head = *words.get(at)?;
        let mut entries = at + 1;
        let mut successors = (head >> COUNT_SHIFT) as usize;
        if successors == COUNT_ESCAPE as usize {
            successors = *words.get(entries)? as usize;
            entries += 1;
        }
        let mut start_successors = 0;
        if head & STARTS != 0 {
            start_successors = *words.get(entries)? as usize;
            entries += 1;
        }
        let lanes = entries.checked_add(successors)?.checked_add(start_successors)?;
        let body = lanes.checked_add((head & LANES != 0) as usize)?;
        let end = body.checked_add(body_words(head))?;
        (end <= words.len()).then_some(Layout {
            head,
            entries,
            successors,
            start_successors,
            lanes,
            body,
            end,
        })
    }
}

/// Head word and body (with whatever follows it) of the record at `at`, in words that were verified: all that
/// decoding an operation takes.
#[inline(always)]
pub(crate) fn head_and_body(words: &[u32], at: usize) -> (u32, &[u32]) {
    let head = words[at];
    let mut body = at + 1 + (head >> COUNT_SHIFT) as usize + (head & LANES != 0) as usize;
    if head & STARTS != 0 || head >> COUNT_SHIFT == COUNT_ESCAPE {
        body = Layout::of(words, at).expect("the words were verified").body;
    }
    (head, &words[body..])
}

/// How many words a record with so many successors takes.
pub(crate) fn record_words(head: u32, successors: usize, start_successors: usize) -> usize {
    let escape = (successors >= COUNT_ESCAPE as usize) as usize;
    let starts = (head & STARTS != 0) as usize;
    let lanes = (head & LANES != 0) as usize;
    1 + escape + starts + successors + start_successors + lanes + body_words(head)
}

/// Reads a body word by word.
struct Fields<'a> {
    head: u32,
    body: &'a [u32],
    blocks: &'a [u32],
}

impl<'a> Fields<'a> {
    #[inline(always)]
    fn word(&mut self) -> u32 {
        let (first, rest) = self.body.split_first().expect("a body is as long as its head word says");
        self.body = rest;
        *first
    }

    #[inline(always)]
    fn size(&mut self) -> u64 {
        let low = u64::from(self.word());
        if self.head & WIDE == 0 { low } else { low | u64::from(self.word()) << 32 }
    }

    #[inline(always)]
    fn tag(&mut self) -> u32 {
        if self.head & TAG == 0 { 0 } else { self.word() }
    }

    #[inline(always)]
    fn memory(&self, which: usize) -> Memory {
        memory(self.head, which).expect("memory codes were checked when the record was made")
    }

    #[inline(always)]
    fn place(&mut self, which: usize) -> Place {
        match self.memory(which) {
            Memory::Void => Place::VOID,
            memory => Place { memory, offset: self.size() },
        }
    }

    #[inline(always)]
    fn buffer(&mut self, which: usize) -> Buffer<'a> {
        if self.head & VECTOR == 0 {
            return Buffer::Plain(self.place(which));
        }
        let (first, count) = (self.word() as usize, self.word() as usize);
        Buffer::Vector(self.memory(which), Blocks(&self.blocks[4 * first..4 * (first + count)]))
    }
}

/// The operation behind a checked head word and body; `blocks` is the appendix.
#[inline(always)]
pub(crate) fn decode<'a>(head: u32, body: &'a [u32], blocks: &'a [u32]) -> Op<'a> {
    let mut fields = Fields { head, body, blocks };
    let any = |word: u32| (word != ANY).then_some(word);
    match head & KIND {
        kind::SEND => {
            let (bytes, dest, tag) = (fields.size(), Rank(fields.word()), Tag(fields.tag()));
            Op::Send { buffer: fields.buffer(0), bytes, dest, tag }
        }
        kind::RECV => {
            let (bytes, source, tag) = (fields.size(), any(fields.word()), any(fields.tag()));
            Op::Recv { buffer: fields.buffer(0), bytes, source: source.map(Rank), tag: tag.map(Tag) }
        }
        kind::CALC => Op::Calc { ns: fields.size() },
        kind::SLEEP => Op::Sleep { ns: fields.size() },
        kind::LOCAL => {
            let arithmetic =
                arithmetic_of(fields.word()).expect("arithmetic was checked when the record was made");
            let count = fields.size();
            let (b1, b2, b3) = (fields.buffer(0), fields.buffer(1), fields.buffer(2));
            Op::Local { b1, b2, b3, arithmetic, count }
        }
        kind::WTIME => Op::Wtime { b3: fields.place(2) },
        kind::CALL => Op::Call { function: fields.size(), context: fields.size() },
        kind::PUT => {
            let (bytes, dest) = (fields.size(), Rank(fields.word()));
            Op::Put { local: fields.place(0), bytes, dest, remote: fields.place(2) }
        }
        kind::GET => {
            let (bytes, source) = (fields.size(), Rank(fields.word()));
            Op::Get { local: fields.place(0), bytes, source, remote: fields.place(2) }
        }
        _ => Op::Proxy,
    }
}
