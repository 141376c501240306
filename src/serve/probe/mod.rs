//! Probes: how each node measures a few other nodes a little, all day.
//!
//! * `schedule`: which nodes a node probes, by a hash of names, and when it probes each of them.
//! * `figures`: what has come of the probes, without those that noise of this host spoils.

pub mod figures;
pub mod schedule;
