//! The result of one pair of NICs, and the reasons why a pair was not measured or its figures say
//! nothing.

use std::cmp::Ordering;
use std::fmt::{self, Display};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::roster::{NicId, Pair, TestId};
use facts::error::{Failure, Kind};

pub use facts::figures::Figures;

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

    /// The sum of the changes of these counters.
    pub fn sum(&self, counters: &[&str]) -> u64 {
        let own = self.counters.iter();
        let own = own.filter(|own| counters.contains(&own.counter.as_str()));
        own.fold(0, |sum, own| sum.saturating_add(own.change))
    }
}

/// The reason why a pair was not measured, or why the figures of a NIC say nothing.
///
/// Messages between the processes of a survey contain the variant; documents contain its text.
/// No text contains a number, so that the survey can count equal reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub enum Untested {
    /// A process of the pair began too late.
    Late,
    /// A process of the pair waited for its CPU, because other threads used it.
    NoCpu,
    /// A process of the pair was stopped for a part of the slot.
    Paused,
    /// An operation had no answer, in a slot that is too short to call this a failure.
    ShortSlot,
    /// No process reported the pair.
    NoReport,
    /// A NIC of the pair has no address.
    NoAddress,
    /// Any other reason, in words.
    Other(String),
    /// It was measured while CPUs had too much other work.
    BusyCpus,
    /// Too few pairs were measured to compare them.
    TooFewPairs,
    /// Pairs are missing where figures are large, or where they are small.
    MissingUnevenly,
    /// The pairs differ too much.
    Differing,
    /// Only a NIC that is far slower than good ones would be found.
    TooCoarse,
}

/// The reasons with a fixed text.
const FIXED: [(Untested, &str); 11] = [
    (Untested::Late, "the process was late for its slot"),
    (Untested::NoCpu, "the process waited for its CPU"),
    (Untested::Paused, "the process did not run for a time"),
    (Untested::ShortSlot, "no answer in a short slot: a longer --pair-time may help"),
    (Untested::NoReport, "there is no report"),
    (Untested::NoAddress, "one of the NICs has no address"),
    (Untested::BusyCpus, "busy CPUs"),
    (Untested::TooFewPairs, "too few pairs to compare"),
    (Untested::MissingUnevenly, "the missing pairs are uneven"),
    (Untested::Differing, "the pairs differ too much"),
    (Untested::TooCoarse, "a NIC twice as slow would not be found"),
];

impl Untested {
    /// Whether the CPUs of a host had too much other work.
    pub fn is_from_busy_cpus(&self) -> bool {
        matches!(self, Self::Late | Self::NoCpu | Self::Paused | Self::BusyCpus)
    }

    /// Returns its text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(text) => text,
            _ => FIXED.iter().find(|(reason, _)| reason == self).map_or("", |(_, text)| text),
        }
    }
}

impl Ord for Untested {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Untested {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Display for Untested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<String> for Untested {
    /// The reason with this text.
    fn from(text: String) -> Self {
        match FIXED.iter().find(|(_, fixed)| *fixed == text) {
            Some((reason, _)) => reason.clone(),
            None => Self::Other(text),
        }
    }
}

impl From<&str> for Untested {
    /// The reason with this text.
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl std::error::Error for Untested {}

impl From<Untested> for Failure {
    fn from(reason: Untested) -> Self {
        Self::new(Kind::Environment, reason)
    }
}

impl From<&Failure> for Untested {
    /// The reason that made a process fail, or the message of any other failure.
    fn from(failure: &Failure) -> Self {
        let reason = failure.error.downcast_ref::<Self>();
        reason.map_or_else(|| Self::Other(failure.message()), Self::clone)
    }
}

impl Serialize for Untested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            Self::serialize(self, serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Untested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer).map(Self::from)
        } else {
            Self::deserialize(deserializer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons() -> Vec<Untested> {
        let other = Untested::Other("n1: it ended".into());
        let fixed = FIXED.into_iter().map(|(reason, _)| reason);
        fixed.chain([other]).collect()
    }

    #[test]
    fn documents_contain_the_text() {
        for reason in reasons() {
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(text, format!("\"{reason}\""));
            assert_eq!(serde_json::from_str::<Untested>(&text).unwrap(), reason);
        }
    }

    #[test]
    fn messages_contain_the_variant() {
        for reason in reasons() {
            let bytes = postcard::to_stdvec(&reason).unwrap();
            assert_eq!(postcard::from_bytes(&bytes), Ok(reason));
        }
        assert_eq!(postcard::to_stdvec(&Untested::Late), Ok(vec![0]));
        assert!(postcard::from_bytes::<Untested>(&[12]).is_err());
    }

    #[test]
    fn text_of_a_document_of_any_release_is_a_reason() {
        assert!(Untested::from("busy CPUs").is_from_busy_cpus());
        assert!(Untested::from("the process waited for its CPU").is_from_busy_cpus());
        assert_eq!(Untested::from("lost"), Untested::Other("lost".into()));
    }

    #[test]
    fn failure_contains_the_reason() {
        let late = Failure::new(Kind::Environment, Untested::Late);
        assert_eq!(late.message(), "the process was late for its slot");
        assert_eq!(Untested::from(&late), Untested::Late);
        let other = Failure::environment("no memory");
        assert_eq!(Untested::from(&other), Untested::Other("no memory".into()));
    }
}
