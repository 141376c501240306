//! Operands of the atomic benchmarks, chosen so that each operation changes the target as long as
//! operation and type permit it (tools.md 8.3, without its defects T9 to T12); and the effect of a
//! NIC on the target, with which the checks of these tools compare.
//!
//! A value has the form of the NIC's memory and commands (nic.md 11.4): the low-order bytes of two
//! little-endian words, the low half first.

use facts::atomic::{Atomic, AtomicOp, AtomicType, CswapOp, applied, is_signed, ones};

/// Both operands of the next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    atomic: Atomic,
    /// Operand 1.
    pub first: u128,
    /// Operand 2, of CSWAP and AXOR.
    pub second: u128,
}

impl Operands {
    /// The operands of the first operation.
    pub fn new(atomic: Atomic) -> Self {
        use AtomicOp::{Axor, Band, Cswap, Land, Max, Min};
        use CswapOp::{Eq, Ge, Gt, Le, Lt, Ne};
        let ty = atomic.ty;
        let first = match atomic.op {
            Min => below(ty, greatest(ty)),
            Max => above(ty, least(ty)),
            Land => number(ty, 0),
            Band => ones(ty) - 1,
            _ => number(ty, 1),
        };
        let second = match (atomic.op, atomic.cswap) {
            (Axor, _) => number(ty, 1),
            (Cswap, Eq | Le | Ge) => number(ty, 2),
            (Cswap, Ne | Gt) => number(ty, 3),
            (Cswap, Lt) => number(ty, 0),
            _ => 0,
        };
        Self { atomic, first, second }
    }

    /// Advances to the operands of the next operation.
    #[inline]
    pub fn advance(&mut self) {
        let ty = self.atomic.ty;
        match self.atomic.op {
            AtomicOp::Min => self.first = below(ty, self.first),
            AtomicOp::Max => self.first = above(ty, self.first),
            AtomicOp::Bor | AtomicOp::Band => self.first = self.first << 1 & ones(ty),
            AtomicOp::Swap => self.first = alternate(ty, self.first),
            AtomicOp::Axor => self.second = alternate(ty, self.second),
            AtomicOp::Cswap => {
                self.first = alternate(ty, self.first);
                // The value of the target: the previous operation has swapped it in.
                if matches!(self.atomic.cswap, CswapOp::Eq | CswapOp::Le | CswapOp::Ge) {
                    self.second = alternate(ty, self.second);
                }
            }
            _ => {}
        }
    }
}

/// The value of the target before the first operation.
pub fn initial_target(atomic: Atomic) -> u128 {
    use CswapOp::{Eq, Ge, Le, Lt};
    let ty = atomic.ty;
    match (atomic.op, atomic.cswap) {
        (AtomicOp::Min, _) => greatest(ty),
        (AtomicOp::Max, _) => least(ty),
        (AtomicOp::Land, _) => number(ty, 1),
        (AtomicOp::Band, _) => ones(ty),
        (AtomicOp::Cswap, Eq | Le | Ge) => number(ty, 2),
        (AtomicOp::Cswap, Lt) => number(ty, 3),
        _ => number(ty, 0),
    }
}

/// A small number, in both parts of a complex type.
fn number(ty: AtomicType, value: u8) -> u128 {
    let twice = |part: u128, bits: u32| part << bits | part;
    match ty {
        AtomicType::Float => f32::from(value).to_bits().into(),
        AtomicType::FloatComplex => twice(f32::from(value).to_bits().into(), 32),
        AtomicType::Double => f64::from(value).to_bits().into(),
        AtomicType::DoubleComplex => twice(f64::from(value).to_bits().into(), 64),
        AtomicType::Uint128 => twice(value.into(), 64),
        _ => value.into(),
    }
}

/// 1 for 2, and 2 for 1.
fn alternate(ty: AtomicType, value: u128) -> u128 {
    let one = number(ty, 1);
    if value == one { number(ty, 2) } else { one }
}

/// The greatest finite value.
fn greatest(ty: AtomicType) -> u128 {
    match ty {
        AtomicType::Float => f32::MAX.to_bits().into(),
        AtomicType::Double => f64::MAX.to_bits().into(),
        _ if is_signed(ty) => ones(ty) >> 1,
        _ => ones(ty),
    }
}

/// The least finite value.
fn least(ty: AtomicType) -> u128 {
    match ty {
        AtomicType::Float => f32::MIN.to_bits().into(),
        AtomicType::Double => f64::MIN.to_bits().into(),
        _ if is_signed(ty) => (ones(ty) >> 1) + 1,
        _ => 0,
    }
}

/// The next smaller value of the type; integers wrap around.
pub(super) fn below(ty: AtomicType, value: u128) -> u128 {
    match ty {
        AtomicType::Float => f32::from_bits(value as u32).next_down().to_bits().into(),
        AtomicType::Double => f64::from_bits(value as u64).next_down().to_bits().into(),
        _ => value.wrapping_sub(1) & ones(ty),
    }
}

/// The next greater value of the type; integers wrap around.
pub(super) fn above(ty: AtomicType, value: u128) -> u128 {
    match ty {
        AtomicType::Float => f32::from_bits(value as u32).next_up().to_bits().into(),
        AtomicType::Double => f64::from_bits(value as u64).next_up().to_bits().into(),
        _ => value.wrapping_add(1) & ones(ty),
    }
}

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
