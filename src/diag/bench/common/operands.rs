//! Operands of the atomic benchmarks, chosen so that each operation changes the target as long as
//! operation and type permit it (tools.md 8.3, without its defects T9 to T12).
//!
//! A value has the form of the NIC's memory and commands (nic.md 11.4): the low-order bytes of two
//! little-endian words, the low half first.

use facts::atomic::{Atomic, AtomicOp, AtomicType, CswapOp, is_signed, ones};

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
