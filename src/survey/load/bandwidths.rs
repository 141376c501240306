//! Bandwidths under a pattern: of all flows, of targets to which many NICs send, and of equal parts
//! of the fabric with equal flows.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{BandwidthFigures, Grade, LoadUnit, SetFigures, StarFigures};
use super::limits::{
    EQUAL_FLOWS, EqualParts, FAIRNESS, FabricShape, INCAST_SUM, NIC, SET, SHARE, SMALLEST_SHARE,
    worst,
};
use super::slot::{SlotRates, pattern_name};
use super::spec::{Distance, Pattern, Set};
use campaign::quiet::roster::{NicId, Roster};
use crew::location::Location;
use facts::robust::{mean, median, quantile, sorted};

/// The percentiles in the figures of a pattern.
const PERCENTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// The mean rate of each NIC that sent, over its slots.
fn means_of_nics(slots: &[SlotRates]) -> Vec<f64> {
    let mut sums: BTreeMap<NicId, (f64, u32)> = BTreeMap::new();
    for sent in slots.iter().flat_map(|slot| &slot.sent) {
        let (sum, count) = sums.entry(sent.source).or_default();
        *sum += sent.rate;
        *count += 1;
    }
    let means = sums.into_values();
    means.map(|(sum, count)| sum / f64::from(count)).collect()
}

/// The median over NICs of their mean rate; `None` without any.
pub fn median_of_nics(slots: &[SlotRates]) -> Option<f64> {
    median(&means_of_nics(slots))
}

/// What the figures of a pattern are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yardstick {
    /// The bandwidth without load, in bytes per second, if it was measured.
    pub quiet: Option<f64>,
    /// The shape of the fabric, if it is known and the load is not partial.
    pub shape: Option<FabricShape>,
}

/// The figures of the NICs, of the parts of the fabric and of targets under a pattern.
pub fn pattern_bandwidths(
    roster: &Roster,
    pattern: Pattern,
    slots: &[SlotRates],
    yardstick: Yardstick,
) -> BandwidthFigures {
    let nics = sorted(&means_of_nics(slots));
    // NICs whose results do not count send as well.
    let in_slot = |slot: &SlotRates| (slot.sent.len() + slot.unjudged.len()) as f64;
    let senders: Vec<f64> = slots.iter().map(in_slot).collect();
    let at = |part: f64| {
        if nics.is_empty() { 0.0 } else { quantile(&nics, part) }
    };
    let mean_of_nic = mean(&nics);
    let quiet = yardstick.quiet.filter(|quiet| *quiet > 0.0);
    let shape = yardstick.shape.zip(quiet);
    let theory = shape.and_then(|(shape, quiet)| shape.scaled_to(quiet).nic_value(pattern));
    let share_of_theory = mean_of_nic.zip(theory).map(|(mean, theory)| mean / theory);
    let ratio_to_quiet = mean_of_nic.zip(quiet).map(|(mean, quiet)| mean / quiet);
    let sets = set_bandwidths(roster, pattern, slots, theory);
    let stars = match pattern {
        Pattern::Incast(_) => target_bandwidths(slots, quiet),
        _ => Vec::new(),
    };
    let share_grade =
        share_of_theory.filter(|_| is_judged_by_share(pattern)).map(|share| SHARE.grade(share));
    let set_grades = sets.iter().map(|set| set.grade);
    let star_grades = stars.iter().map(|star| star.grade);
    let grade = worst(share_grade.into_iter().chain(set_grades).chain(star_grades));
    BandwidthFigures {
        pattern: pattern_name(pattern),
        slots: slots.len() as u32,
        nics: nics.len() as u32,
        unjudged: slots.iter().map(|slot| slot.unjudged.len() as u32).sum(),
        mean: mean_of_nic.unwrap_or(0.0),
        sum: mean_of_nic.unwrap_or(0.0) * mean(&senders).unwrap_or(0.0),
        min: at(0.0),
        p1: at(0.01),
        percentiles: PERCENTILES.map(at),
        theory,
        share_of_theory,
        ratio_to_quiet,
        sets,
        stars,
        grade,
    }
}

/// Whether the share of theory is a verdict: a worst shift may be slow in a good fabric.
pub fn is_judged_by_share(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::AllToAll | Pattern::Bisect { of: Set::System, .. })
}

/// The slots of one target so far.
#[derive(Default)]
struct StarSlots {
    sources: usize,
    sums: Vec<f64>,
    fairness: Vec<f64>,
    smallest: Vec<f64>,
}

/// The figures of all targets, the worst first. A target counts in a slot if the rates of all of
/// its sources are known. `quiet` is the bandwidth without load.
fn target_bandwidths(slots: &[SlotRates], quiet: Option<f64>) -> Vec<StarFigures> {
    let mut target_lists: BTreeMap<NicId, StarSlots> = BTreeMap::new();
    for slot in slots {
        let incomplete: BTreeSet<NicId> = slot.unknown_flows().map(|(_, target)| target).collect();
        let mut shares: BTreeMap<NicId, Vec<f64>> = BTreeMap::new();
        for (_, target, rate) in slot.flows() {
            shares.entry(target).or_default().push(rate);
        }
        shares.retain(|target, _| !incomplete.contains(target));
        for (target, shares) in shares {
            let star = target_lists.entry(target).or_default();
            star.sources = star.sources.max(shares.len());
            star.sums.push(shares.iter().sum());
            star.fairness.extend(fairness(&shares));
            star.smallest.extend(smallest_share(&shares));
        }
    }
    let figures =
        target_lists.into_iter().filter_map(|(target, star)| target_star(target, &star, quiet));
    let mut figures: Vec<StarFigures> = figures.collect();
    figures.sort_by(|one, other| {
        let by_grade = other.grade.cmp(&one.grade);
        by_grade.then(one.sum.total_cmp(&other.sum))
    });
    figures
}

/// The figures of a target; `None` without slots.
fn target_star(target: NicId, star: &StarSlots, quiet: Option<f64>) -> Option<StarFigures> {
    let sum = mean(&star.sums)?;
    let ratio_to_quiet = quiet.filter(|quiet| *quiet > 0.0).map(|quiet| sum / quiet);
    // Without any answer there are no shares to compare: the sum is 0, which is bad by itself.
    let fairness = median(&star.fairness).unwrap_or(1.0);
    let smallest_share = median(&star.smallest).unwrap_or(1.0);
    let sum_grade = ratio_to_quiet.map(|ratio| INCAST_SUM.grade(ratio));
    let share_grades = [FAIRNESS.grade(fairness), SMALLEST_SHARE.grade(smallest_share)];
    Some(StarFigures {
        target,
        sources: star.sources as u32,
        sum,
        ratio_to_quiet,
        fairness,
        smallest_share,
        grade: worst(share_grades.into_iter().chain(sum_grade)),
    })
}

/// Returns Jain's index of fairness: 1 for equal shares, 1/n if one of n gets everything. `None`
/// if the shares are all 0.
fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The smallest share as a ratio to an equal share. `None` if the shares are all 0.
fn smallest_share(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let smallest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    (sum > 0.0).then(|| smallest * shares.len() as f64 / sum)
}

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

/// The sets to which a flow belongs under a pattern.
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

/// The figures of all sets under a pattern, the slowest first. `theory` is the bandwidth of a flow
/// between groups.
pub fn set_bandwidths(
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

/// The kind of a part: only parts of one kind are compared.
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
    use proptest::prelude::*;

    use super::super::findings::Grade;
    use super::super::slot::SentRate;
    use super::*;
    use crate::slot::LoadFlow;

    fn star(target: u32, rates: &[f64]) -> SlotRates {
        let sent = rates.iter().enumerate().map(|(source, rate)| SentRate {
            source: NicId(100 + source as u32),
            peers: vec![NicId(target)],
            rate: *rate,
        });
        SlotRates { sent: sent.collect(), ..SlotRates::default() }
    }

    #[test]
    fn equal_shares_of_the_whole_port_are_good() {
        // load.md 5, vector 30
        let found = target_bandwidths(&[star(0, &[2650e6; 8])], Some(21_500e6));
        assert!((found[0].ratio_to_quiet.unwrap() - 0.986).abs() < 1e-3);
        assert_eq!((found[0].fairness, found[0].grade), (1.0, Grade::Good));
    }

    #[test]
    fn fairness_and_smallest_share_are_those_of_vector_22() {
        let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2];
        assert!((fairness(&shares).unwrap() - 0.920).abs() < 5e-4);
        assert!((smallest_share(&shares).unwrap() - 0.222).abs() < 5e-4);
        assert_eq!((fairness(&[0.0; 3]), smallest_share(&[0.0; 3])), (None, None));
    }

    proptest! {
        #[test]
        fn fairness_is_between_one_of_all_and_equal_shares(
            shares in prop::collection::vec(0.0..10.0, 2..40),
        ) {
            if let (Some(index), Some(least)) = (fairness(&shares), smallest_share(&shares)) {
                prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-9 && index <= 1.0 + 1e-9);
                prop_assert!((0.0..=1.0 + 1e-9).contains(&least));
            }
        }
    }

    #[test]
    fn one_starved_source_is_bad() {
        // load.md 5, vector 22
        let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2].map(|share| share * 1e9);
        let slots = [star(0, &shares), star(1, &[1e9; 8])];
        let found = target_bandwidths(&slots, Some(7.2e9));
        assert_eq!(found[0].target, NicId(0));
        assert!((found[0].smallest_share - 0.22).abs() < 3e-3);
        assert_eq!(FAIRNESS.grade(found[0].fairness), Grade::Slow);
        assert_eq!([found[0].grade, found[1].grade], [Grade::Bad, Grade::Good]);
    }

    #[test]
    fn low_sum_is_bad_only_if_the_quiet_bandwidth_is_known() {
        let slots = [star(0, &[1e9; 8])];
        assert_eq!(target_bandwidths(&slots, Some(16e9))[0].grade, Grade::Bad);
        let unknown = &target_bandwidths(&slots, None)[0];
        assert_eq!((unknown.ratio_to_quiet, unknown.grade), (None, Grade::Good));
    }

    #[test]
    fn star_with_an_unknown_source_does_not_count() {
        let mut slot = star(0, &[1e9; 7]);
        slot.unjudged.push(LoadFlow { source: NicId(107), peers: vec![NicId(0)] });
        assert_eq!(target_bandwidths(&[slot], Some(8e9)), []);
    }

    /// A set with flows of this rate in one slot.
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
