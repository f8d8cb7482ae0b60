//! Operators and types.

use super::{castell_op, castell_type};
use crate::error::{Error, Result, status};
use crate::objects::{OPERATORS, too_many};
use crate::types::Code;
use castell_comm::collective::{Custom, DataType, Reduction};
use std::ffi::{c_int, c_void};

/// The first type of opaque elements.
const BYTES: castell_type = 256;

type Function = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void, usize, *mut c_void);

/// What the program gave beside its function.
struct Context(*mut c_void);

// SAFETY: the header says that the function is called on any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Makes an operator.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_op_create(
    function: Option<Function>,
    context: *mut c_void,
    element_bytes: usize,
    commutes: c_int,
    op: *mut castell_op,
) -> c_int {
    status("castell_op_create", || {
        let function = function.ok_or_else(|| Error::new(Code::Buffer, "the function is NULL"))?;
        if op.is_null() {
            return Err(Error::new(Code::Buffer, "the place for the operator is NULL"));
        }
        if element_bytes == 0 {
            return Err(Error::new(Code::Count, "elements without bytes cannot be reduced"));
        }
        let context = Context(context);
        let body = move |left: *const u8, right: *const u8, result: *mut u8, count: u64| {
            // SAFETY: the addresses are of `count` elements; the program answers for its function.
            unsafe { function(left.cast(), right.cast(), result.cast(), count as usize, context.get()) };
        };
        // SAFETY: the program's function reads and writes elements of this size, as the header says.
        let custom = unsafe { Custom::from_function(commutes != 0, element_bytes as u64, Box::new(body)) };
        let id = OPERATORS.insert(custom).map_err(too_many("operators"))?;
        // SAFETY: the caller's promise; it was looked at for NULL.
        unsafe { op.write(id as usize as castell_op) };
        Ok(())
    })
}

/// Forgets an operator; calls that use it keep it.
///
/// # Safety
/// `op` is NULL or points to an operator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_op_free(op: *mut castell_op) -> c_int {
    status("castell_op_free", || {
        // SAFETY: the caller's promise.
        let Some(op) = (unsafe { op.as_mut() }) else {
            return Err(Error::new(Code::Buffer, "the place of the operator is NULL"));
        };
        OPERATORS.remove(*op as u64).map_err(|_| no_operator(*op))?;
        *op = std::ptr::null_mut();
        Ok(())
    })
}

fn no_operator(op: castell_op) -> Error {
    Error::new(Code::Operation, format!("{op:?} is no operator, or was freed"))
}

/// The operator that a program names.
#[inline]
pub(super) fn reduction(op: castell_op) -> Result<Reduction> {
    Ok(match op as usize {
        1 => Reduction::Sum,
        2 => Reduction::Product,
        3 => Reduction::Minimum,
        4 => Reduction::Maximum,
        5 => Reduction::BitAnd,
        6 => Reduction::BitOr,
        7 => Reduction::BitXor,
        8 => Reduction::LogicalAnd,
        9 => Reduction::LogicalOr,
        10 => Reduction::LogicalXor,
        11 => Reduction::MinimumLocation,
        12 => Reduction::MaximumLocation,
        _ => Reduction::Custom(custom(op)?),
    })
}

#[cold]
fn custom(op: castell_op) -> Result<Custom> {
    OPERATORS.with(op as u64, |custom| custom.clone()).map_err(|_| no_operator(op))
}

/// The type that a program names.
#[inline]
pub(super) fn element(element: castell_type) -> Result<DataType> {
    if element > BYTES {
        return Ok(DataType::Opaque(u64::from(element - BYTES)));
    }
    let found = u8::try_from(element).ok().and_then(DataType::from_code);
    let found = found.filter(|found| !matches!(found, DataType::Opaque(_)));
    found.ok_or_else(|| no_type(element))
}

#[cold]
fn no_type(element: castell_type) -> Error {
    Error::new(Code::Operation, format!("{element} is no type of elements"))
}
