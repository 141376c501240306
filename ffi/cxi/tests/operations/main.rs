//! Gets, atomic operations, counters and messages: the wrapper on a whole NIC, in software, through the
//! queues that everybody uses.

mod atomics;
mod counting;
mod gets;
mod initiators;
mod messages;
#[path = "../../../softnic/tests/model/atomics.rs"]
mod model;
mod rig;
