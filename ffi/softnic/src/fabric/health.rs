//! Faults that only the files and the counters of a NIC show. They slow no packet down.
//!
//! Rates are per second since the NIC started.

/// Numbers from `0` to this are accepted as rates, per second.
pub const MOST_PER_SECOND: f64 = 1e9;

/// The widths and the speeds in GT/s of a PCIe link that is slower than the NIC permits, or as
/// fast.
pub const PCIE_WIDTHS: [u64; 5] = [1, 2, 4, 8, 16];
pub const PCIE_SPEEDS: [f64; 4] = [2.5, 5.0, 8.0, 16.0];

/// The most restarts of the link that the driver remembers (health.md 2.1).
pub const MOST_FLAPS: u64 = 10;

/// The state of a NIC as its driver shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Rate of code words with errors that were corrected.
    pub corrected: f64,
    /// Rate of code words with errors that were not, which the other end of the link sends again.
    pub uncorrected: f64,
    /// Share of the time in which the switch pauses the NIC.
    pub tx_paused: f64,
    /// Share of the time in which the NIC pauses the switch.
    pub rx_paused: f64,
    /// Share of the received packets that have a mark of congestion.
    pub congestion: f64,
    /// Share of the requests that are refused because the tables of the target are full.
    pub full: f64,
    /// Cycles for which each write to the memory of the host waits.
    pub slow_host: u64,
    /// Share of the events that are lost because their queue is full.
    pub lost_events: f64,
    /// Rate of PCIe errors that were corrected.
    pub pcie_errors: f64,
    /// Lanes of the PCIe link.
    pub pcie_width: u64,
    /// Speed of the PCIe link in GT/s.
    pub pcie_speed: f64,
    /// Restarts of the link before the NIC started, one a minute.
    pub flaps: u64,
    /// Whether there is a retry handler.
    pub has_retry_handler: bool,
    /// Whether software has set the MAC address.
    pub has_ama: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            corrected: 0.0,
            uncorrected: 0.0,
            tx_paused: 0.0,
            rx_paused: 0.0,
            congestion: 0.0,
            full: 0.0,
            slow_host: 0,
            lost_events: 0.0,
            pcie_errors: 0.0,
            pcie_width: 16,
            pcie_speed: 16.0,
            flaps: 0,
            has_retry_handler: true,
            has_ama: true,
        }
    }
}
