//! Compares the arithmetic with literal values, and with an independent model.

use super::*;

#[path = "../../tests/model/atomics.rs"]
mod model;

use model::{Random, TYPES, model};

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
