//! The checks of many nodes in one: what is bad or suspect, and what differs from most nodes. The
//! doc comments of the types are the descriptions in their schema, docs/check-fleet.schema.json.
//!
//! * `agreement`: what most NICs have, and which differ.
//! * `node_check`: the check of one node, read back, and what is found in it.

mod agreement;
mod node_check;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

pub use self::agreement::Majority;
use self::agreement::agree;
use self::node_check::findings;
use crate::document::{Check, UNTESTED};
use crew::host_list;
use facts::error::{Failure, UNDECIDED};
use facts::text::plural;
use facts::time_of_day::{milliseconds, unix_ms};
use health::ITEMS;
pub use node_check::{NodeFinding, NodeVerdict};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Different values that a line names.
const NAMED_VALUES: usize = 3;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeResult {
    /// Its name.
    pub node: String,
    /// The worst of its findings.
    pub verdict: NodeVerdict,
    /// What was found, the worst first; empty if all is good.
    pub findings: Vec<NodeFinding>,
}

/// Nodes with the same finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeGroup {
    /// What the finding amounts to.
    pub verdict: NodeVerdict,
    /// The code of the item, or untested.
    pub code: String,
    /// The devices, or host, with spaces between them.
    pub devices: String,
    /// What it is; the values of several nodes with semicolons between them.
    pub what: String,
    /// Number of nodes.
    pub count: usize,
    /// The nodes, as a host list.
    pub nodes: String,
}

/// Numbers of nodes, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// All nodes.
    pub nodes: usize,
    /// Nodes that are bad.
    pub bad: usize,
    /// Nodes that have not sent a check.
    pub no_answer: usize,
    /// Nodes on which something could not be checked.
    pub untested: usize,
    /// Nodes that are suspect.
    pub suspect: usize,
    /// Nodes that are good.
    pub good: usize,
}

impl NodeCounts {
    fn of(nodes: &[NodeResult]) -> Self {
        let count = |verdict| with_verdict(nodes, verdict);
        Self {
            nodes: nodes.len(),
            bad: count(NodeVerdict::Bad),
            no_answer: count(NodeVerdict::NoAnswer),
            untested: count(NodeVerdict::Untested),
            suspect: count(NodeVerdict::Suspect),
            good: count(NodeVerdict::Good),
        }
    }
}

/// The number of nodes with this verdict.
pub fn with_verdict(nodes: &[NodeResult], verdict: NodeVerdict) -> usize {
    nodes.iter().filter(|node| node.verdict == verdict).count()
}

/// The health of many nodes, as `cxidiag check` of several nodes writes it with `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FleetCheck {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Start of the check, in milliseconds since 1970-01-01 (UTC).
    pub(super) started_unix_ms: u64,
    /// Duration of the check, in milliseconds.
    pub(super) elapsed_ms: u64,
    /// Exit status of the program: 0 if nothing is bad, 3 if a node is, 4 if no node is bad but one
    /// could not be checked.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// Numbers of nodes, by verdict.
    pub counts: NodeCounts,
    /// Nodes with the same findings, the worst first.
    pub groups: Vec<NodeGroup>,
    /// What most NICs or nodes have.
    pub majority: Vec<Majority>,
    /// The nodes, in the order of their names.
    pub nodes: Vec<NodeResult>,
}

impl FleetCheck {
    /// Returns what the checks of these nodes amount to: name, and check or why there is none. The
    /// first check of a name counts.
    pub fn new(
        started: SystemTime,
        elapsed: Duration,
        answers: Vec<(String, Result<Check, String>)>,
    ) -> Self {
        let mut by_name = BTreeMap::new();
        for (name, answer) in answers {
            by_name.entry(name).or_insert(answer);
        }
        let checks: Vec<(&str, &Check)> = by_name
            .iter()
            .filter_map(|(name, answer)| Some((name.as_str(), answer.as_ref().ok()?)))
            .collect();
        let (majority, mut differences) = agree(&checks);
        let nodes = by_name.iter().map(|(name, answer)| {
            let mut found = match answer {
                Ok(check) => findings(check),
                Err(reason) => vec![NodeFinding {
                    verdict: NodeVerdict::NoAnswer,
                    code: UNTESTED.into(),
                    device: "host".into(),
                    what: reason.clone(),
                }],
            };
            for other in differences.remove(name.as_str()).unwrap_or_default() {
                let is_known = |finding: &NodeFinding| {
                    finding.code == other.code && finding.device == other.device
                };
                if !found.iter().any(is_known) {
                    found.push(other);
                }
            }
            found.sort_by_key(|finding| {
                (std::cmp::Reverse(finding.verdict), importance(&finding.code))
            });
            let verdict = found.first().map_or(NodeVerdict::Good, |finding| finding.verdict);
            NodeResult { node: name.clone(), verdict, findings: found }
        });
        let nodes: Vec<NodeResult> = nodes.collect();
        let counts = NodeCounts::of(&nodes);
        let exit_status = match counts {
            NodeCounts { bad: 1.., .. } => 3,
            NodeCounts { nodes: 0, .. } => UNDECIDED,
            NodeCounts { no_answer: 0, untested: 0, .. } => 0,
            _ => UNDECIDED,
        };
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            exit_status,
            summary: summary(&nodes, exit_status),
            counts,
            groups: groups(&nodes),
            majority,
            nodes,
        }
    }

    /// The nodes that are bad, as a host list in a line; nothing if there are none.
    pub fn bad_nodes(&self) -> String {
        let bad = self.nodes.iter().filter(|node| node.verdict == NodeVerdict::Bad);
        match host_list::compress(bad.map(|node| node.node.as_str())) {
            list if list.is_empty() => list,
            list => list + "\n",
        }
    }

    /// Whether all nodes passed.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

/// The first line: `bad: 3 of 512 nodes; 2 without answer, 507 good`.
fn summary(nodes: &[NodeResult], exit_status: u8) -> String {
    let count = |verdict| with_verdict(nodes, verdict);
    let (word, first) = match exit_status {
        3 => ("bad", NodeVerdict::Bad),
        0 => ("good", NodeVerdict::Good),
        _ if count(NodeVerdict::NoAnswer) > 0 => ("undecided", NodeVerdict::NoAnswer),
        _ => ("undecided", NodeVerdict::Untested),
    };
    let label = match word {
        "undecided" => format!(" {}", first.text()),
        _ => String::new(),
    };
    let others = NodeVerdict::ALL.into_iter().rev().filter(|verdict| *verdict != first);
    let others = others.map(|verdict| (count(verdict), verdict.text()));
    let others = others.filter(|(count, _)| *count > 0);
    let others: Vec<String> = others.map(|(count, text)| format!("{count} {text}")).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!("; {}", others.join(", ")),
    };
    let (count, all) = (count(first), nodes.len());
    format!("{word}: {count} of {all} node{}{label}{others}", plural(all))
}

/// Returns nodes with the same findings: the worst first, then the largest groups.
fn groups(nodes: &[NodeResult]) -> Vec<NodeGroup> {
    // By verdict, code and device: the nodes, and what was found on them.
    let mut nodes_by_finding: BTreeMap<_, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    for node in nodes {
        for found in &node.findings {
            let key = (found.verdict, &found.code, by_number(&found.device));
            // Reasons for no answer have nothing in common but their text.
            let reason = Some(&found.what).filter(|_| found.code == UNTESTED);
            let (names, whats) = nodes_by_finding.entry((key, reason)).or_default();
            names.push(&node.node);
            if !whats.contains(&found.what.as_str()) {
                whats.push(&found.what);
            }
        }
    }
    // Devices with the same nodes share a group.
    let mut devices: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (((verdict, code, (_, device)), _), found) in nodes_by_finding {
        devices.entry((verdict, code, found)).or_default().push(device);
    }
    let groups = devices.into_iter().map(|((verdict, code, (names, whats)), devices)| NodeGroup {
        verdict,
        code: code.clone(),
        devices: devices.join(" "),
        what: some_of(&whats),
        count: names.len(),
        nodes: host_list::compress(names),
    });
    let mut groups: Vec<NodeGroup> = groups.collect();
    groups.sort_by_key(|group| {
        let worst_first = std::cmp::Reverse((group.verdict, group.count));
        (worst_first, importance(&group.code), group.nodes.clone())
    });
    groups
}

/// A device with its number, by which `cxi10` follows `cxi9`.
fn by_number(device: &str) -> (usize, &str) {
    (device.len(), device)
}

/// The first values of several.
fn some_of(values: &[&str]) -> String {
    let named = values.iter().take(NAMED_VALUES).copied().collect::<Vec<_>>();
    match values.len().saturating_sub(NAMED_VALUES) {
        0 => named.join("; "),
        more => format!("{}; and {more} others", named.join("; ")),
    }
}

/// The place of an item among all items, the most important first.
fn importance(code: &str) -> usize {
    let place = ITEMS.iter().position(|item| item.code == code);
    place.unwrap_or(ITEMS.len())
}
