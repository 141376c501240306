//! Several processes and devices on one fabric: links, faults and the end of a process.

#[path = "../driver/mod.rs"]
mod driver;

mod flows;
mod link;
mod processes;
mod switches;
