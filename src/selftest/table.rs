//! A check as plain data.

use crate::bench::{Bench, Checked};
use report::selftest::Certainty;

/// A named check of one fact.
pub struct FactCheck {
    /// Its name within its group.
    pub name: &'static str,
    /// The sections that state the fact: `nic.md 8.2`.
    pub fact: &'static str,
    /// How certain the page is of it.
    pub certainty: Certainty,
    /// The fact in one line.
    pub statement: &'static str,
    /// Observes it.
    pub run: fn(&mut Bench) -> Checked,
}

/// Checks of one subject.
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its checks, in the order of their execution.
    pub checks: &'static [FactCheck],
}

/// A fact that a page states without a mark.
pub const fn stated(
    name: &'static str,
    fact: &'static str,
    statement: &'static str,
    run: fn(&mut Bench) -> Checked,
) -> FactCheck {
    FactCheck {
        name,
        fact,
        certainty: Certainty::Stated,
        statement,
        run,
    }
}

/// A fact that a page infers, or that its sources contradict.
pub const fn inferred(
    name: &'static str,
    fact: &'static str,
    statement: &'static str,
    run: fn(&mut Bench) -> Checked,
) -> FactCheck {
    FactCheck {
        certainty: Certainty::Inferred,
        ..stated(name, fact, statement, run)
    }
}

/// A fact that no source says, and that the software NIC assumes.
pub const fn assumed(
    name: &'static str,
    fact: &'static str,
    statement: &'static str,
    run: fn(&mut Bench) -> Checked,
) -> FactCheck {
    FactCheck {
        certainty: Certainty::Assumed,
        ..stated(name, fact, statement, run)
    }
}
