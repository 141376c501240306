//! Command queues, event queues and counters (nic.md 2, 3, 5, 6, 9).

#[path = "../driver/mod.rs"]
mod driver;

mod command_queue;
mod commands;
mod counters;
mod event_queue;
mod resize;
