//! The limits of figures under load (load.md 3.7).

use super::findings::Grade;
use super::theory::FabricShape;
use campaign::blame::LEAST_FIGURES;
use campaign::quiet::findings::Test;
use facts::figures::LEAST_BANDWIDTH;
use facts::robust::{median, sigma};

/// What the verdict needs to know about the survey.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFacts {
    /// The shape of the fabric, if the user has given it.
    pub theory: Option<FabricShape>,
    /// Whether a cap kept the load below what the NICs can do: then no bandwidth is a share of
    /// theory.
    pub is_partial: bool,
    /// Whether the NICs are software: one latency in a hundred may be about a CPU, whatever
    /// explains the median.
    pub is_software: bool,
    /// What victims measure.
    pub victim_test: Test,
    /// Name of the other traffic class of victims, if the survey has one.
    pub other_class: Option<String>,
    /// Seed of the bootstrap samples.
    pub seed: u64,
}

/// A limit of good figures, and a limit of slow ones. Figures beyond the second one are bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradeLimits {
    /// The last good value.
    pub good: f64,
    /// The last slow value.
    pub slow: f64,
}

const fn limits(good: f64, slow: f64) -> GradeLimits {
    GradeLimits { good, slow }
}

/// Bandwidth of a set, as a ratio to the median of equal ones.
pub const SET: GradeLimits = limits(0.9, 0.8);
/// Bandwidth of a NIC with NICs of its switch, as a ratio to the median (jobs.md 3.4). It is good
/// or bad, never slow.
pub const NIC: GradeLimits = limits(LEAST_BANDWIDTH, LEAST_BANDWIDTH);
/// Share of theory.
pub const SHARE: GradeLimits = limits(0.8, 0.45);
/// Sum of the bandwidths into one target, as a ratio to the bandwidth without load.
pub const INCAST_SUM: GradeLimits = limits(0.9, 0.7);
/// Jain's index of the sources of a target.
pub const FAIRNESS: GradeLimits = limits(0.95, 0.8);
/// Smallest share of a source, as a ratio to an equal share.
pub const SMALLEST_SHARE: GradeLimits = limits(0.7, 0.5);
/// How far another class keeps the load away. The specification has no limits for it: a class that
/// lets half of the delay through does not isolate.
pub const ISOLATION: GradeLimits = limits(0.8, 0.5);
/// Impact factor of the median latency. Larger values are worse.
pub const IMPACT: GradeLimits = limits(1.2, 2.0);
/// Impact factor of the 99th percentile. Larger values are worse.
pub const IMPACT_P99: GradeLimits = limits(1.5, 5.0);

/// Fewest equal parts that are compared with each other.
pub const LEAST_EQUAL: usize = 3;

/// Parts have equal flows if their numbers differ by at most this part.
pub const EQUAL_FLOWS: f64 = 0.25;

/// From this number of sets on, chance alone makes larger scores (jobs.md 3.4).
const MANY_SETS: usize = 1000;

impl GradeLimits {
    /// Returns the grade of a figure whose small values are bad.
    pub fn grade(self, value: f64) -> Grade {
        if value >= self.good {
            Grade::Good
        } else if value >= self.slow {
            Grade::Slow
        } else {
            Grade::Bad
        }
    }

    /// Returns the figure of one of several equal parts as a ratio to their median, and its grade.
    /// A part is bad only if it lies far outside the distribution too. Fewer than 3 parts are not
    /// judged.
    pub fn grade_among(self, value: f64, equal: &EqualParts) -> (f64, Grade) {
        let ratio = if equal.median > 0.0 { value / equal.median } else { 1.0 };
        let grade = match self.grade(ratio) {
            _ if equal.count < LEAST_EQUAL => Grade::Unjudged,
            Grade::Bad if !equal.is_far_below(value) && self.good == self.slow => Grade::Good,
            Grade::Bad if !equal.is_far_below(value) => Grade::Slow,
            grade => grade,
        };
        (ratio, grade)
    }
}

/// The distribution of the figures of equal parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EqualParts {
    count: usize,
    median: f64,
    deviation: f64,
}

impl EqualParts {
    /// Creates the distribution of these figures.
    pub fn new(figures: &[f64]) -> Self {
        let middle = median(figures).unwrap_or(0.0);
        Self { count: figures.len(), median: middle, deviation: sigma(figures, middle) }
    }

    /// Returns whether a figure lies far below the distribution. Fewer than 8 figures have no
    /// distribution: then each figure does.
    pub fn is_far_below(&self, value: f64) -> bool {
        let most = if self.count < MANY_SETS { 3.5 } else { 4.5 };
        self.count < LEAST_FIGURES || self.median - value > most * self.deviation
    }
}

/// Returns the worst of these grades; unjudged if none of them is a verdict.
pub fn worst(grades: impl Iterator<Item = Grade>) -> Grade {
    let judged = grades.filter(|grade| *grade != Grade::Unjudged);
    judged.max().unwrap_or(Grade::Unjudged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_group_is_bad_among_four() {
        // load.md 5, vector 21
        let sets = [7545.5, 7497.0, 5252.9, 7513.2];
        let sets = EqualParts::new(&sets);
        let (ratio, grade) = SET.grade_among(5252.9, &sets);
        assert!((ratio - 0.70).abs() < 5e-3);
        assert_eq!(grade, Grade::Bad);
        assert_eq!(SET.grade_among(7497.0, &sets).1, Grade::Good);
        assert_eq!(SET.grade_among(1.0, &EqualParts::new(&[1.0, 2.0])).1, Grade::Unjudged);
    }

    #[test]
    fn wide_distribution_makes_no_set_bad() {
        let tight = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0, 75.0];
        let wide = [100.0, 70.0, 130.0, 85.0, 115.0, 95.0, 105.0, 75.0];
        let (tight, wide) = (EqualParts::new(&tight), EqualParts::new(&wide));
        assert_eq!(SET.grade_among(75.0, &tight).1, Grade::Bad);
        assert_eq!(SET.grade_among(75.0, &wide).1, Grade::Slow);
        assert_eq!(NIC.grade_among(75.0, &wide).1, Grade::Good);
        assert_eq!(NIC.grade_among(92.0, &tight).1, Grade::Bad);
    }

    #[test]
    fn share_of_theory_has_grades_of_vector_26() {
        let grades = [0.82, 0.62, 0.44].map(|share| SHARE.grade(share));
        assert_eq!(grades, [Grade::Good, Grade::Slow, Grade::Bad]);
    }

    #[test]
    fn worst_grade_is_of_verdicts() {
        let grade = |grades: &[Grade]| worst(grades.iter().copied());
        assert_eq!(grade(&[Grade::Good, Grade::Unjudged, Grade::Slow]), Grade::Slow);
        assert_eq!(grade(&[Grade::Unjudged]), Grade::Unjudged);
    }
}
