//! Counters and triggered operations.

mod commands;
mod initiator;
mod profiles;
mod target;
mod tools;
mod triggered;
