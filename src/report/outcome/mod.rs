//! The outcome of a run as plain data, from which each format of the results is made.
//!
//! * This file: the run as a whole, and how it ended; the side of a process in the run, its host
//!   and NIC, and the addresses of both sides; what the counters of the NICs did.
//! * `options`: the options in effect.
//! * `size_result`: the result of a size, and whether it meets an expectation; `latency`: its
//!   latencies.
//!
//! These types are the JSON document, field for field (docs/output-formats.md). The doc comments
//! are the descriptions in its schema, docs/cxidiag.schema.json.

mod latency;
mod options;
mod size_result;

use std::collections::BTreeMap;
use std::time::Duration;

use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use facts::job::Job;
use facts::number::and_more;
use facts::time_of_day::milliseconds;
use measure::{MeasurementError, MeasuringClock};
use page::problem::Problem;
use plan::depths::Row;
use serde::{Deserialize, Serialize};

pub use latency::{Detail, Extent, LatencyResult, PercentileValue};
pub use options::{AtomicOptions, DeclaredOptions, ListOptions, Options};
pub use size_result::{
    BandwidthResult, ExpectationResult, FanResult, MatchCost, QueuePairResult, RateResult,
    SizeResult, WriteResult,
};

/// The schema version of runs that were read from text, which documents never have.
pub const PRINTED: u32 = 0;

/// Version of the document. It changes when a field is removed or changes its meaning; new fields
/// do not change it.
pub const SCHEMA_VERSION: u32 = 1;

/// One run of one tool, as `--json` writes it. Field names contain the units. A value that does not
/// apply is null. Later releases may add fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the tool, such as write-lat.
    pub tool: String,
    /// The side that wrote the document.
    #[serde(default)]
    pub side: Side,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// Revision of its sources; null if unknown.
    pub cxidiag_revision: Option<String>,
    /// How the run ended.
    pub status: Status,
    /// Exit status of the program.
    pub exit_status: u8,
    /// What failed; null if and only if the status is complete.
    pub error: Option<Problem>,
    /// Start of the run, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// Duration of the run, in milliseconds.
    pub elapsed_ms: u64,
    /// The machine of this side.
    pub host: Host,
    /// The batch job of this side; null outside a job.
    pub job: Option<Job>,
    /// --label: the given keys and their values.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The NIC of this side; null if the arguments were invalid.
    pub device: Option<UsedDevice>,
    /// The process at the other end of the control connection; null if the sides did not connect.
    pub peer: Option<Peer>,
    /// Addresses of both sides; null if they did not connect.
    pub addresses: Option<Addresses>,
    /// All options in effect; null if the arguments were invalid.
    pub options: Option<Options>,
    /// The clock that measured.
    pub clock: MeasuringClock,
    /// What the tool itself adds to a latency, measured without a NIC before the first size; null
    /// in a bandwidth tool, and if nothing was measured.
    pub measurement_error: Option<MeasurementError>,
    /// One entry for each size, in the order of the run; empty if the arguments were invalid.
    pub results: Vec<SizeResult>,
    /// A range of --posted or --unexpected in send-lat: what an entry takes; null without, with
    /// fewer than three rows, and if the run ended early.
    #[serde(default)]
    pub walk: Option<MatchCost>,
    /// --counters: what the counters of the NICs did during the run; null without, and if no size
    /// was begun.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// One entry for each size and each bound of --expect.
    pub expectations: Vec<ExpectationResult>,
}

impl Outcome {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with the name of the key.
    pub fn read(document: &[u8]) -> Result<Self, String> {
        page::json::read(document)
    }

    /// Whether the run was read from text, where options that were not printed are unknown.
    pub fn is_printed(&self) -> bool {
        self.schema_version == PRINTED
    }

    /// The host and the NIC of each side.
    pub fn place(&self) -> String {
        // The text of another program names no NIC.
        let none = if self.is_printed() { "unknown NIC" } else { "no NIC" };
        let device = self.device.as_ref().map_or(none, |device| device.name.as_str());
        let own = [self.host.known_name(), Some(device)];
        let own = own.into_iter().flatten().collect::<Vec<_>>().join(" ");
        match (&self.peer, &self.addresses) {
            (Some(peer), _) => {
                let host = peer.host_name.as_deref().unwrap_or(&peer.ip);
                let device = peer.device.as_deref().unwrap_or("");
                format!("{own} to {host} {device}").trim_end().to_owned()
            }
            (None, Some(Addresses { local, remote, .. })) if self.is_printed() => {
                format!("{own} (NIC {:#x}) to NIC {:#x}", local.nic, remote.nic)
            }
            _ => own,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All sizes were measured, and all expectations were met.
    #[default]
    Complete,
    /// All sizes were measured, but an expectation was not met.
    Unmet,
    /// A signal ended the run.
    Interrupted,
    /// The run failed, or did not start.
    Failed,
}

/// A machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the CPUs, as the kernel names it.
    pub architecture: String,
}

impl Host {
    /// Name of a host that the text of a run does not name.
    pub const UNKNOWN: &str = "unknown host";

    /// The name of the host, unless it is unknown.
    pub fn known_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != Self::UNKNOWN)
    }
}

/// The process at the other end of the control connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Peer {
    /// Name of its host; null for a legacy tool and an older cxidiag.
    pub host_name: Option<String>,
    /// Its IP address on the control connection.
    pub ip: String,
    /// Whether it is a cxidiag.
    pub is_cxidiag: bool,
    /// The NIC of the server, in the document of a client; null if the server has not announced it.
    #[serde(default)]
    pub device: Option<String>,
}

/// A NIC. Apart from name and service, a field is null if the device was not opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Device"))]
pub struct UsedDevice {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub name: String,
    /// Whether it is a software NIC, so that no Cassini hardware was involved.
    pub is_software: Option<bool>,
    /// Number of the CXI service.
    pub svc_id: u32,
    /// Where the service comes from: default, option, slingshot (the variables of the job) or
    /// service_list (the best of the NIC's services).
    pub svc_id_source: Option<String>,
    /// Where the VNI comes from: default (the first one of the service), option or slingshot.
    pub vni_source: Option<String>,
    /// Traffic class of this side's operations.
    pub traffic_class: Option<String>,
    /// Where the traffic class comes from: default, option or slingshot.
    pub traffic_class_source: Option<String>,
    /// MAC address of the network interface; null without an interface.
    pub mac_address: Option<String>,
    /// PCI address: domain:bus:device.function.
    pub pci_address: Option<String>,
    /// Speed of the link, as the driver reports it; null without a port.
    pub link_speed: Option<usize>,
    /// Name of the driver.
    pub driver: Option<String>,
    /// Revision of the driver; null if the driver does not show it.
    pub driver_revision: Option<String>,
    /// Version of the firmware; null if the driver does not show it.
    pub firmware_version: Option<String>,
    /// File of the libcxi in use, whose name contains its version; null for a software NIC.
    pub library: Option<String>,
}

/// Addresses of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Addresses {
    /// Fabric address of this side.
    pub local: FabricAddress,
    /// Fabric address of the peer.
    pub remote: FabricAddress,
    /// VNI of this side.
    pub vni: u32,
    /// IP address of the server; empty in loopback-bw, which has none.
    pub server_ip: String,
    /// TCP port of the server; 0 in loopback-bw.
    pub server_port: u16,
}

/// The side of a process in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The client, also of a loopback run.
    #[default]
    Client,
    /// The server.
    Server,
}

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

impl Outcome {
    /// The result of the run, whose loops ended with `result`: the failure, an unmet expectation,
    /// or an unstable median.
    ///
    /// # Errors
    ///
    /// The first of them.
    pub fn result(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        result.and_then(|()| all_met(&self.expectations)).and_then(|()| all_stable(&self.results))
    }

    /// Records how the run has ended.
    pub fn close(&mut self, result: Result<(), &Failure>, elapsed: Duration) {
        self.elapsed_ms = milliseconds(elapsed);
        let Err(failure) = result else {
            self.status = Status::Complete;
            self.exit_status = 0;
            self.error = None;
            return;
        };
        self.status = match failure.kind {
            Kind::Unmet => Status::Unmet,
            Kind::Interrupted => Status::Interrupted,
            _ => Status::Failed,
        };
        self.exit_status = failure.status();
        self.error = Some(Problem::from(failure));
    }
}

fn all_met(verdicts: &[ExpectationResult]) -> Result<(), Failure> {
    let unmet: Vec<&ExpectationResult> = verdicts.iter().filter(|verdict| !verdict.met).collect();
    let Some(first) = unmet.first() else {
        return Ok(());
    };
    let others = and_more(unmet.len() - 1).replacen(" and", ", and", 1);
    let (expectation, row) = (&first.expectation, first.row());
    Err(Failure::unmet(format!("expectation not met: {expectation} at {row}{others}")))
}

/// Whether no median is unstable.
fn all_stable(results: &[SizeResult]) -> Result<(), Failure> {
    let is_unstable = |result: &&SizeResult| {
        let latency = result.latency.as_ref();
        latency.is_some_and(|latency| latency.median_is_stable == Some(false))
    };
    let unstable: Vec<Row> = results.iter().filter(is_unstable).map(SizeResult::row).collect();
    if unstable.is_empty() {
        return Ok(());
    }
    Err(Failure::unmet(format!(
        "unstable: the median did not reach the limit of --until in time at {}",
        Row::names(&unstable)
    ))
    .with_hint("measure for longer (--duration), allow more (--until), or stop other programs on these CPUs"))
}
