//! The measuring loops, and the course of a run around them.
//!
//! * `one_sided`: both roles of a one-sided latency run, from device to closing line.
//! * `two_sided`: the same for a two-sided latency run.
//! * `bandwidth`: a bandwidth run, and its loop.
//! * `clients`: a server's clients: one, or one after another.
//! * `course`: what every run has in common.
//! * `latency`: the loop of one-sided latency.
//! * `patience`: waiting for the NIC, never without an end.
//! * `loopback`: both roles in one command.

#[cfg(test)]
mod allocation_test;
mod bandwidth;
mod clients;
mod clock;
mod course;
mod latency;
mod loopback;
mod one_sided;
mod patience;
mod two_sided;

pub use bandwidth::bandwidth_run;
pub use clock::{Clock, MonotonicRaw};
pub use one_sided::one_sided_latency;
pub use patience::{Patience, Supervisor};
pub use two_sided::two_sided_latency;
