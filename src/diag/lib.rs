//! One measurement.

#![forbid(unsafe_code)]

pub mod bench;
pub mod endpoint;
pub mod run;
pub mod session;
