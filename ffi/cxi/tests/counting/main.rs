//! Counters and triggered operations: the wrapper on a whole NIC, in software, through the queues
//! that everybody uses.

mod commands;
mod initiator;
mod profiles;
#[allow(dead_code, reason = "another test program uses the rest")]
#[path = "../operations/rig.rs"]
mod rig;
mod target;
mod tools;
mod triggered;
