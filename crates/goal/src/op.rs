//! What a vertex can be: operations, the buffers they touch, and the table of legal local operations.

use castell_base::{Rank, Tag};
use std::fmt;

/// Which memory a buffer lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// No memory named: the size counts, the bytes do not (what traces and simulations need).
    Void,
    /// Memory of the process that runs the graph; offsets are addresses.
    User,
    /// The schedule's scratchpad; offsets count from its start.
    Scratch,
}

/// The start of a contiguous buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which memory.
    pub memory: Memory,
    /// Address ([`Memory::User`]) or byte offset ([`Memory::Scratch`]); 0 for [`Memory::Void`].
    pub offset: u64,
}

impl Place {
    /// A place without memory.
    pub const VOID: Place = Place { memory: Memory::Void, offset: 0 };

    /// A byte offset in the scratchpad.
    pub fn scratch(offset: u64) -> Place {
        Place { memory: Memory::Scratch, offset }
    }

    /// An address in the memory of the process that will run the graph.
    pub fn user(address: u64) -> Place {
        Place { memory: Memory::User, offset: address }
    }
}

/// One piece of a vector buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Address or byte offset, as in [`Place::offset`].
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Block lists as they lie in a graph's or schedule's appendix: 4 words a block (offset low, high, bytes low, high).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<'a>(pub(crate) &'a [u32]);

impl<'a> Blocks<'a> {
    /// The blocks in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Block> + 'a {
        let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        self.0.chunks_exact(4).map(move |w| Block { offset: wide(w[0], w[1]), bytes: wide(w[2], w[3]) })
    }

    /// The blocks as they lie in a schedule: four words each, offset and length, low halves first.
    #[inline]
    pub fn words(self) -> &'a [u32] {
        self.0
    }

    /// How many blocks.
    pub fn len(self) -> usize {
        self.0.len() / 4
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Sum of the blocks' lengths (saturating: hostile input may overflow).
    pub fn bytes(self) -> u64 {
        self.iter().fold(0, |sum, block| sum.saturating_add(block.bytes))
    }
}

/// A buffer: contiguous, or a list of blocks that counts as their concatenation without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer<'a> {
    /// One piece; its length is the operation's.
    Plain(Place),
    /// Several pieces of one memory.
    Vector(Memory, Blocks<'a>),
}

/// The operator of a local operation: `b3[i] = b1[i] op b2[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operator {
    Max,
    Min,
    Add,
    Sub,
    Div,
    Mul,
    /// `b3[i] = b1[i]`; `b2` is not read.
    Copy,
    And,
    Or,
    Xor,
}

impl Operator {
    /// Every operator, in the order of its code in schedules and in the C interface.
    pub const ALL: [Operator; 10] = [
        Operator::Max,
        Operator::Min,
        Operator::Add,
        Operator::Sub,
        Operator::Div,
        Operator::Mul,
        Operator::Copy,
        Operator::And,
        Operator::Or,
        Operator::Xor,
    ];

    /// The word for it in GOAL text.
    pub fn name(self) -> &'static str {
        ["max", "min", "add", "sub", "div", "mul", "copy", "and", "or", "xor"][self as usize]
    }
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ElementType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// IEEE 754's binary16: 11 bits of precision, up to 65504.
    F16,
    /// The upper half of an f32: 8 bits of precision, the range of f32.
    Bf16,
}

impl ElementType {
    /// Every type, in the order of its code in schedules.
    pub const ALL: [ElementType; 12] = [
        ElementType::I8,
        ElementType::I16,
        ElementType::I32,
        ElementType::I64,
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::U64,
        ElementType::F32,
        ElementType::F64,
        ElementType::F16,
        ElementType::Bf16,
    ];

    /// Size of an element in bytes.
    pub fn bytes(self) -> u64 {
        [1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 2, 2][self as usize]
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, ElementType::F32 | ElementType::F64 | ElementType::F16 | ElementType::Bf16)
    }

    /// The word for it in GOAL text.
    pub fn name(self) -> &'static str {
        let names = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "f16", "bf16"];
        names[self as usize]
    }
}

/// A legal pair of operator and element type: the only way to get one is [`Arithmetic::new`], which refuses the
/// illegal pairs (bitwise operators on floats), so an illegal vertex cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    operator: Operator,
    element: ElementType,
}

impl Arithmetic {
    /// Pairs an operator with a type.
    ///
    /// # Errors
    /// [`IllegalArithmetic`] for `and`, `or`, `xor` on floating-point types (GOAL's type table, ESPGOAL 2.2.3).
    pub fn new(operator: Operator, element: ElementType) -> Result<Arithmetic, IllegalArithmetic> {
        let bitwise = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
        if bitwise && element.is_float() {
            return Err(IllegalArithmetic { operator, element });
        }
        Ok(Arithmetic { operator, element })
    }

    /// The operator.
    pub fn operator(self) -> Operator {
        self.operator
    }

    /// The type of the elements.
    pub fn element(self) -> ElementType {
        self.element
    }
}

/// An operator that its element type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalArithmetic {
    /// The operator asked for.
    pub operator: Operator,
    /// The type that does not have it.
    pub element: ElementType,
}

impl fmt::Display for IllegalArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, element) = (self.operator.name(), self.element.name());
        write!(f, "`{operator}` is not defined for {element}: and, or and xor take integers only")
    }
}

impl std::error::Error for IllegalArithmetic {}

/// An operation, as a view into the graph or schedule that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Links others; takes no time.
    Proxy,
    /// Sends `bytes` from `buffer`.
    Send {
        /// What to send.
        buffer: Buffer<'a>,
        /// Message size.
        bytes: u64,
        /// Receiver.
        dest: Rank,
        /// Label of the message.
        tag: Tag,
    },
    /// Receives exactly `bytes` into `buffer`.
    Recv {
        /// Where to put it.
        buffer: Buffer<'a>,
        /// Message size; another size than the sender's is an error.
        bytes: u64,
        /// Sender; `None`: any.
        source: Option<Rank>,
        /// Label; `None`: any.
        tag: Option<Tag>,
    },
    /// Computes for `ns` nanoseconds.
    Calc {
        /// Duration.
        ns: u64,
    },
    /// Waits for `ns` nanoseconds without computing.
    Sleep {
        /// Duration.
        ns: u64,
    },
    /// `b3[i] = b1[i] op b2[i]` for `count` elements.
    Local {
        /// First operand.
        b1: Buffer<'a>,
        /// Second operand (not read by copy).
        b2: Buffer<'a>,
        /// Result.
        b3: Buffer<'a>,
        /// Operator and type.
        arithmetic: Arithmetic,
        /// Elements.
        count: u64,
    },
    /// Writes the time in seconds as an f64.
    Wtime {
        /// Where to: 8 bytes.
        b3: Place,
    },
    /// Calls `function(context)` on the rank that runs the graph.
    Call {
        /// Address of an `extern "C" fn(*mut c_void)`.
        function: u64,
        /// Its argument.
        context: u64,
    },
    /// Writes `bytes` from `local` into the scratchpad of `dest`'s run of the same pattern.
    Put {
        /// Source buffer here.
        local: Place,
        /// Size.
        bytes: u64,
        /// Whose memory.
        dest: Rank,
        /// Where there.
        remote: Place,
    },
    /// Reads `bytes` from the scratchpad of `source`'s run of the same pattern into `local`.
    Get {
        /// Destination buffer here.
        local: Place,
        /// Size.
        bytes: u64,
        /// Whose memory.
        source: Rank,
        /// Where there.
        remote: Place,
    },
}

impl Op<'_> {
    /// Whether it names an address: a buffer in user memory, or a function.
    pub fn names_address(&self) -> bool {
        let is_address = |buffer: &Buffer<'_>| match buffer {
            Buffer::Plain(place) => place.memory == Memory::User,
            Buffer::Vector(memory, _) => *memory == Memory::User,
        };
        match self {
            Op::Call { .. } => true,
            Op::Send { buffer, .. } | Op::Recv { buffer, .. } => is_address(buffer),
            Op::Local { b1, b2, b3, .. } => [b1, b2, b3].into_iter().any(is_address),
            Op::Wtime { b3: place } => place.memory == Memory::User,
            Op::Put { local, remote, .. } | Op::Get { local, remote, .. } => {
                [local, remote].into_iter().any(|place| place.memory == Memory::User)
            }
            Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } => false,
        }
    }
}

/// What every vertex may carry besides its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traits {
    /// Starts once this many of its in-edges are met; `None`: all of them.
    pub any: Option<u32>,
    /// Does not occupy the rank's processor while it lasts (`calc` and `sleep` become timers).
    pub concurrent: bool,
    /// Processor of the rank that carries it out (simulators).
    pub cpu: u8,
    /// Network interface that carries it (simulators).
    pub nic: u8,
}
