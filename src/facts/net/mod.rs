//! TCP without a protocol: names of hosts, listeners, shares of them, messages with a length before
//! them.

pub mod framing;
pub mod listener;
pub mod race;
