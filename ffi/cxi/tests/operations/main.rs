//! Gets, matching and atomic operations: the wrapper on a whole NIC, in software, through the
//! queues that everybody uses.

mod gets;
mod rig;
