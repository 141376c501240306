//! `ping`: whether NICs of other hosts answer (docs/troubleshooting.md).
//!
//! <!-- From tests/tidy/houses.rs: src/ping -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib        the list of modules                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | command    what the command takes, and its course                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | rounds     writes to each NIC, one after the other                                        |
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
pub mod options;
pub mod rounds;
pub mod text;
