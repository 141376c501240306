//! The limits of figures under load (load.md 3.7), and what the shape of a fabric allows (load.md
//! 2.1).

use std::collections::BTreeMap;

use super::findings::Grade;
use super::spec::{Distance, Pattern, Set};
use campaign::blame::LEAST_FIGURES;
use campaign::quiet::findings::Test;
use campaign::quiet::roster::Roster;
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
    /// The grade of a figure whose small values are bad.
    pub fn grade(self, value: f64) -> Grade {
        if value >= self.good {
            Grade::Good
        } else if value >= self.slow {
            Grade::Slow
        } else {
            Grade::Bad
        }
    }

    /// The figure of one of several equal parts as a ratio to their median, and its grade. A part
    /// is bad only if it lies far outside the distribution too. Fewer than 3 parts are not judged.
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

    /// Whether a figure lies far below the distribution. Fewer than 8 figures have no distribution:
    /// then each figure does.
    pub fn is_far_below(&self, value: f64) -> bool {
        let most = if self.count < MANY_SETS { 3.5 } else { 4.5 };
        self.count < LEAST_FIGURES || self.median - value > most * self.deviation
    }
}

/// The worst of these grades; unjudged if none of them is a verdict.
pub fn worst(grades: impl Iterator<Item = Grade>) -> Grade {
    let judged = grades.filter(|grade| *grade != Grade::Unjudged);
    judged.max().unwrap_or(Grade::Unjudged)
}

/// The largest part of a link's rate that is payload: 2048 of 2112 bytes of a packet.
pub const PAYLOAD: f64 = 2048.0 / 2112.0;

/// A regular dragonfly. Rates are in bytes per second and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricShape {
    pub groups: u32,
    /// Switches of a group.
    pub switches: u32,
    /// NICs of a switch.
    pub nics: u32,
    /// Links between two groups.
    pub links: u32,
    pub nic_rate: f64,
    /// Rate of the links between two switches of a group, together.
    pub local_rate: f64,
    /// Rate of one link between groups.
    pub global_rate: f64,
    /// Whether each packet takes the minimal path.
    pub is_minimal: bool,
}

impl FabricShape {
    /// Whether the roster has all NICs of the fabric: in a part of it, NICs share fewer links.
    pub fn is_of(&self, roster: &Roster) -> bool {
        let mut nics_by_group: BTreeMap<u16, u32> = BTreeMap::new();
        for place in roster.nic_ids().filter_map(|nic| roster.location(nic)) {
            *nics_by_group.entry(place.group).or_default() += 1;
        }
        let group_size = self.switches * self.nics;
        nics_by_group.len() as u32 == self.groups
            && nics_by_group.values().all(|count| *count == group_size)
    }

    /// Returns this shape with all rates in proportion to the measured bandwidth of a NIC, so that
    /// overheads of packets and of NICs do not lower a share of theory.
    pub fn scaled_to(self, quiet_bandwidth: f64) -> Self {
        let ratio = quiet_bandwidth / self.nic_rate;
        Self {
            nic_rate: quiet_bandwidth,
            local_rate: self.local_rate * ratio,
            global_rate: self.global_rate * ratio,
            ..self
        }
    }

    /// The number of NICs of a group.
    fn nics_of_group(&self) -> f64 {
        f64::from(self.switches) * f64::from(self.nics)
    }

    /// The rate of the links from one group to another one.
    fn between_groups(&self) -> f64 {
        f64::from(self.links) * self.global_rate
    }

    /// The rate of the links from a group to all others.
    fn global_out(&self) -> f64 {
        f64::from(self.groups.saturating_sub(1)) * self.between_groups()
    }

    /// The rate of the links from half of the groups to the others.
    pub fn cut(&self) -> f64 {
        let (half, others) = (self.groups / 2, self.groups.div_ceil(2));
        f64::from(half) * f64::from(others) * self.between_groups()
    }

    /// The bandwidth of a NIC while half of the groups send to the others. On minimal paths, the
    /// links to the group that an odd number leaves over carry nothing.
    fn bisection_of_nic(&self) -> f64 {
        let half = f64::from(self.groups / 2);
        let links = if self.is_minimal { half * half * self.between_groups() } else { self.cut() };
        self.nic_rate.min(links / (half * self.nics_of_group()))
    }

    /// The bandwidth of a NIC while each sends equally to all.
    fn all_to_all_of_nic(&self) -> f64 {
        let links = f64::from(self.groups) * self.between_groups();
        self.nic_rate.min(links / self.nics_of_group())
    }

    /// The bandwidth of a NIC while each group sends to the next one: on minimal paths, or by
    /// detours over all other groups.
    fn worst_shift_of_nic(&self) -> f64 {
        let links = if self.is_minimal { self.between_groups() } else { self.global_out() / 2.0 };
        self.nic_rate.min(links / self.nics_of_group())
    }

    /// The bandwidth of a NIC under a pattern. `None` for patterns whose bandwidth depends on
    /// chance or on the routes, and for fabrics of one group.
    pub fn nic_value(&self, pattern: Pattern) -> Option<f64> {
        match pattern {
            Pattern::Quiet | Pattern::Bisect { of: Set::Switch, .. } => Some(self.nic_rate),
            _ if self.groups < 2 => None,
            Pattern::Bisect { of: Set::System, .. } => Some(self.bisection_of_nic()),
            Pattern::AllToAll => Some(self.all_to_all_of_nic()),
            Pattern::Shift(Distance::Group) => Some(self.worst_shift_of_nic()),
            Pattern::Bisect { .. } | Pattern::Shift(_) | Pattern::Incast(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::testing::Cluster;

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

    fn large(groups: u32, links: u32) -> FabricShape {
        FabricShape {
            groups,
            switches: 32,
            nics: 16,
            links,
            nic_rate: 25e9,
            local_rate: 25e9,
            global_rate: 25e9,
            is_minimal: true,
        }
    }

    /// The rate at which the NICs of a group can send.
    fn injection(shape: FabricShape) -> f64 {
        shape.nics_of_group() * shape.nic_rate
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 2e-3, "{found}, not {expected}");
    }

    #[test]
    fn shape_of_74_groups_allows_what_vector_19_says() {
        let shape = large(74, 4);
        close(injection(shape), 12.8e12);
        close(shape.global_out(), 7.30e12);
        close(shape.global_out() / injection(shape), 0.570);
        close(shape.cut(), 136.9e12);
        close(shape.bisection_of_nic(), 7.23e9);
        close(shape.all_to_all_of_nic(), 14.45e9);
        close(shape.worst_shift_of_nic(), 0.195e9);
        let adaptive = FabricShape { is_minimal: false, ..shape };
        close(adaptive.worst_shift_of_nic(), 7.13e9);
    }

    #[test]
    fn shape_of_166_groups_allows_what_vector_20_says() {
        let shape = large(166, 2);
        close(shape.global_out() / injection(shape), 0.645);
        close(shape.bisection_of_nic(), 8.11e9);
        close(shape.all_to_all_of_nic(), 16.21e9);
        close(f64::from(shape.groups) * shape.global_out(), 1369.5e12);
    }

    #[test]
    fn measured_bandwidth_of_nic_scales_links_too() {
        let shape = large(74, 4).scaled_to(21.5e9);
        close(shape.global_out() / injection(shape), 0.570);
        let system = Pattern::Bisect { of: Set::System, both_ways: false };
        close(shape.nic_value(system).unwrap(), 7.23e9 * 0.86);
        close(shape.nic_value(Pattern::Quiet).unwrap(), 21.5e9);
        assert_eq!(shape.nic_value(Pattern::Incast(8)), None);
        assert_eq!(large(1, 0).nic_value(system), None);
    }

    #[test]
    fn odd_number_of_groups_leaves_links_unused_on_minimal_paths() {
        let minimal = large(5, 4);
        close(minimal.bisection_of_nic(), 2.0 * 100e9 / 512.0);
        let adaptive = FabricShape { is_minimal: false, ..minimal };
        close(adaptive.bisection_of_nic(), 3.0 * 100e9 / 512.0);
    }

    #[test]
    fn shape_is_of_a_roster_with_all_its_nics() {
        let shape = FabricShape { groups: 4, switches: 2, nics: 2, ..large(4, 1) };
        for (sizes, expected) in [
            ([4, 2, 2, 1], true),
            ([3, 2, 2, 1], false),
            ([4, 2, 1, 1], false),
            ([4, 2, 3, 1], false),
        ] {
            let roster = Cluster::new(sizes, &[], 1).roster;
            assert_eq!(shape.is_of(&roster), expected, "{sizes:?}");
        }
    }
}
