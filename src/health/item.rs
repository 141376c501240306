//! Something that is checked, and what was found; also as the documents have it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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

/// One item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "ItemResult"))]
pub struct Finding {
    /// What scripts recognize the item by; it is also the code of its failure.
    pub code: String,
    /// Name of the item.
    #[serde(rename = "item")]
    pub name: String,
    /// The value, as the text shows it; null if it is not available.
    pub value: Option<String>,
    /// The value in base units (bytes, seconds), or as a count or ratio; null if it has none.
    pub number: Option<f64>,
    /// What the number counts, where the code does not say it; null otherwise.
    pub unit: Option<String>,
    /// Further numbers: `limit`, in the units of `number`, and parts of the value, such as the
    /// ceiling of each traffic class; left out if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// What is allowed; null if there is no limit, and if there is no value.
    pub limit: Option<String>,
    /// Where it is, such as between two PCI devices; null if it is about all of the NIC or host.
    pub place: Option<String>,
    /// Where the limit comes from; null if there is no limit.
    pub source: Option<String>,
    /// good, suspect, bad, shown (without a limit), or not_available.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    pub verdict: Severity,
    /// What explains the value, or why there is none; null if nothing does.
    pub note: Option<String>,
    /// What is wrong with it, as part of a sentence, where that is more than its name and value.
    #[serde(skip)]
    pub sentence: Option<String>,
}

impl Finding {
    /// An item without a value.
    pub fn absent(item: &Item) -> Self {
        Self::named(item.code, item.name)
    }

    /// An item with this code and name, which is not available.
    pub fn named(code: impl Into<String>, name: impl Into<String>) -> Self {
        Self { code: code.into(), name: name.into(), ..Self::default() }
    }

    /// The item without its value and what follows from it.
    pub(super) fn emptied(&self) -> Self {
        Self::named(&self.code, &self.name)
    }

    /// Returns what is wrong with it, for the first line.
    pub fn described(&self) -> String {
        let Self { name, value, limit, note, sentence, .. } = self;
        if let Some(sentence) = sentence {
            return sentence.clone();
        }
        let place = self.place.as_ref().map_or(String::new(), |place| format!(" {place}"));
        match (value, limit, note) {
            (Some(value), Some(limit), _) => format!("{name} {value}{place}, expected {limit}"),
            (Some(value), None, _) => format!("{name} {value}"),
            // Reasons for draining a node are short.
            (None, _, Some(note)) => note.split(';').next().unwrap_or(note).to_owned(),
            (None, _, None) => format!("{name} not available"),
        }
    }

    /// An item without a value, and why.
    pub fn untested(item: &Item, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::absent(item) }
    }

    /// An item without a value, and why, if a file of the link says it.
    pub(super) fn without(item: &Item, why: NoValue) -> Self {
        Self { note: why.map(str::to_owned), ..Self::absent(item) }
    }

    /// A value without a limit.
    pub fn shown(item: &Item, value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), verdict: Severity::Shown, ..Self::absent(item) }
    }

    /// A value without a limit, if there is one.
    pub(super) fn shown_if(item: &Item, value: Option<String>) -> Self {
        value.map_or_else(|| Self::absent(item), |value| Self::shown(item, value))
    }

    pub fn compared(
        item: &Item,
        value: impl Into<String>,
        limit: impl Into<String>,
        verdict: Severity,
    ) -> Self {
        Self {
            value: Some(value.into()),
            limit: Some(limit.into()),
            source: Some(item.source.to_owned()),
            verdict,
            ..Self::absent(item)
        }
    }

    /// Returns its value as a share of its limit, where both are numbers.
    pub fn share(&self) -> Option<f64> {
        let share = self.number? / self.numbers.get(LIMIT)?;
        Some(share).filter(|share| share.is_finite())
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

/// The items of a NIC and its node.
pub type Readings = Vec<Finding>;

/// The numbers of the values of two items with one code, where they have some. `None` if these
/// count different things.
pub fn numbers(one: &Finding, other: &Finding) -> Option<[Option<f64>; 2]> {
    let are_known = one.number.is_some() && other.number.is_some();
    (!are_known || one.unit == other.unit).then_some([one.number, other.number])
}

/// The item with this code, if it has a value.
pub fn find<'a>(readings: &'a [Finding], code: &str) -> Option<&'a Finding> {
    readings.iter().find(|reading| reading.code == code && reading.value.is_some())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Readings of made-up NICs.

    use super::*;
    use facts::severity::Severity;

    /// Units of values, and their sizes in base units.
    const UNITS: [(&str, f64); 4] =
        [("GiB", (1_u64 << 30) as f64), ("GT/s", 1e9), ("Gb/s", 1e9 / 8.0), ("us", 1e-6)];

    /// An item. Its code is its name, too, and its number begins its value.
    pub fn reading(code: &str, value: &str, verdict: Severity) -> Finding {
        let mut words = value.trim_start_matches('x').split(' ');
        let number = words.next().and_then(|word| word.parse::<f64>().ok());
        let unit = words.next().unwrap_or_default();
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, scale)| *scale);
        Finding {
            value: Some(value.into()),
            number: number.map(|number| number * scale),
            verdict,
            ..Finding::named(code, code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::reading;
    use super::*;
    use facts::severity::Severity;

    #[test]
    fn numbers_of_different_things_are_not_compared() {
        let memory = |gigabytes: f64, unit: Option<&str>| Finding {
            number: Some(gigabytes),
            unit: unit.map(str::to_owned),
            ..reading("memory-size", "", Severity::Shown)
        };
        let each = Some("B in each of 2 NUMA nodes");
        let both = |one, other| numbers(&one, &other);
        assert_eq!(both(memory(512.0, None), memory(512.0, each)), None);
        let comparable = both(memory(448.0, each), memory(512.0, each));
        assert_eq!(comparable, Some([Some(448.0), Some(512.0)]));
        let text = reading("esm", "Disabled", Severity::Shown);
        assert_eq!(both(text, memory(8.0, None)), Some([None, Some(8.0)]));
    }
}
