//! The wrapper with a software NIC: both ends of each operation in one process.

mod atomics;
mod attempts;
mod counting;
mod gets;
mod initiators;
mod messages;
mod puts;
mod rig;
