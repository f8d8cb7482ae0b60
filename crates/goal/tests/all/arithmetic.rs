//! Every legal operator and type, in each way that operands and result can coincide, against one number at a time.

use castell_goal::arithmetic::{apply, apply_onto_first, apply_onto_second, apply_to_itself, apply_to_one};
use castell_goal::op::{Arithmetic, ElementType, Operator};

/// Integers as `i128`, floats as they are.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i128),
    Float(f64),
}

/// Bytes and back, for one type; integers are cut to its width, which is what wrapping around means.
fn encode(element: ElementType, number: Number) -> Vec<u8> {
    let width = element.bytes() as usize;
    match (element, number) {
        (ElementType::F32, Number::Float(float)) => (float as f32).to_ne_bytes().to_vec(),
        (ElementType::F64, Number::Float(float)) => float.to_ne_bytes().to_vec(),
        (ElementType::F16, Number::Float(float)) => nearest(float, 10).to_ne_bytes().to_vec(),
        (ElementType::Bf16, Number::Float(float)) => nearest(float, 7).to_ne_bytes().to_vec(),
        (_, Number::Integer(integer)) if cfg!(target_endian = "little") => {
            integer.to_le_bytes()[..width].to_vec()
        }
        (_, Number::Integer(integer)) => integer.to_be_bytes()[16 - width..].to_vec(),
        (_, Number::Float(float)) => panic!("{float} is no {}", element.name()),
    }
}

fn decode(element: ElementType, bytes: &[u8]) -> Number {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.try_into().unwrap()).into()
        };
    }
    match element {
        ElementType::F32 => Number::Float(number!(f32)),
        ElementType::F64 => Number::Float(number!(f64)),
        ElementType::F16 => Number::Float(half(u16::from_ne_bytes(bytes.try_into().unwrap()), 10)),
        ElementType::Bf16 => Number::Float(half(u16::from_ne_bytes(bytes.try_into().unwrap()), 7)),
        ElementType::I8 => Number::Integer(number!(i8)),
        ElementType::I16 => Number::Integer(number!(i16)),
        ElementType::I32 => Number::Integer(number!(i32)),
        ElementType::I64 => Number::Integer(number!(i64)),
        ElementType::U8 => Number::Integer(number!(u8)),
        ElementType::U16 => Number::Integer(number!(u16)),
        ElementType::U32 => Number::Integer(number!(u32)),
        ElementType::U64 => Number::Integer(number!(u64)),
    }
}

/// A float of two bytes by definition, `fraction` of whose bits are behind the point.
fn half(bits: u16, fraction: u32) -> f64 {
    let exponents = 1 << (15 - fraction);
    let exponent = i32::from(bits & 0x7fff) >> fraction;
    let digits = f64::from(bits & ((1 << fraction) - 1)) / f64::from(1 << fraction);
    let bias = exponents / 2 - 1;
    let size = match exponent {
        0 => digits * 2f64.powi(1 - bias),
        _ if exponent == exponents - 1 && digits == 0.0 => f64::INFINITY,
        _ if exponent == exponents - 1 => f64::NAN,
        _ => (1.0 + digits) * 2f64.powi(exponent - bias),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The nearest such float, by search; of two the one with an even last digit.
fn nearest(number: f64, fraction: u32) -> u16 {
    let sign = u16::from(number.is_sign_negative()) << 15;
    let infinity = ((1_u16 << (15 - fraction)) - 1) << fraction;
    if number.is_nan() {
        return infinity | 1;
    }
    // The positive ones are in order of their bits. The step to infinity is as large as the one before it.
    let (size, largest) = (number.abs(), half(infinity - 1, fraction));
    let beyond = 2.0 * largest - half(infinity - 2, fraction);
    let value = |bits: u16| if bits == infinity { beyond } else { half(bits, fraction) };
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if value(middle) <= size { low = middle } else { high = middle }
    }
    let (below, above) = (size - value(low), value(high) - size);
    sign | if below < above || below == above && low % 2 == 0 { low } else { high }
}

fn oracle(arithmetic: Arithmetic, b1: &[u8], b2: &[u8]) -> Vec<u8> {
    let element = arithmetic.element();
    let result = match (decode(element, b1), decode(element, b2)) {
        (Number::Integer(x), Number::Integer(y)) => Number::Integer(match arithmetic.operator() {
            Operator::Max => x.max(y),
            Operator::Min => x.min(y),
            Operator::Add => x + y,
            Operator::Sub => x - y,
            Operator::Mul => x.wrapping_mul(y),
            Operator::Div if y == 0 => 0,
            Operator::Div => x / y,
            Operator::Copy => x,
            Operator::And => x & y,
            Operator::Or => x | y,
            Operator::Xor => x ^ y,
        }),
        (Number::Float(x), Number::Float(y)) if element == ElementType::F64 => {
            Number::Float(float_oracle(arithmetic.operator(), x, y))
        }
        // These are exact in f64, or far enough from where rounding turns.
        // Rounding a sum, product or quotient of two f32 to f64 first and then to f32 gives the same (Figueroa 1995).
        (Number::Float(x), Number::Float(y)) => Number::Float(float_oracle(arithmetic.operator(), x, y)),
        mixed => panic!("{mixed:?}"),
    };
    encode(element, result)
}

fn float_oracle(operator: Operator, x: f64, y: f64) -> f64 {
    match operator {
        Operator::Max if x.is_nan() || x < y => y,
        Operator::Max | Operator::Copy => x,
        Operator::Min if x.is_nan() || x > y => y,
        Operator::Min => x,
        Operator::Add => x + y,
        Operator::Sub => x - y,
        Operator::Mul => x * y,
        Operator::Div => x / y,
        Operator::And | Operator::Or | Operator::Xor => panic!("no bitwise operators on floats"),
    }
}

/// The ends of every type's range, small numbers, and for floats what is special.
fn values(element: ElementType) -> Vec<Number> {
    if element.is_float() {
        let special =
            [0.0, 1.0, -1.0, 1.5, -2.25, 1e30, -1e-30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0];
        // Where half floats end, are coarse, or are subnormal.
        let halves = [65504.0, -65504.0, 2049.0, 0.333, 6e-8, 3e-5, -1.2e-38, 9e-41, 3.3e38, 1.0 / 1024.0];
        let special = special.into_iter().chain(halves);
        return special.map(Number::Float).collect();
    }
    let bits = 8 * element.bytes();
    let ends = [1i128 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 1];
    let small = [0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -7, -100];
    ends.into_iter().chain(small).map(Number::Integer).collect()
}

/// Same number: NaNs may differ in their payload.
fn same(element: ElementType, result: &[u8], expected: &[u8]) -> bool {
    let nan = |bytes| matches!(decode(element, bytes), Number::Float(float) if float.is_nan());
    let zero = |bytes| matches!(decode(element, bytes), Number::Float(0.0));
    result == expected || nan(result) && nan(expected) || zero(result) && zero(expected)
}

fn check(arithmetic: Arithmetic, what: &str, b1: &[u8], b2: &[u8], result: &[u8]) {
    let width = arithmetic.element().bytes() as usize;
    for ((x, y), z) in b1.chunks(width).zip(b2.chunks(width)).zip(result.chunks(width)) {
        let expected = oracle(arithmetic, x, y);
        assert!(
            same(arithmetic.element(), z, &expected),
            "{what}: {:?} {:?} {:?} gives {:?}, not {:?}",
            decode(arithmetic.element(), x),
            arithmetic,
            decode(arithmetic.element(), y),
            decode(arithmetic.element(), z),
            decode(arithmetic.element(), &expected),
        );
    }
}

fn legal() -> impl Iterator<Item = Arithmetic> {
    let pairs = Operator::ALL.into_iter().flat_map(|o| ElementType::ALL.into_iter().map(move |e| (o, e)));
    pairs.filter_map(|(operator, element)| Arithmetic::new(operator, element).ok())
}

#[test]
fn the_table_has_every_pair_but_bitwise_floats() {
    assert_eq!(legal().count(), 120 - 3 * 4);
}

#[test]
fn every_legal_pair_computes_in_every_shape() {
    for arithmetic in legal() {
        let values = values(arithmetic.element());
        let (mut b1, mut b2) = (Vec::new(), Vec::new());
        for &x in &values {
            for &y in &values {
                b1.extend(encode(arithmetic.element(), x));
                b2.extend(encode(arithmetic.element(), y));
            }
        }
        let width = arithmetic.element().bytes() as usize;
        // Beginnings of any alignment; lengths around those of vectors.
        for shift in [0, 1, 3] {
            for count in [0, 1, 2, 3, 7, 8, 15, 16, 17, 33, b1.len() / width] {
                let bytes = count * width;
                let shifted = |from: &[u8]| [&vec![0; shift], &from[..bytes]].concat();
                let (s1, s2) = (shifted(&b1), shifted(&b2));
                let (x, y) = (&s1[shift..], &s2[shift..]);
                let mut b3 = vec![0xa5; shift + bytes];
                apply(arithmetic, x, y, &mut b3[shift..]);
                check(arithmetic, "apart", x, y, &b3[shift..]);
                assert!(b3[..shift].iter().all(|&byte| byte == 0xa5));
                let mut first = s1.clone();
                apply_onto_first(arithmetic, &mut first[shift..], y);
                check(arithmetic, "onto first", x, y, &first[shift..]);
                let mut second = s2.clone();
                apply_onto_second(arithmetic, x, &mut second[shift..]);
                check(arithmetic, "onto second", x, y, &second[shift..]);
                let mut itself = s1.clone();
                apply_to_itself(arithmetic, &mut itself[shift..]);
                check(arithmetic, "to itself", x, x, &itself[shift..]);
                if let (Ok(one), Ok(other)) = (x.try_into(), y.try_into())
                    && arithmetic.operator() != Operator::Copy
                {
                    let result = apply_to_one(arithmetic, one, other);
                    assert_eq!(result.is_some(), arithmetic.element().bytes() == 8, "{arithmetic:?}");
                    result.iter().for_each(|result| check(arithmetic, "one", x, y, result));
                }
            }
        }
    }
}

/// All pairs of half floats of one sign are too many: every first operand, and second ones from a fixed walk.
#[test]
fn half_floats_are_rounded_once() {
    for element in [ElementType::F16, ElementType::Bf16] {
        let bytes = |numbers: Vec<u16>| numbers.into_iter().flat_map(u16::to_ne_bytes).collect::<Vec<u8>>();
        let first = bytes((0..=u16::MAX).collect());
        for step in [1_u16, 40503, 60013] {
            let second = bytes((0..=u16::MAX).map(|bits| bits.wrapping_mul(step).rotate_left(3)).collect());
            for arithmetic in legal().filter(|legal| legal.element() == element) {
                let mut result = vec![0; first.len()];
                apply(arithmetic, &first, &second, &mut result);
                check(arithmetic, "apart", &first, &second, &result);
            }
        }
    }
}

#[test]
fn long_buffers_onto_themselves() {
    let add = Arithmetic::new(Operator::Add, ElementType::U64).unwrap();
    let numbers: Vec<u8> = (0..3000u64).flat_map(u64::to_ne_bytes).collect();
    let mut doubled = numbers.clone();
    apply_to_itself(add, &mut doubled);
    check(add, "to itself", &numbers, &numbers, &doubled);
}

#[test]
#[should_panic(expected = "as long as the result")]
fn buffers_of_different_lengths_are_a_mistake() {
    let add = Arithmetic::new(Operator::Add, ElementType::U8).unwrap();
    apply(add, &[1], &[1, 2], &mut [0]);
}
