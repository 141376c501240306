//! The cap, and when the load ends early.

use std::collections::BTreeSet;

use super::pattern::Pattern;
use super::safety::{Alarm, Cap, alarms};
use super::testing::{fabric, results};
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot};
use campaign::quiet::answer::Untested;
use campaign::quiet::ids::NicId;
use campaign::quiet::testing::pair;
use campaign::timetable::{PARTS, TaskAnswer, TaskResult, Watched};

/// Returns a load slot in which each of the first `sources` NICs sends to the NIC after them, and
/// pairs of later NICs measure.
fn load_slot(sources: u32, victims: u32) -> LoadSlot {
    let flow = |source| LoadFlow { source: NicId(source), peers: vec![NicId(sources)] };
    let victim = |number| pair(sources + 1 + 2 * number, sources + 2 + 2 * number);
    LoadSlot {
        purpose: LoadMeasurement::Bandwidth(Pattern::Incast(sources as u16)),
        repetition: 0,
        place: 0,
        flows: (0..sources).map(flow).collect(),
        victims: (0..victims).map(victim).collect(),
        slot_ns: 250_000_000,
        window_bytes: 1 << 20,
    }
}

/// Returns what the results of a load slot demand if the load slot before had the same ones.
fn alarms_of(load_slot: &LoadSlot, lost: &[u32], change: impl Fn(&mut TaskResult)) -> Vec<Alarm> {
    alarms_in_turn(load_slot, lost, [&change, &change]).pop().unwrap()
}

/// Returns what the results of load slots demand that follow each other.
fn alarms_in_turn<const N: usize>(
    load_slot: &LoadSlot,
    lost: &[u32],
    changes: [&dyn Fn(&mut TaskResult); N],
) -> Vec<Vec<Alarm>> {
    let roster = fabric([0, 0, 1000, 1]);
    let lost: BTreeSet<NicId> = lost.iter().map(|nic| NicId(*nic)).collect();
    let mut failed = BTreeSet::new();
    let change_alarms = |change: &dyn Fn(&mut TaskResult)| {
        let mut results = results(load_slot, 0, |_| 1e9);
        results.iter_mut().for_each(change);
        alarms(load_slot, &results, &lost, &mut failed, &roster)
    };
    changes.into_iter().map(change_alarms).collect()
}

fn reason(alarms: &[Alarm]) -> &str {
    match alarms {
        [Alarm::Stop(reason)] => reason,
        other => panic!("expected one reason to stop: {other:?}"),
    }
}

#[test]
fn default_cap_is_for_hardware_only() {
    assert_eq!(Cap::Default.most(10_000, true), 64);
    assert_eq!(Cap::Default.most(100, true), 25);
    assert_eq!(Cap::Default.most(10_000, false), 10_000);
    assert_eq!(Cap::All.most(10_000, true), 10_000);
    assert_eq!(Cap::Most(300).most(10_000, true), 300);
    assert_eq!(Cap::Most(300).most(100, false), 100);
}

#[test]
fn good_results_raise_no_alarm() {
    assert_eq!(alarms_of(&load_slot(8, 20), &[], |_| {}), []);
}

#[test]
fn nic_without_any_success_ends_the_load() {
    let fail = |nic: u32, answer: TaskAnswer| {
        move |result: &mut TaskResult| {
            if result.nic == NicId(nic) {
                result.answer = answer.clone();
            }
        }
    };
    let failed = TaskAnswer::Failed("RC_UNDELIVERABLE".into());
    let found = alarms_of(&load_slot(8, 0), &[], fail(3, failed.clone()));
    assert!(reason(&found).contains("nid000003 cxi0 failed twice (RC_UNDELIVERABLE)"));
    let sent = |bytes: u64, unreached| TaskAnswer::Sent {
        bytes: [bytes; PARTS],
        unreached: (0..unreached).collect(),
    };
    let found = alarms_of(&load_slot(8, 0), &[], fail(3, sent(0, 5)));
    assert!(reason(&found).contains("(to 5 NICs)"));
    // Some operations succeeded; none was issued; the target has ended.
    assert_eq!(alarms_of(&load_slot(8, 0), &[], fail(3, sent(1, 5))), []);
    assert_eq!(alarms_of(&load_slot(8, 0), &[], fail(3, sent(0, 0))), []);
    assert_eq!(alarms_of(&load_slot(8, 0), &[8], fail(3, failed)), []);
}

#[test]
fn nic_that_fails_once_does_not_end_the_load() {
    let fail = |result: &mut TaskResult| {
        if result.nic == NicId(3) {
            result.answer = TaskAnswer::Failed("UNDELIVERABLE".into());
        }
    };
    let good = |_: &mut TaskResult| {};
    let changes: [&dyn Fn(&mut TaskResult); 4] = [&fail, &good, &fail, &fail];
    let found = alarms_in_turn(&load_slot(8, 0), &[], changes);
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1]);
}

#[test]
fn timeouts_of_two_nics_and_one_percent_end_the_load() {
    let with_timeouts = |count: u32| {
        move |result: &mut TaskResult| {
            if result.nic.0 < count {
                result.watched.push((Watched::Timeouts, 1));
            }
        }
    };
    assert_eq!(alarms_of(&load_slot(15, 0), &[], with_timeouts(1)), []);
    assert_eq!(alarms_of(&load_slot(15, 0), &[15], with_timeouts(9)), []);
    let found = alarms_of(&load_slot(15, 0), &[], with_timeouts(2));
    assert!(reason(&found).contains("2 of 16 NICs"));
    // 5 of 500 NICs are not above 1 %.
    assert_eq!(alarms_of(&load_slot(499, 0), &[], with_timeouts(5)), []);
    assert_eq!(alarms_of(&load_slot(499, 0), &[], with_timeouts(6)).len(), 1);
}

#[test]
fn target_that_pauses_its_switch_is_spared() {
    let paused = |ns: u64| {
        move |result: &mut TaskResult| {
            if result.nic == NicId(8) {
                result.watched.push((Watched::RxPaused, ns));
            }
        }
    };
    assert_eq!(alarms_of(&load_slot(8, 0), &[], paused(125_000_000)), []);
    let found = alarms_of(&load_slot(8, 0), &[], paused(125_000_001));
    assert!(matches!(&found[..], [Alarm::Spare(NicId(8), _)]), "{found:?}");
}

#[test]
fn unanswered_victims_end_the_load() {
    let fail_first = |count: u32| {
        move |result: &mut TaskResult| {
            if matches!(result.answer, TaskAnswer::Latencies(_)) && result.nic.0 < 9 + 2 * count {
                result.answer = TaskAnswer::Failed("no answer".into());
            }
        }
    };
    assert_eq!(alarms_of(&load_slot(8, 4), &[], fail_first(1)), []);
    let found = alarms_of(&load_slot(8, 4), &[], fail_first(2));
    assert!(reason(&found).contains("2 of 4 victims were not answered (the first: no answer)"));
    // Targets that came late cannot answer.
    let late = |result: &mut TaskResult| {
        fail_first(2)(result);
        if result.answer == TaskAnswer::Present && result.nic.0 > 8 {
            result.answer = TaskAnswer::Untested(Untested::Late);
        }
    };
    assert_eq!(alarms_of(&load_slot(8, 4), &[], late), []);
    // Two of three failures have a lost partner; 2 of 40 victims are not above 5 %.
    assert_eq!(alarms_of(&load_slot(8, 4), &[10, 11], fail_first(3)), []);
    assert_eq!(alarms_of(&load_slot(8, 40), &[], fail_first(2)), []);
    let untested = |result: &mut TaskResult| result.answer = TaskAnswer::Untested(Untested::Late);
    assert_eq!(alarms_of(&load_slot(8, 4), &[], untested), []);
}
