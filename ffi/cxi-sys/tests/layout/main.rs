//! Compares everything that cxi-sys declares with `abi.json`, by name.
//!
//! * `records.rs`: every bit of device records, through setters and getters.
//! * `host.rs`: host structures, constants, enumerators and prototypes.

mod facts;
mod host;
mod records;
