//! The effect of a NIC on the target of an atomic tool. The checks of these tools compare with it.

use super::operands::{Operands, initial_target};
use facts::atomic::{Atomic, AtomicOp, AtomicType, applied, ones};

/// After as many operations, values and operands repeat with [`CYCLE`], except for MIN, MAX and
/// SUM: BOR and BAND go once over all bits.
const BEFORE_CYCLE: u64 = 64;

/// Number of operations after which values and operands repeat: they alternate or stay as they are.
const CYCLE: u64 = 2;

/// The value of a target after `count` operations of a benchmark. Takes about as long for any
/// count: the operations may have lasted for hours, and a faulty peer may send any count.
pub fn target_after(atomic: Atomic, count: u64) -> u128 {
    match atomic.op {
        AtomicOp::Sum => sum_of_ones(atomic.ty, count),
        AtomicOp::Min | AtomicOp::Max => nth_value(atomic, count),
        _ if count <= BEFORE_CYCLE => applied_times(atomic, count),
        _ => applied_times(atomic, BEFORE_CYCLE + (count - BEFORE_CYCLE) % CYCLE),
    }
}

/// The value of a target after `count` operations of a benchmark that the target's NIC executes as
/// additions (nic.md 11.3); `None` if no NIC does. Takes about as long for any count.
pub fn target_after_additions(atomic: Atomic, count: u64) -> Option<u128> {
    if !atomic.is_fetch_add(atomic.op as i32) {
        return None;
    }
    let added = |count: u64| {
        let mut operands = Operands::new(atomic);
        (0..count).fold(initial_target(atomic), |sum, _| {
            let sum = sum.wrapping_add(operands.first);
            operands.advance();
            sum
        })
    };
    let sum = match atomic.op {
        AtomicOp::Min | AtomicOp::Max => {
            // Each operand is by 1 below or above the one before it.
            let (first, count) = (Operands::new(atomic).first, u128::from(count));
            let operands = count.wrapping_mul(first);
            let steps = count * count.saturating_sub(1) / 2;
            let sum = initial_target(atomic).wrapping_add(operands);
            match atomic.op {
                AtomicOp::Min => sum.wrapping_sub(steps),
                _ => sum.wrapping_add(steps),
            }
        }
        _ if count <= BEFORE_CYCLE => added(count),
        _ => {
            let cycles = u128::from((count - BEFORE_CYCLE) / CYCLE);
            let cycle = added(BEFORE_CYCLE + CYCLE).wrapping_sub(added(BEFORE_CYCLE));
            let rest = added(BEFORE_CYCLE + (count - BEFORE_CYCLE) % CYCLE);
            rest.wrapping_add(cycles.wrapping_mul(cycle))
        }
    };
    Some(sum & ones(atomic.ty))
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

/// The target of SUM, which adds 1 each time. Floating-point sums end where the next number is 2
/// larger.
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

/// The target of MIN or MAX, which goes by one value each time from one end of the type to the
/// other.
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
