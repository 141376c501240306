//! The steps of a survey under load: which load slots come in which order (load.md 3.2).

use super::findings::{LeftOut, Spread};
use super::names::pattern_name;
use super::pattern::{Distance, Pattern, Set};
use super::possible::{why_impossible, why_no_roles};
use super::quiet;
use super::roles::{RoleRules, assign_roles};
use super::steps::{CourseStep, roles_dice, spread_name};
use crate::located::LocatedNic;
use crate::slot::{LoadMeasurement, VictimKey};
use crate::spec::{LoadPattern, LoadSpec};

/// Fabrics up to this number of NICs are measured in fewer slots.
const SMALL: usize = 32;

/// Repetitions of victims, each with other roles.
const REPETITIONS: u32 = 4;

/// Least number of sources of an incast beside victims.
const LEAST_SOURCES: u16 = 4;

/// The load beside victims, by the links that it fills.
const UNDER: [Pattern; 5] = [
    Pattern::AllToAll,
    both_ways(Set::System),
    Pattern::Shift(Distance::Group),
    Pattern::Incast(8),
    Pattern::Incast(32),
];

/// The strongest load of all links, and of targets; without enough NICs or groups, the next pattern
/// of the list. A worst shift loads fewer links: victims elsewhere have nothing to be kept from.
const STRONGEST: [&[Pattern]; 2] =
    [&[both_ways(Set::System), Pattern::AllToAll], &[Pattern::Incast(32)]];

const fn both_ways(set: Set) -> Pattern {
    Pattern::Bisect { of: set, both_ways: true }
}

const fn one_way(set: Set) -> Pattern {
    Pattern::Bisect { of: set, both_ways: false }
}

/// The steps of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadCourse {
    /// The steps, from the smallest shared part of the fabric outward.
    pub steps: Vec<CourseStep>,
    /// What was wanted, and cannot be measured.
    pub left_out: Vec<LeftOut>,
}

/// What decides which steps are possible.
#[derive(Clone, Copy, Debug)]
pub struct CourseFacts<'a> {
    /// The NICs that take part.
    pub nics: &'a [LocatedNic],
    /// The NICs that take part in load slots of victims.
    pub nics_of_victims: &'a [LocatedNic],
    /// How many NICs are aggressors and victims.
    pub rules: RoleRules,
    /// Seed of roles and peers.
    pub seed: u64,
    /// Whether victims have another traffic class.
    pub has_other_class: bool,
}

/// Returns the steps of a request. The quiet bandwidth is always part of it, because figures of
/// other patterns are ratios to it.
pub fn course(wanted: &LoadSpec, facts: CourseFacts) -> LoadCourse {
    let mut wants: Vec<LoadPattern> = Vec::new();
    for want in &wanted.list {
        match want {
            LoadPattern::Standard => wants.extend([
                LoadPattern::Bisect(Set::Switch),
                LoadPattern::Bisect(Set::Group),
                LoadPattern::Bisect(Set::System),
                LoadPattern::AllToAll,
                LoadPattern::Incast(8),
                LoadPattern::Victims,
            ]),
            other => wants.push(*other),
        }
    }
    wants.sort_by_key(reach);
    wants.dedup();
    let mut course = LoadCourse::default();
    course.add_bandwidth(Pattern::Quiet, facts);
    for want in wants {
        match want {
            LoadPattern::Bisect(set) => {
                course.add_bandwidth(one_way(set), facts);
                course.add_bandwidth(both_ways(set), facts);
            }
            LoadPattern::Shift => {
                for distance in [Distance::One, Distance::Switch, Distance::Group, Distance::Random]
                {
                    course.add_bandwidth(Pattern::Shift(distance), facts);
                }
            }
            LoadPattern::AllToAll => course.add_bandwidth(Pattern::AllToAll, facts),
            LoadPattern::Incast(sources) => course.add_bandwidth(Pattern::Incast(sources), facts),
            LoadPattern::Victims => course.add_victims(facts),
            LoadPattern::IncastSame(sources) => course.add_incast_same(sources, facts),
            LoadPattern::Classes => course.add_classes(facts),
            LoadPattern::Standard => {}
        }
    }
    course
}

/// Returns the key of the order of steps.
fn reach(want: &LoadPattern) -> (u8, u16) {
    match want {
        LoadPattern::Standard => (0, 0),
        LoadPattern::Bisect(Set::Switch) => (1, 0),
        LoadPattern::Bisect(Set::Group) => (2, 0),
        LoadPattern::Bisect(Set::System) => (3, 0),
        LoadPattern::Bisect(Set::All) => (4, 0),
        LoadPattern::Shift => (5, 0),
        LoadPattern::AllToAll => (6, 0),
        LoadPattern::Incast(sources) => (7, *sources),
        LoadPattern::Victims => (8, 0),
        LoadPattern::IncastSame(sources) => (9, *sources),
        LoadPattern::Classes => (10, 0),
    }
}

impl LoadCourse {
    fn add_bandwidth(&mut self, pattern: Pattern, facts: CourseFacts) {
        let what = pattern_name(pattern);
        match why_impossible(pattern, facts.nics, facts.seed) {
            Some(reason) => self.leave_out(what, reason),
            None => self.steps.push(CourseStep {
                purpose: LoadMeasurement::Bandwidth(pattern),
                repetitions: slots_of(pattern, facts.nics),
            }),
        }
    }

    fn leave_out(&mut self, what: String, reason: String) {
        let left_out = LeftOut { what, reason };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    fn add_victims(&mut self, facts: CourseFacts) {
        let spreads = [Spread::Mixed, Spread::Switches, Spread::Groups];
        let dealt = spreads.map(|spread| (spread, aggressors(spread, facts)));
        for (spread, aggressors) in &dealt {
            if aggressors.is_none() {
                let what = format!("victims, {}", spread_name(*spread));
                self.leave_out(what, why_no_roles(*spread, facts.nics_of_victims));
            }
        }
        for under in UNDER {
            for (spread, aggressors) in &dealt {
                if let Some(aggressors) = aggressors {
                    self.add_under(VictimKey::new(under, *spread), aggressors, facts);
                }
            }
        }
    }

    /// Adds victims beside a pattern. An incast has fewer sources if there are no more.
    fn add_under(&mut self, key: VictimKey, aggressors: &[LocatedNic], facts: CourseFacts) {
        let step = |under| CourseStep {
            purpose: LoadMeasurement::Victims(VictimKey { under, ..key }),
            repetitions: REPETITIONS,
        };
        let under = key.under;
        let fitting = fitting(under, aggressors.len());
        if let Some(reason) = why_impossible(fitting, aggressors, facts.seed) {
            self.leave_out(step(under).title(), reason);
            return;
        }
        if fitting != under {
            let what = format!("victims under {}", pattern_name(under));
            let reason = format!("too few aggressors: {} instead", pattern_name(fitting));
            self.leave_out(what, reason);
        }
        if !self.steps.contains(&step(fitting)) {
            self.steps.push(step(fitting));
        }
    }

    fn add_incast_same(&mut self, sources: u16, facts: CourseFacts) {
        match aggressors(Spread::Mixed, facts) {
            Some(aggressors) => {
                let key = VictimKey::new(Pattern::Incast(sources), Spread::Mixed);
                self.add_under(VictimKey { at_target: true, ..key }, &aggressors, facts);
            }
            None => self.leave_out(
                LoadPattern::IncastSame(sources).to_string(),
                why_no_roles(Spread::Mixed, facts.nics_of_victims),
            ),
        }
    }

    fn add_classes(&mut self, facts: CourseFacts) {
        let aggressors = aggressors(Spread::Mixed, facts);
        let (true, Some(aggressors)) = (facts.has_other_class, &aggressors) else {
            let reason = if facts.has_other_class {
                why_no_roles(Spread::Mixed, facts.nics_of_victims)
            } else {
                "there is no other traffic class for victims".into()
            };
            self.leave_out(LoadPattern::Classes.to_string(), reason);
            return;
        };
        for patterns in STRONGEST {
            let is_possible = |pattern: &&Pattern| {
                let fitting = fitting(**pattern, aggressors.len());
                why_impossible(fitting, aggressors, facts.seed).is_none()
            };
            let under = *patterns.iter().find(is_possible).unwrap_or(&patterns[0]);
            for in_other_class in [false, true] {
                let key = VictimKey { in_other_class, ..VictimKey::new(under, Spread::Mixed) };
                self.add_under(key, aggressors, facts);
            }
        }
    }
}

/// Returns the aggressors of the repetition that has the fewest of them; `None` if a repetition has
/// no roles.
fn aggressors(spread: Spread, facts: CourseFacts) -> Option<Vec<LocatedNic>> {
    let repetition_nics = |number| {
        let mut rng = roles_dice(facts.seed, number, spread);
        let roles = assign_roles(facts.nics_of_victims, spread, facts.rules, &mut rng)?;
        Some(roles.aggressors)
    };
    let all: Option<Vec<_>> = (0..REPETITIONS).map(repetition_nics).collect();
    all?.into_iter().min_by_key(Vec::len)
}

/// Returns the pattern with as many sources as there are aggressors beside the target.
fn fitting(pattern: Pattern, aggressors: usize) -> Pattern {
    match pattern {
        Pattern::Incast(sources) if usize::from(sources) >= aggressors => {
            let most = aggressors.saturating_sub(1) as u16;
            Pattern::Incast(most.max(LEAST_SOURCES.min(sources)))
        }
        other => other,
    }
}

/// Returns the number of slots of a pattern: at least 8 in which each part of the fabric is
/// measured in each direction (load.md 3.6).
fn slots_of(pattern: Pattern, nics: &[LocatedNic]) -> u32 {
    let is_small = nics.len() <= SMALL;
    match pattern {
        Pattern::Quiet => quiet::slots(nics),
        // A direction at a time.
        Pattern::Bisect { both_ways: false, .. } => 16,
        Pattern::Bisect { .. } | Pattern::Shift(_) => 8,
        Pattern::AllToAll if is_small => 16,
        Pattern::AllToAll => 64,
        Pattern::Incast(_) if is_small => 8,
        Pattern::Incast(_) => 16,
    }
}
