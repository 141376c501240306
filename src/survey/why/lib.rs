//! Why NICs and other parts are slow: the campaigns that measure culprits beside good NICs and read
//! the files of their nodes (diagnosis.md 6.1), and what figures and files prove (`causes`).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/why -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | suspect         the campaign about one NIC                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | verdict         the campaign after a survey                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | unmeasured      NICs, switches and groups of which only files are read                    |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | investigation   the members read files and measure                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | links           the pairs that show why links between groups are slow                     |
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
