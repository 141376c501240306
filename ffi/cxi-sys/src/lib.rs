//! The raw libcxi interface.
//!
//! * `bindings`: host structures, enumerators and constants under their C names,
//!   made by bindgen from `cxi.h` (`build.rs`).
//! * [`records`]: the records that the NIC reads and writes, by hand.
//! * [`Api`]: the table of libcxi functions, filled from `libcxi.so.1` at run time, or
//!   by the software NIC.
//! * [`gpu`]: the same for the runtimes of GPUs, whose memory the NIC can reach.

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
pub mod records;

pub use api::{Api, LoadError};
pub use bindings::*;
