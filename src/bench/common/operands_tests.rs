//! Compares operands with a model of the operations, written from their definition (nic.md 11.2).

use super::operands::{Operands, initial_target, is_signed, ones};
use crate::atomic::{Atomic, AtomicOp, AtomicType, CSWAP_OPS, CswapOp, OPS, TYPES};

/// Returns all valid combinations; the comparison applies to CSWAP only.
pub(crate) fn combinations() -> Vec<Atomic> {
    let mut found = Vec::new();
    for (_, op) in OPS {
        for (_, ty) in TYPES {
            for (_, cswap) in CSWAP_OPS {
                let atomic = Atomic {
                    op,
                    cswap,
                    ty,
                    fetching: false,
                    matching: false,
                };
                if atomic.exists() && (op == AtomicOp::Cswap || cswap == CswapOp::Eq) {
                    found.push(atomic);
                }
            }
        }
    }
    found
}

/// Returns the target after `count` operations.
pub(crate) fn target_after(atomic: Atomic, count: u64) -> u128 {
    let mut operands = Operands::new(atomic);
    let mut target = initial_target(atomic);
    for _ in 0..count {
        target = applied(atomic, target, operands.first, operands.second);
        operands.advance();
    }
    target
}

fn applied(atomic: Atomic, target: u128, first: u128, second: u128) -> u128 {
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

/// Returns how many consecutive operations can change the target.
fn changes_possible(atomic: Atomic) -> u64 {
    let bits = 8 * atomic.ty.size();
    match atomic.op {
        // The target stays true or false.
        AtomicOp::Lor | AtomicOp::Land => 1,
        // One bit per operation.
        AtomicOp::Bor | AtomicOp::Band => bits,
        // One value per operation, from one end of the type to the other.
        AtomicOp::Min | AtomicOp::Max if bits == 8 => 255,
        _ => 1000,
    }
}

#[test]
fn t9_t11_t12_each_operation_changes_target() {
    for atomic in combinations() {
        let (mut operands, mut target) = (Operands::new(atomic), initial_target(atomic));
        for number in 0..changes_possible(atomic) {
            let before = target;
            target = applied(atomic, target, operands.first, operands.second);
            assert_ne!(target, before, "{atomic:?}, operation {number}");
            operands.advance();
        }
    }
}

#[test]
fn operands_stay_within_type() {
    for atomic in combinations() {
        let mut operands = Operands::new(atomic);
        for _ in 0..1000 {
            for value in [operands.first, operands.second, initial_target(atomic)] {
                assert_eq!(value & !ones(atomic.ty), 0, "{atomic:?}");
            }
            operands.advance();
        }
    }
}

/// Some values of tools.md 8.3.
#[test]
fn matches_values_of_table() {
    let of = |op, cswap, ty| {
        let atomic = Atomic {
            op,
            cswap,
            ty,
            fetching: false,
            matching: false,
        };
        let operands = Operands::new(atomic);
        (initial_target(atomic), operands.first, operands.second)
    };
    use {AtomicOp as Op, AtomicType as Type, CswapOp as Cmp};
    assert_eq!(of(Op::Min, Cmp::Eq, Type::Int16), (0x7fff, 0x7ffe, 0));
    assert_eq!(of(Op::Min, Cmp::Eq, Type::Uint16), (0xffff, 0xfffe, 0));
    assert_eq!(
        of(Op::Max, Cmp::Eq, Type::Int32),
        (0x8000_0000, 0x8000_0001, 0)
    );
    assert_eq!(of(Op::Max, Cmp::Eq, Type::Uint64), (0, 1, 0));
    assert_eq!(of(Op::Band, Cmp::Eq, Type::Uint8), (0xff, 0xfe, 0));
    assert_eq!(of(Op::Axor, Cmp::Eq, Type::Uint8), (0, 1, 1));
    assert_eq!(of(Op::Cswap, Cmp::Lt, Type::Uint8), (3, 1, 0));
    assert_eq!(of(Op::Cswap, Cmp::Gt, Type::Uint8), (0, 1, 3));
    assert_eq!(
        of(Op::Cswap, Cmp::Eq, Type::Uint128),
        (2 << 64 | 2, 1 << 64 | 1, 2 << 64 | 2)
    );
    assert_eq!(
        of(Op::Sum, Cmp::Eq, Type::FloatComplex),
        (0, 0x3f80_0000_3f80_0000, 0)
    );
    assert_eq!(
        of(Op::Min, Cmp::Eq, Type::Float),
        (0x7f7f_ffff, 0x7f7f_fffe, 0)
    );
}
