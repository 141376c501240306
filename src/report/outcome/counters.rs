//! What the counters of the NICs did during the run, and what they explain.

use serde::{Deserialize, Serialize};

use super::site::Side;

/// What the counters of both NICs did during the run, with --counters. They count for the whole
/// NIC, all programs included.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Counters {
    /// The set that was read: quick, link or all.
    pub set: String,
    /// Whether both sides use the same NIC.
    pub is_one_nic: bool,
    /// The NIC of this side; of both sides if they use the same one.
    pub own: NicCounters,
    /// The NIC of the peer; null if both sides use the same one, and if the peer does not send
    /// them.
    pub peer: Option<NicCounters>,
    /// What the counters explain, the most important of each NIC first.
    pub findings: Vec<CounterFinding>,
    /// By how many seconds the clock of this host was stepped meanwhile; null if it was not. Rates
    /// do not follow it.
    pub clock_step_s: Option<f64>,
}

/// The counters of one NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NicCounters {
    /// Name of the device.
    pub device: String,
    /// Whether it is a software NIC, so that software keeps the counters.
    pub is_software: bool,
    /// Mode of the link, as the driver shows it; null if the driver does not.
    pub link_speed: Option<String>,
    /// Speed of a PCIe lane, in 10^9 transfers per second; null if the driver does not show it.
    pub pcie_gt_per_s: Option<f64>,
    /// All counters of the set.
    pub counters: Vec<CounterResult>,
}

/// One counter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Counter"))]
pub struct CounterResult {
    /// Its file in the directory telemetry of the device; those in properties and of the retry
    /// handler are named properties/... and retry_handler/....
    pub name: String,
    /// By how much it grew; null if the NIC does not have it, and if it was reset.
    pub change: Option<u64>,
    /// Time between the two readings, in seconds; null if it is unknown.
    pub seconds: Option<f64>,
    /// Whether it went back to the beginning during the run.
    pub was_reset: bool,
}

/// What counters of a NIC explain.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CounterFinding {
    /// The side whose NIC it is; this side if both use the same one.
    pub side: Side,
    /// Name of the device.
    pub device: String,
    /// Name of the rule, such as packets_resent.
    pub code: String,
    /// What happened, in a sentence.
    pub text: String,
    /// The value above which it is reported.
    pub limit: String,
    /// Where the limit comes from.
    pub limit_source: String,
}
