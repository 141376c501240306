//! Faults that make the packets of a NIC slower, each as a cause of hardware does.

use std::collections::BTreeMap;
use std::time::Duration;

pub use topology::CLASSES;

/// The bandwidth of a link of 200 Gb/s in bytes per second. Ceilings of classes are percents of it
/// on a link without a limit.
pub const FULL_BANDWIDTH: f64 = 25e9;

/// What makes the packets of a NIC slower, beyond its link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowness {
    /// Bytes per second of the packets that the NIC receives; `None` for unlimited.
    pub rx_bandwidth: Option<f64>,
    /// For each operation whose data the NIC reads from the memory of the host.
    pub host_read: Duration,
    /// For each packet whose data the NIC writes to the memory of the host.
    pub host_write: Duration,
    /// For each ordinary page that the NIC reads or writes.
    pub page_cost: Duration,
    /// The time that the NIC takes to wake up, and the longest time without a packet to send after
    /// which it is still awake.
    pub wake: Option<(Duration, Duration)>,
    /// The most of the bandwidth that each class gets, in percent.
    pub ceilings: [Option<u64>; CLASSES.len()],
    /// For each packet of a class to another NIC.
    pub class_delays: [Duration; CLASSES.len()],
    /// The part of the time for which the flow control of the fabric stops packets to other NICs.
    pub fgfc: Option<f64>,
    /// The ways between two NICs, of which this NIC is one, by their numbers.
    pub between: BTreeMap<(u32, u32), Between>,
}

/// What is slower between two NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Between {
    pub delay: Duration,
    /// Bytes per second in each direction; `None` for unlimited.
    pub bandwidth: Option<f64>,
}

impl Slowness {
    /// Returns the ceiling of a class that has this name in lower case, as in files.
    pub fn ceiling(&self, class: &str) -> Option<u64> {
        let number = CLASSES.iter().position(|name| name.to_lowercase() == class);
        self.ceilings[number?]
    }
}
