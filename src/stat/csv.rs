//! The report as comma-separated values: a row for each counter of each NIC, whether the NIC has
//! it or not.

use super::job::{JobStat, StatCounter};
use facts::error::Failure;
use page::csv::document;

/// Returns the rows.
///
/// # Errors
///
/// None in practice: the rows are made in memory.
pub fn csv(job: &JobStat) -> Result<Vec<u8>, Failure> {
    let titles = ["host", "device", "counter", "before", "after", "delta", "seconds"];
    let rows = job.counters().map(|(nic, name, counter)| {
        let number = |value: fn(&StatCounter) -> Option<u64>| {
            counter.and_then(value).map_or(String::new(), |value| value.to_string())
        };
        let seconds = counter.and_then(|counter| counter.seconds);
        [
            nic.host.clone(),
            nic.device.clone(),
            name.to_owned(),
            number(|counter| Some(counter.before)),
            number(|counter| counter.after),
            number(|counter| counter.delta),
            seconds.map_or(String::new(), |seconds| seconds.to_string()),
        ]
    });
    document([titles.map(str::to_owned)].into_iter().chain(rows))
}
