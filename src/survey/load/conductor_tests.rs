//! The load from the first load slot to the findings, with made-up results.

use std::collections::BTreeSet;

use super::conductor::{Cap, LoadConductor, LoadSetup};
use super::findings::{Grade, LoadFigure, LoadFindings, LoadUnit};
use super::results::ResultFacts;
use super::slot::{LoadMeasurement, LoadSlot};
use super::spec::{Pattern, Set};
use super::testing::{all, conductor, d4, fabric, results, setup};
use campaign::quiet::answer::Untested;
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::{NicId, NodeId};
use campaign::timetable::{Histogram, PARTS, TaskAnswer, TaskResult, Watched};

/// Runs the load to its end. `report` makes the results of a load slot, with the number of the
/// round.
fn run(
    load: &mut LoadConductor,
    report: impl Fn(u32, &LoadSlot) -> Vec<TaskResult>,
) -> Vec<LoadSlot> {
    let mut given = Vec::new();
    let mut round = 0;
    loop {
        let block = load.next_load_slots();
        if block.is_empty() {
            return given;
        }
        let first = &block[0];
        let is_quiet = first.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet);
        if is_quiet && first.repetition == 0 {
            round += 1;
        }
        let ns: u64 = block.iter().map(|load_slot| load_slot.slot_ns).sum();
        assert!(block.len() == 1 || ns <= 2_000_000_000);
        for load_slot in block.clone() {
            let timing = (load_slot.slot_ns, load_slot.window_bytes);
            assert_eq!(timing, (first.slot_ns, first.window_bytes));
            load.add(&load_slot, &report(round, &load_slot));
            given.push(load_slot);
        }
    }
}

fn good(_: u32, load_slot: &LoadSlot) -> Vec<TaskResult> {
    results(load_slot, 0, |_| 1e9)
}

/// The settings of hardware NICs.
fn hardware(wanted: &str) -> LoadSetup {
    let setup = setup(wanted);
    LoadSetup { facts: ResultFacts { is_software: false, ..setup.facts }, ..setup }
}

fn purposes(load_slots: &[LoadSlot]) -> Vec<LoadMeasurement> {
    let mut purposes: Vec<LoadMeasurement> =
        load_slots.iter().map(|load_slot| load_slot.purpose).collect();
    purposes.dedup();
    purposes
}

fn nics(load_slot: &LoadSlot) -> BTreeSet<NicId> {
    let load =
        load_slot.flows.iter().flat_map(|flow| flow.peers.iter().copied().chain([flow.source]));
    let victims = load_slot.victims.iter().flat_map(|pair| pair.nics());
    load.chain(victims).collect()
}

const SYSTEM: Pattern = Pattern::Bisect { of: Set::System, both_ways: false };

const SYSTEM_BOTH_WAYS: Pattern = Pattern::Bisect { of: Set::System, both_ways: true };

#[test]
fn measures_steps_in_order_after_a_ramp() {
    let mut load = conductor(&d4(), setup("bisect:system,all2all"));
    let preview = load.preview();
    let load_slots = run(&mut load, good);
    let bandwidth = [Pattern::Quiet, SYSTEM, SYSTEM_BOTH_WAYS, Pattern::AllToAll];
    let expected: Vec<LoadMeasurement> = [LoadMeasurement::Ramp]
        .into_iter()
        .chain(bandwidth.map(LoadMeasurement::Bandwidth))
        .collect();
    assert_eq!(purposes(&load_slots), expected);
    let ramp: Vec<usize> = load_slots[..3].iter().map(|load_slot| load_slot.flows.len()).collect();
    assert_eq!(ramp, [2, 4, 8]);
    assert_eq!(preview.slots as usize, load_slots.len());
    assert_eq!(preview.most_aggressors, 16);
    assert_eq!(preview.peak, Some(16e9));
    assert!(preview.total_bytes.is_some_and(|bytes| bytes > 1e9));
    let (done, planned, _) = load.progress();
    assert_eq!((done as usize, planned as usize), (load_slots.len(), load_slots.len()));
    let findings = load.findings();
    assert_eq!(findings.settings.slots as usize, load_slots.len());
    assert_eq!(findings.settings.patterns, "bisect:system,all2all");
    assert_eq!(findings.settings.most_aggressors, 16);
    assert_eq!(findings.bandwidths.len(), 4);
    assert_eq!((findings.aborted, findings.unjudged), (None, None));
}

#[test]
fn vector_28_loads_64_of_10_000_hardware_nics() {
    let roster = fabric([20, 32, 16, 1]);
    let hardware = hardware("standard");
    let usable: Vec<NicId> = all(&roster).into_iter().take(10_000).collect();
    let mut load = LoadConductor::new(&roster, usable, hardware.clone()).unwrap();
    let preview = load.preview();
    assert_eq!((preview.nics, preview.most_aggressors), (10_000, 64));
    assert!(preview.is_partial);
    assert_eq!(preview.left_out, []);
    assert_eq!(load.progress().0, 0);
    let load_slots = run(&mut load, good);
    assert!(load_slots.iter().all(|load_slot| load_slot.flows.len() <= 64));
    let findings = load.findings();
    assert!(findings.settings.is_partial);
    assert_eq!(findings.settings.most_aggressors, 64);

    let cap_result = |cap| {
        let setup = LoadSetup { cap, ..hardware.clone() };
        let preview = conductor(&d4(), setup).preview();
        (preview.most_aggressors, preview.is_partial)
    };
    assert_eq!(cap_result(Cap::Default), (4, true));
    assert_eq!(cap_result(Cap::Most(8)), (8, true));
    assert_eq!(cap_result(Cap::All), (16, false));
}

#[test]
fn refuses_load_that_is_not_possible() {
    let roster = fabric([0, 0, 8, 1]);
    let refused = LoadConductor::new(&roster, all(&roster), setup("incast:8,bisect:system"));
    let reason = refused.unwrap_err();
    assert!(reason.contains("incast:8: it needs 9 NICs, there are 8"), "{reason}");
    assert!(reason.contains("bisect:system: the locations"), "{reason}");
    let hardware = hardware("bisect");
    let reason = LoadConductor::new(&roster, all(&roster)[..4].into(), hardware).unwrap_err();
    assert!(reason.contains("at most 1 NICs may send: see --load-cap"), "{reason}");
}

#[test]
fn ramp_ends_the_load_that_does_harm() {
    let mut load = conductor(&d4(), setup("all2all"));
    let timeouts = |_: u32, load_slot: &LoadSlot| {
        let mut results = results(load_slot, 0, |_| 1e9);
        for result in results.iter_mut().filter(|_| load_slot.flows.len() >= 4) {
            result.watched.push((Watched::Timeouts, 1));
        }
        results
    };
    let load_slots = run(&mut load, timeouts);
    assert_eq!(load_slots.len(), 2);
    let findings = load.findings();
    assert!(findings.aborted.unwrap().contains("were not answered in time"));
    assert!(load.next_load_slots().is_empty());
}

#[test]
fn target_that_pauses_its_switch_gets_no_more_load() {
    let mut load = conductor(&d4(), setup("all2all"));
    let pausing = NicId(6);
    let paused = |_: u32, load_slot: &LoadSlot| {
        let mut results = results(load_slot, 0, |_| 1e9);
        let pausing_results = results.iter_mut().filter(|result| result.nic == pausing);
        pausing_results
            .for_each(|result| result.watched.push((Watched::RxPaused, load_slot.slot_ns)));
        results
    };
    let load_slots = run(&mut load, paused);
    let first = load_slots.iter().position(|load_slot| nics(load_slot).contains(&pausing)).unwrap();
    // The rest of its block was given out already.
    let later = load_slots[first..].iter().filter(|load_slot| nics(load_slot).contains(&pausing));
    assert!(later.count() <= 8);
    assert!(!nics(load_slots.last().unwrap()).contains(&pausing));
    assert_eq!(nics(load_slots.last().unwrap()).len(), 15);
    let left_out = load.findings().left_out;
    assert_eq!(left_out.len(), 1);
    assert!(left_out[0].reason.contains("paused its switch"), "{left_out:?}");
}

#[test]
fn load_goes_on_without_one_lost_node_and_ends_with_the_second() {
    let mut load = conductor(&d4(), setup("bisect:system,victims"));
    let lost = [NicId(3), NicId(9)];
    let mut load_slots = Vec::new();
    while load_slots.len() < 20 {
        load_slots.extend(load.next_load_slots());
    }
    load.lose(lost[0], "n3: the process ended");
    let failed = |load_slot: &LoadSlot| {
        let mut results = results(load_slot, 0, |_| 1e9);
        results.retain(|result| result.nic != lost[0]);
        for flow in load_slot.flows.iter().filter(|flow| flow.peers.contains(&lost[0])) {
            let source_results = results.iter_mut().filter(|result| result.nic == flow.source);
            source_results
                .for_each(|result| result.answer = TaskAnswer::Failed("RC_TIMEOUT".into()));
        }
        results
    };
    load_slots.iter().for_each(|load_slot| load.add(load_slot, &failed(load_slot)));
    let later = load.next_load_slots();
    assert!(!later.is_empty());
    let lost_name = d4().name(lost[0]);
    assert!(load.findings().unmeasured.contains(&lost_name));
    assert!(later.iter().all(|load_slot| !nics(load_slot).contains(&lost[0])));
    load.lose(lost[0], "again");
    assert!(!load.next_load_slots().is_empty());
    load.lose(lost[1], "n9: the process ended");
    assert!(load.next_load_slots().is_empty());
    let findings = load.findings();
    assert!(findings.aborted.unwrap().contains("2 nodes were lost"));
    let reasons: Vec<&str> =
        findings.left_out.iter().map(|left_out| left_out.reason.as_str()).collect();
    assert!(reasons.contains(&"n3: the process ended"), "{reasons:?}");
}

#[test]
fn steps_without_enough_nics_are_skipped_and_named() {
    let roster = fabric([1, 1, 10, 1]);
    let mut load = conductor(&roster, setup("bisect,incast:8"));
    load.lose(NicId(1), "gone");
    load.lose(NicId(2), "gone");
    let load_slots = run(&mut load, good);
    assert!(!purposes(&load_slots).contains(&LoadMeasurement::Bandwidth(Pattern::Incast(8))));
    let findings = load.findings();
    assert_eq!(findings.aborted, None, "nothing was sent before the losses");
    assert!(findings.left_out.iter().any(|left_out| left_out.what == "incast:8"));
}

/// Returns results in which flows from group 0 to group 2 are slow in the rounds of `slow_in`.
fn slow_links(slow_in: &[u32]) -> impl Fn(u32, &LoadSlot) -> Vec<TaskResult> {
    move |round, load_slot| {
        let is_slow = |source: NicId| {
            let flow = load_slot.flows.iter().find(|flow| flow.source == source);
            source.0 < 4 && flow.is_some_and(|flow| flow.peers.iter().all(|to| to.0 / 4 == 2))
        };
        let rate = |source| {
            if slow_in.contains(&round) && is_slow(source) { 0.25e9 } else { 1e9 }
        };
        results(load_slot, 0, rate)
    }
}

fn link_certainty(findings: &LoadFindings) -> Option<Certainty> {
    let links = |unit| matches!(unit, LoadUnit::GroupLinks { from: 0, to: 2, .. });
    let mut judgements = findings.judgements.iter();
    let found = judgements
        .find(|judgement| links(judgement.unit) && judgement.figure == LoadFigure::Bandwidth);
    let found = found.unwrap_or_else(|| panic!("no links: {:?}", findings.judgements));
    assert_eq!(found.grade, Grade::Bad);
    found.certainty
}

#[test]
fn retests_decide_how_sure_a_bad_part_is() {
    for (slow_in, expected) in [
        (&[1, 2, 3][..], Certainty::Bad),
        (&[1], Certainty::Transient),
        (&[1, 3], Certainty::Transient),
    ] {
        let mut load = conductor(&d4(), setup("bisect:switch,bisect:system,all2all"));
        let load_slots = run(&mut load, slow_links(slow_in));
        assert_eq!(link_certainty(&load.findings()), Some(expected), "{slow_in:?}");
        let findings = load.findings();
        let named = &findings.judgements[0].pattern;
        let mut patterns = findings.bandwidths.iter();
        let grade = patterns.find(|bandwidth| bandwidth.pattern == *named).unwrap().grade;
        // A part that a retest has cleared does not make its pattern bad.
        let is_bad = expected == Certainty::Bad;
        assert_eq!(grade == Grade::Bad, is_bad, "{slow_in:?}");
        let rounds = load_slots.iter().filter(|load_slot| {
            load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet)
                && load_slot.repetition == 0
        });
        assert_eq!(rounds.count(), 3);
        let count = |load_slots: &[LoadSlot], pattern| {
            let is_of_pattern =
                |load_slot: &&LoadSlot| load_slot.purpose == LoadMeasurement::Bandwidth(pattern);
            load_slots.iter().filter(is_of_pattern).count()
        };
        let switch_pattern = Pattern::Bisect { of: Set::Switch, both_ways: true };
        assert_eq!(count(&load_slots, switch_pattern), 3 * 8, "blame compares bisections");
        assert_eq!(count(&load_slots, Pattern::AllToAll), 16, "others have no retest");
        let system_load_slots: Vec<&LoadSlot> = load_slots
            .iter()
            .filter(|load_slot| {
                load_slot.purpose == LoadMeasurement::Bandwidth(SYSTEM) && load_slot.repetition == 0
            })
            .collect();
        assert_eq!(system_load_slots.len(), 3);
        assert_ne!(system_load_slots[0].flows, system_load_slots[1].flows);
        assert_ne!(system_load_slots[1].flows, system_load_slots[2].flows);
    }
}

/// One NIC is slow in the first measurement only, and a source of each incast always gets less.
#[test]
fn part_that_retests_clear_does_not_explain_unequal_shares() {
    let mut load = conductor(&d4(), setup("bisect:switch,bisect:group,incast:4"));
    run(&mut load, |round, load_slot| {
        let is_incast = load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Incast(4));
        let is_robbed = |source| {
            is_incast && load_slot.flows.iter().step_by(4).any(|flow| flow.source == source)
        };
        let is_slow = |source| round == 1 && source == NicId(5);
        results(load_slot, 0, |source| match source {
            source if is_robbed(source) || is_slow(source) => 0.1e9,
            _ => 1e9,
        })
    });
    let findings = load.findings();
    let found = |figure| findings.judgements.iter().find(|judgement| judgement.figure == figure);
    let nic_judgement = found(LoadFigure::Bandwidth).expect("a slow NIC");
    let expected = (LoadUnit::Nic(NicId(5)), Some(Certainty::Transient));
    assert_eq!((nic_judgement.unit, nic_judgement.certainty), expected);
    let share_judgement = found(LoadFigure::SmallestShare).expect("unequal shares");
    assert_eq!(share_judgement.certainty, Some(Certainty::Suspect));
}

/// The halves of twelve groups have 72 directions.
#[test]
fn findings_have_the_slowest_good_sets_only() {
    let mut load = conductor(&fabric([12, 1, 6, 1]), setup("bisect:system"));
    run(&mut load, good);
    let findings = load.findings();
    let mut patterns = findings.bandwidths.iter();
    let sets = patterns
        .find(|bandwidth| bandwidth.pattern == "bisect:system")
        .expect("a pattern")
        .sets
        .iter();
    let good = sets.filter(|set| set.grade == Grade::Good);
    let link_sets = good.filter(|set| matches!(set.unit, LoadUnit::GroupLinks { .. }));
    assert_eq!(link_sets.count(), 32);
}

#[test]
fn good_fabric_has_no_retest() {
    let mut load = conductor(&d4(), setup("bisect:switch,bisect:system"));
    let load_slots = run(&mut load, good);
    let quiet = load_slots
        .iter()
        .filter(|load_slot| load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet));
    assert_eq!(quiet.count(), 8);
}

#[test]
fn retests_that_say_nothing_leave_a_suspect() {
    // Their processes wait for CPUs.
    let mut load = conductor(&d4(), setup("bisect:system"));
    let slow = slow_links(&[1, 2, 3]);
    run(&mut load, |round, load_slot| {
        let mut results = slow(round, load_slot);
        if round > 1 {
            let untested = TaskAnswer::Untested(Untested::NoCpu);
            results.iter_mut().for_each(|result| result.answer = untested.clone());
        }
        results
    });
    assert_eq!(link_certainty(&load.findings()), Some(Certainty::Suspect));
    // The time is up in the second retest.
    for (slow_in, expected) in [(&[1, 2, 3][..], Certainty::Suspect), (&[1], Certainty::Transient)]
    {
        let mut load = conductor(&d4(), setup("bisect:system"));
        let slow = slow_links(slow_in);
        let mut round = 0;
        loop {
            let block = load.next_load_slots();
            for load_slot in &block {
                let is_quiet = load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet);
                round += u32::from(is_quiet && load_slot.repetition == 0);
                load.add(load_slot, &slow(round, load_slot));
            }
            if round == 3 {
                break;
            }
        }
        load.stop("the time was up");
        load.stop("another reason");
        assert!(load.next_load_slots().is_empty());
        let findings = load.findings();
        assert_eq!(link_certainty(&findings), Some(expected));
        assert_eq!(findings.aborted.as_deref(), Some("the time was up"));
    }
}

#[test]
fn retest_without_the_results_of_its_last_block_says_nothing() {
    let slow = slow_links(&[1]);
    let blocks = |stops_before: Option<usize>| {
        let mut load = conductor(&d4(), setup("bisect:system"));
        let (mut round, mut given) = (0, 0);
        loop {
            let block = load.next_load_slots();
            if block.is_empty() {
                return (load.findings(), given);
            }
            given += 1;
            if Some(given) == stops_before {
                load.stop("the coordinator was interrupted");
                return (load.findings(), given);
            }
            for load_slot in &block {
                let is_quiet = load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet);
                round += u32::from(is_quiet && load_slot.repetition == 0);
                // The first retest was not measured.
                if round != 2 {
                    load.add(load_slot, &slow(round, load_slot));
                }
            }
        }
    };
    let (findings, all) = blocks(None);
    assert_eq!(link_certainty(&findings), Some(Certainty::Transient));
    let (findings, _) = blocks(Some(all));
    assert_eq!(link_certainty(&findings), Some(Certainty::Suspect));
}

#[test]
fn busy_fabric_has_figures_without_verdict_and_no_retest() {
    let mut load = conductor(&d4(), setup("bisect:system"));
    load.set_busy("others use 12 % of the NICs".into());
    let load_slots = run(&mut load, slow_links(&[1, 2, 3]));
    let quiet = load_slots
        .iter()
        .filter(|load_slot| load_slot.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet));
    assert_eq!(quiet.count(), 8);
    let findings = load.findings();
    assert_eq!(findings.unjudged.as_deref(), Some("others use 12 % of the NICs"));
    assert_eq!(findings.judgements, []);
    assert!(findings.bandwidths.iter().all(|bandwidth| bandwidth.grade == Grade::Unjudged));
}

#[test]
fn nic_that_cannot_send_ends_the_load_with_partial_results() {
    let mut load = conductor(&d4(), setup("bisect:system"));
    run(&mut load, |_, load_slot| {
        let mut results = results(load_slot, 0, |_| 1e9);
        if load_slot.purpose == LoadMeasurement::Bandwidth(SYSTEM) {
            let first_results = results.iter_mut().filter(|result| result.nic == NicId(0));
            for result in first_results {
                result.answer = TaskAnswer::Sent { bytes: [0; PARTS], unreached: vec![0] };
            }
        }
        results
    });
    let findings = load.findings();
    assert!(findings.aborted.unwrap().contains("all operations of nid000000 cxi0 failed"));
    assert!(findings.bandwidths.iter().any(|bandwidth| bandwidth.pattern == "bisect:system"));
}

#[test]
fn slots_follow_the_measured_bandwidth() {
    let slow = LoadSetup { nic_rate: None, ..setup("incast:8") };
    let mut load = conductor(&d4(), slow);
    let load_slots = run(&mut load, |_, load_slot| results(load_slot, 0, |_| 50e6));
    let value_for = |pattern| {
        let purpose = LoadMeasurement::Bandwidth(pattern);
        let load_slot = load_slots.iter().find(|load_slot| load_slot.purpose == purpose).unwrap();
        (load_slot.slot_ns / 1_000_000, load_slot.window_bytes)
    };
    assert_eq!(value_for(Pattern::Quiet), (250, 1 << 20));
    // 5 · 8 · 1 MiB / 50 MB/s = 839 ms
    assert_eq!(value_for(Pattern::Incast(8)), (840, 1 << 20));
}

/// A change that makes a result a lie.
type Lie<'a> = &'a dyn Fn(&mut TaskResult);

/// The first node lies in all its reports: it is at most accused itself, and the load goes on.
#[test]
fn node_that_lies_accuses_at_most_itself() {
    const MOST: u64 = 1 << 56;
    let many = |watched| move |result: &mut TaskResult| result.watched = vec![(watched, MOST); 16];
    let answers = |answer: TaskAnswer| {
        move |result: &mut TaskResult| {
            if matches!(
                (&answer, &result.answer),
                (TaskAnswer::Failed(_), _)
                    | (TaskAnswer::Latencies(_), TaskAnswer::Latencies(_))
                    | (TaskAnswer::Sent { .. }, TaskAnswer::Sent { .. })
            ) {
                result.answer = answer.clone();
            }
        }
    };
    let mut endless = Histogram::default();
    endless.add(u64::MAX, 1);
    let sent = |bytes| TaskAnswer::Sent { bytes: [bytes; PARTS], unreached: Vec::new() };
    let lies: [(&str, Lie); 9] = [
        ("timeouts", &many(Watched::Timeouts)),
        ("paused", &many(Watched::RxPaused)),
        ("octets", &many(Watched::Octets)),
        ("marked", &many(Watched::Marked)),
        ("refused", &many(Watched::Refused)),
        ("nothing sent", &answers(sent(0))),
        ("too much sent", &answers(sent(1 << 50))),
        ("endless", &answers(TaskAnswer::Latencies(endless))),
        ("failed", &answers(TaskAnswer::Failed("no".into()))),
    ];
    let roster = fabric([4, 2, 2, 2]);
    let mut failures = String::new();
    for (name, lie) in lies {
        let mut load = conductor(&roster, setup("standard"));
        run(&mut load, |_, load_slot| {
            let mut results = results(load_slot, 0, |_| 1e9);
            let own = results.iter_mut().filter(|result| roster.nic(result.nic).node == NodeId(0));
            own.for_each(lie);
            results
        });
        let findings = load.findings();
        for judgement in &findings.judgements {
            let is_own = |nic: NicId| roster.nic(nic).node == NodeId(0);
            let accuses_itself = matches!(judgement.unit, LoadUnit::Nic(nic) if is_own(nic));
            if !accuses_itself {
                failures += &format!("{name}: {judgement:?}\n");
            }
        }
        serde_json::to_string(&findings).unwrap();
        if let Some(reason) = findings.aborted {
            assert!(reason.contains("nid000000"), "{name}: {reason}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[cfg(test)]
mod tests {
    use super::super::conductor::LoadConductor;
    use super::super::testing::{all, fabric, results, setup};

    /// Most time of the slots of the standard load, in seconds.
    const MOST_SECONDS: f64 = 300.0;

    #[test]
    fn standard_load_of_two_thousand_nics_is_short_and_takes_one_block_at_a_time() {
        assert_is_short([18, 32, 4, 1], 2304);
    }

    #[test]
    #[ignore = "needs half a minute of CPU time: tests/long runs it"]
    fn standard_load_of_ten_thousand_nics_is_short_and_takes_one_block_at_a_time() {
        assert_is_short([74, 32, 4, 1], 9472);
    }

    fn assert_is_short(shape: [u16; 4], nics: u32) {
        let roster = fabric(shape);
        let mut load = LoadConductor::new(&roster, all(&roster), setup("standard")).unwrap();
        assert_eq!(load.preview().nics, nics);
        let (mut slots, mut slots_ns, mut most_flows) = (0, 0, 0);
        loop {
            let block = load.next_load_slots();
            let Some(first) = block.first() else {
                break;
            };
            assert!(block.len() as u64 * first.slot_ns <= 2_000_000_000);
            let flows = block.iter().flat_map(|load_slot| &load_slot.flows);
            most_flows = most_flows.max(flows.map(|flow| flow.peers.len()).sum());
            for (slot, load_slot) in (0..).zip(&block) {
                slots += 1;
                slots_ns += load_slot.slot_ns;
                load.add(load_slot, &results(load_slot, slot, |_| 1e9));
            }
        }
        let findings = load.findings();
        assert_eq!(findings.settings.most_aggressors, nics);
        assert_eq!((findings.aborted, findings.left_out), (None, Vec::new()));
        let seconds = slots_ns as f64 / 1e9;
        println!("{slots} slots, {seconds} s of slots, {most_flows} flows in a block at most");
        assert!(seconds <= MOST_SECONDS, "{seconds}");
        // Eight load slots in which each NIC sends to eight others.
        assert!(most_flows <= 8 * 8 * nics as usize, "{most_flows}");
    }
}
