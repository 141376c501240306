//! All results under load so far, and what they say.

use std::collections::{BTreeMap, BTreeSet};

use super::bandwidths::{self, Yardstick};
use super::blame::{self, crossed_links};
use super::counters::CounterSums;
use super::culprit::Culprit;
use super::findings::{BandwidthFigures, Grade, ImpactFigures, LoadFindings, LoadJudgement};
pub use super::limits::ResultFacts;
use super::rates::SlotRates;
use super::slot::{pattern_name, under_name};
use super::spec::Pattern;
use super::victims::Victims;
use super::{impacts, verdicts};
use crate::slot::{LoadMeasurement, LoadSlot, VictimKey};
use campaign::quiet::roster::Roster;
use campaign::timetable::TaskResult;

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

    /// Returns the median over the NICs of their bandwidth without load, in bytes per second;
    /// `None` if it was not measured.
    pub fn quiet_bandwidth(&self) -> Option<f64> {
        let slots = self.rates.get(&Pattern::Quiet)?;
        bandwidths::median_of_nics(slots)
    }

    /// Returns the patterns of which most measurements do not count: a fault may hide in them.
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
