//! What the results of a survey say, at its end or at any moment before, and the parts of the
//! findings that summarise results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::answer::{Answer, PairResult, Stage, Untested};
use super::cause::{CauseFacts, add_signs, cause};
use super::coverage::Coverage;
use super::explanation::explain;
use super::findings::{
    Aggregate, Cause, Certainty, Findings, LimitSource, Matrix, Population, Statistic, UntestedPart,
};
use super::fit::{PairFigures, figure};
use super::limits::Limits;
use super::outside::{Outside, RetestOutcome};
use super::population::{FigureHistogram, Sorted, cost};
use super::result_store::{PopulationData, ResultStore};
use super::roster::{NicId, PopulationKey, Roster, TestId, TestPair, Unit, members, parts_of_pair};
use super::routes::{Route, route};
use super::search::{PartExplanation, waited_for_cpus};
use super::slow_parts::Judgement;
use crate::blame::LEAST_FIGURES;
use crew::location::Class;
use facts::expect::{Expectation, Metric};
use facts::percentile::Percentile;

/// Most results outside the limits in a findings.
const MOST_OUTSIDE: usize = 10_000;

/// The results of a survey that ends at this moment.
#[derive(Debug)]
pub struct EndedSurvey<'a> {
    /// The nodes and NICs.
    pub roster: &'a Roster,
    pub results: &'a ResultStore,
    pub limits: &'a Limits,
    /// How much was measured.
    pub coverage: Coverage,
    /// Whether to return the figures of all pairs.
    pub keeps_figures: bool,
    /// Whether the selections have each NIC in a pair.
    pub is_of_all_nics: bool,
    /// Whether all pairs were measured because the selected ones differed too much.
    pub is_wide: bool,
}

impl EndedSurvey<'_> {
    /// Returns what the results say.
    pub fn findings(&self) -> Findings {
        let (results, limits, roster) = (self.results, self.limits, self.roster);
        let explained = explain(results, limits, roster);
        let (judgement, outside) = (&explained.judgement, &explained.outside);
        let mut populations = results.populations(judgement, outside, roster);
        let is_incomparable = |one| results.is_incomparable(one, &populations, roster);
        let incomparable: Vec<bool> = populations.iter().map(is_incomparable).collect();
        for (population, is_incomparable) in populations.iter_mut().zip(incomparable) {
            population.incomparable = is_incomparable;
        }
        let facts = CauseFacts {
            results,
            judgement,
            populations: &populations,
            failures: results.failures(),
            roster,
        };
        let (unclear, explanations): (Vec<_>, Vec<_>) =
            explained.explanations.iter().partition(|part| waited_for_cpus(part, results));
        let mut causes: Vec<Cause> =
            explanations.into_iter().map(|one| cause(one, &facts)).collect();
        add_signs(&mut causes, &facts);
        causes.sort_by_key(severity);
        let units: Vec<Unit> = causes.iter().map(|cause| cause.unit).collect();
        let outliers = judgement.outliers(&units, roster);
        let mut untested = self.coverage.unmeasured.untested(roster);
        let unpaired = self.take_unmeasured(&mut untested);
        self.add_unjudged(judgement, &causes, &mut untested);
        let tests = |part: &PartExplanation| -> BTreeSet<TestId> {
            part.pairs.iter().map(|one| one.test).collect()
        };
        untested.extend(unclear.into_iter().map(|part| UntestedPart {
            tests: tests(part).into_iter().collect(),
            ..UntestedPart::new(part.unit, Untested::BusyCpus)
        }));
        Findings {
            causes,
            untested,
            unpaired,
            populations,
            outliers,
            aggregates: results.aggregates(outside, roster),
            outside: results.results(outside, MOST_OUTSIDE),
            matrices: if self.keeps_figures { results.matrices() } else { Vec::new() },
            planned: self.coverage.planned,
            answered: self.coverage.answered,
            widened: self.is_wide,
        }
    }

    /// Adds the NICs to `untested` that were measured, but not judged in some tests: they have too
    /// few answers, or figures that say nothing. A NIC is good only in the other tests.
    fn add_unjudged(
        &self,
        judgement: &Judgement,
        causes: &[Cause],
        untested: &mut Vec<UntestedPart>,
    ) {
        let cause_nics = causes.iter().flat_map(|cause| members(cause.unit, self.roster));
        let untested_nics = untested.iter().filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some(nic),
            _ => None,
        });
        let named: BTreeSet<NicId> = cause_nics.chain(untested_nics).collect();
        let mut unjudged: BTreeMap<(NicId, Untested), BTreeSet<TestId>> = BTreeMap::new();
        for test in TestId::first(self.results.tests().len()) {
            let reasons = judgement.unjudged(self.results, test, self.roster);
            let mut reasons: BTreeMap<NicId, Untested> = reasons.into_iter().collect();
            for nic in self.roster.nic_ids().filter(|nic| self.results.answers(*nic) > 0) {
                let too_few = self.coverage.unmeasured.missing.why_too_few(test, nic, self.results);
                reasons.extend(too_few.map(|reason| (nic, reason.into())));
            }
            for (nic, reason) in reasons {
                unjudged.entry((nic, reason)).or_default().insert(test);
            }
        }
        unjudged.retain(|(nic, _), _| !named.contains(nic));
        untested.extend(unjudged.into_iter().map(|((nic, reason), tests)| UntestedPart {
            tests: tests.into_iter().collect(),
            is_coarse: reason == Untested::TooCoarse,
            ..UntestedPart::new(Unit::Nic(nic), reason)
        }));
    }

    /// Adds the NICs without an answer to `untested`. Returns those that were not to be measured.
    fn take_unmeasured(&self, untested: &mut Vec<UntestedPart>) -> Vec<NicId> {
        let mut path_nics = BTreeSet::new();
        let mut named = BTreeSet::new();
        for part in &*untested {
            match part.unit {
                Unit::Path(pair) => path_nics.extend(pair.nics()),
                Unit::Nic(nic) => drop(named.insert(nic)),
                _ => {}
            }
        }
        let mut unpaired = Vec::new();
        for nic in self.roster.nic_ids() {
            let is_absent = self.roster.node_of(nic).absent.is_some();
            if named.contains(&nic) || is_absent || self.results.answers(nic) > 0 {
                continue;
            }
            let reason = if path_nics.contains(&nic) {
                "none of its pairs was measured"
            } else if self.is_of_all_nics {
                "it is in no pair"
            } else {
                unpaired.push(nic);
                continue;
            };
            untested.push(UntestedPart::new(Unit::Nic(nic), reason));
        }
        unpaired
    }
}

/// A key by which causes are sorted, the worst first.
fn severity(cause: &Cause) -> Reverse<(Certainty, bool, u32)> {
    let pairs = match cause.unit {
        Unit::Path(_) => 1,
        _ => cause.evidence.iter().map(|one| one.outside).sum(),
    };
    let mut evidence = cause.evidence.iter();
    let has_failed = evidence.any(|one| one.source == LimitSource::Failure);
    Reverse((cause.certainty, has_failed, pairs))
}

impl ResultStore {
    /// The results of `outside` and of their retests, at most `most`.
    pub fn results(&self, outside: &[Outside], most: usize) -> Vec<PairResult> {
        let keys: HashSet<TestPair> = outside.iter().map(|one| (one.test, one.pair)).collect();
        let first = self.records.iter().filter(|result| keys.contains(&(result.test, result.pair)));
        let with_retests = first.flat_map(|result| {
            let retests = self.retests.get(&(result.test, result.pair)).into_iter().flatten();
            std::iter::once(result).chain(retests)
        });
        with_retests.take(most).cloned().collect()
    }

    /// The messages of failed pairs.
    pub fn failures(&self) -> HashMap<TestPair, &str> {
        let mut failures = HashMap::new();
        for result in &self.records {
            if let Answer::Failed(message) = &result.answer {
                failures.insert((result.test, result.pair), message.as_str());
            }
        }
        failures
    }

    /// The bound of --expect on the figure that is compared.
    pub fn expected(&self, test: TestId) -> Option<f64> {
        let size = self.tests[test.index()].size_bytes;
        let expectations = self.expectations.get(test.index())?.iter();
        let compared = |one: &&Expectation| match one.metric {
            Metric::Percentile(percentile) => percentile == Percentile::MEDIAN,
            metric => metric == Metric::Bandwidth,
        };
        expectations.filter(|one| one.applies_to(size)).find(compared).map(|one| one.limit)
    }

    /// Whether the pairs of a class have nothing to be compared with: all of them pass the same
    /// links between two groups or two switches, and take longer than good pairs of smaller classes
    /// by more than the limit. Few pairs that pass the same links by chance do not show these:
    /// their NICs are judged by their other pairs.
    pub fn is_incomparable(&self, one: &Population, all: &[Population], roster: &Roster) -> bool {
        if !matches!(one.class, Class::Group | Class::Fabric) || one.expected.is_some() {
            return false;
        }
        let class_observations =
            self.observations(one.test).iter().filter(|pair| pair.class == one.class);
        let routes: HashSet<Option<Route>> =
            class_observations.map(|pair| route(roster, pair.pair)).collect();
        let smaller = all.iter().filter(|other| {
            other.test == one.test && [Class::Switch, Class::Group].contains(&other.class)
        });
        let mut smaller = smaller.filter(|other| other.class < one.class && other.count > 0);
        let is_bandwidth = self.is_of_bandwidth(one.test);
        let limit = self.ratio(one.test).exp();
        let is_as_fast = |other: &Population| {
            cost(one.median(), is_bandwidth) <= limit * cost(other.median(), is_bandwidth)
        };
        let is_by_chance = one.count < LEAST_FIGURES as u64 && !has_one_route(roster, one.class);
        routes.len() == 1 && !is_by_chance && !smaller.any(is_as_fast)
    }

    /// The populations with their limits.
    pub fn populations(
        &self,
        judgement: &Judgement,
        outside: &[Outside],
        roster: &Roster,
    ) -> Vec<Population> {
        let populations = self.populations.iter().filter(|(_, data)| data.figures.count() > 0);
        populations
            .map(|(key, data)| self.population(*key, data, judgement, outside, roster))
            .collect()
    }

    /// A population with its limits.
    fn population(
        &self,
        key: PopulationKey,
        data: &PopulationData,
        judgement: &Judgement,
        outside: &[Outside],
        roster: &Roster,
    ) -> Population {
        let (test, class) = key;
        let is_bandwidth = self.is_of_bandwidth(test);
        let limit = judgement.limits.get(&key);
        let statistic = limit.map(|limit| limit.statistic).unwrap_or_default();
        let sorted: Sorted = match statistic {
            Statistic::Median | Statistic::Bound | Statistic::Unaffected => data.figures.sorted(),
            Statistic::P5 => data.p5.sorted(),
            Statistic::Min => data.least.sorted(),
        };
        let interval = sorted.median_interval();
        let with_costs = limit.filter(|limit| limit.has_costs());
        let class_observations = self.observations(test).iter().filter(|one| one.class == class);
        let says_nothing = |one: &&PairFigures| match with_costs {
            Some(limit) => limit.residual(one).is_none(),
            None => one.reading(statistic).is_bound,
        };
        let is_of_sweep =
            |one: &&Outside| (one.test, one.class) == key && one.stage == Stage::Sweep;
        let in_sweep = || outside.iter().filter(is_of_sweep);
        let is_measured_outside =
            |one: &&Outside| one.value.is_some() && one.outcome != RetestOutcome::Transient;
        Population {
            test,
            class,
            figure: statistic,
            unjudged: class_observations.filter(says_nothing).count() as u64,
            count: data.figures.count(),
            outside: in_sweep().filter(is_measured_outside).count() as u64,
            failed: in_sweep().filter(|one| one.value.is_none()).count() as u64,
            min: sorted.quantile(0.0),
            percentiles: [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
                .map(|part| sorted.quantile(part)),
            max: sorted.quantile(1.0),
            median_low: interval.map(|(low, _)| low),
            median_high: interval.map(|(_, high)| high),
            sigma: sorted.sigma(),
            limit: with_costs
                .filter(|limit| limit.may_state(limit.pair_limit.exp()))
                .map(|limit| figure(limit.centre + limit.pair_limit, is_bandwidth)),
            biased: limit.is_some_and(|limit| limit.is_biased),
            incomparable: false,
            sensitivity: judgement.stated_sensitivity(key, roster),
            links_sensitivity: judgement.sensitivity_of_links(key, roster),
            expected: self.expected(test),
            histogram: sorted.histogram(),
        }
    }

    /// The sums over switches, groups and pairs of groups.
    pub fn aggregates(&self, outside: &[Outside], roster: &Roster) -> Vec<Aggregate> {
        let mut counts: HashMap<(TestId, Unit), u64> = HashMap::new();
        for one in outside.iter().filter(|one| one.outcome != RetestOutcome::Transient) {
            for unit in parts_of_pair(roster, one.pair).into_iter().flatten() {
                *counts.entry((one.test, unit)).or_default() += 1;
            }
        }
        let aggregate = |(key, figures): (&(TestId, Unit), &FigureHistogram)| {
            let sorted = figures.sorted();
            Aggregate {
                test: key.0,
                unit: key.1,
                count: figures.count(),
                median: sorted.median(),
                worst: sorted.quantile(if self.is_of_bandwidth(key.0) { 0.0 } else { 1.0 }),
                outside: counts.get(key).copied().unwrap_or(0),
            }
        };
        self.aggregates.iter().map(aggregate).collect()
    }

    /// The number of figures of a population.
    pub fn figures(&self, key: PopulationKey) -> u64 {
        let data = self.populations.get(&key);
        data.map_or(0, |data| data.figures.count())
    }

    /// Returns how many pairs between two groups have a figure.
    pub fn crossings(&self, test: TestId, pair: Unit) -> u64 {
        self.aggregates.get(&(test, pair)).map_or(0, FigureHistogram::count)
    }

    /// The figures of all pairs by test; nothing if the store does not keep all results.
    pub fn matrices(&self) -> Vec<Matrix> {
        if !self.keeps_all {
            return Vec::new();
        }
        let mut matrices: Vec<Matrix> = (TestId::first(self.tests.len()))
            .map(|test| Matrix { test, cells: Vec::new() })
            .collect();
        for result in &self.records {
            let figure = match &result.answer {
                Answer::Measured(figures) => Some(figures.value()),
                _ => None,
            };
            let cell = (result.pair.initiator, result.pair.target, figure);
            matrices[result.test.index()].cells.push(cell);
        }
        matrices
    }
}

/// Whether all pairs of a class have the same route: between the only two groups, or between the
/// only two switches of a group.
fn has_one_route(roster: &Roster, class: Class) -> bool {
    let locations = roster.nics.iter().filter_map(|nic| nic.location);
    let switches: BTreeSet<(u16, u16)> =
        locations.map(|place| (place.group, place.switch)).collect();
    let mut switches_by_group: BTreeMap<u16, usize> = BTreeMap::new();
    for (group, _) in switches {
        *switches_by_group.entry(group).or_default() += 1;
    }
    match class {
        Class::Group => {
            switches_by_group.values().map(|switches| switches * (switches - 1) / 2).sum::<usize>()
                == 1
        }
        _ => switches_by_group.len() == 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Figures, PairResult, Stage};
    use super::super::conductor::Conductor;
    use super::super::findings::{Direction, Findings};
    use super::super::plan::Settings;
    use super::super::roster::{NicId, Pair, Unit};
    use super::super::testing::{Cluster, Effect, Fault, run, settings, survey, survey_with};
    use super::has_one_route;
    use crew::location::Class;
    use facts::expect::{self, Expectation};

    /// The findings of a survey of a group of two switches, the second of which has one NIC.
    /// `answers` says whether a pair has an answer. An expectation judges classes of any size.
    fn findings(pairs: &str, answers: fn(Pair) -> bool) -> Findings {
        let expected = vec![expect::parse("p50<1ms", false).unwrap()];
        findings_with(expected, pairs, answers)
    }

    fn findings_with(
        expectations: Vec<Vec<Expectation>>,
        pairs: &str,
        answers: fn(Pair) -> bool,
    ) -> Findings {
        let mut cluster = Cluster::new([1, 2, 3, 1], &["write-lat"], 1);
        for nic in &mut cluster.roster.nics[3..5] {
            nic.location = None;
        }
        let settings = Settings { expectations, ..settings(pairs, 1) };
        let mut conductor =
            Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).unwrap();
        while !conductor.is_over() {
            for round in conductor.next_rounds(100) {
                for result in cluster.measure(&round) {
                    let answer = if answers(result.pair) {
                        result.answer
                    } else {
                        Answer::Untested("late".into())
                    };
                    conductor.add(&PairResult { answer, ..result });
                }
            }
        }
        conductor.findings()
    }

    /// The NICs that were not measured, with the reasons.
    fn untested(findings: &Findings) -> Vec<(NicId, &str)> {
        let parts = findings.untested.iter();
        let nic_pairs = parts.filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some((nic, part.reason.as_str())),
            _ => None,
        });
        nic_pairs.collect()
    }

    #[test]
    fn reports_nic_in_no_pair_as_untested() {
        let findings = findings("within-switch", |_| true);
        assert_eq!(findings.planned, 3);
        let alone = [3, 4, 5].map(|nic| (NicId(nic), "it is in no pair"));
        assert_eq!(untested(&findings), alone);
        assert!(findings.unpaired.is_empty());
    }

    #[test]
    fn reports_other_nics_of_a_sample_as_unpaired() {
        let findings = findings("switches", |_| true);
        assert_eq!(findings.planned, 1);
        assert_eq!(untested(&findings), []);
        assert_eq!(findings.unpaired.len(), 4);
    }

    #[test]
    fn reports_nic_without_any_answer_as_untested() {
        let findings =
            findings("all", |pair| pair.initiator != NicId(2) && pair.target != NicId(2));
        assert_eq!(untested(&findings), [(NicId(2), "none of its pairs was measured")]);
    }

    #[test]
    fn reports_nics_without_a_judged_class_as_untested() {
        // Three pairs on a switch, and nothing to compare them with.
        let one_switch_findings = findings_with(Vec::new(), "within-switch", |_| true);
        let too_few = "too few pairs to compare";
        let parts = untested(&one_switch_findings);
        assert_eq!(&parts[3..], [0, 1, 2].map(|nic| (NicId(nic), too_few)));
        // The pairs between the switches are enough to judge each NIC.
        let both_findings = findings_with(Vec::new(), "all", |_| true);
        assert_eq!(untested(&both_findings), []);
    }

    #[test]
    fn reports_nic_with_too_few_answers_as_untested() {
        // NIC 2 has the answer of one pair.
        let findings = findings("all", |pair| match pair.nics().map(|nic| nic.0) {
            [2, other] | [other, 2] => other == 1,
            _ => true,
        });
        let too_few = (NicId(2), "1 of 5 pairs measured");
        assert_eq!(untested(&findings), [too_few]);
    }

    #[test]
    fn counts_only_pairs_of_the_sweep_as_outside() {
        let mut cluster = Cluster::new([0, 0, 3, 1], &["write-lat"], 1);
        let mut settings = settings("all", 1);
        settings.expectations = vec![expect::parse("p50<1ns", false).unwrap()];
        let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
        let mut conductor = Conductor::new(roster, tests, settings).unwrap();
        run(&mut cluster, &mut conductor);
        let findings = conductor.findings();
        let has_swaps = findings.outside.iter().any(|result| result.stage == Stage::Swap);
        let population = &findings.populations[0];
        assert!(has_swaps);
        assert_eq!((population.count, population.outside), (3, 3));
    }

    #[test]
    fn counts_failed_pairs_by_themselves() {
        let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
        cluster.faults.push(Fault {
            unit: Unit::Nic(NicId(1)),
            direction: Direction::Both,
            effect: Effect::Fails,
        });
        let findings = survey(&mut cluster, "all", 1);
        let population = &findings.populations[0];
        assert_eq!((population.failed, population.outside), (7, 0));
        assert_eq!(population.count + population.failed, findings.planned);
    }

    #[test]
    fn knows_fabrics_with_one_route() {
        let routes = |shape| {
            let roster = Cluster::new(shape, &["write-lat"], 1).roster;
            [Class::Group, Class::Fabric].map(|class| has_one_route(&roster, class))
        };
        assert_eq!(routes([2, 2, 4, 1]), [false, true]);
        assert_eq!(routes([1, 2, 4, 1]), [true, false]);
        assert_eq!(routes([4, 2, 2, 1]), [false, false]);
    }

    #[test]
    fn few_pairs_on_one_of_several_ways_are_no_reason_for_doubt() {
        let mut few = 0;
        for seed in 0..20 {
            let mut cluster = Cluster::new([4, 2, 2, 1], &["write-lat"], seed);
            let roster = cluster.roster.clone();
            let findings =
                survey_with(&mut cluster, settings("random:4", seed), |cluster, round| {
                    let mut results = cluster.measure(round);
                    for result in &mut results {
                        if let Answer::Measured(Figures::Latency { median_ns, .. }) =
                            &mut result.answer
                            && roster.class(result.pair) == Class::Group
                        {
                            *median_ns *= 2;
                        }
                    }
                    results
                });
            let group_populations =
                findings.populations.iter().filter(|one| one.class == Class::Group);
            for population in group_populations.filter(|one| one.count < 8) {
                few += 1;
                assert!(!population.incomparable, "{population:?}");
            }
        }
        assert!(few > 0);
    }

    #[test]
    fn evidence_has_the_median_of_good_pairs() {
        let mut cluster = Cluster::new([0, 0, 6, 1], &["write-lat"], 1);
        let slow = Fault::slow(Unit::Nic(NicId(1)), Direction::Both, 2.0);
        cluster.faults.push(slow);
        let findings = survey(&mut cluster, "all", 1);
        let evidence = &findings.causes[0].evidence[0];
        let ratio = evidence.value.unwrap() / evidence.median.unwrap();
        assert!((1.8..2.3).contains(&ratio), "{evidence:?}");
    }
}
