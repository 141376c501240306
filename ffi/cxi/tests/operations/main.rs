//! The wrapper with a software NIC: both ends of each operation in one process.

mod atomics;
mod attempts;
mod counting;
mod puts_and_gets;
mod rig;
