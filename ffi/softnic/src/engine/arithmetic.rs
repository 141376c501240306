//! The arithmetic of atomic operations (nic.md 11), as pure functions of bits.
//!
//! Values of all types are the low bits of a `u128`, as in memory and in commands. The real part of
//! a complex number is below the imaginary part.
//!
//! Decisions where nic.md is open (11.5; 15, questions 19 and 20):
//!
//! * Floating point is IEEE 754 with round to nearest even, and denormals are numbers.
//! * MIN and MAX are minimumNumber and maximumNumber of IEEE 754-2019: of a number and a NaN the
//!   result is the number, and -0 is less than +0. Of two NaNs the result is the target's, made
//!   quiet.
//! * A sum with a NaN is that NaN made quiet, the target's if both are; the sum of opposite
//!   infinities is the positive quiet NaN without payload. CPUs differ in both.
//! * CSWAP compares numerically: -0 equals +0, and a NaN is unequal to everything, itself included.
//! * SWAP, and CSWAP if it writes, store the operand unchanged, signaling NaNs included.
//! * AXOR combines by exclusive or.

use std::cmp::Ordering;

use cxi_sys::*;

/// An atomic operation by the numbers of its command (nic.md 11), valid or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amo {
    /// `C_AMO_OP_*`, 4 bits.
    pub op: u8,
    /// `C_AMO_TYPE_*`, 4 bits.
    pub kind: u8,
    /// `C_AMO_OP_CSWAP_*`, 3 bits.
    pub comparison: u8,
    /// The initiator gets the previous value.
    pub fetching: bool,
}

impl Amo {
    /// Packs the numbers for a packet.
    pub fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.op, self.kind, self.comparison, self.fetching.into()])
    }

    /// Unpacks what `to_bits` packed.
    pub fn from_bits(bits: u32) -> Self {
        let [op, kind, comparison, fetching] = bits.to_le_bytes();
        Self { op, kind, comparison, fetching: fetching != 0 }
    }
}

/// The bytes of an element; `None` for an unknown type.
pub fn size(kind: u8) -> Option<u32> {
    Some(match u32::from(kind) {
        C_AMO_TYPE_INT8_T | C_AMO_TYPE_UINT8_T => 1,
        C_AMO_TYPE_INT16_T | C_AMO_TYPE_UINT16_T => 2,
        C_AMO_TYPE_INT32_T | C_AMO_TYPE_UINT32_T | C_AMO_TYPE_FLOAT_T => 4,
        C_AMO_TYPE_INT64_T
        | C_AMO_TYPE_UINT64_T
        | C_AMO_TYPE_FLOAT_COMPLEX_T
        | C_AMO_TYPE_DOUBLE_T => 8,
        C_AMO_TYPE_DOUBLE_COMPLEX_T | C_AMO_TYPE_UINT128_T => 16,
        _ => return None,
    })
}

/// Whether an operation has a second operand.
pub fn takes_two_operands(op: u8) -> bool {
    matches!(u32::from(op), C_AMO_OP_CSWAP | C_AMO_OP_AXOR)
}

/// Whether the combination is valid (nic.md 11.3). Only CSWAP has a comparison.
pub fn is_valid(amo: Amo) -> bool {
    let equality = matches!(u32::from(amo.comparison), C_AMO_OP_CSWAP_EQ | C_AMO_OP_CSWAP_NE);
    let compares = u32::from(amo.comparison) <= C_AMO_OP_CSWAP_GT;
    let op = u32::from(amo.op);
    match u32::from(amo.kind) {
        C_AMO_TYPE_INT8_T..=C_AMO_TYPE_UINT64_T => match op {
            C_AMO_OP_CSWAP => compares,
            C_AMO_OP_MIN..=C_AMO_OP_SUM | C_AMO_OP_LOR..=C_AMO_OP_AXOR => true,
            _ => false,
        },
        C_AMO_TYPE_FLOAT_T | C_AMO_TYPE_DOUBLE_T => match op {
            C_AMO_OP_CSWAP => compares,
            _ => matches!(op, C_AMO_OP_MIN | C_AMO_OP_MAX | C_AMO_OP_SUM | C_AMO_OP_SWAP),
        },
        C_AMO_TYPE_FLOAT_COMPLEX_T | C_AMO_TYPE_DOUBLE_COMPLEX_T => match op {
            C_AMO_OP_CSWAP => equality,
            _ => matches!(op, C_AMO_OP_SUM | C_AMO_OP_SWAP),
        },
        C_AMO_TYPE_UINT128_T => {
            op == C_AMO_OP_CSWAP && u32::from(amo.comparison) == C_AMO_OP_CSWAP_EQ
        }
        _ => false,
    }
}

/// Floating point exceptions. Underflow cannot occur: a sum too small for a normal number is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    pub invalid: bool,
    pub overflow: bool,
    pub inexact: bool,
}

impl Exceptions {
    const NONE: Self = Self { invalid: false, overflow: false, inexact: false };

    fn invalid(invalid: bool) -> Self {
        Self { invalid, ..Self::NONE }
    }

    fn or(self, other: Self) -> Self {
        Self {
            invalid: self.invalid || other.invalid,
            overflow: self.overflow || other.overflow,
            inexact: self.inexact || other.inexact,
        }
    }
}

/// The new value of `target` for a valid combination and operands 1 and 2. Bits of the operands
/// beyond the element are ignored.
pub fn execute(amo: Amo, target: u128, first: u128, second: u128) -> (u128, Exceptions) {
    let bits = 8 * size(amo.kind).unwrap_or(16);
    let mask = u128::MAX >> (128 - bits);
    let (first, second) = (first & mask, second & mask);
    let op = u32::from(amo.op);
    let cswap = |order| {
        if holds(u32::from(amo.comparison), order) { first } else { target }
    };
    let (value, exceptions) = match (u32::from(amo.kind), op) {
        (_, C_AMO_OP_SWAP) => (first, Exceptions::NONE),
        (C_AMO_TYPE_FLOAT_COMPLEX_T | C_AMO_TYPE_DOUBLE_COMPLEX_T, _) => {
            let half = Format { bits: bits / 2 };
            let parts = |value: u128| (half.low(value), half.low(value >> half.bits));
            let ((t, u), (a, b), (c, d)) = (parts(target), parts(first), parts(second));
            if op == C_AMO_OP_SUM {
                let ((real, e), (imaginary, f)) = (half.add(t, a), half.add(u, b));
                let value = u128::from(real) | u128::from(imaginary) << half.bits;
                (value, e.or(f))
            } else {
                let ((real, e), (imaginary, f)) = (half.compare(c, t), half.compare(d, u));
                let equal = real == Some(Ordering::Equal) && imaginary == Some(Ordering::Equal);
                (cswap(equal.then_some(Ordering::Equal)), e.or(f))
            }
        }
        (C_AMO_TYPE_FLOAT_T | C_AMO_TYPE_DOUBLE_T, _) => {
            let format = Format { bits };
            let (t, a) = (target as u64, first as u64);
            match op {
                C_AMO_OP_MIN => wide(format.choose(t, a, Ordering::Less)),
                C_AMO_OP_MAX => wide(format.choose(t, a, Ordering::Greater)),
                C_AMO_OP_SUM => wide(format.add(t, a)),
                _ => {
                    let (order, signaling) = format.compare(second as u64, t);
                    let ordered =
                        !matches!(u32::from(amo.comparison), C_AMO_OP_CSWAP_EQ | C_AMO_OP_CSWAP_NE);
                    // An ordered comparison with a NaN is invalid, even if the NaN is quiet.
                    let unordered = Exceptions::invalid(ordered && order.is_none());
                    (cswap(order), signaling.or(unordered))
                }
            }
        }
        _ => (execute_integer(amo, bits, target, first, second), Exceptions::NONE),
    };
    (value, exceptions)
}

/// Computes an operation on integers of `bits` bits, but not a swap. The operands have no other
/// bits.
fn execute_integer(amo: Amo, bits: u32, target: u128, first: u128, second: u128) -> u128 {
    let signed = matches!(
        u32::from(amo.kind),
        C_AMO_TYPE_INT8_T | C_AMO_TYPE_INT16_T | C_AMO_TYPE_INT32_T | C_AMO_TYPE_INT64_T
    );
    // Moves the sign bit to the top.
    let extend = |value: u128| (value << (128 - bits)) as i128;
    let order = |x: u128, y: u128| {
        if signed { extend(x).cmp(&extend(y)) } else { x.cmp(&y) }
    };
    let truth = u128::from;
    match u32::from(amo.op) {
        C_AMO_OP_MIN if order(first, target).is_lt() => first,
        C_AMO_OP_MAX if order(first, target).is_gt() => first,
        C_AMO_OP_MIN | C_AMO_OP_MAX => target,
        C_AMO_OP_SUM => target.wrapping_add(first) & (u128::MAX >> (128 - bits)),
        C_AMO_OP_LOR => truth(target != 0 || first != 0),
        C_AMO_OP_LAND => truth(target != 0 && first != 0),
        C_AMO_OP_LXOR => truth((target != 0) != (first != 0)),
        C_AMO_OP_BOR => target | first,
        C_AMO_OP_BAND => target & first,
        C_AMO_OP_BXOR => target ^ first,
        C_AMO_OP_AXOR => (target & !second) ^ first,
        _ if holds(u32::from(amo.comparison), Some(order(second, target))) => first,
        _ => target,
    }
}

fn wide((value, exceptions): (u64, Exceptions)) -> (u128, Exceptions) {
    (value.into(), exceptions)
}

/// Whether `comparison` holds between operand 2 and the target, whose order is `order`; `None` is
/// unordered.
fn holds(comparison: u32, order: Option<Ordering>) -> bool {
    let is = |test: fn(Ordering) -> bool| order.is_some_and(test);
    match comparison {
        C_AMO_OP_CSWAP_EQ => is(Ordering::is_eq),
        C_AMO_OP_CSWAP_NE => !is(Ordering::is_eq),
        C_AMO_OP_CSWAP_LE => is(Ordering::is_le),
        C_AMO_OP_CSWAP_LT => is(Ordering::is_lt),
        C_AMO_OP_CSWAP_GE => is(Ordering::is_ge),
        _ => is(Ordering::is_gt),
    }
}

/// A binary floating point format of 32 or 64 bits.
#[derive(Clone, Copy)]
struct Format {
    bits: u32,
}

impl Format {
    /// The value in the low bits.
    fn low(self, value: u128) -> u64 {
        value as u64 & (u64::MAX >> (64 - self.bits))
    }

    /// The bit that makes a NaN quiet.
    fn quiet(self) -> u64 {
        match self.bits {
            32 => 1 << 22,
            _ => 1 << 51,
        }
    }

    /// The value in the wider format, which represents all values of the narrower one.
    fn number(self, value: u64) -> f64 {
        match self.bits {
            32 => f32::from_bits(value as u32).into(),
            _ => f64::from_bits(value),
        }
    }

    fn is_signaling(self, value: u64) -> bool {
        self.number(value).is_nan() && value & self.quiet() == 0
    }

    fn any_signaling(self, x: u64, y: u64) -> Exceptions {
        Exceptions::invalid(self.is_signaling(x) || self.is_signaling(y))
    }

    /// The order of `x` and `y`; `None` if one is a NaN.
    fn compare(self, x: u64, y: u64) -> (Option<Ordering>, Exceptions) {
        let order = self.number(x).partial_cmp(&self.number(y));
        (order, self.any_signaling(x, y))
    }

    /// The minimum or the maximum: the number that is `wanted` (less or greater) than the other.
    fn choose(self, target: u64, operand: u64, wanted: Ordering) -> (u64, Exceptions) {
        let (t, a) = (self.number(target), self.number(operand));
        let value = match (t.is_nan(), a.is_nan()) {
            (true, true) => target | self.quiet(),
            (true, false) => operand,
            (false, true) => target,
            // The total order of numbers is the numeric order, with -0 below +0.
            (false, false) if a.total_cmp(&t) == wanted => operand,
            (false, false) => target,
        };
        (value, self.any_signaling(target, operand))
    }

    fn add(self, target: u64, operand: u64) -> (u64, Exceptions) {
        let (t, a) = (self.number(target), self.number(operand));
        for (number, value) in [(t, target), (a, operand)] {
            if number.is_nan() {
                return (value | self.quiet(), self.any_signaling(target, operand));
            }
        }
        let (sum, exact) = match self.bits {
            32 => {
                let (sum, exact) = add_single(t as f32, a as f32);
                (u64::from(sum.to_bits()), exact)
            }
            _ => {
                let (sum, exact) = add_double(t, a);
                (sum.to_bits(), exact)
            }
        };
        let result = self.number(sum);
        if result.is_nan() {
            let exponent = match self.bits {
                32 => 0xff << 23,
                _ => 0x7ff << 52,
            };
            return (exponent | self.quiet(), Exceptions::invalid(true));
        }
        let finite = t.is_finite() && a.is_finite();
        let overflow = finite && result.is_infinite();
        let exceptions =
            Exceptions { invalid: false, overflow, inexact: overflow || (finite && !exact) };
        (sum, exceptions)
    }
}

macro_rules! two_sum {
    ($name:ident, $float:ident) => {
        /// The sum, and whether a finite sum is exact, by Knuth's TwoSum.
        fn $name(x: $float, y: $float) -> ($float, bool) {
            let sum = x + y;
            let y_used = sum - x;
            let x_used = sum - y_used;
            let error = (x - x_used) + (y - y_used);
            (sum, error == 0.0)
        }
    };
}
two_sum!(add_single, f32);
two_sum!(add_double, f64);

#[cfg(test)]
#[path = "../../tests/model/atomics.rs"]
mod model;

/// Compares the arithmetic with literal values, and with an independent model.
#[cfg(test)]
mod tests {
    use super::*;

    use super::model::{Random, TYPES, model};

    fn amo(op: u32, kind: u32, comparison: u32) -> Amo {
        Amo { op: op as u8, kind: kind as u8, comparison: comparison as u8, fetching: false }
    }

    #[test]
    fn accepts_combinations_of_the_specification() {
        // MIN MAX SUM - LOR LAND BOR BAND LXOR BXOR SWAP CSWAP AXOR, and three unknown numbers. For
        // CSWAP the number of comparisons, in the order EQ NE LE LT GE GT.
        let all = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 6, 1, 0, 0, 0];
        let real = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0];
        let complex = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0];
        let wide = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let none = [0; 16];
        let rows = [
            all, all, all, all, all, all, all, all, real, complex, real, complex, wide, none, none,
            none,
        ];
        for (kind, row) in rows.into_iter().enumerate() {
            for (op, count) in row.into_iter().enumerate() {
                for comparison in 0..8 {
                    let valid = match op as u32 {
                        C_AMO_OP_CSWAP => comparison < count,
                        _ => count == 1,
                    };
                    let amo = amo(op as u32, kind as u32, comparison);
                    assert_eq!(is_valid(amo), valid, "{amo:?}");
                    let modelled = model(amo.op, amo.kind, amo.comparison, 0, 0, 0);
                    assert_eq!(modelled.is_some(), valid, "{amo:?}");
                }
            }
        }
    }

    #[test]
    fn knows_size_of_each_type() {
        for kind in 0..16 {
            let expected = TYPES.get(kind).map(|(_, bytes)| *bytes as u32);
            assert_eq!(size(kind as u8), expected, "type {kind}");
        }
    }

    #[test]
    fn agrees_with_model_for_every_combination() {
        let mut random = Random(1);
        for (kind, (name, bytes)) in TYPES.into_iter().enumerate() {
            let mask = u128::MAX >> (128 - 8 * bytes);
            for op in 0..16 {
                for comparison in 0..6 {
                    let amo = amo(op, kind as u32, comparison);
                    if !is_valid(amo) {
                        continue;
                    }
                    for _ in 0..2000 {
                        let kind = kind as u8;
                        let target = random.operand(kind) & mask;
                        let first = random.operand(kind);
                        // Often equal to the target, which is rare among random values.
                        let second = match random.below(3) {
                            0 => target | random.operand(kind) & !mask,
                            _ => random.operand(kind),
                        };
                        let (value, _) = execute(amo, target, first, second);
                        let [a, b] = [first, second].map(|operand| operand & mask);
                        let expected = model(amo.op, kind, amo.comparison, target, a, b);
                        assert_eq!(
                            Some(value),
                            expected,
                            "{name} {amo:?} {target:#x} {first:#x} {second:#x}"
                        );
                    }
                }
            }
        }
    }

    /// MIN, MAX and SUM of floats, where nic.md is open.
    #[test]
    fn orders_nans_and_zeros() {
        let bits = |value: f32| u128::from(value.to_bits());
        let (zero, minus_zero, one) = (bits(0.0), bits(-0.0), bits(1.0));
        let (quiet, other_quiet, signaling, infinity) =
            (0x7fc0_0005, 0xffc0_0001, 0xff80_0001, bits(f32::INFINITY));
        for (op, target, operand, expected) in [
            (C_AMO_OP_MIN, zero, minus_zero, minus_zero),
            (C_AMO_OP_MIN, minus_zero, zero, minus_zero),
            (C_AMO_OP_MAX, zero, minus_zero, zero),
            (C_AMO_OP_MAX, minus_zero, zero, zero),
            (C_AMO_OP_MIN, quiet, one, one),
            (C_AMO_OP_MIN, one, quiet, one),
            (C_AMO_OP_MAX, signaling, one, one),
            (C_AMO_OP_MAX, one, signaling, one),
            (C_AMO_OP_MAX, quiet, other_quiet, quiet),
            (C_AMO_OP_MIN, signaling, quiet, 0xffc0_0001),
            (C_AMO_OP_MIN, bits(-1.5), bits(-2.5), bits(-2.5)),
            (C_AMO_OP_MAX, bits(-1.5), bits(-2.5), bits(-1.5)),
            (C_AMO_OP_SUM, quiet, other_quiet, quiet),
            (C_AMO_OP_SUM, one, other_quiet, other_quiet),
            (C_AMO_OP_SUM, one, signaling, 0xffc0_0001),
            (C_AMO_OP_SUM, infinity, bits(f32::NEG_INFINITY), 0x7fc0_0000),
            (C_AMO_OP_SUM, minus_zero, minus_zero, minus_zero),
            (C_AMO_OP_SUM, minus_zero, zero, zero),
            (C_AMO_OP_SUM, 1, 1, 2), // denormals
            (C_AMO_OP_SWAP, one, signaling, signaling),
        ] {
            let (value, _) = execute(amo(op, C_AMO_TYPE_FLOAT_T, 0), target, operand, 0);
            assert_eq!(value, expected, "op {op}: {target:#x} {operand:#x}");
        }
    }

    /// Rounding to nearest, ties to even, in the precision of the element.
    #[test]
    fn rounds_sums_in_precision_of_element() {
        let sum = |kind, t, a| execute(amo(C_AMO_OP_SUM, kind, 0), t, a, 0).0;
        let single = |value: f32| u128::from(value.to_bits());
        let half_ulp = single(f32::EPSILON / 2.0);
        assert_eq!(sum(C_AMO_TYPE_FLOAT_T, single(1.0), half_ulp), single(1.0));
        let odd = 1.0 + f32::EPSILON;
        let even = single(1.0 + 2.0 * f32::EPSILON);
        assert_eq!(sum(C_AMO_TYPE_FLOAT_T, single(odd), half_ulp), even);
        let double = |value: f64| u128::from(value.to_bits());
        let small = double(f64::EPSILON);
        let expected = double(1.0 + f64::EPSILON);
        assert_eq!(sum(C_AMO_TYPE_DOUBLE_T, double(1.0), small), expected);
    }

    /// The sign of a comparison, by numbers from nic.md 11.2: operand 2 99 and 101, target 100.
    #[test]
    fn compares_operand_two_with_target() {
        for (comparison, below, above) in [
            (C_AMO_OP_CSWAP_EQ, false, false),
            (C_AMO_OP_CSWAP_NE, true, true),
            (C_AMO_OP_CSWAP_LE, true, false),
            (C_AMO_OP_CSWAP_LT, true, false),
            (C_AMO_OP_CSWAP_GE, false, true),
            (C_AMO_OP_CSWAP_GT, false, true),
        ] {
            let amo = amo(C_AMO_OP_CSWAP, C_AMO_TYPE_INT16_T, comparison);
            for (operand, writes) in [(99, below), (101, above)] {
                let expected = if writes { 7 } else { 100 };
                assert_eq!(execute(amo, 100, 7, operand).0, expected, "{amo:?}");
            }
        }
    }

    #[test]
    fn axor_follows_example_of_specification() {
        let mask = 0xf0f0_f0f0;
        let amo = amo(C_AMO_OP_AXOR, C_AMO_TYPE_UINT32_T, 0);
        let (value, _) = execute(amo, 0x1111_1111, 0xaaaa_aaaa & mask, mask);
        assert_eq!(value, 0xa1a1_a1a1);
        // Exclusive or; an inclusive or would give 0x7.
        assert_eq!(execute(amo, 0x5, 0x6, 0).0, 0x3);
    }

    #[test]
    fn raises_exceptions() {
        let none = Exceptions::default();
        let invalid = Exceptions { invalid: true, ..none };
        let inexact = Exceptions { inexact: true, ..none };
        let overflow = Exceptions { overflow: true, ..inexact };
        let (quiet, signaling) = (0x7fc0_0000, 0x7f80_0001);
        let bits = |value: f32| u128::from(value.to_bits());
        let (one, max) = (bits(1.0), bits(f32::MAX));
        let (infinity, minus_infinity) = (bits(f32::INFINITY), bits(f32::NEG_INFINITY));
        let sum = (C_AMO_OP_SUM, 0);
        let cswap = |comparison| (C_AMO_OP_CSWAP, comparison);
        for ((op, comparison), target, first, second, expected) in [
            (sum, one, one, 0, none),
            (sum, one, bits(f32::EPSILON / 4.0), 0, inexact),
            (sum, bits(f32::EPSILON / 4.0), one, 0, inexact),
            (sum, 1, 1, 0, none),
            (sum, max, max, 0, overflow),
            (sum, max, infinity, 0, none),
            (sum, infinity, minus_infinity, 0, invalid),
            (sum, one, quiet, 0, none),
            (sum, one, signaling, 0, invalid),
            (sum, quiet, signaling, 0, invalid),
            ((C_AMO_OP_MIN, 0), one, quiet, 0, none),
            ((C_AMO_OP_MIN, 0), one, signaling, 0, invalid),
            ((C_AMO_OP_MAX, 0), signaling, one, 0, invalid),
            (cswap(C_AMO_OP_CSWAP_EQ), one, 0, quiet, none),
            (cswap(C_AMO_OP_CSWAP_NE), one, 0, signaling, invalid),
            (cswap(C_AMO_OP_CSWAP_GE), one, 0, quiet, invalid),
            (cswap(C_AMO_OP_CSWAP_LT), quiet, 0, one, invalid),
            (cswap(C_AMO_OP_CSWAP_LT), one, signaling, one, none),
            ((C_AMO_OP_SWAP, 0), signaling, signaling, 0, none),
        ] {
            let amo = amo(op, C_AMO_TYPE_FLOAT_T, comparison);
            let (_, raised) = execute(amo, target, first, second);
            assert_eq!(raised, expected, "{amo:?} {target:#x} {first:#x} {second:#x}");
        }
        // Either part of a complex number can raise an exception.
        let both = |real: f32, imaginary: f32| bits(real) | bits(imaginary) << 32;
        let amo = amo(C_AMO_OP_SUM, C_AMO_TYPE_FLOAT_COMPLEX_T, 0);
        let (value, raised) = execute(amo, both(1.0, f32::MAX), both(2.0, f32::MAX), 0);
        assert_eq!((value, raised), (both(3.0, f32::INFINITY), overflow));
    }
}
