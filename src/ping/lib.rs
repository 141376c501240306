//! `ping`: whether NICs of other hosts answer (docs/troubleshooting.md).
//!
//! <!-- From tests/tidy/houses.rs: src/ping -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib        the list of modules                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | command    the course of the command                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | rounds     writes to each NIC, one after the other                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | text       the answers as text                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document   the answers, as data and as JSON                                               |
//!    | options    what the command takes                                                         |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod command;
pub mod document;
pub mod text;
