//! The parts that explain the pairs outside the limits (jobs.md 3.3). A separate search explains
//! transient pairs. The costs of a mixed population have no limit.

use std::collections::{BTreeSet, HashSet};

use super::findings::LimitSource;
use super::limits::Limits;
use super::outside::{Outside, RetestOutcome, keep_failures};
use super::result_store::ResultStore;
use super::roster::{NicId, PopulationKey, Roster, Unit, members};
use super::search::{PartExplanation, search};
use super::slow_parts::Judgement;

/// Most pairs outside the limits that are all retested.
pub const FEW_SUSPECTS: usize = 64;

/// A population is mixed if no part explains this part of its pairs,
const MOST_UNEXPLAINED: f64 = 0.05;
/// and at least as many of them; any pair, if another class of the test is mixed.
const FEW_UNEXPLAINED: usize = 3;

/// Bad NICs may determine the centre of a population of few NICs, if this part of its pairs is
/// better than the centre by more than the limit, and no part explains some slow pairs.
const MOST_BETTER: f64 = 0.07;
const LEAST_BETTER: usize = 2;

/// A cluster with fewer NICs has few: one of them takes part in many of the pairs.
pub const FEW_NICS: usize = 32;

/// The explanations of all pairs outside the limits.
#[derive(Debug)]
pub struct Explained {
    /// The limits and the slow parts. Mixed populations have no limit for their costs.
    pub judgement: Judgement,
    /// The parts with the pairs that they explain.
    pub explanations: Vec<PartExplanation>,
    /// The pairs outside the limits.
    pub outside: Vec<Outside>,
}

/// The parts that explain the pairs outside the limits. A second search explains the transient
/// pairs.
pub fn explain(results: &ResultStore, limits: &Limits, roster: &Roster) -> Explained {
    let mut excluded: BTreeSet<PopulationKey> = BTreeSet::new();
    loop {
        let limits = if excluded.is_empty() {
            limits.clone()
        } else {
            without(&excluded, limits, results, roster)
        };
        let judgement = Judgement::of(results, limits, roster);
        if !judgement.mixed.is_empty() {
            excluded.extend(&judgement.mixed);
            continue;
        }
        let explained = explain_by(judgement, results, roster);
        let mixed = unexplained_populations(&explained, &excluded, results);
        if mixed.is_empty() {
            return explained;
        }
        excluded.extend(mixed);
    }
}

/// The limits, with none for mixed populations. The fit of the other populations of a test changes.
fn without(
    excluded: &BTreeSet<PopulationKey>,
    limits: &Limits,
    results: &ResultStore,
    roster: &Roster,
) -> Limits {
    let mut kept = results.limits(roster, &[], excluded);
    // Retests and swaps may have pairs of a class that the sweep has not measured.
    kept.retain(|key, _| limits.contains_key(key));
    for (key, limit) in &mut kept {
        let sweep_limit = &limits[key];
        limit.is_biased = sweep_limit.is_biased;
        if excluded.contains(key) {
            limit.statistic = sweep_limit.statistic;
        }
        if !sweep_limit.has_costs() {
            *limit = limit.without_costs();
        }
    }
    kept
}

/// Explains the pairs outside these limits.
fn explain_by(judgement: Judgement, results: &ResultStore, roster: &Roster) -> Explained {
    let mut outside = results.outside(&judgement, roster);
    keep_failures(&mut outside, |nic| results.answers(nic));
    let is_slow = |one: &Outside| {
        one.value.is_some() && !judgement.covering(one.test, one.pair, roster).is_empty()
    };
    let (transient, lasting): (Vec<Outside>, Vec<Outside>) = outside
        .iter()
        .copied()
        .partition(|one| one.outcome == RetestOutcome::Transient && !is_slow(one));
    let mut explanations = search(results, &judgement, roster, lasting);
    let nics_of_causes: HashSet<NicId> =
        explanations.iter().flat_map(|explanation| members(explanation.unit, roster)).collect();
    let unexplained = transient.into_iter().filter(|one| {
        !nics_of_causes.contains(&one.pair.initiator) && !nics_of_causes.contains(&one.pair.target)
    });
    explanations.extend(search(results, &judgement, roster, unexplained.collect()));
    Explained { judgement, explanations, outside }
}

/// The populations with too many slow pairs that no part explains.
fn unexplained_populations(
    explained: &Explained,
    excluded: &BTreeSet<PopulationKey>,
    results: &ResultStore,
) -> BTreeSet<PopulationKey> {
    let mut mixed = BTreeSet::new();
    for (key, limit) in &explained.judgement.limits {
        let is_slow = |one: &&&Outside| {
            (one.test, one.class) == *key && one.source == LimitSource::Population
        };
        let path_explanations = explained.explanations.iter();
        let path_explanations = path_explanations.filter(|one| matches!(one.unit, Unit::Path(_)));
        let pairs: Vec<&Outside> = path_explanations.flat_map(|one| &one.pairs).collect();
        let count = |outcome| {
            let slow = pairs.iter().filter(is_slow);
            slow.filter(|one| one.outcome == outcome).count()
        };
        // Retests decide about few pairs; many are too many to retest.
        let open = count(RetestOutcome::Open);
        let open = if open > FEW_SUSPECTS { open } else { 0 };
        let lasting = count(RetestOutcome::Confirmed) + open;
        // Beside a lasting pair, many transient pairs show that the limit is among the pairs.
        let transient = count(RetestOutcome::Transient);
        let unexplained = if lasting > 0 { lasting + transient } else { 0 };
        let measured = results.figures(*key) as f64;
        let (better, judged) = explained.judgement.better(*key);
        let has_better_nics = results.nics < FEW_NICS
            && better >= LEAST_BETTER
            && better as f64 > MOST_BETTER * judged as f64;
        let is_beside_mixed = excluded.iter().any(|(test, _)| *test == key.0);
        let is_much =
            unexplained >= FEW_UNEXPLAINED && unexplained as f64 > MOST_UNEXPLAINED * measured;
        if limit.has_costs() && unexplained > 0 && (is_much || has_better_nics || is_beside_mixed) {
            mixed.insert(*key);
        }
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Figures, Stage};
    use super::super::conductor::Conductor;
    use super::super::findings::{Certainty, Direction, LimitSource};
    use super::super::roster::{NicId, Pair, TestId, Unit};
    use super::super::rounds::Round;
    use super::super::testing::{
        Cluster, Effect, Fault, Load, named, pair, run, seeds, settings, survey, survey_of_some,
        survey_with,
    };
    use super::super::trials::{PlantedSurvey, plans};
    use super::*;
    use crew::location::Class;

    /// A swap may have the first pair between two groups.
    #[test]
    fn class_that_only_retests_have_has_no_limits() {
        let mut cluster = Cluster::new([2, 1, 8, 1], &["write-lat"], 1);
        let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
        let mut results = ResultStore::new(&roster, tests, Vec::new(), None, true);
        let mut measure = |stage, pairs: Vec<Pair>, results: &mut ResultStore| {
            let round = Round { test: TestId(0), stage, pairs };
            cluster.measure(&round).iter().for_each(|result| results.add(result, &roster));
        };
        let within = |first: u32| (0..4).map(move |nic| pair(first + nic, first + nic + 4));
        for _ in 0..4 {
            measure(Stage::Sweep, within(0).chain(within(8)).collect(), &mut results);
        }
        let limits = results.limits(&roster, &[], &BTreeSet::new());
        let own = (TestId(0), Class::Switch);
        assert_eq!(limits.keys().collect::<Vec<_>>(), [&own]);
        for _ in 0..4 {
            measure(Stage::Swap, (0..8).map(|nic| pair(nic, nic + 8)).collect(), &mut results);
        }
        let kept = without(&[own].into(), &limits, &results, &roster);
        assert_eq!(kept.keys().collect::<Vec<_>>(), [&own]);
        explain(&results, &limits, &roster);
    }

    /// Checks that exactly the planted part is named for each plan and seed, except that nothing is
    /// named in `most_missed` surveys.
    fn check(plans: &[PlantedSurvey], noise: f64, spikes: f64, factor: f64, most_missed: usize) {
        let (mut wrong, mut missed) = (Vec::new(), 0);
        for plan in plans {
            for seed in seeds(20) {
                let mut cluster = Cluster::new(plan.shape, &["write-lat"], seed);
                (cluster.noise, cluster.spikes) = (noise, spikes);
                let mut fault = plan.fault;
                if let Effect::Slow(_) = fault.effect {
                    fault.effect = Effect::Slow(factor);
                }
                cluster.faults.push(fault);
                let found = named(&survey(&mut cluster, plan.pairs, seed));
                if found.is_empty() && missed < most_missed {
                    missed += 1;
                } else if found != [(fault.unit, Certainty::Bad, fault.direction)] {
                    wrong.push(format!(
                        "{} {:?} {} seed {seed}: {found:?}",
                        plan.name, plan.shape, plan.pairs
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn names_planted_fault_on_quiet_cluster() {
        check(&plans(), 0.03, 0.0, 1.6, 0);
    }

    #[test]
    fn names_planted_fault_on_noisy_cluster() {
        // A node of two NICs has so many pairs of eight nodes that they may look like a mixed
        // population.
        check(&plans(), 0.2, 0.01, 6.0, 1);
    }

    #[test]
    fn names_nic_that_fails_now_and_then() {
        for seed in 0..20 {
            let mut cluster = Cluster::new([0, 0, 32, 1], &["write-lat"], seed);
            cluster.faults.push(Fault {
                unit: Unit::Nic(NicId(5)),
                direction: Direction::Both,
                effect: Effect::Loses(0.3),
            });
            let found = named(&survey_of_some(&mut cluster, "all", seed));
            let is_it = |one: &(Unit, Certainty, Direction)| one.0 == Unit::Nic(NicId(5));
            assert!(found.len() == 1 && found.iter().all(is_it), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn names_nic_that_sends_packets_again() {
        for (nics, pairs, direction) in [
            (5, "random:4", Direction::Initiator),
            (5, "random:4", Direction::Both),
            (16, "random:4", Direction::Both),
            (16, "all", Direction::Target),
        ] {
            for (seed, resent) in (0..20).flat_map(|seed| [(seed, 0.0), (seed, 8.0)]) {
                let mut cluster = Cluster::new([0, 0, nics, 1], &["write-lat"], seed);
                cluster.resent = resent;
                cluster.faults.push(Fault {
                    unit: Unit::Nic(NicId(2)),
                    direction,
                    effect: Effect::Resends(20.0 * (resent + 1.0)),
                });
                let findings = survey(&mut cluster, pairs, seed);
                let expected = [(Unit::Nic(NicId(2)), Certainty::Bad, direction)];
                assert_eq!(named(&findings), expected, "{nics} {pairs} seed {seed}");
                let evidence = &findings.causes[0].evidence[0];
                assert_eq!(evidence.source, LimitSource::Retries);
                assert!(evidence.retries > evidence.usual_retries);
            }
        }
    }

    #[test]
    fn names_nothing_if_all_nics_send_packets_again() {
        for seed in 0..20 {
            let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], seed);
            cluster.resent = 100.0;
            assert_eq!(named(&survey(&mut cluster, "random:4", seed)), []);
        }
    }

    #[test]
    fn names_nothing_on_clean_cluster() {
        let mut wrong = Vec::new();
        for (shape, pairs) in [
            ([0, 0, 4, 1], "random:4"),
            ([0, 0, 8, 1], "random:4"),
            ([0, 0, 8, 1], "all"),
            ([2, 2, 4, 2], "random:4"),
            ([4, 4, 8, 1], "random:4"),
        ] {
            for (noise, spikes) in [(0.03, 0.0), (0.03, 0.01), (0.3, 0.02)] {
                for seed in seeds(20) {
                    let mut cluster = Cluster::new(shape, &["write-lat", "write-bw"], seed);
                    (cluster.noise, cluster.spikes) = (noise, spikes);
                    let found = named(&survey(&mut cluster, pairs, seed));
                    if !found.is_empty() {
                        wrong.push(format!("{shape:?} {pairs} {noise} seed {seed}: {found:?}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn gives_no_limits_to_mixed_population() {
        let mut wrong = Vec::new();
        for (tool, factor) in [("write-bw", 2.0), ("write-lat", 1.4), ("write-lat", 3.0)] {
            for (shape, pairs) in
                [([0, 0, 32, 1], "random:4"), ([0, 0, 64, 1], "random:4"), ([0, 0, 32, 1], "all")]
            {
                for seed in 0..5 {
                    let mut cluster = Cluster::new(shape, &[tool], seed);
                    let nics = cluster.roster.nics.len() as u32;
                    let slow =
                        |nic| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, factor);
                    cluster.faults = (0..nics / 2).map(slow).collect();
                    let found = named(&survey(&mut cluster, pairs, seed));
                    if !found.is_empty() {
                        wrong.push(format!(
                            "{tool} {factor} {shape:?} {pairs} seed {seed}: {found:?}"
                        ));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn names_many_slow_nics() {
        let mut cluster = Cluster::new([0, 0, 800, 1], &["write-lat"], 1);
        let slow = |nic: u32| Fault::slow(Unit::Nic(NicId(10 * nic)), Direction::Both, 2.0);
        cluster.faults = (0..80).map(slow).collect();
        let found = named(&survey(&mut cluster, "random:6", 1));
        let expected: BTreeSet<Unit> = cluster.faults.iter().map(|fault| fault.unit).collect();
        let units: BTreeSet<Unit> = found.iter().map(|(unit, ..)| *unit).collect();
        assert_eq!(units, expected);
    }

    #[test]
    fn names_no_part_if_half_of_few_nics_are_slow() {
        let mut surveys = 0;
        let mut wrong = Vec::new();
        for (tool, factor) in [("write-bw", 2.0), ("write-lat", 2.0), ("write-lat", 3.0)] {
            for (nics, pairs) in [4, 5, 6, 8, 10, 12, 16]
                .into_iter()
                .flat_map(|nics| [(nics, "random:4"), (nics, "all")])
            {
                for seed in seeds(20) {
                    let mut cluster = Cluster::new([0, 0, nics, 1], &[tool], seed);
                    let slow =
                        |nic| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, factor);
                    cluster.faults = (0..u32::from(nics) / 2).map(slow).collect();
                    let findings = survey(&mut cluster, pairs, seed);
                    surveys += 1;
                    let found = named(&findings);
                    if !found.is_empty() {
                        wrong
                            .push(format!("{tool} {factor} {nics} {pairs} seed {seed}: {found:?}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {surveys} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn seldom_names_a_part_if_half_of_the_nics_of_classes_with_few_pairs_are_slow() {
        let (mut surveys, mut wrong) = (0, Vec::new());
        for (shape, pairs) in
            [([2, 2, 8, 1], "random:4"), ([4, 4, 8, 1], "random:4"), ([2, 2, 4, 1], "all")]
        {
            for (tool, factor) in [("write-bw", 2.0), ("write-lat", 1.4), ("write-lat", 3.0)] {
                for seed in 0..10 {
                    let mut cluster = Cluster::new(shape, &[tool], seed);
                    let nics = cluster.roster.nics.len() as u32;
                    let slow =
                        |nic| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, factor);
                    cluster.faults = (0..nics / 2).map(slow).collect();
                    surveys += 1;
                    let found = named(&survey(&mut cluster, pairs, seed));
                    if !found.is_empty() {
                        wrong.push(format!("{tool} {factor} {shape:?} {pairs} {seed}: {found:?}"));
                    }
                }
            }
        }
        assert!(
            20 * wrong.len() <= surveys,
            "{} of {surveys} wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    #[test]
    fn names_slow_nic_beside_bimodal_class() {
        for seed in 0..20 {
            let mut cluster = Cluster::new([4, 4, 8, 1], &["write-lat"], seed);
            let slow = |unit| Fault::slow(unit, Direction::Both, 2.0);
            let groups = [(0, 1), (0, 2), (0, 3), (1, 2)];
            cluster.faults = groups
                .into_iter()
                .map(|(one, other)| slow(Unit::GroupPair(one, other)))
                .chain([slow(Unit::Nic(NicId(5)))])
                .collect();
            let found = named(&survey(&mut cluster, "random:4,within-switch", seed));
            let expected = [(Unit::Nic(NicId(5)), Certainty::Bad, Direction::Both)];
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn near_pairs_without_locations_do_not_hide_slow_nic() {
        for (pairs, seed) in
            (0..10).flat_map(|seed| [("random:8", seed), ("halves,random:4", seed)])
        {
            let mut cluster = Cluster::new([8, 1, 16, 1], &["write-lat"], seed);
            cluster.faults.push(Fault::slow(Unit::Nic(NicId(5)), Direction::Both, 2.0));
            let mut roster = cluster.roster.clone();
            for nic in &mut roster.nics {
                nic.location = None;
            }
            let tests = cluster.tests.clone();
            let mut conductor = Conductor::new(roster, tests, settings(pairs, seed)).unwrap();
            run(&mut cluster, &mut conductor);
            let found = named(&conductor.findings());
            let expected = [(Unit::Nic(NicId(5)), Certainty::Bad, Direction::Both)];
            assert_eq!(found, expected, "{pairs} seed {seed}");
        }
    }

    #[test]
    fn names_no_part_if_half_of_software_nics_are_slow() {
        for (nics, seed) in (0..20).flat_map(|seed| [(8, seed), (16, seed)]) {
            let mut cluster = Cluster::new([0, 0, nics, 1], &["write-bw"], seed);
            for (number, nic) in cluster.roster.nics.iter_mut().enumerate() {
                nic.device = format!("soft{number}");
            }
            let slow = |nic| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, 3.0);
            cluster.faults = (0..u32::from(nics) / 2).map(slow).collect();
            let found = named(&survey(&mut cluster, "all", seed));
            assert_eq!(found, [], "{nics} NICs, seed {seed}");
        }
    }

    #[test]
    fn names_slow_software_nic_among_noisy_ones() {
        for seed in 0..20 {
            let mut cluster = Cluster::new([0, 0, 5, 1], &["write-lat"], seed);
            cluster.noise = 0.8;
            for (number, nic) in cluster.roster.nics.iter_mut().enumerate() {
                nic.device = format!("soft{number}");
            }
            let unit = Unit::Nic(NicId(2));
            cluster.faults = vec![Fault::slow(unit, Direction::Both, 100.0)];
            let found = named(&survey(&mut cluster, "random:4", seed));
            assert_eq!(found, [(unit, Certainty::Bad, Direction::Both)], "seed {seed}");
        }
    }

    #[test]
    fn names_switch_with_two_nics() {
        let unit = Unit::Switch { group: 1, switch: 1 };
        for seed in 0..10 {
            let mut cluster = Cluster::new([3, 2, 2, 1], &["write-lat"], seed);
            cluster.faults = vec![Fault::slow(unit, Direction::Both, 2.0)];
            let found = named(&survey(&mut cluster, "all", seed));
            assert_eq!(found, [(unit, Certainty::Bad, Direction::Both)], "{seed}");
            // One slow NIC of two is not the switch.
            let nic = Unit::Nic(NicId(6));
            cluster.faults = vec![Fault::slow(nic, Direction::Both, 2.0)];
            let found = named(&survey(&mut cluster, "all", seed));
            assert_eq!(found, [(nic, Certainty::Bad, Direction::Both)], "{seed}");
        }
    }

    #[test]
    fn measures_all_pairs_if_those_of_the_selection_differ_too_much() {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat"], 1);
        let slow = |nic: u32| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, 3.0);
        cluster.faults = (0..6_u32).map(slow).collect();
        let findings = survey(&mut cluster, "random:4", 1);
        assert!(findings.widened && findings.planned >= 66, "{findings:?}");
        assert_eq!(named(&findings), []);
        let good = survey(&mut Cluster::new([0, 0, 12, 1], &["write-lat"], 1), "random:4", 1);
        assert!(!good.widened);
    }

    #[test]
    fn only_links_have_nothing_to_be_compared_with() {
        let incomparable = |shape, faults: &[Fault]| {
            let mut cluster = Cluster::new(shape, &["write-lat", "write-bw"], 1);
            cluster.faults = faults.to_vec();
            let findings = survey(&mut cluster, "all", 1);
            assert_eq!(named(&findings), []);
            let classes = findings.populations.into_iter().filter(|one| one.incomparable);
            classes.map(|one| (one.test.0, one.class)).collect::<Vec<_>>()
        };
        let links = [Fault::slow(Unit::GroupPair(0, 1), Direction::Both, 3.0)];
        let both = [(0, Class::Fabric), (1, Class::Fabric)];
        assert_eq!(incomparable([2, 2, 4, 1], &links), both);
        // They are about as fast as pairs within groups.
        assert_eq!(incomparable([2, 2, 4, 1], &[]), []);
        // Further groups have links to compare them with.
        let mut cluster = Cluster::new([4, 2, 4, 1], &["write-lat"], 1);
        cluster.faults = links.to_vec();
        let named = named(&survey(&mut cluster, "all", 1));
        assert_eq!(named, [(Unit::GroupPair(0, 1), Certainty::Bad, Direction::Both)]);
    }

    #[test]
    fn nics_are_good_beside_a_named_fault_in_a_test_that_shows_it() {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat", "write-bw"], 1);
        let nic = Unit::Nic(NicId(3));
        cluster.faults = vec![Fault::slow(nic, Direction::Both, 3.0)];
        let findings = survey_with(&mut cluster, settings("all", 1), |cluster, round| {
            let mut results = cluster.measure(round);
            for result in &mut results {
                // Half of the NICs have half of the bandwidth.
                let is_slow = result.pair.nics().iter().any(|nic| nic.0 % 2 == 0);
                if let Answer::Measured(Figures::Bandwidth { bytes_per_second, .. }) =
                    &mut result.answer
                {
                    *bytes_per_second /= if is_slow { 2.0 } else { 1.0 };
                }
            }
            results
        });
        let expected = [(nic, Certainty::Bad, Direction::Both)];
        assert_eq!(named(&findings), expected);
        assert_eq!(findings.untested, []);
    }

    /// The NIC is slow in both tests. With busy CPUs, few of its bandwidths are outside the wide
    /// limits, so nothing but its latencies shows that the NIC is the cause.
    #[test]
    fn path_from_a_bad_nic_that_is_as_slow_elsewhere_is_no_cause() {
        for seed in [45, 123, 184] {
            let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat", "write-bw"], seed);
            (cluster.noise, cluster.spikes) = (0.3, 0.02);
            cluster.faults = vec![Fault::slow(Unit::Nic(NicId(2)), Direction::Initiator, 8.0)];
            let (disturbed, untested) = (0.5, 0.2);
            cluster.load = Some(Load { node: None, disturbed, untested, is_harmless: false });
            let found = named(&survey_of_some(&mut cluster, "random:4", seed));
            let nic = (Unit::Nic(NicId(2)), Certainty::Bad, Direction::Initiator);
            assert_eq!(found, [nic], "{seed}");
        }
    }

    /// Bandwidths show that the NIC is bad. Its latencies are good but one.
    #[test]
    fn slow_path_from_a_nic_with_fast_pairs_is_a_cause() {
        let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat", "write-bw"], 1);
        let path = Pair { initiator: NicId(2), target: NicId(5) };
        let fault = |unit, effect| Fault { unit, direction: Direction::Initiator, effect };
        cluster.faults = vec![
            fault(Unit::Nic(NicId(2)), Effect::Throttles(4.0)),
            fault(Unit::Path(path), Effect::Slow(3.0)),
        ];
        let found = named(&survey(&mut cluster, "all", 1));
        let units: Vec<Unit> = found.iter().map(|(unit, ..)| *unit).collect();
        assert_eq!(units, [Unit::Nic(NicId(2)), Unit::Path(path)], "{found:?}");
    }
}
