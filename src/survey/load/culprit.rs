//! A part of the fabric that explains slow flows.

use super::findings::{Grade, LoadFigure, LoadJudgement, LoadUnit};
use super::limits::GradeLimits;
use super::names::pattern_name;
use super::pattern::Pattern;
use campaign::quiet::ids::Role;

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
    /// What else is known, as sentences.
    pub evidence: Vec<String>,
}

impl Culprit {
    /// Returns the judgement. A part inside the limits is slow at least: it explains flows that
    /// are.
    pub fn judgement(&self) -> LoadJudgement {
        LoadJudgement::new(
            LoadFigure::Bandwidth,
            self.unit,
            pattern_name(self.pattern),
            (self.limits.grade(self.ratio).max(Grade::Slow), self.ratio, self.limits.good),
            self.evidence.clone(),
        )
    }
}

/// Returns a sentence about the direction in which a part is slow: `role` is `None` for both.
pub fn direction(role: Option<Role>) -> String {
    match role {
        Some(Role::Initiator) => "Slow as sender only.",
        Some(Role::Target) => "Slow as receiver only.",
        None => "Slow as sender and as receiver.",
    }
    .into()
}
