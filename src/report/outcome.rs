//! The outcome of a run as plain data: what each format of the results is made of.
//!
//! These types are the JSON document, field for field (docs/output-formats.md): units stand in the
//! names, and what does not apply is null.

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::measure::SideResult;
use crate::measure::{Percentile, Rates, Recorder};
use crate::plan::expect::{Expectation, Metric};

/// Version of the document. It changes when a field goes away or changes its meaning; further fields
/// may come without it.
pub const SCHEMA_VERSION: u32 = 1;

/// A run, whatever became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the tool: `write-lat`.
    pub tool: String,
    /// Version of the program.
    pub cxidiag_version: String,
    /// Revision of the sources, where it is known.
    pub cxidiag_revision: Option<String>,
    /// How it ended.
    pub status: Status,
    /// The exit status of the program.
    pub exit_status: u8,
    /// What went wrong; null where nothing did.
    pub error: Option<Problem>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// The machine that measured.
    pub host: Host,
    /// The NIC that measured.
    pub device: Option<Device>,
    /// Who measured with whom; null until they had met.
    pub addresses: Option<Addresses>,
    /// All options in effect; null where they cannot be.
    pub options: Option<Options>,
    /// The clock that measured.
    pub clock: Clock,
    /// One entry for each size of the run, in order.
    pub results: Vec<SizeResult>,
    /// One entry for each size and expectation.
    pub expectations: Vec<Verdict>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All sizes were measured, and all expectations met.
    Complete,
    /// All sizes were measured, but an expectation was not met.
    Unmet,
    /// The user ended it.
    Interrupted,
    /// It failed, or was not even begun.
    Failed,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of thing failed: see [`crate::error::Kind::name`].
    pub kind: String,
    /// What failed, with the cause.
    pub message: String,
    /// What to check and do.
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
pub struct Host {
    /// Its name.
    pub name: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Architecture of its CPUs, as the kernel names it.
    pub architecture: String,
}

/// The NIC that measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Device {
    /// Name of the device.
    pub name: String,
    /// It is made of software: no Cassini hardware is involved. Null until it was opened.
    pub is_software: Option<bool>,
    /// CXI service.
    pub svc_id: u32,
}

/// Who measured with whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
pub struct FabricAddress {
    /// Address of the NIC.
    pub nic: u32,
    /// PID on it.
    pub pid: u32,
}

/// All options in effect. Null is what the tool does not take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The server, as typed; null in a loopback run.
    pub address: Option<String>,
    /// Both sides ran here.
    pub loopback: bool,
    /// `--port`; 0 is any free one.
    pub port: u16,
    /// Library that was asked for.
    pub libcxi: Option<String>,
    /// Iterations per size; null where a duration is set.
    pub iters: Option<u64>,
    /// Seconds per size.
    pub duration_s: Option<u32>,
    /// Unmeasured iterations before each size.
    pub warmup: Option<u64>,
    /// Pause after each iteration.
    pub latency_gap_us: Option<u64>,
    /// First size.
    pub min_size_bytes: u64,
    /// Last size.
    pub max_size_bytes: u64,
    /// Operations are restricted (not ordered).
    pub restricted: Option<bool>,
    /// Immediate data commands.
    pub idc: Option<bool>,
    /// Low-latency command issue.
    pub low_latency: Option<bool>,
    /// Rendezvous transfers.
    pub rdzv: Option<bool>,
    /// GPU of this side's transmit buffer; null where it is system memory.
    pub tx_gpu: Option<u8>,
    /// GPU of this side's receive buffer; null where it is system memory.
    pub rx_gpu: Option<u8>,
    /// Type of this side's GPUs, as found or as asked for; null without.
    pub gpu_type: Option<String>,
    /// The same of the peer; null until they had met, and without.
    pub peer_tx_gpu: Option<u8>,
    /// See [`Options::peer_tx_gpu`].
    pub peer_rx_gpu: Option<u8>,
    /// See [`Options::peer_tx_gpu`].
    pub peer_gpu_type: Option<String>,
    /// Huge pages of the data buffers, `2M` or `1G`; null without.
    pub use_hp: Option<String>,
    /// CPUs that were asked for: `auto` or `0-3,8`; null without.
    pub cpu: Option<String>,
    /// Each latency was printed.
    pub report_all: Option<bool>,
    /// The operation of the atomic tools.
    pub atomic: Option<AtomicOptions>,
    /// Lists and buffers of the bandwidth tools.
    pub lists: Option<ListOptions>,
    /// Expectations, as typed.
    pub expect: Vec<String>,
}

/// The operation of the atomic tools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AtomicOptions {
    /// Operation.
    pub op: String,
    /// Comparison of CSWAP; null for another operation.
    pub cswap_op: Option<String>,
    /// Type.
    #[serde(rename = "type")]
    pub ty: String,
    /// Fetching.
    pub fetching: bool,
    /// On matching list entries.
    pub matching: bool,
}

/// Lists and buffers of the bandwidth tools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListOptions {
    /// Operations per iteration.
    pub list_size: u16,
    /// Both sides send.
    pub bidirectional: bool,
    /// Largest buffer.
    pub buf_sz_bytes: u64,
    /// Spacing in the buffers.
    pub buf_align_bytes: u64,
}

/// The clock that measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// Its name.
    pub name: String,
    /// Its resolution, as the kernel tells it.
    pub resolution_ns: u64,
}

/// What was measured of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SizeResult {
    /// The size.
    pub size_bytes: u64,
    /// How much of it was measured.
    pub extent: Extent,
    /// Operations that count.
    pub count: u64,
    /// Latencies; null in a bandwidth tool, and without samples.
    pub latency: Option<Latency>,
    /// Bandwidth; null in a latency tool, and where nothing was measured.
    pub bandwidth: Option<Bandwidth>,
}

/// How much of a size was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All that was asked for.
    Complete,
    /// Less: the run ended before.
    Partial,
    /// Nothing: the run ended before.
    None,
}

/// The latencies of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Smallest.
    pub min_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Standard deviation of the samples themselves (of the population).
    pub standard_deviation_ns: f64,
    /// Those of [`Percentile::STANDARD`].
    pub percentiles: Vec<PercentileValue>,
}

/// A latency that so many samples do not exceed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PercentileValue {
    /// Part of the samples, up to 100; 100 is the maximum.
    pub percent: f64,
    /// The sample at the nearest rank.
    pub value_ns: u64,
    /// Fewer than ten samples lie above: it says little.
    pub too_few_samples: bool,
}

/// What was moved with one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Packets per second, both directions added.
    pub packet_rate_packets_per_s: f64,
    /// Time that this side took.
    pub elapsed_us: u64,
    /// Operations of the peer.
    pub peer_count: u64,
    /// Time that the peer took.
    pub peer_elapsed_us: u64,
}

/// What became of an expectation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The size.
    pub size_bytes: u64,
    /// The expectation, as typed.
    pub expectation: String,
    /// Whether it is met. A size that was not measured to its end never meets one.
    pub met: bool,
    /// The figure, as far as it was measured.
    pub measured: Option<f64>,
    /// What it must be compared with.
    pub limit: f64,
    /// Unit of both: `ns`, `B/s` or `pkt/s`.
    pub unit: String,
}

impl SizeResult {
    /// Of a size that was not measured.
    pub fn none(size: u64) -> Self {
        Self {
            size_bytes: size,
            extent: Extent::None,
            count: 0,
            latency: None,
            bandwidth: None,
        }
    }

    /// Of what a latency tool recorded.
    pub fn of_latencies(size: u64, recorder: &Recorder, extent: Extent) -> Self {
        let statistics = recorder.statistics();
        let count = statistics.count();
        let value = |percentile: Percentile| {
            Some(PercentileValue {
                percent: percentile.percent(),
                value_ns: recorder.percentile(percentile)?,
                too_few_samples: !percentile.is_supported_by(count),
            })
        };
        Self {
            size_bytes: size,
            extent: if count == 0 { Extent::None } else { extent },
            count,
            latency: (count > 0).then(|| Latency {
                min_ns: statistics.min(),
                max_ns: statistics.max(),
                mean_ns: statistics.mean(),
                standard_deviation_ns: statistics.standard_deviation(),
                percentiles: Percentile::STANDARD.into_iter().filter_map(value).collect(),
            }),
            bandwidth: None,
        }
    }

    /// Of what both sides of a bandwidth tool counted, this one first.
    pub fn of_lists(size: u64, [own, peer]: [SideResult; 2], rates: Rates, extent: Extent) -> Self {
        Self {
            size_bytes: size,
            extent,
            count: own.count,
            latency: None,
            bandwidth: Some(Bandwidth {
                bandwidth_bytes_per_s: rates.megabytes * 1e6,
                packet_rate_packets_per_s: rates.megapackets * 1e6,
                elapsed_us: own.elapsed_us,
                peer_count: peer.count,
                peer_elapsed_us: peer.elapsed_us,
            }),
        }
    }

    /// A figure in its base unit, as far as this result has it.
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
    /// On a size of which so much was measured, with this figure.
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

    /// What was measured, for people.
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

    #[test]
    fn figures_of_a_latency_tool() {
        let result = SizeResult::of_latencies(8, &recorded(1..=1_000), Extent::Complete);
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
    fn figures_of_a_bandwidth_tool() {
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
    fn no_samples_are_nothing_measured() {
        let result = SizeResult::of_latencies(8, &recorded([]), Extent::Partial);
        assert_eq!(
            (result.extent, result.latency.is_none()),
            (Extent::None, true)
        );
    }

    #[test]
    fn only_a_complete_size_meets_an_expectation() {
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
