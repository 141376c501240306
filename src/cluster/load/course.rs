//! The steps of a survey under load: which scenes come in which order (load.md 3.2 and 3.9).

use super::findings::{LeftOut, Spread};
use super::flows::flows;
use super::names::pattern_name;
use super::pattern::{Distance, Pattern, Set};
use super::placed::{PlacedNic, groups, switches};
use super::quiet;
use super::roles::{RoleRules, deal};
use super::scene::Purpose;
use super::steps::{CourseStep, roles_dice, spread_name};
use super::wanted::{Want, WantedLoad};

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

/// The strongest load of the links between groups, and of targets; without enough NICs or groups,
/// the next pattern of the list.
const STRONGEST: [&[Pattern]; 2] = [
    &[Pattern::Shift(Distance::Group), Pattern::AllToAll],
    &[Pattern::Incast(32)],
];

const fn both_ways(of: Set) -> Pattern {
    Pattern::Bisect {
        of,
        both_ways: true,
    }
}

const fn one_way(of: Set) -> Pattern {
    Pattern::Bisect {
        of,
        both_ways: false,
    }
}

/// The steps of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The steps, from the smallest shared part of the fabric outward.
    pub steps: Vec<CourseStep>,
    /// What was wanted, and cannot be measured.
    pub left_out: Vec<LeftOut>,
}

/// What decides which steps are possible.
#[derive(Clone, Copy, Debug)]
pub struct CourseFacts<'a> {
    /// The NICs that take part.
    pub nics: &'a [PlacedNic],
    /// The NICs that take part in scenes of victims.
    pub nics_of_victims: &'a [PlacedNic],
    /// How many NICs are aggressors and victims.
    pub rules: RoleRules,
    /// Seed of roles and peers.
    pub seed: u64,
    /// Whether victims have another traffic class.
    pub has_other_class: bool,
}

/// Returns the steps of a request. The quiet bandwidth is always part of it, because figures of
/// other patterns are ratios to it.
pub fn course(wanted: &WantedLoad, facts: CourseFacts) -> Course {
    let mut wants: Vec<Want> = Vec::new();
    for want in &wanted.list {
        match want {
            Want::Standard => wants.extend([
                Want::Bisect(Set::Switch),
                Want::Bisect(Set::Group),
                Want::Bisect(Set::System),
                Want::AllToAll,
                Want::Incast(8),
                Want::Victims,
            ]),
            other => wants.push(*other),
        }
    }
    wants.sort_by_key(reach);
    wants.dedup();
    let mut course = Course::default();
    course.add_bandwidth(Pattern::Quiet, facts);
    for want in wants {
        match want {
            Want::Bisect(of) => {
                course.add_bandwidth(one_way(of), facts);
                course.add_bandwidth(both_ways(of), facts);
            }
            Want::Shift => {
                for distance in [
                    Distance::One,
                    Distance::Switch,
                    Distance::Group,
                    Distance::Random,
                ] {
                    course.add_bandwidth(Pattern::Shift(distance), facts);
                }
            }
            Want::AllToAll => course.add_bandwidth(Pattern::AllToAll, facts),
            Want::Incast(sources) => course.add_bandwidth(Pattern::Incast(sources), facts),
            Want::Victims => course.add_victims(facts),
            Want::IncastSame(sources) => {
                course.add_spread(Pattern::Incast(sources), Spread::Mixed, true, false, facts);
            }
            Want::Classes => course.add_classes(facts),
            Want::Standard => {}
        }
    }
    course
}

/// Returns the key of the order of steps.
fn reach(want: &Want) -> (u8, u16) {
    match want {
        Want::Standard => (0, 0),
        Want::Bisect(Set::Switch) => (1, 0),
        Want::Bisect(Set::Group) => (2, 0),
        Want::Bisect(Set::System) => (3, 0),
        Want::Bisect(Set::All) => (4, 0),
        Want::Shift => (5, 0),
        Want::AllToAll => (6, 0),
        Want::Incast(sources) => (7, *sources),
        Want::Victims => (8, 0),
        Want::IncastSame(sources) => (9, *sources),
        Want::Classes => (10, 0),
    }
}

impl Course {
    fn add_bandwidth(&mut self, pattern: Pattern, facts: CourseFacts) {
        let what = pattern_name(pattern);
        match why_impossible(pattern, facts.nics, facts.seed) {
            Some(reason) => self.leave_out(what, reason),
            None => self.steps.push(CourseStep {
                purpose: Purpose::Bandwidth(pattern),
                repetitions: slots_of(pattern, facts.nics),
            }),
        }
    }

    fn leave_out(&mut self, what: String, reason: String) {
        self.left_out.push(LeftOut { what, reason });
    }

    fn add_victims(&mut self, facts: CourseFacts) {
        let spreads = [Spread::Mixed, Spread::Switches, Spread::Groups];
        let (possible, others): (Vec<_>, Vec<_>) = spreads
            .into_iter()
            .partition(|spread| aggressors(*spread, facts).is_some());
        for spread in others {
            let what = format!("victims, {}", spread_name(spread));
            self.leave_out(what, why_no_roles(spread, facts.nics_of_victims));
        }
        for under in UNDER {
            for spread in &possible {
                self.add_spread(under, *spread, false, false, facts);
            }
        }
    }

    /// Adds victims beside a pattern. An incast has fewer sources if there are no more.
    fn add_spread(
        &mut self,
        under: Pattern,
        spread: Spread,
        at_target: bool,
        in_other_class: bool,
        facts: CourseFacts,
    ) {
        let purpose = |under| Purpose::Victims {
            under,
            spread,
            at_target,
            in_other_class,
        };
        let title = |under| {
            let step = CourseStep {
                purpose: purpose(under),
                repetitions: REPETITIONS,
            };
            step.title()
        };
        let Some(smallest) = aggressors(spread, facts) else {
            self.leave_out(title(under), why_no_roles(spread, facts.nics_of_victims));
            return;
        };
        let fitting = fitting(under, smallest.len());
        if let Some(reason) = why_impossible(fitting, &smallest, facts.seed) {
            self.leave_out(title(under), reason);
            return;
        }
        let step = CourseStep {
            purpose: purpose(fitting),
            repetitions: REPETITIONS,
        };
        if fitting != under {
            let reason = format!(
                "there are {} aggressors: {} instead",
                smallest.len(),
                pattern_name(fitting)
            );
            self.leave_out(title(under), reason);
        }
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    fn add_classes(&mut self, facts: CourseFacts) {
        if !facts.has_other_class {
            self.leave_out(
                Want::Classes.to_string(),
                "there is no other traffic class for victims".into(),
            );
            return;
        }
        let smallest = aggressors(Spread::Mixed, facts).unwrap_or_default();
        for patterns in STRONGEST {
            let is_possible = |pattern: &&Pattern| {
                let fitting = fitting(**pattern, smallest.len());
                why_impossible(fitting, &smallest, facts.seed).is_none()
            };
            let under = *patterns.iter().find(is_possible).unwrap_or(&patterns[0]);
            for in_other_class in [false, true] {
                self.add_spread(under, Spread::Mixed, false, in_other_class, facts);
            }
        }
    }
}

/// Returns the aggressors of the repetition that has the fewest of them; `None` if a repetition has
/// no roles.
fn aggressors(spread: Spread, facts: CourseFacts) -> Option<Vec<PlacedNic>> {
    let of_repetition = |number| {
        let mut rng = roles_dice(facts.seed, number, spread);
        let roles = deal(facts.nics_of_victims, spread, facts.rules, &mut rng)?;
        Some(roles.aggressors)
    };
    let all: Option<Vec<_>> = (0..REPETITIONS).map(of_repetition).collect();
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

/// Returns the number of slots of a pattern: at least 8 in which each part of the fabric is measured
/// in each direction (load.md 3.6).
fn slots_of(pattern: Pattern, nics: &[PlacedNic]) -> u32 {
    let is_small = nics.len() <= SMALL;
    match pattern {
        Pattern::Quiet => quiet::slots(nics),
        // Each direction of two groups has links of its own; a switch or a group has the same part
        // in both directions.
        Pattern::Bisect {
            of: Set::System,
            both_ways: false,
        } => 16,
        Pattern::Bisect {
            both_ways: false, ..
        } if !is_small => 16,
        Pattern::Bisect { .. } | Pattern::Shift(_) => 8,
        Pattern::AllToAll if is_small => 16,
        Pattern::AllToAll => 64,
        Pattern::Incast(_) if is_small => 8,
        Pattern::Incast(_) => 16,
    }
}

/// The reason for patterns and spreads that need locations.
const NO_LOCATIONS: &str = "the locations of the NICs are not known";

/// Returns why a pattern has no flows among these NICs; `None` if it has.
fn why_impossible(pattern: Pattern, nics: &[PlacedNic], seed: u64) -> Option<String> {
    let needs_locations = matches!(
        pattern,
        Pattern::Bisect {
            of: Set::Switch | Set::Group | Set::System,
            ..
        } | Pattern::Shift(Distance::Switch | Distance::Group)
    );
    let is_group = matches!(pattern, Pattern::Bisect { of: Set::Group, .. });
    if needs_locations && nics.iter().all(|nic| nic.switch.is_none()) {
        return Some(NO_LOCATIONS.into());
    }
    // Then it has the same halves as bisect:switch.
    let is_repeated = is_group && groups(nics).iter().all(|group| switches(group).len() < 2);
    if !is_repeated && !flows(pattern, nics, 0, seed).is_empty() {
        return None;
    }
    Some(match pattern {
        Pattern::Incast(sources) => {
            format!("it needs {} NICs, there are {}", sources + 1, nics.len())
        }
        Pattern::Bisect {
            of: Set::Switch, ..
        } => "no switch has NICs of two nodes".into(),
        Pattern::Bisect { of: Set::Group, .. } => "no group has NICs at two switches".into(),
        Pattern::Shift(Distance::Switch) => "all NICs are at one switch".into(),
        Pattern::Bisect {
            of: Set::System, ..
        }
        | Pattern::Shift(Distance::Group) => "all NICs are in one group".into(),
        _ => "it needs NICs of two nodes".into(),
    })
}

/// Returns why there are no roles.
fn why_no_roles(spread: Spread, nics: &[PlacedNic]) -> String {
    if spread != Spread::Mixed && nics.iter().all(|nic| nic.switch.is_none()) {
        return NO_LOCATIONS.into();
    }
    let of_what = match spread {
        Spread::Mixed => "nodes",
        Spread::Switches => "switches",
        Spread::Groups => "groups",
    };
    format!("there are too few {of_what} for victims and aggressors")
}
