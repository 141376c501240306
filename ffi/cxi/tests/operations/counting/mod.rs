//! Counters and triggered operations.

mod bench;
mod commands;
mod initiator;
mod profiles;
mod rendezvous;
mod target;
mod triggered;
