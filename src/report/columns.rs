//! The columns of the results: one table for the text, CSV and `compare`.
//!
//! A further column is one row of [`COLUMNS`]. JSON has its fields in [`super::outcome`].

use super::intervals::{Interval, IntervalFigures};
use super::outcome::{ExpectationResult, FanResult, Outcome, SizeResult, WriteResult};
use facts::bandwidth_unit::BandwidthUnit;
use facts::expect::Metric;
use facts::percentile::Percentile;
use plan::depths::DepthKind;
use plan::run_options::RunOptions;
use plan::tool::Tool;

/// One column: its value, and its form in each output that has it.
#[derive(Clone, Copy)]
pub struct Column {
    /// What it shows.
    pub value: Datum,
    /// Its title in CSV.
    pub csv: Option<&'static str>,
    /// Whether `compare` shows it for every size.
    pub compared: bool,
    text: Option<TextForm>,
    /// Whether the table of intervals has it as well, in the same form.
    is_in_intervals: bool,
}

/// What a column shows.
#[derive(Clone, Copy)]
pub enum Datum {
    /// A fact about the run or the size, in CSV only.
    Fact(fn(&Outcome, &CsvRow) -> String),
    /// A fact about an interval, in CSV only.
    IntervalFact(fn(&Interval) -> f64),
    /// What stands before the entry or message that matches.
    Depth(DepthKind),
    /// The number of operations that count.
    Count,
    Metric(Metric),
}

/// A table of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTable {
    /// The documented table of the run.
    Results,
    /// The intervals of a size.
    Intervals,
}

/// What the tables of the text depend on.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub tool: &'static Tool,
    pub unit: BandwidthUnit,
    /// What stands before the entry or message that matches, if anything does in any row.
    pub depth: Option<DepthKind>,
}

impl Layout {
    /// The layout of a run with these options.
    pub fn new(tool: &'static Tool, unit: BandwidthUnit, run: &RunOptions) -> Self {
        Self { tool, unit, depth: run.extensions.depth() }
    }

    /// A bandwidth as text, without the unit.
    pub fn bandwidth(self, bytes_per_s: f64) -> String {
        match self.unit {
            // Two decimals, as the legacy tool has them.
            BandwidthUnit::Gigabits if !self.tool.has_peer() => {
                format!("{:.2}", bytes_per_s / self.unit.bytes_per_s())
            }
            unit => unit.text(bytes_per_s),
        }
    }

    /// The layout of the documented text.
    #[cfg(test)]
    pub fn of(tool: &'static Tool) -> Self {
        let unit = BandwidthUnit::default();
        Self { tool, unit, depth: None }
    }
}

/// Titles of the first two columns of [`TextTable::Intervals`], whose rows have the times or a
/// label.
const TIMES: &str = "  Start[s]      End[s]";

/// The form of a column in a table of the text.
#[derive(Clone, Copy)]
struct TextForm {
    /// Whether the table of results has the column.
    is_in_results: bool,
    title: &'static str,
    width: usize,
    decimals: usize,
}

/// What a row of CSV shows.
#[derive(Clone, Copy)]
pub struct CsvRow<'a> {
    pub result: &'a SizeResult,
    /// An interval of the size; `None` in the row of the whole size.
    pub interval: Option<&'a Interval>,
}

impl CsvRow<'_> {
    /// The writes that the whole size was compared with, in the row of the whole size.
    fn own_write(&self) -> Option<WriteResult> {
        self.result.write.filter(|_| self.interval.is_none())
    }

    /// The fans, in the row of the whole size.
    fn own_fan(&self) -> Option<FanResult> {
        self.result.fan.filter(|_| self.interval.is_none())
    }
}

/// All columns, in the order of every output.
pub static COLUMNS: &[Column] = &[
    Column::fact("tool", |run, _| run.tool.clone()),
    Column::fact("host", |run, _| run.host.name.clone()),
    Column::fact("device", |run, _| text(run.device.as_ref().map(|device| &device.name))),
    Column::fact("software_nic", |run, _| {
        text(run.device.as_ref().and_then(|device| device.is_software))
    }),
    Column::fact("started_unix_ms", |run, _| run.started_unix_ms.to_string()),
    Column::fact("status", |run, _| name(run.status)),
    Column::fact("size_bytes", |_, row| text(Some(row.result.size_bytes).filter(|size| *size > 0))),
    Column::of(Datum::Depth(DepthKind::Posted)).csv("posted").results("Posted", 6, 0),
    Column::of(Datum::Depth(DepthKind::Unexpected)).csv("unexpected").results("Unexpected", 10, 0),
    Column::fact("extent", |_, row| match row.interval {
        Some(_) => "interval".into(),
        None => name(row.result.extent),
    }),
    Column::of(Datum::Count).csv("count").results("", 10, 0).in_intervals(),
    Column::metric(Metric::Min).csv("min_ns").results("Min[us]", 10, 2).compared(),
    Column::metric(Metric::Max).csv("max_ns").results("Max[us]", 10, 2).compared(),
    Column::metric(Metric::Mean)
        .csv("mean_ns")
        .results("Mean[us]", 10, 2)
        .compared()
        .in_intervals(),
    Column::metric(Metric::Deviation).csv("standard_deviation_ns").results("StdDev[us]", 10, 2),
    Column::percentile(0).csv("p50_ns").compared(),
    Column::percentile(1).csv("p90_ns"),
    Column::percentile(2).csv("p99_ns").text(false, "p99[us]", 10, 3).compared().in_intervals(),
    Column::percentile(3).csv("p99.9_ns"),
    Column::percentile(4).csv("p99.99_ns"),
    Column::fact("write_p50_ns", |_, row| text(row.own_write().map(|write| write.median_ns))),
    Column::fact("beyond_hop_ns", |_, row| text(row.own_write().map(|write| write.beyond_hop_ns))),
    Column::fact("fan_first_ns", |_, row| text(row.own_fan().map(|fan| fan.first_ns))),
    Column::fact("fan_span_ns", |_, row| text(row.own_fan().map(|fan| fan.span_ns))),
    Column::metric(Metric::Bandwidth)
        .csv("bandwidth_bytes_per_s")
        .results("", 8, 2)
        .compared()
        .in_intervals(),
    Column::metric(Metric::PacketRate)
        .csv("packet_rate_packets_per_s")
        .results("", 15, 6)
        .compared()
        .in_intervals(),
    Column::fact("expectations_met", expectations_met),
    Column::fact("error", |run, _| text(run.error.as_ref().map(|problem| &problem.message))),
    Column::fact("hint", |run, _| {
        text(run.error.as_ref().and_then(|problem| problem.hint.as_ref()))
    }),
    Column::of(Datum::IntervalFact(|interval| interval.start_s)).csv("interval_start_s"),
    Column::of(Datum::IntervalFact(|interval| interval.end_s)).csv("interval_end_s"),
];

impl Column {
    const fn of(value: Datum) -> Self {
        Self { value, csv: None, compared: false, text: None, is_in_intervals: false }
    }

    const fn fact(csv: &'static str, fact: fn(&Outcome, &CsvRow) -> String) -> Self {
        Self::of(Datum::Fact(fact)).csv(csv)
    }

    const fn metric(metric: Metric) -> Self {
        Self::of(Datum::Metric(metric))
    }

    /// The percentile at this place of [`Percentile::STANDARD`].
    const fn percentile(at: usize) -> Self {
        Self::metric(Metric::Percentile(Percentile::STANDARD[at]))
    }

    const fn csv(mut self, title: &'static str) -> Self {
        self.csv = Some(title);
        self
    }

    const fn compared(mut self) -> Self {
        self.compared = true;
        self
    }

    const fn in_intervals(mut self) -> Self {
        self.is_in_intervals = true;
        self
    }

    const fn results(self, title: &'static str, width: usize, decimals: usize) -> Self {
        self.text(true, title, width, decimals)
    }

    const fn text(
        mut self,
        is_in_results: bool,
        title: &'static str,
        width: usize,
        decimals: usize,
    ) -> Self {
        self.text = Some(TextForm { is_in_results, title, width, decimals });
        self
    }

    /// The metric, if the column shows one.
    pub fn shown_metric(&self) -> Option<Metric> {
        match self.value {
            Datum::Metric(metric) => Some(metric),
            Datum::Fact(_) | Datum::IntervalFact(_) | Datum::Depth(_) | Datum::Count => None,
        }
    }

    /// Whether CSV has the column, `with_intervals` or without.
    pub fn is_in_csv(&self, with_intervals: bool) -> bool {
        let is_of_row = !matches!(self.value, Datum::IntervalFact(_));
        self.csv.is_some() && (is_of_row || with_intervals)
    }

    /// The field of a CSV row: a metric in its base unit, and nothing if it does not apply.
    pub fn field(&self, run: &Outcome, row: &CsvRow) -> String {
        let figures = row.interval.map(|interval| interval.figures);
        match self.value {
            Datum::Fact(fact) => fact(run, row),
            Datum::IntervalFact(fact) => text(row.interval.map(fact)),
            Datum::Depth(kind) => text(row.result.row().depth(kind)),
            Datum::Count => figures.map_or(row.result.count, |figures| figures.count).to_string(),
            Datum::Metric(metric) => text(match figures {
                Some(figures) => figures.figure(metric),
                None => row.result.figure(metric),
            }),
        }
    }
}

/// Returns what the column with this title shows in the table of results of `tool`, in any unit of
/// bandwidths, and how many of its base units a metric is shown in.
pub fn titled(title: &str, tool: &'static Tool) -> Option<(Datum, f64)> {
    let depths = [None, Some(DepthKind::Posted), Some(DepthKind::Unexpected)];
    let with_depth = |depth| BandwidthUnit::ALL.map(|unit| Layout { tool, unit, depth });
    depths.into_iter().flat_map(with_depth).find_map(|layout| {
        let mut columns = table_pairs(layout, TextTable::Results);
        let (column, _) =
            columns.find(|(column, form)| self::title(column, *form, layout) == title)?;
        let scale = match column.value {
            Datum::Metric(Metric::Bandwidth) => layout.unit.bytes_per_s(),
            Datum::Metric(metric) => metric.unit().readable().1,
            _ => 1.0,
        };
        Some((column.value, scale))
    })
}

pub fn header(layout: Layout, table: TextTable) -> String {
    let first = match table {
        TextTable::Intervals => TIMES,
        TextTable::Results => layout.tool.size_column,
    };
    table_pairs(layout, table).fold(first.to_owned(), |header, (column, form)| {
        let title = title(column, form, layout);
        format!("{header}  {title:>width$}", width = form.width)
    })
}

/// The row of a result, of which `count` operations are shown.
pub fn row(layout: Layout, result: &SizeResult, count: Option<u64>) -> String {
    let size = format!("{:width$}", result.size_bytes, width = layout.tool.size_column.len());
    let cells = table_pairs(layout, TextTable::Results);
    cells.fold(size, |row, (column, form)| {
        let number = match column.value {
            Datum::Depth(kind) => result.row().depth(kind).map(u64::from),
            _ => count,
        };
        row + &cell(column, form, layout, number, |metric| result.figure(metric))
    })
}

/// A row of the table of intervals. `times` are start and end, or a label.
pub fn interval_row(layout: Layout, times: &str, figures: &IntervalFigures) -> String {
    let first = format!("{times:width$}", width = TIMES.len());
    let count = Some(figures.count);
    let cells = table_pairs(layout, TextTable::Intervals);
    cells.fold(first, |row, (column, form)| {
        row + &cell(column, form, layout, count, |metric| figures.figure(metric))
    })
}

fn title(column: &Column, form: TextForm, layout: Layout) -> String {
    match column.value {
        Datum::Count => layout.tool.operations.into(),
        Datum::Metric(Metric::PacketRate) => layout.tool.rate_column().into(),
        Datum::Metric(Metric::Bandwidth) => format!("BW[{}]", layout.unit),
        _ => form.title.into(),
    }
}

/// The text of a cell, with the space before it: of the metric that `figure` returns, or of this
/// number.
fn cell(
    column: &Column,
    form: TextForm,
    layout: Layout,
    number: Option<u64>,
    figure: impl Fn(Metric) -> Option<f64>,
) -> String {
    let text = match column.value {
        Datum::Count | Datum::Depth(_) => number.map(|number| number.to_string()),
        Datum::Metric(Metric::Bandwidth) => {
            figure(Metric::Bandwidth).map(|bandwidth| layout.bandwidth(bandwidth))
        }
        Datum::Metric(metric) => figure(metric).map(|figure| {
            let (_, scale) = metric.unit().readable();
            format!("{:.*}", form.decimals, figure / scale)
        }),
        Datum::Fact(_) | Datum::IntervalFact(_) => None,
    };
    let text = text.unwrap_or_else(|| "-".into());
    let width = form.width.max(title(column, form, layout).len());
    format!("  {text:>width$}")
}

fn table_pairs(
    layout: Layout,
    table: TextTable,
) -> impl Iterator<Item = (&'static Column, TextForm)> {
    COLUMNS
        .iter()
        .filter(move |column| match column.value {
            Datum::Metric(metric) => metric.is_of_bandwidth() == layout.tool.measures_bandwidth(),
            Datum::Depth(kind) => layout.depth == Some(kind),
            _ => true,
        })
        .filter_map(|column| Some((column, column.text?)))
        .filter(move |(column, form)| match table {
            TextTable::Intervals => column.is_in_intervals,
            TextTable::Results => form.is_in_results,
        })
}

/// A value as text, or nothing if it does not apply.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The name that a value has in the JSON document.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Whether the size meets all expectations; nothing if there are none, and for an interval.
fn expectations_met(run: &Outcome, row: &CsvRow) -> String {
    let is_of_row =
        |verdict: &&ExpectationResult| row.interval.is_none() && verdict.row() == row.result.row();
    let mut row_expectations = run.expectations.iter().filter(is_of_row).peekable();
    match row_expectations.peek() {
        None => String::new(),
        Some(_) => row_expectations.all(|verdict| verdict.met).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::tools::TOOLS;

    #[test]
    fn shows_metrics_of_the_tool_only() {
        for tool in TOOLS {
            let header = header(Layout::of(tool), TextTable::Results);
            let is_bandwidth = tool.defaults.lists.is_some();
            assert_eq!(header.contains("BW[MB/s]"), is_bandwidth, "{header}");
            assert_eq!(header.contains("Mean[us]"), !is_bandwidth, "{header}");
        }
    }
}
