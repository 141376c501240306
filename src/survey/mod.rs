//! The survey of a cluster without its input and output: which pairs of NICs are measured when, and
//! what their results say about NICs, nodes, switches and paths.
//!
//! * `roster`: the nodes and NICs, and where they are.
//! * `answer`: the result of one pair.
//! * `timetable`: who does what when, and what the processes of a survey tell each other.
//! * `pairs`: the pairs that the user asks for.
//! * `rounds`: the rounds in which they are measured.
//! * `population`: distributions of figures, and limits.
//! * `conductor`: the course of a survey from the first round to the verdict.
//! * `verdict`: what the survey has found, as data and as a document.

pub mod answer;
pub mod conductor;
pub mod pairs;
pub mod population;
pub mod roster;
pub mod rounds;
pub mod timetable;
pub mod verdict;
