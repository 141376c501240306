//! The processes of a survey.
//!
//! <!-- From tests/tidy/houses.rs: src/cluster -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib              the list of modules                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | coordinator      the crew of campaigns: orders, reports and lost members                  |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | why              why NICs are slow: what is measured and read for it                      |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | campaign         what the members of a survey do together, and in which order             |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | load             the fabric under load: who sends what to whom, and what that says        |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | meeting_point    where processes find the coordinator of a survey                         |
//!    | timetable        who does what when, and what processes send each other about it          |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | star             how the processes of a survey talk                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | host_locations   where hosts are, by a file or by Slurm                                   |
//!    | introduction     how a process introduces itself to its coordinator                       |
//!    | launcher         rank and size of a process, from its launcher                            |
//!    | probe            probes all day: which targets, when, and what has come of them           |
//!    | survey           which pairs are measured when, and what results say                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | blame            what all searches for a cause have in common                             |
//!    | host_list        lists of hosts as Slurm and Flux write them                              |
//!    | location         where a NIC is: group, switch and port                                   |
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
pub mod probe;
pub mod survey;
pub mod timetable;
pub mod why;
