//! Tests of blame on a model of a fabric: the vectors of load.md 5, and fabrics with random faults.

use std::collections::BTreeSet;

use super::findings::{Grade, LoadFigure, LoadFindings, LoadUnit};
use super::model::{ModelFabric, SlowLinks, bisect, d4, flows};
use super::pattern::{Distance, Pattern, Set};
use super::slot::pattern_name;
use super::testing::VECTOR_9;
use campaign::quiet::ids::NicId;

/// Number of slots of each pattern.
const SLOTS: u32 = 12;

/// Returns the parts that a survey of a fabric finds slow or bad by their bandwidths.
fn blamed(mut fabric: ModelFabric) -> Vec<(LoadUnit, Grade)> {
    let findings = fabric.survey(SLOTS).findings();
    let judgements = findings.judgements.into_iter();
    let bandwidths = judgements.filter(|judgement| judgement.figure == LoadFigure::Bandwidth);
    bandwidths.map(|judgement| (judgement.unit, judgement.grade)).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected / 1e6 - 1.0).abs() < 2e-3, "{found}, not {expected}");
    }
}

#[test]
fn model_has_rates_of_vectors_9_and_11_to_13() {
    near(&d4().rates(&flows(&VECTOR_9)), &[24.24; 8]);
    let shift = |by: u32| flows(&(0..16).map(|nic| (nic, (nic + by) % 16)).collect::<Vec<_>>());
    near(&d4().rates(&shift(4)), &[12.12; 16]);
    near(&d4().rates(&shift(1)), &[48.48; 16]);
    near(&d4().rates(&shift(2)), &[24.24; 16]);
    let mean = d4().rates(&shift(3)).iter().sum::<f64>() / 16.0;
    near(&[mean], &[20.20]);
    let slow = d4().with(SlowLinks::Global(0, 2, false), 0.25);
    let (low, usual) = (6.06, 24.24);
    let expected = [low, usual, low, usual, usual, usual, usual, usual];
    near(&slow.rates(&flows(&VECTOR_9)), &expected);
}

#[test]
fn good_fabric_has_no_judgement_and_all_of_theory() {
    let findings = d4().survey(SLOTS).findings();
    assert_eq!(findings.judgements, []);
    let quiet = findings.quiet_bandwidth.unwrap();
    near(&[quiet], &[48.48]);
    let system =
        findings.bandwidths.iter().find(|bandwidth| bandwidth.pattern == "bisect:system").unwrap();
    assert!((system.share_of_theory.unwrap() - 1.0).abs() < 2e-3);
    assert_eq!(system.grade, Grade::Good);
    near(&[system.sum], &[193.9]);
}

#[test]
fn links_between_groups_are_blamed_in_their_direction() {
    // load.md 5, vectors 13 and 14 with minimal routes: no bytes arrive
    for ratio in [0.25, 0.0] {
        let fabric = d4().with(SlowLinks::Global(0, 2, false), ratio);
        let (from, to) = (0, 2);
        let links = |both| LoadUnit::GroupLinks { from, to, both };
        assert_eq!(blamed(fabric), [(links(false), Grade::Bad)]);
        let fabric = d4().with(SlowLinks::Global(0, 2, true), ratio);
        assert_eq!(blamed(fabric), [(links(true), Grade::Bad)]);
    }
}

#[test]
fn switch_with_slow_ports_is_blamed_although_the_taper_hides_it() {
    // load.md 5, vector 15
    let fabric = d4().with(SlowLinks::Ports(2, 0), 0.5);
    near(&fabric.rates(&flows(&VECTOR_9)), &[24.24; 8]);
    near(&fabric.rates(&flows(&[(8, 9)])), &[24.24]);
    let switch = LoadUnit::Switch { group: 2, switch: 0 };
    assert_eq!(blamed(fabric), [(switch, Grade::Bad)]);
}

#[test]
fn sets_are_compared_with_equal_sets_and_the_slowest_is_first() {
    let findings = d4().with(SlowLinks::Ports(2, 0), 0.5).survey(SLOTS).findings();
    let bandwidth = |pattern: &str| {
        let mut figures = findings.bandwidths.iter();
        figures.find(|bandwidth| bandwidth.pattern == pattern).unwrap()
    };
    let within = bandwidth("bisect:switch");
    let slow = within.sets.iter().filter(|set| set.grade == Grade::Bad);
    let units: BTreeSet<LoadUnit> = slow.clone().map(|set| set.unit).collect();
    let switch = LoadUnit::Switch { group: 2, switch: 0 };
    let nics = [8, 9].map(|nic| LoadUnit::Nic(NicId(nic)));
    assert_eq!(units, BTreeSet::from([nics[0], nics[1], switch]));
    assert!(slow.clone().all(|set| (set.ratio - 0.5).abs() < 1e-3));
    assert_eq!(within.grade, Grade::Bad);
    assert!(units.contains(&within.sets[0].unit));
    // All ordered pairs of four groups.
    let system = bandwidth("bisect:system, both ways");
    assert_eq!(system.grade, Grade::Good);
    let theory = system.sets.iter().filter(|set| set.theory.is_some());
    assert_eq!(theory.count(), 12);
}

#[test]
fn group_with_slow_links_is_one_cause() {
    // load.md 5, vector 16
    let fabric = d4().with(SlowLinks::Group(3), 0.5);
    near(
        &fabric.rates(&flows(&[(0, 2), (1, 3), (12, 14), (13, 15)])),
        &[24.24, 24.24, 12.12, 12.12],
    );
    assert_eq!(blamed(fabric), [(LoadUnit::Group(3), Grade::Bad)]);
}

#[test]
fn local_links_of_two_switches_are_blamed_if_other_links_are_good() {
    let links = |both| LoadUnit::SwitchLinks { group: 3, from: 0, to: 1, both };
    for both in [false, true] {
        let fabric = d4().with(SlowLinks::Local(3, 0, 1, both), 0.5);
        assert_eq!(blamed(fabric), [(links(both), Grade::Bad)]);
    }
}

#[test]
fn path_with_loss_is_blamed_without_any_nic() {
    // load.md 5, vector 18, where the lost packets lower the bandwidth of the link
    let fabric = d4().with(SlowLinks::Local(0, 0, 1, false), 0.7);
    let links = LoadUnit::SwitchLinks { group: 0, from: 0, to: 1, both: false };
    assert_eq!(blamed(fabric), [(links, Grade::Bad)]);
}

#[test]
fn nic_is_blamed_with_its_direction() {
    // load.md 5, vector 17
    for (slow, sentence) in [
        (SlowLinks::Receive(NicId(5)), "Slow as receiver only."),
        (SlowLinks::Transmit(NicId(5)), "Slow as sender only."),
        (SlowLinks::Nic(NicId(5)), "Slow as sender and as receiver."),
    ] {
        let findings = d4().with(slow, 0.5).survey(SLOTS).findings();
        let found: Vec<LoadUnit> =
            findings.judgements.iter().map(|judgement| judgement.unit).collect();
        assert_eq!(found, [LoadUnit::Nic(NicId(5))], "{slow:?}");
        assert_eq!(findings.judgements[0].evidence, [sentence]);
    }
}

#[test]
fn part_that_retests_clear_explains_nothing() {
    let nic = NicId(5);
    let mut fabric = d4().with(SlowLinks::Transmit(nic), 0.2);
    let mut results = fabric.survey(SLOTS);
    fabric.run(&mut results, Pattern::Incast(2), flows(&[(5, 0), (9, 0)]));
    let found = |findings: LoadFindings| -> Vec<(LoadUnit, LoadFigure)> {
        let judgements = findings.judgements.into_iter();
        judgements.map(|judgement| (judgement.unit, judgement.figure)).collect()
    };
    let nic_judgement = (LoadUnit::Nic(nic), LoadFigure::Bandwidth);
    assert_eq!(found(results.findings()), [nic_judgement]);
    let after = found(results.findings_after(|judgement| judgement.unit == nic_judgement.0));
    let star = (LoadUnit::System, LoadFigure::SmallestShare);
    assert!(after.contains(&nic_judgement) && after.contains(&star), "{after:?}");
}

#[test]
fn nobody_is_named_where_sender_and_receiver_explain_a_slow_flow() {
    // Vector 17 from two NICs alone: 4 may be slow as sender, or 5 as receiver.
    let mut fabric = d4().with(SlowLinks::Receive(NicId(5)), 0.5);
    let mut results = fabric.load_results();
    let pattern = bisect(Set::Switch, true);
    let pairs: Vec<(u32, u32)> = (0..16).map(|nic| (nic, nic ^ 1)).collect();
    (0..SLOTS).for_each(|_| fabric.run(&mut results, pattern, flows(&pairs)));
    assert_eq!(results.findings().judgements, []);
}

#[test]
fn slow_group_is_found_by_shifts_alone_only_with_two_neighbours() {
    let shift: Vec<(u32, u32)> = (0..16).map(|nic| (nic, (nic + 4) % 16)).collect();
    for (slow, expected) in [
        (SlowLinks::Group(2), LoadUnit::Group(2)),
        (SlowLinks::Global(2, 3, false), LoadUnit::GroupLinks { from: 2, to: 3, both: false }),
    ] {
        let mut fabric = d4().with(slow, 0.5);
        let mut results = fabric.load_results();
        let pattern = Pattern::Shift(Distance::Group);
        (0..SLOTS).for_each(|_| fabric.run(&mut results, pattern, flows(&shift)));
        let judgements = results.findings().judgements;
        let found: Vec<LoadUnit> = judgements.iter().map(|judgement| judgement.unit).collect();
        assert_eq!(found, [expected]);
        assert_eq!(judgements[0].pattern, pattern_name(pattern));
    }
}
