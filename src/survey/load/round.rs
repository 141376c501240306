//! The load slots of all steps, once: the first measurement or a retest.

use std::collections::{BTreeSet, VecDeque};

use super::pattern::Pattern;
use super::roles::RoleRules;
use super::steps::CourseStep;
use super::theory::FabricShape;
use super::timing::{LoadSizes, SlotTiming, crowd, timing};
use crate::located::LocatedNic;
use crate::results::LoadResults;
use crate::slot::{LoadMeasurement, LoadSlot};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;

/// What all rounds have in common.
#[derive(Clone, Copy, Debug)]
pub struct RoundFacts<'a> {
    /// Nodes and NICs.
    pub roster: &'a Roster,
    /// Bandwidth of a NIC, if it is known, in bytes per second.
    pub rate: Option<f64>,
    /// The shape of the fabric, if it is known.
    pub theory: Option<&'a FabricShape>,
    /// Bytes of the load.
    pub sizes: LoadSizes,
    /// How many NICs are aggressors and victims.
    pub rules: RoleRules,
}

#[derive(Clone, Debug, Default)]
pub struct RoundNics {
    /// NICs that take part without victims.
    pub nics: Vec<LocatedNic>,
    /// NICs that take part in load slots of victims.
    pub victim_nics: Vec<LocatedNic>,
}

impl RoundNics {
    /// Returns the NICs that take part in a step.
    pub fn of(&self, purpose: LoadMeasurement) -> &[LocatedNic] {
        match purpose {
            LoadMeasurement::Victims(_) => &self.victim_nics,
            LoadMeasurement::Ramp | LoadMeasurement::Bandwidth(_) => &self.nics,
        }
    }
}

/// The load slots of all steps in progress.
#[derive(Clone, Debug)]
pub struct LoadRound {
    pub steps: Vec<CourseStep>,
    pub nics: RoundNics,
    /// The results.
    pub results: LoadResults,
    /// Names of the patterns with results.
    pub measured: BTreeSet<String>,
    /// Titles of steps for which too few NICs were left.
    pub skipped: BTreeSet<String>,
    seed: u64,
    /// Index of the current step.
    at: usize,
    /// The next repetition of this step.
    repetition: u32,
    /// The timing of this step, since its first repetition.
    timing: Option<SlotTiming>,
    /// Load slots of this step that come next: at most a block and a repetition.
    queue: VecDeque<LoadSlot>,
}

impl LoadRound {
    /// Creates a round before its first load slot.
    pub fn new(steps: Vec<CourseStep>, nics: RoundNics, results: LoadResults, seed: u64) -> Self {
        Self {
            steps,
            nics,
            results,
            measured: BTreeSet::new(),
            skipped: BTreeSet::new(),
            seed,
            at: 0,
            repetition: 0,
            timing: None,
            queue: VecDeque::new(),
        }
    }

    /// Returns the number of slots of all steps.
    pub fn planned(&self) -> u32 {
        self.steps.iter().map(CourseStep::slots).sum()
    }

    /// Returns whether the round is over: the block after the last one was asked for, so the
    /// results of the last one were added.
    pub fn has_ended(&self) -> bool {
        self.at == self.steps.len()
    }

    /// Returns the title of the current step; empty at the end.
    pub fn title(&self) -> String {
        let step = self.steps.get(self.at);
        step.map(CourseStep::title).unwrap_or_default()
    }

    /// Removes a NIC from all further load slots.
    pub fn remove(&mut self, nic: NicId) {
        self.nics.nics.retain(|candidate| candidate.nic != nic);
        self.nics.victim_nics.retain(|victim| victim.nic != nic);
        for load_slot in &mut self.queue {
            load_slot.victims.retain(|pair| !pair.nics().contains(&nic));
            load_slot.flows.retain(|flow| flow.source != nic);
            for flow in &mut load_slot.flows {
                flow.peers.retain(|peer| *peer != nic);
            }
            load_slot.flows.retain(|flow| !flow.peers.is_empty());
        }
        self.queue.retain(|load_slot| !load_slot.flows.is_empty() || !load_slot.victims.is_empty());
    }

    /// Returns the next block: load slots of one step. It is empty when all steps are done.
    pub fn next_block(&mut self, facts: RoundFacts) -> Vec<LoadSlot> {
        while let Some(step) = self.steps.get(self.at).copied() {
            let most = self.timing.map(SlotTiming::slots_of_block);
            if most.is_some_and(|most| self.queue.len() >= most) {
                break;
            }
            if self.repetition < step.repetitions {
                self.add_repetition(step, facts);
            } else if self.queue.is_empty() {
                self.at += 1;
                self.repetition = 0;
                self.timing = None;
            } else {
                break;
            }
        }
        let count = self.timing.map_or(0, SlotTiming::slots_of_block).min(self.queue.len());
        self.queue.drain(..count).collect()
    }

    fn add_repetition(&mut self, step: CourseStep, facts: RoundFacts) {
        let mut slots = self.slots(step, self.repetition, facts.rules);
        if slots.is_empty() {
            self.skipped.insert(step.title());
        } else {
            let timing = *self.timing.get_or_insert_with(|| timing_of(&slots, facts));
            slots.iter_mut().for_each(|slot| timing.set(slot));
            self.queue.extend(slots);
        }
        self.repetition += 1;
    }

    pub fn slots(&self, step: CourseStep, repetition: u32, rules: RoleRules) -> Vec<LoadSlot> {
        step.repetition(self.nics.of(step.purpose), repetition, rules, self.seed)
    }

    /// Returns the pattern that loads the largest part of the fabric.
    pub fn widest(&self) -> Option<Pattern> {
        let pattern = |step: &CourseStep| match step.purpose {
            LoadMeasurement::Ramp => None,
            LoadMeasurement::Bandwidth(pattern) => Some(pattern),
            LoadMeasurement::Victims(key) => Some(key.under),
        };
        let mut patterns = self.steps.iter().filter_map(pattern);
        // The steps come from the smallest shared part outward.
        let last = patterns.clone().next_back();
        patterns.find(|pattern| *pattern == Pattern::AllToAll).or(last)
    }
}

/// Returns the timing of the slots of a step, by the flows of one repetition.
pub fn timing_of(slots: &[LoadSlot], facts: RoundFacts) -> SlotTiming {
    let links = facts.theory.map_or(1, |shape| shape.links);
    let crowds = slots.iter().map(|slot| crowd(&slot.flows, facts.roster, links));
    timing(crowds.fold(0.0, f64::max), facts.rate, facts.sizes)
}
