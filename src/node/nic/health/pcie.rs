//! The connection of the NIC to the host.

use super::item::{Finding, Generation, Item, Verdict, unless_good};
use crate::nic::counter::{Change, Reading};
use crate::nic::files::Files;
use crate::nic::pcie_speed::{PcieSpeed, max_corrected_per_minute};

/// Lanes of the connection.
pub static WIDTH: Item = Item {
    code: "pcie-width",
    name: "PCIe width",
    source: "cxi_healthcheck",
    remedy: "the card uses a part of its lanes: reseat it, and check slot and riser",
};

/// Speed of the connection.
pub static SPEED: Item = Item {
    code: "pcie-speed",
    name: "PCIe speed",
    source: "cxi_healthcheck",
    remedy: "the card is slower than it can be: check slot, riser and BIOS settings",
};

/// Errors after which the connection starts anew.
pub static AER_FATAL: Item = Item {
    code: "aer-fatal",
    name: "AER fatal",
    source: "slingshot-diag",
    remedy: "PCIe errors: reseat the card, and check slot and riser; counted since the last boot",
};

/// Errors of one transfer.
pub static AER_NONFATAL: Item = Item {
    code: "aer-nonfatal",
    name: "AER nonfatal",
    source: "slingshot-diag",
    remedy: "PCIe errors: reseat the card, and check slot and riser; counted since the last boot",
};

/// Errors that PCIe has repaired.
pub static AER_CORRECTABLE: Item = Item {
    code: "aer-correctable",
    name: "AER correctable",
    source: "slingshot-diag",
    remedy: "PCIe errors: reseat the card, and check slot and riser; counted since the last boot",
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

/// Lanes of the card.
const LANES: u64 = 16;

/// The number of lanes: all that the card has.
pub fn width(files: &Files) -> Finding {
    let lanes = |name| files.number(name).filter(|lanes| *lanes > 0);
    let Some(current) = lanes("current_link_width") else {
        return Finding::absent(&WIDTH);
    };
    let max = lanes("max_link_width").unwrap_or(LANES);
    let verdict = if current < max {
        Verdict::Bad
    } else {
        unless_good(current < LANES, Verdict::Suspect)
    };
    let limit = format!("x{}", max.max(LANES));
    Finding::compared(&WIDTH, format!("x{current}"), limit, verdict).with_number(current as f64)
}

/// Compares the speed with the largest speed of the card and with the speed of its generation. An
/// extended speed is configured, and need not be the speed of the generation.
pub fn speed(files: &Files, generation: Option<Generation>) -> Finding {
    let Some(current) = PcieSpeed::read(files) else {
        return Finding::absent(&SPEED);
    };
    let value = format!("{:.1} GT/s", current.gt_per_s);
    let of_generation = generation
        .filter(|_| !current.is_extended)
        .map(Generation::pcie_gt_per_s);
    let of_card = PcieSpeed::max(files).or(generation.map(Generation::pcie_gt_per_s));
    let limits = [of_card, of_generation];
    let Some(limit) = limits.into_iter().flatten().reduce(f64::max) else {
        return Finding::shown(&SPEED, value);
    };
    let is_below = |limit: Option<f64>| limit.is_some_and(|limit| current.gt_per_s < limit);
    let verdict = if is_below(of_card) {
        Verdict::Bad
    } else {
        unless_good(is_below(of_generation), Verdict::Suspect)
    };
    Finding::compared(&SPEED, value, format!("{limit:.1} GT/s"), verdict)
        .with_number(current.gt_per_s * 1e9)
}

/// Advanced error reporting: counts since the last boot, which the kernel keeps.
pub fn aer(files: &Files) -> Vec<Finding> {
    [
        (&AER_FATAL, "fatal", 1, Verdict::Bad),
        (&AER_NONFATAL, "nonfatal", 5, Verdict::Suspect),
        (&AER_CORRECTABLE, "correctable", 10, Verdict::Suspect),
    ]
    .into_iter()
    .map(|(item, name, limit, beyond)| {
        let total = files
            .text(&format!("aer_dev_{name}"))
            .and_then(|text| total(&text));
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
                let verdict = unless_good(count > 0, Verdict::Suspect);
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
    let reading = |value| Reading { value, at: None };
    let added = before.map(|before| Change::between(reading(before), reading(count)));
    let added = match added {
        Some(Change::Counted { by, .. }) => by,
        _ => 0,
    };
    let speed = PcieSpeed::read(files).map(|speed| speed.gt_per_s);
    let limit = speed.and_then(max_corrected_per_minute);
    let value = format!("{added} during the check, {count} in all");
    let finding = match limit {
        None => Finding::shown(&CORRECTED, value),
        Some(limit) => {
            let verdict = unless_good(added > limit, Verdict::Suspect);
            Finding::compared(&CORRECTED, value, format!("{limit} per minute"), verdict)
        }
    };
    finding.with_number(count as f64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MadeUp, assert_verdicts};
    use super::Verdict::{Bad, Good, NotAvailable, Shown, Suspect};
    use super::*;

    #[test]
    fn width_below_maximum_is_bad_and_a_small_maximum_suspect() {
        for (current, max, verdict) in [
            ("16", "16", Good),
            ("8", "16", Bad),
            ("8", "8", Suspect),
            ("16", "", Good),
            ("0", "0", NotAvailable),
            ("Unknown", "16", NotAvailable),
        ] {
            let made_up = MadeUp::new(&[("current_link_width", current), ("max_link_width", max)]);
            assert_eq!(width(&made_up.files).verdict, verdict, "{current} of {max}");
        }
    }

    #[test]
    fn speed_below_maximum_is_bad_unless_extended() {
        for (current, max, extended, verdict) in [
            ("16.0 GT/s PCIe", "16.0 GT/s PCIe", "Disabled", Good),
            ("16 GT/s", "16 GT/s", "Disabled", Good),
            ("8.0 GT/s PCIe", "16.0 GT/s PCIe", "Absent", Bad),
            ("8.0 GT/s PCIe", "16.0 GT/s PCIe", "25.0 GT/s", Good),
            ("Unknown", "16.0 GT/s PCIe", "", NotAvailable),
        ] {
            let made_up = MadeUp::new(&[
                ("current_link_speed", current),
                ("max_link_speed", max),
                ("properties/current_esm_link_speed", extended),
            ]);
            let found = speed(&made_up.files, None);
            assert_eq!(found.verdict, verdict, "{current} {max} {extended}");
        }
        let of = |generation| move |files: &Files| speed(files, generation);
        let name = "current_link_speed";
        assert_verdicts(name, of(Some(Generation::Cassini2)), &[("16 GT/s", Bad)]);
        assert_verdicts(name, of(Some(Generation::Cassini1)), &[("16 GT/s", Good)]);
        assert_verdicts(name, of(None), &[("16 GT/s", Shown)]);
        for (generation, speed, verdict) in [
            (Generation::Cassini1, "16.0 GT/s", Good),
            (Generation::Cassini1, "8.0 GT/s", Suspect),
            (Generation::Cassini2, "16.0 GT/s", Suspect),
            (Generation::Cassini2, "32.0 GT/s", Good),
        ] {
            let made_up = MadeUp::new(&[(name, speed), ("max_link_speed", speed)]);
            let found = super::speed(&made_up.files, Some(generation));
            assert_eq!(found.verdict, verdict, "{generation:?} {speed}");
        }
        let extended = MadeUp::new(&[
            (name, "16.0 GT/s"),
            ("max_link_speed", "16.0 GT/s"),
            ("properties/current_esm_link_speed", "25.0 GT/s"),
        ]);
        let found = speed(&extended.files, Some(Generation::Cassini2));
        assert_eq!(found.verdict, Good);
    }

    #[test]
    fn counts_of_error_reporting_have_the_limits_of_slingshot_diag() {
        for (name, number, below, beyond, verdict) in [
            (
                "fatal",
                0,
                "RxErr 0\nTOTAL_ERR_FATAL 0\n",
                "TOTAL_ERR_FATAL 1\n",
                Bad,
            ),
            (
                "nonfatal",
                1,
                "TOTAL_ERR_NONFATAL 4",
                "TOTAL_ERR_NONFATAL 5",
                Suspect,
            ),
            (
                "correctable",
                2,
                "RxErr 4\nBadTLP 5\n",
                "RxErr 4\nBadTLP 6\n",
                Suspect,
            ),
        ] {
            let evaluate = |files: &Files| aer(files).remove(number);
            let cases = [
                (below, Good),
                (beyond, verdict),
                ("nothing\n", NotAvailable),
            ];
            assert_verdicts(&format!("aer_dev_{name}"), evaluate, &cases);
        }
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
