//! The processes of a survey.
//!
//! <!-- From tests/tidy/houses.rs: src/cluster -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib              the list of modules                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | meeting_point    where processes find the coordinator of a survey                         |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | star             how the processes of a survey talk                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | load             the fabric under load: who sends what to whom, and what that says        |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | host_locations   where hosts are, by a file or by Slurm                                   |
//!    | launcher         rank and size of a process, from its launcher                            |
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
pub mod host_list;
pub mod host_locations;
pub mod launcher;
pub mod load;
pub mod location;
pub mod meeting_point;
pub mod star;
pub mod survey;
pub mod timetable;
pub mod why;
