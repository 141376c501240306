//! A part of the fabric that explains slow flows.

use super::findings::{Grade, LoadFigure, LoadJudgement, LoadUnit};
use super::limits::GradeLimits;
use super::slot::pattern_name;
use super::spec::Pattern;
use campaign::quiet::findings::Direction;

/// A part of the fabric that explains slow flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// The part.
    pub unit: LoadUnit,
    /// The pattern that shows it.
    pub pattern: Pattern,
    /// Median of its flows, as a ratio to the flows of equal parts.
    pub ratio: f64,
    pub limits: GradeLimits,
    /// The direction in which it is slow, if one is known.
    pub direction: Option<Direction>,
    /// What else is known, as sentences.
    pub evidence: Vec<String>,
}

impl Culprit {
    /// Returns the judgement. A part inside the limits is slow at least: it explains flows that
    /// are.
    pub fn judgement(&self) -> LoadJudgement {
        let words = self.direction.map(|direction| match direction {
            Direction::Initiator => "Slow as sender only.".to_owned(),
            Direction::Target => "Slow as receiver only.".to_owned(),
            Direction::Both => "Slow as sender and as receiver.".to_owned(),
        });
        let judgement = LoadJudgement::new(
            LoadFigure::Bandwidth,
            self.unit,
            pattern_name(self.pattern),
            (self.limits.grade(self.ratio).max(Grade::Slow), self.ratio, self.limits.good),
            words.into_iter().chain(self.evidence.clone()).collect(),
        );
        LoadJudgement { direction: self.direction, ..judgement }
    }
}
