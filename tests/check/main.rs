//! `cxidiag check`: the health of NICs, of many nodes, and of NICs under load.

#[path = "../harness/mod.rs"]
mod harness;

mod fleet;
mod job;
mod one_node;
mod pcie;
mod stress;
