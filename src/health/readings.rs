//! What the files of a NIC and its node say: the items of `cxidiag check`, as the documents have
//! them.

use std::collections::BTreeMap;

use crate::item::LIMIT;
use facts::severity::Severity;

/// An item of a NIC or of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Code of the item, such as `pcie-width`.
    pub code: String,
    /// Name of the item.
    pub name: String,
    /// Its value; `None` if it cannot be read.
    pub value: Option<String>,
    /// The value as a number in base units, with what it counts where the code does not say it.
    pub number: Option<(f64, Option<String>)>,
    /// Further numbers by name: the limit, and parts of the value.
    pub numbers: BTreeMap<String, f64>,
    pub state: Severity,
    /// What is wrong with it, or its value, as part of a sentence.
    pub text: String,
    /// Whether good NICs of one kind have the same value.
    pub is_attribute: bool,
}

impl Reading {
    /// Returns an item with this code and name that is not compared between NICs.
    pub fn new((code, name): (&str, &str), value: String, state: Severity, text: String) -> Self {
        Self {
            code: code.into(),
            name: name.into(),
            value: Some(value),
            number: None,
            numbers: BTreeMap::new(),
            state,
            text,
            is_attribute: false,
        }
    }

    /// Returns its value as a share of its limit, where both are numbers.
    pub fn share(&self) -> Option<f64> {
        let share = self.number.as_ref()?.0 / self.numbers.get(LIMIT)?;
        Some(share).filter(|share| share.is_finite())
    }
}

/// The items of a NIC and its node.
pub type Readings = Vec<Reading>;

/// Returns the numbers of the values of two items with one code, where they have some. `None` if
/// these count different things.
pub fn numbers(one: &Reading, other: &Reading) -> Option<[Option<f64>; 2]> {
    let both = one.number.as_ref().zip(other.number.as_ref());
    let is_comparable = both.is_none_or(|((_, unit), (_, other_unit))| unit == other_unit);
    is_comparable.then(|| [one, other].map(|reading| reading.number.as_ref().map(|(n, _)| *n)))
}

/// Returns the item with this code, if it has a value.
pub fn find<'a>(readings: &'a [Reading], code: &str) -> Option<&'a Reading> {
    readings.iter().find(|reading| reading.code == code && reading.value.is_some())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Readings of made-up NICs.

    use super::*;

    /// Units of values, and their sizes in base units.
    const UNITS: [(&str, f64); 4] =
        [("GiB", (1_u64 << 30) as f64), ("GT/s", 1e9), ("Gb/s", 1e9 / 8.0), ("us", 1e-6)];

    /// Returns an item that is compared between NICs. Its code is its name, too. Its number is the
    /// one that its value begins with.
    pub fn reading(code: &str, value: &str, state: Severity) -> Reading {
        let mut words = value.trim_start_matches('x').split(' ');
        let number = words.next().and_then(|word| word.parse::<f64>().ok());
        let unit = words.next().unwrap_or_default();
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, scale)| *scale);
        Reading {
            number: number.map(|number| (number * scale, None)),
            is_attribute: true,
            ..Reading::new((code, code), value.into(), state, format!("{code} {value}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::reading;
    use super::*;

    #[test]
    fn numbers_of_different_things_are_not_compared() {
        let memory = |gigabytes: f64, unit: Option<&str>| Reading {
            number: Some((gigabytes, unit.map(str::to_owned))),
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
