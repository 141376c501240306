//! Bandwidths of parts of the fabric under patterns in which equal parts have equal flows.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Grade, LoadUnit, SetFigures};
use super::limits::{EQUAL_FLOWS, EqualParts, NIC, SET};
use super::pattern::{Distance, Pattern, Set};
use super::rates::SlotRates;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use crew::location::Location;
use facts::robust::median;

/// Fewest flows of a set with a verdict: on busy machines most of them may be left out.
const LEAST_FLOWS: usize = 3;

/// Most good sets of a kind in a document. The large systems have 70,000 pairs of switches.
const MOST_GOOD: usize = 32;

/// The flows of a set so far.
#[derive(Default)]
struct SetRates {
    rates: Vec<f64>,
    slots: BTreeSet<usize>,
}

/// Returns the sets to which a flow belongs under a pattern.
pub fn sets_of_flow(
    pattern: Pattern,
    source: NicId,
    from: Location,
    to: Location,
) -> Vec<LoadUnit> {
    let is_of_group = from.group == to.group;
    let is_of_switch = is_of_group && from.switch == to.switch;
    let between_groups = || {
        let links = LoadUnit::GroupLinks { from: from.group, to: to.group, both: false };
        vec![links, LoadUnit::Group(from.group)]
    };
    match pattern {
        Pattern::Bisect { of: Set::Switch, .. } if is_of_switch => {
            let switch = LoadUnit::Switch { group: from.group, switch: from.switch };
            vec![LoadUnit::Nic(source), switch]
        }
        Pattern::Bisect { of: Set::Group, .. } if is_of_switch => {
            vec![LoadUnit::Group(from.group)]
        }
        Pattern::Bisect { of: Set::Group, .. } if is_of_group => {
            let links = LoadUnit::SwitchLinks {
                group: from.group,
                from: from.switch,
                to: to.switch,
                both: false,
            };
            vec![links, LoadUnit::Group(from.group)]
        }
        Pattern::Bisect { of: Set::System, .. }
        | Pattern::Shift(Distance::Group)
        | Pattern::AllToAll
            if !is_of_group =>
        {
            between_groups()
        }
        _ => Vec::new(),
    }
}

/// Returns the figures of all sets under a pattern, the slowest first. `theory` is the bandwidth of
/// a flow between groups.
pub fn figures(
    roster: &Roster,
    pattern: Pattern,
    slots: &[SlotRates],
    theory: Option<f64>,
) -> Vec<SetFigures> {
    let mut rates_by_unit: BTreeMap<LoadUnit, SetRates> = BTreeMap::new();
    for (slot, rates) in slots.iter().enumerate() {
        for (source, target, rate) in rates.flows() {
            let places = [source, target].map(|nic| roster.location(nic));
            let [Some(from), Some(to)] = places else {
                continue;
            };
            for unit in sets_of_flow(pattern, source, from, to) {
                let set = rates_by_unit.entry(unit).or_default();
                set.rates.push(rate);
                set.slots.insert(slot);
            }
        }
    }
    let mut kinds: BTreeMap<u8, Vec<(LoadUnit, SetRates)>> = BTreeMap::new();
    for (unit, set) in rates_by_unit {
        kinds.entry(kind(unit)).or_default().push((unit, set));
    }
    let mut figures: Vec<SetFigures> = Vec::new();
    for sets in kinds.into_values() {
        figures.extend(figures_of_kind(&sets, theory));
    }
    figures.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    figures
}

/// Leaves the slowest good sets of each kind, and all others.
pub fn shorten(sets: &mut Vec<SetFigures>) {
    let mut good: BTreeMap<u8, usize> = BTreeMap::new();
    sets.retain(|set| {
        let kind_count = good.entry(kind(set.unit)).or_default();
        *kind_count += usize::from(set.grade == Grade::Good);
        set.grade != Grade::Good || *kind_count <= MOST_GOOD
    });
}

/// Returns the kind of a part: only parts of one kind are compared.
fn kind(unit: LoadUnit) -> u8 {
    match unit {
        LoadUnit::Nic(_) => 0,
        LoadUnit::Switch { .. } => 1,
        LoadUnit::SwitchLinks { .. } => 2,
        LoadUnit::Group(_) => 3,
        LoadUnit::GroupLinks { .. } => 4,
        LoadUnit::System | LoadUnit::TrafficClass => 5,
    }
}

fn figures_of_kind(sets: &[(LoadUnit, SetRates)], theory: Option<f64>) -> Vec<SetFigures> {
    let in_slot = |set: &SetRates| set.rates.len() as f64 / set.slots.len() as f64;
    // Sorted by the number of flows in a slot, so that equal sets are neighbours.
    let mut values: Vec<(f64, f64)> =
        sets.iter().filter_map(|(_, set)| Some((in_slot(set), median(&set.rates)?))).collect();
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let equal_to = |flows: f64| {
        let first = values.partition_point(|value| value.0 < (1.0 - EQUAL_FLOWS) * flows);
        let end = values.partition_point(|value| value.0 <= (1.0 + EQUAL_FLOWS) * flows);
        (first, end)
    };
    let mut known: BTreeMap<(usize, usize), EqualParts> = BTreeMap::new();
    let mut figures = Vec::new();
    for (unit, set) in sets {
        let Some(per_flow) = median(&set.rates) else {
            continue;
        };
        let (first, end) = equal_to(in_slot(set));
        let equal = known.entry((first, end)).or_insert_with(|| {
            let figures: Vec<f64> = values[first..end].iter().map(|value| value.1).collect();
            EqualParts::new(&figures)
        });
        let limits = match unit {
            LoadUnit::Nic(_) => NIC,
            _ => SET,
        };
        let (ratio, grade) = limits.grade_among(per_flow, equal);
        let is_known = set.rates.len() >= LEAST_FLOWS;
        let grade = if is_known { grade } else { Grade::Unjudged };
        figures.push(SetFigures {
            unit: *unit,
            flows: set.rates.len() as u32,
            per_flow,
            ratio,
            theory: theory.filter(|_| matches!(unit, LoadUnit::GroupLinks { .. })),
            grade,
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a set with flows of this rate in one slot.
    fn set(unit: LoadUnit, flows: usize, rate: f64) -> (LoadUnit, SetRates) {
        let set = SetRates { rates: vec![rate; flows], slots: BTreeSet::from([0]) };
        (unit, set)
    }

    fn grades(sets: &[(LoadUnit, SetRates)]) -> Vec<Grade> {
        let figures = figures_of_kind(sets, None);
        figures.into_iter().map(|set| set.grade).collect()
    }

    #[test]
    fn sets_with_other_numbers_of_flows_are_not_compared() {
        let group_set = |group: u16, flows, rate| set(LoadUnit::Group(group), flows, rate);
        let equal = [group_set(0, 4, 10.0), group_set(1, 4, 10.0), group_set(2, 4, 10.0)];
        let larger = [group_set(3, 8, 5.0), group_set(4, 8, 5.0), group_set(5, 9, 5.0)];
        let sets: Vec<_> = equal.into_iter().chain(larger).collect();
        assert_eq!(grades(&sets), [Grade::Good; 6]);
        let sets = [group_set(0, 4, 10.0), group_set(1, 4, 10.0), group_set(2, 5, 5.0)];
        assert_eq!(grades(&sets), [Grade::Good, Grade::Good, Grade::Bad]);
    }

    #[test]
    fn nics_have_limits_of_their_own() {
        let figures = [10.0, 10.0, 10.0, 9.2];
        let nics: Vec<_> =
            (0..4).map(|nic| set(LoadUnit::Nic(NicId(nic)), 3, figures[nic as usize])).collect();
        assert_eq!(grades(&nics)[3], Grade::Bad);
        let groups: Vec<_> = (0..4)
            .map(|group| set(LoadUnit::Group(group), 3, figures[usize::from(group)]))
            .collect();
        assert_eq!(grades(&groups)[3], Grade::Good);
    }

    #[test]
    fn documents_have_few_good_sets_of_each_kind() {
        let nics = (0..40).map(|nic| set(LoadUnit::Nic(NicId(nic)), 3, 10.0 + f64::from(nic)));
        let groups = (0..4).map(|group| set(LoadUnit::Group(group), 2, 10.0));
        let sets: Vec<_> = nics.chain(groups).collect();
        let mut figures = figures_of_kind(&sets, None);
        figures.iter_mut().for_each(|figure| figure.grade = Grade::Good);
        shorten(&mut figures);
        let units = figures.iter().map(|figure| figure.unit);
        let slowest = (0..32).map(|nic| LoadUnit::Nic(NicId(nic)));
        let groups = (0..4).map(LoadUnit::Group);
        assert!(units.eq(slowest.chain(groups)));
    }

    #[test]
    fn set_of_two_flows_has_no_verdict() {
        let group_set = |group: u16, flows, rate| set(LoadUnit::Group(group), flows, rate);
        let slow = |flows| {
            let good =
                [group_set(0, flows, 10.0), group_set(1, flows, 10.0), group_set(2, flows, 10.0)];
            let sets: Vec<_> = good.into_iter().chain([group_set(3, flows, 2.0)]).collect();
            grades(&sets)[3]
        };
        assert_eq!(slow(2), Grade::Unjudged);
        assert_eq!(slow(3), Grade::Bad);
    }
}
