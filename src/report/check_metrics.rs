//! The health of NICs as metrics (docs/check.md lists them).

use super::check::{Check, ItemResult};
use super::openmetrics::{Family, Kind, Sample};
use crate::nic::health::{Verdict, identity};

/// The numbers of items: code, the family that it belongs to, and a label that distinguishes it
/// there.
const NUMBERS: [(&str, &str, Option<(&str, &str)>); 16] = [
    (
        "link-speed",
        "cxidiag_nic_link_speed_bytes_per_second",
        None,
    ),
    ("link-flaps", "cxidiag_nic_link_flaps", None),
    (
        "fec-uncorrected",
        "cxidiag_nic_uncorrected_bit_error_ratio",
        None,
    ),
    (
        "fec-corrected",
        "cxidiag_nic_corrected_bit_error_ratio",
        None,
    ),
    ("pcie-width", "cxidiag_nic_pcie_lanes", None),
    ("pcie-speed", "cxidiag_nic_pcie_transfers_per_second", None),
    (
        "aer-fatal",
        "cxidiag_nic_aer_errors",
        Some(("severity", "fatal")),
    ),
    (
        "aer-nonfatal",
        "cxidiag_nic_aer_errors",
        Some(("severity", "nonfatal")),
    ),
    (
        "aer-correctable",
        "cxidiag_nic_aer_errors",
        Some(("severity", "correctable")),
    ),
    (
        "pcie-uncorrected",
        "cxidiag_nic_pcie_errors",
        Some(("kind", "uncorrected")),
    ),
    (
        "pcie-corrected",
        "cxidiag_nic_pcie_errors",
        Some(("kind", "corrected")),
    ),
    ("memory-errors", "cxidiag_nic_memory_errors", None),
    (
        "loopback-write",
        "cxidiag_median_latency_seconds",
        Some(("tool", "write-lat")),
    ),
    (
        "loopback-read",
        "cxidiag_median_latency_seconds",
        Some(("tool", "read-lat")),
    ),
    (
        "write-bandwidth",
        "cxidiag_bandwidth_bytes_per_second",
        Some(("tool", "write-bw")),
    ),
    (
        "read-bandwidth",
        "cxidiag_bandwidth_bytes_per_second",
        Some(("tool", "read-bw")),
    ),
];

/// The families of numbers: name, kind, unit, help.
const FAMILIES: [(&str, Kind, &str, &str); 11] = [
    (
        "cxidiag_nic_link_speed_bytes_per_second",
        Kind::Gauge,
        "bytes_per_second",
        "Speed of the link for data.",
    ),
    (
        "cxidiag_nic_link_flaps",
        Kind::Gauge,
        "",
        "Restarts of the link in the last 10 hours, at most 10.",
    ),
    (
        "cxidiag_nic_uncorrected_bit_error_ratio",
        Kind::Gauge,
        "ratio",
        "Uncorrected code words per bit during the check.",
    ),
    (
        "cxidiag_nic_corrected_bit_error_ratio",
        Kind::Gauge,
        "ratio",
        "Corrected code words per bit during the check.",
    ),
    (
        "cxidiag_nic_pcie_lanes",
        Kind::Gauge,
        "",
        "Lanes of PCIe in use.",
    ),
    (
        "cxidiag_nic_pcie_transfers_per_second",
        Kind::Gauge,
        "",
        "Speed of each lane of PCIe.",
    ),
    (
        "cxidiag_nic_aer_errors",
        Kind::Counter,
        "",
        "Errors of PCIe since the last boot, as the kernel counts them.",
    ),
    (
        "cxidiag_nic_pcie_errors",
        Kind::Counter,
        "",
        "Errors of PCIe since the driver was loaded, as the driver counts them.",
    ),
    (
        "cxidiag_nic_memory_errors",
        Kind::Counter,
        "",
        "Uncorrectable errors of memories of the chip since the driver was loaded.",
    ),
    (
        "cxidiag_median_latency_seconds",
        Kind::Gauge,
        "seconds",
        "Median latency through the NIC from this host to itself.",
    ),
    (
        "cxidiag_bandwidth_bytes_per_second",
        Kind::Gauge,
        "bytes_per_second",
        "Bandwidth through the NIC from this host to itself.",
    ),
];

/// Returns the metrics of a check.
pub fn families(check: &Check) -> Vec<Family> {
    let of_check = |name, unit, help, value| Family {
        name,
        kind: Kind::Gauge,
        unit,
        help,
        samples: vec![Sample {
            labels: Vec::new(),
            value,
        }],
    };
    let (started, elapsed) = check.times();
    let mut families = vec![
        Family {
            name: "cxidiag_build",
            kind: Kind::Info,
            unit: "",
            help: "Version of cxidiag.",
            samples: vec![Sample {
                labels: vec![("version", env!("CARGO_PKG_VERSION").into())],
                value: 1.0,
            }],
        },
        of_check(
            "cxidiag_check_exit_status",
            "",
            "Exit status of the check: 0 passed, 3 an item is bad, 1 not tested.",
            check.exit_status().into(),
        ),
        of_check(
            "cxidiag_check_timestamp_seconds",
            "seconds",
            "Start of the check, since 1970-01-01 (UTC).",
            started,
        ),
        of_check(
            "cxidiag_check_duration_seconds",
            "seconds",
            "Duration of the check.",
            elapsed,
        ),
        verdicts(
            check,
            "cxidiag_check_ok",
            "Whether the item is good or suspect (1) or bad (0).",
            |verdict| verdict != Verdict::Bad,
        ),
        verdicts(
            check,
            "cxidiag_check_suspect",
            "Whether the item is suspect.",
            |verdict| verdict == Verdict::Suspect,
        ),
        nic_info(check),
    ];
    families.extend(FAMILIES.map(|(name, kind, unit, help)| Family {
        name,
        kind,
        unit,
        help,
        samples: numbers(check, name),
    }));
    families
}

/// Returns a gauge with a sample for each item that has a limit and a value.
fn verdicts(
    check: &Check,
    name: &'static str,
    help: &'static str,
    holds: impl Fn(Verdict) -> bool,
) -> Family {
    let samples = check.blocks().flat_map(|(device, items)| {
        let judged = |item: &&ItemResult| item.verdict_kind >= Verdict::Good;
        items.iter().filter(judged).map(move |item| (device, item))
    });
    let samples = samples.map(|(device, item)| Sample {
        labels: vec![
            ("device", device.to_owned()),
            ("check", item.code.to_owned()),
        ],
        value: f64::from(u8::from(holds(item.verdict_kind))),
    });
    Family {
        name,
        kind: Kind::Gauge,
        unit: "",
        help,
        samples: samples.collect(),
    }
}

fn nic_info(check: &Check) -> Family {
    let samples = check.devices().iter().filter(|of| !of.items.is_empty());
    let samples = samples.map(|device| {
        let value = |code| {
            let mut items = device.items.iter();
            let found = items.find(|item| item.code == code);
            found
                .and_then(|item| item.value.clone())
                .unwrap_or_default()
        };
        Sample {
            labels: vec![
                ("device", device.name.clone()),
                ("generation", value(identity::GENERATION.code)),
                ("serial", value(identity::SERIAL.code)),
                ("firmware", value(identity::FIRMWARE.code)),
                ("driver", value(identity::DRIVER.code)),
            ],
            value: 1.0,
        }
    });
    Family {
        name: "cxidiag_nic",
        kind: Kind::Info,
        unit: "",
        help: "What the NIC is; empty where it is unknown.",
        samples: samples.collect(),
    }
}

/// Returns the samples of a family of numbers.
fn numbers(check: &Check, family: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (device, items) in check.blocks() {
        for item in items {
            let of_item = NUMBERS
                .iter()
                .find(|(code, of, _)| *code == item.code && *of == family);
            if let (Some((_, _, label)), Some(value)) = (of_item, item.number) {
                let device = [("device", device.to_owned())].into_iter();
                let label = label.map(|(name, text)| (name, text.to_owned()));
                samples.push(Sample {
                    labels: device.chain(label).collect(),
                    value,
                });
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::super::check::testing::{bad, check, good, suspect};
    use super::super::openmetrics::{Dialect, text};
    use super::*;
    use crate::nic::health::ITEMS;

    #[test]
    fn numbers_name_items_and_families() {
        for (code, family, _) in NUMBERS {
            assert!(ITEMS.iter().any(|item| item.code == code), "{code}");
            assert!(
                FAMILIES.iter().any(|(name, ..)| *name == family),
                "{family}"
            );
        }
    }

    #[test]
    fn units_are_the_ends_of_names() {
        for family in families(&check(vec![good()], vec![], None)) {
            assert!(family.name.ends_with(family.unit), "{}", family.name);
        }
    }

    #[test]
    fn writes_a_sample_for_each_item_with_a_verdict() {
        let check = check(vec![good(), bad()], vec![suspect()], None);
        let text = text(&families(&check), Dialect::NodeExporter);
        for line in [
            "cxidiag_check_exit_status 3",
            "cxidiag_check_timestamp_seconds 1700000000",
            "cxidiag_check_duration_seconds 2.1",
            "cxidiag_check_ok{device=\"cxi0\",check=\"link-down\"} 1",
            "cxidiag_check_ok{device=\"cxi0\",check=\"pcie-width\"} 0",
            "cxidiag_check_suspect{device=\"host\",check=\"governor\"} 1",
            "cxidiag_nic_info{device=\"cxi0\",generation=\"\",serial=\"\",firmware=\"\",driver=\"\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
