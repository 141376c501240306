//! Puts, gets, atomics and messages: their bytes, events and return codes (nic.md 3, 4, 6, 7, 10,
//! 11).

#[path = "../driver/mod.rs"]
mod driver;

mod atomics;
mod outcomes;
mod puts;
mod rendezvous;
mod two_sided;
