//! `cxidiag serve`: the server of all tools and NICs of a machine, and its probes.

#[path = "../harness/mod.rs"]
mod harness;

mod clients;
mod probes;
