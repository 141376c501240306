//! A model of the atomic operations, written from their definition (nic.md 11.2): what a NIC makes
//! of a value. The checks of atomic tools compare with it.

use super::operands::{Operands, initial_target, is_signed, ones};
use facts::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};

/// After as many operations, values and operands repeat with [`CYCLE`], except for MIN, MAX and
/// SUM: BOR and BAND go once over all bits.
const BEFORE_CYCLE: u64 = 64;

/// Number of operations after which values and operands repeat: they alternate or stay as they are.
const CYCLE: u64 = 2;

/// Returns the value of a target after `count` operations of a benchmark. Takes about as long for
/// any count: the operations may have lasted for hours, and a faulty peer may send any count.
pub fn target_after(atomic: Atomic, count: u64) -> u128 {
    match atomic.op {
        AtomicOp::Sum => sum_of_ones(atomic.ty, count),
        AtomicOp::Min | AtomicOp::Max => nth_value(atomic, count),
        _ if count <= BEFORE_CYCLE => applied_times(atomic, count),
        _ => applied_times(atomic, BEFORE_CYCLE + (count - BEFORE_CYCLE) % CYCLE),
    }
}

/// Applies `count` operations one after another.
pub fn applied_times(atomic: Atomic, count: u64) -> u128 {
    let (mut operands, mut target) = (Operands::new(atomic), initial_target(atomic));
    for _ in 0..count {
        target = applied(atomic, target, operands.first, operands.second);
        operands.advance();
    }
    target
}

/// Returns the target of SUM, which adds 1 each time. Floating-point sums end where the next number
/// is 2 larger.
fn sum_of_ones(ty: AtomicType, count: u64) -> u128 {
    let float = || u128::from((count.min(1 << f32::MANTISSA_DIGITS) as f32).to_bits());
    let double = || u128::from((count.min(1 << f64::MANTISSA_DIGITS) as f64).to_bits());
    match ty {
        AtomicType::Float => float(),
        AtomicType::FloatComplex => float() << 32 | float(),
        AtomicType::Double => double(),
        AtomicType::DoubleComplex => double() << 64 | double(),
        _ => u128::from(count) & ones(ty),
    }
}

/// Returns the target of MIN or MAX, which goes by one value each time from one end of the type to
/// the other.
fn nth_value(atomic: Atomic, count: u64) -> u128 {
    let (ty, count, initial) = (atomic.ty, u128::from(count), initial_target(atomic));
    let (bits, infinity) = match ty {
        AtomicType::Float => (32, f32::INFINITY.to_bits().into()),
        AtomicType::Double => (64, f64::INFINITY.to_bits().into()),
        _ => {
            let steps = count.min(ones(ty));
            let value = match atomic.op {
                AtomicOp::Min => initial.wrapping_sub(steps),
                _ => initial.wrapping_add(steps),
            };
            return value & ones(ty);
        }
    };
    // The magnitude falls to zero, where the sign changes, and rises to infinity.
    let sign = 1 << (bits - 1);
    let magnitude = initial & !sign;
    match (atomic.op, count.checked_sub(magnitude)) {
        (AtomicOp::Min, Some(beyond)) if beyond > 0 => sign | beyond.min(infinity),
        (AtomicOp::Max, Some(beyond)) if beyond > 0 => beyond.min(infinity),
        _ => initial - count,
    }
}

/// Returns the value of a target after one operation.
pub fn applied(atomic: Atomic, target: u128, first: u128, second: u128) -> u128 {
    match atomic.ty {
        AtomicType::Float => {
            let float = |bits: u128| f64::from(f32::from_bits(bits as u32));
            let result = real(atomic, float(target), float(first), float(second));
            (result as f32).to_bits().into()
        }
        AtomicType::Double => {
            let double = |bits: u128| f64::from_bits(bits as u64);
            let result = real(atomic, double(target), double(first), double(second));
            result.to_bits().into()
        }
        AtomicType::FloatComplex => {
            let parts =
                |bits: u128| [0, 32].map(|shift| f64::from(f32::from_bits((bits >> shift) as u32)));
            let result = complex(atomic, parts(target), parts(first), parts(second));
            let [re, im] = result.map(|part| u128::from((part as f32).to_bits()));
            im << 32 | re
        }
        AtomicType::DoubleComplex => {
            let parts = |bits: u128| [0, 64].map(|shift| f64::from_bits((bits >> shift) as u64));
            let result = complex(atomic, parts(target), parts(first), parts(second));
            let [re, im] = result.map(|part| u128::from(part.to_bits()));
            im << 64 | re
        }
        AtomicType::Uint128 => {
            if second == target {
                first
            } else {
                target
            }
        }
        ty => {
            let bits = 8 * ty.size() as u32;
            let value = |bits_of: u128| {
                if is_signed(ty) {
                    (bits_of as i128) << (128 - bits) >> (128 - bits)
                } else {
                    bits_of as i128
                }
            };
            let result = integer(atomic, value(target), value(first), value(second));
            result as u128 & ones(ty)
        }
    }
}

fn holds<T: PartialOrd>(cswap: CswapOp, second: T, target: T) -> bool {
    match cswap {
        CswapOp::Eq => second == target,
        CswapOp::Ne => second != target,
        CswapOp::Le => second <= target,
        CswapOp::Lt => second < target,
        CswapOp::Ge => second >= target,
        CswapOp::Gt => second > target,
    }
}

fn integer(atomic: Atomic, t: i128, a: i128, b: i128) -> i128 {
    match atomic.op {
        AtomicOp::Min => t.min(a),
        AtomicOp::Max => t.max(a),
        AtomicOp::Sum => t + a,
        AtomicOp::Lor => (t != 0 || a != 0).into(),
        AtomicOp::Land => (t != 0 && a != 0).into(),
        AtomicOp::Bor => t | a,
        AtomicOp::Band => t & a,
        AtomicOp::Lxor => ((t != 0) != (a != 0)).into(),
        AtomicOp::Bxor => t ^ a,
        AtomicOp::Swap => a,
        AtomicOp::Cswap if holds(atomic.cswap, b, t) => a,
        AtomicOp::Cswap => t,
        AtomicOp::Axor => (t & !b) ^ a,
    }
}

fn real(atomic: Atomic, t: f64, a: f64, b: f64) -> f64 {
    match atomic.op {
        AtomicOp::Min => t.min(a),
        AtomicOp::Max => t.max(a),
        AtomicOp::Sum => t + a,
        AtomicOp::Cswap if !holds(atomic.cswap, b, t) => t,
        _ => a,
    }
}

fn complex(atomic: Atomic, t: [f64; 2], a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    match atomic.op {
        AtomicOp::Sum => [t[0] + a[0], t[1] + a[1]],
        AtomicOp::Cswap if (b == t) != (atomic.cswap == CswapOp::Eq) => t,
        _ => a,
    }
}
