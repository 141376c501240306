//! The outcome of a run as plain data, from which each format of the results is made.
//!
//! * This file: the run as a whole, and how it ended.
//! * `site`: the side of a process in a run, its host and NIC, and the addresses of both sides.
//! * `options`: the options in effect.
//! * `size_result`: the result of a size, and whether it meets an expectation; `latency` and
//!   `bandwidth`: its figures.
//! * `counters`: what the counters of the NICs did.
//!
//! These types are the JSON document, field for field (docs/output-formats.md). The doc comments
//! are the descriptions in its schema, docs/cxidiag.schema.json.

mod bandwidth;
mod counters;
mod latency;
mod options;
mod site;
mod size_result;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use bandwidth::{BandwidthResult, QueuePairResult};
pub use counters::{CounterFinding, CounterResult, Counters, NicCounters};
use facts::job::Job;
pub use latency::Extent;
pub use latency::{Detail, LatencyResult, PercentileValue};
use measure::{MeasurementError, MeasuringClock};
pub use options::DeclaredOptions;
pub use options::{AtomicOptions, ListOptions, Options};
use page::problem::Problem;
pub use site::Side;
pub use site::{Addresses, Host, Peer, UsedDevice};
pub use size_result::ExpectationResult;
pub use size_result::MatchCost;
pub use size_result::{FanResult, RateResult, SizeResult, WriteResult};

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

    /// Returns whether the run was read from text, where options that were not printed are unknown.
    pub fn is_printed(&self) -> bool {
        self.schema_version == PRINTED
    }

    /// Returns the host and the NIC of each side.
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
