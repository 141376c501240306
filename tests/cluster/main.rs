//! Surveys of many NICs, alone and under the launchers of clusters.

#[path = "../harness/mod.rs"]
mod harness;

mod launchers;
mod survey;
