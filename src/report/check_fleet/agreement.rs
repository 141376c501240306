//! What most NICs or nodes have, and which have something else. NICs are compared with NICs of the
//! same generation: others have other firmware and speeds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compared::COMPARED;
use super::finding::{NodeFinding, NodeVerdict};
use crate::check::Check;
use diagnosis::majority::{common_text, is_same};
use diagnosis::readings::number;
use node::nic::health::{identity, presence};

/// The code of the version of cxidiag.
const VERSION: &str = "cxidiag";

/// What most NICs of a generation, or most nodes, have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Majority {
    /// The code of the item, or cxidiag for its version.
    pub code: String,
    /// Name of the item.
    pub item: String,
    /// The generation of the NICs; null for what is not compared by generation.
    pub generation: Option<String>,
    /// The value that more than half of them have; null if there is none.
    pub value: Option<String>,
    /// How many have it; 0 if there is no such value.
    pub count: usize,
    /// How many have a value.
    pub of: usize,
    /// What is counted: NICs or nodes.
    pub unit: &'static str,
}

/// An item as it is compared: its code, and the generation of the NICs.
type ComparedKey<'a> = (usize, &'a str, &'a str, Option<&'a str>);

/// Returns what most have, and the findings about the others by node.
pub(super) fn agree<'a>(
    checks: &[(&'a str, &'a Check)],
) -> (Vec<Majority>, BTreeMap<&'a str, Vec<NodeFinding>>) {
    let mut values: BTreeMap<ComparedKey, Vec<(&str, &str, &str)>> = BTreeMap::new();
    for (node, check) in checks {
        for (device, items) in check.blocks() {
            let nic = check.device(device);
            for item in items {
                let place = COMPARED.iter().position(|candidate| candidate.code == item.code);
                let (Some(place), Some(value)) = (place, &item.value) else {
                    continue;
                };
                let generation = nic.and_then(|nic| nic.value(identity::GENERATION.code));
                let generation = generation.filter(|_| item.code != identity::GENERATION.code);
                let key = (place, item.code.as_str(), item.name.as_str(), generation);
                let item_pairs = values.entry(key).or_default();
                item_pairs.push((node, device, value));
            }
        }
        let key = (COMPARED.len(), VERSION, VERSION, None);
        let versions = values.entry(key).or_default();
        versions.push((node, "host", &check.cxidiag_version));
    }
    let mut majorities = Vec::new();
    let mut differences: BTreeMap<&str, Vec<NodeFinding>> = BTreeMap::new();
    for ((_, code, name, generation), values) in values {
        let unit =
            if values.iter().all(|(_, device, _)| *device == "host") { "nodes" } else { "NICs" };
        let majority = Majority {
            code: code.to_owned(),
            item: name.to_owned(),
            generation: generation.map(str::to_owned),
            unit,
            ..most(code, &values)
        };
        for (node, device, value) in values {
            differences.entry(node).or_default().extend(difference(&majority, device, value));
        }
        majorities.push(majority);
    }
    (majorities, differences)
}

/// Returns the value of more than half, if there is one, and the numbers.
fn most(code: &str, values: &[(&str, &str, &str)]) -> Majority {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, _, value) in values {
        *counts.entry(value).or_default() += 1;
    }
    let same_count = |own: &str| {
        let same = counts.iter().filter(|(value, _)| is_same(code, own, value));
        same.map(|(_, count)| count).sum()
    };
    let most =
        counts.keys().map(|value| (*value, same_count(value))).max_by_key(|(_, count)| *count);
    let most = most.filter(|(_, count)| count * 2 > values.len());
    Majority {
        code: String::new(),
        item: String::new(),
        generation: None,
        value: most.map(|(value, _)| value.to_owned()),
        count: most.map_or(0, |(_, count)| count),
        of: values.len(),
        unit: "",
    }
}

/// Items in which good nodes of different kinds differ: without a majority, they say nothing.
const HOST_SHAPES: [&str; 4] = ["memory-size", "idle-states", "class-ceiling", "esm"];

/// Returns whether a value differs from the value of the majority for the better.
fn is_better(code: &str, value: &str, most: &str) -> bool {
    let [value, most] = [value, most].map(number);
    match code {
        "memory-size" | "class-ceiling" | "esm" => value > most,
        "idle-states" => value < most,
        _ => false,
    }
}

/// Returns the finding about a value that differs from the value of the majority.
fn difference(majority: &Majority, device: &str, value: &str) -> Option<NodeFinding> {
    let Majority { code, item, count, of, unit, .. } = majority;
    let what = match &majority.value {
        Some(most) if is_same(code, most, value) => return None,
        Some(most) if is_better(code, value, most) => return None,
        None if HOST_SHAPES.contains(&code.as_str()) => return None,
        Some(most) => {
            let most = common_text(code, most);
            format!("{item} {value}; {count} of {of} {unit} have {most}")
        }
        None => format!("{item} {value}; most {unit} have no common value"),
    };
    let is_fewer = || {
        let number = |text: &str| text.parse::<u64>().ok();
        number(value) < majority.value.as_deref().and_then(number)
    };
    Some(NodeFinding {
        verdict: if code == presence::COUNT.code && is_fewer() {
            NodeVerdict::Bad
        } else {
            NodeVerdict::Suspect
        },
        code: code.clone(),
        device: device.to_owned(),
        what,
    })
}
