//! Checks of what `docs/reference` says about a NIC, its driver and its library, on this NIC.
//!
//! Each check has objects of its own on the NIC, observes one fact, and releases them. It knows
//! nothing of the kind of NIC: the software NIC, which was built from the same pages, passes all
//! checks.
//!
//! <!-- From tests/tidy/houses.rs: src/selftest -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib        the list of modules                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | command    what the command takes, and its course                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | text       the result as text, and what the selected checks do to the NIC                 |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | run        selects checks and executes them                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | checks     the checks, a file for each group                                              |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | nic        what is known of the NIC and its software                                      |
//!    | table      a check as plain data                                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | bench      what a check works with: both ends on one NIC                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | events     events as checks see them, and waits for them                                  |
//!    | peer       checks that need a second NIC                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document   the result as data and as JSON                                                 |
//!    | ended      how a check ends, and comparisons that end it                                  |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod bench;
mod checks;
mod command;
pub mod document;
mod ended;
mod events;
mod nic;
mod peer;
mod run;
mod table;
#[cfg(test)]
mod testing;
mod text;

pub use command::{run, usage};
