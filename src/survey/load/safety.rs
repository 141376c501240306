//! How much load is allowed, when it ends early, and whether others use the fabric before it
//! begins: then figures have no verdict (load.md 3.8).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::slot::LoadSlot;
use campaign::quiet::roster::{NicId, Roster};
use campaign::timetable::{TaskAnswer, TaskResult, Watched};

/// How many NICs may be aggressors at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cap {
    /// Of hardware NICs at most 64 and a quarter of the NICs; all software NICs.
    #[default]
    Default,
    /// This number.
    Most(u32),
    /// All NICs.
    All,
}

/// Most aggressors among hardware NICs by default.
const MOST_BY_DEFAULT: usize = 64;

impl Cap {
    /// The most aggressors among this number of NICs.
    pub fn most(self, nics: usize, is_hardware: bool) -> usize {
        match self {
            Self::Default if is_hardware => MOST_BY_DEFAULT.min(nics / 4),
            Self::Default | Self::All => nics,
            Self::Most(most) => nics.min(most as usize),
        }
    }
}

/// Part of the NICs above which timeouts end the load.
const TIMEOUTS: f64 = 0.01;

/// Part of the victims above which unanswered operations end the load.
const UNANSWERED: f64 = 0.05;

/// Least number of nodes whose NICs have timeouts, or whose victims have no answer, that end the
/// load. On small fabrics one of them is above the part already, and a single cable or process may
/// cause it, whatever it reports.
const LEAST_NODES: usize = 2;

/// Least number of lost nodes that end the load. A process may end for its own reasons; two of them
/// are taken for an effect of the load.
pub const LEAST_LOST_NODES: usize = 2;

/// What the results of a load slot demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The load ends, for this reason.
    Stop(String),
    /// This NIC gets no more load, for this reason.
    Spare(NicId, String),
}

/// Notes whether all operations of a flow have failed. Returns the alarm if they had in its last
/// load slot as well.
fn failed_twice(
    result: &TaskResult,
    failed: &mut BTreeSet<NicId>,
    roster: &Roster,
) -> Option<Alarm> {
    let Some(why) = failed_entirely(&result.answer) else {
        failed.remove(&result.nic);
        return None;
    };
    if failed.insert(result.nic) {
        return None;
    }
    let name = roster.name(result.nic);
    Some(Alarm::Stop(format!(
        "all operations of {name} failed twice ({why}): the NIC or its targets may be down"
    )))
}

/// Returns what the results of a load slot demand. Flows and pairs with NICs in `lost` say nothing:
/// their operations fail because a process has ended. `failed` has the NICs all of whose operations
/// failed in their last load slot: once may be the target, which a busy machine opens again.
pub fn alarms(
    load_slot: &LoadSlot,
    results: &[TaskResult],
    lost: &BTreeSet<NicId>,
    failed: &mut BTreeSet<NicId>,
    roster: &Roster,
) -> Vec<Alarm> {
    let by_nic: HashMap<NicId, &TaskResult> =
        results.iter().map(|result| (result.nic, result)).collect();
    let is_lost = |nic: &NicId| lost.contains(nic);
    let mut alarms = Vec::new();
    let mut timeouts = BTreeSet::new();
    for flow in &load_slot.flows {
        let result = by_nic.get(&flow.source);
        let Some(result) = result.filter(|_| !flow.peers.iter().any(is_lost)) else {
            continue;
        };
        alarms.extend(failed_twice(result, failed, roster));
        if changed(result, Watched::Timeouts) > 0 {
            timeouts.insert(flow.source);
        }
    }
    let is_absent = |result: &NicId| by_nic.get(result).is_some_and(|nic| nic.is_untested());
    let pairs = load_slot.victims.iter().filter(|pair| !pair.nics().iter().any(is_lost));
    let (mut answered, mut unanswered, mut reasons) = (0, BTreeSet::new(), Vec::new());
    for pair in pairs {
        let Some(result) = by_nic.get(&pair.initiator) else {
            continue;
        };
        match &result.answer {
            TaskAnswer::Failed(reason) if !is_absent(&pair.target) => {
                unanswered.insert(pair.initiator);
                reasons.push(reason);
            }
            TaskAnswer::Latencies(_) => answered += 1,
            _ => {}
        }
        if changed(result, Watched::Timeouts) > 0 {
            timeouts.insert(pair.initiator);
        }
    }
    let nics = by_nic.len();
    if is_above(&timeouts, (TIMEOUTS, nics), roster) {
        let count = timeouts.len();
        alarms.push(Alarm::Stop(format!(
            "packets of {count} of {nics} NICs were not answered in time"
        )));
    }
    let victims = answered + unanswered.len();
    if is_above(&unanswered, (UNANSWERED, victims), roster) {
        let (count, first) = (unanswered.len(), reasons[0]);
        alarms.push(Alarm::Stop(format!(
            "operations of {count} of {victims} victims were not answered (the first: {first})"
        )));
    }
    alarms.extend(spared(load_slot, results));
    alarms
}

/// The alarms about targets that have paused their switch for long.
fn spared(load_slot: &LoadSlot, results: &[TaskResult]) -> impl Iterator<Item = Alarm> {
    let has_paused =
        |result: &&TaskResult| changed(result, Watched::RxPaused) > load_slot.slot_ns / 2;
    let nics = results.iter().filter(has_paused).map(|result| result.nic);
    let targets = nics.filter(|nic| load_slot.flows.iter().any(|flow| flow.peers.contains(nic)));
    let reason = "it paused its switch for more than half of a slot";
    targets.map(|nic| Alarm::Spare(nic, reason.into()))
}

/// Whether these NICs are more than this part of a number of NICs, and on several nodes.
fn is_above(nics: &BTreeSet<NicId>, (part, all): (f64, usize), roster: &Roster) -> bool {
    let nodes: BTreeSet<_> = nics.iter().map(|nic| roster.nic(*nic).node).collect();
    nodes.len() >= LEAST_NODES && nics.len() as f64 > part * all as f64
}

/// Returns why no operation of an aggressor succeeded; `None` if one did, or none was issued.
fn failed_entirely(answer: &TaskAnswer) -> Option<String> {
    match answer {
        TaskAnswer::Failed(reason) => Some(reason.clone()),
        TaskAnswer::Sent { bytes, unreached }
            if !unreached.is_empty() && bytes.iter().all(|byte| *byte == 0) =>
        {
            Some(format!("to {} NICs", unreached.len()))
        }
        _ => None,
    }
}

fn changed(result: &TaskResult, watched: Watched) -> u64 {
    let counter = result.watched.iter().filter(|(counter, _)| *counter == watched);
    counter.fold(0, |sum, (_, by)| sum.saturating_add(*by))
}

/// Bytes per second and direction of a link of 200 Gb/s, the slowest one of a Cassini NIC.
const LINE_RATE: f64 = 25e9;

/// Part of the line rate from which on a NIC counts as used, and part of the NICs that may be.
const USED: f64 = 0.01;
const MOST_USED: f64 = 0.05;

/// Part of the packets that may arrive with a mark of congestion.
const MOST_MARKED: f64 = 0.01;

/// Returns how others use the fabric, in words, from what NICs without own traffic have counted for
/// this long, in seconds. `None` if it is idle.
pub fn foreign_traffic(results: &[TaskResult], seconds: f64) -> Option<String> {
    let mut octets: BTreeMap<NicId, u64> = BTreeMap::new();
    let (mut marked, mut unmarked) = (0_u64, 0_u64);
    for result in results {
        let nic_octets = octets.entry(result.nic).or_default();
        for (watched, change) in &result.watched {
            let sum = match watched {
                Watched::Octets => &mut *nic_octets,
                Watched::Marked => &mut marked,
                Watched::Unmarked => &mut unmarked,
                _ => continue,
            };
            *sum = sum.saturating_add(*change);
        }
    }
    // Both directions together, which is stricter than each alone.
    let is_used = |octets: &&u64| **octets as f64 > USED * LINE_RATE * seconds;
    let (used, all) = (octets.values().filter(is_used).count(), octets.len());
    if used as f64 > MOST_USED * all as f64 {
        return Some(format!("{used} of {all} NICs had traffic of others before it"));
    }
    let packets = marked.saturating_add(unmarked);
    let part = marked as f64 / packets.max(1) as f64;
    (part > MOST_MARKED).then(|| {
        let percent = 100.0 * part;
        format!("{percent:.0} % of the packets before it had marks of congestion")
    })
}

#[cfg(test)]
mod tests {
    //! The cap, and when the load ends early.

    use std::collections::BTreeSet;

    use super::super::spec::Pattern;
    use super::super::testing::{fabric, results};
    use super::*;
    use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot};
    use campaign::quiet::answer::Untested;
    use campaign::quiet::roster::NicId;
    use campaign::quiet::testing::pair;
    use campaign::timetable::{PARTS, TaskAnswer, TaskResult, Watched};

    fn nic_results(count: u32, used: u32, counters: &[(Watched, u64)]) -> Vec<TaskResult> {
        let nic_result = |nic| TaskResult {
            watched: if nic < used { counters.to_vec() } else { Vec::new() },
            ..TaskResult::new(0, NicId(nic), TaskAnswer::Present)
        };
        (0..count).map(nic_result).collect()
    }

    #[test]
    fn traffic_of_others_is_noticed() {
        let text = |used, octets| {
            foreign_traffic(&nic_results(40, used, &[(Watched::Octets, octets)]), 2.0)
        };
        // 1 % of 25 GB/s for 2 s is 500 MB.
        assert_eq!(text(3, 500_000_000), None);
        assert_eq!(text(2, 2_000_000_000), None);
        let noticed = text(3, 500_000_001).unwrap();
        assert_eq!(noticed, "3 of 40 NICs had traffic of others before it");
        assert_eq!(foreign_traffic(&[], 2.0), None);
    }

    #[test]
    fn marks_of_congestion_are_noticed() {
        let text = |marked| {
            let counters = [(Watched::Marked, marked), (Watched::Unmarked, 1000 - marked)];
            foreign_traffic(&nic_results(40, 1, &counters), 2.0)
        };
        assert_eq!(text(10), None);
        let noticed = text(20).unwrap();
        assert_eq!(noticed, "2 % of the packets before it had marks of congestion");
    }

    /// A load slot in which each of the first `sources` NICs sends to the NIC after them, and pairs
    /// of later NICs measure.
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
    fn alarms_of(
        load_slot: &LoadSlot,
        lost: &[u32],
        change: impl Fn(&mut TaskResult),
    ) -> Vec<Alarm> {
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
                if matches!(result.answer, TaskAnswer::Latencies(_)) && result.nic.0 < 9 + 2 * count
                {
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
        let untested =
            |result: &mut TaskResult| result.answer = TaskAnswer::Untested(Untested::Late);
        assert_eq!(alarms_of(&load_slot(8, 4), &[], untested), []);
    }
}
