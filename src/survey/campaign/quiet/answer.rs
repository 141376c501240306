//! The result of one pair of NICs.

use serde::{Deserialize, Serialize};

use super::ids::{NicId, Role, TestId};
use super::untested::Untested;
pub use facts::figures::Figures;

/// Two NICs, as indices in the roster. The initiator issues the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The NIC that issues operations.
    pub initiator: NicId,
    /// The NIC that the operations address; the initiator itself in loopback.
    pub target: NicId,
}

/// A test and a pair.
pub type TestPair = (TestId, Pair);

impl Pair {
    /// Returns the pair of a NIC with itself.
    pub fn loopback(nic: NicId) -> Self {
        Self { initiator: nic, target: nic }
    }

    /// Returns the pair in which `nic` has this role.
    pub fn with_role(role: Role, nic: NicId, partner: NicId) -> Self {
        let (initiator, target) = match role {
            Role::Initiator => (nic, partner),
            Role::Target => (partner, nic),
        };
        Self { initiator, target }
    }

    /// Returns the initiator and the target.
    pub fn nics(self) -> [NicId; 2] {
        [self.initiator, self.target]
    }

    /// Returns both NICs with their roles, the initiator first.
    pub fn roles(self) -> [(Role, NicId); 2] {
        [(Role::Initiator, self.initiator), (Role::Target, self.target)]
    }

    /// Returns the other NIC.
    pub fn partner(self, nic: NicId) -> NicId {
        if self.initiator == nic { self.target } else { self.initiator }
    }

    /// Returns the pair in the other direction.
    pub fn reversed(self) -> Self {
        Self { initiator: self.target, target: self.initiator }
    }

    /// Returns whether the pair is a NIC with itself.
    pub fn is_loopback(self) -> bool {
        self.initiator == self.target
    }
}

/// The answer of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was measured.
    Measured(Figures),
    /// An operation failed, or was not answered: a result about this pair.
    Failed(String),
    /// It was not measured. The reason says nothing about the pair.
    Untested(#[cfg_attr(feature = "testing", schemars(with = "String"))] Untested),
}

/// Why a pair was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The pairs that the user has asked for.
    Sweep,
    /// A retest of a suspect pair; the number of the retest, from 1.
    Retest(u8),
    /// A NIC of a suspect pair with another partner, or the suspect pair in the other direction.
    Swap,
    /// A pair of the sweep again, because the pairs of its class differ too much. The best one of
    /// its results counts.
    Again,
    /// A good pair before or after retests and swaps: whether the cluster is as fast as in the
    /// sweep.
    Comparison,
}

/// A change of a counter of a NIC during a pair, which may explain its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct CounterEvidence {
    /// The NIC, as an index in the roster.
    pub nic: NicId,
    /// Name of the counter.
    pub counter: String,
    /// By how much it has changed.
    pub change: u64,
}

/// The counter of packets that a NIC sent again (health.md 1.5).
pub const RETRIES: &str = "pct_retry_srb_requests";

/// The counter of packets that were not answered in time (health.md 1.5).
pub const TIMEOUTS: &str = "pct_spt_timeouts";

/// The counters of packets that were damaged on the link of the NIC that counts them: replays in
/// both directions, and code words that the link could not correct (health.md 1.7).
pub const LINK_ERRORS: [&str; 3] =
    ["hni_llr_tx_replay_event", "hni_llr_rx_replay_event", "hni_pcs_uncorrected_cw"];

/// The counters that the initiator of every pair reads: they do not grow on a good fabric.
pub const ERROR_COUNTERS: [&str; 5] =
    [RETRIES, TIMEOUTS, LINK_ERRORS[0], LINK_ERRORS[1], LINK_ERRORS[2]];

/// Number of packets that the initiator of any pair may send again inside the limit.
pub const FEW_RETRIES: u64 = 5;

/// The result of one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PairResult {
    /// Index of the test: a tool with a size.
    pub test: TestId,
    /// The NICs.
    pub pair: Pair,
    /// Why it was measured.
    pub stage: Stage,
    /// Number of the round, from 0.
    pub round: u32,
    /// Pairs that were measured at the same time, this one included.
    pub active: u32,
    /// The answer of the pair.
    pub answer: Answer,
    /// How long a side waited for its CPU, in percent of the time in which the pair was measured;
    /// the larger number of both sides. Latencies of a side that waited are upper bounds, except
    /// for the smallest one; its bandwidth is a lower bound.
    #[serde(default)]
    pub waited_percent: u8,
    /// Counters of the initiator whose changes may explain the answer. In the sweep, only the
    /// counters of lost and damaged packets.
    #[serde(rename = "witnesses")]
    pub counters: Vec<CounterEvidence>,
}

impl PairResult {
    /// Returns how many packets the initiator sent again.
    pub fn retries(&self) -> u64 {
        self.sum(&[RETRIES])
    }

    /// Returns the sum of the changes of these counters.
    pub fn sum(&self, counters: &[&str]) -> u64 {
        let own = self.counters.iter();
        let own = own.filter(|own| counters.contains(&own.counter.as_str()));
        own.fold(0, |sum, own| sum.saturating_add(own.change))
    }
}
