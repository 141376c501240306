//! From a culprit to its cause: which tests measure it beside a good NIC, which causes there are,
//! and what figures and files prove, suggest and exclude (diagnosis.md 1 to 6).
//!
//! <!-- From tests/tidy/houses.rs: src/diagnosis -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  6 | lib          the list of modules                                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | evaluation   readings and figures -> causes                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | assessment   how each cause fits                                                          |
//!    | ceilings     what PCIe links carry, as a hint                                             |
//!    | seen         what the tests show together                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | why          a cause in documents                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | cause        what a cause consists of: signs, columns, advice                             |
//!    | causes       the causes, as data                                                          |
//!    | comparison   the figures of a culprit beside good NICs                                    |
//!    | shared       what several culprits have and good NICs do not                              |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | columns      what the matrix of causes and tests compares                                 |
//!    | counters     what grows on the culprit and not on good NICs                               |
//!    | flows        heaps of ordered flows between two groups                                    |
//!    | healthy      the figures of healthy NICs of a generation                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | procedure    the tests, as data                                                           |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->
//!
//! The package measures nothing, reads no file and prints nothing.

#![forbid(unsafe_code)]

pub mod assessment;
pub mod cause;
pub mod causes;
pub mod ceilings;
pub mod columns;
pub mod comparison;
pub mod counters;
pub mod evaluation;
pub mod flows;
pub mod healthy;
pub mod procedure;
pub mod seen;
pub mod shared;
pub mod why;
