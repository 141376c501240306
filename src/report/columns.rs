//! The columns of the results: one table for the text, the percentiles, CSV and `compare`.
//!
//! A further column is one row of [`COLUMNS`]. JSON has its fields in [`super::outcome`].

use super::outcome::{Outcome, PercentileValue, SizeResult};
use crate::measure::Percentile;
use crate::plan::expect::Metric;
use crate::tool::Tool;

/// One column: its value, and its form in each output that has it.
#[derive(Clone, Copy)]
pub struct Column {
    /// What it shows.
    pub value: Value,
    /// Its title in CSV.
    pub csv: Option<&'static str>,
    /// Whether `compare` shows it for every size.
    pub compared: bool,
    text: Option<TextForm>,
}

/// What a column shows.
#[derive(Clone, Copy)]
pub enum Value {
    /// A fact about the run or the size, in CSV only.
    Fact(fn(&Outcome, &SizeResult) -> String),
    /// The number of operations that count.
    Count,
    /// A metric.
    Metric(Metric),
}

/// A table of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The documented table of the run.
    Results,
    /// The block of percentiles after it.
    Percentiles,
}

/// The form of a column in a table of the text.
#[derive(Clone, Copy)]
struct TextForm {
    table: Table,
    title: &'static str,
    width: usize,
    decimals: usize,
}

/// All columns, in the order of every output.
pub static COLUMNS: &[Column] = &[
    Column::fact("tool", |run, _| run.tool.clone()),
    Column::fact("host", |run, _| run.host.name.clone()),
    Column::fact("device", |run, _| {
        text(run.device.as_ref().map(|of| &of.name))
    }),
    Column::fact("software_nic", |run, _| {
        text(run.device.as_ref().and_then(|of| of.is_software))
    }),
    Column::fact("started_unix_ms", |run, _| run.started_unix_ms.to_string()),
    Column::fact("status", |run, _| name(run.status)),
    Column::fact("size_bytes", |_, of| {
        text(Some(of.size_bytes).filter(|size| *size > 0))
    }),
    Column::fact("extent", |_, of| name(of.extent)),
    Column::of(Value::Count).csv("count").results("", 10, 0),
    Column::metric(Metric::Min)
        .csv("min_ns")
        .results("Min[us]", 10, 2)
        .compared(),
    Column::metric(Metric::Max)
        .csv("max_ns")
        .results("Max[us]", 10, 2)
        .compared(),
    Column::metric(Metric::Mean)
        .csv("mean_ns")
        .results("Mean[us]", 10, 2)
        .compared(),
    Column::metric(Metric::Deviation)
        .csv("standard_deviation_ns")
        .results("StdDev[us]", 10, 2),
    Column::percentile(0, "p50[us]").csv("p50_ns").compared(),
    Column::percentile(1, "p90[us]").csv("p90_ns"),
    Column::percentile(2, "p99[us]").csv("p99_ns").compared(),
    Column::percentile(3, "p99.9[us]").csv("p99.9_ns"),
    Column::percentile(4, "p99.99[us]").csv("p99.99_ns"),
    Column::percentile(5, "Max[us]"),
    Column::metric(Metric::Bandwidth)
        .csv("bandwidth_bytes_per_s")
        .results("BW[MB/s]", 8, 2)
        .compared(),
    Column::metric(Metric::PacketRate)
        .csv("packet_rate_packets_per_s")
        .results("", 15, 6)
        .compared(),
    Column::fact("expectations_met", expectations_met),
    Column::fact("error", |run, _| {
        text(run.error.as_ref().map(|of| &of.message))
    }),
    Column::fact("hint", |run, _| {
        text(run.error.as_ref().and_then(|of| of.hint.as_ref()))
    }),
];

impl Column {
    const fn of(value: Value) -> Self {
        Self {
            value,
            csv: None,
            compared: false,
            text: None,
        }
    }

    const fn fact(csv: &'static str, fact: fn(&Outcome, &SizeResult) -> String) -> Self {
        Self::of(Value::Fact(fact)).csv(csv)
    }

    const fn metric(metric: Metric) -> Self {
        Self::of(Value::Metric(metric))
    }

    /// The percentile at this place of [`Percentile::STANDARD`].
    const fn percentile(at: usize, title: &'static str) -> Self {
        let percentile = Percentile::STANDARD[at];
        Self::metric(Metric::Percentile(percentile)).text(Table::Percentiles, title, 10, 3)
    }

    const fn csv(mut self, title: &'static str) -> Self {
        self.csv = Some(title);
        self
    }

    const fn compared(mut self) -> Self {
        self.compared = true;
        self
    }

    const fn results(self, title: &'static str, width: usize, decimals: usize) -> Self {
        self.text(Table::Results, title, width, decimals)
    }

    const fn text(
        mut self,
        table: Table,
        title: &'static str,
        width: usize,
        decimals: usize,
    ) -> Self {
        self.text = Some(TextForm {
            table,
            title,
            width,
            decimals,
        });
        self
    }

    /// Returns the metric, if the column shows one.
    pub fn shown_metric(&self) -> Option<Metric> {
        match self.value {
            Value::Metric(metric) => Some(metric),
            Value::Fact(_) | Value::Count => None,
        }
    }

    /// Returns the field of a CSV row: a metric in its base unit, and nothing if it does not apply.
    pub fn field(&self, run: &Outcome, result: &SizeResult) -> String {
        match self.value {
            Value::Fact(fact) => fact(run, result),
            Value::Count => result.count.to_string(),
            Value::Metric(metric) => text(result.figure(metric)),
        }
    }
}

/// Returns the header of a table of `tool`.
pub fn header(tool: &Tool, table: Table) -> String {
    of_table(tool, table).fold(tool.size_column.to_owned(), |header, (column, form)| {
        let title = match column.value {
            Value::Count => tool.operations,
            Value::Metric(Metric::PacketRate) => tool.rate_column(),
            _ => form.title,
        };
        format!(
            "{header}  {title:>width$}",
            width = form.width + marks(table)
        )
    })
}

/// Returns the row of a result, of which `count` operations are shown. `own_spread` adds the marks of
/// percentiles that differ by less than the spread of the tool.
pub fn row(
    tool: &Tool,
    table: Table,
    result: &SizeResult,
    count: Option<u64>,
    own_spread: bool,
) -> String {
    let size = format!(
        "{:width$}",
        result.size_bytes,
        width = tool.size_column.len()
    );
    let row = of_table(tool, table).fold(size, |row, (column, form)| {
        let cell = match column.value {
            Value::Count => count.map(|count| count.to_string()),
            Value::Metric(metric) => result.figure(metric).map(|figure| {
                let (_, scale) = metric.unit().readable();
                format!("{:.*}", form.decimals, figure / scale)
            }),
            Value::Fact(_) => None,
        };
        let cell = cell.unwrap_or_else(|| "-".into());
        let mark = match marked(column, table, result) {
            Some(value) if value.too_few_samples => FEW_SAMPLES,
            Some(value) if own_spread && value.within_own_spread == Some(true) => OWN_SPREAD,
            _ => "",
        };
        let (width, marks) = (form.width, marks(table));
        format!("{row}  {cell:>width$}{mark:marks$}")
    });
    row.trim_end().to_owned()
}

/// Marks a percentile of too few samples.
pub const FEW_SAMPLES: &str = "*";

/// Marks a percentile that differs from the one before it by less than the spread of the tool.
pub const OWN_SPREAD: &str = "~";

/// The width of the marks behind each cell.
fn marks(table: Table) -> usize {
    match table {
        Table::Results => 0,
        Table::Percentiles => FEW_SAMPLES.len(),
    }
}

/// Returns the percentile that a cell shows, in a table with marks.
fn marked<'a>(
    column: &Column,
    table: Table,
    result: &'a SizeResult,
) -> Option<&'a PercentileValue> {
    let (Table::Percentiles, Some(Metric::Percentile(percentile))) = (table, column.shown_metric())
    else {
        return None;
    };
    let mut values = result.latency.iter().flat_map(|of| &of.percentiles);
    values.find(|value| value.percent == percentile.percent())
}

fn of_table(tool: &Tool, table: Table) -> impl Iterator<Item = (&'static Column, TextForm)> {
    COLUMNS
        .iter()
        .filter(move |column| {
            let metric = column.shown_metric();
            metric.is_none_or(|metric| metric.belongs_to(tool))
        })
        .filter_map(|column| Some((column, column.text?)))
        .filter(move |(_, form)| form.table == table)
}

/// Returns a value as text, or nothing if it does not apply.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns the name that a value has in the JSON document.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Returns whether the size meets all expectations; nothing if there are none.
fn expectations_met(run: &Outcome, result: &SizeResult) -> String {
    let mut of_size = run
        .expectations
        .iter()
        .filter(|verdict| verdict.size_bytes == result.size_bytes)
        .peekable();
    match of_size.peek() {
        None => String::new(),
        Some(_) => of_size.all(|verdict| verdict.met).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;

    #[test]
    fn names_each_csv_column_once() {
        let mut titles: Vec<_> = COLUMNS.iter().filter_map(|column| column.csv).collect();
        let count = titles.len();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), count);
    }

    #[test]
    fn shows_each_standard_percentile() {
        for percentile in Percentile::STANDARD {
            let metric = Metric::Percentile(percentile);
            let shown = COLUMNS
                .iter()
                .filter(|column| column.shown_metric() == Some(metric));
            assert_eq!(shown.count(), 1, "{metric}");
        }
    }

    #[test]
    fn documents_each_csv_column() {
        let page = include_str!("../../docs/output-formats.md");
        for title in COLUMNS.iter().filter_map(|column| column.csv) {
            assert!(page.contains(title), "{title}");
        }
    }

    #[test]
    fn shows_metrics_of_the_tool_only() {
        for tool in TOOLS {
            let header = header(tool, Table::Results);
            let is_bandwidth = tool.defaults.lists.is_some();
            assert_eq!(header.contains("BW[MB/s]"), is_bandwidth, "{header}");
            assert_eq!(header.contains("Mean[us]"), !is_bandwidth, "{header}");
        }
    }
}
