//! Surveys of many NICs, alone and under the launchers of clusters.

#[path = "../harness/mod.rs"]
mod harness;

mod check;
mod cpus;
mod hostile;
mod launchers;
mod stat;
mod survey;
mod why;
