//! The processes of a survey.
//!
//! <!-- From tests/tidy/houses.rs: src/cluster -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  7 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | coordinator   the crew of campaigns: orders, reports and lost members                     |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | why           why NICs are slow: what is measured and read for it                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | campaign      what the members of a survey do together, and in which order                |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | load          the fabric under load: who sends what to whom, and what that says           |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | timetable     who does what when, and what processes send each other about it             |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | survey        which pairs are measured when, and what results say                         |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | blame         what all searches for a cause have in common                                |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod blame;
pub mod campaign;
pub mod coordinator;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod load;
pub mod survey;
pub mod timetable;
pub mod why;
