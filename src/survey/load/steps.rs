//! The load slots of a step, which have one purpose.

use fastrand::Rng;

use super::findings::Spread;
use super::flows::flows;
use super::names::purpose_name;
use super::roles::{RoleRules, Roles, assign_roles, victim_pairs};
use crate::located::LocatedNic;
use crate::seeded_rng::seeded_rng;
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot, VictimKey};
use campaign::quiet::answer::Pair;

/// The slots of a repetition of victims have load or not: quiet, loaded, loaded, quiet, so that a
/// drift cancels out.
const HAS_LOAD: [bool; 4] = [false, true, true, false];

/// Load slots with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourseStep {
    pub purpose: LoadMeasurement,
    /// Number of repetitions.
    pub repetitions: u32,
}

impl CourseStep {
    /// Returns the name of its pattern, as in judgements.
    pub fn name(&self) -> String {
        purpose_name(self.purpose)
    }

    /// Returns its name in a plan: `victims under incast:8, mixed`.
    pub fn title(&self) -> String {
        match self.purpose {
            LoadMeasurement::Victims(key) => {
                let class = if key.in_other_class { ", other traffic class" } else { "" };
                format!("victims under {}, {}{class}", self.name(), spread_name(key.spread))
            }
            _ => self.name(),
        }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        match self.purpose {
            LoadMeasurement::Victims(_) => self.repetitions * HAS_LOAD.len() as u32,
            _ => self.repetitions,
        }
    }

    /// Returns the slots of a repetition, without their timing: none if the NICs are too few.
    pub fn repetition(
        &self,
        nics: &[LocatedNic],
        number: u32,
        rules: RoleRules,
        seed: u64,
    ) -> Vec<LoadSlot> {
        let slot = |place, flows, victims| LoadSlot {
            purpose: self.purpose,
            repetition: number,
            place,
            flows,
            victims,
            slot_ns: 0,
            window_bytes: 0,
        };
        match self.purpose {
            LoadMeasurement::Ramp => Vec::new(),
            LoadMeasurement::Bandwidth(pattern) => {
                let flows = flows(pattern, nics, number, seed);
                let has_flows = !flows.is_empty();
                has_flows.then(|| slot(0, flows, Vec::new())).into_iter().collect()
            }
            LoadMeasurement::Victims(VictimKey { under, spread, at_target, .. }) => {
                let mut rng = roles_dice(seed, number, spread);
                let Some(roles) = assign_roles(nics, spread, rules, &mut rng) else {
                    return Vec::new();
                };
                let load = |number| flows(under, &roles.aggressors, number, seed);
                let victims = if at_target {
                    victims_of_stars(&load(number), &roles, &mut rng)
                } else {
                    victim_pairs(&roles.victims, number, &mut rng)
                };
                let place_slot = |(place, has_load): (u32, bool)| {
                    // Victims of targets keep their targets.
                    let number = if at_target { number } else { 2 * number + place / 2 };
                    let flows = if has_load { load(number) } else { Vec::new() };
                    slot(place, flows, victims.clone())
                };
                let slots: Vec<_> = (0..).zip(HAS_LOAD).map(place_slot).collect();
                let is_complete = !victims.is_empty() && !slots[1].flows.is_empty();
                if is_complete { slots } else { Vec::new() }
            }
        }
    }
}

/// Returns the random numbers of roles: the same ones for all patterns, so that their victims can
/// be compared.
pub fn roles_dice(seed: u64, repetition: u32, spread: Spread) -> Rng {
    seeded_rng(seed, 3 * repetition + spread as u32)
}

/// Returns a victim for each target of the load.
fn victims_of_stars(flows: &[LoadFlow], roles: &Roles, rng: &mut Rng) -> Vec<Pair> {
    let mut targets: Vec<_> = flows.iter().flat_map(|flow| flow.peers.clone()).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut victims: Vec<_> = roles.victims.iter().map(|nic| nic.nic).collect();
    rng.shuffle(&mut victims);
    let pairs = victims.into_iter().zip(targets);
    pairs.map(|(initiator, target)| Pair { initiator, target }).collect()
}

/// Returns the name of a spread in texts.
pub fn spread_name(spread: Spread) -> &'static str {
    match spread {
        Spread::Mixed => "mixed",
        Spread::Switches => "whole switches",
        Spread::Groups => "whole groups",
    }
}
