//! All results under load so far, and what they say; what counters of NICs say about load (load.md
//! 2.4).

use std::collections::{BTreeMap, BTreeSet};

use super::bandwidths::{self, Yardstick};
use super::blame::{self, crossed_links};
use super::culprits::Culprit;
use super::findings::{
    BandwidthFigures, CounterFigures, Grade, ImpactFigures, LoadFigure, LoadFindings,
    LoadJudgement, LoadUnit,
};
use super::slot::{
    LoadMeasurement, LoadSlot, SlotRates, VictimKey, pattern_name, purpose_name, under_name,
};
use super::spec::Pattern;
use super::victims::Victims;
use super::{impacts, verdicts};
use campaign::quiet::roster::{NicId, Roster};
use campaign::timetable::{TaskResult, Watched};

pub use super::limits::ResultFacts;

/// Largest rate of a NIC, as a multiple of the median without load: NICs of several generations
/// differ less, and an impossible rate would make the shares of all others look small.
const MOST_OF_QUIET: f64 = 10.0;

/// All results under load so far.
#[derive(Clone, Debug)]
pub struct LoadResults {
    roster: Roster,
    facts: ResultFacts,
    rates: BTreeMap<Pattern, Vec<SlotRates>>,
    victims: BTreeMap<VictimKey, Victims>,
    counters: CounterSums,
}

impl LoadResults {
    /// Creates a results without results.
    pub fn new(roster: &Roster, facts: ResultFacts) -> Self {
        Self {
            roster: roster.clone(),
            facts,
            rates: BTreeMap::new(),
            victims: BTreeMap::new(),
            counters: CounterSums::default(),
        }
    }

    /// Adds the results of the tasks of a load slot.
    pub fn add(&mut self, load_slot: &LoadSlot, results: &[TaskResult]) {
        self.counters.add(load_slot, results);
        if let LoadMeasurement::Bandwidth(pattern) = load_slot.purpose {
            let mut rates = SlotRates::of(load_slot, results);
            if let Some(quiet) = self.quiet_bandwidth() {
                rates.leave_out_above(MOST_OF_QUIET * quiet, load_slot);
            }
            self.rates.entry(pattern).or_default().push(rates);
        }
        if let LoadMeasurement::Victims(key) = load_slot.purpose {
            let is_bandwidth = self.facts.victim_test.of_bandwidth;
            let victims = self.victims.entry(key).or_default();
            victims.add(&self.roster, load_slot, results, is_bandwidth);
        }
    }

    /// The median over the NICs of their bandwidth without load, in bytes per second; `None` if it
    /// was not measured.
    pub fn quiet_bandwidth(&self) -> Option<f64> {
        let slots = self.rates.get(&Pattern::Quiet)?;
        bandwidths::median_of_nics(slots)
    }

    /// The patterns of which most measurements do not count: a fault may hide in them.
    fn unmeasured(&self) -> Vec<String> {
        let pattern_text = |(pattern, slots): (&Pattern, &Vec<SlotRates>)| {
            let counted: usize = slots.iter().map(|slot| slot.sent.len()).sum();
            let others: usize = slots.iter().map(|slot| slot.unjudged.len()).sum();
            (counted < others).then(|| pattern_name(*pattern))
        };
        let victim_text = |(key, victims): (&VictimKey, &Victims)| {
            let (counted, others): (Vec<_>, Vec<_>) =
                victims.pairs(None).partition(|medians| medians.measured().is_some());
            let name = under_name(key.under, key.at_target);
            (counted.len() < others.len()).then(|| format!("victims under {name}"))
        };
        let bandwidths = self.rates.iter().filter_map(pattern_text);
        let victims: BTreeSet<String> = self.victims.iter().filter_map(victim_text).collect();
        bandwidths.chain(victims).collect()
    }

    /// Returns what the results say. No judgement has a certainty yet, and the settings and what
    /// was left out are empty.
    pub fn findings(&self) -> LoadFindings {
        self.findings_after(|_| false)
    }

    /// Returns what the results say if retests have cleared the parts that `is_cleared` accepts:
    /// then they explain nothing.
    pub fn findings_after(&self, is_cleared: impl Fn(&LoadJudgement) -> bool) -> LoadFindings {
        let quiet = self.quiet_bandwidth();
        let yardstick =
            Yardstick { quiet, shape: self.facts.theory.filter(|_| !self.facts.is_partial) };
        let pattern_figures = |(pattern, slots): (&Pattern, &Vec<SlotRates>)| {
            let figures = bandwidths::pattern_bandwidths(&self.roster, *pattern, slots, yardstick);
            (*pattern, figures)
        };
        let bandwidths: BTreeMap<Pattern, BandwidthFigures> =
            self.rates.iter().map(pattern_figures).collect();
        let victim_impacts = |(key, victims): (&VictimKey, &Victims)| {
            let figures = impacts::figures(*key, victims, &self.facts).into_iter();
            figures.map(|impact| (*key, impact)).collect::<Vec<_>>()
        };
        let impacts: Vec<(VictimKey, ImpactFigures)> =
            self.victims.iter().flat_map(victim_impacts).collect();
        let isolations =
            impacts::isolation_figures(&self.victims, self.facts.other_class.as_deref());
        let culprits = blame::culprits(&self.roster, &self.rates);
        let mut judgements: Vec<LoadJudgement> = culprits.iter().map(Culprit::judgement).collect();
        let mut system_judgements = verdicts::share_judgements(&bandwidths);
        system_judgements.extend(verdicts::star_judgements(&self.roster, &bandwidths));
        system_judgements.extend(verdicts::dead_path_judgement(&self.roster, &self.rates));
        let parts = judgements.iter().filter(|part| !is_cleared(part));
        let unexplained = verdicts::unexplained(system_judgements, parts);
        judgements.extend(unexplained);
        judgements.extend(verdicts::impact_judgements(&self.roster, &impacts));
        judgements.extend(verdicts::unanswered_judgement(&self.victims));
        judgements.extend(isolations.iter().filter_map(impacts::judgement));
        judgements.extend(self.counters.judgements(&self.roster));
        judgements.sort_by_key(|judgement| (judgement.grade != Grade::Bad, judgement.unit));
        let mut impacts: Vec<ImpactFigures> =
            impacts.into_iter().map(|(_, impact)| impact).collect();
        // Tables have one pattern and class of traffic each.
        impacts.sort_by(|one, other| {
            let table =
                |figures: &ImpactFigures| (figures.under.clone(), figures.traffic_class.clone());
            table(one).cmp(&table(other))
        });
        LoadFindings {
            quiet_bandwidth: quiet,
            judgements,
            bandwidths: bandwidths.into_values().collect(),
            impacts,
            isolations,
            counters: self.counters.figures(),
            crossed: crossed_links(&self.roster, &self.rates),
            unmeasured: self.unmeasured(),
            ..LoadFindings::default()
        }
    }
}

/// Largest part of the slots in which a switch pauses a victim, or a target pauses its switch,
/// without a verdict.
const MOST_PAUSED: f64 = 0.01;

/// Most NICs in a sentence.
const MOST_NAMES: usize = 4;

/// The counters of all slots so far.
#[derive(Clone, Debug, Default)]
struct CounterSums {
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

    /// The sums of each pattern.
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

    /// The lost answers: of the system, or of each NIC of the one node that reports them.
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

/// The names of the first NICs, and the number of the others.
fn names(roster: &Roster, nics: impl Iterator<Item = NicId>) -> String {
    let nics: Vec<NicId> = nics.collect();
    let shown = nics.iter().take(MOST_NAMES).map(|nic| roster.name(*nic));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(others) = nics.len().checked_sub(MOST_NAMES).filter(|others| *others > 0) {
        text.push_str(&format!(" and {others} others"));
    }
    text
}
