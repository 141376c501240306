//! Something that is checked, and what was found.

use std::collections::BTreeMap;

use facts::severity::Severity;
use node::nic::files::NoValue;

/// The reason why a virtual function lacks an item: its NIC has it (health.md 2.1.5).
pub const NONE_OF_ITS_OWN: &str = "a virtual function has none of its own";

/// The name of the limit among the numbers of an item.
pub const LIMIT: &str = "limit";

/// Something that is checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// What scripts recognize a failure by. It never changes.
    pub code: &'static str,
    /// Its name in tables.
    pub name: &'static str,
    /// Where the limit comes from: a tool of HPE, the driver, `cxidiag` itself; `-` without limit.
    pub source: &'static str,
    /// What to do about hardware that fails.
    pub remedy: &'static str,
}

impl Item {
    /// An item without a limit.
    pub(super) const fn shown(code: &'static str, name: &'static str) -> Self {
        Self { code, name, source: "-", remedy: "shown only" }
    }

    /// An item without a limit, which people compare.
    pub(super) const fn compared_by_hand(code: &'static str, name: &'static str) -> Self {
        Self { remedy: "shown only: compare it with other nodes", ..Self::shown(code, name) }
    }
}

/// What was found of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub item: &'static Item,
    /// Its value; `None` if it cannot be read.
    pub value: Option<String>,
    /// The value as a number in base units (bytes, seconds), where it has one.
    pub number: Option<f64>,
    /// What the number counts, where the item does not say it: others are not compared with it.
    pub unit: Option<String>,
    /// Further numbers by name: [`LIMIT`], and parts of the value.
    pub numbers: BTreeMap<String, f64>,
    /// What is allowed.
    pub limit: Option<String>,
    /// Where it is, such as `between 0000:40:01.1 and 0000:41:00.0`, if not in all of the NIC.
    pub place: Option<String>,
    /// What follows.
    pub verdict: Severity,
    /// What explains the value, or why there is none, where that is known.
    pub note: Option<String>,
}

impl Finding {
    /// An item without a value.
    pub fn absent(item: &'static Item) -> Self {
        Self {
            item,
            value: None,
            number: None,
            unit: None,
            numbers: BTreeMap::new(),
            limit: None,
            place: None,
            verdict: Severity::NotAvailable,
            note: None,
        }
    }

    /// An item without a value, and why.
    pub fn untested(item: &'static Item, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::absent(item) }
    }

    /// An item without a value, and why, if a file of the link says it.
    pub(super) fn without(item: &'static Item, why: NoValue) -> Self {
        Self { note: why.map(str::to_owned), ..Self::absent(item) }
    }

    /// A value without a limit.
    pub fn shown(item: &'static Item, value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), verdict: Severity::Shown, ..Self::absent(item) }
    }

    /// A value without a limit, if there is one.
    pub(super) fn shown_if(item: &'static Item, value: Option<String>) -> Self {
        value.map_or_else(|| Self::absent(item), |value| Self::shown(item, value))
    }

    pub fn compared(
        item: &'static Item,
        value: impl Into<String>,
        limit: impl Into<String>,
        verdict: Severity,
    ) -> Self {
        Self { value: Some(value.into()), limit: Some(limit.into()), verdict, ..Self::absent(item) }
    }

    /// Adds the value as a number in base units.
    pub(super) fn with_number(self, number: f64) -> Self {
        Self { number: Some(number), ..self }
    }
}

/// Returns `verdict` if `holds`, else good.
pub(super) fn unless_good(holds: bool, verdict: Severity) -> Severity {
    if holds { verdict } else { Severity::Good }
}
