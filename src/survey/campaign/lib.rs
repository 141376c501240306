//! What the members of a survey do together, which pairs they measure, and what results say.
//!
//! <!-- From tests/tidy/houses.rs: src/survey/campaign -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | coordinator   the crew of campaigns: orders, reports and lost members                     |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | slots         what the members do together in slots, and in which order                   |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | timetable     who does what when, and what processes send each other about it             |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | quiet         which pairs are measured when without load, and what results say            |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | blame         what all searches for a cause have in common                                |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod blame;
pub mod coordinator;
pub mod quiet;
pub mod slots;
pub mod timetable;
