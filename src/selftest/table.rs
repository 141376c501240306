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
    /// The error flags that the check sets, with the largest number of times.
    pub fn flags(self) -> &'static [(ErrorFlag, u32)] {
        match self {
            Self::Errors(flags) | Self::PcieAtomic(flags) => flags,
            Self::Reads | Self::OwnResources | Self::Risky => &[],
        }
    }
}

/// Observes a fact.
pub type Run = fn(&mut Bench) -> Checked;

/// A named check of one fact.
pub struct FactCheck {
    pub fact: Fact,
    /// What the check does to the NIC.
    pub effect: CheckEffect,
    pub run: Run,
}

impl FactCheck {
    /// Sets the fact in one line.
    pub const fn shows(mut self, statement: &'static str) -> Self {
        self.fact.statement = statement;
        self
    }

    /// Marks a check that reads only.
    pub const fn reads(mut self) -> Self {
        self.effect = CheckEffect::Reads;
        self
    }

    /// Marks a check that provokes errors: the flags that it sets, with the number of times.
    pub const fn provokes(mut self, flags: &'static [(ErrorFlag, u32)]) -> Self {
        self.effect = CheckEffect::Errors(flags);
        self
    }

    /// Marks a check that asks for an AtomicOp of PCIe: the flags that it sets, as above.
    pub const fn pcie_atomic(mut self, flags: &'static [(ErrorFlag, u32)]) -> Self {
        self.effect = CheckEffect::PcieAtomic(flags);
        self
    }

    /// Marks a check that runs with --risky only.
    pub const fn risky(mut self) -> Self {
        self.effect = CheckEffect::Risky;
        self
    }
}

/// Checks of one subject.
pub struct CheckGroup {
    pub name: &'static str,
    /// Its checks, in the order of their execution.
    pub checks: &'static [FactCheck],
}

/// The check of a fact that a page states without a mark, which observes it by `run`.
pub const fn stated(name: &'static str, sections: &'static str, run: Run) -> FactCheck {
    check(name, sections, FactCertainty::Stated, run)
}

/// The check of a fact that a page infers, or that its sources contradict.
pub const fn inferred(name: &'static str, sections: &'static str, run: Run) -> FactCheck {
    check(name, sections, FactCertainty::Inferred, run)
}

/// The check of a fact that no source says, and that the software NIC assumes.
pub const fn assumed(name: &'static str, sections: &'static str, run: Run) -> FactCheck {
    check(name, sections, FactCertainty::Assumed, run)
}

const fn check(
    name: &'static str,
    sections: &'static str,
    certainty: FactCertainty,
    run: Run,
) -> FactCheck {
    let fact = Fact { name, sections, certainty, statement: "" };
    FactCheck { fact, effect: CheckEffect::OwnResources, run }
}
