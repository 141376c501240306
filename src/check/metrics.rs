//! The health of NICs as metrics (docs/metrics.md lists them).

use crate::document::Check;
use facts::severity::Severity;
use health::{Finding, identity};
use page::openmetrics::{self, Family, Sample};

/// A series without labels that all files of a check have.
pub const SERIES: &str = "cxidiag_check_exit_status";

/// The families of numbers, with what they are.
const FAMILIES: [(&str, &str); 13] = [
    ("cxidiag_nic_link_speed_bytes_per_second", "Speed of the link for data."),
    ("cxidiag_nic_link_flaps", "Restarts of the link in the last 10 hours, at most 10."),
    (
        "cxidiag_nic_uncorrected_bit_error_ratio",
        "Code words with uncorrected errors per bit, counted during the check.",
    ),
    (
        "cxidiag_nic_corrected_bit_error_ratio",
        "Code words with corrected errors per bit, counted during the check.",
    ),
    ("cxidiag_nic_pcie_lanes", "Lanes of the PCIe link in use."),
    ("cxidiag_nic_pcie_transfers_per_second", "Speed of each lane of the PCIe link."),
    (
        "cxidiag_nic_aer_errors_total",
        "Errors of PCIe since the last boot, as the kernel counts them.",
    ),
    (
        "cxidiag_nic_pcie_errors_total",
        "Errors of PCIe since the driver was loaded, as the driver counts them.",
    ),
    (
        "cxidiag_nic_temperature_celsius",
        "Temperature of the hottest chip and voltage regulator of the card, and of the end of its cable.",
    ),
    ("cxidiag_nic_power_watts", "Power of supplies of the card."),
    (
        "cxidiag_nic_memory_errors_total",
        "Uncorrectable errors of memories of the chip since the driver was loaded.",
    ),
    ("cxidiag_median_latency_seconds", "Median latency through the NIC from this host to itself."),
    ("cxidiag_bandwidth_bytes_per_second", "Bandwidth through the NIC from this host to itself."),
];

/// The items with numbers by their codes, each with its family, and the label that distinguishes it
/// from others of the family; empty if there is one item.
const NUMBERS: [(&str, &str, &str, &str); 23] = [
    ("link-speed", "cxidiag_nic_link_speed_bytes_per_second", "", ""),
    ("link-flaps", "cxidiag_nic_link_flaps", "", ""),
    ("fec-uncorrected", "cxidiag_nic_uncorrected_bit_error_ratio", "", ""),
    ("fec-corrected", "cxidiag_nic_corrected_bit_error_ratio", "", ""),
    ("pcie-width", "cxidiag_nic_pcie_lanes", "", ""),
    ("pcie-speed", "cxidiag_nic_pcie_transfers_per_second", "", ""),
    ("aer-fatal", "cxidiag_nic_aer_errors_total", "severity", "fatal"),
    ("aer-nonfatal", "cxidiag_nic_aer_errors_total", "severity", "nonfatal"),
    ("aer-correctable", "cxidiag_nic_aer_errors_total", "severity", "correctable"),
    ("pcie-uncorrected", "cxidiag_nic_pcie_errors_total", "kind", "uncorrected"),
    ("pcie-corrected", "cxidiag_nic_pcie_errors_total", "kind", "corrected"),
    ("asic-temperature", "cxidiag_nic_temperature_celsius", "sensor", "asic"),
    ("media-temperature", "cxidiag_nic_temperature_celsius", "sensor", "media"),
    ("regulator-temperature", "cxidiag_nic_temperature_celsius", "sensor", "regulator"),
    ("vdd-power", "cxidiag_nic_power_watts", "sensor", "vdd"),
    ("avdd-power", "cxidiag_nic_power_watts", "sensor", "avdd"),
    ("trvdd-power", "cxidiag_nic_power_watts", "sensor", "trvdd"),
    ("qsfp-power", "cxidiag_nic_power_watts", "sensor", "qsfp"),
    ("memory-errors", "cxidiag_nic_memory_errors_total", "", ""),
    ("loopback-write", "cxidiag_median_latency_seconds", "tool", "write-lat"),
    ("loopback-read", "cxidiag_median_latency_seconds", "tool", "read-lat"),
    ("write-bandwidth", "cxidiag_bandwidth_bytes_per_second", "tool", "write-bw"),
    ("read-bandwidth", "cxidiag_bandwidth_bytes_per_second", "tool", "read-bw"),
];

/// The metrics of a check.
pub fn families(check: &Check) -> Vec<Family> {
    families_of("check", check)
}

/// The metrics of what `command` has checked.
pub fn families_of(command: &str, check: &Check) -> Vec<Family> {
    let status = "Exit status of the check: 0 good, 3 an item is bad, 4 nothing is bad but a NIC was not tested.";
    let times = [check.started_unix_ms, check.elapsed_ms];
    let mut families = vec![openmetrics::build(command)];
    families.extend(Family::times((SERIES, status), check.exit_status, "check", times));
    families.extend([
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
    ]);
    families.extend(FAMILIES.map(|(name, help)| Family::new(name, help, numbers(check, name))));
    families
}

/// A gauge with a sample for each item that has a limit and a value.
fn verdicts(
    check: &Check,
    name: &'static str,
    help: &'static str,
    holds: impl Fn(Severity) -> bool,
) -> Family {
    let samples = check.blocks().flat_map(|(device, items)| {
        let has_verdict = |item: &&Finding| item.verdict >= Severity::Good;
        items.iter().filter(has_verdict).map(move |item| (device, item))
    });
    let samples = samples.map(|(device, item)| {
        let labels = [("device", device.to_owned()), ("check", item.code.clone())];
        Sample::new(labels, holds(item.verdict))
    });
    Family::new(name, help, samples)
}

fn nic_info(check: &Check) -> Family {
    let samples = check.devices.iter().filter(|device| !device.items.is_empty());
    let samples = samples.map(|device| {
        let value = |code| device.value(code).unwrap_or_default().to_owned();
        let labels = [
            ("device", device.name.clone()),
            ("generation", value(identity::GENERATION.code)),
            ("serial", value(identity::SERIAL.code)),
            ("firmware", value(identity::FIRMWARE.code)),
            ("driver", value(identity::DRIVER.code)),
        ];
        Sample::new(labels, true)
    });
    let help = "What the NIC is, always 1; a label is empty where this is unknown.";
    Family::new("cxidiag_nic_info", help, samples)
}

fn numbers(check: &Check, family: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (device, items) in check.blocks() {
        for item in items {
            let is_of_item =
                |(code, own, ..): &&(&str, &str, _, _)| *code == item.code && *own == family;
            let found = NUMBERS.iter().find(is_of_item);
            if let (Some((_, _, label, text)), Some(value)) = (found, item.number) {
                let mut labels = vec![("device", device.to_owned())];
                if !label.is_empty() {
                    labels.push((label, (*text).to_owned()));
                }
                samples.push(Sample::new(labels, value));
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
        for (code, family, ..) in NUMBERS {
            assert!(ITEMS.iter().any(|item| item.code == code), "{code}");
            assert!(FAMILIES.iter().any(|(name, _)| *name == family), "{family}");
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
