//! What counters of NICs say about load (load.md 2.4).

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{CounterFigures, Grade, LoadFigure, LoadJudgement, LoadUnit};
use super::slot::{pattern_name, purpose_name};
use super::spec::Pattern;
use crate::slot::{LoadMeasurement, LoadSlot};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use campaign::timetable::{TaskResult, Watched};

/// Largest part of the slots in which a switch pauses a victim, or a target pauses its switch,
/// without a verdict.
const MOST_PAUSED: f64 = 0.01;

/// Most NICs in a sentence.
const MOST_NAMES: usize = 4;

/// The counters of all slots so far.
#[derive(Clone, Debug, Default)]
pub struct CounterSums {
    patterns: BTreeMap<String, PatternSums>,
    /// Lost answers by NIC.
    timeouts: BTreeMap<NicId, u64>,
}

#[derive(Clone, Debug, Default)]
struct PatternSums {
    aggressors: BTreeMap<Watched, u64>,
    victims: BTreeMap<Watched, u64>,
    /// Pauses of victims, which are no target of the load, by NIC.
    paused_victims: BTreeMap<NicId, PausedTime>,
    /// Pauses by targets of the load, by NIC.
    pausing_targets: BTreeMap<NicId, PausedTime>,
}

/// How long a NIC was paused, or paused its switch, and the length of its slots, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct PausedTime {
    paused_ns: u64,
    all_ns: u64,
}

impl PausedTime {
    /// Adds a slot. The classes of a NIC may be paused at the same time: not for longer than the
    /// slot.
    fn add(&mut self, paused_ns: u64, slot_ns: u64) {
        self.paused_ns += paused_ns.min(slot_ns);
        self.all_ns += slot_ns;
    }

    fn part(self) -> f64 {
        self.paused_ns as f64 / self.all_ns.max(1) as f64
    }
}

impl CounterSums {
    /// Adds the counters of a load slot. Load slots of victims without load belong to the pattern
    /// "quiet".
    pub fn add(&mut self, load_slot: &LoadSlot, results: &[TaskResult]) {
        let name = match load_slot.purpose {
            LoadMeasurement::Ramp => return,
            _ if load_slot.is_quiet() => pattern_name(Pattern::Quiet),
            purpose => purpose_name(purpose),
        };
        let sums = self.patterns.entry(name).or_default();
        let targets: BTreeSet<NicId> =
            load_slot.flows.iter().flat_map(|flow| &flow.peers).copied().collect();
        let sources: BTreeSet<NicId> = load_slot.flows.iter().map(|flow| flow.source).collect();
        let at_target = matches!(load_slot.purpose, LoadMeasurement::Victims(key) if key.at_target);
        let victims: BTreeSet<NicId> =
            load_slot.victims.iter().flat_map(|victim| victim.nics()).collect();
        for result in results {
            let nic = result.nic;
            let is_aggressor = sources.contains(&nic) || targets.contains(&nic);
            let is_victim = !is_aggressor && victims.contains(&nic);
            let role_counts = if is_victim { &mut sums.victims } else { &mut sums.aggressors };
            let mut nic_counts: BTreeMap<Watched, u64> = BTreeMap::new();
            for (watched, change) in &result.watched {
                for sums in [&mut nic_counts, &mut *role_counts] {
                    grow(sums.entry(*watched).or_default(), *change);
                }
            }
            let change = |watched: Watched| nic_counts.get(&watched).copied().unwrap_or(0);
            if is_victim && !load_slot.is_quiet() && !at_target {
                let paused = sums.paused_victims.entry(nic).or_default();
                paused.add(change(Watched::TxPaused), load_slot.slot_ns);
            }
            if targets.contains(&nic) {
                let pausing = sums.pausing_targets.entry(nic).or_default();
                pausing.add(change(Watched::RxPaused), load_slot.slot_ns);
            }
            if change(Watched::Timeouts) > 0 {
                let timeouts = self.timeouts.entry(nic).or_default();
                grow(timeouts, change(Watched::Timeouts));
            }
        }
    }

    /// Returns the sums of each pattern.
    pub fn figures(&self) -> Vec<CounterFigures> {
        let listed = |counts: &BTreeMap<Watched, u64>| {
            counts.iter().map(|(watched, sum)| (*watched, *sum)).collect()
        };
        let figures = self.patterns.iter().map(|(pattern, sums)| CounterFigures {
            pattern: pattern.clone(),
            aggressors: listed(&sums.aggressors),
            victims: listed(&sums.victims),
        });
        figures.collect()
    }

    /// Returns what the counters say: lost answers and paused victims are bad, targets that pause
    /// their switch are slow. Refused and repeated requests are usual where many send to one.
    pub fn judgements(&self, roster: &Roster) -> Vec<LoadJudgement> {
        let paused = self.paused_victims(roster);
        let timeouts = self.lost_answers(roster);
        let mut judgements: Vec<LoadJudgement> = timeouts.into_iter().chain(paused).collect();
        judgements.extend(self.slow_targets());
        judgements
    }

    /// Returns the lost answers: of the system, or of each NIC of the one node that reports them.
    fn lost_answers(&self, roster: &Roster) -> Vec<LoadJudgement> {
        let lost = |sums: &PatternSums| {
            let count = |sums: &BTreeMap<Watched, u64>| sums.get(&Watched::Timeouts).copied();
            let victim_timeouts = count(&sums.victims).unwrap_or(0);
            count(&sums.aggressors).unwrap_or(0).saturating_add(victim_timeouts)
        };
        let patterns = self.patterns.iter();
        let Some((pattern, _)) = patterns.max_by_key(|(_, sums)| lost(sums)) else {
            return Vec::new();
        };
        let judgement = |unit, timeouts: &BTreeMap<NicId, u64>| {
            let sum = timeouts.values().fold(0, |sum: u64, timeout| sum.saturating_add(*timeout));
            let names = names(roster, timeouts.keys().copied());
            LoadJudgement::new(
                LoadFigure::Timeouts,
                unit,
                pattern.clone(),
                (Grade::Bad, sum as f64, 0.0),
                vec![format!("Senders without an answer: {names}.")],
            )
        };
        let nodes = self.timeouts.keys().map(|nic| roster.nic(*nic).node);
        if nodes.collect::<BTreeSet<_>>().len() > 1 {
            return vec![judgement(LoadUnit::System, &self.timeouts)];
        }
        let nics = self.timeouts.iter();
        let nic_judgement = |(nic, sum): (&NicId, &u64)| {
            judgement(LoadUnit::Nic(*nic), &BTreeMap::from([(*nic, *sum)]))
        };
        nics.map(nic_judgement).collect()
    }

    fn paused_victims(&self, roster: &Roster) -> Option<LoadJudgement> {
        let paused_under = |(pattern, sums): (&String, &PatternSums)| {
            let parts = sums.paused_victims.iter().map(|(nic, time)| (*nic, time.part()));
            let paused: Vec<(NicId, f64)> = parts.filter(|part| part.1 > MOST_PAUSED).collect();
            let most = paused.iter().map(|paused| paused.1).fold(0.0, f64::max);
            (most > 0.0).then(|| (pattern.clone(), paused, most))
        };
        let patterns = self.patterns.iter().filter_map(paused_under);
        let (pattern, paused, value) = patterns.max_by(|one, other| one.2.total_cmp(&other.2))?;
        let count = paused.len();
        let names = names(roster, paused.into_iter().map(|paused| paused.0));
        Some(LoadJudgement::new(
            LoadFigure::VictimsPaused,
            LoadUnit::System,
            pattern,
            (Grade::Bad, value, MOST_PAUSED),
            vec![format!(
                "Congestion spreads: switches paused {count} victims, whose targets were idle: {names}."
            )],
        ))
    }

    fn slow_targets(&self) -> Vec<LoadJudgement> {
        let mut longest_pauses: BTreeMap<NicId, (f64, &str)> = BTreeMap::new();
        for (pattern, sums) in &self.patterns {
            for (nic, time) in &sums.pausing_targets {
                let known = longest_pauses.entry(*nic).or_insert((0.0, pattern));
                if time.part() > known.0 {
                    *known = (time.part(), pattern);
                }
            }
        }
        let judgement = |unit, pattern: &str, value, evidence: String| {
            LoadJudgement::new(
                LoadFigure::TargetPauses,
                unit,
                pattern,
                (Grade::Slow, value, MOST_PAUSED),
                vec![evidence],
            )
        };
        let targets = longest_pauses.len();
        let mut slow = longest_pauses;
        slow.retain(|_, (part, _)| *part > MOST_PAUSED);
        let count = slow.len();
        let worst = slow.values().max_by(|one, other| one.0.total_cmp(&other.0));
        // Where most hosts are too slow, a line for each says nothing more than one for all.
        match worst {
            Some((value, pattern)) if count > MOST_NAMES && 2 * count > targets => {
                let text = format!("{count} of {targets} hosts are too slow, not the fabric.");
                vec![judgement(LoadUnit::System, pattern, *value, text)]
            }
            _ => slow
                .into_iter()
                .map(|(nic, (value, pattern))| {
                    let text = "The host is too slow, not the fabric.".to_owned();
                    judgement(LoadUnit::Nic(nic), pattern, value, text)
                })
                .collect(),
        }
    }
}

/// Adds a change to a sum: members report what they like.
fn grow(sum: &mut u64, change: u64) {
    *sum = sum.saturating_add(change);
}

/// Returns the names of the first NICs, and the number of the others.
fn names(roster: &Roster, nics: impl Iterator<Item = NicId>) -> String {
    let nics: Vec<NicId> = nics.collect();
    let shown = nics.iter().take(MOST_NAMES).map(|nic| roster.name(*nic));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(others) = nics.len().checked_sub(MOST_NAMES).filter(|others| *others > 0) {
        text.push_str(&format!(" and {others} others"));
    }
    text
}
