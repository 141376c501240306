//! Which part of the fabric slow flows have in common, from the smallest shared part outward: NICs
//! and switches, the links of a group, the links between groups. Flows of a part that is named
//! already say nothing about larger ones. Slow links that flows do not fill look like good ones.

use std::collections::{BTreeMap, BTreeSet};

use super::culprits::{Bundle, Culprit, bundle_ratios, explain_bundles, find_slow_nics};
use super::findings::{LinkCoverage, LinkKind, LoadUnit};
use super::slot::SlotRates;
use super::spec::{Distance, Pattern, Set};
use campaign::quiet::roster::{NicId, Roster};
use facts::robust::{median, sorted};

/// The slow parts of the fabric: each cause once, without its parts.
///
/// In a group of two switches, the links between both are all of its local links: they are blamed
/// unless its links to other groups are slow too, then the group is.
pub fn culprits(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> Vec<Culprit> {
    let slow_nics = find_slow_nics(roster, rates);
    let mut culprits = slow_nics.culprits;
    let mut left_out = slow_nics.doubtful;
    let switches: BTreeSet<LoadUnit> = culprits.iter().map(|culprit| culprit.unit).collect();
    left_out.extend(roster.nic_ids().filter(|nic| {
        let place = roster.location(*nic);
        place.is_some_and(|place| {
            switches.contains(&LoadUnit::Switch { group: place.group, switch: place.switch })
        })
    }));
    let slow_local = local_causes(roster, rates, &left_out);
    let with_switch: BTreeSet<u16> = culprits
        .iter()
        .chain(&slow_local)
        .filter_map(|culprit| match culprit.unit {
            LoadUnit::Switch { group, .. } => Some(group),
            _ => None,
        })
        .collect();
    let slow_global = global_causes(roster, rates, &left_out, &with_switch);
    culprits.extend(merged(roster, slow_local, slow_global));
    for blamed in &mut culprits {
        blamed.pattern = measured_pattern(blamed.pattern, rates);
    }
    culprits
}

/// The pattern if it was measured, or else the first one whose flows name slow parts.
fn measured_pattern(usual: Pattern, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> Pattern {
    if rates.contains_key(&usual) {
        return usual;
    }
    let names_parts = |pattern: &Pattern| {
        matches!(pattern, Pattern::Bisect { .. } | Pattern::Shift(Distance::Group))
    };
    rates.keys().copied().find(names_parts).unwrap_or(usual)
}

/// Returns the causes among the links of groups, and leaves out the links of slow switches.
fn local_causes(
    roster: &Roster,
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
    left_out: &BTreeSet<NicId>,
) -> Vec<Culprit> {
    let patterns = slots_of(rates, crosses_switches);
    let bundle_of = |source: NicId, target: NicId| Bundle::switch_links(roster, source, target);
    // A group is slow with all of its bundles.
    explain_bundles(&bundle_ratios(&patterns, bundle_of, left_out, 1.0 / groups(roster)))
}

/// Returns the causes among the links between groups, and leaves out groups with a slow switch:
/// some of their links end at it.
fn global_causes(
    roster: &Roster,
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
    left_out: &BTreeSet<NicId>,
    with_switch: &BTreeSet<u16>,
) -> Vec<Culprit> {
    let patterns = slots_of(rates, crosses_groups);
    let is_known = |group: u16| with_switch.contains(&group);
    let bundle_of = |source: NicId, target: NicId| {
        let bundle = Bundle::group_links(roster, source, target);
        bundle.filter(|bundle| !is_known(bundle.from) && !is_known(bundle.to))
    };
    // A group is slow with its bundles to and from all others.
    explain_bundles(&bundle_ratios(&patterns, bundle_of, left_out, 2.0 / groups(roster).max(2.0)))
}

/// The number of groups; at least 1.
fn groups(roster: &Roster) -> f64 {
    let places = roster.nics.iter().filter_map(|nic| nic.location);
    let groups: BTreeSet<u16> = places.map(|place| place.group).collect();
    groups.len().max(1) as f64
}

/// Whether the flows of a pattern judge the links between switches of a group.
fn crosses_switches(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Bisect { of: Set::Group, .. })
}

/// Whether the flows of a pattern judge the links between groups.
pub fn crosses_groups(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Bisect { of: Set::System, .. } | Pattern::Shift(Distance::Group))
}

/// The slots of some patterns.
pub fn slots_of(
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
    is_taken: impl Fn(&Pattern) -> bool,
) -> Vec<&[SlotRates]> {
    let taken = rates.iter().filter(|(pattern, _)| is_taken(pattern));
    taken.map(|(_, slots)| slots.as_slice()).collect()
}

/// The causes of both kinds of links without repetitions. Slow links inside a group slow flows to
/// other groups too, so links between groups are named only without any.
fn merged(roster: &Roster, local: Vec<Culprit>, global: Vec<Culprit>) -> Vec<Culprit> {
    let mut merged = local;
    for slow in global {
        match slow.unit {
            LoadUnit::Group(group) => {
                let known = merged.iter_mut().find(|culprit| group_of(culprit.unit) == Some(group));
                match known {
                    None => merged.push(slow),
                    Some(local) if is_whole_group(roster, local.unit) => {
                        local.unit = LoadUnit::Group(group);
                        local.ratio = local.ratio.min(slow.ratio);
                        local.direction = None;
                        local.evidence = vec![
                            "The links between its switches and to other groups are slow.".into(),
                        ];
                    }
                    Some(_) => {}
                }
            }
            LoadUnit::GroupLinks { from, to, .. } => {
                let is_known = merged.iter().any(|culprit| {
                    let group = group_of(culprit.unit);
                    group == Some(from) || group == Some(to)
                });
                if !is_known {
                    merged.push(slow);
                }
            }
            _ => merged.push(slow),
        }
    }
    merged
}

/// The group of a part inside a group, or a group.
fn group_of(unit: LoadUnit) -> Option<u16> {
    match unit {
        LoadUnit::Switch { group, .. }
        | LoadUnit::SwitchLinks { group, .. }
        | LoadUnit::Group(group) => Some(group),
        _ => None,
    }
}

/// Whether slow links inside a group are all of its links.
fn is_whole_group(roster: &Roster, unit: LoadUnit) -> bool {
    match unit {
        LoadUnit::Group(_) => true,
        LoadUnit::SwitchLinks { group, both: true, .. } => {
            let places = roster.nics.iter().filter_map(|nic| nic.location);
            let in_group = places.filter(|place| place.group == group);
            let switches: BTreeSet<u16> = in_group.map(|place| place.switch).collect();
            switches.len() == 2
        }
        _ => false,
    }
}

/// Returns what flows carried over the links of each kind that there is, under the patterns that
/// judge it.
pub fn crossed_links(
    roster: &Roster,
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
) -> Vec<LinkCoverage> {
    let switches = slots_of(rates, crosses_switches);
    let groups = slots_of(rates, crosses_groups);
    let kinds = [
        crossed(&switches, LinkKind::Switches, roster, |source, target| {
            Bundle::switch_links(roster, source, target)
        }),
        crossed(&groups, LinkKind::Groups, roster, |source, target| {
            Bundle::group_links(roster, source, target)
        }),
    ];
    kinds.into_iter().flatten().collect()
}

/// The number of links of a kind, each direction by itself.
fn all_links(roster: &Roster, kind: LinkKind) -> usize {
    let mut switches: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
    for place in roster.nic_ids().filter_map(|nic| roster.location(nic)) {
        switches.entry(place.group).or_default().insert(place.switch);
    }
    let pairs = |count: usize| count * count.saturating_sub(1);
    match kind {
        LinkKind::Switches => switches.values().map(|switches| pairs(switches.len())).sum(),
        LinkKind::Groups => pairs(switches.len()),
    }
}

/// Returns what the flows of patterns carried over the links of a kind; `None` if they crossed no
/// link.
fn crossed(
    patterns: &[&[SlotRates]],
    kind: LinkKind,
    roster: &Roster,
    bundle_of: impl Fn(NicId, NicId) -> Option<Bundle>,
) -> Option<LinkCoverage> {
    let mut most: BTreeMap<Bundle, f64> = BTreeMap::new();
    for slot in patterns.iter().copied().flatten() {
        let mut in_slot: BTreeMap<Bundle, f64> = BTreeMap::new();
        // No byte of the other flows has crossed a link.
        let sent = slot.flows().filter(|(.., rate)| *rate > 0.0);
        for (source, target, rate) in sent {
            if let Some(bundle) = bundle_of(source, target) {
                *in_slot.entry(bundle).or_default() += rate;
            }
        }
        for (bundle, rate) in in_slot {
            let known = most.entry(bundle).or_default();
            *known = known.max(rate);
        }
    }
    let rates = sorted(&most.into_values().collect::<Vec<_>>());
    Some(LinkCoverage {
        kind,
        links: all_links(roster, kind) as u32,
        crossed: rates.len() as u32,
        least: *rates.first()?,
        median: median(&rates)?,
    })
}

#[cfg(test)]
mod tests {
    //! Tests of blame on a model of a fabric: the vectors of load.md 5, and fabrics with random
    //! faults.

    use std::collections::BTreeSet;

    use super::super::findings::{Grade, LoadFigure, LoadFindings, LoadUnit};
    use super::super::slot::{SentRate, pattern_name};
    use super::super::spec::{Distance, Pattern, Set};
    use super::super::testing::{ModelFabric, SlowLinks, VECTOR_9, bisect, d4, d4_model, flows};
    use super::*;
    use campaign::quiet::roster::NicId;

    #[test]
    fn the_best_slot_of_a_link_counts() {
        // Four groups of two switches with two NICs: NIC 0 and 1 at the first switch.
        let roster = d4();
        let sent = |source: u32, peer: u32, rate: f64| SentRate {
            source: NicId(source),
            peers: vec![NicId(peer)],
            rate,
        };
        let slot = |sent: Vec<SentRate>| SlotRates { sent, ..SlotRates::default() };
        let slots = vec![
            slot(vec![sent(0, 2, 3e8), sent(1, 3, 4e8), sent(6, 4, 1e8), sent(4, 6, 0.0)]),
            slot(vec![sent(0, 2, 5e8), sent(2, 0, 9e8)]),
        ];
        let group = Pattern::Bisect { of: Set::Group, both_ways: true };
        // Flows within a switch cross no link.
        let switch = Pattern::Bisect { of: Set::Switch, both_ways: true };
        let rates = BTreeMap::from([(group, slots), (switch, vec![slot(vec![sent(0, 1, 9e9)])])]);
        let found = crossed_links(&roster, &rates);
        let expected = LinkCoverage {
            kind: LinkKind::Switches,
            links: 8,
            crossed: 3,
            least: 1e8,
            median: 7e8,
        };
        assert_eq!(found, [expected]);
    }

    /// Number of slots of each pattern.
    const SLOTS: u32 = 12;

    /// The parts that a survey of a fabric finds slow or bad by their bandwidths.
    fn blamed(mut fabric: ModelFabric) -> Vec<(LoadUnit, Grade)> {
        let findings = fabric.survey(SLOTS).findings();
        let judgements = findings.judgements.into_iter();
        let bandwidths = judgements.filter(|judgement| judgement.figure == LoadFigure::Bandwidth);
        bandwidths.map(|judgement| (judgement.unit, judgement.grade)).collect()
    }

    fn near(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found / expected / 1e6 - 1.0).abs() < 2e-3, "{found}, not {expected}");
        }
    }

    #[test]
    fn model_has_rates_of_vectors_9_and_11_to_13() {
        near(&d4_model().rates(&flows(&VECTOR_9)), &[24.24; 8]);
        let shift = |by: u32| flows(&(0..16).map(|nic| (nic, (nic + by) % 16)).collect::<Vec<_>>());
        near(&d4_model().rates(&shift(4)), &[12.12; 16]);
        near(&d4_model().rates(&shift(1)), &[48.48; 16]);
        near(&d4_model().rates(&shift(2)), &[24.24; 16]);
        let mean = d4_model().rates(&shift(3)).iter().sum::<f64>() / 16.0;
        near(&[mean], &[20.20]);
        let slow = d4_model().with(SlowLinks::Global(0, 2, false), 0.25);
        let (low, usual) = (6.06, 24.24);
        let expected = [low, usual, low, usual, usual, usual, usual, usual];
        near(&slow.rates(&flows(&VECTOR_9)), &expected);
    }

    #[test]
    fn good_fabric_has_no_judgement_and_all_of_theory() {
        let findings = d4_model().survey(SLOTS).findings();
        assert_eq!(findings.judgements, []);
        let quiet = findings.quiet_bandwidth.unwrap();
        near(&[quiet], &[48.48]);
        let system = findings
            .bandwidths
            .iter()
            .find(|bandwidth| bandwidth.pattern == "bisect:system")
            .unwrap();
        assert!((system.share_of_theory.unwrap() - 1.0).abs() < 2e-3);
        assert_eq!(system.grade, Grade::Good);
        near(&[system.sum], &[193.9]);
    }

    #[test]
    fn links_between_groups_are_blamed_in_their_direction() {
        // load.md 5, vectors 13 and 14 with minimal routes: no bytes arrive
        for ratio in [0.25, 0.0] {
            let fabric = d4_model().with(SlowLinks::Global(0, 2, false), ratio);
            let (from, to) = (0, 2);
            let links = |both| LoadUnit::GroupLinks { from, to, both };
            assert_eq!(blamed(fabric), [(links(false), Grade::Bad)]);
            let fabric = d4_model().with(SlowLinks::Global(0, 2, true), ratio);
            assert_eq!(blamed(fabric), [(links(true), Grade::Bad)]);
        }
    }

    #[test]
    fn switch_with_slow_ports_is_blamed_although_the_taper_hides_it() {
        // load.md 5, vector 15
        let fabric = d4_model().with(SlowLinks::Ports(2, 0), 0.5);
        near(&fabric.rates(&flows(&VECTOR_9)), &[24.24; 8]);
        near(&fabric.rates(&flows(&[(8, 9)])), &[24.24]);
        let switch = LoadUnit::Switch { group: 2, switch: 0 };
        assert_eq!(blamed(fabric), [(switch, Grade::Bad)]);
    }

    #[test]
    fn sets_are_compared_with_equal_sets_and_the_slowest_is_first() {
        let findings = d4_model().with(SlowLinks::Ports(2, 0), 0.5).survey(SLOTS).findings();
        let bandwidth = |pattern: &str| {
            let mut figures = findings.bandwidths.iter();
            figures.find(|bandwidth| bandwidth.pattern == pattern).unwrap()
        };
        let within = bandwidth("bisect:switch");
        let slow = within.sets.iter().filter(|set| set.grade == Grade::Bad);
        let units: BTreeSet<LoadUnit> = slow.clone().map(|set| set.unit).collect();
        let switch = LoadUnit::Switch { group: 2, switch: 0 };
        let nics = [8, 9].map(|nic| LoadUnit::Nic(NicId(nic)));
        assert_eq!(units, BTreeSet::from([nics[0], nics[1], switch]));
        assert!(slow.clone().all(|set| (set.ratio - 0.5).abs() < 1e-3));
        assert_eq!(within.grade, Grade::Bad);
        assert!(units.contains(&within.sets[0].unit));
        // All ordered pairs of four groups.
        let system = bandwidth("bisect:system, both ways");
        assert_eq!(system.grade, Grade::Good);
        let theory = system.sets.iter().filter(|set| set.theory.is_some());
        assert_eq!(theory.count(), 12);
    }

    #[test]
    fn group_with_slow_links_is_one_cause() {
        // load.md 5, vector 16
        let fabric = d4_model().with(SlowLinks::Group(3), 0.5);
        near(
            &fabric.rates(&flows(&[(0, 2), (1, 3), (12, 14), (13, 15)])),
            &[24.24, 24.24, 12.12, 12.12],
        );
        assert_eq!(blamed(fabric), [(LoadUnit::Group(3), Grade::Bad)]);
    }

    #[test]
    fn local_links_of_two_switches_are_blamed_if_other_links_are_good() {
        let links = |both| LoadUnit::SwitchLinks { group: 3, from: 0, to: 1, both };
        for both in [false, true] {
            let fabric = d4_model().with(SlowLinks::Local(3, 0, 1, both), 0.5);
            assert_eq!(blamed(fabric), [(links(both), Grade::Bad)]);
        }
    }

    #[test]
    fn path_with_loss_is_blamed_without_any_nic() {
        // load.md 5, vector 18, where the lost packets lower the bandwidth of the link
        let fabric = d4_model().with(SlowLinks::Local(0, 0, 1, false), 0.7);
        let links = LoadUnit::SwitchLinks { group: 0, from: 0, to: 1, both: false };
        assert_eq!(blamed(fabric), [(links, Grade::Bad)]);
    }

    #[test]
    fn nic_is_blamed_with_its_direction() {
        // load.md 5, vector 17
        for (slow, sentence) in [
            (SlowLinks::Receive(NicId(5)), "Slow as receiver only."),
            (SlowLinks::Transmit(NicId(5)), "Slow as sender only."),
            (SlowLinks::Nic(NicId(5)), "Slow as sender and as receiver."),
        ] {
            let findings = d4_model().with(slow, 0.5).survey(SLOTS).findings();
            let found: Vec<LoadUnit> =
                findings.judgements.iter().map(|judgement| judgement.unit).collect();
            assert_eq!(found, [LoadUnit::Nic(NicId(5))], "{slow:?}");
            assert_eq!(findings.judgements[0].evidence, [sentence]);
        }
    }

    #[test]
    fn part_that_retests_clear_explains_nothing() {
        let nic = NicId(5);
        let mut fabric = d4_model().with(SlowLinks::Transmit(nic), 0.2);
        let mut results = fabric.survey(SLOTS);
        fabric.run(&mut results, Pattern::Incast(2), flows(&[(5, 0), (9, 0)]));
        let found = |findings: LoadFindings| -> Vec<(LoadUnit, LoadFigure)> {
            let judgements = findings.judgements.into_iter();
            judgements.map(|judgement| (judgement.unit, judgement.figure)).collect()
        };
        let nic_judgement = (LoadUnit::Nic(nic), LoadFigure::Bandwidth);
        assert_eq!(found(results.findings()), [nic_judgement]);
        let after = found(results.findings_after(|judgement| judgement.unit == nic_judgement.0));
        let star = (LoadUnit::System, LoadFigure::SmallestShare);
        assert!(after.contains(&nic_judgement) && after.contains(&star), "{after:?}");
    }

    #[test]
    fn nobody_is_named_where_sender_and_receiver_explain_a_slow_flow() {
        // Vector 17 from two NICs alone: 4 may be slow as sender, or 5 as receiver.
        let mut fabric = d4_model().with(SlowLinks::Receive(NicId(5)), 0.5);
        let mut results = fabric.load_results();
        let pattern = bisect(Set::Switch, true);
        let pairs: Vec<(u32, u32)> = (0..16).map(|nic| (nic, nic ^ 1)).collect();
        (0..SLOTS).for_each(|_| fabric.run(&mut results, pattern, flows(&pairs)));
        assert_eq!(results.findings().judgements, []);
    }

    #[test]
    fn slow_group_is_found_by_shifts_alone_only_with_two_neighbours() {
        let shift: Vec<(u32, u32)> = (0..16).map(|nic| (nic, (nic + 4) % 16)).collect();
        for (slow, expected) in [
            (SlowLinks::Group(2), LoadUnit::Group(2)),
            (SlowLinks::Global(2, 3, false), LoadUnit::GroupLinks { from: 2, to: 3, both: false }),
        ] {
            let mut fabric = d4_model().with(slow, 0.5);
            let mut results = fabric.load_results();
            let pattern = Pattern::Shift(Distance::Group);
            (0..SLOTS).for_each(|_| fabric.run(&mut results, pattern, flows(&shift)));
            let judgements = results.findings().judgements;
            let found: Vec<LoadUnit> = judgements.iter().map(|judgement| judgement.unit).collect();
            assert_eq!(found, [expected]);
            assert_eq!(judgements[0].pattern, pattern_name(pattern));
        }
    }
}
