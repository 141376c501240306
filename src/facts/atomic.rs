//! Atomic operations: names, numbers on the wire, sizes, and valid combinations (tools.md 8.1,
//! wire.md 4.4). The NIC uses the same numbers (nic.md 11).
//!
//! A model of the operations, written from their definition (nic.md 11.2): what a NIC makes of a
//! value. A value has the form of the NIC's memory and commands (nic.md 11.4): the low-order bytes
//! of two little-endian words, the low half first.

use std::fmt;

/// A name in a list, with its number.
type NamedNumber<T> = (&'static str, T);

/// Declares an enum of numbers on the wire, and a table of the values with their names in the order
/// of the declaration. A value converts to its name with `Display`, and from its number.
macro_rules! named_numbers {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $($(#[$meaning:meta])* $variant:ident = ($number:literal, $name:literal),)*
        }
        $(#[$about_names:meta])*
        pub const $names:ident;
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$meaning])* $variant = $number,)*
        }

        $(#[$about_names])*
        pub const $names: [NamedNumber<$type>; [$($number),*].len()] =
            [$(($name, $type::$variant)),*];

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)*
                })
            }
        }

        impl TryFrom<u8> for $type {
            type Error = ();

            fn try_from(number: u8) -> Result<Self, ()> {
                match number {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(()),
                }
            }
        }
    };
}

named_numbers! {
    /// An operation.
    pub enum AtomicOp {
        /// The minimum of both.
        Min = (0, "MIN"),
        /// The maximum of both.
        Max = (1, "MAX"),
        Sum = (2, "SUM"),
        /// Logical or.
        Lor = (4, "LOR"),
        /// Logical and.
        Land = (5, "LAND"),
        /// Bitwise or.
        Bor = (6, "BOR"),
        /// Bitwise and.
        Band = (7, "BAND"),
        /// Logical exclusive or.
        Lxor = (8, "LXOR"),
        /// Bitwise exclusive or.
        Bxor = (9, "BXOR"),
        /// The operand.
        Swap = (10, "SWAP"),
        /// Operand 1 if the comparison of operand 2 with the target holds.
        Cswap = (11, "CSWAP"),
        /// Bits of operand 2 cleared, then exclusive or with operand 1.
        Axor = (12, "AXOR"),
    }
    /// All operations, in the order of the help text.
    pub const OPS;
}

named_numbers! {
    /// The comparison of CSWAP: operand 2 with the target.
    pub enum CswapOp {
        /// Equal.
        Eq = (0, "EQ"),
        /// Not equal.
        Ne = (1, "NE"),
        /// Less or equal.
        Le = (2, "LE"),
        /// Less.
        Lt = (3, "LT"),
        /// Greater or equal.
        Ge = (4, "GE"),
        /// Greater.
        Gt = (5, "GT"),
    }
    /// All comparisons, in the order of the help text.
    pub const CSWAP_OPS;
}

named_numbers! {
    /// The type of target and operands.
    pub enum AtomicType {
        Int8 = (0, "INT8"),
        Uint8 = (1, "UINT8"),
        Int16 = (2, "INT16"),
        Uint16 = (3, "UINT16"),
        Int32 = (4, "INT32"),
        Uint32 = (5, "UINT32"),
        Int64 = (6, "INT64"),
        Uint64 = (7, "UINT64"),
        Float = (8, "FLOAT"),
        Double = (10, "DOUBLE"),
        FloatComplex = (9, "FLOAT_COMPLEX"),
        DoubleComplex = (11, "DOUBLE_COMPLEX"),
        Uint128 = (12, "UINT128"),
    }
    /// All types, in the order of the help text.
    pub const TYPES;
}

/// The value named `text` in upper or lower case, or the allowed names.
///
/// # Errors
///
/// The allowed names.
pub fn named<T: Copy>(names: &[NamedNumber<T>], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| format!("expected one of {}", list(names)))
}

/// The names, separated by commas.
pub fn list<T>(names: &[NamedNumber<T>]) -> String {
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl AtomicType {
    /// The size of one value in bytes.
    pub fn size(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::FloatComplex | Self::Double => 8,
            Self::DoubleComplex | Self::Uint128 => 16,
        }
    }

    /// The operations of the type, for messages.
    pub fn operations(self) -> &'static str {
        match self {
            Self::Float | Self::Double => "MIN, MAX, SUM, SWAP and CSWAP",
            Self::FloatComplex | Self::DoubleComplex => "SUM, SWAP, CSWAP EQ and CSWAP NE",
            Self::Uint128 => "CSWAP EQ",
            _ => "all operations",
        }
    }
}

/// The operation of an atomic benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// The operation.
    pub op: AtomicOp,
    /// The comparison, for CSWAP.
    pub cswap: CswapOp,
    /// The type of target and operands.
    pub ty: AtomicType,
    /// The operation returns the previous value of the target.
    pub fetching: bool,
    /// The list entry is selected by match bits.
    pub matching: bool,
}

impl Atomic {
    /// Whether the combination of operation, comparison and type is valid.
    pub fn exists(&self) -> bool {
        use {AtomicOp as Op, AtomicType as Type, CswapOp as Cmp};
        match self.ty {
            Type::Float | Type::Double => {
                matches!(self.op, Op::Min | Op::Max | Op::Sum | Op::Swap | Op::Cswap)
            }
            Type::FloatComplex | Type::DoubleComplex => match self.op {
                Op::Cswap => matches!(self.cswap, Cmp::Eq | Cmp::Ne),
                op => matches!(op, Op::Sum | Op::Swap),
            },
            Type::Uint128 => self.op == Op::Cswap && self.cswap == Cmp::Eq,
            _ => true,
        }
    }

    /// Whether a NIC executes the operation as a PCIe FetchAdd if its driver has chosen the
    /// operation with this number for that (nic.md 11.3).
    pub fn is_fetch_add(&self, opcode: i32) -> bool {
        let has_type = match self.ty {
            AtomicType::Uint32 | AtomicType::Uint64 => true,
            AtomicType::Int32 | AtomicType::Int64 => self.op == AtomicOp::Sum,
            _ => false,
        };
        let has_operation = !matches!(self.op, AtomicOp::Cswap | AtomicOp::Axor);
        has_type && has_operation && opcode == i32::from(self.op as u8)
    }

    /// The operation, with the comparison if there is one: `SUM`, `CSWAP EQ`.
    pub fn operation(&self) -> String {
        match self.op {
            AtomicOp::Cswap => format!("{} {}", self.op, self.cswap),
            op => op.to_string(),
        }
    }
}

/// A value with all bits of the type set.
pub fn ones(ty: AtomicType) -> u128 {
    u128::MAX >> (128 - 8 * ty.size())
}

/// Whether the type is a signed integer.
pub fn is_signed(ty: AtomicType) -> bool {
    use AtomicType::{Int8, Int16, Int32, Int64};
    matches!(ty, Int8 | Int16 | Int32 | Int64)
}

/// The value of a target after one operation.
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

    #[test]
    fn accepts_names_in_upper_and_lower_case() {
        assert_eq!(named(&OPS, "axor"), Ok(AtomicOp::Axor));
        assert_eq!(named(&TYPES, "Double_Complex"), Ok(AtomicType::DoubleComplex));
        assert_eq!(named(&CSWAP_OPS, "eqq"), Err("expected one of EQ, NE, LE, LT, GE, GT".into()));
    }

    /// The numbers of wire.md 4.4.
    #[test]
    fn matches_numbers_on_wire() {
        let numbers = |text: &[(&str, u8)], found: Vec<(String, u8)>| {
            let text: Vec<_> = text.iter().map(|(n, v)| (n.to_string(), *v)).collect();
            assert_eq!(found, text);
        };
        let ops = (0..=255).filter_map(|n| AtomicOp::try_from(n).ok());
        numbers(
            &[
                ("MIN", 0),
                ("MAX", 1),
                ("SUM", 2),
                ("LOR", 4),
                ("LAND", 5),
                ("BOR", 6),
                ("BAND", 7),
                ("LXOR", 8),
                ("BXOR", 9),
                ("SWAP", 10),
                ("CSWAP", 11),
                ("AXOR", 12),
            ],
            ops.map(|op| (op.to_string(), op as u8)).collect(),
        );
        let cswaps = (0..=255).filter_map(|n| CswapOp::try_from(n).ok());
        numbers(
            &[("EQ", 0), ("NE", 1), ("LE", 2), ("LT", 3), ("GE", 4), ("GT", 5)],
            cswaps.map(|op| (op.to_string(), op as u8)).collect(),
        );
        let types = (0..=255).filter_map(|n| AtomicType::try_from(n).ok());
        numbers(
            &[
                ("INT8", 0),
                ("UINT8", 1),
                ("INT16", 2),
                ("UINT16", 3),
                ("INT32", 4),
                ("UINT32", 5),
                ("INT64", 6),
                ("UINT64", 7),
                ("FLOAT", 8),
                ("FLOAT_COMPLEX", 9),
                ("DOUBLE", 10),
                ("DOUBLE_COMPLEX", 11),
                ("UINT128", 12),
            ],
            types.map(|ty| (ty.to_string(), ty as u8)).collect(),
        );
    }

    /// The types of nic.md 11.3.
    #[test]
    fn knows_operations_of_fetch_add() {
        let adding = |op: AtomicOp, opcode| {
            let atomic =
                |ty| Atomic { op, cswap: CswapOp::Eq, ty, fetching: false, matching: false };
            let types = TYPES.iter().filter(|(_, ty)| atomic(*ty).is_fetch_add(opcode));
            list(&types.copied().collect::<Vec<_>>())
        };
        assert_eq!(adding(AtomicOp::Swap, 10), "UINT32, UINT64");
        assert_eq!(adding(AtomicOp::Sum, 2), "INT32, UINT32, INT64, UINT64");
        for (op, opcode) in [(AtomicOp::Swap, -1), (AtomicOp::Min, 10), (AtomicOp::Cswap, 11)] {
            assert_eq!(adding(op, opcode), "");
        }
    }

    #[test]
    fn counts_valid_combinations_of_table() {
        let mut count = 0;
        for (_, op) in OPS {
            for (_, ty) in TYPES {
                for (_, cswap) in CSWAP_OPS {
                    let atomic = Atomic { op, cswap, ty, fetching: false, matching: false };
                    let once = op == AtomicOp::Cswap || cswap == CswapOp::Eq;
                    count += usize::from(once && atomic.exists());
                }
            }
        }
        // 8 integers with 11 + 6; 2 reals with 4 + 6; 2 complex with 2 + 2; UINT128 with 1.
        assert_eq!(count, 8 * 17 + 2 * 10 + 2 * 4 + 1);
    }

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
