//! Device records: what the NIC reads and writes, as little-endian words with field accessors.
//!
//! C declares these records as bit-fields of mixed types that share bytes, which bindgen lays out
//! wrongly. Each field is therefore declared here by its place, in the notation of nic.md 0:
//! `8:0+56` is 56 bits from bit 0 of byte 8 on. `tests/layout` compares every field with
//! `abi.json`.
//!
//! The records `c_cmd`, `c_idc_hdr` and `c_state_chg_fields` are embedded in others in C; their
//! fields appear directly in the outer record here.

use std::fmt;

/// Name and place of one field of a record, and access to it by number.
pub struct Field<R> {
    /// Name of the field in C.
    pub name: &'static str,
    /// First bit, counted from the start of the record.
    pub bit_offset: usize,
    /// Number of bits.
    pub bit_width: usize,
    /// Reads the field.
    pub get: fn(&R) -> u64,
    /// Writes the low `bit_width` bits of the value.
    pub set: fn(&mut R, u64),
}

/// Place of a field in the words of a record.
struct FieldPlace {
    word: usize,
    shift: u32,
    mask: u64,
}

impl FieldPlace {
    /// The place `byte:bit+width` in a record of words of `word_size` bytes.
    const fn new(word_size: usize, byte: usize, bit: usize, width: usize) -> Self {
        let shift = 8 * (byte % word_size) + bit;
        assert!(shift + width <= 8 * word_size, "a field lies in one word");
        Self { word: byte / word_size, shift: shift as u32, mask: u64::MAX >> (64 - width) }
    }

    #[inline(always)]
    const fn get(&self, word: u64) -> u64 {
        word >> self.shift & self.mask
    }

    /// `word` with the field set to the low bits of `value`.
    #[inline(always)]
    const fn set(&self, word: u64, value: u64) -> u64 {
        word & !(self.mask << self.shift) | (value & self.mask) << self.shift
    }
}

/// A type that a field can have.
trait FromBits {
    /// The value of the low bits of `bits`.
    fn from_bits(bits: u64) -> Self;
}

impl FromBits for bool {
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits & 1 == 1
    }
}

macro_rules! from_bits {
    ($($int:ty),*) => {$(
        impl FromBits for $int {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $int
            }
        }
    )*};
}
from_bits!(u8, u16, u32, u64);

/// Declares a record: its C name, its words, and a line `getter / setter: type = place;` per field.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident = $c_name:literal, [$word:ty; $count:literal] {
            $($get:ident / $set:ident: $type:ty = $byte:literal:$bit:literal+$width:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default)]
        #[repr(transparent)]
        pub struct $name([$word; $count]);

        impl $name {
            /// Bytes of the record.
            pub const SIZE: usize = size_of::<Self>();
            /// Name of the record in C.
            pub const C_NAME: &'static str = $c_name;
            /// Every field of the record.
            pub const FIELDS: &'static [Field<Self>] = &[$(Field {
                name: stringify!($get),
                bit_offset: 8 * $byte + $bit,
                bit_width: $width,
                get: |record| record.$get().into(),
                set: |record, bits| {
                    record.$set(FromBits::from_bits(bits));
                },
            }),*];

            /// A record of zero bytes.
            #[inline]
            pub const fn new() -> Self {
                Self([0; $count])
            }

            /// The record made of `words`, in the order of memory.
            #[inline]
            pub const fn from_words(words: [$word; $count]) -> Self {
                Self(words)
            }

            /// The words of the record, in the order of memory.
            #[inline]
            pub const fn words(&self) -> &[$word; $count] {
                &self.0
            }

            /// The record made of `bytes`, in the order of memory.
            #[inline]
            pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
                let (words, _) = bytes.as_chunks();
                Self(std::array::from_fn(|index| <$word>::from_ne_bytes(words[index])))
            }

            /// The bytes of the record, in the order of memory.
            #[inline]
            pub const fn bytes(&self) -> &[u8; Self::SIZE] {
                let bytes = (&raw const self.0).cast();
                // SAFETY: the words have no padding, so all `SIZE` bytes of them are initialised,
                // and they are borrowed as long as the result.
                unsafe { &*bytes }
            }

            $(
                #[doc = concat!(
                    "Returns the field `", stringify!($get), "`: ",
                    $width, " bit(s) from bit ", $bit, " of byte ", $byte, " on.",
                )]
                #[inline(always)]
                pub fn $get(&self) -> $type {
                    const PLACE: FieldPlace = FieldPlace::new(size_of::<$word>(), $byte, $bit, $width);
                    let word = <$word>::from_le(self.0[PLACE.word]);
                    FromBits::from_bits(PLACE.get(word.into()))
                }

                #[doc = concat!(
                    "Sets the field `", stringify!($get), "` to the low ", $width, " bit(s) of `value`.",
                )]
                #[inline(always)]
                pub fn $set(&mut self, value: $type) -> &mut Self {
                    const PLACE: FieldPlace = FieldPlace::new(size_of::<$word>(), $byte, $bit, $width);
                    let word = &mut self.0[PLACE.word];
                    let changed = PLACE.set(<$word>::from_le(*word).into(), value.into());
                    *word = (changed as $word).to_le();
                    self
                }
            )*
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut fields = f.debug_struct(stringify!($name));
                for field in Self::FIELDS {
                    fields.field(field.name, &(field.get)(self));
                }
                fields.finish()
            }
        }
    };
}

mod commands;
mod events;

pub use commands::*;
pub use events::*;
