//! Faults that make the packets of a NIC slower, each as a cause of hardware does.

use std::time::Duration;

/// What makes the packets of a NIC slower, beyond its link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowness {
    /// Bytes per second of the packets that the NIC receives; `None` for unlimited.
    pub rx_bandwidth: Option<f64>,
    /// For each operation whose data the NIC reads from the memory of the host.
    pub host_read: Duration,
    /// For each packet whose data the NIC writes to the memory of the host.
    pub host_write: Duration,
    /// The time that the NIC takes to wake up, and the longest time without a packet to send after
    /// which it is still awake.
    pub wake: Option<(Duration, Duration)>,
}
