//! The parts of the fabric that explain slow flows by themselves: NICs and switches whose flows
//! share nothing but the switch, and slow links among parts that are linked each with each (the
//! switches of a group, or the groups).
//!
//! A flow is as fast as the slower one of its ends. So one fast flow shows that a NIC is not the
//! cause in this role, and a slow flow shows its cause only if the other end has a fast one.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Grade, LoadFigure, LoadJudgement, LoadUnit};
use super::limits::{EQUAL_FLOWS, EqualParts, GradeLimits, LEAST_EQUAL, NIC, SET};
use super::slot::{SlotRates, pattern_name};
use super::spec::{Pattern, Set};
use campaign::blame::{FALSE_ALARM, LARGER_SHARE, LEAST_PARTNERS, PartShares, Share};
use campaign::quiet::findings::Direction;
use campaign::quiet::roster::{NicId, Pair, Role, Roster};
use facts::robust::{median, quantile, sorted};

/// A part of the fabric that explains slow flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// The part.
    pub unit: LoadUnit,
    /// The pattern that shows it.
    pub pattern: Pattern,
    /// Median of its flows, as a ratio to the flows of equal parts.
    pub ratio: f64,
    pub limits: GradeLimits,
    /// The direction in which it is slow, if one is known.
    pub direction: Option<Direction>,
    /// What else is known, as sentences.
    pub evidence: Vec<String>,
}

impl Culprit {
    /// The judgement. A part inside the limits is slow at least: it explains flows that are.
    pub fn judgement(&self) -> LoadJudgement {
        let words = self.direction.map(|direction| match direction {
            Direction::Initiator => "Slow as sender only.".to_owned(),
            Direction::Target => "Slow as receiver only.".to_owned(),
            Direction::Both => "Slow as sender and as receiver.".to_owned(),
        });
        let judgement = LoadJudgement::new(
            LoadFigure::Bandwidth,
            self.unit,
            pattern_name(self.pattern),
            (self.limits.grade(self.ratio).max(Grade::Slow), self.ratio, self.limits.good),
            words.into_iter().chain(self.evidence.clone()).collect(),
        );
        LoadJudgement { direction: self.direction, ..judgement }
    }
}

/// The quantile of rates that other rates are compared with: a fault may slow two thirds of them.
const FAST: f64 = 0.75;

type NicRole = (NicId, Role);

/// What the flows say about NICs.
#[derive(Clone, Debug, Default)]
pub struct SlowNics {
    /// Slow NICs and switches.
    pub culprits: Vec<Culprit>,
    /// All NICs that may be slow: their flows say nothing about links.
    pub doubtful: BTreeSet<NicId>,
}

/// The rates of NICs as ratios to fast flows that share nothing but the switch.
#[derive(Default)]
struct NicRates {
    /// Ratios of the flows between NICs of a switch.
    within: BTreeMap<Pair, Vec<f64>>,
    /// The largest ratio of each NIC to NICs of other switches.
    best: BTreeMap<NicRole, f64>,
    /// Partners at other switches to whom the flow was slow, although it had all links for itself.
    slow_alone: BTreeMap<NicRole, BTreeSet<NicId>>,
}

impl NicRates {
    /// The largest ratio of each NIC to any other, and its partners in slow flows.
    fn best_and_slow_partners(
        self,
        pairs: &BTreeMap<Pair, f64>,
        slow: &BTreeMap<Pair, f64>,
    ) -> (BTreeMap<NicRole, f64>, BTreeMap<NicRole, BTreeSet<NicId>>) {
        let Self { mut best, slow_alone: mut partners, .. } = self;
        for (pair, ratio) in pairs {
            for (role, nic) in pair.roles() {
                let known = best.entry((nic, role)).or_default();
                *known = known.max(*ratio);
            }
        }
        for pair in slow.keys() {
            for (role, nic) in pair.roles() {
                partners.entry((nic, role)).or_default().insert(pair.partner(nic));
            }
        }
        (best, partners)
    }
}

/// The slow NICs and switches. Nobody is named if two parts explain the flows equally well.
pub fn find_slow_nics(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> SlowNics {
    let nic_rates = gather(roster, rates);
    let pairs: BTreeMap<Pair, f64> = nic_rates
        .within
        .iter()
        .filter_map(|(pair, ratios)| Some((*pair, median(ratios)?)))
        .collect();
    if pairs.len() < LEAST_EQUAL {
        return SlowNics::default();
    }
    let is_fast = |ratio: f64| ratio >= NIC.good;
    let fast: Vec<f64> = pairs.values().copied().filter(|ratio| is_fast(*ratio)).collect();
    let usual = EqualParts::new(&fast);
    let slow: BTreeMap<Pair, f64> = pairs
        .iter()
        .map(|(pair, ratio)| (*pair, *ratio))
        .filter(|(_, ratio)| !is_fast(*ratio) && usual.is_far_below(*ratio))
        .collect();
    let (best, partners) = nic_rates.best_and_slow_partners(&pairs, &slow);
    let is_suspect = |role: NicRole| !is_fast(best.get(&role).copied().unwrap_or(0.0));
    let (mut suspects, mut named) = accused(&slow, is_suspect);
    let several = |nic_role: NicRole| {
        partners.get(&nic_role).is_some_and(|partner| partner.len() >= LEAST_PARTNERS)
    };
    named.retain(|entry, ratios| {
        several(*entry) || median(ratios).is_some_and(|ratio| ratio < SET.slow)
    });
    // For a switch, the partners in both roles count.
    let partners_of_nic = |nic: NicId| {
        let role_sets = Role::BOTH.into_iter().filter_map(|role| partners.get(&(nic, role)));
        role_sets.flatten().collect::<BTreeSet<_>>().len()
    };
    suspects.retain(|suspect, _| {
        partners_of_nic(suspect.0) >= LEAST_PARTNERS || named.contains_key(suspect)
    });
    let mut found = SlowNics {
        culprits: slow_switches(roster, &pairs, &suspects),
        doubtful: slow
            .keys()
            .flat_map(|pair| pair.roles())
            .filter(|(role, nic)| is_suspect((*nic, *role)))
            .map(|(_, nic)| nic)
            .collect(),
    };
    let switch_units: BTreeSet<LoadUnit> =
        found.culprits.iter().map(|culprit| culprit.unit).collect();
    named.retain(|(nic, _), _| {
        let switch = switch_of(roster, *nic);
        switch.is_none_or(|switch| !switch_units.contains(&switch))
    });
    let nics: BTreeSet<NicId> = named.keys().map(|(nic, _)| *nic).collect();
    for nic in nics {
        let roles = Role::BOTH.map(|role| named.get(&(nic, role)).cloned());
        found.culprits.extend(culprit(LoadUnit::Nic(nic), roles, NIC));
    }
    found
}

/// The ratios of slow pairs, by the NIC and its role that may explain them.
type Accused = BTreeMap<NicRole, Vec<f64>>;

/// Returns which NICs the `slow` pairs may be due to, and which of them alone: the partner is no
/// suspect.
fn accused(slow: &BTreeMap<Pair, f64>, is_suspect: impl Fn(NicRole) -> bool) -> (Accused, Accused) {
    let (mut suspects, mut named) = (Accused::new(), Accused::new());
    for (pair, ratio) in slow {
        let ends = pair.roles().map(|(role, nic)| (nic, role));
        let are_suspect = ends.map(&is_suspect);
        let is_one = are_suspect[0] != are_suspect[1];
        for (end, _) in ends.into_iter().zip(are_suspect).filter(|(_, is_suspect)| *is_suspect) {
            suspects.entry(end).or_default().push(*ratio);
            if is_one {
                named.entry(end).or_default().push(*ratio);
            }
        }
    }
    (suspects, named)
}

/// The pattern that shows slow NICs.
const WITHIN: Pattern = Pattern::Bisect { of: Set::Switch, both_ways: false };

/// A slow part, with the ratios of its flows in each role in which it is slow; `None` if it is slow
/// in none.
fn culprit(unit: LoadUnit, roles: [Option<Vec<f64>>; 2], limits: GradeLimits) -> Option<Culprit> {
    let direction = match roles {
        [None, None] => return None,
        [Some(_), None] => Direction::Initiator,
        [None, Some(_)] => Direction::Target,
        _ => Direction::Both,
    };
    let ratios: Vec<f64> = roles.into_iter().flatten().flatten().collect();
    let ratio = median(&ratios).unwrap_or(0.0);
    let direction = Some(direction);
    Some(Culprit { unit, pattern: WITHIN, ratio, limits, direction, evidence: Vec::new() })
}

fn switch_of(roster: &Roster, nic: NicId) -> Option<LoadUnit> {
    let place = roster.location(nic)?;
    Some(LoadUnit::Switch { group: place.group, switch: place.switch })
}

/// The switches of which at least two thirds of the NICs, and at least two, may be slow in one
/// role.
fn slow_switches(
    roster: &Roster,
    pairs: &BTreeMap<Pair, f64>,
    suspects: &BTreeMap<NicRole, Vec<f64>>,
) -> Vec<Culprit> {
    let mut members: BTreeMap<LoadUnit, BTreeSet<NicId>> = BTreeMap::new();
    for nic in pairs.keys().flat_map(|pair| pair.nics()) {
        let switch = switch_of(roster, nic);
        if let Some(switch) = switch {
            members.entry(switch).or_default().insert(nic);
        }
    }
    let mut culprits = Vec::new();
    for (switch, nics) in members {
        let role_values = |role: Role| {
            let nic_rows = nics.iter().filter_map(|nic| suspects.get(&(*nic, role)));
            let ratios: Vec<&Vec<f64>> = nic_rows.collect();
            // Flows inside a switch have two NICs of it, so two thirds of them are two at least.
            let is_most = ratios.len() as f64 >= LARGER_SHARE * nics.len() as f64;
            is_most.then(|| ratios.into_iter().flatten().copied().collect::<Vec<f64>>())
        };
        let roles = Role::BOTH.map(role_values);
        culprits.extend(culprit(switch, roles, SET));
    }
    culprits
}

/// Whether each NIC sends to one other at most, and receives from one at most.
fn is_one_to_one(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::Quiet | Pattern::Bisect { .. } | Pattern::Shift(_))
}

/// The rates of NICs as ratios.
fn gather(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> NicRates {
    let one_to_one = || rates.iter().filter(|(pattern, _)| is_one_to_one(**pattern));
    let is_within = |source: NicId, target: NicId| {
        let switch = switch_of(roster, source);
        source != target && switch.is_some() && switch == switch_of(roster, target)
    };
    let fast_within = |slots: &[SlotRates]| {
        let flows = slots.iter().flat_map(SlotRates::flows);
        let within = flows.filter(|(source, target, _)| is_within(*source, *target));
        let rates: Vec<f64> = within.map(|(.., rate)| rate).collect();
        let is_enough = rates.len() >= LEAST_EQUAL;
        let fast = is_enough.then(|| quantile(&sorted(&rates), FAST));
        fast.filter(|fast| *fast > 0.0)
    };
    let mut nic_rates = NicRates::default();
    let mut alone: Vec<(Pair, f64)> = Vec::new();
    let any = one_to_one().find_map(|(_, slots)| fast_within(slots));
    for (pattern, slots) in one_to_one() {
        let Some(fast) = fast_within(slots).or(any) else {
            continue;
        };
        for slot in slots {
            let lonely = lonely_flows(roster, slot);
            for (initiator, target, rate) in slot.flows() {
                let pair = Pair { initiator, target };
                let ratio = rate / fast;
                if is_within(initiator, target) {
                    nic_rates.within.entry(pair).or_default().push(ratio);
                    continue;
                }
                for (role, nic) in pair.roles() {
                    let best = nic_rates.best.entry((nic, role)).or_default();
                    *best = best.max(ratio);
                }
                let is_of_groups = matches!(pattern, Pattern::Bisect { of: Set::Group, .. });
                if is_of_groups && lonely.contains(&pair) {
                    alone.push((pair, ratio));
                }
            }
        }
    }
    let ratios: Vec<f64> = alone.iter().map(|(_, ratio)| *ratio).collect();
    // Links that are narrower than NICs slow even a flow that has them for itself.
    if quantile(&sorted(&ratios), FAST) >= NIC.good {
        for (pair, _) in alone.iter().filter(|(_, ratio)| *ratio < NIC.good) {
            for (role, nic) in pair.roles() {
                let partners = nic_rates.slow_alone.entry((nic, role)).or_default();
                partners.insert(pair.partner(nic));
            }
        }
    }
    nic_rates
}

/// The flows between two switches of a group that share the links with no other one.
fn lonely_flows(roster: &Roster, slot: &SlotRates) -> BTreeSet<Pair> {
    let known = slot.flows().map(|(source, target, _)| (source, target));
    let mut link_lists: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for (initiator, target) in known.chain(slot.unknown_flows()) {
        let ends = [initiator, target].map(|nic| switch_of(roster, nic));
        let pair = Pair { initiator, target };
        link_lists.entry(ends).or_default().push(pair);
    }
    let lonely = link_lists.into_values().filter(|pairs| pairs.len() == 1);
    lonely.flatten().collect()
}

/// Fewest slots of a bundle that can be slow: in a single one, its flows may be slow for a reason
/// outside of it.
const LEAST_SLOTS: usize = 3;

/// Ratios up to this many times a ratio are about as low.
const ABOUT: f64 = 1.2;

/// Kinds of parts that a search under load tells apart: NICs, switches, groups, links between
/// switches, links between groups. Each has an equal part of [`FALSE_ALARM`].
const KINDS: f64 = 5.0;

/// Part of the bundles of a part from which on its slow bundles may have one cause that hides in
/// the others: then no link is named.
const HIDING_SHARE: f64 = 0.5;

/// The links from one part to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bundle {
    /// The group of both parts, two switches; `None` if the parts are groups.
    pub group: Option<u16>,
    /// The switch or the group at which the links begin.
    pub from: u16,
    /// The switch or the group at which they end.
    pub to: u16,
}

impl Bundle {
    /// The links between two switches of a group that a flow crosses, if it does.
    pub fn switch_links(roster: &Roster, source: NicId, target: NicId) -> Option<Self> {
        let (from, to) = roster.location(source).zip(roster.location(target))?;
        let is_local = from.group == to.group && from.switch != to.switch;
        is_local.then_some(Self { group: Some(from.group), from: from.switch, to: to.switch })
    }

    /// The links between two groups that a flow crosses, if it does.
    pub fn group_links(roster: &Roster, source: NicId, target: NicId) -> Option<Self> {
        let (from, to) = roster.location(source).zip(roster.location(target))?;
        let is_global = from.group != to.group;
        is_global.then_some(Self { group: None, from: from.group, to: to.group })
    }

    /// The other direction.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// The parts at both ends, in both roles and in their role.
    fn parts(self) -> [(u16, Option<Role>); 4] {
        let (initiator, target) = (Some(Role::Initiator), Some(Role::Target));
        [(self.from, None), (self.from, initiator), (self.to, None), (self.to, target)]
    }

    fn touches(self, part: u16) -> bool {
        self.from == part || self.to == part
    }
}

/// The rates of the bundles in the slots of a pattern: number of flows, rate of the fastest flow,
/// and bundle; sorted by the number of flows.
type Observed = Vec<(u32, f64, Bundle)>;

/// The bundles with the ratios of their flows to flows of equal bundles.
///
/// The fastest flow of all slots counts: slow links slow all of their flows, other causes only some
/// of them. A bundle without a fast flow may have met other causes in all of its slots. It is left
/// out if a good bundle that is about as slow in as many slots exists with a probability of more
/// than 1 %, by the slots of good bundles.
///
/// `bundle_of` returns the bundle of a flow. Flows of NICs in `left_out` do not count, but use the
/// links. `most_slow` is the part of all bundles that one slow part may slow.
pub fn bundle_ratios(
    patterns: &[&[SlotRates]],
    bundle_of: impl Fn(NicId, NicId) -> Option<Bundle>,
    left_out: &BTreeSet<NicId>,
    most_slow: f64,
) -> BTreeMap<Bundle, f64> {
    // Half of the bundles that are good if this part is slow.
    let usual = (1.0 + most_slow) / 2.0;
    let mut ratios_of: BTreeMap<Bundle, Vec<f64>> = BTreeMap::new();
    for slots in patterns {
        let observed = observe(slots, &bundle_of, left_out);
        let numbers: BTreeSet<u32> = observed.iter().map(|(flows, ..)| *flows).collect();
        let fast_of: BTreeMap<u32, f64> = numbers
            .into_iter()
            .filter_map(|flows| Some((flows, fast_rate(&observed, flows, usual)?)))
            .collect();
        for (flows, rate, bundle) in observed {
            if let Some(fast) = fast_of.get(&flows) {
                ratios_of.entry(bundle).or_default().push(rate / fast);
            }
        }
    }
    let best = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let good = ratios_of.values().filter(|ratios| best(ratios) >= SET.good);
    let good_values: Vec<f64> = sorted(&good.flatten().copied().collect::<Vec<_>>());
    // Probability that all ratios of a good bundle are about as low as these.
    let by_chance = |values: &[f64]| {
        let limit = (ABOUT * best(values)).min(SET.good);
        let as_low = good_values.partition_point(|ratio| *ratio < limit);
        let chance = (as_low as f64 + 0.5) / (good_values.len() as f64 + 1.0);
        chance.powi(values.len() as i32)
    };
    let count = ratios_of.len() as f64;
    let is_known = |values: &[f64]| {
        best(values) >= SET.good
            || values.len() >= LEAST_SLOTS && count * by_chance(values) < FALSE_ALARM / KINDS
    };
    let known = ratios_of.into_iter().filter(|(_, ratios)| is_known(ratios));
    known.map(|(bundle, values)| (bundle, best(&values))).collect()
}

/// Returns what each bundle carried in each slot.
fn observe(
    slots: &[SlotRates],
    bundle_of: impl Fn(NicId, NicId) -> Option<Bundle>,
    left_out: &BTreeSet<NicId>,
) -> Observed {
    let mut observed = Observed::new();
    for slot in slots {
        let mut in_slot: BTreeMap<Bundle, (u32, Option<f64>)> = BTreeMap::new();
        for (source, target) in slot.unknown_flows() {
            if let Some(bundle) = bundle_of(source, target) {
                in_slot.entry(bundle).or_default().0 += 1;
            }
        }
        for (source, target, rate) in slot.flows() {
            let Some(bundle) = bundle_of(source, target) else {
                continue;
            };
            let (flows, best) = in_slot.entry(bundle).or_default();
            *flows += 1;
            if !left_out.contains(&source) && !left_out.contains(&target) {
                *best = Some(best.unwrap_or(0.0).max(rate));
            }
        }
        let known = in_slot.into_iter();
        observed.extend(known.filter_map(|(bundle, (flows, best))| Some((flows, best?, bundle))));
    }
    observed.sort_by_key(|(flows, ..)| *flows);
    observed
}

/// Returns this quantile of the fastest flows of the bundles, in the slots in which they had about
/// this number of flows; `None` for fewer than three bundles.
fn fast_rate(observed: &Observed, flows: u32, usual: f64) -> Option<f64> {
    let flows = f64::from(flows);
    let first = observed.partition_point(|entry| f64::from(entry.0) < (1.0 - EQUAL_FLOWS) * flows);
    let end = observed.partition_point(|entry| f64::from(entry.0) <= (1.0 + EQUAL_FLOWS) * flows);
    let mut fastest: BTreeMap<Bundle, f64> = BTreeMap::new();
    for (_, rate, bundle) in &observed[first..end] {
        let best = fastest.entry(*bundle).or_default();
        *best = best.max(*rate);
    }
    let rates: Vec<f64> = fastest.into_values().collect();
    let fast = quantile(&sorted(&rates), usual);
    (rates.len() >= LEAST_EQUAL && fast > 0.0).then_some(fast)
}

/// Returns what explains the slow ones of these bundles. Names no part if an innocent one could be
/// named.
pub fn explain_bundles(bundles: &BTreeMap<Bundle, f64>) -> Vec<Culprit> {
    let is_good = |ratio: f64| ratio >= SET.good;
    let good: Vec<f64> = bundles.values().copied().filter(|ratio| is_good(*ratio)).collect();
    let usual = EqualParts::new(&good);
    let slow: BTreeSet<Bundle> = bundles
        .iter()
        .filter(|(_, ratio)| !is_good(**ratio) && usual.is_far_below(**ratio))
        .map(|(bundle, _)| *bundle)
        .collect();
    let groups: BTreeSet<Option<u16>> = bundles.keys().map(|bundle| bundle.group).collect();
    let mut culprits = Vec::new();
    let mut remaining: BTreeSet<Bundle> = BTreeSet::new();
    for group in groups {
        let group_bundles = bundles.iter().filter(|(bundle, _)| bundle.group == group);
        let mut open: BTreeMap<Bundle, f64> =
            group_bundles.map(|(bundle, ratio)| (*bundle, *ratio)).collect();
        while let Some((part, role)) = slow_part(&open, &slow) {
            let ratio = median_of(&open, |bundle| {
                bundle.parts().contains(&(part, role)) && slow.contains(&bundle)
            });
            let unit = match group {
                Some(group) => LoadUnit::Switch { group, switch: part },
                None => LoadUnit::Group(part),
            };
            let direction = Some(Direction::of(role));
            culprits.push(Culprit { direction, ..bundle_culprit(group, unit, ratio) });
            open.retain(|bundle, _| !bundle.touches(part));
        }
        let is_slow = |bundle: &Bundle| slow.contains(bundle);
        let slow_here = open.keys().filter(|bundle| is_slow(bundle)).count();
        let parts: BTreeSet<u16> = open.keys().map(|bundle| bundle.from).collect();
        if parts.len() >= LEAST_EQUAL && slow_here as f64 >= 0.9 * open.len() as f64 {
            // If all links between groups are slow, there are no others to compare them with.
            culprits.extend(group.map(|number| {
                let ratio = median_of(&open, |bundle| slow.contains(&bundle));
                let evidence = vec!["The links between its switches are slow.".into()];
                Culprit { evidence, ..bundle_culprit(group, LoadUnit::Group(number), ratio) }
            }));
            continue;
        }
        let shares = shares(&open, &slow);
        let named = open.keys().filter(|bundle| is_slow(bundle) && !hides_cause(&shares, **bundle));
        remaining.extend(named);
    }
    // Where a third of all bundles is slow, the pattern is uneven, not the links.
    if 3 * remaining.len() > bundles.len() {
        return culprits;
    }
    culprits.extend(remaining.iter().filter_map(|bundle| links(bundles, &remaining, bundle)));
    culprits
}

/// The links of a slow bundle; with both directions if the other one is `slow` too, and then for
/// one of the two.
fn links(
    bundles: &BTreeMap<Bundle, f64>,
    slow: &BTreeSet<Bundle>,
    bundle: &Bundle,
) -> Option<Culprit> {
    let other = bundle.reversed();
    let both = slow.contains(&other);
    if both && bundle.from > bundle.to {
        return None;
    }
    let ratio = if both { bundles[bundle].min(bundles[&other]) } else { bundles[bundle] };
    let Bundle { group, from, to } = *bundle;
    let unit = match group {
        Some(group) => LoadUnit::SwitchLinks { group, from, to, both },
        None => LoadUnit::GroupLinks { from, to, both },
    };
    Some(bundle_culprit(group, unit, ratio))
}

/// A culprit among the links of a group, or among the links between groups.
fn bundle_culprit(group: Option<u16>, unit: LoadUnit, ratio: f64) -> Culprit {
    let set = if group.is_some() { Set::Group } else { Set::System };
    let pattern = Pattern::Bisect { of: set, both_ways: false };
    Culprit { unit, pattern, ratio, limits: SET, direction: None, evidence: Vec::new() }
}

fn median_of(bundles: &BTreeMap<Bundle, f64>, is_counted: impl Fn(Bundle) -> bool) -> f64 {
    let counted = bundles.iter().filter(|(bundle, _)| is_counted(**bundle));
    let ratios: Vec<f64> = counted.map(|(_, ratio)| *ratio).collect();
    median(&ratios).unwrap_or(f64::NAN)
}

/// Counts the slow bundles of each part in each role.
fn shares(
    bundles: &BTreeMap<Bundle, f64>,
    slow: &BTreeSet<Bundle>,
) -> PartShares<(u16, Option<Role>)> {
    PartShares::new(bundles.keys().map(|bundle| (bundle.parts(), slow.contains(bundle))))
}

/// The part that explains most slow bundles: at least two thirds of its own, with at least two
/// others, while the bundles without it are good.
fn slow_part(
    bundles: &BTreeMap<Bundle, f64>,
    slow: &BTreeSet<Bundle>,
) -> Option<(u16, Option<Role>)> {
    let shares = shares(bundles, slow);
    let rows: Vec<&Bundle> = bundles.keys().collect();
    let all_slow = rows.iter().filter(|bundle| slow.contains(bundle)).count();
    let best = shares.best(|(part, role), share| {
        let partners: BTreeSet<u16> = share
            .outside
            .iter()
            .map(|row| if rows[*row].from == part { rows[*row].to } else { rows[*row].from })
            .collect();
        let are_others_good = shares.get((part, None)).is_some_and(|touched| {
            3 * (all_slow - touched.outside.len()) < rows.len() - touched.rows.len()
        });
        // Both roles only if each of them is slow.
        let is_whole = role.is_some()
            || Role::BOTH
                .into_iter()
                .all(|role| shares.get((part, Some(role))).is_none_or(Share::explains_larger_part));
        share.explains_larger_part()
            && partners.len() >= LEAST_PARTNERS
            && are_others_good
            && is_whole
    });
    best.map(|(part, _)| part)
}

/// Whether the slow bundles of an end of this one may have one cause that hides in others: a link
/// of it would be an innocent part.
fn hides_cause(shares: &PartShares<(u16, Option<Role>)>, bundle: Bundle) -> bool {
    bundle.parts().into_iter().filter(|(_, role)| role.is_some()).any(|end| {
        let share = shares.get(end);
        share.is_some_and(|share| {
            share.outside.len() >= LEAST_PARTNERS && share.is_at_least(HIDING_SHARE)
        })
    })
}
