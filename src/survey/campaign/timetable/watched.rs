//! The counters of a NIC that are watched under load.

use serde::{Deserialize, Serialize};

/// What counters of a NIC say about load (load.md 2.4). Several counters may count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// Time in which the switch paused the NIC, in nanoseconds.
    TxPaused,
    /// Time in which the NIC paused the switch, in nanoseconds.
    RxPaused,
    /// Packets whose answers were lost.
    Timeouts,
    /// Packets sent again.
    Retries,
    /// Requests refused for lack of resources at the target.
    Refused,
    /// Bytes that the NIC has sent or received.
    Octets,
    /// Data packets that arrived with a mark of congestion.
    Marked,
    /// Data packets that arrived without one.
    Unmarked,
}

/// The counters of a NIC that are watched under load, by their names; those whose names end with an
/// underscore are summed up over the numbers that follow.
pub const COUNTERS: [(&str, Watched); 12] = [
    ("hni_sts_tx_ok_octets", Watched::Octets),
    ("hni_sts_rx_ok_octets", Watched::Octets),
    ("hni_tx_paused_", Watched::TxPaused),
    ("hni_rx_paused_", Watched::RxPaused),
    ("pct_spt_timeouts", Watched::Timeouts),
    ("pct_retry_srb_requests", Watched::Retries),
    ("pct_no_tct_nacks", Watched::Refused),
    ("pct_no_trs_nacks", Watched::Refused),
    ("pct_no_mst_nacks", Watched::Refused),
    ("pct_resource_busy", Watched::Refused),
    ("ixe_tc_req_ecn_pkts_", Watched::Marked),
    ("ixe_tc_req_no_ecn_pkts_", Watched::Unmarked),
];
