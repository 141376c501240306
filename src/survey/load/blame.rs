//! Which part of the fabric slow flows have in common, from the smallest shared part outward: NICs
//! and switches, the links of a group, the links between groups. Flows of a part that is named
//! already say nothing about larger ones. Slow links that flows do not fill look like good ones.

use std::collections::{BTreeMap, BTreeSet};

use super::bundles::{self, Bundle};
use super::culprit::Culprit;
use super::findings::{LinkCoverage, LinkKind, LoadUnit};
use super::pattern::{Distance, Pattern, Set};
use super::rates::SlotRates;
use super::slow_nics;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use facts::robust::{median, sorted};

/// Returns the slow parts of the fabric: each cause once, without its parts.
///
/// In a group of two switches, the links between both are all of its local links: they are blamed
/// unless its links to other groups are slow too, then the group is.
pub fn culprits(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> Vec<Culprit> {
    let slow_nics = slow_nics::find(roster, rates);
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

/// Returns the pattern if it was measured, or else the first one whose flows name slow parts.
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
    bundles::explain(&bundles::ratios(&patterns, bundle_of, left_out, 1.0 / groups(roster)))
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
    bundles::explain(&bundles::ratios(
        &patterns,
        bundle_of,
        left_out,
        2.0 / groups(roster).max(2.0),
    ))
}

/// Returns the number of groups; at least 1.
fn groups(roster: &Roster) -> f64 {
    let places = roster.nics.iter().filter_map(|nic| nic.location);
    let groups: BTreeSet<u16> = places.map(|place| place.group).collect();
    groups.len().max(1) as f64
}

/// Returns whether the flows of a pattern judge the links between switches of a group.
fn crosses_switches(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Bisect { of: Set::Group, .. })
}

/// Returns whether the flows of a pattern judge the links between groups.
pub fn crosses_groups(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Bisect { of: Set::System, .. } | Pattern::Shift(Distance::Group))
}

/// Returns the slots of some patterns.
pub fn slots_of(
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
    is_taken: impl Fn(&Pattern) -> bool,
) -> Vec<&[SlotRates]> {
    let taken = rates.iter().filter(|(pattern, _)| is_taken(pattern));
    taken.map(|(_, slots)| slots.as_slice()).collect()
}

/// Returns the causes of both kinds of links without repetitions. Slow links inside a group slow
/// flows to other groups too, so links between groups are named only without any.
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

/// Returns the group of a part inside a group, or a group.
fn group_of(unit: LoadUnit) -> Option<u16> {
    match unit {
        LoadUnit::Switch { group, .. }
        | LoadUnit::SwitchLinks { group, .. }
        | LoadUnit::Group(group) => Some(group),
        _ => None,
    }
}

/// Returns whether slow links inside a group are all of its links.
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

/// Returns the number of links of a kind, each direction by itself.
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
    use super::super::pattern::Set;
    use super::super::rates::SentRate;
    use super::super::testing::d4;
    use super::*;

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
}
