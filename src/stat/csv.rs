//! The report as comma-separated values: a row for each counter of each NIC, whether the NIC has
//! it or not.

use super::document::nics;
use super::job::JobStat;
use facts::error::{Context, Failure};
use facts::text::cell;
use node::nic::counter::CounterChange;
use node::nic::counter_table::CounterRow;

/// Returns the rows.
///
/// # Errors
///
/// None in practice: the rows are made in memory.
pub fn csv(job: &JobStat) -> Result<Vec<u8>, Failure> {
    const WHAT: &str = "cannot write CSV";
    let mut writer = csv::Writer::from_writer(Vec::new());
    let titles = ["host", "device", "counter", "before", "after", "delta", "seconds"];
    writer.write_record(titles).environment(WHAT)?;
    for (node, nic) in nics(job) {
        for (position, name) in node.counters.iter().enumerate() {
            let before = nic.before.reading(position);
            let after = (nic.after.as_ref()).and_then(|after| after.reading(position));
            let change = nic.change(position);
            let is_gauge = CounterRow::of(name).is_some_and(|row| row.is_gauge);
            let seconds = change.and_then(CounterChange::within);
            let number =
                |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let row = [
                cell(&node.node).into_owned(),
                cell(&nic.device).into_owned(),
                cell(name).into_owned(),
                number(before.map(|reading| reading.value)),
                number(after.map(|reading| reading.value)),
                number(change.filter(|_| !is_gauge).and_then(CounterChange::count)),
                seconds.map_or(String::new(), |time| time.as_secs_f64().to_string()),
            ];
            writer.write_record(row).environment(WHAT)?;
        }
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error).environment(WHAT)
}
