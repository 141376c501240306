//! What atomic operations compute (nic.md 11). Pure functions of bits.
//!
//! Values of all types are the low bits of a `u128`, as they lie in memory and in commands;
//! of a complex number the real part is below the imaginary one.
//!
//! What nic.md leaves open (11.5; 15, questions 19 and 20), decided here:
//!
//! * Floating point is IEEE 754 with round to nearest even, and denormals are numbers.
//! * MIN and MAX are minimumNumber and maximumNumber of IEEE 754-2019: a number wins over a NaN,
//!   and -0 is less than +0. Of two NaNs the target's stays, made quiet.
//! * A sum with a NaN is that NaN made quiet, the target's if both are; the sum of opposite infinities
//!   is the positive quiet NaN without payload. CPUs differ in both.
//! * CSWAP compares numerically: -0 equals +0, and a NaN is unequal to everything, itself included.
//! * SWAP and a CSWAP that writes move bits, and change none, not even those of a signaling NaN.
//! * AXOR combines by exclusive or.

use std::cmp::Ordering;

use cxi_sys::*;

use super::packet::Amo;

/// Bytes of an element; `None` for a number that stands for no type.
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

/// Whether the combination exists (nic.md 11.3). The comparison matters to CSWAP only.
pub fn is_valid(amo: Amo) -> bool {
    let equality = matches!(
        u32::from(amo.comparison),
        C_AMO_OP_CSWAP_EQ | C_AMO_OP_CSWAP_NE
    );
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
            _ => matches!(
                op,
                C_AMO_OP_MIN | C_AMO_OP_MAX | C_AMO_OP_SUM | C_AMO_OP_SWAP
            ),
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

/// Exceptions of floating point. Underflow cannot happen: a sum too small for a normal number
/// is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    pub invalid: bool,
    pub overflow: bool,
    pub inexact: bool,
}

impl Exceptions {
    const NONE: Self = Self {
        invalid: false,
        overflow: false,
        inexact: false,
    };

    fn invalid(invalid: bool) -> Self {
        Self {
            invalid,
            ..Self::NONE
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            invalid: self.invalid || other.invalid,
            overflow: self.overflow || other.overflow,
            inexact: self.inexact || other.inexact,
        }
    }
}

/// The new value of `target`, for a valid combination, given operands 1 and 2. Bits of the operands
/// beyond the element are ignored.
pub fn execute(amo: Amo, target: u128, first: u128, second: u128) -> (u128, Exceptions) {
    let bits = 8 * size(amo.kind).unwrap_or(16);
    let mask = u128::MAX >> (128 - bits);
    let (first, second) = (first & mask, second & mask);
    let op = u32::from(amo.op);
    let cswap = |order| match holds(u32::from(amo.comparison), order) {
        true => first,
        false => target,
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
                    let ordered = !matches!(
                        u32::from(amo.comparison),
                        C_AMO_OP_CSWAP_EQ | C_AMO_OP_CSWAP_NE
                    );
                    // To ask for the order of what has none is invalid, even of quiet NaNs.
                    let unordered = Exceptions::invalid(ordered && order.is_none());
                    (cswap(order), signaling.or(unordered))
                }
            }
        }
        (kind, _) => {
            let signed = matches!(
                kind,
                C_AMO_TYPE_INT8_T | C_AMO_TYPE_INT16_T | C_AMO_TYPE_INT32_T | C_AMO_TYPE_INT64_T
            );
            // Moves the sign to the top, where it counts as such.
            let extend = |value: u128| (value << (128 - bits)) as i128;
            let order = |x: u128, y: u128| match signed {
                true => extend(x).cmp(&extend(y)),
                false => x.cmp(&y),
            };
            let truth = u128::from;
            let value = match op {
                C_AMO_OP_MIN if order(first, target).is_lt() => first,
                C_AMO_OP_MAX if order(first, target).is_gt() => first,
                C_AMO_OP_MIN | C_AMO_OP_MAX => target,
                C_AMO_OP_SUM => target.wrapping_add(first) & mask,
                C_AMO_OP_LOR => truth(target != 0 || first != 0),
                C_AMO_OP_LAND => truth(target != 0 && first != 0),
                C_AMO_OP_LXOR => truth((target != 0) != (first != 0)),
                C_AMO_OP_BOR => target | first,
                C_AMO_OP_BAND => target & first,
                C_AMO_OP_BXOR => target ^ first,
                C_AMO_OP_AXOR => (target & !second) ^ first,
                _ => cswap(Some(order(second, target))),
            };
            (value, Exceptions::NONE)
        }
    };
    (value, exceptions)
}

fn wide((value, exceptions): (u64, Exceptions)) -> (u128, Exceptions) {
    (value.into(), exceptions)
}

/// Whether operand 2 stands in the relation `comparison` to the target, if it stands in `order` to it.
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

    /// The value as a number of the wider format, which holds every one of the narrower.
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

    /// How `x` compares with `y`: not at all if one is a NaN.
    fn compare(self, x: u64, y: u64) -> (Option<Ordering>, Exceptions) {
        let order = self.number(x).partial_cmp(&self.number(y));
        (order, self.any_signaling(x, y))
    }

    /// The one of the two numbers that is `wanted` (less or greater) than the other.
    fn choose(self, target: u64, operand: u64, wanted: Ordering) -> (u64, Exceptions) {
        let (t, a) = (self.number(target), self.number(operand));
        let value = match (t.is_nan(), a.is_nan()) {
            (true, true) => target | self.quiet(),
            (true, false) => operand,
            (false, true) => target,
            // Among numbers the total order is the numeric one, with -0 below +0.
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
        let exceptions = Exceptions {
            invalid: false,
            overflow,
            inexact: overflow || (finite && !exact),
        };
        (sum, exceptions)
    }
}

macro_rules! two_sum {
    ($name:ident, $float:ident) => {
        /// The sum, and whether it is exact, which Knuth's TwoSum tells for finite sums.
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
#[path = "arithmetic_tests.rs"]
mod tests;
