//! Outcome -> comma-separated values (RFC 4180): a header, and a row for each size of the run. With
//! `--interval`, a row for each interval follows that of its size.
//!
//! Every row repeats the facts about the run. A run that failed before its sizes were known has one
//! row without metrics.

use std::iter;

use super::Outcome;
use super::columns::{COLUMNS, CsvRow};
use super::outcome::{Options, SizeResult};
use super::run_columns::{self, RUN_COLUMNS};
use crate::error::{Context, Failure};

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
    let mut writer = csv::Writer::from_writer(Vec::new());
    let what = "cannot write CSV";
    let has_intervals = |options: &Options| options.interval_s.is_some();
    let with_intervals = outcome.options.as_ref().is_some_and(has_intervals);
    let columns = || {
        COLUMNS
            .iter()
            .filter(|column| column.is_in_csv(with_intervals))
    };
    if with_header {
        let titles = columns().filter_map(|column| column.csv);
        let titles = titles.chain(RUN_COLUMNS.iter().map(|(title, _)| *title));
        writer.write_record(titles).environment(what)?;
    }
    let of_run = run_columns::fields(outcome);
    for result in results {
        let intervals = result.intervals.iter().flat_map(|of| &of.rows);
        for interval in iter::once(None).chain(intervals.map(Some)) {
            let row = CsvRow { result, interval };
            let fields = columns().map(|column| column.field(outcome, &row));
            let fields = fields.chain(of_run.iter().cloned());
            writer.write_record(fields).environment(what)?;
        }
    }
    writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)
        .environment(what)
}
