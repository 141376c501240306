//! The checks of many nodes as metrics.

use crate::fleet_document::{FleetCheck, NodeVerdict, with_verdict};
use page::openmetrics::{Family, Sample};

/// A series without labels that all files of a check of many nodes have.
pub const SERIES: &str = "cxidiag_fleet_exit_status";

/// Returns the metrics of the check of many nodes.
pub fn families(check: &FleetCheck) -> Vec<Family> {
    let verdicts = NodeVerdict::ALL.into_iter().rev().map(|verdict| {
        let labels = [("verdict", verdict.name().to_owned())];
        Sample::new(labels, with_verdict(&check.nodes, verdict) as f64)
    });
    let found =
        check.nodes.iter().flat_map(|node| node.findings.iter().map(move |one| (node, one)));
    let found = found.map(|(node, finding)| {
        let labels = [
            ("node", node.node.clone()),
            ("device", finding.device.clone()),
            ("check", finding.code.clone()),
            ("verdict", finding.verdict.name().to_owned()),
        ];
        Sample::new(labels, true)
    });
    let status =
        "Exit status of the check of all nodes: 0 passed, 3 a node is bad, 4 a node not tested.";
    let times = [check.started_unix_ms, check.elapsed_ms];
    let mut families =
        Vec::from(Family::times((SERIES, status), check.exit_status, "check", times));
    families.extend([
        Family::new("cxidiag_fleet_nodes", "Number of nodes by verdict.", verdicts),
        Family::new("cxidiag_fleet_finding", "What was found on a node, always 1.", found),
    ]);
    families
}
