//! The causes in the findings of a survey, made from explanations and from signs of a fault that
//! medians and bandwidths do not show: counters of damaged and of lost packets (health.md 1.7), and
//! long tails of latencies. A part with such signs is suspect, if it has them in several pairs and
//! most NICs do not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{CounterEvidence, FEW_RETRIES};
use super::findings::{Cause, Certainty, Direction, Evidence, LimitSource, Population, Statistic};
use super::fit::{PairFigures, figure};
use super::outside::Outside;
use super::population::Sorted;
use super::result_store::ResultStore;
use super::roster::{
    NicId, PopulationKey, Role, Roster, TestId, TestPair, Unit, crossing, members, parts_of_nic,
};
use super::search::PartExplanation;
use super::slow_parts::Judgement;
use crate::blame::{FALSE_ALARM, LEAST_FIGURES, LEAST_PARTNERS, PartShares, Share, binomial_tail};
use crew::location::Class;
use facts::robust::at_rank;

/// The facts from which causes are made.
#[derive(Debug)]
pub struct CauseFacts<'a> {
    pub results: &'a ResultStore,
    /// The limits and the slow parts.
    pub judgement: &'a Judgement,
    /// The figures by test and class.
    pub populations: &'a [Population],
    /// The messages of failed pairs.
    pub failures: HashMap<TestPair, &'a str>,
    /// The nodes and NICs.
    pub roster: &'a Roster,
}

impl CauseFacts<'_> {
    /// The most frequent message of the failed pairs among `pairs`.
    fn failure(&self, pairs: &[&Outside]) -> Option<String> {
        let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
        for one in pairs {
            if let Some(message) = self.failures.get(&(one.test, one.pair)) {
                *messages.entry(message).or_default() += 1;
            }
        }
        let frequent = messages.into_iter().max_by_key(|(_, count)| *count);
        frequent.map(|(message, _)| message.to_owned())
    }
}

/// The cause that an explanation stands for.
pub fn cause(explanation: &PartExplanation, facts: &CauseFacts<'_>) -> Cause {
    let mut populations: BTreeMap<PopulationKey, Vec<&Outside>> = BTreeMap::new();
    for one in &explanation.pairs {
        let pairs = populations.entry((one.test, one.class)).or_default();
        pairs.push(one);
    }
    let nics: BTreeSet<NicId> = match explanation.unit {
        Unit::Path(pair) => pair.nics().into(),
        unit => members(unit, facts.roster).into_iter().collect(),
    };
    let mut evidence: Vec<Evidence> = populations
        .into_iter()
        .map(|(key, pairs)| evidence_of(explanation, key, &pairs, facts, &nics))
        .collect();
    evidence.sort_by_key(|one| Reverse(one.outside));
    Cause {
        unit: explanation.unit,
        certainty: explanation.certainty,
        direction: explanation.direction,
        evidence,
        counters: counters(&nics, facts),
    }
}

/// Fewest pairs in which a counter shows that a part is bad, if they are most of its pairs: each
/// pair is a measurement at another time.
const CONFIRMED: u32 = 8;

/// Adds what counters and tails say to the causes. A part with such a sign is suspect at least; it
/// also explains the paths that end at it and are not bad.
pub fn add_signs(causes: &mut Vec<Cause>, facts: &CauseFacts<'_>) {
    for sign in signs(facts.results, facts.roster) {
        let nics = members(sign.unit, facts.roster);
        let is_named = |cause: &Cause| {
            let cause_nics = members(cause.unit, facts.roster);
            let has_all = !nics.is_empty() && nics.iter().all(|nic| cause_nics.contains(nic));
            cause.certainty != Certainty::Transient && (cause.unit == sign.unit || has_all)
        };
        if causes.iter().any(is_named) {
            continue;
        }
        causes.retain(|cause| match cause.unit {
            Unit::Path(pair) => {
                cause.certainty == Certainty::Bad
                    || !pair.nics().iter().any(|nic| nics.contains(nic))
            }
            unit => unit != sign.unit,
        });
        let evidence = evidence_of_sign(&sign, &nics, facts);
        causes.push(Cause {
            unit: sign.unit,
            certainty: certainty_of_sign(sign.source, &evidence),
            direction: Direction::of(sign.role.filter(|_| sign.source == LimitSource::Tail)),
            evidence,
            counters: counters(&nics.into_iter().collect(), facts),
        });
    }
}

/// Returns how sure a sign is. Long tails may come from the host.
fn certainty_of_sign(source: LimitSource, evidence: &[Evidence]) -> Certainty {
    let outside: u32 = evidence.iter().map(|one| one.outside).sum();
    let measured: u32 = evidence.iter().map(|one| one.measured).sum();
    if source != LimitSource::Tail && outside >= CONFIRMED && 2 * outside > measured {
        Certainty::Bad
    } else {
        Certainty::Suspect
    }
}

/// Returns what the pairs of each population with a sign say about its part, which has these NICs.
fn evidence_of_sign(sign: &PartSigns, nics: &[NicId], facts: &CauseFacts<'_>) -> Vec<Evidence> {
    let mut outside: BTreeMap<PopulationKey, u32> = BTreeMap::new();
    for (test, pair) in &sign.pairs {
        *outside.entry((*test, facts.roster.class(*pair))).or_default() += 1;
    }
    let evidence = outside.into_iter().map(|((test, class), outside)| {
        let measured = nics.iter().map(|nic| {
            let counts = facts.results.counts(test, *nic);
            match sign.role {
                Some(role) => counts[(role, class)],
                None => counts.pairs_in_class(class),
            }
        });
        let measured = match sign.unit {
            Unit::GroupPair(..) => facts.results.crossings(test, sign.unit) as u32,
            _ => measured.sum(),
        };
        Evidence {
            test,
            class,
            figure: Statistic::default(),
            outside,
            measured: measured.max(outside),
            value: None,
            median: None,
            limit: None,
            source: sign.source,
            retries: None,
            usual_retries: None,
            failure: None,
        }
    });
    let mut evidence: Vec<Evidence> = evidence.collect();
    evidence.sort_by_key(|one| Reverse(one.outside));
    evidence
}

/// The counters of these NICs that changed, summed up over all pairs.
fn counters(nics: &BTreeSet<NicId>, facts: &CauseFacts<'_>) -> Vec<CounterEvidence> {
    let nic_counters = nics.iter().flat_map(|nic| {
        let nic_range = (*nic, String::new())..(NicId(nic.0 + 1), String::new());
        facts.results.counters.range(nic_range)
    });
    let evidence = nic_counters.map(|((nic, counter), change)| CounterEvidence {
        nic: *nic,
        counter: counter.clone(),
        change: *change,
    });
    evidence.collect()
}

/// Returns what the pairs of a population say about a part with these NICs.
fn evidence_of(
    explanation: &PartExplanation,
    (test, class): PopulationKey,
    pairs: &[&Outside],
    facts: &CauseFacts<'_>,
    nics: &BTreeSet<NicId>,
) -> Evidence {
    let is_bandwidth = facts.results.tests()[test.index()].of_bandwidth;
    let limit = facts.judgement.limits.get(&(test, class));
    let centre = limit.filter(|limit| limit.has_costs());
    let mut populations = facts.populations.iter();
    let population =
        populations.find(|population| (population.test, population.class) == (test, class));
    let source = strongest_source(pairs);
    let values: Vec<(f64, u64)> = pairs.iter().filter_map(|one| Some((one.value?, 1))).collect();
    let resending = pairs.iter().filter(|one| one.source == LimitSource::Retries);
    let retries = Sorted::of(resending.map(|one| (one.retries as f64, 1)).collect());
    let is_about_retries = source == LimitSource::Retries;
    let (outside, measured) = counts(explanation, (test, class), pairs, facts, nics);
    Evidence {
        test,
        class,
        figure: limit.map(|limit| limit.statistic).unwrap_or_default(),
        outside,
        measured: measured.max(outside),
        value: (!values.is_empty()).then(|| Sorted::of(values).median()),
        median: match centre {
            Some(limit) => Some(figure(limit.centre, is_bandwidth)),
            None => population.map(Population::median),
        },
        limit: match source {
            LimitSource::Population => centre.map(|limit| {
                let part_value = match explanation.unit {
                    Unit::Path(_) => limit.pair_limit,
                    _ => limit.ratio,
                };
                figure(limit.centre + part_value, is_bandwidth)
            }),
            LimitSource::Expect => facts.results.expected(test),
            LimitSource::Retries
            | LimitSource::Failure
            | LimitSource::LinkErrors
            | LimitSource::Losses
            | LimitSource::Tail => None,
        },
        source,
        retries: is_about_retries.then(|| retries.median()),
        usual_retries: limit.filter(|_| is_about_retries).map(|limit| limit.usual_retries),
        failure: facts.failure(pairs),
    }
}

/// Returns which limit the pairs do not meet. Ties: the limit that says most.
fn strongest_source(pairs: &[&Outside]) -> LimitSource {
    let sources = [LimitSource::Failure, LimitSource::Expect, LimitSource::Retries];
    let mut sources = sources.into_iter();
    sources
        .find(|source| pairs.iter().any(|one| one.source == *source))
        .unwrap_or(LimitSource::Population)
}

/// The numbers of pairs outside the limits and of measured pairs. A path has the numbers of its
/// measurements, with retests.
fn counts(
    explanation: &PartExplanation,
    (test, class): PopulationKey,
    pairs: &[&Outside],
    facts: &CauseFacts<'_>,
    nics: &BTreeSet<NicId>,
) -> (u32, u32) {
    let results = facts.results;
    let outside = pairs.len() as u32;
    match explanation.unit {
        Unit::Path(_) => {
            let (mut outside, mut measured) = (outside, outside);
            for one in pairs {
                let (failures, passes) =
                    results.retested((test, one.pair), facts.judgement, facts.roster);
                outside += failures as u32;
                measured += (failures + passes) as u32;
            }
            (outside, measured)
        }
        unit if explanation.direction != Direction::Both && matches!(unit, Unit::GroupPair(..)) => {
            let role = match explanation.direction {
                Direction::Initiator => Role::Initiator,
                _ => Role::Target,
            };
            let is_own = |pair| crossing(facts.roster, pair) == Some((unit, role));
            (outside, facts.judgement.measured((test, class), is_own))
        }
        unit @ Unit::Switch { .. } if facts.judgement.has_links(test, unit) => {
            let is_own = |pair| facts.judgement.is_covered_by(test, pair, unit, facts.roster);
            (outside, facts.judgement.measured((test, class), is_own))
        }
        unit @ Unit::GroupPair(..) => {
            let failed = pairs.iter().filter(|one| one.value.is_none()).count();
            let with_figures = results.crossings(test, unit) as u32;
            (outside, with_figures.saturating_add(failed as u32))
        }
        _ => {
            let measured = nics.iter().map(|nic| {
                let counts = results.counts(test, *nic);
                match explanation.direction {
                    Direction::Initiator => counts[(Role::Initiator, class)],
                    Direction::Target => counts[(Role::Target, class)],
                    Direction::Both => counts.pairs_in_class(class),
                }
            });
            (outside, measured.sum())
        }
    }
}

/// A NIC has a sign if its counts are larger than [`FEW_RETRIES`], and than this many times the
/// counts of the median NIC.
const TIMES_MEDIAN: u64 = 10;

/// Nothing follows from losses and tails at more than one of this many NICs: they are usual here.
const FEW_NICS: usize = 3;
/// Nothing follows from damaged packets at more than one of this many NICs. A NIC counts what is
/// damaged on its own link only, so that more NICs can have it.
const FEW_DAMAGED: usize = 2;

/// A pair has a long tail if the 99th percentile of its latencies is more than this many times
/// their median: one operation of a hundred takes a third of the time, longer than a side may wait
/// for its CPU ([`most_waited_percent`](super::busy::most_waited_percent)).
const LONG_P99: f32 = 50.0;
/// A pair has a long tail if the 90th percentile, as a multiple of the median, is more than this
/// many times the ratio of a good pair of its class.
const LONG_P90: f32 = 2.5;
/// Part of the pairs of a class that are certainly good, as bad NICs have less than the others.
const GOOD_PART: f64 = 0.25;

/// A part with signs of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSigns {
    /// The part: a NIC, a switch, or the links between two groups.
    pub unit: Unit,
    pub source: LimitSource,
    /// The role of the part in its pairs; both if `None`.
    pub role: Option<Role>,
    pub pairs: Vec<TestPair>,
}

/// The parts with signs of a fault.
fn signs(results: &ResultStore, roster: &Roster) -> Vec<PartSigns> {
    let damaged = damaged_signs(results, &results.errors.damaged);
    let lost = lost_signs(results, &results.errors.lost);
    let mut signs = [merged_by_switch(damaged, roster), merged_by_switch(lost, roster)].concat();
    for test in TestId::first(results.tests().len()) {
        signs.extend(tail_signs(results, test, roster));
    }
    signs
}

/// The signs of NICs; of a switch whose NICs all have the sign, one sign.
fn merged_by_switch(mut signs: Vec<PartSigns>, roster: &Roster) -> Vec<PartSigns> {
    if signs.is_empty() {
        return signs;
    }
    let nics: BTreeSet<Unit> = signs.iter().map(|sign| sign.unit).collect();
    let has_sign = |nic: &NicId| nics.contains(&Unit::Nic(*nic));
    let switches: BTreeSet<Unit> = roster.nic_ids().filter_map(|nic| switch(roster, nic)).collect();
    for switch in switches {
        let own = members(switch, roster);
        if own.len() < LEAST_PARTNERS || !own.iter().all(has_sign) {
            continue;
        }
        let own: BTreeSet<Unit> = own.into_iter().map(Unit::Nic).collect();
        let nic_signs: Vec<PartSigns> =
            signs.extract_if(.., |sign| own.contains(&sign.unit)).collect();
        signs.push(PartSigns {
            unit: switch,
            pairs: nic_signs.iter().flat_map(|sign| sign.pairs.clone()).collect(),
            ..nic_signs[0].clone()
        });
    }
    signs
}

fn switch(roster: &Roster, nic: NicId) -> Option<Unit> {
    parts_of_nic(roster, nic)[2]
}

/// Returns signs, unless more than one of `few` NICs has them.
fn unless_usual(results: &ResultStore, signs: Vec<PartSigns>, few: usize) -> Vec<PartSigns> {
    if signs.len() * few > measured(results).count() {
        return Vec::new();
    }
    signs
}

/// The NICs with an answer.
fn measured(results: &ResultStore) -> impl Iterator<Item = NicId> {
    NicId::first(results.nics).filter(|nic| results.answers(*nic) > 0)
}

/// The largest sum of a NIC without a sign, if these NICs have these sums and all others have none.
fn limit(results: &ResultStore, sums: &BTreeMap<NicId, u64>) -> u64 {
    let sum = |nic: NicId| sums.get(&nic).copied().unwrap_or(0);
    let mut all: Vec<u64> = measured(results).map(sum).collect();
    all.sort_unstable();
    let median = all.get(all.len().saturating_sub(1) / 2).copied();
    FEW_RETRIES.max(TIMES_MEDIAN.saturating_mul(median.unwrap_or(0)))
}

fn partners(nic: NicId, pairs: &[TestPair]) -> BTreeSet<NicId> {
    pairs.iter().map(|(_, pair)| pair.partner(nic)).collect()
}

/// The NICs on whose own link packets were damaged: only the NICs at the ends of a link count that,
/// so its partners are no cause.
fn damaged_signs(results: &ResultStore, counts: &BTreeMap<TestPair, u64>) -> Vec<PartSigns> {
    let mut sums: BTreeMap<NicId, u64> = BTreeMap::new();
    let mut pairs: BTreeMap<NicId, Vec<TestPair>> = BTreeMap::new();
    for (key, count) in counts {
        *sums.entry(key.1.initiator).or_default() += count;
        pairs.entry(key.1.initiator).or_default().push(*key);
    }
    let limit = limit(results, &sums);
    pairs.retain(|nic, pairs| sums[nic] > limit && pairs.len() >= LEAST_PARTNERS);
    let sign = |(nic, pairs)| PartSigns {
        unit: Unit::Nic(nic),
        source: LimitSource::LinkErrors,
        role: Some(Role::Initiator),
        pairs,
    };
    unless_usual(results, pairs.into_iter().map(sign).collect(), FEW_DAMAGED)
}

/// The NICs that packets were lost at: those with losses with more partners than any of these
/// partners has.
fn lost_signs(results: &ResultStore, counts: &BTreeMap<TestPair, u64>) -> Vec<PartSigns> {
    let mut open: Vec<TestPair> = counts.keys().copied().collect();
    open.retain(|(_, pair)| !pair.is_loopback());
    let mut found = Vec::new();
    while let Some((nic, pairs)) = take_most(&mut open) {
        found.push(PartSigns {
            unit: Unit::Nic(nic),
            source: LimitSource::Losses,
            role: None,
            pairs,
        });
    }
    // The counts that the named NICs do not explain are usual.
    let mut sums: BTreeMap<NicId, u64> = BTreeMap::new();
    for key in &open {
        for nic in key.1.nics() {
            *sums.entry(nic).or_default() += counts[key];
        }
    }
    let limit = limit(results, &sums);
    found.retain(|sign| sign.pairs.iter().map(|key| counts[key]).sum::<u64>() > limit);
    unless_usual(results, found, FEW_NICS)
}

/// Takes the pairs of the NIC with the most partners in `open`, if it has enough of them, and more
/// than any of these partners.
fn take_most(open: &mut Vec<TestPair>) -> Option<(NicId, Vec<TestPair>)> {
    let mut by_nic: BTreeMap<NicId, Vec<TestPair>> = BTreeMap::new();
    for key in &*open {
        for nic in key.1.nics() {
            by_nic.entry(nic).or_default().push(*key);
        }
    }
    let count = |nic: &NicId| partners(*nic, &by_nic[nic]).len();
    let most = by_nic.keys().copied().max_by_key(count)?;
    let own = partners(most, &by_nic[&most]);
    if own.len() < LEAST_PARTNERS || own.iter().any(|partner| count(partner) >= own.len()) {
        return None;
    }
    open.retain(|(_, pair)| !pair.nics().contains(&most));
    by_nic.remove(&most).map(|pairs| (most, pairs))
}

/// The parts of whose pairs most have long tails in a test, if the tails of the other pairs show
/// that this is no chance.
fn tail_signs(results: &ResultStore, test: TestId, roster: &Roster) -> Vec<PartSigns> {
    let is_clear = |one: &&PairFigures| one.has_p90() && !one.pair.is_loopback();
    let mut open: Vec<&PairFigures> = results.observations(test).iter().filter(is_clear).collect();
    let limits = Class::ALL.map(|class| most_p90(&open, class));
    let is_long = |one: &PairFigures| {
        one.p99 > LONG_P99 && !one.is_disturbed || one.p90 > limits[one.class as usize]
    };
    let mut found: Vec<PartSigns> = Vec::new();
    loop {
        let slow = open.iter().filter(|one| is_long(one)).count();
        let rows = open.iter().map(|one| (parts_of(one, roster), is_long(one)));
        let shares = PartShares::new(rows);
        let best = shares.best(|_, share| is_sign(share, &open, slow, shares.parts()));
        let Some(((unit, role), share)) = best else {
            break;
        };
        let pairs: Vec<TestPair> =
            share.outside.iter().map(|row| (test, open[*row].pair)).collect();
        open.retain(|one| !pairs.contains(&(test, one.pair)));
        found.push(PartSigns { unit, source: LimitSource::Tail, role, pairs });
    }
    unless_usual(results, found, FEW_NICS)
}

/// The largest 90th percentile of a good pair of a class, as a multiple of the median.
fn most_p90(pairs: &[&PairFigures], class: Class) -> f32 {
    let own = pairs.iter().filter(|one| one.class == class);
    let all: Vec<f64> = own.map(|one| one.p90.into()).collect();
    let good = at_rank(&all, (GOOD_PART * all.len() as f64) as usize);
    let good = good.filter(|_| all.len() >= LEAST_FIGURES);
    good.map_or(f32::INFINITY, |p90| LONG_P90 * p90 as f32)
}

/// The parts of a pair that may have long tails, in both roles and in their role.
fn parts_of(one: &PairFigures, roster: &Roster) -> Vec<(Unit, Option<Role>)> {
    let mut parts: Vec<(Unit, Role)> = Vec::new();
    for (role, nic) in one.pair.roles() {
        parts.push((Unit::Nic(nic), role));
        parts.extend(switch(roster, nic).map(|switch| (switch, role)));
    }
    parts.extend(crossing(roster, one.pair));
    let parts = parts.into_iter();
    parts.flat_map(|(unit, role)| [(unit, None), (unit, Some(role))]).collect()
}

/// Whether most pairs of a part have long tails, and more of them than chance allows, by the tails
/// of all other pairs: `slow` of all pairs have them. The part is one of `parts`.
fn is_sign(share: &Share, all: &[&PairFigures], slow: usize, parts: usize) -> bool {
    let (count, hits) = (share.rows.len(), share.outside.len());
    let usual = ((slow - hits) as f64 + 0.5) / ((all.len() - count) as f64 + 1.0);
    let nics: BTreeSet<NicId> =
        share.outside.iter().flat_map(|row| all[*row].pair.nics()).collect();
    2 * hits > count
        && nics.len() > LEAST_PARTNERS
        && binomial_tail(count, hits, usual.min(0.999)) * (parts as f64) < FALSE_ALARM
}

#[cfg(test)]
mod tests {
    use super::super::answer::{PairResult, Untested};
    use super::super::findings::{Certainty, Direction, Evidence, Findings, UntestedPart};
    use super::super::roster::TestId;
    use super::super::rounds::Round;
    use super::super::testing::{Cluster, Effect, Fault, named, settings, survey, survey_with};
    use super::*;

    #[test]
    fn counters_confirm_in_most_of_enough_pairs() {
        let certainty = |source, outside, measured| {
            let evidence = Evidence {
                test: TestId(0),
                class: Class::Fabric,
                outside,
                measured,
                figure: Statistic::default(),
                value: None,
                median: None,
                limit: None,
                source,
                retries: None,
                usual_retries: None,
                failure: None,
            };
            certainty_of_sign(source, &[evidence])
        };
        for (source, outside, measured, expected) in [
            (LimitSource::LinkErrors, 8, 15, Certainty::Bad),
            (LimitSource::Losses, 8, 15, Certainty::Bad),
            (LimitSource::Losses, 8, 16, Certainty::Suspect),
            (LimitSource::Losses, 7, 7, Certainty::Suspect),
            (LimitSource::Tail, 20, 20, Certainty::Suspect),
        ] {
            assert_eq!(certainty(source, outside, measured), expected, "{source:?} {outside}");
        }
    }

    /// Medians and minima do not show some late operations, however late.
    const DELAYS_SOME: Effect = Effect::DelaysSome(4.0);

    const SHAPES: [([u16; 4], &str); 4] = [
        ([0, 0, 5, 1], "random:4"),
        ([0, 0, 8, 1], "random:4"),
        ([0, 0, 24, 1], "random:4"),
        ([3, 2, 3, 1], "all"),
    ];

    /// The findings of a survey of a cluster in which these parts have a fault.
    fn found(shape: ([u16; 4], &str), units: &[Unit], effect: Effect, seed: u64) -> Findings {
        let mut cluster = Cluster::new(shape.0, &["write-lat"], seed);
        let fault = |unit: &Unit| Fault { unit: *unit, direction: Direction::Both, effect };
        cluster.faults = units.iter().map(fault).collect();
        survey(&mut cluster, shape.1, seed)
    }

    /// Checks that each survey suspects this part, and nothing else, for this reason.
    fn check(shapes: &[([u16; 4], &str)], unit: Unit, effect: Effect, source: LimitSource) {
        for (shape, seed) in
            shapes.iter().flat_map(|shape| (0..10).map(move |value| (shape, value)))
        {
            let findings = found(*shape, &[unit], effect, seed);
            let evidence = &findings.causes[0].evidence;
            let sum = |count: fn(&Evidence) -> u32| evidence.iter().map(count).sum::<u32>();
            let (outside, measured) = (sum(|one| one.outside), sum(|one| one.measured));
            let is_confirmed = outside >= 8 && 2 * outside > measured;
            let certainty = match source {
                LimitSource::Tail => Certainty::Suspect,
                _ if is_confirmed => Certainty::Bad,
                _ => Certainty::Suspect,
            };
            let expected = [(unit, certainty, Direction::Both)];
            assert_eq!(named(&findings), expected, "{shape:?} {seed}");
            assert!(evidence.iter().all(|one| one.source == source));
            assert!(outside >= 2 && outside <= measured);
        }
    }

    #[test]
    fn counters_of_most_pairs_show_that_a_nic_is_bad() {
        let nic = Unit::Nic(NicId(3));
        for (effect, expected) in [
            (Effect::Damages(60.0), Certainty::Bad),
            (Effect::Resends(4.0), Certainty::Bad),
            (Effect::HasTail, Certainty::Suspect),
        ] {
            let findings = found(SHAPES[3], &[nic], effect, 1);
            assert_eq!(named(&findings), [(nic, expected, Direction::Both)], "{effect:?}");
        }
    }

    #[test]
    fn suspects_nic_whose_link_damages_packets() {
        let nic = Unit::Nic(NicId(3));
        check(&SHAPES, nic, Effect::Damages(60.0), LimitSource::LinkErrors);
    }

    #[test]
    fn suspects_switch_whose_links_all_damage_packets() {
        let switch = Unit::Switch { group: 1, switch: 0 };
        check(&SHAPES[3..], switch, Effect::Damages(60.0), LimitSource::LinkErrors);
    }

    #[test]
    fn suspects_nic_that_loses_few_packets_of_each_pair() {
        let nic = Unit::Nic(NicId(2));
        check(&SHAPES, nic, Effect::Resends(4.0), LimitSource::Losses);
    }

    #[test]
    fn suspects_parts_with_long_tails() {
        let nic = Unit::Nic(NicId(2));
        let links = Unit::GroupPair(0, 2);
        for tail in [DELAYS_SOME, Effect::HasTail] {
            check(&SHAPES[1..], nic, tail, LimitSource::Tail);
            check(&SHAPES[3..], links, tail, LimitSource::Tail);
        }
    }

    /// Many long operations are late because a process waits for its CPU, and few short ones.
    #[test]
    fn ignores_long_operations_beside_busy_cpus() {
        let nics = || (0..8).map(|nic| Unit::Nic(NicId(nic)));
        for (times, waited_percent, expected) in
            [(1.0, 25, 1), (1.0, 90, 1), (100.0, 25, 1), (100.0, 26, 0)]
        {
            let mut cluster = Cluster::new(SHAPES[1].0, &["write-lat"], 1);
            let unit = Unit::Nic(NicId(2));
            let slow =
                |unit| Fault { unit, direction: Direction::Initiator, effect: Effect::Slow(times) };
            cluster.faults = nics().map(slow).collect();
            cluster.faults.push(Fault { unit, direction: Direction::Both, effect: DELAYS_SOME });
            let measure = |cluster: &mut Cluster, round: &Round| {
                let results = cluster.measure(round).into_iter();
                results.map(|result| PairResult { waited_percent, ..result }).collect()
            };
            let findings = survey_with(&mut cluster, settings(SHAPES[1].1, 1), measure);
            assert_eq!(named(&findings).len(), expected, "{times} {waited_percent}");
            // No NIC is good if no late operation would be found.
            let is_busy = |part: &&UntestedPart| part.reason == Untested::BusyCpus;
            let hidden = findings.untested.iter().filter(is_busy).count();
            assert_eq!(hidden, if expected == 0 { 8 } else { 0 }, "{times} {waited_percent}");
        }
    }

    #[test]
    fn suspects_no_nic_whose_tails_are_longer_by_chance() {
        for (shape, seed) in SHAPES.iter().flat_map(|shape| (0..10).map(move |seed| (shape, seed)))
        {
            let mut cluster = Cluster::new(shape.0, &["write-lat"], seed);
            cluster.noise_of_p90 = 1.5;
            assert_eq!(named(&survey(&mut cluster, shape.1, seed)), [], "{shape:?} {seed}");
        }
    }

    #[test]
    fn suspects_nothing_that_most_nics_have() {
        let all: Vec<Unit> = (0..8).map(|nic| Unit::Nic(NicId(nic))).collect();
        for effect in [Effect::Damages(60.0), Effect::Resends(4.0), DELAYS_SOME, Effect::HasTail] {
            assert_eq!(named(&found(SHAPES[1], &all, effect, 1)), [], "{effect:?}");
        }
        // A few damaged packets are no fault.
        let one = found(SHAPES[1], &all[..1], Effect::Damages(1.0), 1);
        assert_eq!(named(&one), []);
    }
}
