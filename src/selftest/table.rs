//! A check as plain data.

use crate::bench::{Bench, Checked};
use crate::document::{Fact, FactCertainty};
use facts::error_flag::ErrorFlag;

/// What a check does to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckEffect {
    Reads,
    /// It allocates and uses objects of its own. All operations succeed.
    OwnResources,
    /// It provokes errors, which set these flags at most so many times. Errors whose flags the
    /// driver masks from the start are not listed (health.md 2.5.1).
    Errors(&'static [(ErrorFlag, u32)]),
    /// It asks for an AtomicOp of PCIe, and sets these flags as above. Where none of the devices up
    /// to the memory completes it, their PCIe (AER) errors count it too (nic.md 11.3).
    PcieAtomic(&'static [(ErrorFlag, u32)]),
    /// It stops a queue in a way that no other program does.
    Risky,
}

impl CheckEffect {
    /// Returns the error flags that the check sets, with the largest number of times.
    pub fn flags(self) -> &'static [(ErrorFlag, u32)] {
        match self {
            Self::Errors(flags) | Self::PcieAtomic(flags) => flags,
            Self::Reads | Self::OwnResources | Self::Risky => &[],
        }
    }
}

/// A named check of one fact.
pub struct FactCheck {
    pub fact: Fact,
    /// What the check does to the NIC.
    pub effect: CheckEffect,
    /// Observes the fact.
    pub run: fn(&mut Bench) -> Checked,
}

impl FactCheck {
    /// Marks a check that reads only.
    pub const fn reads(self) -> Self {
        let effect = CheckEffect::Reads;
        Self { effect, ..self }
    }

    /// Marks a check that provokes errors: the flags that it sets, with the number of times.
    pub const fn provokes(self, flags: &'static [(ErrorFlag, u32)]) -> Self {
        let effect = CheckEffect::Errors(flags);
        Self { effect, ..self }
    }

    /// Marks a check that asks for an AtomicOp of PCIe: the flags that it sets, as above.
    pub const fn pcie_atomic(self, flags: &'static [(ErrorFlag, u32)]) -> Self {
        let effect = CheckEffect::PcieAtomic(flags);
        Self { effect, ..self }
    }

    /// Marks a check that runs with --risky only.
    pub const fn risky(self) -> Self {
        let effect = CheckEffect::Risky;
        Self { effect, ..self }
    }
}

/// Checks of one subject.
pub struct CheckGroup {
    pub name: &'static str,
    /// Its checks, in the order of their execution.
    pub checks: &'static [FactCheck],
}

/// Begins a check with the fact that it observes, in one line.
pub const fn fact(statement: &'static str) -> Fact {
    Fact { name: "", sections: "", certainty: FactCertainty::Stated, statement }
}

impl Fact {
    /// Names the check of a fact that a page states without a mark.
    pub const fn stated(self, name: &'static str, sections: &'static str) -> Self {
        Self { name, sections, ..self }
    }

    /// Names the check of a fact that a page infers, or that its sources contradict.
    pub const fn inferred(self, name: &'static str, sections: &'static str) -> Self {
        Self { certainty: FactCertainty::Inferred, ..self.stated(name, sections) }
    }

    /// Names the check of a fact that no source says, and that the software NIC assumes.
    pub const fn assumed(self, name: &'static str, sections: &'static str) -> Self {
        Self { certainty: FactCertainty::Assumed, ..self.stated(name, sections) }
    }

    /// Returns the check, which observes the fact by `run`.
    pub const fn run(self, run: fn(&mut Bench) -> Checked) -> FactCheck {
        FactCheck { fact: self, effect: CheckEffect::OwnResources, run }
    }
}
