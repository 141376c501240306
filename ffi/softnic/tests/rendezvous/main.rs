//! Rendezvous puts (nic.md 10): both sides' events with all they say, and every byte.

mod bench;
#[path = "../driver/mod.rs"]
mod driver;
mod messages;
mod processes;
