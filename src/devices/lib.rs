//! `devices`: the NICs of this machine (docs/devices.md).
//!
//! <!-- From tests/tidy/houses.rs: src/devices -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  2 | lib         the list of modules                                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | command     what the command takes, and its course                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | inventory   the NICs, as text and as JSON                                                 |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod command;
pub mod inventory;
