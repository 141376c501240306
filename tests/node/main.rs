//! What belongs to one node: its NICs, CPUs, memory and GPUs, and its libcxi.

#[path = "../harness/mod.rs"]
mod harness;

mod gpu;
mod huge_pages;
mod libcxi;
mod memory;
mod missing_functions;
mod nic_states;
mod one_cpu;
mod placement;
mod recorded;
mod releases;
mod sys;
mod traps;
