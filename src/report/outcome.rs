//! The outcome of a run as plain data, from which each format of the results is made.
//!
//! These types are the JSON document, field for field (docs/output-formats.md). The doc comments
//! are the descriptions in its schema, docs/cxidiag.schema.json.

use serde::{Deserialize, Serialize};

use super::intervals::Intervals;
use crate::error::Failure;
use crate::measure::{
    self, ClockFacts, OwnError, Percentile, Rates, Recorder, SideResult, SideView, Until,
};
use crate::plan::expect::{Expectation, Metric};
use crate::rate::{Kept, Rate};

/// Version of the document. It changes when a field is removed or changes its meaning; new fields
/// do not change it.
pub const SCHEMA_VERSION: u32 = 1;

/// The part of a requested rate that counts as reached: a late last start alone is no failure.
const REACHED: f64 = 0.99;

/// One run of one tool, as `--json` writes it. Field names contain the units. A value that does not
/// apply is null. Later releases may add fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the tool, such as write-lat.
    pub tool: String,
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
    /// The machine that measured.
    pub host: Host,
    /// The NIC that measured; null if the arguments were invalid.
    pub device: Option<Device>,
    /// Addresses of both sides; null if they did not connect.
    pub addresses: Option<Addresses>,
    /// All options in effect; null if the arguments were invalid.
    pub options: Option<Options>,
    /// The clock that measured.
    pub clock: Clock,
    /// What the tool itself adds to a latency, measured without a NIC before the first size; null in a
    /// bandwidth tool, and if nothing was measured.
    pub measurement_error: Option<MeasurementError>,
    /// One entry for each size, in the order of the run; empty if the arguments were invalid.
    pub results: Vec<SizeResult>,
    /// One entry for each size and each bound of --expect.
    pub expectations: Vec<Verdict>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All sizes were measured, and all expectations were met.
    Complete,
    /// All sizes were measured, but an expectation was not met.
    Unmet,
    /// A signal ended the run.
    Interrupted,
    /// The run failed, or did not start.
    Failed,
}

/// A failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Problem {
    /// Kind of the failure.
    pub kind: String,
    /// What failed and why, in one line.
    pub message: String,
    /// What to check and do, in one line; null if unknown.
    pub hint: Option<String>,
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        Self {
            kind: failure.kind.name().into(),
            message: failure.message(),
            hint: failure.hint.clone(),
        }
    }
}

/// The machine that measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the CPUs, as the kernel names it.
    pub architecture: String,
}

/// A NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub name: String,
    /// Whether it is a software NIC, so that no Cassini hardware was involved; null if the device
    /// was not opened.
    pub is_software: Option<bool>,
    /// Number of the CXI service.
    pub svc_id: u32,
}

/// Addresses of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Addresses {
    /// Fabric address of this side.
    pub local: FabricAddress,
    /// Fabric address of the peer.
    pub remote: FabricAddress,
    /// VNI of this side.
    pub vni: u32,
    /// IP address of the server.
    pub server_ip: String,
    /// TCP port of the server.
    pub server_port: u16,
}

/// An address on the fabric.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FabricAddress {
    /// Address of the NIC.
    pub nic: u32,
    /// PID of the process on this NIC.
    pub pid: u32,
}

/// All options in effect, given or default. An option that the tool does not have is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Options {
    /// Address of the server, as given; null in a loopback run.
    pub address: Option<String>,
    /// --loopback: whether both sides ran in one command.
    pub loopback: bool,
    /// --port; 0 means any free port.
    pub port: u16,
    /// Library that was requested for hardware; null for the default.
    pub libcxi: Option<String>,
    /// --iters: iterations per size; null with --duration.
    pub iters: Option<u64>,
    /// --duration: seconds per size, with --until at most; null without.
    pub duration_s: Option<u32>,
    /// --until: limit of the median's confidence interval, in percent of the median; null without.
    pub until_percent: Option<f64>,
    /// --warmup: iterations before each size that are not measured.
    pub warmup: Option<u64>,
    /// --latency-gap: pause after each iteration, in microseconds.
    pub latency_gap_us: Option<u64>,
    /// First size, in bytes.
    pub min_size_bytes: u64,
    /// Last size, in bytes.
    pub max_size_bytes: u64,
    /// Whether operations are restricted (unordered): no --unrestricted.
    pub restricted: Option<bool>,
    /// Whether Immediate Data Commands are used: no --no-idc.
    pub idc: Option<bool>,
    /// Whether High Rate Puts are used for sizes of up to 2048 bytes: no --no-hrp, --verify or
    /// --both-ends, and nothing else that excludes them.
    pub hrp: Option<bool>,
    /// Whether commands are issued through the low-latency path: no --no-ll.
    pub low_latency: Option<bool>,
    /// --rdzv: whether transfers use rendezvous.
    pub rdzv: Option<bool>,
    /// When the sides of send-lat wait for each other on the control connection: before each "size",
    /// or before each "iteration" (with --legacy-sync, a legacy peer or an older cxidiag). As
    /// requested if the sides did not connect.
    pub sync: Option<String>,
    /// GPU of this side's transmit buffer; null for system memory.
    pub tx_gpu: Option<u8>,
    /// GPU of this side's receive buffer; null for system memory.
    pub rx_gpu: Option<u8>,
    /// Type of this side's GPUs; null without GPUs.
    pub gpu_type: Option<String>,
    /// GPU of the peer's transmit buffer; null for system memory, and if the sides did not connect.
    pub peer_tx_gpu: Option<u8>,
    /// GPU of the peer's receive buffer; null for system memory, and if the sides did not connect.
    pub peer_rx_gpu: Option<u8>,
    /// Type of the peer's GPUs; null without GPUs, and if the sides did not connect.
    pub peer_gpu_type: Option<String>,
    /// --use-hp: size of the huge pages of the data buffers; null without.
    pub use_hp: Option<String>,
    /// CPUs that the measuring thread ran on with --cpu, such as 0-3,8; as given if the run did not
    /// start; null without --cpu.
    pub cpu: Option<String>,
    /// --report-all: whether each sample was printed.
    pub report_all: Option<bool>,
    /// --rate: operations or bytes per second that each issuing side issues, such as "1000 op/s" or
    /// "500000000 B/s"; null without.
    pub rate: Option<String>,
    /// --verify: whether the side that receives data checks it after each size.
    pub verify: Option<bool>,
    /// The operation of an atomic tool.
    pub atomic: Option<AtomicOptions>,
    /// Lists and buffers of a bandwidth tool.
    pub lists: Option<ListOptions>,
    /// --interval: length of the intervals, in seconds; null without.
    pub interval_s: Option<f64>,
    /// --expect: one entry for each bound, as given.
    pub expect: Vec<String>,
}

/// The operation of an atomic tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtomicOptions {
    /// --atomic-op.
    pub op: String,
    /// --cswap-op; null unless the operation is CSWAP.
    pub cswap_op: Option<String>,
    /// --atomic-type.
    #[serde(rename = "type")]
    pub ty: String,
    /// --fetching: whether operations return the previous value of the target.
    pub fetching: bool,
    /// --matching: whether operations address matching list entries.
    pub matching: bool,
}

/// Lists and buffers of a bandwidth tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListOptions {
    /// --list-size: operations per iteration.
    pub list_size: u16,
    /// --bidirectional: whether both sides issue operations.
    pub bidirectional: bool,
    /// --buf-sz: largest buffer, in bytes.
    pub buf_sz_bytes: Option<u64>,
    /// --buf-align: distance between operations in the buffers is a multiple of this, in bytes.
    pub buf_align_bytes: Option<u64>,
    /// --pairs: pairs of queues that work side by side.
    #[serde(default = "one")]
    pub pairs: u16,
    /// --threads: threads that drive them.
    #[serde(default = "one")]
    pub threads: u16,
    /// --reverse: whether the server issues the operations.
    #[serde(default)]
    pub reverse: bool,
    /// --both-ends: whether each side's own view is shown.
    #[serde(default)]
    pub both_ends: bool,
}

/// Returns the number of pairs and threads in documents that do not have them.
fn one() -> u16 {
    1
}

/// The clock that measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Clock {
    /// Name of the clock: TSC, CNTVCT, or a clock of Linux.
    pub name: String,
    /// Resolution of the times, in nanoseconds.
    pub resolution_ns: u64,
    /// Frequency of the counter, measured against CLOCK_MONOTONIC_RAW over the whole run, in Hz;
    /// null for a clock of Linux, and if nothing was measured.
    pub frequency_hz: Option<f64>,
    /// Relative difference between the rate at which counts were converted to nanoseconds and the
    /// rate measured over the whole run, in parts per million; null for a clock of Linux, and if
    /// nothing was measured.
    pub drift_ppm: Option<f64>,
}

impl From<ClockFacts> for Clock {
    fn from(facts: ClockFacts) -> Self {
        Self {
            name: facts.name.into(),
            resolution_ns: facts.resolution_ns,
            frequency_hz: facts.frequency_hz,
            drift_ppm: facts.drift_ppm,
        }
    }
}

/// What the tool itself adds to a latency. Each time contains the cost of about one reading of the
/// clock, as a latency does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasurementError {
    /// Two readings of the clock in a row.
    pub clock: Distribution,
    /// Issuing a command with 8 bytes of data by a low-latency write.
    pub issue: Distribution,
    /// Polling an event that is ready.
    pub poll: Distribution,
    /// Issuing and polling in one sample: about the latency that `write-lat` reports for a NIC that
    /// takes no time.
    pub path: Distribution,
    /// Granularity of the clock, in nanoseconds.
    pub granularity_ns: u64,
    /// Spread of the tool's own part of a latency, in nanoseconds: p99 minus minimum of the path, and
    /// at least the granularity.
    pub spread_ns: u64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample, in nanoseconds.
    pub min_ns: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// Largest sample, in nanoseconds.
    pub max_ns: u64,
}

impl From<measure::Distribution> for Distribution {
    fn from(of: measure::Distribution) -> Self {
        Self {
            count: of.count,
            min_ns: of.min_ns,
            p50_ns: of.p50_ns,
            p99_ns: of.p99_ns,
            max_ns: of.max_ns,
        }
    }
}

impl From<OwnError> for MeasurementError {
    fn from(error: OwnError) -> Self {
        Self {
            clock: error.clock.into(),
            issue: error.issue.into(),
            poll: error.poll.into(),
            path: error.path.into(),
            granularity_ns: error.granularity_ns,
            spread_ns: error.spread_ns(),
        }
    }
}

/// The result of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SizeResult {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// How much of the size was measured.
    pub extent: Extent,
    /// Number of operations that count.
    pub count: u64,
    /// Latencies; null in a bandwidth tool, and without samples.
    pub latency: Option<LatencyResult>,
    /// Bandwidth; null in a latency tool, and if the size was not measured.
    pub bandwidth: Option<BandwidthResult>,
    /// --verify: number of bytes of the last operations that both sides have checked after the size; null
    /// without, and in a partial result.
    pub verified_bytes: Option<u64>,
    /// --rate: how this side kept the schedule; null without, on a side that issues nothing, and in a
    /// partial result.
    pub rate: Option<RateResult>,
    /// Part of the time of the size, in percent, in which the first measuring thread of this side was
    /// ready to run but waited for a CPU; null if unknown.
    pub cpu_wait_percent: Option<f64>,
    /// What was measured in each interval; null without --interval, and if the size was not measured.
    pub intervals: Option<Intervals>,
}

/// How a side kept the schedule of --rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateResult {
    /// Requested operations per second.
    pub requested_operations_per_s: f64,
    /// Operations per second from the first start to the last one, of all pairs of queues together; null
    /// if there was only one start in each.
    pub reached_operations_per_s: Option<f64>,
    /// Whether no start was late, or the reached rate is at least 99 % of the requested one.
    pub is_reached: bool,
    /// Number of starts: iterations of a latency tool, lists of a bandwidth tool.
    pub starts: u64,
    /// Starts whose intended time had passed when the operation or list before had ended.
    pub late_starts: u64,
}

/// How much of a size was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All iterations, or the full duration.
    Complete,
    /// A part: the run ended early.
    Partial,
    /// Nothing: the run ended before this size.
    None,
}

/// Latencies of one size. No sample is excluded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyResult {
    /// Smallest latency, in nanoseconds.
    pub min_ns: u64,
    /// Largest latency, in nanoseconds.
    pub max_ns: u64,
    /// Arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
    /// Where a latency begins with --rate: "intended_start", so that it contains the delay of its start;
    /// null without.
    pub latency_from: Option<String>,
    /// Standard deviation of the samples (of the population), in nanoseconds.
    pub standard_deviation_ns: f64,
    /// Percentiles 50, 90, 99, 99.9, 99.99 and 100, which is the maximum.
    pub percentiles: Vec<PercentileValue>,
    /// Lower end of the 95 % confidence interval of the median, in nanoseconds; null with fewer than
    /// 8 samples.
    pub median_low_ns: Option<u64>,
    /// Upper end of the 95 % confidence interval of the median, in nanoseconds; null with fewer than
    /// 8 samples.
    pub median_high_ns: Option<u64>,
    /// Whether the median is known to the limit of --until; null without, and in a partial result.
    pub median_is_stable: Option<bool>,
}

/// A latency that the given percentage of the samples does not exceed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PercentileValue {
    /// Percentage of the samples, above 0 and up to 100.
    pub percent: f64,
    /// Sample at the nearest rank, in nanoseconds, with at least four significant digits.
    pub value_ns: u64,
    /// Whether fewer than 10 samples lie above this percentile, so that it is unreliable.
    pub too_few_samples: bool,
    /// Whether it differs from the percentile before it (the first one: from the minimum) by less than
    /// the spread of the tool itself, so that the difference may be an error of the measurement; null
    /// if that spread was not measured.
    pub within_own_spread: Option<bool>,
}

/// Bandwidth of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BandwidthResult {
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Packets per second, both directions added.
    pub packet_rate_packets_per_s: f64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations of the peer that count.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
    /// The results of each pair of queues; null without --pairs.
    #[serde(default)]
    pub pairs: Option<Vec<PairResult>>,
    /// This side's own view; null without --both-ends.
    #[serde(default)]
    pub own_view: Option<ViewResult>,
    /// The peer's own view; null without --both-ends.
    #[serde(default)]
    pub peer_view: Option<ViewResult>,
}

/// One side's own view of a size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ViewResult {
    /// Number of operations that the side issued.
    pub issued: u64,
    /// Number of operations that arrived at the side, as its NIC (send-bw: its software) counted them;
    /// null on a side that is no target.
    pub arrived: Option<u64>,
    /// Time from the first barrier to the end of the side's part, in microseconds. A side without a
    /// part of its own waits for the peer's.
    pub elapsed_us: u64,
    /// CPU time of the first measuring thread in this time, in microseconds.
    pub cpu_us: u64,
}

impl From<SideView> for ViewResult {
    fn from(view: SideView) -> Self {
        Self {
            issued: view.issued,
            arrived: view.arrived,
            elapsed_us: view.elapsed_us,
            cpu_us: view.cpu_us,
        }
    }
}

/// The result of one pair of queues.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairResult {
    /// Number of the pair, from 0.
    pub pair: u16,
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Number of operations that this side issued.
    pub count: u64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations that the peer issued.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
}

impl PairResult {
    /// Returns the results of pairs from the counts of both sides, this side first, and their rates.
    pub fn of(pairs: &[([SideResult; 2], Rates)]) -> Vec<Self> {
        let result = |(pair, (sides, rates)): (usize, &([SideResult; 2], Rates))| Self {
            pair: pair as u16,
            bandwidth_bytes_per_s: rates.megabytes * 1e6,
            count: sides[0].count,
            elapsed_us: sides[0].elapsed_us,
            peer_count: sides[1].count,
            peer_elapsed_us: sides[1].elapsed_us,
        };
        pairs.iter().enumerate().map(result).collect()
    }
}

/// Whether a size meets an expectation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// The expectation, as given.
    pub expectation: String,
    /// Whether the expectation is met. A size that was not measured completely meets none.
    pub met: bool,
    /// The measured metric; null if it was not measured.
    pub measured: Option<f64>,
    /// The bound that the metric is compared with.
    pub limit: f64,
    /// Unit of the metric and of the bound.
    pub unit: String,
}

impl SizeResult {
    /// Returns the result of a size that was not measured.
    pub fn none(size: u64) -> Self {
        Self {
            size_bytes: size,
            extent: Extent::None,
            count: 0,
            latency: None,
            bandwidth: None,
            verified_bytes: None,
            rate: None,
            cpu_wait_percent: None,
            intervals: None,
        }
    }

    /// Returns the result of a size from the samples of a latency tool. `own_spread_ns` is the spread
    /// of the tool itself, if it was measured; `until` is the limit of the median, if there is one.
    pub fn of_latencies(
        size: u64,
        recorder: &Recorder,
        extent: Extent,
        own_spread_ns: Option<u64>,
        until: Option<Until>,
    ) -> Self {
        let statistics = recorder.statistics();
        let count = statistics.count();
        let interval = recorder.median_interval();
        let mut before = statistics.min();
        let value = |percentile: Percentile| {
            let value_ns = recorder.percentile(percentile)?;
            let step = value_ns - before;
            before = value_ns;
            Some(PercentileValue {
                percent: percentile.percent(),
                value_ns,
                too_few_samples: !percentile.is_supported_by(count),
                within_own_spread: own_spread_ns.map(|spread| step < spread),
            })
        };
        Self {
            size_bytes: size,
            extent: if count == 0 { Extent::None } else { extent },
            count,
            latency: (count > 0).then(|| LatencyResult {
                min_ns: statistics.min(),
                max_ns: statistics.max(),
                mean_ns: statistics.mean(),
                latency_from: None,
                standard_deviation_ns: statistics.standard_deviation(),
                percentiles: Percentile::STANDARD.into_iter().filter_map(value).collect(),
                median_low_ns: interval.map(|(low, _)| low),
                median_high_ns: interval.map(|(_, high)| high),
                median_is_stable: until
                    .filter(|_| extent == Extent::Complete)
                    .map(|until| until.is_met_by(recorder)),
            }),
            bandwidth: None,
            verified_bytes: None,
            rate: None,
            cpu_wait_percent: None,
            intervals: None,
        }
    }

    /// Returns the result of a size from the counts of both sides of a bandwidth tool, this side
    /// first.
    pub fn of_lists(size: u64, [own, peer]: [SideResult; 2], rates: Rates, extent: Extent) -> Self {
        Self {
            size_bytes: size,
            extent,
            count: own.count,
            latency: None,
            bandwidth: Some(BandwidthResult {
                bandwidth_bytes_per_s: rates.megabytes * 1e6,
                packet_rate_packets_per_s: rates.megapackets * 1e6,
                elapsed_us: own.elapsed_us,
                peer_count: peer.count,
                peer_elapsed_us: peer.elapsed_us,
                pairs: None,
                own_view: None,
                peer_view: None,
            }),
            verified_bytes: None,
            rate: None,
            cpu_wait_percent: None,
            intervals: None,
        }
    }

    /// Adds how the schedule of a rate was kept, with `operations` in each start.
    pub fn with_rate(mut self, rate: Rate, operations: u64, kept: Kept) -> Self {
        let requested = rate.operations(self.size_bytes);
        let reached = kept.per_second.map(|starts| starts * operations as f64);
        self.rate = Some(RateResult {
            requested_operations_per_s: requested,
            reached_operations_per_s: reached,
            is_reached: kept.late == 0
                || reached.is_none_or(|reached| reached >= requested * REACHED),
            starts: kept.starts,
            late_starts: kept.late,
        });
        self
    }

    /// Returns a metric in its base unit, if this result has it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let latency = self.latency.as_ref();
        let bandwidth = self.bandwidth.as_ref();
        match metric {
            Metric::Min => latency.map(|of| of.min_ns as f64),
            Metric::Max => latency.map(|of| of.max_ns as f64),
            Metric::Mean => latency.map(|of| of.mean_ns),
            Metric::Deviation => latency.map(|of| of.standard_deviation_ns),
            Metric::Percentile(percentile) => latency?
                .percentiles
                .iter()
                .find(|value| value.percent == percentile.percent())
                .map(|value| value.value_ns as f64),
            Metric::Bandwidth => bandwidth.map(|of| of.bandwidth_bytes_per_s),
            Metric::PacketRate => bandwidth.map(|of| of.packet_rate_packets_per_s),
        }
    }
}

impl Verdict {
    /// Returns whether a size meets `expectation`, whose metric was measured as `figure`.
    pub fn new(size: u64, expectation: &Expectation, extent: Extent, figure: Option<f64>) -> Self {
        Self {
            size_bytes: size,
            expectation: expectation.text.clone(),
            met: extent == Extent::Complete
                && figure.is_some_and(|figure| expectation.is_met_by(figure)),
            measured: figure,
            limit: expectation.limit,
            unit: expectation.metric.unit().name().into(),
        }
    }

    /// Returns the measured metric with a unit for people.
    pub fn measured_text(&self, metric: Metric) -> String {
        let (unit, scale) = metric.unit().readable();
        match self.measured {
            Some(figure) => format!("{:.3}{unit}", figure / scale),
            None => "-".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::expect;

    fn recorded(samples: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new(None).unwrap();
        samples
            .into_iter()
            .for_each(|sample| recorder.record(sample));
        recorder
    }

    /// An interrupted size may have had too little time.
    #[test]
    fn only_complete_medians_are_stable_or_not() {
        let stability = |extent| {
            let recorder = recorded([1, 1_000]);
            let until = Some(Until { percent: 1.0 });
            let result = SizeResult::of_latencies(8, &recorder, extent, None, until);
            result.latency.and_then(|latency| latency.median_is_stable)
        };
        assert_eq!(stability(Extent::Complete), Some(false));
        assert_eq!(stability(Extent::Partial), None);
    }

    #[test]
    fn returns_latency_metrics() {
        let result =
            SizeResult::of_latencies(8, &recorded(1..=1_000), Extent::Complete, None, None);
        let figure = |name: &str| result.figure(name.parse().unwrap());
        assert_eq!(figure("min"), Some(1.0));
        assert_eq!(figure("max"), Some(1_000.0));
        assert_eq!(figure("mean"), Some(500.5));
        assert_eq!(figure("p99"), Some(990.0));
        assert_eq!(figure("p99.99"), Some(1_000.0));
        assert_eq!(figure("bw"), None);
        let marked: Vec<bool> = result
            .latency
            .unwrap()
            .percentiles
            .iter()
            .map(|p| p.too_few_samples)
            .collect();
        assert_eq!(marked, [false, false, false, true, true, false]);
    }

    #[test]
    fn marks_percentiles_that_the_tool_cannot_distinguish() {
        // Minimum 100, median 104, p90 to p99.99 112, maximum 120.
        let samples = (0..1_000).map(|i| match i {
            0 => 100,
            1..600 => 104,
            600..999 => 112,
            _ => 120,
        });
        let recorder = recorded(samples);
        let marks = |spread| {
            let result = SizeResult::of_latencies(8, &recorder, Extent::Complete, spread, None);
            let percentiles = result.latency.unwrap().percentiles;
            let marks = percentiles.iter().map(|of| of.within_own_spread);
            marks.collect::<Vec<_>>()
        };
        assert_eq!(marks(None), [None; 6]);
        let expected = [true, false, true, true, false, true].map(Some);
        assert_eq!(marks(Some(8)), expected);
    }

    #[test]
    fn returns_bandwidth_metrics() {
        let side = SideResult {
            elapsed_us: 1_000_000,
            count: 10,
        };
        let rates = Rates {
            megabytes: 23.5,
            megapackets: 11.0,
        };
        let result = SizeResult::of_lists(8, [side; 2], rates, Extent::Complete);
        assert_eq!(result.figure(Metric::Bandwidth), Some(23.5e6));
        assert_eq!(result.figure(Metric::PacketRate), Some(11e6));
        assert_eq!(result.figure(Metric::Mean), None);
    }

    #[test]
    fn treats_no_samples_as_not_measured() {
        let result = SizeResult::of_latencies(8, &recorded([]), Extent::Partial, None, None);
        assert_eq!(
            (result.extent, result.latency.is_none()),
            (Extent::None, true)
        );
    }

    #[test]
    fn requires_complete_size_to_meet_expectation() {
        let expectation = &expect::parse("max<4us").unwrap()[0];
        for (extent, figure, met) in [
            (Extent::Complete, Some(3999.0), true),
            (Extent::Complete, Some(4000.0), false),
            (Extent::Complete, None, false),
            (Extent::Partial, Some(3999.0), false),
            (Extent::None, None, false),
        ] {
            assert_eq!(
                Verdict::new(8, expectation, extent, figure).met,
                met,
                "{extent:?}"
            );
        }
    }
}
