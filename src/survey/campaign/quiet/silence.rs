//! Pairs that say nothing about their NICs, and the NICs without enough pairs that do.

use std::collections::BTreeMap;

use super::answer::Untested;
use super::findings::Statistic;
use super::fit::PairFigures;
use super::result_store::ResultStore;
use super::roster::{NicId, PopulationKey, Role, Roster, TestId, TestPair};
use super::slow_parts::Judgement;
use crate::blame::LEAST_FIGURES;
use crew::location::Class;

/// A class judges no NIC good if a NIC would have to be slower by more than this to be found, and
/// by more than the ratio that the user asks for.
const MOST_SENSITIVITY: f64 = 2.0;

/// The measured pairs of a NIC by role, and how many of them say nothing.
#[derive(Default)]
struct Silent {
    pairs: [u32; 2],
    /// Whatever the reason is.
    silent: [u32; 2],
    /// Because a process waited for its CPU.
    waited: [u32; 2],
    reason: Option<Untested>,
}

impl Silent {
    fn add(&mut self, role: Role, reason: Option<Untested>) {
        let role = role.index();
        self.pairs[role] += 1;
        self.silent[role] += u32::from(reason.is_some());
        self.waited[role] += u32::from(reason == Some(Untested::BusyCpus));
        self.reason = self.reason.take().or(reason);
    }

    /// Returns why the pairs do not suffice, if they do not. A slow NIC that waits may be silent in
    /// the role in which it is slow.
    fn why(self) -> Option<Untested> {
        let has_waited_in = |role: Role| {
            let role = role.index();
            self.waited[role] > 0 && self.silent[role] == self.pairs[role]
        };
        let all: u32 = self.pairs.iter().sum();
        let has_mostly_waited = 2 * self.waited.iter().sum::<u32>() > all;
        if has_mostly_waited || Role::BOTH.into_iter().any(has_waited_in) {
            return Some(Untested::BusyCpus);
        }
        self.reason.filter(|_| self.silent == self.pairs)
    }
}

impl Judgement {
    /// The NICs with measured pairs of a test of which too few say something, and why.
    pub fn unjudged(
        &self,
        results: &ResultStore,
        test: TestId,
        roster: &Roster,
    ) -> Vec<(NicId, Untested)> {
        let mut silent: BTreeMap<NicId, Silent> = BTreeMap::new();
        let class_reasons = Class::ALL.map(|class| self.why_silent(results, (test, class)));
        for one in results.observations(test) {
            let class_reason = class_reasons[one.class as usize].clone();
            let is_cleared = || results.retested((test, one.pair), self, roster).1 > 0;
            let is_silent = self.is_silent(test, one) && !is_cleared();
            let reason = class_reason.or(is_silent.then_some(Untested::BusyCpus));
            for (role, nic) in one.pair.roles() {
                silent.entry(nic).or_default().add(role, reason.clone());
            }
        }
        let silent = silent.into_iter();
        silent.filter_map(|(nic, silent)| Some((nic, silent.why()?))).collect()
    }

    /// Whether a pair says nothing: a process waited for its CPU, and the pair is slow.
    fn is_silent(&self, test: TestId, one: &PairFigures) -> bool {
        let limit = self.limits.get(&(test, one.class));
        limit.is_some_and(|limit| limit.has_costs() && limit.residual(one).is_none())
    }

    /// The pairs of the sweep that say nothing.
    pub fn silent_pairs(&self, results: &ResultStore) -> Vec<TestPair> {
        let tests = TestId::first(results.tests().len());
        let all =
            tests.flat_map(|test| results.observations(test).iter().map(move |one| (test, one)));
        let silent = all.filter(|(test, one)| one.is_of_sweep && self.is_silent(*test, one));
        silent.map(|(test, one)| (test, one.pair)).collect()
    }

    /// Whether a class judges nothing because its pairs differ too much, or because a few pairs
    /// with the same NIC waited, although CPUs are not busy.
    pub fn differs_too_much(&self, results: &ResultStore, key: PopulationKey) -> bool {
        let limit = self.limits.get(&key);
        limit.is_some_and(|limit| limit.statistic == Statistic::Median)
            && matches!(
                self.why_silent(results, key),
                Some(Untested::Differing | Untested::TooCoarse | Untested::MissingUnevenly)
            )
    }

    /// Returns why no pair of a class says anything.
    fn why_silent(&self, results: &ResultStore, key: PopulationKey) -> Option<Untested> {
        if results.expected(key.0).is_some() {
            return None;
        }
        let observations = || results.observations(key.0).iter().filter(|one| one.class == key.1);
        if let Some(ratio) = self.sensitivity(key) {
            let most = MOST_SENSITIVITY.max(results.ratio(key.0).exp());
            if ratio > most {
                return Some(Untested::TooCoarse);
            }
            // Operations that are late now and then hide among those that waited for a CPU.
            let hidden = observations().filter(|one| !one.has_p90()).count();
            return (2 * hidden > observations().count()).then_some(Untested::BusyCpus);
        }
        let judged = observations().filter(|one| !one.is_disturbed);
        let limit = self.limits.get(&key)?;
        Some(if limit.statistic == Statistic::Bound {
            Untested::BusyCpus
        } else if results.figures(key) < LEAST_FIGURES as u64 {
            Untested::TooFewPairs
        } else if limit.is_biased {
            Untested::MissingUnevenly
        } else if limit.statistic == Statistic::Median && judged.count() < LEAST_FIGURES {
            Untested::BusyCpus
        } else {
            Untested::Differing
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Figures, PairResult, Stage};
    use super::super::findings::{Certainty, Direction};
    use super::super::plan::Settings;
    use super::super::roster::{NodeId, Unit};
    use super::super::testing::{Cluster, Fault, Load, named, pair, settings, survey, survey_with};
    use super::*;

    /// Returns busy CPUs of all nodes that disturb this part of the fast pairs.
    fn load(disturbed: f64) -> Load {
        Load { node: None, disturbed, untested: 0.0, is_harmless: false }
    }

    #[test]
    fn calls_no_nic_good_that_it_could_not_find() {
        let untested = |noise, sensitivity| {
            let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
            cluster.noise = noise;
            let settings = Settings { sensitivity, ..settings("random:4", 1) };
            let findings = survey_with(&mut cluster, settings, Cluster::measure);
            let parts = findings.untested.into_iter();
            parts.map(|part| part.reason).collect::<Vec<_>>()
        };
        assert_eq!(untested(0.05, None), []);
        assert_eq!(untested(0.6, None), vec![Untested::TooCoarse; 16]);
        assert_eq!(untested(0.6, Some(20.0)), []);
    }

    #[test]
    fn calls_no_slow_nic_good_beside_busy_cpus() {
        for (seed, disturbed) in (0..30).flat_map(|seed| [(seed, 0.3), (seed, 0.6)]) {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            let nic = Unit::Nic(NicId(3));
            cluster.faults = vec![Fault::slow(nic, Direction::Initiator, 2.0)];
            cluster.load = Some(load(disturbed));
            let findings = survey(&mut cluster, "random:4", seed);
            let named =
                findings.causes.iter().filter(|cause| cause.certainty != Certainty::Transient);
            let units = named.map(|cause| cause.unit);
            let untested = findings.untested.iter().map(|part| part.unit);
            let is_own = |unit: &Unit| match unit {
                Unit::Path(pair) => pair.initiator == NicId(3),
                unit => *unit == nic,
            };
            let is_found = units.chain(untested).any(|unit| is_own(&unit));
            assert!(is_found, "{disturbed} {seed}: {:?}", findings.causes);
        }
    }

    #[test]
    fn judges_bandwidths_that_do_not_follow_waits() {
        for seed in 0..30 {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            let nic = Unit::Nic(NicId(3));
            let harmless = Load { is_harmless: true, ..load(1.0) };
            (cluster.noise, cluster.load) = (0.005, Some(harmless));
            let good = survey(&mut cluster, "random:4", seed);
            assert_eq!((named(&good), good.untested), Default::default());
            assert_eq!(good.populations[0].figure, Statistic::Unaffected);
            assert!(good.populations[0].sensitivity.is_some_and(|ratio| ratio < 1.2));
            cluster.faults = vec![Fault::slow(nic, Direction::Both, 2.0)];
            let bad = survey(&mut cluster, "random:4", seed);
            assert_eq!(named(&bad), [(nic, Certainty::Bad, Direction::Both)]);
        }
    }

    #[test]
    fn a_longer_wait_than_those_of_good_pairs_explains_a_low_bandwidth() {
        for seed in 0..30 {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            cluster.noise = 0.005;
            cluster.load = Some(Load { is_harmless: true, ..load(1.0) });
            let mut has_waited = false;
            let settings = settings("random:4", seed);
            let findings = survey_with(&mut cluster, settings, |cluster, round| {
                let mut results = cluster.measure(round);
                for result in &mut results {
                    let is_starved = result.pair.nics().contains(&NicId(5));
                    if is_starved {
                        starve(result);
                    } else if !std::mem::replace(&mut has_waited, true) {
                        // One good pair that waited as long shows nothing.
                        result.waited_percent = 98;
                    }
                }
                results
            });
            assert_eq!(named(&findings), []);
            let untested: Vec<Unit> = findings.untested.iter().map(|part| part.unit).collect();
            assert_eq!(untested, [Unit::Nic(NicId(5))]);
        }
    }

    /// Makes a process of a pair wait for its CPU nearly all of the time.
    fn starve(result: &mut PairResult) {
        result.waited_percent = 97;
        if let Answer::Measured(Figures::Bandwidth { bytes_per_second, .. }) = &mut result.answer {
            *bytes_per_second /= 3.0;
        }
    }

    #[test]
    fn retests_clear_pairs_that_say_nothing() {
        let mut retests = 0;
        for seed in 0..10 {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            let settings = settings("random:4", seed);
            let findings = survey_with(&mut cluster, settings, |cluster, round| {
                let is_sweep = round.stage == Stage::Sweep;
                cluster.load = is_sweep.then_some(load(0.2));
                retests += usize::from(!is_sweep);
                cluster.measure(round)
            });
            assert_eq!((named(&findings), findings.untested), Default::default());
        }
        assert!(retests > 0);
    }

    #[test]
    fn measures_again_what_is_biased() {
        let mut biased = 0;
        for seed in 0..200 {
            let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], seed);
            cluster.faults = vec![Fault::slow(Unit::Nic(NicId(5)), Direction::Both, 1.05)];
            let settings = settings("random:4", seed);
            let mut rounds = 0;
            let findings = survey_with(&mut cluster, settings, |cluster, round| {
                let is_sweep = round.stage == Stage::Sweep;
                rounds += usize::from(round.stage == Stage::Again);
                cluster.load = is_sweep.then_some(Load { node: Some(NodeId(5)), ..load(0.8) });
                cluster.measure(round)
            });
            let is_own = |(unit, _, _): &(Unit, Certainty, Direction)| match unit {
                Unit::Path(pair) => pair.nics().contains(&NicId(5)),
                unit => *unit == Unit::Nic(NicId(5)),
            };
            if rounds > 0 {
                biased += 1;
                assert!(named(&findings).iter().all(is_own), "{:?}", findings.causes);
                assert_eq!(findings.untested, []);
            }
        }
        assert!(biased > 0);
    }

    #[test]
    fn retests_beside_busy_cpus_do_not_show_that_a_slow_path_is_good() {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], 1);
        let path = Unit::Path(pair(3, 5));
        cluster.faults = vec![Fault::slow(path, Direction::Both, 2.0)];
        let findings = survey_with(&mut cluster, settings("all", 1), |cluster, round| {
            // Slow pairs are disturbed less often.
            cluster.load = (round.stage != Stage::Sweep).then_some(load(10.0));
            cluster.measure(round)
        });
        let found = named(&findings);
        let names_path =
            |unit| matches!(unit, Unit::Path(path) if path.nics() == [NicId(3), NicId(5)]);
        assert!(
            matches!(found[..], [(unit, Certainty::Suspect, _)] if names_path(unit)),
            "{found:?}"
        );
    }

    #[test]
    fn names_no_path_that_was_slow_only_beside_busy_cpus() {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-bw"], 1);
        let path = pair(3, 5);
        cluster.faults = vec![Fault::slow(Unit::Path(path), Direction::Both, 3.0)];
        let found_if = |cluster: &mut Cluster, is_disturbed: bool| {
            survey_with(cluster, settings("all", 1), |cluster, round| {
                let mut results = cluster.measure(round);
                for result in &mut results {
                    let is_path = result.pair.nics().iter().all(|nic| path.nics().contains(nic));
                    let is_clear = is_path && round.stage == Stage::Sweep && !is_disturbed;
                    result.waited_percent = if is_clear { 0 } else { 90 };
                }
                results
            })
        };
        let findings = found_if(&mut cluster, true);
        assert_eq!(named(&findings), []);
        let mut untested = findings.untested.iter();
        let is_path = untested
            .any(|part| matches!(part.unit, Unit::Path(_)) && part.reason == Untested::BusyCpus);
        assert!(is_path, "{:?}", findings.untested);
        let found = named(&found_if(&mut cluster, false));
        assert!(matches!(found[..], [(Unit::Path(_), Certainty::Suspect, _)]), "{found:?}");
    }

    #[test]
    fn does_not_judge_bandwidths_of_busy_node() {
        let mut cluster = Cluster::new([0, 0, 16, 1], &["write-bw"], 1);
        cluster.load = Some(Load { node: Some(NodeId(5)), ..load(1.0) });
        let findings = survey(&mut cluster, "all", 1);
        assert_eq!(named(&findings), []);
        let untested: Vec<Unit> = findings.untested.iter().map(|part| part.unit).collect();
        assert_eq!(untested, [Unit::Nic(NicId(5))]);
        assert!(findings.populations[0].unjudged >= 10);
    }
}
