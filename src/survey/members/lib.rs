//! The processes of a survey: what the NICs of a member measure in their slots.
//!
//! <!-- From tests/tidy/houses.rs: src/survey/members -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  2 | lib          the list of modules                                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | nics         the pairs that the NICs of a process measure                                 |
//!    | prober_nic   a NIC that probes others all day                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | targets      targets that stay open, and measurements against them                        |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod nics;
pub mod prober_nic;
pub mod targets;
