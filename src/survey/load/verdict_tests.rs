//! Tests of made-up results: victims, classes, targets and counters.

use super::findings::{
    FarVictim, Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit, Spread,
};
use super::spec::{Pattern, Set};
use super::testing::{ModelFabric, bandwidth_load_slot, bisect, d4_model, flow, flows};
use super::verdicts::{grade_patterns, unexplained};
use crate::results::{LoadResults, ResultFacts};
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot, VictimKey};
use campaign::quiet::answer::Untested;
use campaign::quiet::roster::{NicId, Pair};
use campaign::timetable::{Histogram, PARTS, TaskAnswer, TaskResult, Watched};

const SYSTEM: Pattern = bisect(Set::System, false);

/// Bytes in each part of the counted time at 1 MB/s.
const PART: u64 = 13_000;

fn result(nic: u32, answer: TaskAnswer) -> TaskResult {
    TaskResult::new(0, NicId(nic), answer)
}

fn sent(nic: NicId, megabytes_per_second: u64) -> TaskResult {
    let bytes = [PART * megabytes_per_second; PARTS];
    let unreached = Vec::new();
    result(nic.0, TaskAnswer::Sent { bytes, unreached })
}

/// 2,000 latencies, of which some are ten times as long.
fn measured(nic: u32, ns: f64, tail: u64) -> TaskResult {
    let mut samples = Histogram::default();
    samples.add(ns as u64, 2_000 - tail);
    samples.add(10 * ns as u64, tail);
    result(nic, TaskAnswer::Latencies(samples))
}

/// Results of a fabric whose NICs send 50 MB/s without load, in groups of victims that share
/// nothing with them.
fn quiet_results(fabric: &ModelFabric) -> LoadResults {
    let mut load_results = fabric.load_results();
    let load_slot = bandwidth_load_slot(Pattern::Quiet, flows(&[(0, 1), (4, 5)]));
    load_results.add(&load_slot, &[sent(NicId(0), 50), sent(NicId(4), 50)]);
    load_results
}

/// How victims are measured.
#[derive(Clone, Copy)]
struct Trial {
    key: VictimKey,
    /// How many of 2,000 latencies under load are ten times as long.
    tail: u64,
    /// The last quiet latency, as a multiple of the first one.
    drift: f64,
    repetitions: u32,
}

const INCAST: Trial = Trial {
    key: VictimKey {
        under: Pattern::Incast(8),
        spread: Spread::Mixed,
        at_target: false,
        in_other_class: false,
    },
    tail: 0,
    drift: 1.0,
    repetitions: 2,
};

/// Adds quiet, loaded, loaded and quiet load slots with four victims, whose latencies under load
/// are these multiples of 2 µs.
fn add_victims(load_results: &mut LoadResults, trial: Trial, impacts: [f64; 4]) {
    add_victims_that_waited(load_results, trial, impacts, [25, 25]);
}

/// The same, with the parts of the time in which the processes of victims and of their targets
/// waited for a CPU.
fn add_victims_that_waited(
    load_results: &mut LoadResults,
    trial: Trial,
    impacts: [f64; 4],
    waited: [u8; 2],
) {
    let victims = [(12, 8), (13, 9), (14, 10), (15, 11)];
    for repetition in 0..trial.repetitions {
        for place in 0..4 {
            let is_loaded = place == 1 || place == 2;
            let pairs = victims.iter().map(|(initiator, target)| Pair {
                initiator: NicId(*initiator),
                target: NicId(*target),
            });
            let load_slot = LoadSlot {
                purpose: LoadMeasurement::Victims(trial.key),
                repetition,
                place,
                flows: if is_loaded { vec![flow(NicId(0), NicId(4))] } else { Vec::new() },
                victims: pairs.collect(),
                slot_ns: 250_000_000,
                window_bytes: 1 << 20,
            };
            let latency = |victim: usize| match place {
                0 => 2000.0,
                3 => 2000.0 * trial.drift,
                _ => 2000.0 * impacts[victim],
            };
            let victim_pairs = victims.iter().enumerate();
            let mut results: Vec<TaskResult> = victim_pairs
                .map(|(at, (nic, _))| {
                    let tail = if is_loaded { trial.tail } else { 0 };
                    measured(*nic, latency(at), tail)
                })
                .collect();
            results.iter_mut().for_each(|result| result.waited_percent = waited[0]);
            results.extend(victims.iter().map(|(_, target)| TaskResult {
                waited_percent: waited[1],
                ..result(*target, TaskAnswer::Present)
            }));
            results.push(sent(NicId(0), 6));
            load_results.add(&load_slot, &results);
        }
    }
}

/// Returns what victims under an incast say whose latencies are these multiples of the quiet ones.
fn impact_of(trial: Trial, impacts: [f64; 4]) -> LoadFindings {
    let mut load_results = quiet_results(&d4_model());
    add_victims(&mut load_results, trial, impacts);
    load_results.findings()
}

/// The same for victims in the class of the load, and in another one whose quiet latency drifts.
fn impact_of_classes(same: f64, other: f64, drift: f64) -> LoadFindings {
    let mut load_results = quiet_results(&d4_model());
    add_victims(&mut load_results, INCAST, [same; 4]);
    let in_other_class =
        Trial { key: VictimKey { in_other_class: true, ..INCAST.key }, drift, ..INCAST };
    add_victims(&mut load_results, in_other_class, [other; 4]);
    load_results.findings()
}

#[test]
fn incast_that_slows_victims_is_bad() {
    let findings = impact_of(INCAST, [3.0; 4]);
    let figures = &findings.impacts[0];
    assert_eq!((figures.class, figures.victims, figures.unjudged), (None, 8, 0));
    assert!((figures.median.impact / 3.0 - 1.0).abs() < 0.02);
    assert_eq!(figures.grade, Grade::Bad);
    assert!(figures.p99.is_some() && figures.p999.is_some());
    let judgement = &findings.judgements[0];
    assert_eq!((judgement.unit, judgement.figure), (LoadUnit::System, LoadFigure::Impact));
    assert_eq!(findings.judgements.len(), 1);
}

#[test]
fn small_impact_is_good_and_few_victims_have_no_verdict() {
    let small = impact_of(INCAST, [1.15; 4]);
    assert_eq!(small.impacts[0].grade, Grade::Good);
    assert_eq!(small.judgements, []);
    let few = Trial { repetitions: 1, ..INCAST };
    let few = impact_of(few, [3.0; 4]);
    assert_eq!(few.impacts[0].grade, Grade::Unjudged);
    assert_eq!(few.impacts[0].median.interval, None);
    assert_eq!(few.judgements, []);
}

#[test]
fn victims_whose_processes_waited_do_not_count() {
    // A model explains the figures of a victim that has not waited, with all that delayed them.
    for (waited, counts) in [([25, 25], true), ([26, 0], false), ([1, 26], false), ([0, 100], true)]
    {
        let mut load_results = quiet_results(&d4_model());
        add_victims_that_waited(&mut load_results, INCAST, [3.0; 4], waited);
        let findings = load_results.findings();
        assert_eq!(findings.impacts.is_empty(), !counts, "{waited:?}");
        let unmeasured: &[&str] = if counts { &[] } else { &["victims under incast:8"] };
        assert_eq!(findings.unmeasured, unmeasured, "{waited:?}");
    }
}

#[test]
fn pattern_is_unmeasured_if_most_of_it_does_not_count() {
    let unmeasured = |pattern: Pattern, waited: u32| {
        let mut load_results = quiet_results(&d4_model());
        let pairs = [(0, 8), (1, 9), (2, 10), (3, 11)];
        let results = (0..4).map(|nic| TaskResult {
            waited_percent: if nic < waited { 100 } else { 0 },
            ..sent(NicId(nic), 50)
        });
        load_results
            .add(&bandwidth_load_slot(pattern, flows(&pairs)), &results.collect::<Vec<_>>());
        let mut findings = load_results.findings();
        for bandwidth in &mut findings.bandwidths {
            bandwidth.grade = Grade::Good;
        }
        grade_patterns(&mut findings);
        (findings.unmeasured, findings.bandwidths.last().map(|bandwidth| bandwidth.grade))
    };
    for (pattern, name) in
        [(SYSTEM, "bisect:system"), (bisect(Set::Switch, false), "bisect:switch")]
    {
        assert_eq!(unmeasured(pattern, 2), (Vec::new(), Some(Grade::Good)));
        assert_eq!(unmeasured(pattern, 3), (vec![name.to_owned()], Some(Grade::Unjudged)));
    }
}

/// A CPU makes one latency in a hundred of a software NIC long, whatever explains its mean.
#[test]
fn tails_of_hardware_alone_have_a_verdict() {
    for (is_software, tail, grade) in
        [(false, 40, Grade::Bad), (true, 40, Grade::Good), (false, 10, Grade::Good)]
    {
        let fabric = d4_model();
        let facts = ResultFacts { is_software, ..fabric.facts() };
        let mut load_results = LoadResults::new(&fabric.roster, facts);
        add_victims(&mut load_results, Trial { tail, ..INCAST }, [1.0; 4]);
        let findings = load_results.findings();
        assert_eq!(findings.impacts[0].grade, grade, "{is_software} {tail}");
        let p99 = findings.impacts[0].p99.unwrap().impact;
        assert!((p99 > 5.0) == (tail == 40), "{p99}");
    }
}

#[test]
fn slow_part_explains_slow_shares_only() {
    let judgement = |grade| {
        LoadJudgement::new(
            LoadFigure::ShareOfTheory,
            LoadUnit::System,
            "all2all",
            (grade, 0.4, 0.8),
            Vec::new(),
        )
    };
    for (part, system_grade, count) in
        [(Grade::Slow, Grade::Slow, 0), (Grade::Slow, Grade::Bad, 1), (Grade::Bad, Grade::Bad, 0)]
    {
        let left = unexplained(vec![judgement(system_grade)], [judgement(part)].iter());
        assert_eq!(left.len(), count, "{part:?} {system_grade:?}");
    }
}

#[test]
fn judgement_is_about_the_figure_that_is_bad() {
    let tail = Trial { tail: 40, ..INCAST };
    let judgement = &impact_of(tail, [1.3; 4]).judgements[0];
    assert_eq!((judgement.grade, judgement.figure), (Grade::Bad, LoadFigure::ImpactP99));
}

/// Each of them is measured again.
#[test]
fn bad_patterns_have_judgements_of_their_own() {
    let mut load_results = quiet_results(&d4_model());
    for (under, impact) in [(8, 5.0), (32, 3.0)] {
        let under = Pattern::Incast(under);
        add_victims(
            &mut load_results,
            Trial { key: VictimKey { under, ..INCAST.key }, ..INCAST },
            [impact; 4],
        );
    }
    let judgements = load_results.findings().judgements;
    let patterns: Vec<&str> =
        judgements.iter().map(|judgement| judgement.pattern.as_str()).collect();
    assert_eq!(patterns, ["incast:8", "incast:32"]);
}

/// Latencies beside half of the senders say nothing.
#[test]
fn victims_beside_idle_aggressors_do_not_count() {
    let mut load_results = quiet_results(&d4_model());
    let pair = Pair { initiator: NicId(12), target: NicId(8) };
    for place in 0..4 {
        let is_quiet = place == 0 || place == 3;
        let flows = if is_quiet { Vec::new() } else { flows(&[(0, 4), (1, 4)]) };
        let load_slot = LoadSlot {
            purpose: LoadMeasurement::Victims(INCAST.key),
            place,
            victims: vec![pair],
            ..bandwidth_load_slot(SYSTEM, flows)
        };
        load_results.add(&load_slot, &[measured(12, 2000.0, 0), sent(NicId(0), 6)]);
    }
    let findings = load_results.findings();
    assert!(findings.impacts.is_empty());
    assert_eq!(findings.unmeasured, ["victims under incast:8"]);
}

#[test]
fn victims_under_other_patterns_than_incasts_are_slow_at_most() {
    let system = Trial { key: VictimKey { under: SYSTEM, ..INCAST.key }, ..INCAST };
    let findings = impact_of(system, [3.0; 4]);
    assert_eq!(findings.impacts[0].grade, Grade::Slow);
    let evidence = &findings.judgements[0].evidence;
    assert!(evidence[1].starts_with("The pattern fills links"));
}

#[test]
fn victims_at_the_target_have_no_verdict() {
    let at_target = Trial { key: VictimKey { at_target: true, ..INCAST.key }, ..INCAST };
    let findings = impact_of(at_target, [100.0; 4]);
    assert_eq!(findings.impacts[0].under, "incast-same:8");
    assert_eq!(findings.impacts[0].grade, Grade::Unjudged);
    assert_eq!(findings.judgements, []);
}

#[test]
fn spreads_show_where_interference_arises() {
    for (hit, words) in
        [(1, "in switches"), (2, "between switches of a group"), (3, "between groups")]
    {
        let mut load_results = quiet_results(&d4_model());
        let spreads = [Spread::Mixed, Spread::Switches, Spread::Groups];
        for (place, spread) in spreads.into_iter().enumerate() {
            let impact = if place < hit { 3.0 } else { 1.0 };
            add_victims(
                &mut load_results,
                Trial { key: VictimKey { spread, ..INCAST.key }, ..INCAST },
                [impact; 4],
            );
        }
        let judgements = load_results.findings().judgements;
        assert_eq!(judgements.len(), 1);
        let sentence = &judgements[0].evidence[0];
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn victims_far_above_their_class_are_named() {
    let findings = impact_of(INCAST, [2.5, 2.5, 2.5, 20.0]);
    let evidence = &findings.judgements[0].evidence;
    let named: Vec<_> = evidence.iter().filter(|item| item.contains("Far above")).collect();
    assert_eq!(named.len(), 1);
    assert!(named[0].contains("nid000015 cxi0 (003.01.01) to nid000011 cxi0"), "{named:?}");
}

/// load.md 5, vector 23: the class is good, and small deviations are not worth a name.
#[test]
fn victims_far_above_a_good_class_are_found() {
    let median_trial =
        Trial { key: VictimKey { spread: Spread::Switches, ..INCAST.key }, ..INCAST };
    let findings = impact_of(median_trial, [1.0, 1.0, 1.1, 3.0]);
    assert_eq!(findings.judgements, []);
    let far: Vec<&FarVictim> =
        findings.impacts.iter().flat_map(|impact| &impact.far_above).collect();
    let [victim] = far[..] else {
        panic!("{far:?}");
    };
    assert_eq!(victim.pair.initiator, NicId(15));
    assert!((victim.impact / 3.0 - 1.0).abs() < 0.02, "{victim:?}");
    assert!((victim.quiet_ratio - 1.0).abs() < 0.02, "{victim:?}");
    assert_eq!(
        victim.sentence(&d4_model().roster),
        "Far above its class: nid000015 cxi0 (003.01.01) to nid000011 cxi0 (002.01.01): impact factor \
         2.99, quiet latency 1.00 times the median of the class."
    );
}

#[test]
fn other_class_that_lets_load_through_is_bad() {
    for (other, grade) in [(1.0, Grade::Good), (4.0, Grade::Bad)] {
        let findings = impact_of_classes(5.0, other, 1.0);
        let isolation = &findings.isolations[0];
        assert_eq!((isolation.under.as_str(), isolation.grade), ("incast:8", grade));
        let units = findings.judgements.iter().map(|judgement| judgement.unit);
        let named = units.filter(|unit| *unit == LoadUnit::TrafficClass).count();
        assert_eq!(named, usize::from(grade == Grade::Bad));
    }
}

/// The latencies of the other class have tripled without load as well.
#[test]
fn drift_of_quiet_latencies_is_no_lack_of_isolation() {
    let isolation = &impact_of_classes(3.2, 3.8, 3.0).isolations[0];
    assert!(isolation.isolation.is_some_and(|value| value < 0.7), "{isolation:?}");
    assert_eq!(isolation.grade, Grade::Good);
}

#[test]
fn load_without_impact_leaves_nothing_to_isolate_from() {
    // load.md 5, vector 24, with an interval above 1.1
    let isolation = &impact_of_classes(1.15, 1.0, 1.0).isolations[0];
    assert_eq!((isolation.isolation, isolation.grade), (None, Grade::Unjudged));
}

#[test]
fn low_sum_into_one_target_of_many_is_its_own() {
    let mut load_results = quiet_results(&d4_model());
    for target in [3, 7, 11, 15] {
        let sources = [target - 1, target - 2].map(|source| (source, target));
        let load_slot = bandwidth_load_slot(Pattern::Incast(2), flows(&sources));
        let rate = if target == 7 { 10 } else { 25 };
        let results = load_slot.flows.iter().map(|flow| sent(flow.source, rate));
        load_results.add(&load_slot, &results.collect::<Vec<_>>());
    }
    let judgements = load_results.findings().judgements;
    let found: Vec<_> = judgements
        .iter()
        .map(|judgement| (judgement.unit, judgement.figure, judgement.grade))
        .collect();
    assert_eq!(found, [(LoadUnit::Nic(NicId(7)), LoadFigure::IncastSum, Grade::Bad)]);
}

#[test]
fn unequal_sources_are_no_fault_of_a_named_part() {
    let mut load_results = quiet_results(&d4_model());
    for target in [3, 7, 11] {
        let load_slot = bandwidth_load_slot(Pattern::Incast(2), flows(&[(0, target), (1, target)]));
        load_results.add(&load_slot, &[sent(NicId(0), 45), sent(NicId(1), 5)]);
    }
    let judgements = load_results.findings().judgements;
    let found: Vec<_> =
        judgements.iter().map(|judgement| (judgement.unit, judgement.figure)).collect();
    assert_eq!(found, [(LoadUnit::System, LoadFigure::SmallestShare)]);
}

#[test]
fn share_of_theory_is_judged_unless_load_is_partial() {
    let fabric = d4_model();
    for (is_partial, expected) in [(false, 1), (true, 0)] {
        let facts = ResultFacts { is_partial, ..fabric.facts() };
        let mut load_results = LoadResults::new(&fabric.roster, facts);
        let quiet = bandwidth_load_slot(Pattern::Quiet, flows(&[(0, 1)]));
        load_results.add(&quiet, &[sent(NicId(0), 50)]);
        let flows = fabric.flows(SYSTEM, 0);
        let load_slot = bandwidth_load_slot(SYSTEM, flows);
        let results = load_slot.flows.iter().map(|flow| sent(flow.source, 10));
        load_results.add(&load_slot, &results.collect::<Vec<_>>());
        let findings = load_results.findings();
        let judged = findings.judgements.iter();
        let shares = judged.filter(|judgement| {
            judgement.figure == LoadFigure::ShareOfTheory && judgement.grade == Grade::Bad
        });
        assert_eq!(shares.count(), expected);
        let system = &findings.bandwidths[1];
        assert_eq!(system.share_of_theory.is_some(), !is_partial);
        assert!((system.ratio_to_quiet.unwrap() - 0.2).abs() < 1e-6);
    }
}

/// The judgements on a loaded load slot with a victim 12 to 13, in which a NIC has a counter.
fn with_counter(nic: u32, watched: Watched, change: u64) -> Vec<(LoadUnit, LoadFigure, Grade)> {
    with_counter_at(nic, (watched, change), false)
}

/// `at_target` is whether victims measure at the targets of the load.
fn with_counter_at(
    nic: u32,
    counter: (Watched, u64),
    at_target: bool,
) -> Vec<(LoadUnit, LoadFigure, Grade)> {
    let mut load_results = quiet_results(&d4_model());
    let mut load_slot = bandwidth_load_slot(SYSTEM, flows(&[(0, 8)]));
    let key = VictimKey::new(SYSTEM, Spread::Groups);
    load_slot.purpose = LoadMeasurement::Victims(VictimKey { at_target, ..key });
    load_slot.victims.push(Pair { initiator: NicId(12), target: NicId(13) });
    let mut with = result(nic, TaskAnswer::Present);
    with.watched.push(counter);
    load_results.add(&load_slot, &[with]);
    let judgements = load_results.findings().judgements;
    judgements.iter().map(|judgement| (judgement.unit, judgement.figure, judgement.grade)).collect()
}

#[test]
fn counters_have_their_verdicts() {
    let lost = (LoadUnit::Nic(NicId(0)), LoadFigure::Timeouts, Grade::Bad);
    assert_eq!(with_counter(0, Watched::Timeouts, 1), [lost]);
    let spreads = (LoadUnit::System, LoadFigure::VictimsPaused, Grade::Bad);
    assert_eq!(with_counter(12, Watched::TxPaused, 2_600_000), [spreads]);
    assert_eq!(with_counter(12, Watched::TxPaused, 2_500_000), []);
    assert_eq!(with_counter(0, Watched::TxPaused, 200_000_000), []);
    assert_eq!(with_counter_at(12, (Watched::TxPaused, 2_600_000), true), []);
    let host = (LoadUnit::Nic(NicId(8)), LoadFigure::TargetPauses, Grade::Slow);
    assert_eq!(with_counter(8, Watched::RxPaused, 2_600_000), [host]);
    assert_eq!(with_counter(0, Watched::RxPaused, 2_600_000), []);
    assert_eq!(with_counter(8, Watched::Refused, 1_000_000), []);
    assert_eq!(with_counter(0, Watched::Retries, 1_000_000), []);
}

/// The judgements on two slots of all2all in which NIC 0 does not reach some NICs.
fn without_reaching(slot_lists: [&[u32]; 2]) -> Vec<LoadJudgement> {
    let mut load_results = quiet_results(&d4_model());
    let load_slot = bandwidth_load_slot(
        Pattern::AllToAll,
        (0..16)
            .map(|source| LoadFlow {
                source: NicId(source),
                peers: (0..16).map(NicId).filter(|nic| nic.0 != source).collect(),
            })
            .collect(),
    );
    for unreached in slot_lists {
        let mut results: Vec<TaskResult> = (0..16).map(|nic| sent(NicId(nic), 40)).collect();
        results[0].answer = TaskAnswer::Sent {
            bytes: [PART * 40; PARTS],
            // Its peers are all others, from NIC 1 on.
            unreached: unreached.iter().map(|nic| nic - 1).collect(),
        };
        load_results.add(&load_slot, &results);
    }
    load_results.findings().judgements
}

#[test]
fn paths_on_which_operations_fail_again_are_bad() {
    let judgements = without_reaching([&[9, 11], &[9]]);
    assert_eq!(judgements.len(), 1, "{judgements:?}");
    let dead = &judgements[0];
    assert_eq!((dead.unit, dead.grade), (LoadUnit::System, Grade::Bad));
    assert_eq!((dead.figure, dead.value), (LoadFigure::DeadPaths, 1.0));
    let text = "Operations from nid000000 cxi0 to nid000009 cxi0 failed in 2 slots.";
    assert_eq!(dead.evidence, [text]);
    let nic_judgement = &without_reaching([&[9, 11], &[9, 11]])[0];
    assert_eq!((nic_judgement.unit, nic_judgement.value), (LoadUnit::Nic(NicId(0)), 2.0));
    assert_eq!(without_reaching([&[9], &[11]]), []);
}

#[test]
fn unanswered_victims_are_bad() {
    let mut load_results = quiet_results(&d4_model());
    add_victims(&mut load_results, INCAST, [1.0; 4]);
    let mut load_slot = bandwidth_load_slot(SYSTEM, flows(&[(0, 4)]));
    load_slot.purpose = LoadMeasurement::Victims(INCAST.key);
    load_slot.repetition = 5;
    load_slot.victims.push(Pair { initiator: NicId(12), target: NicId(13) });
    let failed = result(12, TaskAnswer::Failed("no answer".into()));
    let late = result(13, TaskAnswer::Untested(Untested::Late));
    load_results.add(&load_slot, &[failed.clone(), late]);
    assert_eq!(load_results.findings().judgements, [], "the target could not answer");
    load_results.add(&load_slot, &[failed]);
    let judgements = load_results.findings().judgements;
    assert_eq!(judgements.len(), 1);
    assert_eq!(judgements[0].figure, LoadFigure::Unanswered);
    assert!((judgements[0].value - 1.0 / 17.0).abs() < 1e-9);
}
