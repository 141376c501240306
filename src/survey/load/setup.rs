//! The settings of the load.

use super::roles::RoleRules;
use super::safety::Cap;
use super::timing::LoadSizes;
use crate::results::ResultFacts;
use crate::round::RoundFacts;
use crate::spec::LoadSpec;
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
    /// Bandwidth of a NIC in bytes per second, if it is known.
    pub nic_rate: Option<f64>,
    /// What the verdict needs to know. The seed is of roles and peers, too.
    pub facts: ResultFacts,
}

impl LoadSetup {
    /// Returns what the verdict of a round needs to know.
    pub fn result_facts(&self, is_partial: bool, seed: u64) -> ResultFacts {
        ResultFacts { is_partial, seed, ..self.facts.clone() }
    }

    /// Returns what all rounds have in common. `rate` is the bandwidth of a NIC.
    pub fn pass_facts<'a>(
        &'a self,
        roster: &'a Roster,
        rules: RoleRules,
        rate: Option<f64>,
    ) -> RoundFacts<'a> {
        RoundFacts { roster, rate, theory: self.facts.theory.as_ref(), sizes: self.sizes, rules }
    }
}
