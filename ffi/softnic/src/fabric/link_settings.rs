//! The link of a NIC and its planted faults, as the environment describes them.

use std::collections::BTreeMap;
use std::time::Duration;

pub use topology::CLASSES;

use crate::engine::ReturnCode;

/// The link, as described by the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// From one NIC to another.
    pub latency: Duration,
    /// The most by which the latency of a packet exceeds `latency`, evenly distributed.
    pub jitter: Duration,
    /// Bytes per second on the link of each NIC; `None` for unlimited.
    pub bandwidth: Option<f64>,
    /// The time for each list entry that the NIC compares with an operation in vain.
    pub match_time: Duration,
    pub faults: Faults,
    pub slowness: Slowness,
    pub health: Health,
}

/// Injected faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Probability that a packet is lost each time it is sent.
    pub loss: f64,
    /// Time after which a lost packet is sent again.
    pub retry: Duration,
    /// Probability that a packet is late, and its delay.
    pub delay: Option<(f64, Duration)>,
    /// Probability that one byte of the data of a packet changes.
    pub corrupt: f64,
    pub errors: Vec<InjectedError>,
    /// The code with which the NIC refuses a command of a transmit queue, and the number of the
    /// command, counted from 1 at the opening of the device.
    pub refusal: Option<(ReturnCode, u64)>,
    /// When the link goes down after the device was opened, and for how long; `None` for ever.
    pub down: Option<(Duration, Option<Duration>)>,
}

/// A return code with which operations fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InjectedError {
    pub code: ReturnCode,
    pub selection: FailingOperations,
}

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailingOperations {
    /// The operation with this number, counted from 1 at the opening of the device.
    Number(u64),
    /// Each operation with this probability.
    Probability(f64),
}

impl Faults {
    /// Whether the link is up at this time after the opening.
    pub fn is_up(&self, age: Duration) -> bool {
        match self.down {
            None => true,
            Some((from, None)) => age < from,
            Some((from, Some(length))) => age < from || age >= from.saturating_add(length),
        }
    }

    /// When the link comes up again after the opening.
    pub fn restart(&self) -> Option<Duration> {
        let (from, length) = self.down?;
        Some(from.saturating_add(length?))
    }

    /// How much of this time after the opening the link was up.
    pub fn time_up(&self, age: Duration) -> Duration {
        let down = match self.down {
            None => Duration::ZERO,
            Some((from, length)) => {
                let down = age.saturating_sub(from);
                length.map_or(down, |length| down.min(length))
            }
        };
        age.saturating_sub(down)
    }
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            bandwidth: None,
            match_time: Duration::ZERO,
            faults: Faults {
                seed: 1,
                loss: 0.0,
                retry: Duration::from_millis(1),
                delay: None,
                corrupt: 0.0,
                errors: Vec::new(),
                refusal: None,
                down: None,
            },
            slowness: Slowness::default(),
            health: Health::default(),
        }
    }
}

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
    /// The lanes in use.
    pub current: PcieLanes,
    /// The most that the bridges at its ends can do.
    pub max: PcieLanes,
}

/// The state of a NIC as its driver shows it: faults that only the files and the counters of a NIC
/// show. They slow no packet down. Rates are per second since the NIC started.
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

/// The bandwidth of a link of 200 Gb/s in bytes per second. Ceilings of classes are percents of it
/// on a link without a limit.
pub const FULL_BANDWIDTH: f64 = 25e9;

/// Faults that make the packets of a NIC slower, each as a cause of hardware does, beyond its link.
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

/// A slowness between two NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Between {
    pub delay: Duration,
    /// Bytes per second in each direction; `None` for unlimited.
    pub bandwidth: Option<f64>,
}

impl Slowness {
    /// The ceiling of a class that has this name in lower case, as in files.
    pub fn ceiling(&self, class: &str) -> Option<u64> {
        let number = CLASSES.iter().position(|name| name.to_lowercase() == class);
        self.ceilings[number?]
    }
}
