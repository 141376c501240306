//! Whether a size meets an expectation.

use serde::{Deserialize, Serialize};

use super::extent::Extent;
use facts::expect::{Expectation, Metric};
use plan::depths::Row;

/// Whether a size meets an expectation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Verdict"))]
pub struct ExpectationResult {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// --posted: list entries before the one that receives; null without.
    #[serde(default)]
    pub posted: Option<u16>,
    /// --unexpected: messages before the one that a receive searches for; null without.
    #[serde(default)]
    pub unexpected: Option<u16>,
    /// The expectation, as given.
    pub expectation: String,
    /// Whether the expectation is met. A size that was not measured completely meets none.
    pub met: bool,
    /// The measured metric; null if it was not measured.
    pub measured: Option<f64>,
    /// The bound that the metric is compared with.
    pub limit: f64,
    /// Unit of the metric and of the bound.
    pub unit: String,
}

impl ExpectationResult {
    /// Returns whether a row meets `expectation`, whose metric was measured as `figure`.
    pub fn new(row: Row, expectation: &Expectation, extent: Extent, figure: Option<f64>) -> Self {
        Self {
            size_bytes: row.size,
            posted: row.posted,
            unexpected: row.unexpected,
            expectation: expectation.text.clone(),
            met: extent == Extent::Complete
                && figure.is_some_and(|figure| expectation.is_met_by(figure)),
            measured: figure,
            limit: expectation.limit,
            unit: expectation.metric.unit().name().into(),
        }
    }

    /// Returns the row.
    pub fn row(&self) -> Row {
        Row { size: self.size_bytes, posted: self.posted, unexpected: self.unexpected }
    }

    /// Returns the measured metric with a unit for people.
    pub fn measured_text(&self, metric: Metric) -> String {
        let (unit, scale) = metric.unit().readable();
        match self.measured {
            Some(figure) => format!("{:.3}{unit}", figure / scale),
            None => "-".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::expect;

    #[test]
    fn requires_complete_size_to_meet_expectation() {
        let expectation = &expect::parse("max<4us", false).unwrap()[0];
        for (extent, figure, met) in [
            (Extent::Complete, Some(3999.0), true),
            (Extent::Complete, Some(4000.0), false),
            (Extent::Complete, None, false),
            (Extent::Partial, Some(3999.0), false),
            (Extent::None, None, false),
        ] {
            assert_eq!(
                ExpectationResult::new(Row::default(), expectation, extent, figure).met,
                met,
                "{extent:?}"
            );
        }
    }
}
