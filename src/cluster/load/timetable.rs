//! What the NICs of a process do in slots under load, and what the process reports.
//!
//! A slot has parts, see [`Times`]: aggressors run from before the first operation of a victim
//! until after its last one, so that each counted moment is loaded (load.md 3.4).

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::survey::ids::{NicId, TestId};
use crate::survey::untested::Untested;
use facts::device::FabricAddress;

/// Parts of the counted time of a slot, so that a late start is seen.
pub const PARTS: usize = 10;

/// Most NICs to which one NIC sends in a slot.
pub const MOST_PEERS: usize = 64;

/// The parts of a slot, in nanoseconds since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Aggressors begin to send.
    pub start_ns: u64,
    /// Bytes count from here on; victims measure.
    pub count_ns: u64,
    /// Bytes count up to here; victims end.
    pub counted_ns: u64,
    /// Aggressors stop, and wait for answers.
    pub stop_ns: u64,
    /// All that is left has been released.
    pub end_ns: u64,
}

impl Times {
    /// Returns the parts of a slot of this length: 30, 40, 130, 20 and 30 of 250 ms, or in these
    /// proportions.
    pub fn from_slot(slot_ns: u64) -> Self {
        let at = |ms: u64| slot_ns * ms / 250;
        Self {
            start_ns: at(30),
            count_ns: at(70),
            counted_ns: at(200),
            stop_ns: at(220),
            end_ns: slot_ns,
        }
    }

    /// Returns how long bytes are counted.
    pub fn counted(self) -> u64 {
        self.counted_ns - self.count_ns
    }
}

/// What a NIC does in one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTask {
    /// Number of the slot in the block, from 0.
    pub slot: u32,
    /// The NIC, as an index in the roster.
    pub nic: NicId,
    /// What it does.
    pub part: LoadPart,
}

/// The part of a NIC in a slot under load. A NIC has at most one task in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadPart {
    /// It puts to these NICs in turn, at most [`MOST_PEERS`], with this test's size and class.
    Send {
        /// Index of the test whose target the operations address.
        test: TestId,
        /// Addresses of the targets.
        peers: Vec<FabricAddress>,
    },
    /// It measures operations that it issues, one after the other.
    Measure {
        /// Index of the test.
        test: TestId,
        /// Address of the target.
        peer: FabricAddress,
    },
    /// It answers the operations of a two-sided test.
    Answer {
        /// Index of the test.
        test: TestId,
        /// Address of the initiator.
        peer: FabricAddress,
    },
    /// Others send to it: it does nothing, and its counters are read.
    Watch,
}

/// The slots of one process under load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBlock {
    /// Number of the block in the survey: blocks of both kinds are counted together.
    pub number: u32,
    /// When the first slot begins, on the clock of the coordinator, in nanoseconds.
    pub begins_ns: u64,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// Number of slots.
    pub slots: u32,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
    /// What the NICs of this process do, by slot.
    pub tasks: Vec<LoadTask>,
}

/// What a process has done in a block under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Number of the block.
    pub block: u32,
    /// Rank of the process.
    pub rank: u32,
    /// A result for each task.
    pub results: Vec<LoadResult>,
    /// Addresses of its NICs, as in the report of a quiet block.
    pub addresses: Vec<Result<FabricAddress, String>>,
    /// How far the coordinator's clock may be off in the process, in nanoseconds. None before it is
    /// sent.
    pub clock_uncertainty_ns: Option<u64>,
}

/// What has come of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Number of the slot.
    pub slot: u32,
    /// The NIC.
    pub nic: NicId,
    /// What it has done.
    pub answer: LoadAnswer,
    /// For which part of the counted time its process may have been slower than the fabric, because
    /// it waited for a CPU, in percent.
    pub waited_percent: u8,
    /// Changes of counters of the NIC during the slot; see [`COUNTERS`].
    pub counters: Vec<(Watched, u64)>,
}

impl LoadResult {
    /// Returns whether the NIC did not take part. Then operations that it should have answered may
    /// fail.
    pub fn is_untested(&self) -> bool {
        matches!(self.answer, LoadAnswer::Untested(_))
    }
}

/// The answer to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LoadAnswer {
    /// An aggressor: bytes that were acknowledged, in each of [`PARTS`] equal parts of the counted
    /// time.
    Sent {
        /// The bytes.
        bytes: [u64; PARTS],
        /// Places, in the list of its peers, of those to which an operation failed.
        unreached: Vec<u32>,
    },
    /// A victim: its latencies.
    Measured(Histogram),
    /// It has answered, or was watched.
    Present,
    /// A victim's operation failed, or was not answered; or a NIC could not send at all.
    Failed(String),
    /// It did not take part. The reason says nothing about the fabric.
    Untested(Untested),
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_slot_are_those_of_the_table() {
        let times = Times::from_slot(250_000_000);
        assert_eq!(
            [times.start_ns, times.count_ns, times.counted_ns, times.stop_ns, times.end_ns],
            [30, 70, 200, 220, 250].map(|ms| ms * 1_000_000)
        );
        assert_eq!(times.counted(), 130_000_000);
    }
}
