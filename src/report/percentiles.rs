//! The block of percentiles after the table of results, on request.

use std::iter;

use super::outcome::{PercentileValue, SizeResult};
use facts::percentile::Percentile;
use page::table::WIDTH;
use plan::tool::Tool;

/// Marks a percentile of too few samples.
const FEW_SAMPLES: char = '*';

/// Marks a percentile that differs from the one before it by less than the spread of the tool.
const OWN_SPREAD: char = '~';

/// One percentile: its title, and its cell for each size, with the mark if any cell has one.
struct PercentileColumn {
    width: usize,
    title: String,
    cells: Vec<String>,
}

/// Returns `percentiles` of each size that has latencies, as lines. `own_spread` marks those that
/// the tool cannot distinguish.
pub fn lines(
    tool: &Tool,
    results: &[SizeResult],
    percentiles: &[Percentile],
    own_spread: bool,
) -> Vec<String> {
    let measured: Vec<_> = results.iter().filter(|result| result.latency.is_some()).collect();
    let columns: Vec<PercentileColumn> =
        percentiles.iter().map(|percentile| column(*percentile, &measured, own_spread)).collect();
    let sizes: Vec<String> = measured.iter().map(|result| result.row().cell()).collect();
    let sizes = PercentileColumn {
        width: sizes.iter().map(String::len).max().unwrap_or(0).max(tool.size_column.len()),
        title: tool.size_column.to_owned(),
        cells: sizes,
    };
    let (mut lines, mut widest) = (Vec::new(), 0);
    for columns in tables(&columns, sizes.width) {
        let line = |text: &dyn Fn(&PercentileColumn) -> String| {
            let cell = |column| format!("{:>width$}", text(column), width = column.width);
            let cells = iter::once(&sizes).chain(columns).map(cell);
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let header = line(&|column| column.title.clone());
        widest = widest.max(header.len());
        lines.push(header);
        lines.extend((0..measured.len()).map(|row| line(&|column| column.cells[row].clone())));
    }
    for (mark, meaning) in [
        (FEW_SAMPLES, "fewer than 10 samples above this percentile: unreliable"),
        (OWN_SPREAD, "differs from the percentile before it by less than the spread of the tool"),
    ] {
        let mut cells = columns.iter().flat_map(|column| &column.cells);
        if cells.any(|cell| cell.ends_with(mark)) {
            lines.push(format!("{mark} {meaning}"));
        }
    }
    lines.push("-".repeat(widest));
    lines
}

fn column(percentile: Percentile, measured: &[&SizeResult], own_spread: bool) -> PercentileColumn {
    let name =
        if percentile == Percentile::MAX { "Max".to_owned() } else { percentile.to_string() };
    let value = |result: &&SizeResult| {
        let mut values = result.latency.iter().flat_map(|latency| &latency.percentiles);
        let found = values.find(|value| value.percent == percentile.percent());
        found.map_or(("-".to_owned(), ' '), |value| {
            let us = format!("{}.{:03}", value.value_ns / 1000, value.value_ns % 1000);
            (us, mark(value, own_spread))
        })
    };
    let values: Vec<(String, char)> = measured.iter().map(value).collect();
    let has_mark = values.iter().any(|(_, mark)| *mark != ' ');
    let with_mark = |(text, mark): (String, char)| {
        if has_mark { format!("{text}{mark}") } else { text }
    };
    let title = with_mark((format!("{name}[us]"), ' '));
    let cells: Vec<String> = values.into_iter().map(with_mark).collect();
    let widths = cells.iter().chain([&title]).map(String::len);
    PercentileColumn { width: widths.max().unwrap_or_default(), title, cells }
}

fn mark(value: &PercentileValue, own_spread: bool) -> char {
    if value.too_few_samples {
        FEW_SAMPLES
    } else if own_spread && value.within_own_spread == Some(true) {
        OWN_SPREAD
    } else {
        ' '
    }
}

/// Divides the columns into tables that fit a terminal, each with the column of sizes before it.
fn tables(columns: &[PercentileColumn], size_width: usize) -> Vec<&[PercentileColumn]> {
    let mut tables = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut width = size_width;
        let fits = rest.iter().take_while(|column| {
            width += 2 + column.width;
            width <= WIDTH
        });
        let (table, others) = rest.split_at(fits.count().max(1));
        tables.push(table);
        rest = others;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Detail, Extent};
    use measure::Recorder;
    use plan::tools::TOOLS;

    fn recorded(size: u64, samples: impl IntoIterator<Item = u64>) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        SizeResult::from_latencies(
            size,
            &recorder,
            Extent::Complete,
            Detail { own_spread_ns: Some(5), ..Detail::default() },
        )
    }

    fn written(results: &[SizeResult], percentiles: &[Percentile], own_spread: bool) -> String {
        let lines = lines(&TOOLS[0], results, percentiles, own_spread);
        lines.into_iter().map(|line| line + "\n").collect()
    }

    #[test]
    fn prints_columns_as_wide_as_their_cells() {
        let results = [
            recorded(8, (0..1_000).map(|i| 2_000 + i)),
            SizeResult::none(16),
            recorded(4_294_967_295, [1_456_789]),
        ];
        let expected = "\
RDMA Size[B]   p50[us]    p90[us]    p99[us]   p99.9[us]   p99.99[us]    Max[us]
           8     2.499      2.899      2.989       2.998*       2.999*     2.999
  4294967295  1456.789*  1456.789*  1456.789*   1456.789*    1456.789*  1456.789
* fewer than 10 samples above this percentile: unreliable
--------------------------------------------------------------------------------
";
        let text = written(&results, &Percentile::STANDARD, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn continues_in_a_further_table_beyond_80_columns() {
        let samples = (0..1_000_000).map(|i| 1_000_000_000 + i);
        let expected = "\
RDMA Size[B]      p50[us]      p90[us]      p99[us]    p99.9[us]   p99.99[us]
           8  1000505.343  1000931.327  1000996.863  1000999.999  1000999.999
RDMA Size[B]      Max[us]
           8  1000999.999
-----------------------------------------------------------------------------
";
        let text = written(&[recorded(8, samples)], &Percentile::STANDARD, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn shows_no_value_of_a_percentile_without_one() {
        let percentiles = ["95", "50"].map(|name| name.parse().unwrap());
        let expected = "\
RDMA Size[B]  p95[us]  p50[us]
           8        -    2.000*
* fewer than 10 samples above this percentile: unreliable
------------------------------
";
        let text = written(&[recorded(8, [2_000])], &percentiles, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn marks_percentiles_within_spread_of_the_tool() {
        // 2000 to 2499 ns, and 1 % of the samples at 2,600 ns.
        let samples = (0..100_000).map(|i| if i < 99_000 { 2_000 + i % 500 } else { 2_600 });
        let expected = "\
RDMA Size[B]  p50[us]  p90[us]  p99[us]  p99.9[us]  p99.99[us]   Max[us]
           8    2.252    2.454    2.499      2.600       2.600~    2.600~
~ differs from the percentile before it by less than the spread of the tool
------------------------------------------------------------------------
";
        let text = written(&[recorded(8, samples)], &Percentile::STANDARD, true);
        assert_eq!(text, expected);
    }

    #[test]
    fn explains_a_mark_only_if_used() {
        let results = [recorded(8, (0..100_000).map(|i| 2_000 + i % 100))];
        let text = written(&results, &Percentile::STANDARD, false);
        assert!(!text.contains([FEW_SAMPLES, OWN_SPREAD]), "{text}");
    }
}
