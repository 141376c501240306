//! Why NICs and other parts are slow: the campaigns that measure culprits beside good NICs and read
//! the files of their nodes (diagnosis.md 6.1), and what figures and files prove (`causes`).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/why -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  7 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | suspect         the campaign about one NIC                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | verdict         the campaign after a survey                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | unmeasured      NICs, switches and groups of which only files are read                    |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | investigation   the members read files and measure                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | slots           what is measured for a culprit, and what has come of it                   |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | culprits        the culprits of a verdict, and why they are slow                          |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | causes          what figures and files prove: causes, and how they fit                    |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod causes;
pub mod culprits;
pub mod investigation;
mod slots;
pub mod suspect;
mod unmeasured;
pub mod verdict;
#[cfg(test)]
mod verdict_tests;
