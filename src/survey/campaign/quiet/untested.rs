//! The reasons why a pair was not measured, or why its figures say nothing.

use std::cmp::Ordering;
use std::fmt::{self, Display};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use facts::error::{Failure, Kind};

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
    /// Returns whether the CPUs of a host had too much other work.
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
    /// Returns the reason with this text.
    fn from(text: String) -> Self {
        match FIXED.iter().find(|(_, fixed)| *fixed == text) {
            Some((reason, _)) => reason.clone(),
            None => Self::Other(text),
        }
    }
}

impl From<&str> for Untested {
    /// Returns the reason with this text.
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
    /// Returns the reason that made a process fail, or the message of any other failure.
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
