//! Outcome -> comma-separated values (RFC 4180): a header, and a row for each size of the run.
//!
//! Every row repeats the facts about the run. A run that failed before its sizes were known has one
//! row without metrics.

use super::Outcome;
use super::columns::COLUMNS;
use super::outcome::SizeResult;
use crate::error::{Context, Failure};

/// Returns the table.
///
/// # Errors
///
/// None in practice: the table is made in memory.
pub fn document(outcome: &Outcome) -> Result<Vec<u8>, Failure> {
    let none = [SizeResult::none(0)];
    let results = match outcome.results.as_slice() {
        [] => &none,
        results => results,
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let what = "cannot write CSV";
    let columns = || COLUMNS.iter().filter(|column| column.csv.is_some());
    let titles = columns().filter_map(|column| column.csv);
    writer.write_record(titles).environment(what)?;
    for result in results {
        let fields = columns().map(|column| column.field(outcome, result));
        writer.write_record(fields).environment(what)?;
    }
    writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)
        .environment(what)
}
