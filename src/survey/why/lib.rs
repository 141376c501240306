//! Why NICs and other parts are slow: the campaigns that measure culprits beside good NICs and read
//! the files of their nodes (diagnosis.md 6.1), and what figures and files prove (`causes`).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/why -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  9 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | suspect         the campaign about one NIC                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | verdict         the campaign after a survey                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | fabric_parts    why switches and groups are slow                                          |
//!    | group_links     why links between two groups are slow                                     |
//!    | untested        NICs that the verdict calls neither good nor bad                          |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | investigation   the members read files and measure                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | links           the pairs that show why links between groups are slow                     |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | slots           what is measured for a culprit, and what has come of it                   |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | culprits        the culprits of a verdict                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | course          the tests, as members measure them                                        |
//!    | explanation     what is known about the cause of a culprit                                |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | causes          what figures and files prove: causes, and how they fit                    |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod causes;
pub mod course;
mod culprits;
pub mod explanation;
mod fabric_parts;
mod group_links;
pub mod investigation;
mod links;
mod slots;
pub mod suspect;
mod untested;
pub mod verdict;
#[cfg(test)]
mod verdict_tests;
