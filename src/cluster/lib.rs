//! The processes of a survey.
//!
//! <!-- From tests/tidy/houses.rs: src/cluster -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib              the list of modules                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | meeting_point    where processes find the coordinator of a survey                         |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | tree             how the processes of a survey talk                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | host_locations   where hosts are, by a file or by Slurm                                   |
//!    | launcher         rank and size of a process, from its launcher                            |
//!    | survey           which pairs are measured when, and what results say                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | host_list        lists of hosts as Slurm and Flux write them                              |
//!    | location         where a NIC is: group, switch and port                                   |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod host_list;
pub mod host_locations;
pub mod launcher;
pub mod location;
pub mod meeting_point;
pub mod survey;
pub mod tree;
