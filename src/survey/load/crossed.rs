//! What flows carried over links: slow links that flows do not fill look like good ones.

use std::collections::{BTreeMap, BTreeSet};

use super::blame::{crosses_groups, crosses_switches, slots_of};
use super::bundles::Bundle;
use super::findings::{LinkCoverage, LinkKind};
use super::pattern::Pattern;
use super::rates::SlotRates;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use facts::robust::{median, sorted};

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
