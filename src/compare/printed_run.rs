//! One run that a tool printed as text: its summary and its rows -> its outcome (tools.md 9, 10).

use std::collections::{BTreeMap, BTreeSet};

use facts::device::FabricAddress;
use facts::expect::Metric;
use measure::MeasuringClock;
use page::json::LARGEST;
use page::problem::Problem;
use plan::depths::{DepthKind, Row};
use plan::tool::Tool;
use report::columns::{self, Datum};
use report::outcome::{
    Addresses, AtomicOptions, BandwidthResult, DeclaredOptions, Extent, Host, LatencyResult,
    ListOptions, Options, Outcome, Side, SizeResult, Status, UsedDevice,
};

/// Text for what the text of a run does not say.
const UNKNOWN: &str = "unknown";

/// Nanoseconds of a microsecond, the unit of printed latencies.
pub(super) const US: f64 = 1e3;

/// Metrics that texts have, or some of them.
const PRINTED_METRICS: [Metric; 4] =
    [Metric::Min, Metric::Max, Metric::Deviation, Metric::PacketRate];

/// The rows of several processes are mixed.
pub(super) struct Mixed;

/// Whether a line is one of the dashes around a table.
pub(super) fn is_rule(line: &str) -> bool {
    line.len() >= 10 && line.bytes().all(|byte| byte == b'-')
}

/// What a table has in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PrintedColumn {
    Size,
    Depth(DepthKind),
    Count,
    /// A metric, in units of this number of its base units.
    Metric(Metric, f64),
    Unknown,
}

impl PrintedColumn {
    fn of(title: &str, tool: &'static Tool) -> Self {
        // `send-lat` has `Bytes` in the user's documents, `Send Size[B]` in today's legacy tools.
        if ["RDMA Size[B]", "Send Size[B]", "AMO Size[B]", "Bytes"].contains(&title) {
            return Self::Size;
        }
        match columns::titled(title, tool) {
            Some((Datum::Depth(kind), _)) => Self::Depth(kind),
            Some((Datum::Count, _)) => Self::Count,
            Some((Datum::Metric(metric), scale)) => Self::Metric(metric, scale),
            _ => Self::Unknown,
        }
    }
}

/// The table that lines belong to.
enum PrintedTable {
    /// The summary, and text between tables.
    None,
    Results,
    /// Each latency of the next size.
    Samples(Vec<u64>),
    /// Intervals, pairs and sides, which are left out: the row of the size has their sum.
    Other,
}

/// A run that is being read.
pub(super) struct PrintedRun {
    pub(super) prefix: String,
    tool: &'static Tool,
    /// Number of the line with the title, from 1.
    line: usize,
    /// The values of the summary by label.
    summary: BTreeMap<String, String>,
    table: PrintedTable,
    /// The columns of the last table of results with this prefix; empty before the first one.
    pub(super) columns: Vec<PrintedColumn>,
    samples: Option<Vec<u64>>,
    results: Vec<SizeResult>,
    rows: BTreeSet<Row>,
    /// Whether a line of dashes follows the last row.
    is_closed: bool,
    /// Whether no row follows the last titles of columns.
    is_titled: bool,
    status: Status,
    /// A latency server, which prints no figures.
    refers_to_client: bool,
}

impl PrintedRun {
    pub(super) fn new(
        prefix: String,
        tool: &'static Tool,
        line: usize,
        columns: Vec<PrintedColumn>,
    ) -> Self {
        Self {
            prefix,
            tool,
            line,
            summary: BTreeMap::new(),
            table: PrintedTable::None,
            columns,
            samples: None,
            results: Vec::new(),
            rows: BTreeSet::new(),
            is_closed: false,
            is_titled: false,
            status: Status::Complete,
            refers_to_client: false,
        }
    }

    /// Reads a line behind its prefix. Returns the figure of a row that is no number.
    pub(super) fn read(&mut self, line: &str) -> Result<Option<String>, Mixed> {
        let line = line.trim_start();
        if is_rule(line) {
            if let PrintedTable::Samples(samples) =
                std::mem::replace(&mut self.table, PrintedTable::None)
            {
                self.samples = Some(samples);
            }
            self.is_closed = true;
            return Ok(None);
        }
        let titles: Vec<&str> = line.split("  ").map(str::trim).collect();
        let titles: Vec<&str> = titles.into_iter().filter(|title| !title.is_empty()).collect();
        match titles.as_slice() {
            ["WriteNum", "Latency[us]"] => self.table = PrintedTable::Samples(Vec::new()),
            ["Start[s]", "End[s]", ..] => self.table = PrintedTable::Other,
            [size, _, _, ..] if PrintedColumn::of(size, self.tool) == PrintedColumn::Size => {
                let columns = titles.iter().map(|title| PrintedColumn::of(title, self.tool));
                let columns: Vec<PrintedColumn> = columns.collect();
                if !columns.contains(&PrintedColumn::Count) {
                    self.table = PrintedTable::Other;
                    return Ok(None);
                }
                // A process that writes alone writes a row below each title.
                if self.is_titled {
                    return Err(Mixed);
                }
                self.is_titled = true;
                self.columns = columns;
                self.table = PrintedTable::Results;
            }
            ["See client for results."] => self.refers_to_client = true,
            ["Interrupted: results are partial", ..] => self.status = Status::Interrupted,
            ["Failed: results are partial", ..] => self.status = Status::Failed,
            _ => return self.read_row(line),
        }
        Ok(None)
    }

    /// Reads a line that is no title.
    fn read_row(&mut self, line: &str) -> Result<Option<String>, Mixed> {
        if let PrintedTable::Other = self.table {
            return Ok(None);
        }
        if let PrintedTable::Samples(samples) = &mut self.table {
            let sample = line.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
            let sample = sample.filter(|us| us.is_finite());
            samples.extend(sample.map(|us| (us * US).round() as u64));
            return Ok(None);
        }
        if let Some((result, unreadable)) = result(&self.columns, line, &mut self.samples) {
            let size = result.size_bytes;
            // The first row has the smallest size.
            let is_first = self.results.is_empty();
            let is_asked = self
                .size("Min")
                .is_none_or(|least| if is_first { size == least } else { size >= least })
                && self.size("Max").is_none_or(|most| size <= most);
            let is_in_table = matches!(self.table, PrintedTable::Results);
            if !is_in_table || !is_asked || !self.rows.insert(result.row()) {
                return Err(Mixed);
            }
            self.results.push(result);
            (self.is_closed, self.is_titled) = (false, false);
            return Ok(unreadable);
        }
        if let Some((label, value)) = line.split_once(':')
            && self.results.is_empty()
        {
            self.summary.insert(label.trim().to_owned(), value.trim().to_owned());
        }
        Ok(None)
    }

    /// Whether the text goes on to the end of the run: to the line after the largest size.
    fn is_whole(&self) -> bool {
        let largest = self.size("Max");
        let last = self.results.last().map(|result| result.size_bytes);
        self.is_closed && last.is_some_and(|last| largest.is_none_or(|largest| last == largest))
    }

    /// Returns how the run ended.
    fn status(&self) -> Status {
        match self.status {
            Status::Complete if !self.is_whole() => Status::Interrupted,
            status => status,
        }
    }

    /// A note on a run without results, or whose text ends early.
    pub(super) fn note(&self) -> Option<String> {
        let what = if self.refers_to_client {
            return None;
        } else if self.results.is_empty() {
            "has no results"
        } else if !self.is_whole() && self.status == Status::Complete {
            "ends before its last line: the sizes before count"
        } else {
            return None;
        };
        Some(format!("the run of {} in line {} {what}", self.tool.name, self.line))
    }

    fn value(&self, label: &str) -> Option<&str> {
        self.summary.get(label).map(String::as_str)
    }

    /// The smallest or largest size of the summary; `edge` is `Min` or `Max`.
    fn size(&self, edge: &str) -> Option<u64> {
        let operation = self.tool.operation;
        let range = self.value(&format!("{edge} {operation} Size"));
        let single = self.value(&format!("{operation} Size"));
        // `loopback-bw` has the unit in the label.
        let single = single.or(self.value(&format!("{operation} Size (B)")));
        first_number(range.or(single)?)
    }

    /// The run as an outcome; `None` for a server without results.
    pub(super) fn into_outcome(self) -> Option<Outcome> {
        let value = |label: &str| self.value(label);
        let side = if value("Local (server)").is_some() { Side::Server } else { Side::Client };
        if self.results.is_empty() && (side == Side::Server || self.refers_to_client) {
            return None;
        }
        let local = value("Local (client)").or(value("Local (server)"));
        let remote = value("Remote (server)").or(value("Remote (client)"));
        let status = self.status();
        let ended = match self.status {
            _ if status == Status::Complete => None,
            Status::Complete => Some("the text of the run ends early"),
            Status::Failed => Some("the run failed, as its text says"),
            _ => Some("the run was interrupted, as its text says"),
        };
        // Without this line it may be a legacy tool, which does not know.
        let is_software = value("Platform").map(|text| text.starts_with("software NIC"));
        let device = value("Device").map(|name| {
            let svc_id = value("Service ID").and_then(first_number).unwrap_or(0);
            UsedDevice { is_software, ..UsedDevice::named(name.into(), svc_id as u32) }
        });
        Some(Outcome {
            tool: self.tool.name.into(),
            side,
            status,
            device,
            addresses: local.zip(remote).and_then(|(local, remote)| addresses(local, remote)),
            options: Some(self.options()),
            results: self.results,
            ..printed(&self.prefix, ended)
        })
    }

    /// The options that the summary shows. The others are null, or the defaults of the legacy tools
    /// where null is not possible.
    fn options(&self) -> Options {
        let value = |label: &str| self.value(label);
        let number = |label: &str| first_number(value(label)?);
        let enabled = |label: &str| Some(value(label)? == "Enabled");
        let on_gpu = |label: &str| first_number(value(label)?.strip_prefix("GPU ")?);
        let sizes = || self.results.iter().map(|result| result.size_bytes);
        let lists = number("List Size").or(number("Cmds per iter")).map(|list_size| ListOptions {
            list_size: list_size.min(u16::MAX.into()) as u16,
            bidirectional: enabled("Bidirectional").unwrap_or(false),
            buf_sz_bytes: number("Max RDMA Buf"),
            buf_align_bytes: number("RDMA Buf Align"),
            pairs: number("Pairs").map_or(1, |pairs| pairs.min(u16::MAX.into()) as u16),
            threads: 1,
            reverse: value("Reverse").is_some(),
            both_ends: false,
        });
        Options {
            iters: number("Iterations"),
            duration_s: number("Duration").map(Into::into),
            warmup: number("Warmup Iters"),
            latency_gap_us: number("Inter-Iter Gap"),
            min_size_bytes: self.size("Min").or(sizes().min()).unwrap_or(0),
            max_size_bytes: self.size("Max").or(sizes().max()).unwrap_or(0),
            restricted: enabled("Restricted"),
            idc: enabled("IDC"),
            hrp: enabled("HRP"),
            low_latency: enabled("LL Cmd Launch"),
            rdzv: enabled("Rendezvous PUTs"),
            declared: DeclaredOptions::printed(value),
            tx_gpu: on_gpu("Client TX Mem").or(on_gpu("TX Mem")).map(|gpu| gpu as u8),
            rx_gpu: on_gpu("Client RX Mem").or(on_gpu("RX Mem")).map(|gpu| gpu as u8),
            gpu_type: value("Client GPU Type").or(value("GPU Type")).map(str::to_owned),
            peer_tx_gpu: on_gpu("Server TX Mem").map(|gpu| gpu as u8),
            peer_rx_gpu: on_gpu("Server RX Mem").map(|gpu| gpu as u8),
            peer_gpu_type: value("Server GPU Type").map(str::to_owned),
            rate: value("Rate").map(str::to_owned),
            atomic: value("Atomic Op").zip(value("Atomic Type")).map(|(op, ty)| {
                let mut words = op.split_whitespace();
                AtomicOptions {
                    fetching: words.next() == Some("FETCHING"),
                    op: words.next().unwrap_or_default().into(),
                    cswap_op: words.next().map(str::to_owned),
                    ty: ty.into(),
                    matching: enabled("Matching LEs").unwrap_or(false),
                }
            }),
            lists,
            ..Options::default()
        }
    }
}

/// An outcome with what all texts lack, with the host in a prefix. It is incomplete if `ended` says
/// how.
pub(super) fn printed(prefix: &str, ended: Option<&str>) -> Outcome {
    let host = host(prefix);
    Outcome {
        schema_version: report::outcome::PRINTED,
        cxidiag_version: UNKNOWN.into(),
        status: if ended.is_some() { Status::Interrupted } else { Status::Complete },
        exit_status: ended.is_some().into(),
        error: ended.map(|ended| Problem {
            kind: "printed".into(),
            message: ended.into(),
            ..Problem::default()
        }),
        host: Host {
            name: if host.is_empty() { Host::UNKNOWN } else { host }.into(),
            kernel: UNKNOWN.into(),
            architecture: UNKNOWN.into(),
        },
        clock: MeasuringClock { name: UNKNOWN.into(), ..MeasuringClock::default() },
        ..Outcome::default()
    }
}

/// The host in a prefix. System journals have `host name[process]: `.
fn host(prefix: &str) -> &str {
    let mut words = prefix.split_whitespace().rev();
    match (words.next(), words.next()) {
        (Some(process), Some(host)) if process.ends_with("]:") => host,
        _ => prefix.trim().trim_end_matches(':'),
    }
}

/// The cells of a row of the table.
#[derive(Default)]
struct PrintedRow<'a> {
    values: Vec<(PrintedColumn, f64)>,
    /// Figures that are no numbers.
    unreadable: Vec<(Metric, &'a str)>,
}

/// The cells of a line, apart from empty ones; `None` if the line is no row of the table.
fn row<'a>(columns: &[PrintedColumn], line: &'a str) -> Option<PrintedRow<'a>> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    if columns.is_empty() || cells.len() != columns.len() {
        return None;
    }
    let PrintedRow { mut values, mut unreadable } = PrintedRow::default();
    for (column, cell) in columns.iter().zip(&cells) {
        let scale = if let PrintedColumn::Metric(_, scale) = column { *scale } else { 1.0 };
        let number = cell.parse().ok();
        let number = number.filter(|number: &f64| (0.0..=LARGEST).contains(&(number * scale)));
        match (*cell, column, number) {
            ("-", ..) => {}
            (_, _, Some(value)) => values.push((*column, value)),
            // An invalid number, such as inf, -nan or one out of range, and no word.
            (cell, PrintedColumn::Metric(metric, _), None)
                if cell.parse::<f64>().is_ok()
                    || cell.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                unreadable.push((*metric, cell));
            }
            _ => return None,
        }
    }
    Some(PrintedRow { values, unreadable })
}

/// The result in a row, and its figures that are no numbers; `None` if the line is no row of the
/// table.
pub(super) fn result(
    columns: &[PrintedColumn],
    line: &str,
    samples: &mut Option<Vec<u64>>,
) -> Option<(SizeResult, Option<String>)> {
    let PrintedRow { values, unreadable } = row(columns, line)?;
    let value = |wanted: PrintedColumn| {
        values.iter().find(|(column, _)| *column == wanted).map(|(_, value)| *value)
    };
    let figure = |wanted: Metric| {
        let known = values.iter().find_map(|(column, value)| match column {
            PrintedColumn::Metric(metric, scale) if *metric == wanted => Some(value * scale),
            _ => None,
        });
        known.or(unreadable.iter().any(|(metric, _)| *metric == wanted).then_some(0.0))
    };
    let ns = |metric| figure(metric).map(f64::round);
    let count = value(PrintedColumn::Count).unwrap_or(0.0) as u64;
    let depth = |kind| value(PrintedColumn::Depth(kind)).map(|depth| depth as u16);
    let row = Row {
        size: value(PrintedColumn::Size)? as u64,
        posted: depth(DepthKind::Posted),
        unexpected: depth(DepthKind::Unexpected),
    };
    let result = SizeResult {
        extent: Extent::Complete,
        count,
        latency: ns(Metric::Mean).map(|mean_ns| LatencyResult {
            min_ns: ns(Metric::Min).unwrap_or(0.0) as u64,
            max_ns: ns(Metric::Max).unwrap_or(0.0) as u64,
            mean_ns,
            standard_deviation_ns: ns(Metric::Deviation).unwrap_or(0.0),
            samples_ns: samples.take(),
            ..LatencyResult::default()
        }),
        bandwidth: figure(Metric::Bandwidth).map(|bandwidth_bytes_per_s| BandwidthResult {
            bandwidth_bytes_per_s,
            packet_rate_packets_per_s: figure(Metric::PacketRate).unwrap_or(0.0),
            ..BandwidthResult::default()
        }),
        unreadable: unreadable
            .iter()
            .map(|(metric, _)| *metric)
            .chain(PRINTED_METRICS.into_iter().filter(|metric| figure(*metric).is_none()))
            .collect(),
        ..SizeResult::none(row.size)
    };
    let named = unreadable.iter().map(|(metric, cell)| format!("{metric} '{cell}'"));
    let named = named.collect::<Vec<_>>().join(", ");
    Some((result.in_row(row), Some(named).filter(|named| !named.is_empty())))
}

/// The addresses of both sides: `NIC 0x13 PID 0 VNI 1` and `NIC 0x12 PID 0`.
fn addresses(local: &str, remote: &str) -> Option<Addresses> {
    let address = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (["NIC", nic, "PID", pid], rest) = words.split_first_chunk::<4>()? else {
            return None;
        };
        let nic = u32::from_str_radix(nic.strip_prefix("0x")?, 16).ok()?;
        let vni = rest.iter().skip_while(|word| **word != "VNI").nth(1);
        let vni = vni.and_then(|vni| vni.parse().ok()).unwrap_or(0);
        Some((FabricAddress { nic, pid: pid.parse().ok()? }, vni))
    };
    let ((local, vni), (remote, _)) = (address(local)?, address(remote)?);
    Some(Addresses { local, remote, vni, server_ip: String::new(), server_port: 0 })
}

/// The number that a text begins with.
fn first_number(text: &str) -> Option<u64> {
    let end = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}
