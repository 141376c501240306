//! Counters and triggered operations.

mod commands;
mod initiator;
mod profiles;
mod rendezvous;
mod target;
mod tools;
mod triggered;
