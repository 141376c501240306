//! What the members of a survey do together.
//!
//! * `pairs`: rounds of pairs -> slots, and results of tasks -> results of pairs.

pub mod pairs;
