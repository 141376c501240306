//! TCP without a protocol: names of hosts, listeners, messages with a length before them.

pub mod framing;
pub mod listener;
pub mod race;
pub mod resolver;
