//! What everything else is built from.

#![forbid(unsafe_code)]

pub mod advice;
pub mod atomic;
pub mod bandwidth_unit;
pub mod child;
pub mod device;
pub mod error;
pub mod expect;
pub mod host;
pub mod interrupt;
pub mod job;
pub mod limit;
pub mod net;
pub mod number;
pub mod percentile;
pub mod phase;
pub mod rate;
pub mod release;
pub mod size;
pub mod token;
