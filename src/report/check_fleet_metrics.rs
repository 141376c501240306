//! The checks of many nodes as metrics.

use super::check_fleet::{FleetCheck, NodeVerdict};
use super::openmetrics::{Family, Kind, Sample};

/// A series without labels that all files of a check of many nodes have.
pub const SERIES: &str = "cxidiag_fleet_exit_status";

/// Returns the metrics of the check of many nodes.
pub fn families(check: &FleetCheck) -> Vec<Family> {
    let (started, elapsed) = check.times();
    let one = |name, unit, help, value| Family {
        name,
        kind: Kind::Gauge,
        unit,
        help,
        samples: vec![Sample { labels: Vec::new(), value }],
    };
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
        one(
            SERIES,
            "",
            "Exit status of the check of all nodes: 0 passed, 3 a node is bad, 4 a node not tested.",
            check.exit_status().into(),
        ),
        one(
            "cxidiag_fleet_timestamp_seconds",
            "seconds",
            "Start of the check, since 1970-01-01 (UTC).",
            started,
        ),
        one("cxidiag_fleet_duration_seconds", "seconds", "Duration of the check.", elapsed),
        Family {
            name: "cxidiag_fleet_nodes",
            kind: Kind::Gauge,
            unit: "",
            help: "Number of nodes by verdict.",
            samples: verdict_samples.into(),
        },
        Family {
            name: "cxidiag_fleet_finding",
            kind: Kind::Gauge,
            unit: "",
            help: "What was found on a node, always 1.",
            samples: findings.collect(),
        },
    ]
}
