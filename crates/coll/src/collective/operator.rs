//! Types of elements and how they are reduced: what goal's arithmetic has, what it does not, and operators of the user.

use castell_collectives::collective::Combine;
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{self, Arithmetic, ElementType, Place};
use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The type of a collective's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// A number.
    Number(ElementType),
    /// A truth value, a byte: 0 is false.
    Bool,
    /// Real and imaginary part, f32 each.
    Complex32,
    /// Real and imaginary part, f64 each.
    Complex64,
    /// A number (of 4 or 8 bytes) and where it was found: a signed integer as wide as the number.
    Located(Located),
    /// So many bytes that only operators of the user know how to reduce.
    Opaque(u64),
}

/// The number of a [`DataType::Located`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Located {
    I32,
    I64,
    F32,
    F64,
}

impl Located {
    const ALL: [Located; 4] = [Located::I32, Located::I64, Located::F32, Located::F64];
}

impl DataType {
    /// Size of an element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            DataType::Number(element) => element.bytes(),
            DataType::Bool => 1,
            DataType::Complex32 | DataType::Located(Located::I32 | Located::F32) => 8,
            DataType::Complex64 | DataType::Located(Located::I64 | Located::F64) => 16,
            DataType::Opaque(bytes) => bytes,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Number(element) => element.name(),
            DataType::Bool => "bool",
            DataType::Complex32 => "complex f32",
            DataType::Complex64 => "complex f64",
            DataType::Located(Located::I32) => "located i32",
            DataType::Located(Located::I64) => "located i64",
            DataType::Located(Located::F32) => "located f32",
            DataType::Located(Located::F64) => "located f64",
            DataType::Opaque(_) => "opaque elements",
        }
    }

    /// A number from 1 for each type.
    pub fn code(self) -> u8 {
        match self {
            DataType::Number(element) => 10 + element as u8,
            DataType::Bool => 1,
            DataType::Complex32 => 2,
            DataType::Complex64 => 3,
            DataType::Located(located) => 4 + located as u8,
            DataType::Opaque(_) => 9,
        }
    }

    /// The type with this code, as in `castell.h`; opaque ones without their size.
    pub fn from_code(code: u8) -> Option<DataType> {
        match code {
            1 => Some(DataType::Bool),
            2 => Some(DataType::Complex32),
            3 => Some(DataType::Complex64),
            4..=7 => Some(DataType::Located(Located::ALL[usize::from(code) - 4])),
            9 => Some(DataType::Opaque(0)),
            10.. => ElementType::ALL.get(usize::from(code) - 10).copied().map(DataType::Number),
            _ => None,
        }
    }
}

/// How elements are reduced.
#[derive(Clone, Debug)]
pub enum Reduction {
    /// `left + right`.
    Sum,
    /// `left * right`.
    Product,
    /// The smaller one; of a number and a NaN, the number.
    Minimum,
    /// The larger one; of a number and a NaN, the number.
    Maximum,
    /// Bit by bit.
    BitAnd,
    /// Bit by bit.
    BitOr,
    /// Bit by bit.
    BitXor,
    /// 1 where both are not 0, else 0.
    LogicalAnd,
    /// 1 where one of them is not 0, else 0.
    LogicalOr,
    /// 1 where exactly one of them is not 0, else 0.
    LogicalXor,
    /// The smaller number and where it was found; of equal ones, the lower place.
    MinimumLocation,
    /// The larger number and where it was found; of equal ones, the lower place.
    MaximumLocation,
    /// An operator of the user.
    Custom(Custom),
}

const NAMES: [&str; 13] = [
    "sum",
    "product",
    "minimum",
    "maximum",
    "bit and",
    "bit or",
    "bit xor",
    "logical and",
    "logical or",
    "logical xor",
    "minimum location",
    "maximum location",
    "an operator of the program",
];

/// The name of the operator with this code, from 1.
pub(crate) fn operator_name(code: u8) -> Option<&'static str> {
    NAMES.get(usize::from(code).checked_sub(1)?).copied()
}

impl Reduction {
    /// A number from 1 for each operator.
    #[inline(always)]
    pub(crate) fn code(&self) -> u8 {
        match self {
            Reduction::Sum => 1,
            Reduction::Product => 2,
            Reduction::Minimum => 3,
            Reduction::Maximum => 4,
            Reduction::BitAnd => 5,
            Reduction::BitOr => 6,
            Reduction::BitXor => 7,
            Reduction::LogicalAnd => 8,
            Reduction::LogicalOr => 9,
            Reduction::LogicalXor => 10,
            Reduction::MinimumLocation => 11,
            Reduction::MaximumLocation => 12,
            Reduction::Custom(_) => 13,
        }
    }

    /// Which operator, for the cache.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        match self {
            Reduction::Custom(custom) => custom.0.id,
            other => u64::from(other.code()),
        }
    }

    /// Whether operands may be combined in any order.
    #[inline]
    pub fn commutes(&self) -> bool {
        match self {
            Reduction::Custom(custom) => custom.0.commutes,
            _ => true,
        }
    }

    /// Whether it gives the same bits in whichever order elements of this type are combined: floats are rounded, and nobody knows of
    /// the user's operators.
    pub(crate) fn is_exact(&self, element: DataType) -> bool {
        let is_whole = match element {
            DataType::Number(number) => !number.is_float(),
            DataType::Bool | DataType::Located(Located::I32 | Located::I64) => true,
            _ => false,
        };
        is_whole && !matches!(self, Reduction::Custom(_))
    }
}

/// What an operator of the user does: `result[i] = left[i] op right[i]`. `result` may be `left`.
///
/// # Safety
/// The addresses are of `count` elements each.
pub type Function = dyn Fn(*const u8, *const u8, *mut u8, u64) + Send + Sync;

/// An operator of the user. Ranks that use it together each make their own; that all do the same is theirs to see to.
#[derive(Clone)]
pub struct Custom(Arc<Body>);

struct Body {
    id: u64,
    commutes: bool,
    element_bytes: u64,
    function: Box<Function>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({}, commutes: {})", self.0.id, self.0.commutes)
    }
}

impl Custom {
    /// An operator on elements of a type: `combine(left, right)`, where `left` comes from the lower ranks. It must be
    /// associative; say whether it commutes. It runs on whatever thread of this process makes progress, and may neither
    /// make calls nor panic.
    pub fn new<T: Copy + Send + Sync + 'static>(
        commutes: bool,
        combine: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> Custom {
        let function = move |left: *const u8, right: *const u8, result: *mut u8, count: u64| {
            for at in 0..count as usize {
                // SAFETY: calls are made with `count` elements of the size of `T`, which they were when they were given
                // to the call; places between may be less aligned.
                unsafe {
                    let left = left.cast::<T>().add(at).read_unaligned();
                    let right = right.cast::<T>().add(at).read_unaligned();
                    result.cast::<T>().add(at).write_unaligned(combine(left, right));
                }
            }
        };
        // SAFETY: just above.
        unsafe { Custom::from_function(commutes, size_of::<T>() as u64, Box::new(function)) }
    }

    /// The same from a function over addresses.
    ///
    /// # Safety
    /// The function reads and writes `count` elements of this size at the addresses, and nothing else.
    pub unsafe fn from_function(commutes: bool, element_bytes: u64, function: Box<Function>) -> Custom {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Custom(Arc::new(Body { id, commutes, element_bytes, function }))
    }

    /// Size of the elements that it takes.
    pub fn element_bytes(&self) -> u64 {
        self.0.element_bytes
    }
}

/// A reduction that is no local operation of a graph: what its `call` operations find at their context.
pub(crate) struct Kernel {
    function: Arc<Function>,
    left: u64,
    right: u64,
    result: u64,
    count: u64,
}

/// How a call's graph reduces.
pub(crate) enum Combiner {
    /// By local operations.
    Local(Arithmetic),
    /// By calls, whose contexts are kept here; they must stay where they are for as long as the graph is run.
    Calls {
        function: Arc<Function>,
        #[expect(clippy::vec_box, reason = "graphs hold the kernels' addresses")]
        kernels: RefCell<Vec<Box<Kernel>>>,
    },
}

extern "C" fn invoke(context: *mut c_void) {
    // SAFETY: the context is a kernel that is kept as long as its schedule.
    let kernel = unsafe { &*context.cast::<Kernel>() };
    (kernel.function)(
        kernel.left as *const u8,
        kernel.right as *const u8,
        kernel.result as *mut u8,
        kernel.count,
    );
}

impl Combine for Combiner {
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        match self {
            Combiner::Local(arithmetic) => graph.local(b1, b2, b3, *arithmetic, count),
            Combiner::Calls { function, kernels } => {
                let [left, right, result] = [b1, b2, b3].map(|place| {
                    assert!(place.memory == op::Memory::User, "calls know addresses only");
                    place.offset
                });
                let kernel = Box::new(Kernel { function: Arc::clone(function), left, right, result, count });
                let context = &raw const *kernel as u64;
                kernels.borrow_mut().push(kernel);
                graph.call(invoke as *const () as u64, context)
            }
        }
    }
}

impl Combiner {
    /// Whether temporary results must have addresses.
    pub(crate) fn wants_addresses(&self) -> bool {
        matches!(self, Combiner::Calls { .. })
    }

    fn calls(function: Arc<Function>) -> Combiner {
        Combiner::Calls { function, kernels: RefCell::default() }
    }

    /// The reduction for elements of this type; the reason if there is none.
    pub(crate) fn new(reduction: &Reduction, element: DataType) -> Result<Combiner, String> {
        if let Reduction::Custom(custom) = reduction {
            if custom.element_bytes() != element.bytes() {
                return Err(format!(
                    "the operator is for elements of {} bytes, the call has elements of {} bytes",
                    custom.element_bytes(),
                    element.bytes()
                ));
            }
            let custom = custom.clone();
            let function = move |left: *const u8, right: *const u8, result: *mut u8, count: u64| {
                (custom.0.function)(left, right, result, count);
            };
            return Ok(Combiner::calls(Arc::new(function)));
        }
        let local = match reduction {
            Reduction::Sum => Some(op::Operator::Add),
            Reduction::Product => Some(op::Operator::Mul),
            Reduction::Minimum => Some(op::Operator::Min),
            Reduction::Maximum => Some(op::Operator::Max),
            Reduction::BitAnd => Some(op::Operator::And),
            Reduction::BitOr => Some(op::Operator::Or),
            Reduction::BitXor => Some(op::Operator::Xor),
            _ => None,
        };
        if let (Some(operator), DataType::Number(element)) = (local, element) {
            return Arithmetic::new(operator, element)
                .map(Combiner::Local)
                .map_err(|error| error.to_string());
        }
        super::kernels::kernel(reduction, element).map(Combiner::calls).ok_or_else(|| {
            let operator = operator_name(reduction.code()).expect("every operator has a name");
            format!("{operator} is not defined for {}", element.name())
        })
    }
}
