//! The load slots of all steps, once: the first measurement or a retest. How long slots are, and
//! how much an aggressor has under way (load.md 3.4 and 4.6).

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::course::CourseStep;
use super::limits::FabricShape;
use super::results::LoadResults;
use super::roles::{LocatedNic, RoleRules};
use super::slot::{LoadFlow, LoadMeasurement, LoadSlot};
use super::spec::Pattern;
use campaign::quiet::roster::{NicId, Roster};

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
    /// The NICs that take part in a step.
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

    /// The number of slots of all steps.
    pub fn planned(&self) -> u32 {
        self.steps.iter().map(CourseStep::slots).sum()
    }

    /// Whether the round is over: the block after the last one was asked for, so the results of the
    /// last one were added.
    pub fn has_ended(&self) -> bool {
        self.at == self.steps.len()
    }

    /// The title of the current step; empty at the end.
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

    /// The next block: load slots of one step. It is empty when all steps are done.
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

    /// The pattern that loads the largest part of the fabric.
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

/// The timing of the slots of a step, by the flows of one repetition.
pub fn timing_of(slots: &[LoadSlot], facts: RoundFacts) -> SlotTiming {
    let links = facts.theory.map_or(1, |shape| shape.links);
    let crowds = slots.iter().map(|slot| crowd(&slot.flows, facts.roster, links));
    timing(crowds.fold(0.0, f64::max), facts.rate, facts.sizes)
}

/// The length of slots of fast NICs.
const USUAL_NS: u64 = 250_000_000;

/// The longest slot: a NIC that pauses its switch for longer loses all packets.
const LONGEST_NS: u64 = 1_000_000_000;

/// Slots are whole multiples of this time.
const STEP_NS: u64 = 10_000_000;

/// Most time of the load slots of a block: load without a coordinator ends within this time.
const BLOCK_NS: u64 = 2_000_000_000;

/// How often the flows that share a link fill their windows in a slot.
const TURNS: f64 = 5.0;

/// Least number of flows for which there is time.
const LEAST_CROWD: f64 = 4.0;

/// How the slots of a step are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTiming {
    /// Length of the slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

impl SlotTiming {
    /// The number of slots of a block, at least one.
    pub fn slots_of_block(self) -> usize {
        (BLOCK_NS / self.slot_ns).max(1) as usize
    }

    /// Sets the timing of a slot.
    pub fn set(self, slot: &mut LoadSlot) {
        (slot.slot_ns, slot.window_bytes) = (self.slot_ns, self.window_bytes);
    }
}

/// Bytes of the load, as the user wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSizes {
    /// Bytes of an operation.
    pub size_bytes: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

/// The timing of slots in which up to `crowd` windows share a link of this rate in bytes per
/// second. Without a known rate, NICs are taken for fast ones. If the longest slot is too short,
/// the window shrinks, down to one operation.
pub fn timing(crowd: f64, rate: Option<f64>, sizes: LoadSizes) -> SlotTiming {
    let window = sizes.window_bytes.max(sizes.size_bytes);
    let crowd = crowd.max(LEAST_CROWD);
    let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
        return SlotTiming { slot_ns: USUAL_NS, window_bytes: window };
    };
    let needed_ns = (TURNS * crowd * window as f64 / rate * 1e9) as u64;
    if needed_ns <= LONGEST_NS {
        return SlotTiming {
            slot_ns: needed_ns.next_multiple_of(STEP_NS).max(USUAL_NS),
            window_bytes: window,
        };
    }
    let fitting = (rate * LONGEST_NS as f64 / 1e9 / (TURNS * crowd)) as u64;
    let operations = (fitting / sizes.size_bytes.max(1)).max(1);
    SlotTiming { slot_ns: LONGEST_NS, window_bytes: operations * sizes.size_bytes }
}

/// A link that flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SharedLink {
    /// The port of a target.
    Target(NicId),
    /// The link from one switch of a group to another one.
    Switches { group: u16, from: u16, to: u16 },
    /// The links from one group to another one.
    Groups(u16, u16),
}

/// The most windows that share a port of a NIC or, if packets take minimal paths, a link. `links`
/// is the number of links from one group to another one. A source that sends to several NICs has a
/// part of its window under way to each.
fn crowd(flows: &[LoadFlow], roster: &Roster, links: u32) -> f64 {
    let mut windows: HashMap<SharedLink, f64> = HashMap::new();
    for flow in flows {
        let window = 1.0 / flow.peers.len() as f64;
        for peer in &flow.peers {
            *windows.entry(SharedLink::Target(*peer)).or_default() += window;
            let ends = [flow.source, *peer].map(|nic| roster.location(nic));
            let [Some(from), Some(to)] = ends else {
                continue;
            };
            if from.group != to.group {
                let between = SharedLink::Groups(from.group, to.group);
                *windows.entry(between).or_default() += window / f64::from(links.max(1));
            } else if from.switch != to.switch {
                let between =
                    SharedLink::Switches { group: from.group, from: from.switch, to: to.switch };
                *windows.entry(between).or_default() += window;
            }
        }
    }
    windows.into_values().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::flows::flows;
    use super::super::spec::{Distance, Pattern};
    use super::super::testing::{all_placed, d4};
    use super::{LoadSizes, SlotTiming, crowd, timing};

    const KIB: u64 = 1024;

    fn sizes(window_bytes: u64) -> LoadSizes {
        LoadSizes { size_bytes: 64 * KIB, window_bytes }
    }

    #[test]
    fn slots_are_longer_on_slow_fabrics() {
        let value_for = |crowd, rate| {
            let SlotTiming { slot_ns, window_bytes } = timing(crowd, rate, sizes(256 * KIB));
            (slot_ns / 1_000_000, window_bytes / KIB)
        };
        assert_eq!(value_for(32.0, Some(25e9)), (250, 256));
        assert_eq!(value_for(64.0, None), (250, 256));
        // 5 · 4 · 256 KiB / 20 MB/s = 262 ms
        assert_eq!(value_for(1.0, Some(20e6)), (270, 256));
        assert_eq!(value_for(8.0, Some(25e6)), (420, 256));
        // 5 · 32 · 128 KiB / 25 MB/s = 839 ms; with 192 KiB it would be above a second.
        assert_eq!(value_for(32.0, Some(25e6)), (1000, 128));
        assert_eq!(value_for(64.0, Some(1e6)), (1000, 64));
    }

    #[test]
    fn window_is_at_least_an_operation() {
        assert_eq!(timing(1.0, None, sizes(KIB)).window_bytes, 64 * KIB);
    }

    #[test]
    fn blocks_last_two_seconds_at_most() {
        let count = |rate| timing(8.0, Some(rate), sizes(256 * KIB)).slots_of_block();
        assert_eq!([25e9, 25e6, 1e6].map(count), [8, 4, 2]);
    }

    #[test]
    fn crowd_counts_windows_of_ports_and_links() {
        let roster = d4();
        let nics = all_placed(&roster);
        let value = |pattern, links| crowd(&flows(pattern, &nics, 0, 5), &roster, links);
        assert_eq!(value(Pattern::Incast(8), 8), 8.0);
        assert_eq!(value(Pattern::Shift(Distance::One), 1), 1.0);
        assert_eq!(value(Pattern::Shift(Distance::Group), 1), 4.0);
        assert_eq!(value(Pattern::Shift(Distance::Group), 2), 2.0);
        assert_eq!(value(Pattern::Shift(Distance::Switch), 4), 2.0);
        let all = value(Pattern::AllToAll, 1);
        assert!((1.0..=2.0).contains(&all), "{all}");
    }
}
