//! A row of the table of causes: signs that prove a cause, what is expected in each column, and who
//! can do something about it. A cause in documents: how sure it is, its evidence, and what to do.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::procedure::Column;

#[derive(Debug)]
pub struct CauseRule {
    /// What documents and metrics name it by. It never changes.
    pub id: &'static str,
    /// What it is, after "because".
    pub what: &'static str,
    /// Its subject in a list of what was excluded.
    pub subject: &'static str,
    /// What proves it: one sign is enough.
    pub signs: &'static [Sign],
    /// How it shows.
    pub expected: &'static [(Column, ExpectedResult)],
    /// Whether it makes operations fail, so that figures cannot show it.
    pub fails: bool,
    /// Whether figures say nothing about the NIC meanwhile, so that nothing else is known about it.
    pub voids: bool,
    /// Whether it is excluded if all of its signs can be read and none holds: it has no other form.
    pub files_exclude: bool,
    /// What to do.
    pub advice: &'static str,
    /// Whether this costs a reboot, a part or work at the node: it needs proof.
    pub is_costly: bool,
    /// Who can do it.
    pub by: By,
}

facts::named_enum! {
    /// Who can do something about a cause.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum By {
        /// The user of the node.
        User = "user",
        /// An administrator of the node.
        Root = "root",
        /// The administrator of the fabric.
        FabricManager = "fabric manager",
        /// Somebody at the node.
        Hands = "hands",
    }
    pub fn name(self);
}

/// An item that proves a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// The item with this code is bad or suspect, and is not so on many good NICs.
    Wrong(&'static str),
    /// The item with this code is bad, whatever good NICs have.
    Bad(&'static str),
    /// The item with this code is bad, and is not so on many good NICs. It is a difference: that it
    /// makes a NIC slower is not known.
    BadAlone(&'static str),
    /// The item with this code is not bad, but hardly any good NIC has its value.
    Differs(&'static str),
    /// The same, with a smaller number than most good NICs have.
    Less(&'static str),
    /// The same, with a larger number than most good NICs have, and than this one.
    More(&'static str, f64),
    /// What is slow is as fast as on good NICs if it is done in another way.
    Cures(Column),
}

impl Sign {
    /// The code of its item, if it is one.
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Wrong(code)
            | Self::Bad(code)
            | Self::BadAlone(code)
            | Self::Differs(code)
            | Self::Less(code)
            | Self::More(code, _) => Some(code),
            Self::Cures(_) => None,
        }
    }
}

/// How documents describe a culprit that is not slower in a column.
pub const SAME: &str = "as good NICs";

/// What is expected of a culprit in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExpectedResult {
    /// As good NICs.
    Same,
    Slower,
    /// Slower or not: it says nothing about the cause, and the cause may explain it.
    Varies,
    /// A bandwidth that is this share of the bandwidth of good NICs.
    Share(f64, f64),
    /// A bandwidth whose share is about the share of the sign: half of the lanes, half of the
    /// bandwidth.
    AsSign,
    /// The same; without it, the cause is never certain.
    MustBeAsSign,
    /// A bandwidth of at least this share of the bandwidth of good NICs.
    AtLeast(f64),
    /// As the column of good NICs; without it, the cause is never certain.
    MustBeSame,
    /// Slower; without it, the cause is never certain.
    MustBeSlower,
    /// A share of a bandwidth; without it, the cause is never certain.
    MustBeShare(f64, f64),
}

impl ExpectedResult {
    /// Whether the cause is never certain without it.
    pub fn is_decisive(self) -> bool {
        matches!(
            self,
            Self::MustBeSame | Self::MustBeSlower | Self::MustBeShare(..) | Self::MustBeAsSign
        )
    }

    /// Whether the culprit is as good NICs in the column.
    pub fn is_same(self) -> bool {
        matches!(self, Self::Same | Self::MustBeSame)
    }

    pub fn words(self) -> String {
        match self {
            Self::Same | Self::MustBeSame => SAME.into(),
            Self::Slower | Self::MustBeSlower => "slower".into(),
            Self::Varies => "slower or not".into(),
            Self::Share(low, high) | Self::MustBeShare(low, high) => {
                format!("{low} to {high} of good NICs")
            }
            Self::AsSign | Self::MustBeAsSign => "about the share of the sign".into(),
            Self::AtLeast(share) => format!("at least {share} of good NICs"),
        }
    }
}

facts::named_enum! {
    /// How sure a cause is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Confidence {
        /// Direct evidence proves the cause, and the tests show what it makes slow.
        Because = "because",
        /// There is direct evidence, and tests do not contradict it.
        Probably = "probably",
        /// The tests fit, without direct evidence; or only a difference from other NICs is known.
        Possibly = "possibly",
        /// There is direct evidence, and tests contradict it.
        AlsoFound = "also_found",
        /// The culprit was slow, and is not slow now.
        Transient = "transient",
        /// Processes waited for CPUs, so that the tests do not show whether the culprit is slow.
        NotMeasured = "not_measured",
        /// Nothing that was read or measured explains the culprit.
        #[default]
        Unknown = "unknown",
    }
    /// Its name in documents and metrics.
    pub fn name(self);
}

/// A cause, or that there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Why {
    /// The id of the cause; null if none is known.
    pub cause: Option<String>,
    /// How sure it is.
    pub confidence: Confidence,
    /// The cause in words; if none is known, what the tests show together, or null.
    pub what: Option<String>,
    /// What supports it, and what contradicts it.
    pub evidence: Vec<Observation>,
    /// What to do, or where to look; null if that is not known.
    #[serde(rename = "do")]
    pub advice: Option<String>,
    /// Who can do it: user, root, fabric manager or hands; null if nothing is to be done.
    pub by: Option<String>,
}

/// An item, or a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Code of an item of check, or of a test: L1, or L2-L1 for a difference.
    pub test: String,
    /// It in words.
    pub text: String,
    /// The figure of the culprit, in nanoseconds or bytes per second; null for an item.
    pub own: Option<f64>,
    /// The figure of good NICs.
    pub others: Option<f64>,
    /// Unit of the figures: ns or B/s.
    pub unit: Option<String>,
    /// What the cause makes of the figure.
    pub expected: Option<String>,
    /// Whether it contradicts the cause.
    pub contradicts: bool,
}

/// An item as evidence, or a test that has no figures.
pub fn item(code: &str, text: &str) -> Observation {
    Observation { test: code.to_owned(), text: text.to_owned(), ..Observation::default() }
}

/// A column as evidence, with what a cause makes of it and whether it contradicts the cause.
pub fn evidence(comparison: &Comparison, expected: Option<(ExpectedResult, bool)>) -> Observation {
    Observation {
        own: Some(comparison.own),
        others: Some(comparison.others),
        unit: Some(if comparison.is_bandwidth { "B/s" } else { "ns" }.into()),
        expected: expected.map(|(expected, _)| expected.words()),
        contradicts: expected.is_some_and(|(_, contradicts)| contradicts),
        ..item(&comparison.column.code(), &comparison.name())
    }
}
