//! Several processes and devices on one fabric: links, faults and the end of a process.

#[path = "../driver/mod.rs"]
mod driver;

mod counters;
mod flow;
mod foreign;
mod forks;
mod link;
mod rates;
mod slowness;
mod switches;
mod two_processes;
