//! Counters and triggered operations.

mod bench;
mod commands;
mod initiator;
mod target;
mod triggered;
