//! The slow parts of a cluster: what the fit of a test selects, and what retests and comparisons
//! say about it. A cluster or a machine that is slow for some seconds is no property of a pair.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{Answer, Stage};
use super::findings::{Certainty, Statistic};
use super::fit::{PairFigures, PairResidual};
use super::limits::{Limit, Limits};
use super::result_store::ResultStore;
use super::roster::{
    NicId, Pair, PopulationKey, Role, Roster, TestId, Unit, crossing, members, parts_of_nic,
};
use super::selection::{PartEffect, Selected, select};
use crate::blame::{LEAST_ERROR, error_of_median};
use crew::location::Class;
use facts::robust::lower_median;

/// Fewest pairs of a slow part that must be measured again.
const DECISIVE: usize = 2;

/// Distance from the limit, in standard errors, below which the survey does not decide.
const UNCERTAIN: f64 = 2.0;

/// A slow part may have disturbed pairs only. At least this part of the other pairs must then be
/// disturbed too: otherwise its busy CPUs may be why it is slow.
const AS_DISTURBED: f64 = 0.5;

/// A class is mixed if more than this part of its NICs belong to slow parts,
const MOST_SLOW: f64 = 1.0 / 3.0;
/// or if more than this part of its NICs or pairs belongs to parts that are better than the centre
/// by more than the limit,
const MOST_BETTER: f64 = 0.1;
/// or if slow links between two groups have more than this part of its pairs.
const MOST_CROSSINGS: f64 = 0.5;

impl PartEffect {
    /// Whether the part is slower than a ratio, a logarithm, or may be.
    pub fn is_outside(&self, ratio: f64) -> bool {
        self.value + UNCERTAIN * self.error > ratio
    }
}

/// A part whose pairs are slow in a test.
#[derive(Clone, Debug)]
pub struct SlowPart {
    pub test: TestId,
    /// Whether its pairs are those in loopback; all others if not.
    pub in_loopback: bool,
    pub unit: Unit,
    /// Its role in the pairs; both if `None`.
    pub role: Option<Role>,
    /// How much slower its pairs are than good ones, as a logarithm.
    pub value: f64,
    /// The limit of the residual of one of its pairs.
    pub threshold: f64,
    /// What retests say.
    pub certainty: Certainty,
    /// The pairs of groups whose links end at the part, a switch, and are as slow.
    pub links: Vec<Unit>,
}

impl SlowPart {
    /// The part, and the links that end at it.
    fn units(&self) -> impl Iterator<Item = Unit> {
        [self.unit].into_iter().chain(self.links.iter().copied())
    }
}

/// The pairs of a test, in loopback or all others, with the parts that explain them.
#[derive(Debug)]
pub struct ExplainedPairs {
    pub test: TestId,
    /// Whether its pairs are those in loopback.
    pub in_loopback: bool,
    pub pairs: Vec<PairResidual>,
    /// The classes of the pairs.
    pub classes: Vec<Class>,
    /// What the selection says.
    pub selected: Selected,
}

/// The limits, and the slow parts that follow from them.
#[derive(Debug, Default)]
pub struct Judgement {
    pub limits: Limits,
    pub parts: Vec<SlowPart>,
    /// The pairs with the parts that explain them.
    pub domains: Vec<ExplainedPairs>,
    /// Indices of the slow parts.
    indices: HashMap<(TestId, bool, Unit), Vec<usize>>,
    /// Classes that the parts show to be mixed.
    pub mixed: BTreeSet<PopulationKey>,
}

impl Judgement {
    /// Finds the slow parts.
    pub fn of(results: &ResultStore, limits: Limits, roster: &Roster) -> Self {
        let mut judgement = Self { limits, ..Self::default() };
        for test in TestId::first(results.tests().len()) {
            for in_loopback in [false, true] {
                judgement.add_domain(results, test, in_loopback, roster);
            }
        }
        judgement.decide(results, roster);
        judgement
    }

    /// The limit of the residual of a pair of this class: the limit of the part to which it
    /// belongs, or of a single pair.
    pub fn threshold(&self, test: TestId, pair: Pair, limit: &Limit, roster: &Roster) -> f64 {
        let parts = self.covering(test, pair, roster);
        let parts = parts.iter().map(|index| self.parts[*index].threshold);
        parts.fold(limit.pair_limit, f64::min)
    }

    /// The indices of the slow parts to which a pair belongs.
    pub fn covering(&self, test: TestId, pair: Pair, roster: &Roster) -> BTreeSet<usize> {
        if self.parts.is_empty() {
            return BTreeSet::new();
        }
        let nic_units = pair.roles().into_iter().flat_map(|(role, nic)| {
            let units = parts_of_nic(roster, nic).into_iter().flatten();
            units.map(move |unit| (Some(role), unit))
        });
        let groups = crossing(roster, pair).map(|(unit, role)| (Some(role), unit));
        let parts = nic_units.chain(groups).flat_map(|(role, unit)| {
            let indices = self.indices.get(&(test, pair.is_loopback(), unit));
            let indices = indices.into_iter().flatten().copied();
            indices.filter(move |index| {
                let own = self.parts[*index].role;
                own.is_none() || own == role
            })
        });
        parts.collect()
    }

    /// Whether links that end at a part are slow too.
    pub fn has_links(&self, test: TestId, unit: Unit) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| (part.test, part.unit) == (test, unit) && !part.links.is_empty())
    }

    /// Whether a part, or a link that ends at it, explains a pair.
    pub fn is_covered_by(&self, test: TestId, pair: Pair, unit: Unit, roster: &Roster) -> bool {
        let covering = self.covering(test, pair, roster);
        covering.into_iter().any(|index| self.parts[index].unit == unit)
    }

    /// The number of pairs of a population that were judged and that `is_own` accepts.
    pub fn measured(&self, (test, class): PopulationKey, is_own: impl Fn(Pair) -> bool) -> u32 {
        let domains = self.domains.iter().filter(|domain| domain.test == test);
        let pairs = domains.flat_map(|domain| domain.pairs.iter().zip(&domain.classes));
        let own = pairs.filter(|(one, pair)| **pair == class && is_own(one.pair));
        own.count() as u32
    }

    /// Adds the pairs of a test, and the slow parts that explain them.
    fn add_domain(
        &mut self,
        results: &ResultStore,
        test: TestId,
        in_loopback: bool,
        roster: &Roster,
    ) {
        let mut classes = Vec::new();
        let mut pairs = Vec::new();
        for one in results.observations(test) {
            if (one.class == Class::Loopback) != in_loopback {
                continue;
            }
            if let Some(value) = self.residual(one, test, results) {
                pairs.push(PairResidual { pair: one.pair, value });
                classes.push(one.class);
            }
        }
        let ratio = results.ratio(test);
        let selected = select(&pairs, ratio, roster);
        for effect in &selected.effects {
            if effect.is_outside(ratio) {
                self.parts.push(SlowPart {
                    test,
                    in_loopback,
                    unit: effect.unit,
                    role: effect.role,
                    value: effect.value,
                    threshold: ratio.min(effect.value / 2.0),
                    certainty: Certainty::Suspect,
                    links: effect.links.clone(),
                });
            }
        }
        self.index_parts();
        let domain = ExplainedPairs { test, in_loopback, pairs, classes, selected };
        self.mixed.extend(self.mixed_classes(&domain, results, roster));
        self.domains.push(domain);
    }

    /// The classes that are mixed: so many of their NICs or pairs differ that the centre may not be
    /// a good pair.
    fn mixed_classes(
        &self,
        domain: &ExplainedPairs,
        results: &ResultStore,
        roster: &Roster,
    ) -> BTreeSet<PopulationKey> {
        let ratio = results.ratio(domain.test);
        let mut slow: BTreeSet<NicId> = BTreeSet::new();
        let mut better: BTreeSet<NicId> = BTreeSet::new();
        let mut shifted: BTreeSet<NicId> = BTreeSet::new();
        let mut is_shifted_down = false;
        let mut better_crossings = 0;
        let mut mixed = BTreeSet::new();
        let key = |class: Class| (domain.test, class);
        let fabric_classes = || domain.classes.iter().filter(|class| **class == Class::Fabric);
        let fabric = fabric_classes().count() as f64;
        for effect in &domain.selected.effects {
            let is_slow = effect.is_outside(ratio);
            let is_better = effect.value < -ratio;
            if let Unit::GroupPair(..) = effect.unit {
                let pairs = effect.pairs.len();
                better_crossings += if is_better { pairs } else { 0 };
                if is_slow && pairs as f64 > MOST_CROSSINGS * fabric {
                    mixed.insert(key(Class::Fabric));
                }
                continue;
            }
            shifted.extend(members(effect.unit, roster));
            is_shifted_down |= effect.value < 0.0;
            if is_slow {
                slow.extend(members(effect.unit, roster));
            } else if is_better {
                better.extend(members(effect.unit, roster));
            }
        }
        if better_crossings as f64 > MOST_BETTER * fabric {
            mixed.insert(key(Class::Fabric));
        }
        let nics = domain.selected.nics as f64;
        // One NIC of few may only have waited less for its CPUs.
        let is_undisturbed = |class: &Class| {
            let limit = self.limits.get(&key(*class));
            limit.is_none_or(|limit| limit.statistic == Statistic::Median)
        };
        let spare = f64::from(u8::from(!domain.classes.iter().all(is_undisturbed)));
        // The centre may lie between two kinds of NICs.
        let is_between = is_shifted_down && shifted.len() as f64 - spare > MOST_SLOW * nics;
        if slow.len() as f64 > MOST_SLOW * nics
            || better.len() as f64 > (MOST_BETTER * nics).max(spare)
            || is_between
        {
            mixed.extend(domain.classes.iter().copied().map(key));
        }
        mixed
    }

    /// Decides about the slow parts by their retests and swaps alone. Removes parts that all
    /// measurements together show to be inside the limits.
    fn decide(&mut self, results: &ResultStore, roster: &Roster) {
        let mut kept = Vec::new();
        for (part, evidence) in self.parts.iter().zip(self.evidence(results, roster)) {
            let spread = self.domains.iter().find_map(|domain| {
                let is_own = (domain.test, domain.in_loopback) == (part.test, part.in_loopback);
                is_own.then_some(domain.selected.spread)
            });
            let ratio = results.ratio(part.test);
            let certainty = evidence.certainty(part.value, ratio, spread.unwrap_or_default());
            kept.push(certainty.map(|certainty| {
                if evidence.is_equally_disturbed() {
                    certainty
                } else {
                    certainty.min(Certainty::Suspect)
                }
            }));
        }
        let mut kept = kept.into_iter();
        self.parts.retain_mut(|part| {
            let certainty = kept.next().flatten();
            part.certainty = certainty.unwrap_or(Certainty::Suspect);
            certainty.is_some()
        });
        self.index_parts();
    }

    /// The evidence about each of the slow parts.
    fn evidence(&self, results: &ResultStore, roster: &Roster) -> Vec<PartEvidence> {
        let mut evidence = vec![PartEvidence::default(); self.parts.len()];
        for test in TestId::first(results.tests().len()) {
            let mut domains = [DisturbedPairs::default(); 2];
            for one in results.observations(test) {
                domains[usize::from(one.class == Class::Loopback)].add(one.is_disturbed);
                for (index, rest) in self.shares(one, test, results, roster) {
                    let evidence = &mut evidence[index];
                    if one.is_of_sweep {
                        evidence.first.insert(one.pair, rest);
                    } else {
                        evidence.again.entry(one.pair).or_default().push(rest);
                    }
                    let has_effect = rest > self.parts[index].value / 2.0;
                    evidence.undisturbed += usize::from(!one.is_disturbed && has_effect);
                    evidence.own.add(one.is_disturbed);
                }
            }
            for (part, evidence) in self.parts.iter().zip(&mut evidence) {
                if part.test == test {
                    evidence.domain = domains[usize::from(part.in_loopback)];
                }
            }
        }
        for result in results.retests().filter(|result| result.stage != Stage::Sweep) {
            let class = roster.class(result.pair);
            if let Answer::Failed(_) = result.answer {
                for index in self.covering(result.test, result.pair, roster) {
                    let pair_values = evidence[index].again.entry(result.pair).or_default();
                    pair_values.push(f64::INFINITY);
                }
            } else if let Some(one) = PairFigures::of(result, class) {
                for (index, rest) in self.shares(&one, result.test, results, roster) {
                    evidence[index].again.entry(one.pair).or_default().push(rest);
                }
            }
        }
        evidence
    }

    fn index_parts(&mut self) {
        self.indices.clear();
        for (index, part) in self.parts.iter().enumerate() {
            for unit in part.units() {
                let key = (part.test, part.in_loopback, unit);
                self.indices.entry(key).or_default().push(index);
            }
        }
    }

    /// Returns how far a pair is from the centre of its class, without what slowed all pairs down.
    fn residual(&self, one: &PairFigures, test: TestId, results: &ResultStore) -> Option<f64> {
        let key = (test, one.class);
        let limit = self.limits.get(&key).filter(|limit| limit.has_costs())?;
        limit.residual(&self.without_drift(results, key, *one))
    }

    /// The slow parts of a pair, with the residual that the other parts leave each.
    fn shares(
        &self,
        one: &PairFigures,
        test: TestId,
        results: &ResultStore,
        roster: &Roster,
    ) -> Vec<(usize, f64)> {
        let Some(residual) = self.residual(one, test, results) else {
            return Vec::new();
        };
        let parts = self.covering(test, one.pair, roster);
        let total: f64 = parts.iter().map(|index| self.parts[*index].value).sum();
        let rest = |index: usize| (index, residual - total + self.parts[index].value);
        parts.into_iter().map(rest).collect()
    }
}

/// The measurements of a slow part, without the effects of other parts.
#[derive(Clone, Default)]
struct PartEvidence {
    /// The residuals of its pairs in the sweep.
    first: BTreeMap<Pair, f64>,
    /// The residuals of its pairs in retests and swaps; infinite after a failure.
    again: BTreeMap<Pair, Vec<f64>>,
    /// The number of undisturbed pairs with its effect.
    undisturbed: usize,
    /// Its pairs.
    own: DisturbedPairs,
    /// All pairs of its test, in loopback or all others.
    domain: DisturbedPairs,
}

impl PartEvidence {
    /// Whether busy CPUs cannot be why the part is slow.
    fn is_equally_disturbed(&self) -> bool {
        let others = self.domain.all - self.own.all;
        let disturbed = self.domain.disturbed - self.own.disturbed;
        self.undisturbed >= DECISIVE || disturbed as f64 >= AS_DISTURBED * others as f64
    }

    /// Returns what measurements say that followed a selection; `None` if all together are inside
    /// the limits.
    fn certainty(&self, value: f64, ratio: f64, spread: f64) -> Option<Certainty> {
        if self.again.len() < DECISIVE {
            return Some(Certainty::Suspect);
        }
        let half = value.max(ratio) / 2.0;
        // A pair counts once, however often it was measured again.
        let mut pair_values = self.first.clone();
        let medians =
            self.again.iter().filter_map(|(pair, rests)| Some((*pair, lower_median(rests)?)));
        pair_values.extend(medians);
        let hits = self.again.keys().filter(|pair| pair_values[*pair] >= half).count();
        if 2 * hits < self.again.len() {
            return Some(Certainty::Transient);
        }
        if lower_median(&pair_values.into_values().collect::<Vec<f64>>())? < half {
            return None;
        }
        let all: Vec<f64> =
            self.again.values().flatten().chain(self.first.values()).copied().collect();
        let error = error_of_median(spread, all.len()).max(LEAST_ERROR);
        let median = lower_median(&all)?;
        if median > ratio && 2 * hits > self.again.len() {
            Some(Certainty::Bad)
        } else if median + UNCERTAIN * error > ratio {
            Some(Certainty::Suspect)
        } else {
            None
        }
    }
}

/// The number of pairs, and of pairs with busy CPUs.
#[derive(Clone, Copy, Default)]
struct DisturbedPairs {
    all: usize,
    disturbed: usize,
}

impl DisturbedPairs {
    fn add(&mut self, is_disturbed: bool) {
        self.all += 1;
        self.disturbed += usize::from(is_disturbed);
    }
}

impl Judgement {
    /// An observation as if the cluster had been as fast as in the sweep: if the comparisons before
    /// and after it are outside the limit, without what both took longer than good pairs. One slow
    /// comparison may have a reason of its own.
    pub fn without_drift(
        &self,
        results: &ResultStore,
        key: PopulationKey,
        one: PairFigures,
    ) -> PairFigures {
        let limit = self.limits.get(&key).filter(|_| !one.is_of_sweep);
        let drift = limit.and_then(|limit| drift(results, key, one.round, limit));
        drift.map_or(one, |drift| one.faster_by(drift))
    }
}

/// Returns by how much the comparisons directly before and after a round are slower than good
/// pairs, if all of them are outside the limit: the smallest difference.
fn drift(results: &ResultStore, key: PopulationKey, round: u32, limit: &Limit) -> Option<f64> {
    let rounds = results.comparisons.get(&key)?;
    let (_, before) = rounds.range(..round).next_back()?;
    let (_, after) = rounds.range(round + 1..).next()?;
    let residuals = before.iter().chain(after).filter_map(|one| limit.residual(one));
    let least = residuals.min_by(f64::total_cmp)?;
    (least > limit.ratio).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Figures, Stage};
    use super::super::findings::{Direction, Findings};
    use super::super::plan::Settings;
    use super::super::roster::{NicId, Unit};
    use super::super::testing::{Cluster, Fault, named, pair, settings, survey, survey_with};

    #[test]
    fn names_nothing_but_the_nic_at_the_limit() {
        for (factor, seed) in (0..60).map(|seed| ([1.299, 1.3, 1.301][seed as usize % 3], seed)) {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat"], seed);
            cluster.noise = 0.001;
            let nic = Unit::Nic(NicId(3));
            cluster.faults = vec![Fault::slow(nic, Direction::Both, factor)];
            let findings = survey(&mut cluster, "all", seed);
            let units: Vec<Unit> = named(&findings).into_iter().map(|(unit, _, _)| unit).collect();
            assert_eq!((units, findings.untested), (vec![nic], vec![]), "{factor} {seed}");
        }
    }

    /// Measures a survey of five NICs on a machine that is slower by a factor at times.
    fn survey_of_slow_times(
        cluster: &mut Cluster,
        is_slow: impl Fn(Stage, usize) -> bool,
        factor: f64,
    ) -> Findings {
        let one_at_a_time = Settings { most_active: Some(1), ..settings("random:4", 1) };
        let mut number = 0;
        survey_with(cluster, one_at_a_time, |cluster, round| {
            let factor = if is_slow(round.stage, number) { factor } else { 1.0 };
            number += 1;
            let mut results = cluster.measure(round);
            for result in &mut results {
                if let Answer::Measured(Figures::Latency { median_ns, .. }) = &mut result.answer {
                    *median_ns = (*median_ns as f64 * factor) as u64;
                }
            }
            results
        })
    }

    #[test]
    fn names_no_path_of_a_machine_that_is_slow_at_times() {
        // The first and the last pair are slow, and all retests.
        let is_slow = |stage, number| stage != Stage::Sweep || [0, 15].contains(&number);
        let mut cluster = Cluster::new([0, 0, 5, 1], &["write-lat"], 1);
        cluster.noise = 0.05;
        let findings = survey_of_slow_times(&mut cluster, is_slow, 1.8);
        assert_eq!(named(&findings), []);
        assert!(findings.untested.is_empty(), "{:?}", findings.untested);
        // A slow path is still found.
        let path = Unit::Path(pair(1, 4));
        cluster.faults = vec![Fault::slow(path, Direction::Both, 10.0)];
        let findings = survey_of_slow_times(&mut cluster, is_slow, 1.8);
        let found: Vec<Unit> = named(&findings).iter().map(|one| one.0).collect();
        assert_eq!(found, [path]);
    }

    #[test]
    fn judges_pairs_by_the_best_of_several_measurements_if_they_differ() {
        let survey_at = |slow: fn(Stage, usize) -> bool, fault: Option<Fault>| {
            let mut cluster = Cluster::new([0, 0, 5, 1], &["write-lat"], 1);
            cluster.noise = 0.05;
            cluster.faults.extend(fault);
            survey_of_slow_times(&mut cluster, slow, 20.0)
        };
        // Every third measurement is slow.
        let third = |_, number: usize| number.is_multiple_of(3);
        let findings = survey_at(third, None);
        assert_eq!(named(&findings), []);
        assert!(findings.untested.is_empty(), "{:?}", findings.untested);
        let unit = Unit::Nic(NicId(2));
        let findings = survey_at(third, Some(Fault::slow(unit, Direction::Both, 3.0)));
        let found: Vec<Unit> = named(&findings).iter().map(|one| one.0).collect();
        assert_eq!(found, [unit]);
    }
}
