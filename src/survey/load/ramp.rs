//! The first slots: a part of the load, to see whether it is harmless (load.md 3.8).

use super::flows::flows;
use crate::round::{LoadRound, RoundFacts, timing_of};
use crate::seeded_rng::seeded_rng;
use crate::slot::{LoadMeasurement, LoadSlot};

/// The parts of the aggressors.
const PARTS_OF_LOAD: [f64; 3] = [0.125, 0.25, 0.5];

/// Returns load slots with parts of the sources of the widest pattern of a round, the smallest part
/// last.
pub fn ramp(round: &LoadRound, facts: RoundFacts, seed: u64) -> Vec<LoadSlot> {
    let Some(pattern) = round.widest() else {
        return Vec::new();
    };
    let mut all = flows(pattern, &round.nics.nics, 0, seed);
    seeded_rng(seed, 0).shuffle(&mut all);
    let counts = PARTS_OF_LOAD.map(|part| (part * all.len() as f64) as usize);
    let load_slot = |(place, count): (u32, usize)| {
        let mut slot = LoadSlot {
            purpose: LoadMeasurement::Ramp,
            repetition: 0,
            place,
            flows: all[..count].to_vec(),
            victims: Vec::new(),
            slot_ns: 0,
            window_bytes: 0,
        };
        timing_of(std::slice::from_ref(&slot), facts).set(&mut slot);
        slot
    };
    let counts = (0..).zip(counts).filter(|(_, count)| *count > 0);
    let mut load_slots: Vec<LoadSlot> = counts.map(load_slot).collect();
    load_slots.reverse();
    load_slots
}
