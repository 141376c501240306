//! Processes on many hosts that work together: how they find each other, and how they talk.
//!
//! <!-- From tests/tidy/houses.rs: src/crew -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | gathering       the documents of the tasks of a launcher in one place                     |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | meeting_point   where processes find their coordinator, and how they join it              |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | star            how the processes of a crew talk                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | introduction    how a process introduces itself to its coordinator                        |
//!    | launcher        rank and size of a process, from its launcher                             |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | host_list       lists of hosts as Slurm and Flux write them                               |
//!    | location        where a NIC is: group, switch and port                                    |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod gathering;
pub mod host_list;
pub mod introduction;
pub mod launcher;
pub mod location;
pub mod meeting_point;
pub mod star;
