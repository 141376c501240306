//! The survey of a cluster without its input and output: which pairs of NICs are measured when, and
//! what their results say about NICs, nodes, switches and paths.
//!
//! * `roster`: the nodes and NICs, and where they are.
//! * `answer`: the result of one pair.
//! * `timetable`: who does what when, and what the processes of a survey tell each other.
//! * `verdict`: what the survey has found, as data and as a document.

pub mod answer;
pub mod roster;
pub mod timetable;
pub mod verdict;
