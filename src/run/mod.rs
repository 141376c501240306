//! The measuring loops, and the course of a run around them.
//!
//! * `one_sided`: both roles of a one-sided latency run, from device to closing line.
//! * `latency`: the loop.
//! * `patience`: waiting for the NIC, never without an end.
//! * `loopback`: both roles in one command.

#[cfg(test)]
mod allocation_test;
mod clock;
mod latency;
mod loopback;
mod one_sided;
mod patience;

pub use clock::{Clock, MonotonicRaw};
pub use one_sided::one_sided_latency;
pub use patience::{Patience, Supervisor};
