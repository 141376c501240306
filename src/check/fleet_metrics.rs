//! The checks of many nodes as metrics.

use crate::fleet_document::{FleetCheck, NodeVerdict};
use page::openmetrics::{Family, Sample};

/// A series without labels that all files of a check of many nodes have.
pub const SERIES: &str = "cxidiag_fleet_exit_status";

/// Returns the metrics of the check of many nodes.
pub fn families(check: &FleetCheck) -> Vec<Family> {
    let (started, elapsed) = check.times();
    let verdict_samples = NodeVerdict::ALL.map(|verdict| Sample {
        labels: vec![("verdict", verdict.name().to_owned())],
        value: check.counts.with(verdict) as f64,
    });
    let findings = check.nodes.iter().flat_map(|node| {
        let node_samples = node.findings.iter().map(|found| Sample {
            labels: vec![
                ("node", node.node.clone()),
                ("device", found.device.clone()),
                ("check", found.code.clone()),
                ("verdict", found.verdict.name().to_owned()),
            ],
            value: 1.0,
        });
        node_samples.collect::<Vec<_>>()
    });
    vec![
        Family::single(
            SERIES,
            "Exit status of the check of all nodes: 0 passed, 3 a node is bad, 4 a node not tested.",
            check.exit_status().into(),
        ),
        Family::single(
            "cxidiag_fleet_timestamp_seconds",
            "Start of the check, since 1970-01-01 (UTC).",
            started,
        ),
        Family::single("cxidiag_fleet_duration_seconds", "Duration of the check.", elapsed),
        Family::gauge("cxidiag_fleet_nodes", "Number of nodes by verdict.", verdict_samples),
        Family::gauge("cxidiag_fleet_finding", "What was found on a node, always 1.", findings),
    ]
}
