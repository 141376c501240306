//! The health of NICs as metrics (docs/metrics.md lists them).

use crate::document::{Check, ItemResult};
use facts::severity::Severity;
use health::identity;
use page::openmetrics;
use page::openmetrics::{Family, Kind, Sample};

/// A series without labels that all files of a check have.
pub const SERIES: &str = "cxidiag_check_exit_status";

/// A family of numbers.
struct Numbers {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// The label that distinguishes its items; empty if there is one item.
    label: &'static str,
    /// The codes of its items, each with the value of the label.
    items: &'static [(&'static str, &'static str)],
}

const NUMBERS: [Numbers; 13] = [
    Numbers {
        name: "cxidiag_nic_link_speed_bytes_per_second",
        kind: Kind::Gauge,
        help: "Speed of the link for data.",
        label: "",
        items: &[("link-speed", "")],
    },
    Numbers {
        name: "cxidiag_nic_link_flaps",
        kind: Kind::Gauge,
        help: "Restarts of the link in the last 10 hours, at most 10.",
        label: "",
        items: &[("link-flaps", "")],
    },
    Numbers {
        name: "cxidiag_nic_uncorrected_bit_error_ratio",
        kind: Kind::Gauge,
        help: "Code words with uncorrected errors per bit, counted during the check.",
        label: "",
        items: &[("fec-uncorrected", "")],
    },
    Numbers {
        name: "cxidiag_nic_corrected_bit_error_ratio",
        kind: Kind::Gauge,
        help: "Code words with corrected errors per bit, counted during the check.",
        label: "",
        items: &[("fec-corrected", "")],
    },
    Numbers {
        name: "cxidiag_nic_pcie_lanes",
        kind: Kind::Gauge,
        help: "Lanes of the PCIe link in use.",
        label: "",
        items: &[("pcie-width", "")],
    },
    Numbers {
        name: "cxidiag_nic_pcie_transfers_per_second",
        kind: Kind::Gauge,
        help: "Speed of each lane of the PCIe link.",
        label: "",
        items: &[("pcie-speed", "")],
    },
    Numbers {
        name: "cxidiag_nic_aer_errors",
        kind: Kind::Counter,
        help: "Errors of PCIe since the last boot, as the kernel counts them.",
        label: "severity",
        items: &[
            ("aer-fatal", "fatal"),
            ("aer-nonfatal", "nonfatal"),
            ("aer-correctable", "correctable"),
        ],
    },
    Numbers {
        name: "cxidiag_nic_pcie_errors",
        kind: Kind::Counter,
        help: "Errors of PCIe since the driver was loaded, as the driver counts them.",
        label: "kind",
        items: &[("pcie-uncorrected", "uncorrected"), ("pcie-corrected", "corrected")],
    },
    Numbers {
        name: "cxidiag_nic_temperature_celsius",
        kind: Kind::Gauge,
        help: "Temperature of the hottest chip and voltage regulator of the card, and of the end of its cable.",
        label: "sensor",
        items: &[
            ("asic-temperature", "asic"),
            ("media-temperature", "media"),
            ("regulator-temperature", "regulator"),
        ],
    },
    Numbers {
        name: "cxidiag_nic_power_watts",
        kind: Kind::Gauge,
        help: "Power of supplies of the card.",
        label: "sensor",
        items: &[
            ("vdd-power", "vdd"),
            ("avdd-power", "avdd"),
            ("trvdd-power", "trvdd"),
            ("qsfp-power", "qsfp"),
        ],
    },
    Numbers {
        name: "cxidiag_nic_memory_errors",
        kind: Kind::Counter,
        help: "Uncorrectable errors of memories of the chip since the driver was loaded.",
        label: "",
        items: &[("memory-errors", "")],
    },
    Numbers {
        name: "cxidiag_median_latency_seconds",
        kind: Kind::Gauge,
        help: "Median latency through the NIC from this host to itself.",
        label: "tool",
        items: &[("loopback-write", "write-lat"), ("loopback-read", "read-lat")],
    },
    Numbers {
        name: "cxidiag_bandwidth_bytes_per_second",
        kind: Kind::Gauge,
        help: "Bandwidth through the NIC from this host to itself.",
        label: "tool",
        items: &[("write-bandwidth", "write-bw"), ("read-bandwidth", "read-bw")],
    },
];

/// Returns the metrics of a check.
pub fn families(check: &Check) -> Vec<Family> {
    families_of("check", check)
}

/// Returns the metrics of what `command` has checked.
pub fn families_of(command: &str, check: &Check) -> Vec<Family> {
    let (started, elapsed) = check.times();
    let mut families = vec![
        openmetrics::build(command),
        Family::single(
            SERIES,
            "Exit status of the check: 0 good, 3 an item is bad, 4 nothing is bad but a NIC was not tested.",
            check.exit_status.into(),
        ),
        Family::single(
            "cxidiag_check_timestamp_seconds",
            "Start of the check, since 1970-01-01 (UTC).",
            started,
        ),
        Family::single("cxidiag_check_duration_seconds", "Duration of the check.", elapsed),
        verdicts(
            check,
            "cxidiag_check_ok",
            "Whether the item is good or suspect (1) or bad (0); no sample without a value or a limit.",
            |verdict| verdict != Severity::Bad,
        ),
        verdicts(
            check,
            "cxidiag_check_suspect",
            "Whether the item is suspect (1) or not (0); no sample without a value or a limit.",
            |verdict| verdict == Severity::Suspect,
        ),
        nic_info(check),
    ];
    families
        .extend(NUMBERS.map(|own| Family::new(own.kind, own.name, own.help, numbers(check, &own))));
    families
}

/// Returns a gauge with a sample for each item that has a limit and a value.
fn verdicts(
    check: &Check,
    name: &'static str,
    help: &'static str,
    holds: impl Fn(Severity) -> bool,
) -> Family {
    let samples = check.blocks().flat_map(|(device, items)| {
        let has_verdict = |item: &&ItemResult| item.verdict >= Severity::Good;
        items.iter().filter(has_verdict).map(move |item| (device, item))
    });
    let samples = samples.map(|(device, item)| Sample {
        labels: vec![("device", device.to_owned()), ("check", item.code.clone())],
        value: f64::from(u8::from(holds(item.verdict))),
    });
    Family::gauge(name, help, samples)
}

fn nic_info(check: &Check) -> Family {
    let samples = check.devices.iter().filter(|device| !device.items.is_empty());
    let samples = samples.map(|device| {
        let value = |code| device.value(code).unwrap_or_default().to_owned();
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
    let help = "What the NIC is, always 1; a label is empty where this is unknown.";
    Family::new(Kind::Info, "cxidiag_nic", help, samples)
}

fn numbers(check: &Check, family: &Numbers) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (device, items) in check.blocks() {
        for item in items {
            let member = family.items.iter().find(|(code, _)| *code == item.code);
            if let (Some((_, text)), Some(value)) = (member, item.number) {
                let mut labels = vec![("device", device.to_owned())];
                if !family.label.is_empty() {
                    labels.push((family.label, (*text).to_owned()));
                }
                samples.push(Sample { labels, value });
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::testing::{bad, check, good, suspect};
    use health::ITEMS;
    use page::openmetrics::{Dialect, text};

    #[test]
    fn numbers_are_those_of_items() {
        for (code, _) in NUMBERS.iter().flat_map(|numbers| numbers.items) {
            assert!(ITEMS.iter().any(|item| item.code == *code), "{code}");
        }
    }

    #[test]
    fn writes_a_sample_for_each_item_with_a_verdict() {
        let check = check(vec![good(), bad()], vec![suspect()], None);
        let text = text(&families(&check), Dialect::NodeExporter);
        for line in [
            "cxidiag_build_info{command=\"check\",version=\"0.1.0\"} 1",
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
