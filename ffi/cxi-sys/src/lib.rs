#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod api;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    unsafe_op_in_unsafe_fn,
    unnecessary_transmutes,
    reason = "generated; the C names are the documentation"
)]
#[rustfmt::skip]
mod bindings;
pub mod gpu;
pub mod libfabric;
pub mod records;
pub mod testing;

pub use api::{Api, LoadError};
pub use bindings::*;
