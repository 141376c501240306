//! What most NICs or nodes have, and which have something else. NICs are compared with NICs of the
//! same generation: others have other firmware and speeds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::node_check::{NodeFinding, NodeVerdict};
use crate::document::Check;
use health::item::numbers;
use health::majority::{COMPARED, common_text, is_same};
use health::{Finding, Item, identity, majority, presence};

/// The version of cxidiag.
const VERSION: Item = Item { code: "cxidiag", name: "cxidiag", source: "-", remedy: "-" };

/// What most NICs of a generation, or most nodes, have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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
    let mut values: BTreeMap<ComparedKey, Vec<(&str, &str, &Finding)>> = BTreeMap::new();
    let versions = checks.iter().map(|(_, check)| Finding::shown(&VERSION, &check.cxidiag_version));
    let versions: Vec<Finding> = versions.collect();
    for ((node, check), version) in checks.iter().zip(&versions) {
        for (device, items) in check.blocks() {
            let nic = check.device(device);
            for item in items {
                let place = COMPARED.iter().position(|candidate| candidate.code == item.code);
                let (Some(place), Some(_)) = (place, &item.value) else {
                    continue;
                };
                let generation = nic.and_then(|nic| nic.value(identity::GENERATION.code));
                let generation = generation.filter(|_| item.code != identity::GENERATION.code);
                let key = (place, item.code.as_str(), item.name.as_str(), generation);
                let item_pairs = values.entry(key).or_default();
                item_pairs.push((node, device, item));
            }
        }
        let key = (COMPARED.len(), VERSION.code, VERSION.name, None);
        values.entry(key).or_default().push((node, "host", version));
    }
    let mut majorities = Vec::new();
    let mut differences: BTreeMap<&str, Vec<NodeFinding>> = BTreeMap::new();
    for ((_, code, name, generation), values) in values {
        let unit =
            if values.iter().all(|(_, device, _)| *device == "host") { "nodes" } else { "NICs" };
        let readings: Vec<&Finding> = values.iter().map(|(_, _, reading)| *reading).collect();
        let most = majority::most(&readings).filter(|(_, count)| count * 2 > values.len());
        let majority = Majority {
            code: code.to_owned(),
            item: name.to_owned(),
            generation: generation.map(str::to_owned),
            value: most.and_then(|(reading, _)| reading.value.clone()),
            count: most.map_or(0, |(_, count)| count),
            of: values.len(),
            unit,
        };
        for (node, device, own) in &values {
            let most = most.map(|(reading, _)| reading);
            differences.entry(node).or_default().extend(difference(&majority, device, own, most));
        }
        majorities.push(majority);
    }
    (majorities, differences)
}

/// Items in which good nodes of different kinds differ: without a majority, they say nothing.
const HOST_SHAPES: [&str; 4] = ["memory-size", "idle-states", "class-ceiling", "esm"];

/// Whether a value differs from the value of the majority for the better.
fn is_better(own: &Finding, most: &Finding) -> bool {
    numbers(own, most).is_some_and(|[value, most]| match own.code.as_str() {
        "memory-size" | "class-ceiling" | "esm" => value > most,
        "idle-states" => value < most,
        _ => false,
    })
}

/// The finding about a value that differs from the value of the majority.
fn difference(
    majority: &Majority,
    device: &str,
    own: &Finding,
    most: Option<&Finding>,
) -> Option<NodeFinding> {
    let Majority { code, item, count, of, unit, .. } = majority;
    let value = own.value.as_deref()?;
    if most.is_some_and(|most| is_same(most, own) || is_better(own, most)) {
        return None;
    }
    let what = match &majority.value {
        None if HOST_SHAPES.contains(&code.as_str()) => return None,
        Some(most) => {
            let most = common_text(code, most);
            format!("{item} {value}; {count} of {of} {unit} have {most}")
        }
        None => format!("{item} {value}; most {unit} have no common value"),
    };
    let is_fewer = || match most.and_then(|most| numbers(own, most)) {
        Some([Some(own), Some(most)]) => own < most,
        _ => false,
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
