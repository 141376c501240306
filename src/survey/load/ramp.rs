//! The first slots: a part of the load, to see whether it is harmless (load.md 3.8).

use super::flows::flows;
use super::steps::SlotFlows;
use crate::round::{LoadRound, PassFacts, timing_of};
use crate::seeded_rng::seeded_rng;
use crate::slot::{LoadMeasurement, LoadSlot};

/// The parts of the aggressors.
const PARTS_OF_LOAD: [f64; 3] = [0.125, 0.25, 0.5];

/// Returns scenes with parts of the sources of the widest pattern of a pass, the smallest part
/// last.
pub fn ramp(pass: &LoadRound, facts: PassFacts, seed: u64) -> Vec<LoadSlot> {
    let Some(pattern) = pass.widest() else {
        return Vec::new();
    };
    let mut all = flows(pattern, &pass.nics.nics, 0, seed);
    seeded_rng(seed, 0).shuffle(&mut all);
    let counts = PARTS_OF_LOAD.map(|part| (part * all.len() as f64) as usize);
    let scene = |(place, count): (u32, usize)| {
        let slot = SlotFlows { flows: all[..count].to_vec(), victims: Vec::new() };
        let timing = timing_of(std::slice::from_ref(&slot), facts);
        LoadSlot {
            purpose: LoadMeasurement::Ramp,
            repetition: 0,
            place,
            flows: slot.flows,
            victims: Vec::new(),
            slot_ns: timing.slot_ns,
            window_bytes: timing.window_bytes,
        }
    };
    let counts = (0..).zip(counts).filter(|(_, count)| *count > 0);
    let mut scenes: Vec<LoadSlot> = counts.map(scene).collect();
    scenes.reverse();
    scenes
}
