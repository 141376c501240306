//! A second implementation of atomic operations from nic.md 11, on Rust's types.
//! Tests compare it with the software NIC. Numbers are written as in
//! the tables there. Open points are as in engine/arithmetic.rs.

/// The types by number: name and bytes.
pub const TYPES: [(&str, usize); 13] = [
    ("INT8", 1),
    ("UINT8", 1),
    ("INT16", 2),
    ("UINT16", 2),
    ("INT32", 4),
    ("UINT32", 4),
    ("INT64", 8),
    ("UINT64", 8),
    ("FLOAT", 4),
    ("FLOAT_COMPLEX", 8),
    ("DOUBLE", 8),
    ("DOUBLE_COMPLEX", 16),
    ("UINT128", 16),
];

/// The new value of a target `t`, with operand 1 `a` and operand 2 `b`; `None` if the combination
/// does not exist.
pub fn model(op: u8, kind: u8, comparison: u8, t: u128, a: u128, b: u128) -> Option<u128> {
    match kind {
        0 => i8::bits(op, comparison, t, a, b),
        1 => u8::bits(op, comparison, t, a, b),
        2 => i16::bits(op, comparison, t, a, b),
        3 => u16::bits(op, comparison, t, a, b),
        4 => i32::bits(op, comparison, t, a, b),
        5 => u32::bits(op, comparison, t, a, b),
        6 => i64::bits(op, comparison, t, a, b),
        7 => u64::bits(op, comparison, t, a, b),
        8 => f32::bits(op, comparison, t, a, b),
        9 => complex::<f32>(op, comparison, t, a, b),
        10 => f64::bits(op, comparison, t, a, b),
        11 => complex::<f64>(op, comparison, t, a, b),
        12 if op == 11 && comparison == 0 => Some(if b == t { a } else { t }),
        _ => None,
    }
}

/// Whether CSWAP writes: operand 2 compared with the target.
fn compare<T: PartialOrd>(comparison: u8, b: T, t: T) -> Option<bool> {
    Some(match comparison {
        0 => b == t,
        1 => b != t,
        2 => b <= t,
        3 => b < t,
        4 => b >= t,
        5 => b > t,
        _ => return None,
    })
}

/// An element that the NIC calculates with.
trait Element: Copy {
    fn from_low(value: u128) -> Self;
    fn into_low(self) -> u128;
    fn calculate(op: u8, comparison: u8, t: Self, a: Self, b: Self) -> Option<Self>;

    fn bits(op: u8, comparison: u8, t: u128, a: u128, b: u128) -> Option<u128> {
        let [t, a, b] = [t, a, b].map(Self::from_low);
        Self::calculate(op, comparison, t, a, b).map(Self::into_low)
    }
}

macro_rules! integers {
    ($($int:ident as $unsigned:ident),*) => {$(
        impl Element for $int {
            fn from_low(value: u128) -> Self {
                value as $int
            }

            fn into_low(self) -> u128 {
                u128::from(self as $unsigned)
            }

            fn calculate(op: u8, comparison: u8, t: Self, a: Self, b: Self) -> Option<Self> {
                let logical = |truth| if truth { 1 } else { 0 };
                Some(match op {
                    0 => t.min(a),
                    1 => t.max(a),
                    2 => t.wrapping_add(a),
                    4 => logical(t != 0 || a != 0),
                    5 => logical(t != 0 && a != 0),
                    6 => t | a,
                    7 => t & a,
                    8 => logical((t != 0) ^ (a != 0)),
                    9 => t ^ a,
                    10 => a,
                    11 if compare(comparison, b, t)? => a,
                    11 => t,
                    12 => (t & !b) ^ a,
                    _ => return None,
                })
            }
        }
    )*};
}
integers!(
    i8 as u8, u8 as u8, i16 as u16, u16 as u16, i32 as u32, u32 as u32, i64 as u64, u64 as u64
);

/// A real number.
trait Float: Element + PartialOrd {
    fn sum(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($float:ident, $int:ident, $quiet:expr;)*) => {$(
        impl Element for $float {
            fn from_low(value: u128) -> Self {
                Self::from_bits(value as $int)
            }

            fn into_low(self) -> u128 {
                u128::from(self.to_bits())
            }

            fn calculate(op: u8, comparison: u8, t: Self, a: Self, b: Self) -> Option<Self> {
                let quiet = |nan: Self| Self::from_bits(nan.to_bits() | $quiet);
                let a_wins = |better: bool| match (t.is_nan(), a.is_nan()) {
                    (true, true) => quiet(t),
                    (true, false) => a,
                    (false, true) => t,
                    (false, false) => if better { a } else { t },
                };
                Some(match op {
                    // The sign distinguishes zeros.
                    0 => a_wins(a < t || (a == t && a.is_sign_negative())),
                    1 => a_wins(a > t || (a == t && a.is_sign_positive())),
                    2 => t.sum(a),
                    10 => a,
                    11 if compare(comparison, b, t)? => a,
                    11 => t,
                    _ => return None,
                })
            }
        }

        impl Float for $float {
            fn sum(self, other: Self) -> Self {
                let quiet = |nan: Self| Self::from_bits(nan.to_bits() | $quiet);
                if self.is_nan() {
                    quiet(self)
                } else if other.is_nan() {
                    quiet(other)
                } else if (self + other).is_nan() {
                    Self::from_bits(Self::INFINITY.to_bits() | $quiet)
                } else {
                    self + other
                }
            }
        }
    )*};
}
floats! {
    f32, u32, 0x0040_0000;
    f64, u64, 0x0008_0000_0000_0000;
}

fn complex<F: Float>(op: u8, comparison: u8, t: u128, a: u128, b: u128) -> Option<u128> {
    let half = 8 * size_of::<F>();
    let parts = |value: u128| (F::from_low(value), F::from_low(value >> half));
    let ((t_real, t_imaginary), (a_real, a_imaginary)) = (parts(t), parts(a));
    let equal = parts(b) == (t_real, t_imaginary);
    match (op, comparison) {
        (2, _) => {
            let real = t_real.sum(a_real).into_low();
            Some(real | t_imaginary.sum(a_imaginary).into_low() << half)
        }
        (10, _) => Some(a),
        (11, 0) => Some(if equal { a } else { t }),
        (11, 1) => Some(if equal { t } else { a }),
        _ => None,
    }
}

/// Numbers that look random, the same ones each time.
pub struct Random(pub u64);

impl Random {
    /// The next number (splitmix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An operand: anything at all, or one of those at which operations change what they do.
    /// Bits beyond the element are garbage.
    pub fn operand(&mut self, kind: u8) -> u128 {
        let bits = 8 * TYPES[usize::from(kind)].1;
        match kind {
            9 | 11 => {
                let half = bits / 2;
                let component = if kind == 9 { 8 } else { 10 };
                let low = self.operand(component) & (u128::MAX >> (128 - half));
                low | self.operand(component) << half
            }
            8 => self.float(32, 23),
            10 => self.float(64, 52),
            _ => self.integer(bits),
        }
    }

    fn integer(&mut self, bits: usize) -> u128 {
        let anything = u128::from(self.next()) << 64 | u128::from(self.next());
        let top = 1 << (bits - 1);
        match self.below(8) {
            0..3 => anything,
            3..5 => anything & 3,
            5 => top,
            6 => top - 1,
            _ => (anything & 3).wrapping_neg(),
        }
    }

    fn float(&mut self, bits: usize, mantissa: usize) -> u128 {
        let anything = u128::from(self.next());
        let sign = (anything & 1) << (bits - 1);
        let infinity = ((1_u128 << (bits - 1 - mantissa)) - 1) << mantissa;
        let quiet = 1 << (mantissa - 1);
        let payload = anything & (quiet - 1);
        let one = infinity >> 1 & infinity;
        match self.below(10) {
            0..3 => anything,
            3 => sign,
            4 => sign | infinity,
            5 => sign | infinity | quiet | payload,
            6 => sign | infinity | payload | 2,
            7 => sign | payload,
            8 => sign | (infinity - 1 - (anything >> 1 & 3)),
            _ => sign | one | (anything >> 1 & 3),
        }
    }
}
