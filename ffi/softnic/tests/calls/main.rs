//! The functions of libcxi that the tools do not use and other programs may.

mod administration;
mod device_memory;
#[path = "../driver/mod.rs"]
mod driver;
mod fork_safety;
mod huge_pages;
mod memory;
mod queues;
mod resize;
mod status;
mod waiting;
