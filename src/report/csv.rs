//! Outcome -> comma-separated values (RFC 4180): a header, and a row for each size of the run. With
//! `--interval`, the row of a size is followed by a row for each of its intervals.
//!
//! Every row repeats the facts about the run. A run that failed before its sizes were known has one
//! row without metrics.

use std::iter;

use super::Outcome;
use super::columns::{COLUMNS, CsvRow};
use super::outcome::{Options, SizeResult};
use super::run_columns::{self, run_columns};
use facts::error::Failure;

/// Returns a percentile of a size; nothing for an interval.
fn percentile(row: &CsvRow, percent: f64) -> String {
    let latency = row.result.latency.as_ref().filter(|_| row.interval.is_none());
    let mut values = latency.into_iter().flat_map(|latency| &latency.percentiles);
    let found = values.find(|value| value.percent == percent);
    found.map_or_else(String::new, |value| value.value_ns.to_string())
}

/// Returns the table, with or without its header.
///
/// # Errors
///
/// None in practice: the table is made in memory.
pub fn document(outcome: &Outcome, with_header: bool) -> Result<Vec<u8>, Failure> {
    let none = [SizeResult::none(0)];
    let results = match outcome.results.as_slice() {
        [] => &none,
        results => results,
    };
    let has_intervals = |options: &Options| options.interval_s.is_some();
    let with_intervals = outcome.options.as_ref().is_some_and(has_intervals);
    let columns = || COLUMNS.iter().filter(|column| column.is_in_csv(with_intervals));
    let further: &[f64] = outcome.options.as_ref().map_or(&[], |options| &options.percentiles);
    let mut rows: Vec<Vec<String>> = Vec::new();
    if with_header {
        let titles = columns().filter_map(|column| column.csv);
        let titles = titles.chain(run_columns().map(|(title, _)| title)).map(str::to_owned);
        rows.push(titles.chain(further.iter().map(|percent| format!("p{percent}_ns"))).collect());
    }
    let run_texts = run_columns::fields(outcome);
    for result in results {
        let intervals = result.intervals.iter().flat_map(|interval| &interval.rows);
        for interval in iter::once(None).chain(intervals.map(Some)) {
            let row = CsvRow { result, interval };
            let fields = columns().map(|column| column.field(outcome, &row));
            let fields = fields.chain(run_texts.iter().cloned());
            let further = further.iter().map(|percent| percentile(&row, *percent));
            rows.push(fields.chain(further).collect());
        }
    }
    page::csv::document(rows)
}
