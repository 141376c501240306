//! How well the pairs of a class judge its NICs: what a survey could have found, and which NICs
//! differ within the limits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::findings::{Outlier, Statistic, Unit};
use super::ids::{NicId, PopulationKey, Role, TestId};
use super::observation::Observation;
use super::population::LEAST_FIGURES;
use super::result_store::{ResultStore, TestPair};
use super::robust::{FALSE_ALARM, error_of_median, lower_median, score_limit};
use super::roster::Roster;
use super::selection::Selected;
use super::slow_parts::{Domain, Judgement};
use super::units::members;
use crate::location::Class;

/// Part of the pairs of a class that may be slow by chance without a loss of sensitivity.
const MOST_IN_TAIL: f64 = 0.1;

/// Why the measured pairs of a NIC say nothing.
const MOST_WAITED: &str = "processes waited for their CPUs in too many pairs";
const ONLY_BOUNDS: &str = "busy CPUs have limited the bandwidths";
const TOO_FEW: &str = "too few pairs to compare";
const BIASED: &str = "the missing pairs are unevenly spread";
const MIXED: &str = "the pairs differ too much";
const TOO_COARSE: &str = "a NIC twice as slow would not have been found";

/// A class judges no NIC good if a NIC would have to be slower by more than this to be found, and
/// by more than the ratio that the user asks for.
const MOST_SENSITIVITY: f64 = 2.0;

impl Domain {
    /// Returns the logarithm of the ratio to good pairs that all pairs of a class but the part
    /// `most` do not exceed, without the effects of parts.
    fn rest_of_most(&self, class: Class, most: f64) -> f64 {
        let own = self.classes.iter().zip(&self.selected.rest);
        let mut rests: Vec<f64> = own
            .filter(|(of, _)| **of == class)
            .map(|(_, rest)| *rest)
            .collect();
        rests.sort_by(f64::total_cmp);
        let place = (rests.len() as f64 * (1.0 - most)) as usize;
        rests.get(place).copied().unwrap_or_default()
    }
}

impl Judgement {
    /// Returns the smallest ratio at which a NIC of a class would have been found: of the NIC with
    /// the largest one. Either all of its pairs are outside the limit of a pair, or its pairs
    /// together are significantly slow. A NIC is not found among pairs that are as slow by chance,
    /// as pairs beside busy CPUs are. `None` without a limit, and for bandwidths that busy CPUs
    /// limit: these hide NICs that could reach as much, but not more.
    pub fn sensitivity(&self, key: PopulationKey) -> Option<f64> {
        let limit = self.limits.get(&key).filter(|limit| limit.has_costs())?;
        if limit.statistic == Statistic::Bound {
            return None;
        }
        let domain = self.domain(key.0, key.1 == Class::Loopback)?;
        let mut pairs: BTreeMap<NicId, usize> = BTreeMap::new();
        let mut nics = BTreeSet::new();
        for (one, class) in domain.pairs.iter().zip(&domain.classes) {
            for nic in one.pair.nics() {
                *pairs.entry(nic).or_default() += 1;
                if *class == key.1 {
                    nics.insert(nic);
                }
            }
        }
        let fewest = nics.iter().map(|nic| pairs[nic]).min()?;
        let together = limit.ratio.max(found_with(fewest, &domain.selected));
        let tail = domain.rest_of_most(key.1, MOST_IN_TAIL);
        let found = together.min(limit.of_pair).max(tail).exp();
        // What waiting adds is the same beside a slow NIC.
        Some(1.0 + (found - 1.0) * limit.waiting.exp())
    }

    /// Returns how many pairs of a class are better than its centre by more than the limit, and how
    /// many it has.
    pub fn better(&self, key: PopulationKey) -> (usize, usize) {
        let limit = self
            .limits
            .get(&key)
            .map_or(f64::INFINITY, |limit| limit.of_pair);
        let Some(domain) = self.domain(key.0, key.1 == Class::Loopback) else {
            return (0, 0);
        };
        let own = domain.classes.iter().zip(&domain.selected.rest);
        let rests: Vec<f64> = own
            .filter(|(class, _)| **class == key.1)
            .map(|(_, rest)| *rest)
            .collect();
        (
            rests.iter().filter(|rest| **rest < -limit).count(),
            rests.len(),
        )
    }

    /// Returns the pairs of a test.
    fn domain(&self, test: TestId, in_loopback: bool) -> Option<&Domain> {
        let mut domains = self.domains.iter();
        domains.find(|one| (one.test, one.in_loopback) == (test, in_loopback))
    }

    /// Returns the NICs that differ from the other ones of their class within the limits, the worst
    /// first.
    pub fn outliers(&self, causes: &[Unit], roster: &Roster) -> Vec<Outlier> {
        let of_causes: HashSet<NicId> = causes
            .iter()
            .flat_map(|unit| members(*unit, roster))
            .collect();
        let mut outliers = Vec::new();
        for domain in self.domains.iter().filter(|domain| !domain.in_loopback) {
            let selected = &domain.selected;
            let effects = selected.effects.iter();
            let of_nics = effects.filter(|effect| matches!(effect.unit, Unit::Nic(_)));
            let mut residuals = selected.rest.clone();
            for effect in of_nics {
                for pair in &effect.pairs {
                    residuals[*pair as usize] += effect.value;
                }
            }
            let mut own: BTreeMap<NicId, (Vec<f64>, BTreeMap<Class, usize>)> = BTreeMap::new();
            for ((one, class), residual) in domain.pairs.iter().zip(&domain.classes).zip(residuals)
            {
                for nic in one.pair.nics() {
                    let (residuals, classes) = own.entry(nic).or_default();
                    residuals.push(residual);
                    *classes.entry(*class).or_default() += 1;
                }
            }
            for (nic, (residuals, classes)) in own {
                let error = error_of_median(selected.spread, residuals.len());
                let deviation = selected.spread_of_nics.max(error);
                let effect = lower_median(residuals);
                let score = effect / deviation;
                let class = classes.into_iter().max_by_key(|(_, count)| *count);
                let is_within = |class| {
                    let limit = self.limits.get(&(domain.test, class));
                    limit.is_some_and(|limit| limit.has_costs() && effect <= limit.ratio)
                };
                if let Some((class, _)) = class
                    && score > score_limit(selected.nics)
                    && is_within(class)
                    && !of_causes.contains(&nic)
                {
                    outliers.push(Outlier {
                        nic,
                        test: domain.test,
                        class,
                        ratio: effect.exp(),
                        score,
                    });
                }
            }
        }
        outliers.sort_by(|one, other| other.score.total_cmp(&one.score));
        outliers
    }

    /// Returns the NICs with measured pairs of a test of which too few say something, and why.
    pub fn unjudged(
        &self,
        results: &ResultStore,
        test: TestId,
        roster: &Roster,
    ) -> Vec<(NicId, &'static str)> {
        let mut silent: BTreeMap<NicId, Silent> = BTreeMap::new();
        let of_classes = Class::ALL.map(|class| self.why_silent(results, (test, class)));
        for one in results.observations(test) {
            let of_class = of_classes[one.class as usize];
            let is_cleared = || results.retested((test, one.pair), self, roster).1 > 0;
            let is_silent = self.is_silent(test, one) && !is_cleared();
            let reason = of_class.or(is_silent.then_some(MOST_WAITED));
            for (role, nic) in one.pair.roles() {
                silent.entry(nic).or_default().add(role, reason);
            }
        }
        let silent = silent.into_iter();
        silent
            .filter_map(|(nic, silent)| Some((nic, silent.why()?)))
            .collect()
    }
}

/// The measured pairs of a NIC by role, and how many of them say nothing.
#[derive(Default)]
struct Silent {
    pairs: [u32; 2],
    /// Whatever the reason is.
    silent: [u32; 2],
    /// Because a process waited for its CPU.
    waited: [u32; 2],
    reason: Option<&'static str>,
}

impl Silent {
    fn add(&mut self, role: Role, reason: Option<&'static str>) {
        let role = role.index();
        self.pairs[role] += 1;
        self.silent[role] += u32::from(reason.is_some());
        self.waited[role] += u32::from(reason == Some(MOST_WAITED));
        self.reason = self.reason.or(reason);
    }

    /// Returns why the pairs do not suffice, if they do not. A slow NIC that waits may be silent in
    /// the role in which it is slow.
    fn why(&self) -> Option<&'static str> {
        let has_waited_in = |role: Role| {
            let role = role.index();
            self.waited[role] > 0 && self.silent[role] == self.pairs[role]
        };
        let all: u32 = self.pairs.iter().sum();
        let has_mostly_waited = 2 * self.waited.iter().sum::<u32>() > all;
        if has_mostly_waited || Role::BOTH.into_iter().any(has_waited_in) {
            return Some(MOST_WAITED);
        }
        self.reason.filter(|_| self.silent == self.pairs)
    }
}

impl Judgement {
    /// Returns whether a pair says nothing: a process waited for its CPU, and the pair is slow.
    fn is_silent(&self, test: TestId, one: &Observation) -> bool {
        let limit = self.limits.get(&(test, one.class));
        limit.is_some_and(|of| of.has_costs() && of.residual(one).is_none())
    }

    /// Returns the pairs of the sweep that say nothing.
    pub fn silent_pairs(&self, results: &ResultStore) -> Vec<TestPair> {
        let tests = TestId::first(results.tests().len());
        let all = tests.flat_map(|test| {
            results
                .observations(test)
                .iter()
                .map(move |one| (test, one))
        });
        let silent = all.filter(|(test, one)| one.is_of_sweep && self.is_silent(*test, one));
        silent.map(|(test, one)| (test, one.pair)).collect()
    }

    /// Returns whether a class judges nothing because its pairs differ too much, although CPUs are
    /// not busy.
    pub fn differs_too_much(&self, results: &ResultStore, key: PopulationKey) -> bool {
        let limit = self.limits.get(&key);
        limit.is_some_and(|limit| limit.statistic == Statistic::Median)
            && [Some(MIXED), Some(TOO_COARSE)].contains(&self.why_silent(results, key))
    }

    /// Returns why no pair of a class says anything.
    fn why_silent(&self, results: &ResultStore, key: PopulationKey) -> Option<&'static str> {
        if results.expected(key.0).is_some() {
            return None;
        }
        if let Some(ratio) = self.sensitivity(key) {
            let most = MOST_SENSITIVITY.max(results.ratio(key.0).exp());
            return (ratio > most).then_some(TOO_COARSE);
        }
        let of_class = results.observations(key.0).iter();
        let judged = of_class.filter(|one| one.class == key.1 && !one.is_disturbed);
        let limit = self.limits.get(&key)?;
        Some(if limit.statistic == Statistic::Bound {
            ONLY_BOUNDS
        } else if results.figures(key) < LEAST_FIGURES as u64 {
            TOO_FEW
        } else if limit.is_biased {
            BIASED
        } else if limit.statistic == Statistic::Median && judged.count() < LEAST_FIGURES {
            MOST_WAITED
        } else {
            MIXED
        })
    }
}

/// Returns the smallest effect that `pairs` of a part show to be significant.
fn found_with(pairs: usize, selected: &Selected) -> f64 {
    let of_nics = score_limit(selected.nics) * selected.spread_of_nics;
    let mut rest = selected.rest.clone();
    rest.sort_by(|one, other| other.total_cmp(one));
    // So many other pairs may be as slow as half of the effect.
    let part = (FALSE_ALARM / selected.candidates.max(1) as f64).powf(1.0 / pairs.max(1) as f64);
    let others = part * (rest.len() as f64 + 1.0) - 0.5;
    if pairs < 2 || others < 0.0 {
        return f64::INFINITY;
    }
    let half = rest.get(others as usize).copied().unwrap_or_default();
    of_nics.max(2.0 * half)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Stage;
    use super::super::conductor::Conductor;
    use super::super::explanation_tests::{named, run, settings, survey};
    use super::super::findings::{Certainty, Direction, Findings, Statistic, Unit};
    use super::super::ids::{NicId, NodeId};
    use super::super::settings::Settings;
    use super::super::testing::{Cluster, Fault, Load, pair};
    use super::TOO_COARSE;

    fn cluster(tool: &str, factor: f64) -> Cluster {
        let mut cluster = Cluster::new([0, 0, 16, 1], &[tool], 1);
        let nic = Unit::Nic(NicId(3));
        cluster.faults = vec![Fault::slow(nic, Direction::Both, factor)];
        cluster
    }

    fn outliers(findings: &Findings) -> Vec<NicId> {
        findings.outliers.iter().map(|one| one.nic).collect()
    }

    #[test]
    fn lists_nic_that_differs_within_the_limits() {
        let mut cluster = cluster("write-lat", 1.1);
        cluster.noise = 0.01;
        let findings = survey(&mut cluster, "all", 1);
        assert_eq!(named(&findings), []);
        assert_eq!(outliers(&findings), [NicId(3)]);
        let outlier = &findings.outliers[0];
        assert!((1.08..1.12).contains(&outlier.ratio), "{outlier:?}");
    }

    #[test]
    fn names_nic_with_half_of_the_bandwidth() {
        let findings = survey(&mut cluster("write-bw", 2.0), "all", 1);
        let expected = (Unit::Nic(NicId(3)), Certainty::Bad, Direction::Both);
        assert_eq!(named(&findings), [expected]);
        assert_eq!(outliers(&findings), []);
    }

    #[test]
    fn noise_lessens_the_sensitivity() {
        let sensitivity = |noise| {
            let mut cluster = cluster("write-lat", 1.0);
            cluster.noise = noise;
            let findings = survey(&mut cluster, "all", 1);
            findings.populations[0].sensitivity.unwrap()
        };
        assert_eq!((100.0 * sensitivity(0.01)).round(), 130.0);
        assert!(sensitivity(0.3) > 1.35);
    }

    #[test]
    fn judges_all_pairs_by_the_same_statistic() {
        for (disturbed, noise_of_least, expected, sensitivity) in [
            (0.05, (0.5, 0.0), Statistic::Median, 1.3..1.31),
            // Minima are two thirds of the 5th percentiles, which waiting may have raised.
            (0.8, (0.5, 0.0), Statistic::P5, 1.4..1.5),
            (0.8, (0.0, 0.5), Statistic::Min, 1.3..1.31),
        ] {
            let mut cluster = cluster("write-lat", 2.0);
            cluster.noise_of_least = noise_of_least;
            cluster.load = Some(Load {
                node: None,
                disturbed,
                untested: 0.0,
                discards: false,
            });
            let findings = survey(&mut cluster, "all", 1);
            assert_eq!(findings.populations[0].figure, expected);
            let stated = findings.populations[0].sensitivity.expect("a limit");
            assert!(sensitivity.contains(&stated), "{stated}");
            assert_eq!(findings.causes[0].evidence[0].figure, expected);
            let found = named(&findings);
            assert_eq!(
                found,
                [(Unit::Nic(NicId(3)), Certainty::Bad, Direction::Both)]
            );
        }
    }

    #[test]
    fn calls_no_nic_good_that_it_could_not_find() {
        let untested = |noise, sensitivity| {
            let mut cluster = cluster("write-lat", 1.0);
            cluster.noise = noise;
            let settings = Settings {
                sensitivity,
                ..settings("random:4", 1)
            };
            let roster = cluster.roster.clone();
            let mut conductor = Conductor::new(roster, cluster.tests.clone(), settings).unwrap();
            run(&mut cluster, &mut conductor);
            let parts = conductor.findings().untested.into_iter();
            parts.map(|part| part.reason).collect::<Vec<_>>()
        };
        assert_eq!(untested(0.05, None), [""; 0]);
        assert_eq!(untested(0.6, None), [TOO_COARSE; 16]);
        assert_eq!(untested(0.6, Some(20.0)), [""; 0]);
    }

    #[test]
    fn calls_no_slow_nic_good_beside_busy_cpus() {
        for (seed, disturbed) in (0..30).flat_map(|seed| [(seed, 0.3), (seed, 0.6)]) {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            let nic = Unit::Nic(NicId(3));
            cluster.faults = vec![Fault::slow(nic, Direction::Initiator, 2.0)];
            cluster.load = Some(Load {
                node: None,
                disturbed,
                untested: 0.0,
                discards: false,
            });
            let findings = survey(&mut cluster, "random:4", seed);
            let named = findings.causes.iter();
            let named = named.filter(|of| of.certainty != Certainty::Transient);
            let units = named.map(|of| of.unit);
            let untested = findings.untested.iter().map(|of| of.unit);
            let is_own = |unit: &Unit| match unit {
                Unit::Path(pair) => pair.initiator == NicId(3),
                unit => *unit == nic,
            };
            let is_found = units.chain(untested).any(|unit| is_own(&unit));
            assert!(is_found, "{disturbed} {seed}: {:?}", findings.causes);
        }
    }

    #[test]
    fn retests_clear_pairs_that_say_nothing() {
        let mut retests = 0;
        for seed in 0..10 {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            let settings = settings("random:4", seed);
            let roster = cluster.roster.clone();
            let mut conductor = Conductor::new(roster, cluster.tests.clone(), settings).unwrap();
            while !conductor.is_over() {
                for round in conductor.next_rounds(100) {
                    let is_sweep = round.stage == Stage::Sweep;
                    cluster.load = is_sweep.then_some(Load {
                        node: None,
                        disturbed: 0.2,
                        untested: 0.0,
                        discards: false,
                    });
                    retests += usize::from(!is_sweep);
                    for result in cluster.measure(&round) {
                        conductor.add(&result);
                    }
                }
            }
            let findings = conductor.findings();
            assert_eq!((named(&findings), findings.untested), Default::default());
        }
        assert!(retests > 0);
    }

    #[test]
    fn retests_beside_busy_cpus_do_not_show_that_a_slow_path_is_good() {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], 1);
        let path = Unit::Path(pair(3, 5));
        cluster.faults = vec![Fault::slow(path, Direction::Both, 2.0)];
        let settings = settings("all", 1);
        let roster = cluster.roster.clone();
        let mut conductor = Conductor::new(roster, cluster.tests.clone(), settings).unwrap();
        while !conductor.is_over() {
            for round in conductor.next_rounds(100) {
                cluster.load = (round.stage != Stage::Sweep).then_some(Load {
                    node: None,
                    // Slow pairs are disturbed less often.
                    disturbed: 10.0,
                    untested: 0.0,
                    discards: false,
                });
                for result in cluster.measure(&round) {
                    conductor.add(&result);
                }
            }
        }
        let found = named(&conductor.findings());
        let names_path = |unit| matches!(unit, Unit::Path(of) if of.nics() == [NicId(3), NicId(5)]);
        assert!(
            matches!(found[..], [(unit, Certainty::Suspect, _)] if names_path(unit)),
            "{found:?}"
        );
    }

    #[test]
    fn does_not_judge_bandwidths_of_busy_node() {
        let mut cluster = cluster("write-bw", 1.0);
        cluster.load = Some(Load {
            node: Some(NodeId(5)),
            disturbed: 1.0,
            untested: 0.0,
            discards: false,
        });
        let findings = survey(&mut cluster, "all", 1);
        assert_eq!(named(&findings), []);
        let untested: Vec<Unit> = findings.untested.iter().map(|part| part.unit).collect();
        assert_eq!(untested, [Unit::Nic(NicId(5))]);
        assert!(findings.populations[0].unjudged >= 10);
    }
}
