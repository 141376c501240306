//! A cause of a culprit in documents: how sure it is, its evidence, and what to do.

use serde::{Deserialize, Serialize};

use crate::causes::cause::ExpectedResult;
use crate::causes::comparison::Comparison;

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

/// Returns an item as evidence, or a test that has no figures.
pub fn item(code: &str, text: &str) -> Observation {
    Observation { test: code.to_owned(), text: text.to_owned(), ..Observation::default() }
}

/// Returns a column as evidence, with what a cause makes of it and whether it contradicts the
/// cause.
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
