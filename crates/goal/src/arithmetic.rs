//! The kernels of local operations: `b3[i] = b1[i] op b2[i]` over bytes of any alignment.
//!
//! Elements have the byte order of this machine. Integers wrap around; dividing one by zero gives 0, and the
//! smallest one divided by -1 gives itself. Of a number and a NaN, `max` and `min` give the number. Half floats are
//! computed as f32 and rounded once more, which gives the same as rounding the exact result once (f32 has more than
//! twice their bits; Figueroa 1995).
//!
//! Safe Rust cannot hold one buffer as operand and result at once, so there is a function for each way in which
//! they can coincide. Buffers that overlap otherwise have to be copied apart by the caller.
//!
//! ```
//! use castell_goal::arithmetic::{apply, apply_onto_first};
//! use castell_goal::op::{Arithmetic, ElementType, Operator};
//!
//! let mul = Arithmetic::new(Operator::Mul, ElementType::U8)?;
//! let mut product = [0; 3];
//! apply(mul, &[1, 2, 3], &[10, 20, 200], &mut product);
//! assert_eq!(product, [10, 40, 88]);
//! apply_onto_first(mul, &mut product, &[2, 2, 2]);
//! assert_eq!(product, [20, 80, 176]);
//! # Ok::<(), castell_goal::op::IllegalArithmetic>(())
//! ```

use crate::op::{Arithmetic, ElementType, Operator};
use castell_base::Vectors;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

/// `b3[i] = b1[i] op b2[i]`, three different buffers; copy does not look at `b2`.
///
/// # Panics
/// Where the buffers differ in length or hold a part of an element.
pub fn apply(arithmetic: Arithmetic, b1: &[u8], b2: &[u8], b3: &mut [u8]) {
    if arithmetic.operator() == Operator::Copy {
        return b3.copy_from_slice(b1);
    }
    assert_eq!(b1.len(), b3.len(), "the first operand is as long as the result");
    assert_eq!(b2.len(), b3.len(), "the second operand is as long as the result");
    dispatch(arithmetic, Buffers::Three { b1, b2, b3 });
}

/// `b[i] = b[i] op b2[i]`: the first operand is the result too; copy changes nothing.
///
/// # Panics
/// Where the buffers differ in length or hold a part of an element.
pub fn apply_onto_first(arithmetic: Arithmetic, b1_and_b3: &mut [u8], b2: &[u8]) {
    if arithmetic.operator() == Operator::Copy {
        return;
    }
    assert_eq!(b2.len(), b1_and_b3.len(), "the second operand is as long as the result");
    dispatch(arithmetic, Buffers::OntoFirst { b1_and_b3, b2 });
}

/// `b[i] = b1[i] op b[i]`: the second operand is the result too.
///
/// # Panics
/// Where the buffers differ in length or hold a part of an element.
pub fn apply_onto_second(arithmetic: Arithmetic, b1: &[u8], b2_and_b3: &mut [u8]) {
    if arithmetic.operator() == Operator::Copy {
        return b2_and_b3.copy_from_slice(b1);
    }
    assert_eq!(b1.len(), b2_and_b3.len(), "the first operand is as long as the result");
    dispatch(arithmetic, Buffers::OntoSecond { b1, b2_and_b3 });
}

/// `b[i] = b[i] op b[i]`: both operands are the result too; copy changes nothing.
///
/// # Panics
/// Where the buffer holds a part of an element.
pub fn apply_to_itself(arithmetic: Arithmetic, all: &mut [u8]) {
    /// A whole number of every element, small enough to stay in the first cache.
    const TILE_BYTES: usize = 4096;
    let mut copy = [0; TILE_BYTES];
    for tile in all.chunks_mut(TILE_BYTES) {
        let copy = &mut copy[..tile.len()];
        copy.copy_from_slice(tile);
        apply_onto_first(arithmetic, tile, copy);
    }
}

/// Whether numbers with and without sign need loops of their own.
#[inline(always)]
fn minds_signs(operator: Operator) -> bool {
    matches!(operator, Operator::Max | Operator::Min | Operator::Div)
}

/// The loops of integers for operators that mind signs.
macro_rules! numbers {
    ($operator:expr, $buffers:expr, $type:ty) => {
        match $operator {
            Operator::Max => each($buffers, |x: $type, y| x.max(y)),
            Operator::Min => each($buffers, |x: $type, y| x.min(y)),
            Operator::Div => each($buffers, |x: $type, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
            _ => unreachable!("no other operator minds signs"),
        }
    };
}

/// Those for the other operators, of which the type without sign serves both.
macro_rules! bits {
    ($operator:expr, $buffers:expr, $type:ty) => {
        match $operator {
            Operator::Add => each($buffers, <$type>::wrapping_add),
            Operator::Sub => each($buffers, <$type>::wrapping_sub),
            Operator::Mul => each($buffers, <$type>::wrapping_mul),
            Operator::And => each($buffers, |x: $type, y| x & y),
            Operator::Or => each($buffers, |x: $type, y| x | y),
            Operator::Xor => each($buffers, |x: $type, y| x ^ y),
            _ => unreachable!("copies were made before, and the other operators mind signs"),
        }
    };
}

macro_rules! floats {
    ($operator:expr, $buffers:expr, $type:ty, $each:path) => {
        match $operator {
            Operator::Max => $each($buffers, <$type>::max),
            Operator::Min => $each($buffers, <$type>::min),
            Operator::Div => $each($buffers, |x: $type, y| x / y),
            Operator::Add => $each($buffers, |x: $type, y| x + y),
            Operator::Sub => $each($buffers, |x: $type, y| x - y),
            Operator::Mul => $each($buffers, |x: $type, y| x * y),
            Operator::And | Operator::Or | Operator::Xor | Operator::Copy => {
                unreachable!("copies were made before, and there are no bitwise operators on floats")
            }
        }
    };
}

/// One element of eight bytes, the commonest of small reductions, without what rows of them need; `None`: the type's elements
/// have another size.
///
/// # Panics
/// It is a copy.
#[inline(always)]
pub fn apply_to_one(arithmetic: Arithmetic, b1: [u8; 8], b2: [u8; 8]) -> Option<[u8; 8]> {
    let (operator, mut b3) = (arithmetic.operator(), b1);
    let buffers = &mut Buffers::Three { b1: &b1, b2: &b2, b3: &mut b3 };
    match arithmetic.element() {
        ElementType::I64 if minds_signs(operator) => numbers!(operator, buffers, i64),
        ElementType::U64 if minds_signs(operator) => numbers!(operator, buffers, u64),
        ElementType::I64 | ElementType::U64 => bits!(operator, buffers, u64),
        ElementType::F64 => floats!(operator, buffers, f64, each),
        _ => return None,
    }
    Some(b3)
}

/// Operands and result, by where they coincide.
enum Buffers<'a> {
    Three { b1: &'a [u8], b2: &'a [u8], b3: &'a mut [u8] },
    OntoFirst { b1_and_b3: &'a mut [u8], b2: &'a [u8] },
    OntoSecond { b1: &'a [u8], b2_and_b3: &'a mut [u8] },
}

impl Buffers<'_> {
    fn bytes(&self) -> usize {
        match self {
            Buffers::Three { b3, .. } => b3.len(),
            Buffers::OntoFirst { b2, .. } => b2.len(),
            Buffers::OntoSecond { b1, .. } => b1.len(),
        }
    }

    fn operands(&self) -> [&[u8]; 2] {
        match self {
            Buffers::Three { b1, b2, .. } => [b1, b2],
            Buffers::OntoFirst { b1_and_b3, b2 } => [b1_and_b3, b2],
            Buffers::OntoSecond { b1, b2_and_b3 } => [b1, b2_and_b3],
        }
    }

    fn result(&mut self) -> &mut [u8] {
        match self {
            Buffers::Three { b3, .. } => b3,
            Buffers::OntoFirst { b1_and_b3, .. } => b1_and_b3,
            Buffers::OntoSecond { b2_and_b3, .. } => b2_and_b3,
        }
    }
}

/// A type of elements, `N` bytes wide.
trait Element<const N: usize>: Copy {
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
}

macro_rules! element {
    ($($type:ty)*) => {$(
        impl Element<{ size_of::<$type>() }> for $type {
            #[inline(always)]
            fn load(bytes: [u8; size_of::<$type>()]) -> Self {
                <$type>::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> [u8; size_of::<$type>()] {
                self.to_ne_bytes()
            }
        }
    )*};
}

element!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

/// One loop for each place of the result. Slices of `[u8; N]` have no alignment and no bounds to check, so that each
/// loop becomes one over vectors.
#[inline(always)]
fn each<T: Element<N>, const N: usize>(buffers: &mut Buffers<'_>, operator: impl Fn(T, T) -> T) {
    match buffers {
        Buffers::Three { b1, b2, b3 } => {
            for ((z, &x), &y) in whole_mut(b3).iter_mut().zip(whole(b1)).zip(whole(b2)) {
                *z = operator(T::load(x), T::load(y)).store();
            }
        }
        Buffers::OntoFirst { b1_and_b3, b2 } => {
            for (x, &y) in whole_mut(b1_and_b3).iter_mut().zip(whole(b2)) {
                *x = operator(T::load(*x), T::load(y)).store();
            }
        }
        Buffers::OntoSecond { b1, b2_and_b3 } => {
            for (y, &x) in whole_mut(b2_and_b3).iter_mut().zip(whole(b1)) {
                *y = operator(T::load(x), T::load(*y)).store();
            }
        }
    }
}

fn whole<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    let (elements, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "a buffer holds whole elements");
    elements
}

fn whole_mut<const N: usize>(bytes: &mut [u8]) -> &mut [[u8; N]] {
    let (elements, rest) = bytes.as_chunks_mut();
    assert!(rest.is_empty(), "a buffer holds whole elements");
    elements
}

/// So many half floats are turned into f32 at a time, by what the processor has for it.
const TILE: usize = 128;

/// A float of two bytes.
trait Half {
    fn widen(halves: &[u16], floats: &mut [f32]);
    fn narrow(floats: &[f32], halves: &mut [u16]);
}

macro_rules! half {
    ($($type:ty)*) => {$(
        impl Half for $type {
            fn widen(halves: &[u16], floats: &mut [f32]) {
                halves.reinterpret_cast::<$type>().convert_to_f32_slice(floats);
            }

            fn narrow(floats: &[f32], halves: &mut [u16]) {
                halves.reinterpret_cast_mut::<$type>().convert_from_f32_slice(floats);
            }
        }
    )*};
}

half!(f16 bf16);

#[inline(always)]
fn widen<H: Half>(bytes: &[u8], floats: &mut [f32; TILE]) {
    let mut halves = [0; TILE];
    for (half, bytes) in halves.iter_mut().zip(whole(bytes)) {
        *half = u16::from_ne_bytes(*bytes);
    }
    H::widen(&halves, floats);
}

#[inline(always)]
fn narrow<H: Half>(floats: &[f32; TILE], bytes: &mut [u8]) {
    let mut halves = [0; TILE];
    H::narrow(floats, &mut halves);
    for (bytes, half) in whole_mut(bytes).iter_mut().zip(halves) {
        *bytes = half.to_ne_bytes();
    }
}

/// The loop of a kind of half floats; each tile asks which operator it is.
#[inline(always)]
fn each_half<H: Half>(buffers: &mut Buffers<'_>, operator: Operator) {
    const TILE_BYTES: usize = 2 * TILE;
    let (mut x, mut y) = ([0.0; TILE], [0.0; TILE]);
    for at in (0..buffers.bytes()).step_by(TILE_BYTES) {
        let tile = at..buffers.bytes().min(at + TILE_BYTES);
        let [b1, b2] = buffers.operands();
        widen::<H>(&b1[tile.clone()], &mut x);
        widen::<H>(&b2[tile.clone()], &mut y);
        floats!(operator, (&mut x, &y), f32, each_of_tile);
        narrow::<H>(&x, &mut buffers.result()[tile]);
    }
}

#[inline(always)]
fn each_of_tile((x, y): (&mut [f32; TILE], &[f32; TILE]), operator: impl Fn(f32, f32) -> f32) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = operator(*x, *y);
    }
}

/// Below so many bytes a wider vector saves less than finding out that there is one.
const WIDE_VECTORS_FROM_BYTES: usize = 256;

/// Runs the loops with the widest vectors that this processor has. Results are the same bits with any: no element
/// depends on another, and nothing is contracted into fused operations.
fn dispatch(arithmetic: Arithmetic, mut buffers: Buffers<'_>) {
    let is_short = buffers.bytes() < WIDE_VECTORS_FROM_BYTES;
    let vectors = if is_short { Vectors::BASELINE } else { Vectors::widest() };
    vectors.run(
        #[inline(always)]
        || run(arithmetic, &mut buffers),
    );
}

#[inline(always)]
fn run(arithmetic: Arithmetic, buffers: &mut Buffers<'_>) {
    let operator = arithmetic.operator();
    match (arithmetic.element(), minds_signs(operator)) {
        (ElementType::I8, true) => numbers!(operator, buffers, i8),
        (ElementType::I16, true) => numbers!(operator, buffers, i16),
        (ElementType::I32, true) => numbers!(operator, buffers, i32),
        (ElementType::I64, true) => numbers!(operator, buffers, i64),
        (ElementType::U8, true) => numbers!(operator, buffers, u8),
        (ElementType::U16, true) => numbers!(operator, buffers, u16),
        (ElementType::U32, true) => numbers!(operator, buffers, u32),
        (ElementType::U64, true) => numbers!(operator, buffers, u64),
        (ElementType::I8 | ElementType::U8, false) => bits!(operator, buffers, u8),
        (ElementType::I16 | ElementType::U16, false) => bits!(operator, buffers, u16),
        (ElementType::I32 | ElementType::U32, false) => bits!(operator, buffers, u32),
        (ElementType::I64 | ElementType::U64, false) => bits!(operator, buffers, u64),
        (ElementType::F32, _) => floats!(operator, buffers, f32, each),
        (ElementType::F64, _) => floats!(operator, buffers, f64, each),
        (ElementType::F16, _) => each_half::<f16>(buffers, operator),
        (ElementType::Bf16, _) => each_half::<bf16>(buffers, operator),
    }
}
