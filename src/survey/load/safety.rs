//! How much load is allowed, when it ends early, and whether others use the fabric before it
//! begins: then figures have no verdict (load.md 3.8).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::slot::LoadSlot;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
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
    /// Returns the most aggressors among this number of NICs.
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

/// Returns the alarms about targets that have paused their switch for long.
fn spared(load_slot: &LoadSlot, results: &[TaskResult]) -> impl Iterator<Item = Alarm> {
    let has_paused =
        |result: &&TaskResult| changed(result, Watched::RxPaused) > load_slot.slot_ns / 2;
    let nics = results.iter().filter(has_paused).map(|result| result.nic);
    let targets = nics.filter(|nic| load_slot.flows.iter().any(|flow| flow.peers.contains(nic)));
    let reason = "it paused its switch for more than half of a slot";
    targets.map(|nic| Alarm::Spare(nic, reason.into()))
}

/// Returns whether these NICs are more than this part of a number of NICs, and on several nodes.
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
    use super::*;
    use campaign::timetable::TaskAnswer;

    fn results(count: u32, used: u32, counters: &[(Watched, u64)]) -> Vec<TaskResult> {
        let nic_result = |nic| TaskResult {
            watched: if nic < used { counters.to_vec() } else { Vec::new() },
            ..TaskResult::new(0, NicId(nic), TaskAnswer::Present)
        };
        (0..count).map(nic_result).collect()
    }

    #[test]
    fn traffic_of_others_is_noticed() {
        let text =
            |used, octets| foreign_traffic(&results(40, used, &[(Watched::Octets, octets)]), 2.0);
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
            foreign_traffic(&results(40, 1, &counters), 2.0)
        };
        assert_eq!(text(10), None);
        let noticed = text(20).unwrap();
        assert_eq!(noticed, "2 % of the packets before it had marks of congestion");
    }
}
