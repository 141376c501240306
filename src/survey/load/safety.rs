//! How much load is allowed, and when it ends early (load.md 3.8).

use std::collections::{BTreeSet, HashMap};

use crate::slot::LoadSlot;
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
    let is_above = |part_nics: &BTreeSet<NicId>, all: usize, part: f64| {
        let nodes: BTreeSet<_> = part_nics.iter().map(|nic| roster.nic(*nic).node).collect();
        nodes.len() >= LEAST_NODES && part_nics.len() as f64 > part * all as f64
    };
    if is_above(&timeouts, nics, TIMEOUTS) {
        let count = timeouts.len();
        alarms.push(Alarm::Stop(format!(
            "packets of {count} of {nics} NICs were not answered in time"
        )));
    }
    let victims = answered + unanswered.len();
    if is_above(&unanswered, victims, UNANSWERED) {
        let (count, first) = (unanswered.len(), reasons[0]);
        alarms.push(Alarm::Stop(format!(
            "operations of {count} of {victims} victims were not answered (the first: {first})"
        )));
    }
    let has_paused =
        |load_result: &&TaskResult| changed(load_result, Watched::RxPaused) > load_slot.slot_ns / 2;
    for nic in results.iter().filter(has_paused).map(|result| result.nic) {
        if load_slot.flows.iter().any(|flow| flow.peers.contains(&nic)) {
            let reason = "it paused its switch for more than half of a slot";
            alarms.push(Alarm::Spare(nic, reason.into()));
        }
    }
    alarms
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
