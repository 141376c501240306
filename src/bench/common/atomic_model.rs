//! A model of the atomic operations, written from their definition (nic.md 11.2): what a NIC makes of a
//! value. The checks of atomic tools compare with it.

use super::operands::{Operands, initial_target, is_signed, ones};
use crate::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};

/// A target of the operations of a benchmark.
pub struct Model {
    atomic: Atomic,
    operands: Operands,
    /// Its value.
    pub target: u128,
}

impl Model {
    /// Creates the target before the first operation.
    pub fn new(atomic: Atomic) -> Self {
        Self {
            atomic,
            operands: Operands::new(atomic),
            target: initial_target(atomic),
        }
    }

    /// Applies `count` operations.
    pub fn apply(&mut self, count: u64) {
        for _ in 0..count {
            let Operands { first, second, .. } = self.operands;
            self.target = applied(self.atomic, self.target, first, second);
            self.operands.advance();
        }
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
