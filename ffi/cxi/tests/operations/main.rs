//! Gets, atomic operations and counters: the wrapper on a whole NIC, in software, through the queues that
//! everybody uses.

mod atomics;
mod counting;
mod gets;
mod initiators;
#[path = "../../../softnic/tests/model/atomics.rs"]
mod model;
mod rig;
