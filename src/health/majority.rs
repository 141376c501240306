//! What most good NICs of one kind have, and what a culprit has instead (diagnosis.md 4.2).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::item::{Finding, Item, Readings, find, numbers};
use crate::{host, identity, link, pcie, presence};
use facts::severity::Severity;

/// The settings that are compared, of NICs and of hosts.
pub const COMPARED: [&Item; 20] = [
    &presence::COUNT,
    &identity::GENERATION,
    &identity::FIRMWARE,
    &identity::DRIVER,
    &host::LIBRARY,
    &host::KERNEL,
    &identity::QOS_PROFILE,
    &identity::CLASS_CEILING,
    &identity::ESM,
    &link::MTU,
    &link::SPEED,
    &link::LAYER_RETRY,
    &link::PAUSE,
    &pcie::WIDTH,
    &pcie::SPEED,
    &pcie::UPSTREAM,
    &host::IOMMU,
    &host::GOVERNOR,
    &host::IDLE_STATES,
    &host::MEMORY_SIZE,
];

/// Whether the item with this code is compared between NICs.
fn is_compared(code: &str) -> bool {
    COMPARED.iter().any(|item| item.code == code)
}

/// Fewest good NICs with a value: with fewer, the item says nothing.
const FEWEST: usize = 5;

/// Part of the good NICs that have the normal value.
const NORMAL: f64 = 0.6;

/// Largest part of the good NICs that have the value of the culprit if it supports a cause, and the
/// part above which it clears the item.
pub const RARE: f64 = 0.05;
const COMMON: f64 = 0.2;

/// Items whose values are numbers that differ a little between good nodes, and by which part of
/// them (diagnosis.md 2, `memory-bw`).
const CLOSE: [(&str, f64); 1] = [("memory-size", 0.03)];

/// An item in which a culprit differs from most good NICs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Code of the item.
    pub attribute: String,
    /// Its name.
    pub name: String,
    /// The value of the culprit.
    pub own: String,
    /// The value of most good NICs.
    pub normal: String,
    /// Number of good NICs with this value.
    pub with_normal: usize,
    /// Number of good NICs with any value.
    pub of: usize,
    /// Whether hardly any good NIC has the value of the culprit, so that the difference supports a
    /// cause. If not, some have it.
    pub supports: bool,
}

/// The items that good NICs agree about: their normal values.
pub fn normals<'a>(others: &'a [Readings]) -> BTreeMap<&'a str, &'a Finding> {
    let codes: BTreeSet<&str> =
        others.iter().flatten().map(|reading| reading.code.as_str()).collect();
    let normal = |code: &'a str| {
        let values = values(others, code);
        let (normal, count) = most(&values)?;
        let is_normal = values.len() >= FEWEST && count as f64 >= NORMAL * values.len() as f64;
        is_normal.then_some((code, normal))
    };
    codes.into_iter().filter(|code| is_compared(code)).filter_map(normal).collect()
}

/// The items in which a culprit with these readings differs from good NICs. Items whose value many
/// good NICs share with it are left out.
pub fn differences(own: &Readings, others: &[Readings]) -> Vec<Difference> {
    let difference = |(code, normal): (&str, &Finding)| {
        let reading = find(own, code)?;
        let values = values(others, code);
        let share = count(reading, &values) as f64 / values.len() as f64;
        (!is_same(reading, normal) && share <= COMMON).then(|| Difference {
            attribute: code.to_owned(),
            name: reading.name.clone(),
            own: reading.value.clone().unwrap_or_default(),
            normal: normal.value.clone().unwrap_or_default(),
            with_normal: count(normal, &values),
            of: values.len(),
            supports: share <= RARE,
        })
    };
    normals(others).into_iter().filter_map(difference).collect()
}

/// Whether many good NICs have the item with this code in the same state or a worse one.
pub fn is_common(code: &str, state: Severity, others: &[Readings]) -> bool {
    let least = state.max(Severity::Suspect);
    let has = |own: &&Readings| {
        own.iter().any(|reading| reading.code == code && reading.verdict >= least)
    };
    others.iter().filter(has).count() as f64 > COMMON * others.len() as f64
}

/// The items with this code that have values.
pub fn values<'a>(others: &'a [Readings], code: &str) -> Vec<&'a Finding> {
    others.iter().filter_map(|own| find(own, code)).collect()
}

/// An item with the most frequent value, and how many have it.
pub fn most<'a>(values: &[&'a Finding]) -> Option<(&'a Finding, usize)> {
    // Thousands of NICs have few values.
    let distinct: BTreeMap<_, &Finding> =
        values.iter().map(|reading| (reading.value.as_deref(), *reading)).collect();
    let counted = distinct.into_values().map(|reading| (reading, count(reading, values)));
    counted.max_by_key(|(_, count)| *count)
}

/// Returns how many values are the same as this one.
pub fn count(value: &Finding, values: &[&Finding]) -> usize {
    values.iter().filter(|other| is_same(value, other)).count()
}

/// The text of a value that several NICs or nodes have. Close values are one value, so the text
/// begins with "about".
pub fn common_text(code: &str, value: &str) -> String {
    let is_close = CLOSE.iter().any(|(close_code, _)| *close_code == code);
    format!("{}{value}", if is_close { "about " } else { "" })
}

/// Whether two items with one code have the same value.
pub fn is_same(one: &Finding, other: &Finding) -> bool {
    let close = CLOSE.iter().find(|(name, _)| *name == one.code);
    match (close, numbers(one, other)) {
        (Some((_, part)), Some([Some(one), Some(other)])) => {
            (one - other).abs() < part * one.max(other)
        }
        _ => one.value == other.value,
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::testing::reading;
    use super::*;

    fn readings(value: &str) -> Readings {
        item_readings("firmware", value)
    }

    fn item_readings(code: &str, value: &str) -> Readings {
        vec![reading(code, value, Severity::Shown)]
    }

    /// Whether a NIC with `1.5` differs from others with these values, and whether the difference
    /// supports a cause.
    fn differs(others: &[&str]) -> Option<bool> {
        let others: Vec<Readings> = others.iter().map(|value| readings(value)).collect();
        let found = differences(&readings("1.5"), &others);
        found.first().map(|difference| difference.supports)
    }

    #[test]
    fn compares_with_normal_value_of_good_nics() {
        assert_eq!(differs(&["1.6"; 5]), Some(true));
        assert_eq!(differs(&["1.5"; 5]), None);
        // Too few, and no normal value.
        assert_eq!(differs(&["1.6"; 4]), None);
        assert_eq!(differs(&["1.6", "1.6", "1.7", "1.7", "1.8"]), None);
    }

    #[test]
    fn values_of_good_nics_clear_the_culprit() {
        // One of 7, and 3 of 10.
        let one = ["1.6", "1.6", "1.6", "1.6", "1.6", "1.6", "1.5"];
        assert_eq!(differs(&one), Some(false));
        let three = [&["1.5"; 3][..], &["1.6"; 7][..]].concat();
        assert_eq!(differs(&three), None);
        // One of 20.
        let twenty = [&["1.5"][..], &["1.6"; 19][..]].concat();
        assert_eq!(differs(&twenty), Some(true));
    }

    #[test]
    fn nodes_have_about_as_much_memory() {
        let others = ["512.0 GiB", "511.2 GiB", "512.0 GiB", "511.8 GiB", "510.9 GiB"];
        let others = others.map(|value| item_readings("memory-size", value));
        let differs = |own| !differences(&item_readings("memory-size", own), &others).is_empty();
        assert!(!differs("503.4 GiB") && !differs("512.1 GiB"));
        assert!(differs("448.0 GiB") && differs("490.0 GiB"));
    }
}
