//! What probes of other nodes have measured as metrics (docs/metrics.md lists them).

use std::time::{Duration, SystemTime};

use crate::probe::figures::{NicFigures, TargetFigures};
use crew::location::{Class, Location};
use page::openmetrics::{self, Family, Sample};

/// A series without labels that all files of probes have.
pub const SERIES: &str = "cxidiag_probe_timestamp_seconds";

/// The probes of a node.
#[derive(Clone, Debug)]
pub struct Probes {
    /// The name of this node in the list of hosts.
    pub node: String,
    pub nics: Vec<NicFigures>,
    /// When the figures were gathered, on the clock of the figures and on the wall.
    pub now: Duration,
    pub at: SystemTime,
    /// Hosts that are to be probed from this node.
    pub targets: usize,
    /// NICs of this node that are open.
    pub open_nics: usize,
    /// CPU time of the process.
    pub cpu: Duration,
}

/// One value of a target.
type TargetValue = fn(&TargetFigures, Duration) -> Option<f64>;

/// The metrics of probes.
pub fn families(probes: &Probes) -> Vec<Family> {
    let written = probes.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut families = vec![
        openmetrics::build("serve"),
        Family::new(
            SERIES,
            "When the file was written, since 1970-01-01 (UTC).",
            [written.as_secs_f64().into()],
        ),
        Family::new(
            "cxidiag_probe_targets",
            "Nodes that each NIC of this node is to probe.",
            [(probes.targets as f64).into()],
        ),
        Family::new(
            "cxidiag_probe_nics",
            "NICs of this node that are open for probes.",
            [(probes.open_nics as f64).into()],
        ),
        Family::new(
            "cxidiag_probe_cpu_seconds_total",
            "CPU time that probes have taken.",
            [probes.cpu.as_secs_f64().into()],
        ),
        Family::new(
            "cxidiag_probe_nic_info",
            "The NICs of this node that probe, always 1; switch and group are empty if the address does not show them.",
            probes.nics.iter().map(|nic| info(&probes.node, nic)),
        ),
    ];
    families.extend(target_families(probes));
    families
}

/// The metrics of the targets of each NIC.
fn target_families(probes: &Probes) -> Vec<Family> {
    vec![
        Family::new(
            "cxidiag_probe_latency_seconds",
            "Latency of writes of 8 bytes in the last burst that this host did not disturb; no sample after a minute without.",
            latencies(probes),
        ),
        Family::new(
            "cxidiag_probe_bandwidth_bytes_per_second",
            "Bandwidth of the last bulk write; no sample after 5 minutes without.",
            samples(probes, TargetFigures::bandwidth),
        ),
        Family::new(
            "cxidiag_probe_age_seconds",
            "Time since the last burst that was answered and not disturbed, or since the target was chosen.",
            samples(probes, |target, now| Some(target.age(now).as_secs_f64())),
        ),
        Family::new(
            "cxidiag_probe_bursts_total",
            "Bursts of writes, with those that failed or were dropped.",
            samples(probes, |target, _| Some(target.bursts as f64)),
        ),
        Family::new(
            "cxidiag_probe_failures_total",
            "Bursts and bulk writes that failed, or of which a packet was sent again.",
            by_target(probes, |target| {
                target.failures().map(|(reason, count)| ("reason", reason, count as f64)).collect()
            }),
        ),
        Family::new(
            "cxidiag_probe_late_total",
            "Bursts that were dropped because this host was late: its threads waited for a CPU.",
            samples(probes, |target, _| Some(target.late as f64)),
        ),
        Family::new(
            "cxidiag_probe_left_out_total",
            "Probes that were not made, so that others are not disturbed or because there is no peer.",
            left_out(probes),
        ),
    ]
}

fn info(node: &str, nic: &NicFigures) -> Sample {
    let part = |text: fn(Location) -> String| nic.location.map_or(String::new(), text);
    let labels = [
        ("device", nic.device.clone()),
        ("node", node.to_owned()),
        ("switch", part(|Location { group, switch, .. }| format!("{group:03}.{switch:02}"))),
        ("group", part(|place| format!("{:03}", place.group))),
    ];
    Sample::new(labels, true)
}

/// The value of the label `class`.
fn class(target: &TargetFigures) -> &'static str {
    match target.class {
        Class::Loopback | Class::Node => "node",
        Class::Switch => "switch",
        Class::Group => "group",
        Class::Fabric => "other",
        Class::Unknown => "unknown",
    }
}

/// The samples of each target, by a further label or several.
fn by_target(
    probes: &Probes,
    values: impl Fn(&TargetFigures) -> Vec<(&'static str, &'static str, f64)>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for nic in &probes.nics {
        for target in nic.targets.iter().flatten() {
            for (label, name, value) in values(target) {
                let mut labels = vec![
                    ("device", nic.device.clone()),
                    ("target", target.host.clone()),
                    ("target_device", target.device.clone()),
                    ("class", class(target).to_owned()),
                ];
                if !label.is_empty() {
                    labels.push((label, name.to_owned()));
                }
                samples.push(Sample::new(labels, value));
            }
        }
    }
    samples
}

fn samples(probes: &Probes, value: TargetValue) -> Vec<Sample> {
    by_target(probes, |target| {
        value(target, probes.now).map(|value| ("", "", value)).into_iter().collect()
    })
}

fn latencies(probes: &Probes) -> Vec<Sample> {
    by_target(probes, |target| {
        let Some(latencies) = target.latencies(probes.now) else {
            return Vec::new();
        };
        let kinds = [("min", latencies.min), ("median", latencies.median)];
        kinds.map(|(kind, latency)| ("kind", kind, latency.as_secs_f64())).into()
    })
}

fn left_out(probes: &Probes) -> Vec<Sample> {
    let by_nic = |nic: &NicFigures| {
        let sample = |(reason, count): (&str, u64)| {
            let labels = [("device", nic.device.clone()), ("reason", reason.to_owned())];
            Sample::new(labels, count as f64)
        };
        nic.left_out().map(sample).collect::<Vec<_>>()
    };
    probes.nics.iter().flat_map(by_nic).collect()
}

/// Probes of a NIC at a switch that is known.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use members::prober_nic::{BurstLatencies, EndedProbe, ProbeFigure};

    use super::*;

    pub fn probes() -> Probes {
        let second = Duration::from_secs(1);
        let place = Location { group: 3, switch: 12, port: Some(1) };
        let mut nic = NicFigures::new("cxi0", Some(place), 8);
        let latencies = BurstLatencies {
            min: Duration::from_nanos(1800),
            median: Duration::from_nanos(2000),
            max: Duration::from_nanos(3000),
        };
        for slot in 0..8 {
            let host = format!("nid{slot}");
            let target = nic.target(slot, (&host, "cxi0", Class::Fabric), second);
            for measured in [ProbeFigure::Burst(latencies), ProbeFigure::Bulk(24e9)] {
                let ended = EndedProbe {
                    result: Ok(measured),
                    turns: 0,
                    waited: Duration::ZERO,
                    stopped: Duration::ZERO,
                    took: second,
                };
                target.add(ended, 2 * second);
            }
        }
        Probes {
            node: "nid9".into(),
            nics: vec![nic],
            now: 5 * second,
            at: SystemTime::UNIX_EPOCH + 9 * second,
            open_nics: 1,
            targets: 8,
            cpu: second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::openmetrics::{Dialect, text};

    #[test]
    fn writes_figures_of_each_target_and_few_of_a_nic() {
        let probes = testing::probes();
        let text = text(&families(&probes), Dialect::NodeExporter);
        let labels = "device=\"cxi0\",target=\"nid3\",target_device=\"cxi0\",class=\"other\"";
        for line in [
            format!("cxidiag_probe_latency_seconds{{{labels},kind=\"min\"}} 0.0000018\n"),
            format!("cxidiag_probe_bandwidth_bytes_per_second{{{labels}}} 24000000000\n"),
            format!("cxidiag_probe_age_seconds{{{labels}}} 3\n"),
            format!("cxidiag_probe_failures_total{{{labels},reason=\"no_answer\"}} 0\n"),
            "cxidiag_probe_nic_info{device=\"cxi0\",node=\"nid9\",switch=\"003.12\",group=\"003\"} 1\n".into(),
        ] {
            assert!(text.contains(&line), "no {line} in {text}");
        }
        let count = text.lines().filter(|line| line.contains("device=\"cxi0\"")).count();
        assert!(count <= 100, "{count} series");
    }

    #[test]
    fn target_without_recent_figures_has_none() {
        let mut probes = testing::probes();
        probes.now += Duration::from_secs(100);
        let text = text(&families(&probes), Dialect::NodeExporter);
        assert!(!text.contains("latency_seconds{") && text.contains("bandwidth_bytes_per_second{"));
        assert!(text.contains("age_seconds{"));
    }
}
