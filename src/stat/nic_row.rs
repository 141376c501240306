//! The most important counts of one NIC, as a row of a table.

use crate::job_findings::{JobNic, percent, timeouts_of};
use health::evidence::NicEvidence;

/// The titles of the columns.
pub const TITLES: [&str; 7] =
    ["NIC", ">Sent", ">Received", ">Timeouts", ">Resent", ">Held back", ">Paused"];

/// Returns the cells of a NIC; `-` for a counter that it does not have.
pub fn nic_row(nic: &JobNic) -> [String; 7] {
    let changes = &nic.changes;
    let bytes = |side: &str| {
        let count = changes.count(&format!("hni_sts_{side}_ok_octets"));
        count.map_or("-".into(), |bytes| format!("{}B", scaled(bytes as f64)))
    };
    let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    let evidence = NicEvidence { changes, packets: None };
    let share = |prefix: &str| evidence.longest_share(prefix).map_or("-".into(), percent);
    [
        nic.name.clone(),
        bytes("tx"),
        bytes("rx"),
        count(timeouts_of(changes)),
        count(changes.count("pct_retry_srb_requests")),
        share("oxe_stall_fgfc_blk_"),
        share("hni_tx_paused_"),
    ]
}

/// Returns a number with a decimal prefix: `19.1 G`.
pub fn scaled(number: f64) -> String {
    let prefixes = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.into_iter().find(|(scale, _)| number >= *scale) {
        Some((scale, prefix)) => format!("{:.1} {prefix}", number / scale),
        None => format!("{number:.0} "),
    }
}
