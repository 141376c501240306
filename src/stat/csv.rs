//! The report as comma-separated values: a row for each counter of each NIC, whether the NIC has
//! it or not.

use super::job::{JobStat, StatCounter};
use facts::error::{Context, Failure};
use facts::text::cell;

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
    for (nic, name, counter) in job.counters() {
        let number = |value: fn(&StatCounter) -> Option<u64>| {
            counter.and_then(value).map_or(String::new(), |value| value.to_string())
        };
        let seconds = counter.and_then(|counter| counter.seconds);
        let row = [
            cell(&nic.host).into_owned(),
            cell(&nic.device).into_owned(),
            cell(name).into_owned(),
            number(|counter| Some(counter.before)),
            number(|counter| counter.after),
            number(|counter| counter.delta),
            seconds.map_or(String::new(), |seconds| seconds.to_string()),
        ];
        writer.write_record(row).environment(WHAT)?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error).environment(WHAT)
}
