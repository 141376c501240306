//! Everything that cxi-sys declares, held against `abi.json` by name.
//!
//! * `records.rs`: device records, bit by bit, through their setters and getters.
//! * `host.rs`: host structures, constants, enumerators and prototypes.

mod facts;
mod host;
mod records;
