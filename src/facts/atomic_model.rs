//! A model of the atomic operations, written from their definition (nic.md 11.2): what a NIC makes
//! of a value.
//!
//! A value has the form of the NIC's memory and commands (nic.md 11.4): the low-order bytes of two
//! little-endian words, the low half first.

use super::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};

/// Returns a value with all bits of the type set.
pub fn ones(ty: AtomicType) -> u128 {
    u128::MAX >> (128 - 8 * ty.size())
}

/// Returns whether the type is a signed integer.
pub fn is_signed(ty: AtomicType) -> bool {
    use AtomicType::{Int8, Int16, Int32, Int64};
    matches!(ty, Int8 | Int16 | Int32 | Int64)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of nic.md 11.2.
    #[test]
    fn follows_examples_of_the_specification() {
        let operation = |op, cswap, ty| Atomic { op, cswap, ty, fetching: false, matching: false };
        let (axor, cswap) = (AtomicOp::Axor, AtomicOp::Cswap);
        let byte = operation(axor, CswapOp::Eq, AtomicType::Uint8);
        assert_eq!(applied(byte, 0x11, 0xa0, 0xf0), 0xa1);
        for (compared, written) in
            [(99, [CswapOp::Le, CswapOp::Lt]), (101, [CswapOp::Ge, CswapOp::Gt])]
        {
            for comparison in [CswapOp::Le, CswapOp::Lt, CswapOp::Ge, CswapOp::Gt] {
                let result =
                    applied(operation(cswap, comparison, AtomicType::Int32), 100, 7, compared);
                assert_eq!(result == 7, written.contains(&comparison), "{comparison} {compared}");
            }
        }
        let sum = operation(AtomicOp::Sum, CswapOp::Eq, AtomicType::Int8);
        assert_eq!(applied(sum, 0x7f, 1, 0), 0x80);
        let float = operation(AtomicOp::Sum, CswapOp::Eq, AtomicType::FloatComplex);
        let parts = |re: f32, im: f32| u128::from(im.to_bits()) << 32 | u128::from(re.to_bits());
        assert_eq!(applied(float, parts(1.0, -2.0), parts(0.5, 1.0), 0), parts(1.5, -1.0));
    }
}
