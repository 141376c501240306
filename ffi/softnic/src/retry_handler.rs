//! The files of the retry handler of a NIC, below `/run/cxi/<device>` (health.md 1.6).

use crate::counters::CounterSnapshot;
use crate::fabric::Health;
use crate::sysfs::{Entries, SysfsEntry};

/// Its counters.
const COUNTERS: [&str; 35] = [
    "accel_close_complete",
    "cancel_no_matching_conn",
    "cancel_resource_busy",
    "cancel_tct_closed",
    "cancel_trs_pend_rsp",
    "connections_cancelled",
    "ignored_sct_timeouts",
    "max_parked_nids",
    "max_parked_switches",
    "mst_in_use",
    "nack_no_matching_conn",
    "nack_no_target_conn",
    "nack_no_target_mst",
    "nack_no_target_trs",
    "nack_resource_busy",
    "nack_sequence_error",
    "nack_trs_pend_rsp",
    "nacks",
    "nid_tree_count",
    "parked_nids",
    "parked_switches",
    "pkts_cancelled_o",
    "pkts_cancelled_u",
    "sct_in_use",
    "sct_timeouts",
    "smt_in_use",
    "spt_in_use",
    "spt_timeouts",
    "spt_timeouts_o",
    "spt_timeouts_u",
    "srb_in_use",
    "switch_tree_count",
    "tct_in_use",
    "tct_timeouts",
    "trs_in_use",
];

/// Its limits: numbers of retries, and seconds.
const LIMITS: [(&str, u32); 5] = [
    ("down_nid_wait_time", 136),
    ("max_no_matching_conn_retries", 12),
    ("max_resource_busy_retries", 10),
    ("max_spt_retries", 4),
    ("max_trs_pend_rsp_retries", 10),
];

/// The size of each file, whatever it says (health.md 1.6).
const SIZE: usize = 1024;

/// Returns a file with this line. NULs fill it up.
pub fn file(line: &str) -> SysfsEntry {
    let mut content = format!("{line}\n").into_bytes();
    content.resize(SIZE.max(content.len()), 0);
    SysfsEntry::File(content)
}

/// Returns the files, by their paths.
pub fn files(counters: &CounterSnapshot, health: &Health) -> Entries {
    let unordered = counters.value("pct_req_unordered");
    let requests = counters.value("pct_req_ordered").saturating_add(unordered);
    let timeouts = counters.value("pct_spt_timeouts");
    // The engine does not count them by order: they are divided like the requests.
    let unordered_count = (timeouts as f64 * unordered as f64 / requests.max(1) as f64) as u64;
    let refused = (requests as f64 * health.full) as u64;
    let value = |name: &str| match name {
        "nack_no_target_trs" | "nack_no_target_conn" => refused,
        "nacks" => refused.saturating_mul(2),
        "spt_timeouts" => timeouts,
        "spt_timeouts_o" => timeouts.saturating_sub(unordered_count),
        "spt_timeouts_u" => unordered_count,
        _ => 0,
    };
    let counts = COUNTERS.map(|name| (name.into(), file(&value(name).to_string())));
    let limits = LIMITS.map(|(name, limit)| {
        let path = format!("config/{name}").into();
        (path, file(&limit.to_string()))
    });
    counts.into_iter().chain(limits).collect()
}
