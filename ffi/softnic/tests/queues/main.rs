//! Command queues, event queues and counters (nic.md 2, 3, 5, 6, 9).

#[path = "../driver/mod.rs"]
mod driver;

mod command_queue;
mod context;
mod counters;
mod event_queue;
mod events;
mod hostile;
mod low_latency;
mod resize;
