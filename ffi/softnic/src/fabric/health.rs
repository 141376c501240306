//! Faults that only the files and the counters of a NIC show. They slow no packet down.
//!
//! Rates are per second since the NIC started.

use std::collections::BTreeMap;

/// Numbers from `0` to this are accepted as rates, per second.
pub const MOST_PER_SECOND: f64 = 1e9;

/// The widths and the speeds in GT/s of a PCIe link that is slower than the NIC permits, or as
/// fast.
pub const PCIE_WIDTHS: [u64; 5] = [1, 2, 4, 8, 16];
pub const PCIE_SPEEDS: [f64; 4] = [2.5, 5.0, 8.0, 16.0];

/// The speeds of PCIe links that bridges can have.
pub const BRIDGE_SPEEDS: [f64; 5] = [2.5, 5.0, 8.0, 16.0, 32.0];

/// The most lanes and the largest speed in GT/s of the NIC.
pub const PCIE_MAX: PcieLanes = PcieLanes { width: 16, speed: 16.0 };

/// The extended speeds in GT/s (health.md 2.1).
pub const ESM_SPEEDS: [f64; 4] = [16.0, 20.0, 25.0, 32.0];

/// The most links between the root port and the NIC, which includes its own.
pub const MOST_PCIE_LINKS: usize = 4;

/// The most restarts of the link that the driver remembers (health.md 2.1).
pub const MOST_FLAPS: u64 = 10;

/// The most bytes of the path of a file that has a planted content: of a name in most file systems.
pub const LONGEST_FILE: usize = 255;

/// Lanes and their speed in GT/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieLanes {
    pub width: u64,
    pub speed: f64,
}

/// A PCIe link on the path of a NIC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieLink {
    /// What is in use.
    pub current: PcieLanes,
    /// The most that the bridges at its ends can do.
    pub max: PcieLanes,
}

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
    /// The lanes of the NIC.
    pub pcie: PcieLanes,
    /// The links from the root port to the NIC, whose own is the last; what it does is in `pcie`.
    /// Empty if there are no bridges.
    pub pcie_path: Vec<PcieLink>,
    /// The extended speed of PCIe in GT/s, if it is on.
    pub esm: Option<f64>,
    /// Why the link does not come up, in the words of the driver; `None` if it does.
    pub up_fail: Option<String>,
    /// Restarts of the link before the NIC started, one a minute.
    pub flaps: u64,
    /// Whether there is a retry handler.
    pub has_retry_handler: bool,
    /// First octet of the MAC address that software has set; `None` if it has set none.
    pub ama: Option<u8>,
    /// Whether the driver has the modules for peer memory of GPUs.
    pub has_peer_memory: bool,
    /// Whether GPUs let the NIC access their dma-bufs.
    pub has_dma_bufs: bool,
    /// Whether the PCIe above the NIC executes atomic operations.
    pub has_atomic_completer: bool,
    /// The part of its speed with which the host copies memory. Programs that measure it multiply.
    pub memory: f64,
    /// The contents of files, by their paths below the device directory, or by absolute paths of
    /// files of the host, without their last newline.
    pub files: BTreeMap<String, String>,
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
            pcie: PCIE_MAX,
            pcie_path: Vec::new(),
            esm: None,
            up_fail: None,
            flaps: 0,
            has_retry_handler: true,
            ama: Some(0x02),
            has_peer_memory: true,
            has_dma_bufs: true,
            has_atomic_completer: true,
            memory: 1.0,
            files: BTreeMap::new(),
        }
    }
}
