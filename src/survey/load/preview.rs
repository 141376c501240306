//! What a survey will send, for `--load=plan`.

use super::findings::LeftOut;
use crate::round::{LoadRound, RoundFacts, timing_of};
use campaign::timetable::SlotTimes;

/// Part of the time of slots in which nothing is sent between blocks.
const IDLE: f64 = 0.1;

/// What a survey will send. Retests are not part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPreview {
    /// Number of NICs that can be used.
    pub nics: u32,
    /// Most NICs that send at once.
    pub most_aggressors: u32,
    /// Whether a cap keeps the load below what the NICs can do.
    pub is_partial: bool,
    /// Number of slots.
    pub slots: u32,
    /// Time of the slots and between blocks.
    pub seconds: f64,
    /// Most bytes per second of all NICs together, if the rate of a NIC is known.
    pub peak: Option<f64>,
    /// Most bytes of all NICs together, if the rate of a NIC is known.
    pub total_bytes: Option<f64>,
    /// The patterns, and their numbers of slots.
    pub patterns: Vec<(String, u32)>,
    /// Patterns and NICs that are left out.
    pub left_out: Vec<LeftOut>,
}

/// Returns what the steps of a round will send, after `ramp` slots of its widest pattern.
pub fn preview(round: &LoadRound, facts: RoundFacts, ramp: u32) -> LoadPreview {
    let mut preview = LoadPreview { slots: ramp, ..LoadPreview::default() };
    // Seconds in which a NIC sends, added up over the NICs.
    let mut sending = 0.0;
    for step in &round.steps {
        let slots = round.slots(*step, 0, facts.rules);
        let timing = timing_of(&slots, facts);
        let times = SlotTimes::from_slot(timing.slot_ns);
        let loaded_s = (times.stop_ns - times.start_ns) as f64 / 1e9;
        for slot in &slots {
            let sources = slot.flows.len() as u32;
            preview.most_aggressors = preview.most_aggressors.max(sources);
            sending += f64::from(step.repetitions) * f64::from(sources) * loaded_s;
        }
        preview.slots += step.slots();
        preview.seconds += f64::from(step.slots()) * timing.slot_ns as f64 / 1e9;
        preview.patterns.push((step.title(), step.slots()));
    }
    let steps_slots = f64::from(preview.slots - ramp).max(1.0);
    preview.seconds *= (1.0 + f64::from(ramp) / steps_slots) * (1.0 + IDLE);
    preview.peak = facts.rate.map(|rate| rate * f64::from(preview.most_aggressors));
    preview.total_bytes = facts.rate.map(|rate| rate * sending);
    preview
}
