//! Compares operands with the model of the operations.

use crate::bench::common::operands::{
    Operands, above, applied_times, below, initial_target, target_after, target_after_additions,
};
use facts::atomic::{Atomic, AtomicOp, AtomicType, CSWAP_OPS, CswapOp, OPS, TYPES, applied, ones};

/// All valid combinations; the comparison applies to CSWAP only.
pub(crate) fn combinations() -> Vec<Atomic> {
    let mut found = Vec::new();
    for (_, op) in OPS {
        for (_, ty) in TYPES {
            for (_, cswap) in CSWAP_OPS {
                let atomic = Atomic { op, cswap, ty, fetching: false, matching: false };
                if atomic.exists() && (op == AtomicOp::Cswap || cswap == CswapOp::Eq) {
                    found.push(atomic);
                }
            }
        }
    }
    found
}

/// How many consecutive operations can change the target.
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
fn target_after_few_operations_is_that_of_each_in_turn() {
    for atomic in combinations() {
        for count in 0..600 {
            let expected = applied_times(atomic, count);
            assert_eq!(target_after(atomic, count), expected, "{atomic:?}, {count} operations");
        }
    }
}

#[test]
fn target_after_additions_is_sum_of_operands() {
    for atomic in combinations() {
        let mut operands = Operands::new(atomic);
        let mut sum = initial_target(atomic);
        for count in 0..600 {
            let Some(found) = target_after_additions(atomic, count) else {
                assert!(!atomic.is_fetch_add(atomic.op as i32), "{atomic:?}");
                break;
            };
            assert_eq!(found, sum, "{atomic:?}, {count} operations");
            sum = sum.wrapping_add(operands.first) & ones(atomic.ty);
            operands.advance();
        }
    }
    let swap = Atomic {
        op: AtomicOp::Swap,
        cswap: CswapOp::Eq,
        ty: AtomicType::Uint64,
        fetching: false,
        matching: false,
    };
    for count in many() {
        let expected = u128::from(count / 2) * 3 + u128::from(count % 2);
        let sum = target_after_additions(swap, count);
        assert_eq!(sum, Some(expected & ones(swap.ty)), "{count} operations");
    }
}

/// Numbers of operations around those where a type ends.
fn many() -> impl Iterator<Item = u64> {
    let floats = [f32::MAX.to_bits().into(), f64::MAX.to_bits()];
    let doubled = floats.map(|magnitude: u64| magnitude.saturating_mul(2));
    let powers = [16, 24, 31, 32, 53, 63].map(|power| 1 << power);
    let places = floats.into_iter().chain(doubled).chain(powers);
    places.flat_map(|place| place - 3..place + 4).chain(u64::MAX - 4..u64::MAX)
}

#[test]
fn each_of_many_operations_changes_target_as_model_does() {
    for atomic in combinations() {
        for count in many() {
            let before = target_after(atomic, count);
            let first = match atomic.op {
                AtomicOp::Sum => Operands::new(atomic).first,
                AtomicOp::Min => below(atomic.ty, before),
                AtomicOp::Max => above(atomic.ty, before),
                // Targets and operands repeat.
                _ => {
                    let few = target_after(atomic, 100 + count % 2);
                    assert_eq!(before, few, "{atomic:?}, {count} operations");
                    continue;
                }
            };
            let after = applied(atomic, before, first, 0);
            let next = target_after(atomic, count + 1);
            assert_eq!(next, after, "{atomic:?}, {count} operations");
        }
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
    let operands = |op, cswap, ty| {
        let atomic = Atomic { op, cswap, ty, fetching: false, matching: false };
        let operands = Operands::new(atomic);
        (initial_target(atomic), operands.first, operands.second)
    };
    use {AtomicOp as Op, AtomicType as Type, CswapOp as Cmp};
    assert_eq!(operands(Op::Min, Cmp::Eq, Type::Int16), (0x7fff, 0x7ffe, 0));
    assert_eq!(operands(Op::Min, Cmp::Eq, Type::Uint16), (0xffff, 0xfffe, 0));
    assert_eq!(operands(Op::Max, Cmp::Eq, Type::Int32), (0x8000_0000, 0x8000_0001, 0));
    assert_eq!(operands(Op::Max, Cmp::Eq, Type::Uint64), (0, 1, 0));
    assert_eq!(operands(Op::Band, Cmp::Eq, Type::Uint8), (0xff, 0xfe, 0));
    assert_eq!(operands(Op::Axor, Cmp::Eq, Type::Uint8), (0, 1, 1));
    assert_eq!(operands(Op::Cswap, Cmp::Lt, Type::Uint8), (3, 1, 0));
    assert_eq!(operands(Op::Cswap, Cmp::Gt, Type::Uint8), (0, 1, 3));
    assert_eq!(
        operands(Op::Cswap, Cmp::Eq, Type::Uint128),
        (2 << 64 | 2, 1 << 64 | 1, 2 << 64 | 2)
    );
    assert_eq!(operands(Op::Sum, Cmp::Eq, Type::FloatComplex), (0, 0x3f80_0000_3f80_0000, 0));
    assert_eq!(operands(Op::Min, Cmp::Eq, Type::Float), (0x7f7f_ffff, 0x7f7f_fffe, 0));
}
