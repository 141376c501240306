//! All results under load so far, and what they say.

use std::collections::BTreeMap;

use super::bandwidths;
use super::findings::LoadFindings;
use super::pattern::Pattern;
use super::rates::SlotRates;
use super::scene::{Purpose, Scene};
use super::theory::FabricShape;
use super::timetable::LoadResult;
use crate::survey::findings::Test;
use crate::survey::roster::Roster;

/// What the verdict needs to know about the survey.
#[derive(Clone, Debug, PartialEq)]
pub struct TallyFacts {
    /// The shape of the fabric, if the user has given it.
    pub theory: Option<FabricShape>,
    /// Whether a cap kept the load below what the NICs can do: then no bandwidth is a share of
    /// theory.
    pub is_partial: bool,
    /// What victims measure.
    pub victim_test: Test,
    /// Name of the other traffic class of victims, if the survey has one.
    pub other_class: Option<String>,
    /// Seed of the bootstrap samples.
    pub seed: u64,
}

/// All results under load so far.
#[derive(Clone, Debug)]
pub struct Tally {
    roster: Roster,
    facts: TallyFacts,
    rates: BTreeMap<Pattern, Vec<SlotRates>>,
}

impl Tally {
    /// Creates a tally without results.
    pub fn new(roster: &Roster, facts: TallyFacts) -> Self {
        Self {
            roster: roster.clone(),
            facts,
            rates: BTreeMap::new(),
        }
    }

    /// Adds the results of the tasks of a scene.
    pub fn add(&mut self, scene: &Scene, results: &[LoadResult]) {
        if let Purpose::Bandwidth(pattern) = scene.purpose {
            let rates = SlotRates::of(scene, results);
            self.rates.entry(pattern).or_default().push(rates);
        }
    }

    /// Returns the median over the NICs of their bandwidth without load, in bytes per second;
    /// `None` if it was not measured.
    pub fn quiet_bandwidth(&self) -> Option<f64> {
        let slots = self.rates.get(&Pattern::Quiet)?;
        bandwidths::median_of_nics(slots)
    }

    /// Returns what the results say. No judgement has a certainty yet.
    pub fn findings(&self) -> LoadFindings {
        let quiet = self.quiet_bandwidth();
        let figures = self.rates.iter();
        LoadFindings {
            quiet_bandwidth: quiet,
            bandwidths: figures
                .map(|(pattern, slots)| bandwidths::figures(*pattern, slots, quiet))
                .collect(),
            ..LoadFindings::default()
        }
    }
}
