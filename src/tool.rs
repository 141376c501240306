//! What a tool is, as plain data: its words, its options, its defaults. Each benchmark owns one.

use crate::run_options::{RunOptions, Side};

/// Name of the program, under which its first argument names the tool.
pub const PROGRAM: &str = "cxidiag";

/// An option of a tool. `cli::options` says how each is typed and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt {
    /// `--device`
    Device,
    /// `--svc-id`
    SvcId,
    /// `--port`
    Port,
    /// `--iters`
    Iters,
    /// `--duration`
    Duration,
    /// `--warmup`
    Warmup,
    /// `--latency-gap`
    LatencyGap,
    /// `--size`
    Size,
    /// `--unrestricted`
    Unrestricted,
    /// `--no-idc`
    NoIdc,
    /// `--no-ll`
    NoLl,
    /// `--report-all`
    ReportAll,
    /// `--atomic-op`
    AtomicOp,
    /// `--cswap-op`
    CswapOp,
    /// `--atomic-type`
    AtomicType,
    /// `--fetching`
    Fetching,
    /// `--matching`
    Matching,
    /// `--list-size`
    ListSize,
    /// `--bidirectional`
    Bidirectional,
    /// `--buf-sz`
    BufSz,
    /// `--buf-align`
    BufAlign,
    /// `--rdzv`
    Rdzv,
    /// `--percentiles`
    Percentiles,
    /// `--json`
    Json,
    /// `--csv`
    Csv,
    /// `--hdr-log`
    HdrLog,
    /// `--expect`
    Expect,
    /// `--quiet`
    Quiet,
    /// `--tx-gpu`
    TxGpu,
    /// `--rx-gpu`
    RxGpu,
    /// `--gpu-type`
    GpuType,
    /// `--use-hp`
    UseHp,
    /// `--cpu`
    Cpu,
    /// `--loopback`
    Loopback,
    /// `--bind`
    Bind,
    /// `--persist`
    Persist,
    /// `--connect-timeout`
    ConnectTimeout,
    /// `--wait`
    Wait,
    /// `--libcxi`
    Libcxi,
}

/// Options of all tools that come first in the help text: they choose the NIC and the port.
const PLACE: &[Opt] = &[Opt::Device, Opt::SvcId, Opt::Port];

/// Options of all tools for results. Two of them are about the distribution of latencies.
const RESULTS: &[Opt] = &[
    Opt::Percentiles,
    Opt::Json,
    Opt::Csv,
    Opt::HdrLog,
    Opt::Expect,
    Opt::Quiet,
];

/// Options of all tools for the connection and for this process, which come last.
const PROCESS: &[Opt] = &[
    Opt::Loopback,
    Opt::Bind,
    Opt::Persist,
    Opt::Wait,
    Opt::ConnectTimeout,
    Opt::Cpu,
    Opt::Libcxi,
];

/// One tool, as the program sees it apart from its measuring.
#[derive(Debug)]
pub struct Tool {
    /// Name as a subcommand of `cxidiag`: `write-lat`.
    pub name: &'static str,
    /// Name of the legacy program: `cxi_write_lat`. Also the program name on the control
    /// connection (wire.md 4.1).
    pub legacy_name: &'static str,
    /// Version announced on the control connection (wire.md 4.1): `2.4.0`.
    pub wire_version: &'static str,
    /// First line of the summary block: `CXI RDMA Write Latency Test`.
    pub title: &'static str,
    /// What it measures, in one line.
    pub about: &'static str,
    /// What one operation is called: `Write`.
    pub operation: &'static str,
    /// What several are called, the title of the second column: `Writes`.
    pub operations: &'static str,
    /// Title of the first column, which is as wide as this title: `RDMA Size[B]`.
    pub size_column: &'static str,
    /// Its options beside those that all tools have, in the order of the help text.
    pub own_options: &'static [Opt],
    /// Run options where the user asks for nothing else.
    pub defaults: RunOptions,
    /// The full data buffers that each side holds.
    pub buffers: FullBuffers,
}

impl Tool {
    /// All options of the tool, in the order of the help text.
    pub fn options(&self) -> impl Iterator<Item = Opt> {
        let results = RESULTS.iter().filter(|option| {
            !self.measures_bandwidth() || !matches!(option, Opt::Percentiles | Opt::HdrLog)
        });
        let all = PLACE.iter().chain(self.own_options).chain(results);
        all.chain(PROCESS).copied()
    }

    /// Whether the tool takes this option.
    pub fn takes(&self, option: Opt) -> bool {
        self.options().any(|own| own == option)
    }

    /// Whether the tool measures bandwidth. Other tools measure latency.
    pub fn measures_bandwidth(&self) -> bool {
        self.defaults.lists.is_some()
    }
}

/// Which sides of a run hold full data buffers: as long as the largest size, or a whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullBuffers {
    /// None: everything that is moved is small.
    None,
    /// The client, for what its NIC initiates, and the server, for what its NIC is the target of.
    OneEach,
    /// Each side both.
    Both,
    /// As [`Self::OneEach`] in one direction, as [`Self::Both`] in a bidirectional run.
    ByDirection,
}

/// The full data buffers of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The buffer that its own operations read from or write to.
    pub initiator: bool,
    /// The buffer that the operations of the peer read from or write to.
    pub target: bool,
}

impl FullBuffers {
    /// Returns the full buffers that `side` holds in `run`.
    pub fn held(self, run: &RunOptions, side: Side) -> Held {
        let one = Held {
            initiator: side == Side::Client,
            target: side == Side::Server,
        };
        let both = Held {
            initiator: true,
            target: true,
        };
        let bidirectional = run.lists.is_some_and(|lists| lists.bidirectional);
        match self {
            Self::None => Held {
                initiator: false,
                target: false,
            },
            Self::OneEach => one,
            Self::Both => both,
            Self::ByDirection if bidirectional => both,
            Self::ByDirection => one,
        }
    }
}
