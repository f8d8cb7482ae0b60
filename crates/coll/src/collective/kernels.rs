//! Reductions that goal's arithmetic does not have: logical ones, complex numbers, extrema with their places.

use super::operator::{DataType, Function, Located, Reduction};
use castell_goal::op::ElementType;
use std::sync::Arc;

/// A function that reduces element by element.
fn each<T: Copy + 'static>(combine: fn(T, T) -> T) -> Arc<Function> {
    Arc::new(move |left: *const u8, right: *const u8, result: *mut u8, count: u64| {
        for at in 0..count as usize {
            // SAFETY: calls are made with `count` elements of this size at each address.
            unsafe {
                let left = left.cast::<T>().add(at).read_unaligned();
                let right = right.cast::<T>().add(at).read_unaligned();
                result.cast::<T>().add(at).write_unaligned(combine(left, right));
            }
        }
    })
}

/// A number and where it was found.
#[derive(Clone, Copy)]
#[repr(C)]
struct At<T, I> {
    number: T,
    place: I,
}

macro_rules! located {
    ($reduction:expr, $number:ty, $place:ty) => {{
        type Pair = At<$number, $place>;
        // A NaN loses against every number, as in goal's arithmetic; of two NaNs the lower place counts.
        fn is_better(left: $number, right: $number, wins: bool) -> bool {
            #[allow(clippy::eq_op)]
            let (left_is_number, right_is_number) = (left == left, right == right);
            if left_is_number && right_is_number { wins } else { left_is_number && !right_is_number }
        }
        fn pick(left: Pair, right: Pair, left_wins: bool, right_wins: bool) -> Pair {
            if is_better(left.number, right.number, left_wins) {
                left
            } else if is_better(right.number, left.number, right_wins) {
                right
            } else {
                At { number: left.number, place: left.place.min(right.place) }
            }
        }
        let smaller: fn(Pair, Pair) -> Pair =
            |left, right| pick(left, right, left.number < right.number, right.number < left.number);
        let larger: fn(Pair, Pair) -> Pair =
            |left, right| pick(left, right, left.number > right.number, right.number > left.number);
        match $reduction {
            Reduction::MinimumLocation => Some(each(smaller)),
            Reduction::MaximumLocation => Some(each(larger)),
            _ => None,
        }
    }};
}

macro_rules! complex {
    ($reduction:expr, $number:ty) => {{
        type Complex = [$number; 2];
        let add: fn(Complex, Complex) -> Complex = |[a, b], [c, d]| [a + c, b + d];
        let multiply: fn(Complex, Complex) -> Complex = |[a, b], [c, d]| [a * c - b * d, a * d + b * c];
        match $reduction {
            Reduction::Sum => Some(each(add)),
            Reduction::Product => Some(each(multiply)),
            _ => None,
        }
    }};
}

macro_rules! logical {
    ($reduction:expr, $number:ty) => {{
        const ZERO: $number = 0 as $number;
        let and: fn($number, $number) -> $number = |a, b| (u8::from(a != ZERO && b != ZERO)) as $number;
        let or: fn($number, $number) -> $number = |a, b| (u8::from(a != ZERO || b != ZERO)) as $number;
        let xor: fn($number, $number) -> $number = |a, b| (u8::from((a != ZERO) != (b != ZERO))) as $number;
        match $reduction {
            Reduction::LogicalAnd => Some(each(and)),
            Reduction::LogicalOr => Some(each(or)),
            Reduction::LogicalXor => Some(each(xor)),
            _ => None,
        }
    }};
}

/// Floats of two bytes by their bits, of which `one` is 1.
macro_rules! logical_half {
    ($reduction:expr, $one:expr) => {{
        const fn is_true(bits: u16) -> bool {
            bits & 0x7fff != 0
        }
        let and: fn(u16, u16) -> u16 = |a, b| if is_true(a) && is_true(b) { $one } else { 0 };
        let or: fn(u16, u16) -> u16 = |a, b| if is_true(a) || is_true(b) { $one } else { 0 };
        let xor: fn(u16, u16) -> u16 = |a, b| if is_true(a) != is_true(b) { $one } else { 0 };
        match $reduction {
            Reduction::LogicalAnd => Some(each(and)),
            Reduction::LogicalOr => Some(each(or)),
            Reduction::LogicalXor => Some(each(xor)),
            _ => None,
        }
    }};
}

/// The reduction, if these elements have it.
pub(super) fn kernel(reduction: &Reduction, element: DataType) -> Option<Arc<Function>> {
    match element {
        DataType::Located(Located::I32) => located!(reduction, i32, i32),
        DataType::Located(Located::I64) => located!(reduction, i64, i64),
        DataType::Located(Located::F32) => located!(reduction, f32, i32),
        DataType::Located(Located::F64) => located!(reduction, f64, i64),
        DataType::Complex32 => complex!(reduction, f32),
        DataType::Complex64 => complex!(reduction, f64),
        DataType::Bool => logical!(reduction, u8),
        DataType::Number(ElementType::I8) => logical!(reduction, i8),
        DataType::Number(ElementType::I16) => logical!(reduction, i16),
        DataType::Number(ElementType::I32) => logical!(reduction, i32),
        DataType::Number(ElementType::I64) => logical!(reduction, i64),
        DataType::Number(ElementType::U8) => logical!(reduction, u8),
        DataType::Number(ElementType::U16) => logical!(reduction, u16),
        DataType::Number(ElementType::U32) => logical!(reduction, u32),
        DataType::Number(ElementType::U64) => logical!(reduction, u64),
        DataType::Number(ElementType::F32) => logical!(reduction, f32),
        DataType::Number(ElementType::F64) => logical!(reduction, f64),
        // Zero of either sign; 1.0.
        DataType::Number(ElementType::F16) => logical_half!(reduction, 0x3c00),
        DataType::Number(ElementType::Bf16) => logical_half!(reduction, 0x3f80),
        DataType::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<T: Copy>(reduction: &Reduction, element: DataType, left: &[T], right: &[T]) -> Vec<T> {
        let function = kernel(reduction, element).expect("defined");
        let mut result = left.to_vec();
        let at = result.as_mut_ptr().cast::<u8>();
        function(at, right.as_ptr().cast(), at, left.len() as u64);
        result
    }

    #[test]
    fn half_floats_are_true_unless_they_are_zero() {
        // 0, -0, the smallest one, 1, infinity.
        for (element, [tiny, one, infinity]) in
            [(ElementType::F16, [1, 0x3c00, 0x7c00]), (ElementType::Bf16, [1, 0x3f80, 0x7f80])]
        {
            let (left, right) = ([0_u16, 0x8000, tiny, one, infinity], [0_u16, one, infinity, 0x8000, tiny]);
            let apply = |reduction| apply(&reduction, DataType::Number(element), &left, &right);
            assert_eq!(apply(Reduction::LogicalAnd), [0, 0, one, 0, one]);
            assert_eq!(apply(Reduction::LogicalOr), [0, one, one, one, one]);
            assert_eq!(apply(Reduction::LogicalXor), [0, one, 0, one, 0]);
        }
    }

    #[test]
    fn extrema_know_their_places() {
        let element = DataType::Located(Located::F64);
        let pair = |number: f64, place: i64| At { number, place };
        let least = |a: At<f64, i64>, b| {
            let found = apply(&Reduction::MinimumLocation, element, &[a], &[b])[0];
            (found.number, found.place)
        };
        assert_eq!(least(pair(2.0, 7), pair(1.0, 9)), (1.0, 9));
        assert_eq!(least(pair(1.0, 7), pair(1.0, 3)), (1.0, 3));
        assert_eq!(least(pair(f64::NAN, 1), pair(5.0, 3)), (5.0, 3));
        assert_eq!(least(pair(f64::NAN, 4), pair(f64::NAN, 3)).1, 3);
        let most = apply(&Reduction::MaximumLocation, DataType::Located(Located::I32), &[[3, 5]], &[[4, 1]]);
        assert_eq!(most, [[4, 1]]);
    }

    #[test]
    fn complex_numbers_multiply() {
        let product = apply(&Reduction::Product, DataType::Complex64, &[[1.0, 2.0]], &[[3.0, -1.0]]);
        assert_eq!(product, [[5.0, 5.0]]);
        assert_eq!(apply(&Reduction::Sum, DataType::Complex32, &[[1f32, 2.0]], &[[3.0, 4.0]]), [[4.0, 6.0]]);
        assert!(kernel(&Reduction::Maximum, DataType::Complex64).is_none());
    }

    #[test]
    fn truth_is_one() {
        let number = DataType::Number(ElementType::I32);
        assert_eq!(apply(&Reduction::LogicalAnd, number, &[5, 0, -1], &[7, 1, 0]), [1, 0, 0]);
        assert_eq!(apply(&Reduction::LogicalOr, number, &[5, 0, 0], &[7, 1, 0]), [1, 1, 0]);
        assert_eq!(apply(&Reduction::LogicalXor, DataType::Bool, &[5u8, 0, 0], &[7, 1, 0]), [0, 1, 0]);
    }
}
