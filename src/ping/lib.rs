//! `ping`: whether NICs of other hosts answer (docs/troubleshooting.md).
//!
//! <!-- From tests/tidy/houses.rs: src/ping -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  3 | lib        the list of modules                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | command    what the command takes, and its rounds of writes                               |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | text       the answers as text                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document   the answers, as data and as JSON                                               |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod command;
pub mod document;
pub mod text;
