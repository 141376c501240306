//! Errors of the connection of the NIC to the host.

use std::time::Duration;

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::files::Files;
use node::nic::pcie_path::{PciDevice, PciePath};
use node::nic::pcie_speed::{PcieSpeed, max_corrected_per_minute};

/// Errors that the kernel counts for each NIC (AER).
const fn aer_item(code: &'static str, name: &'static str) -> Item {
    let remedy =
        "PCIe errors: reseat the card, and check slot and riser; counted since the last boot";
    Item { code, name, source: "slingshot-diag", remedy }
}

/// Errors after which the connection starts anew.
pub static AER_FATAL: Item = aer_item("aer-fatal", "AER fatal");

/// Errors of one transfer.
pub static AER_NONFATAL: Item = aer_item("aer-nonfatal", "AER nonfatal");

/// Errors that PCIe has repaired.
pub static AER_CORRECTABLE: Item = aer_item("aer-correctable", "AER correctable");

/// Errors of the bridges between NIC and CPU.
pub static AER_BRIDGES: Item = Item {
    code: "aer-bridges",
    name: "AER of bridges",
    source: "-",
    remedy: "shown only: counted since the last boot",
};

/// Unrepaired errors that the driver has counted.
pub static UNCORRECTED: Item = Item {
    code: "pcie-uncorrected",
    name: "PCIe uncorrected",
    source: "driver",
    remedy: "PCIe errors since the driver was loaded: reseat the card, and check slot and riser",
};

/// Repaired errors that the driver has counted.
pub static CORRECTED: Item = Item {
    code: "pcie-corrected",
    name: "PCIe corrected",
    source: "driver",
    remedy: "PCIe errors in a minute above the driver's limit: reseat the card, and check slot and riser",
};

/// Advanced error reporting: counts since the last boot, which the kernel keeps.
pub fn aer(files: &Files) -> Vec<Finding> {
    [
        (&AER_FATAL, "fatal", 1, Severity::Bad),
        (&AER_NONFATAL, "nonfatal", 5, Severity::Suspect),
        (&AER_CORRECTABLE, "correctable", 10, Severity::Suspect),
    ]
    .into_iter()
    .map(|(item, name, limit, beyond)| {
        let total = files.text(&format!("aer_dev_{name}")).and_then(|text| total(&text));
        total.map_or_else(
            || Finding::absent(item),
            |count| {
                let verdict = unless_good(count >= limit, beyond);
                Finding::compared(item, count.to_string(), format!("<{limit}"), verdict)
                    .with_number(count as f64)
            },
        )
    })
    .collect()
}

/// Advanced error reporting of the bridges above the NIC: those with errors, with their counts. A
/// root port also counts the messages about errors that it receives from all devices below it.
pub fn aer_of_bridges(files: &Files, path: &PciePath) -> Finding {
    let bridges = path.bridges.iter();
    let counts: Vec<(&str, &str, u64)> =
        bridges.flat_map(|device| counts_of(files, device)).collect();
    if counts.is_empty() {
        return Finding::absent(&AER_BRIDGES);
    }
    let with_errors: Vec<String> = counts
        .iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(address, name, count)| format!("{address} {name} {count}"))
        .collect();
    let value = if with_errors.is_empty() { "0".to_owned() } else { with_errors.join(", ") };
    Finding::shown(&AER_BRIDGES, value)
}

/// Returns the counts of a bridge, each with its address and what it counts.
fn counts_of<'a>(files: &Files, bridge: &'a PciDevice) -> Vec<(&'a str, &'static str, u64)> {
    const COUNTS: [(&str, &str); 6] = [
        ("aer_dev_fatal", "fatal"),
        ("aer_dev_nonfatal", "nonfatal"),
        ("aer_dev_correctable", "correctable"),
        ("aer_rootport_total_err_fatal", "fatal messages"),
        ("aer_rootport_total_err_nonfatal", "nonfatal messages"),
        ("aer_rootport_total_err_cor", "correctable messages"),
    ];
    let count = |(file, name)| {
        let count = total(&bridge.text(files, file)?)?;
        Some((bridge.address.as_str(), name, count))
    };
    COUNTS.into_iter().filter_map(count).collect()
}

/// Returns the total of a list such as `RxErr 0`, whose last line may be `TOTAL_ERR_COR 0`.
fn total(text: &str) -> Option<u64> {
    let count = |line: &str| line.split_whitespace().last()?.parse::<u64>().ok();
    let stated = text.lines().find(|line| line.starts_with("TOTAL_ERR_"));
    match stated {
        Some(line) => count(line),
        None => text.lines().map(count).sum(),
    }
}

/// The counts of the driver's PCIe monitor at one moment. It updates them once a minute.
#[derive(Clone, Copy, Debug)]
pub struct Monitor {
    corrected: Option<u64>,
    uncorrected: Option<u64>,
}

impl Monitor {
    /// Reads the counts.
    pub fn read(files: &Files) -> Self {
        Self {
            corrected: files.number("properties/pcie_corr_err"),
            uncorrected: files.number("properties/pcie_uncorr_err"),
        }
    }

    /// Evaluates the last of two readings: unrepaired errors since the driver was loaded, and
    /// repaired ones of the last update, if there was one in between.
    pub fn evaluate(self, before: Self, files: &Files) -> Vec<Finding> {
        let uncorrected = self.uncorrected.map_or_else(
            || Finding::absent(&UNCORRECTED),
            |count| {
                let verdict = unless_good(count > 0, Severity::Suspect);
                Finding::compared(&UNCORRECTED, count.to_string(), "0", verdict)
                    .with_number(count as f64)
            },
        );
        let corrected = self.corrected.map_or_else(
            || Finding::absent(&CORRECTED),
            |count| corrected(before.corrected, count, files),
        );
        vec![uncorrected, corrected]
    }
}

fn corrected(before: Option<u64>, count: u64, files: &Files) -> Finding {
    let reading = |value| CounterReading { value, at: Duration::ZERO, stamp: None };
    let added = before.map(|before| CounterChange::between(reading(before), reading(count)));
    let added = match added {
        Some(CounterChange::Counted { by, .. }) => by,
        _ => 0,
    };
    let speed = PcieSpeed::read(files).map(|speed| speed.gt_per_s);
    let limit = speed.and_then(max_corrected_per_minute);
    let value = format!("{added} during the check, {count} in all");
    let finding = match limit {
        None => Finding::shown(&CORRECTED, value),
        Some(limit) => {
            let verdict = unless_good(added > limit, Severity::Suspect);
            Finding::compared(&CORRECTED, value, format!("{limit} per minute"), verdict)
        }
    };
    finding.with_number(count as f64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_verdicts;
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn counts_of_error_reporting_have_the_limits_of_slingshot_diag() {
        for (name, number, below, beyond, verdict) in [
            ("fatal", 0, "RxErr 0\nTOTAL_ERR_FATAL 0\n", "TOTAL_ERR_FATAL 1\n", Bad),
            ("nonfatal", 1, "TOTAL_ERR_NONFATAL 4", "TOTAL_ERR_NONFATAL 5", Suspect),
            ("correctable", 2, "RxErr 4\nBadTLP 5\n", "RxErr 4\nBadTLP 6\n", Suspect),
        ] {
            let evaluate = |files: &Files| aer(files).remove(number);
            let cases = [(below, Good), (beyond, verdict), ("nothing\n", NotAvailable)];
            assert_verdicts(&format!("aer_dev_{name}"), evaluate, &cases);
        }
    }

    #[test]
    fn names_bridges_with_errors() {
        let made_up = MadeUp::at("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:43:00.0");
        let found = || aer_of_bridges(&made_up.files, &PciePath::read(&made_up.files));
        made_up.write("aer_dev_fatal", "TOTAL_ERR_FATAL 3\n");
        assert_eq!(found().verdict, NotAvailable, "the NIC is no bridge");
        made_up.write("../aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
        made_up.write("../../../aer_rootport_total_err_cor", "0\n");
        assert_eq!(found().value.as_deref(), Some("0"));
        made_up.write("../aer_dev_correctable", "RxErr 4\nBadTLP 5\n");
        made_up.write("../../../aer_rootport_total_err_cor", "9\n");
        let expected = "0000:40:01.1 correctable messages 9, 0000:42:04.0 correctable 9";
        assert_eq!(found().value.as_deref(), Some(expected));
        assert_eq!(found().verdict, Shown);
    }

    #[test]
    fn errors_of_the_monitor_have_the_limits_of_the_driver() {
        for (speed, added, verdict) in [
            ("16.0 GT/s PCIe", 31, Good),
            ("16.0 GT/s PCIe", 40, Suspect),
            ("32.0 GT/s PCIe", 40, Good),
            ("64.0 GT/s PCIe", 40, Shown),
        ] {
            let made_up = MadeUp::new(&[("current_link_speed", speed)]);
            let read = |count: u64| {
                made_up.write("properties/pcie_corr_err", &count.to_string());
                Monitor::read(&made_up.files)
            };
            let (before, after) = (read(1000), read(1000 + added));
            let found = after.evaluate(before, &made_up.files).remove(1);
            assert_eq!(found.verdict, verdict, "{speed} {added}");
        }
        let evaluate = |files: &Files| {
            let reading = Monitor::read(files);
            reading.evaluate(reading, files).remove(0)
        };
        let cases = [("0\n", Good), ("1\n", Suspect), ("", NotAvailable)];
        assert_verdicts("properties/pcie_uncorr_err", evaluate, &cases);
    }
}
