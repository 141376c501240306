//! The steps of a survey under load: which load slots come in which order, and why a pattern is
//! left out (load.md 3.2).

use fastrand::Rng;

use super::findings::{LeftOut, Spread};
use super::flows::{self, flows, seeded_rng};
use super::roles::{LocatedNic, RoleRules, Roles, assign_roles, groups, switches, victim_pairs};
use super::slot::{LoadFlow, LoadMeasurement, LoadSlot, VictimKey, pattern_name, purpose_name};
use super::spec::{Distance, LoadPattern, LoadSpec, Pattern, Set};
use campaign::quiet::roster::Pair;

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

/// The steps of a request. The quiet bandwidth is always part of it, because figures of other
/// patterns are ratios to it.
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

/// The key of the order of steps.
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

/// The aggressors of the repetition that has the fewest of them; `None` if a repetition has no
/// roles.
fn aggressors(spread: Spread, facts: CourseFacts) -> Option<Vec<LocatedNic>> {
    let repetition_nics = |number| {
        let mut rng = roles_dice(facts.seed, number, spread);
        let roles = assign_roles(facts.nics_of_victims, spread, facts.rules, &mut rng)?;
        Some(roles.aggressors)
    };
    let all: Option<Vec<_>> = (0..REPETITIONS).map(repetition_nics).collect();
    all?.into_iter().min_by_key(Vec::len)
}

/// The pattern with as many sources as there are aggressors beside the target.
fn fitting(pattern: Pattern, aggressors: usize) -> Pattern {
    match pattern {
        Pattern::Incast(sources) if usize::from(sources) >= aggressors => {
            let most = aggressors.saturating_sub(1) as u16;
            Pattern::Incast(most.max(LEAST_SOURCES.min(sources)))
        }
        other => other,
    }
}

/// The number of slots of a pattern: at least 8 in which each part of the fabric is measured in
/// each direction (load.md 3.6).
fn slots_of(pattern: Pattern, nics: &[LocatedNic]) -> u32 {
    let is_small = nics.len() <= SMALL;
    match pattern {
        Pattern::Quiet => flows::quiet_slots(nics),
        // A direction at a time.
        Pattern::Bisect { both_ways: false, .. } => 16,
        Pattern::Bisect { .. } | Pattern::Shift(_) => 8,
        Pattern::AllToAll if is_small => 16,
        Pattern::AllToAll => 64,
        Pattern::Incast(_) if is_small => 8,
        Pattern::Incast(_) => 16,
    }
}

/// The slots of a repetition of victims have load or not: quiet, loaded, loaded, quiet, so that a
/// drift cancels out.
const HAS_LOAD: [bool; 4] = [false, true, true, false];

/// Load slots with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourseStep {
    pub purpose: LoadMeasurement,
    /// Number of repetitions.
    pub repetitions: u32,
}

impl CourseStep {
    /// The name of its pattern, as in judgements.
    pub fn name(&self) -> String {
        purpose_name(self.purpose)
    }

    /// Returns its name in a plan: `victims under incast:8, mixed`.
    pub fn title(&self) -> String {
        match self.purpose {
            LoadMeasurement::Victims(key) => {
                let class = if key.in_other_class { ", other traffic class" } else { "" };
                format!("victims under {}, {}{class}", self.name(), spread_name(key.spread))
            }
            _ => self.name(),
        }
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        match self.purpose {
            LoadMeasurement::Victims(_) => self.repetitions * HAS_LOAD.len() as u32,
            _ => self.repetitions,
        }
    }

    /// The slots of a repetition, without their timing: none if the NICs are too few.
    pub fn repetition(
        &self,
        nics: &[LocatedNic],
        number: u32,
        rules: RoleRules,
        seed: u64,
    ) -> Vec<LoadSlot> {
        let slot = |place, flows, victims| LoadSlot {
            purpose: self.purpose,
            repetition: number,
            place,
            flows,
            victims,
            slot_ns: 0,
            window_bytes: 0,
        };
        match self.purpose {
            LoadMeasurement::Ramp => Vec::new(),
            LoadMeasurement::Bandwidth(pattern) => {
                let flows = flows(pattern, nics, number, seed);
                let has_flows = !flows.is_empty();
                has_flows.then(|| slot(0, flows, Vec::new())).into_iter().collect()
            }
            LoadMeasurement::Victims(VictimKey { under, spread, at_target, .. }) => {
                let mut rng = roles_dice(seed, number, spread);
                let Some(roles) = assign_roles(nics, spread, rules, &mut rng) else {
                    return Vec::new();
                };
                let load = |number| flows(under, &roles.aggressors, number, seed);
                let victims = if at_target {
                    victims_of_stars(&load(number), &roles, &mut rng)
                } else {
                    victim_pairs(&roles.victims, number, &mut rng)
                };
                let place_slot = |(place, has_load): (u32, bool)| {
                    // Victims of targets keep their targets.
                    let number = if at_target { number } else { 2 * number + place / 2 };
                    let flows = if has_load { load(number) } else { Vec::new() };
                    slot(place, flows, victims.clone())
                };
                let slots: Vec<_> = (0..).zip(HAS_LOAD).map(place_slot).collect();
                let is_complete = !victims.is_empty() && !slots[1].flows.is_empty();
                if is_complete { slots } else { Vec::new() }
            }
        }
    }
}

/// The random numbers of roles: the same ones for all patterns, so that their victims can be
/// compared.
fn roles_dice(seed: u64, repetition: u32, spread: Spread) -> Rng {
    seeded_rng(seed, 3 * repetition + spread as u32)
}

/// A victim for each target of the load.
fn victims_of_stars(flows: &[LoadFlow], roles: &Roles, rng: &mut Rng) -> Vec<Pair> {
    let mut targets: Vec<_> = flows.iter().flat_map(|flow| flow.peers.clone()).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut victims: Vec<_> = roles.victims.iter().map(|nic| nic.nic).collect();
    rng.shuffle(&mut victims);
    let pairs = victims.into_iter().zip(targets);
    pairs.map(|(initiator, target)| Pair { initiator, target }).collect()
}

/// The name of a spread in texts.
pub fn spread_name(spread: Spread) -> &'static str {
    match spread {
        Spread::Mixed => "mixed",
        Spread::Switches => "whole switches",
        Spread::Groups => "whole groups",
    }
}

/// The reason for patterns and spreads that need locations.
const NO_LOCATIONS: &str = "the locations of the NICs are not known";

/// Returns why a pattern has no flows among these NICs; `None` if it has.
pub fn why_impossible(pattern: Pattern, nics: &[LocatedNic], seed: u64) -> Option<String> {
    let needs_locations = matches!(
        pattern,
        Pattern::Bisect { of: Set::Switch | Set::Group | Set::System, .. }
            | Pattern::Shift(Distance::Switch | Distance::Group)
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
        Pattern::Bisect { of: Set::Switch, .. } => "no switch has NICs of two nodes".into(),
        Pattern::Bisect { of: Set::Group, .. } => "no group has NICs at two switches".into(),
        Pattern::Shift(Distance::Switch) => "all NICs are at one switch".into(),
        Pattern::Bisect { of: Set::System, .. } | Pattern::Shift(Distance::Group) => {
            "all NICs are in one group".into()
        }
        _ => "it needs NICs of two nodes".into(),
    })
}

/// Returns why there are no roles.
pub fn why_no_roles(spread: Spread, nics: &[LocatedNic]) -> String {
    if spread != Spread::Mixed && nics.iter().all(|nic| nic.switch.is_none()) {
        return NO_LOCATIONS.into();
    }
    let what = match spread {
        Spread::Mixed => "nodes",
        Spread::Switches => "switches",
        Spread::Groups => "groups",
    };
    format!("there are too few {what} for victims and aggressors")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::roles::{RoleRules, VICTIMS_PERCENT};
    use super::super::testing::{all_placed, d4, fabric};
    use super::{CourseFacts, CourseStep, LoadCourse, course};
    use crate::slot::{LoadMeasurement, LoadSlot, VictimKey};
    use crate::spec::parse;
    use campaign::quiet::roster::{NicId, Roster};

    const RULES: RoleRules =
        RoleRules { victims_percent: VICTIMS_PERCENT, most_aggressors: usize::MAX };

    fn course_of(roster: &Roster, wanted: &str, has_other_class: bool) -> LoadCourse {
        let nics = all_placed(roster);
        let facts = CourseFacts {
            nics: &nics,
            nics_of_victims: &nics,
            rules: RULES,
            seed: 5,
            has_other_class,
        };
        course(&parse(wanted).unwrap(), facts)
    }

    fn titles(course: &LoadCourse) -> Vec<String> {
        course.steps.iter().map(CourseStep::title).collect()
    }

    fn left_out(course: &LoadCourse) -> Vec<String> {
        let left_out = course.left_out.iter();
        left_out.map(|left_out| format!("{}: {}", left_out.what, left_out.reason)).collect()
    }

    #[test]
    fn standard_goes_from_the_smallest_shared_part_outward() {
        let course = course_of(&fabric([8, 4, 4, 1]), "standard", true);
        assert_eq!(
            titles(&course)[..12],
            [
                "quiet",
                "bisect:switch",
                "bisect:switch, both ways",
                "bisect:group",
                "bisect:group, both ways",
                "bisect:system",
                "bisect:system, both ways",
                "all2all",
                "incast:8",
                "victims under all2all, mixed",
                "victims under all2all, whole switches",
                "victims under all2all, whole groups",
            ]
        );
        assert_eq!(course.steps.len(), 9 + 5 * 3);
        assert_eq!(left_out(&course), [""; 0]);
        let victim_slots = course.steps[9..].iter().map(CourseStep::slots);
        assert_eq!(victim_slots.sum::<u32>(), 240);
        let others: Vec<u32> = course.steps[..9].iter().map(CourseStep::slots).collect();
        assert_eq!(others, [8, 16, 8, 16, 8, 16, 8, 64, 16]);
    }

    #[test]
    fn words_are_measured_once_and_in_order() {
        let roster = fabric([8, 4, 4, 1]);
        let course =
            course_of(&roster, "incast:32,victims,standard,incast-same:8,shift,incast:8", false);
        let titles = titles(&course);
        let unique: BTreeSet<&String> = titles.iter().collect();
        assert_eq!(unique.len(), titles.len());
        let place = |title: &str| titles.iter().position(|text| text == title);
        let order = [
            "quiet",
            "shift, next NIC",
            "shift, random",
            "incast:8",
            "incast:32",
            "victims under incast:32, whole groups",
            "victims under incast-same:8, mixed",
        ]
        .map(place);
        assert!(order.is_sorted() && order[0] == Some(0), "{titles:?}");
    }

    #[test]
    fn names_what_needs_locations() {
        let course = course_of(&fabric([0, 0, 64, 1]), "standard", false);
        assert_eq!(titles(&course).len(), 3 + 3, "{:?}", titles(&course));
        let reasons = left_out(&course);
        let without = "the locations of the NICs are not known";
        assert_eq!(reasons[0], format!("bisect:switch: {without}"));
        assert!(reasons.contains(&format!("victims, whole groups: {without}")));
        assert!(reasons.contains(&format!("victims under shift, next group, mixed: {without}")));
        assert_eq!(reasons.len(), 6 + 2 + 2);
    }

    #[test]
    fn names_what_the_roster_is_too_small_for() {
        let one_group = course_of(&fabric([1, 4, 4, 1]), "bisect:system,shift,incast:16", false);
        assert_eq!(
            left_out(&one_group),
            [
                "bisect:system: all NICs are in one group",
                "bisect:system, both ways: all NICs are in one group",
                "shift, next group: all NICs are in one group",
                "incast:16: it needs 17 NICs, there are 16",
            ]
        );
        let one_switch = course_of(&fabric([1, 1, 4, 1]), "bisect:group,shift", false);
        let reasons = left_out(&one_switch);
        assert_eq!(reasons[0], "bisect:group: no group has NICs at two switches");
        assert!(reasons.contains(&"shift, next switch: all NICs are at one switch".into()));
        let one_node = course_of(&fabric([1, 1, 1, 4]), "bisect", false);
        assert_eq!(one_node.steps, []);
        assert_eq!(left_out(&one_node)[0], "quiet: it needs NICs of two nodes");
    }

    #[test]
    fn incasts_beside_victims_shrink_on_small_fabrics() {
        let course = course_of(&d4(), "victims", false);
        let titles = titles(&course);
        assert!(titles.contains(&"victims under incast:7, mixed".into()), "{titles:?}");
        assert!(titles.contains(&"victims under incast:8, whole groups".into()), "{titles:?}");
        let reasons = left_out(&course);
        let expected = "victims under incast:8: too few aggressors: incast:7 instead";
        assert!(reasons.contains(&expected.into()), "{reasons:?}");
    }

    #[test]
    fn classes_need_another_class() {
        let roster = fabric([4, 4, 4, 1]);
        let without = course_of(&roster, "classes", false);
        assert_eq!(left_out(&without), ["classes: there is no other traffic class for victims"]);
        let course = course_of(&roster, "classes", true);
        assert_eq!(
            titles(&course)[1..],
            [
                "victims under bisect:system, both ways, mixed",
                "victims under bisect:system, both ways, mixed, other traffic class",
                "victims under incast:32, mixed",
                "victims under incast:32, mixed, other traffic class",
            ]
        );
    }

    fn ends(slot: &LoadSlot) -> (BTreeSet<NicId>, BTreeSet<NicId>) {
        let load =
            slot.flows.iter().flat_map(|flow| flow.peers.iter().copied().chain([flow.source]));
        let victims = slot.victims.iter().flat_map(|pair| pair.nics());
        (load.collect(), victims.collect())
    }

    #[test]
    fn victims_touch_no_nic_and_no_node_of_the_load() {
        for shape in [[4, 2, 2, 1], [4, 3, 3, 2], [0, 0, 24, 1]] {
            let roster = fabric(shape);
            let nics = all_placed(&roster);
            let node = |nic: &NicId| roster.nic(*nic).node;
            for step in course_of(&roster, "victims,incast-same:4", false).steps {
                let LoadMeasurement::Victims(VictimKey { at_target, .. }) = step.purpose else {
                    continue;
                };
                let mut pairs = BTreeSet::new();
                for repetition in 0..step.repetitions {
                    let slots = step.repetition(&nics, repetition, RULES, 5);
                    let is_quiet: Vec<bool> =
                        slots.iter().map(|slot| slot.flows.is_empty()).collect();
                    assert_eq!(is_quiet, [true, false, false, true]);
                    assert!(slots.iter().all(|slot| slot.victims == slots[0].victims));
                    pairs.insert(slots[0].victims.clone());
                    for slot in &slots[1..3] {
                        let (load, victims) = ends(slot);
                        if at_target {
                            let is_at_target = |pair: &campaign::quiet::roster::Pair| {
                                let mut peers = slot.flows.iter().flat_map(|flow| &flow.peers);
                                peers.any(|peer| *peer == pair.target)
                                    && !load.contains(&pair.initiator)
                            };
                            assert!(slot.victims.iter().all(is_at_target));
                        } else {
                            let nodes: BTreeSet<_> = load.iter().map(node).collect();
                            assert!(victims.iter().all(|nic| !nodes.contains(&node(nic))));
                        }
                    }
                }
                assert!(pairs.len() > 1, "{}: roles are new in each repetition", step.title());
            }
        }
    }
}
