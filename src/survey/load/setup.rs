//! The settings of the load.

use super::roles::RoleRules;
use super::safety::Cap;
use super::theory::FabricShape;
use super::timing::LoadSizes;
use crate::results::ResultFacts;
use crate::round::RoundFacts;
use crate::spec::LoadSpec;
use campaign::quiet::findings::Test;
use campaign::quiet::roster::Roster;

/// The settings that the user has chosen, and what the coordinator knows about the fabric.
#[derive(Clone, Debug)]
pub struct LoadSetup {
    /// The patterns.
    pub wanted: LoadSpec,
    /// Bytes of the load.
    pub sizes: LoadSizes,
    /// Part of the nodes that are victims, in percent.
    pub victims_percent: u8,
    /// How many NICs may be aggressors.
    pub cap: Cap,
    /// Seed of roles and peers.
    pub seed: u64,
    /// Whether the NICs are hardware.
    pub is_hardware: bool,
    /// Bandwidth of a NIC in bytes per second, if it is known.
    pub nic_rate: Option<f64>,
    /// The shape of the fabric, if it is known.
    pub theory: Option<FabricShape>,
    /// What victims measure.
    pub victim_test: Test,
    /// Name of the other traffic class of victims, if there is one.
    pub other_class: Option<String>,
}

impl LoadSetup {
    /// Returns what the verdict of a round needs to know.
    pub fn result_facts(&self, is_partial: bool, seed: u64) -> ResultFacts {
        ResultFacts {
            theory: self.theory,
            is_partial,
            is_software: !self.is_hardware,
            victim_test: self.victim_test.clone(),
            other_class: self.other_class.clone(),
            seed,
        }
    }

    /// Returns what all rounds have in common. `rate` is the bandwidth of a NIC.
    pub fn pass_facts<'a>(
        &'a self,
        roster: &'a Roster,
        rules: RoleRules,
        rate: Option<f64>,
    ) -> RoundFacts<'a> {
        RoundFacts { roster, rate, theory: self.theory.as_ref(), sizes: self.sizes, rules }
    }
}
