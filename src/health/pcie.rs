//! The connection of the NIC to the host: lanes and speed of its PCIe links (health.md 2.2), and
//! its errors.
//!
//! A link is degraded if it does less than both of its ends can do. A link that does less than the
//! NIC can because of the slot is not: it is as good as this machine permits.

use std::time::Duration;

use super::item::{Finding, Item, LIMIT, unless_good};
use facts::severity::Severity;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::pcie_path::{PciDevice, PcieLink, PciePath, PcieSpeed, max_corrected_per_minute};

/// Lanes of the links.
pub static WIDTH: Item = Item {
    code: "pcie-width",
    name: "PCIe width",
    source: "cxidiag",
    remedy: "a degraded link: reboot the node, then reseat the card, and check slot and riser; fewer lanes than on other nodes: compare slot and riser",
};

/// Speed of the links.
pub static SPEED: Item = Item {
    code: "pcie-speed",
    name: "PCIe speed",
    source: "cxidiag",
    remedy: "a degraded link: reboot the node, then check slot, riser and BIOS settings; slower than on other nodes: compare slot and BIOS settings",
};

/// The links above the slot of the NIC.
pub static UPSTREAM: Item = Item::compared_by_hand("pcie-upstream", "PCIe upstream");

/// Lanes of the card.
const LANES: f64 = 16.0;

/// What is compared of a link: its lanes or its speed.
struct LinkMeasure {
    item: &'static Item,
    current: fn(&PciDevice) -> Option<f64>,
    max: fn(&PciDevice) -> Option<f64>,
    text: fn(f64) -> String,
    base_units: f64,
}

static LANES_OF_LINK: LinkMeasure = LinkMeasure {
    item: &WIDTH,
    current: |device| device.width.map(|lanes| lanes as f64),
    max: |device| device.max_width.map(|lanes| lanes as f64),
    text: |lanes| format!("x{lanes}"),
    base_units: 1.0,
};

static SPEED_OF_LINK: LinkMeasure = LinkMeasure {
    item: &SPEED,
    current: |device| device.gt_per_s,
    max: |device| device.max_gt_per_s,
    text: |gt_per_s| format!("{gt_per_s:.1} GT/s"),
    base_units: 1e9,
};

/// Lanes or speed of a link.
struct LinkFigure<'a> {
    current: Option<f64>,
    /// The most that the lower end can do.
    max: Option<f64>,
    /// The most that the upper end can do.
    max_of_upper: Option<f64>,
    /// `None` if no bridge is visible above the NIC.
    link: Option<&'a PcieLink>,
}

impl<'a> LinkFigure<'a> {
    fn of(measure: &LinkMeasure, link: &'a PcieLink) -> Self {
        Self {
            current: (measure.current)(&link.lower),
            max: (measure.max)(&link.lower),
            max_of_upper: (measure.max)(&link.upper),
            link: Some(link),
        }
    }

    /// Returns what both ends can do; `None` if that is unknown.
    fn limit(&self) -> Option<f64> {
        match self.link {
            None => self.max,
            Some(_) => Some(self.max?.min(self.max_of_upper?)),
        }
    }

    /// The share of what both ends can do, if it is less than all.
    fn degradation(&self) -> Option<f64> {
        let share = self.current? / self.limit()?;
        Some(share).filter(|share| *share < 1.0)
    }
}

/// The number of lanes: all that both ends of each link have.
pub fn width(files: &Files, path: &PciePath) -> Finding {
    let lanes = |name| files.number(name).filter(|lanes| *lanes > 0);
    let current = lanes("current_link_width").map(|lanes| lanes as f64);
    let max = lanes("max_link_width").map_or(LANES, |lanes| lanes as f64);
    compared(&LANES_OF_LINK, path, current, Some(max), Some(LANES))
}

/// The speed of each lane: all that both ends of each link can do. A `generation` is known for
/// hardware only. An extended speed is configured, and need not be the speed of the generation.
pub fn speed(files: &Files, path: &PciePath, generation: Option<Generation>) -> Finding {
    let current = PcieSpeed::read(files);
    let generation_speed = generation.map(Generation::pcie_gt_per_s);
    let is_extended = current.is_some_and(|speed| speed.is_extended);
    let expected = generation_speed.filter(|_| !is_extended);
    let max = PcieSpeed::max(files).or(generation_speed);
    let current = current.map(|speed| speed.gt_per_s);
    compared(&SPEED_OF_LINK, path, current, max, expected)
}

/// The links above the slot, to be compared with other nodes: other slots have other links.
pub fn upstream(path: &PciePath) -> Finding {
    let Some(nic_link) = path.links.last() else {
        return Finding::untested(&UPSTREAM, "no bridge is visible above the NIC");
    };
    let above = above_slot(path);
    if above.is_empty() {
        return Finding::shown(&UPSTREAM, "none");
    }
    let lanes_and_speed = |link: &PcieLink| {
        let width = (link.lower.width).map_or("x?".to_owned(), |lanes| format!("x{lanes}"));
        let speed = link.lower.gt_per_s;
        let speed = speed.map_or("? GT/s".to_owned(), |speed| format!("{speed:.1} GT/s"));
        format!("{width} {speed}")
    };
    let values: Vec<String> = above.iter().map(lanes_and_speed).collect();
    let transfers = |link: &PcieLink| Some(link.lower.width? as f64 * link.lower.gt_per_s?);
    let is_slower = |link: &&PcieLink| transfers(link) < transfers(nic_link);
    let slower = above.iter().filter(|link| transfers(link).is_some());
    let slower: Vec<String> = slower.filter(is_slower).map(between).collect();
    let note = (!slower.is_empty())
        .then(|| format!("slower than the link of the NIC {}", slower.join(", ")));
    Finding { note, ..Finding::shown(&UPSTREAM, values.join(", ")) }
}

/// The links above the link of the NIC.
fn above_slot(path: &PciePath) -> &[PcieLink] {
    path.links.split_last().map_or(&[], |(_, above)| above)
}

fn between(link: &PcieLink) -> String {
    format!("between {} and {}", link.upper.address, link.lower.address)
}

/// Compares each link of the path with its ends. The NIC has `current` and can do `max`; a NIC that
/// cannot do what is `expected` of its kind is suspect.
fn compared(
    measure: &LinkMeasure,
    path: &PciePath,
    current: Option<f64>,
    max: Option<f64>,
    expected: Option<f64>,
) -> Finding {
    let nic_link = path.links.last();
    let nic = LinkFigure {
        current,
        max,
        max_of_upper: nic_link.and_then(|link| (measure.max)(&link.upper)),
        link: nic_link,
    };
    let above = above_slot(path).iter();
    let links: Vec<LinkFigure> = above.map(|link| LinkFigure::of(measure, link)).collect();
    let mut degraded: Vec<(f64, &LinkFigure)> =
        links.iter().chain([&nic]).filter_map(|link| Some((link.degradation()?, link))).collect();
    degraded.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (link, verdict, note) = match degraded.first() {
        Some((_, worst)) => (*worst, Severity::Bad, ends_of(measure, &degraded)),
        None => {
            let is_less = expected.is_some_and(|expected| max.is_some_and(|max| max < expected));
            let verdict = unless_good(is_less, Severity::Suspect);
            (&nic, verdict, limit_of_slot(measure, &nic))
        }
    };
    let Some(current) = link.current else {
        return Finding::absent(measure.item);
    };
    let value = (measure.text)(current);
    let finding = match (verdict, link.limit(), expected) {
        (_, None, _) => Finding::shown(measure.item, value),
        (Severity::Suspect, _, Some(limit)) | (_, Some(limit), _) => {
            let text = (measure.text)(limit);
            let numbers = [(LIMIT.to_owned(), limit * measure.base_units)].into();
            Finding { numbers, ..Finding::compared(measure.item, value, text, verdict) }
        }
    };
    let place = link.link.filter(|_| verdict == Severity::Bad).map(between);
    Finding { place, note, ..finding.with_number(current * measure.base_units) }
}

/// Returns where the degraded links are, the worst first, and what their ends can do. `None` if
/// only the NIC itself is visible.
fn ends_of(measure: &LinkMeasure, degraded: &[(f64, &LinkFigure)]) -> Option<String> {
    let text = measure.text;
    let place = |(index, (_, link)): (usize, &(f64, &LinkFigure))| {
        let start = match index {
            0 => String::new(),
            _ => format!("also {} ", text(link.current?)),
        };
        let most = [link.max_of_upper?, link.max?].map(text).join(" and ");
        Some(format!("{start}{}; they can do {most}", between(link.link?)))
    };
    let places: Vec<String> = degraded.iter().enumerate().filter_map(place).collect();
    (!places.is_empty()).then(|| places.join("; "))
}

/// Returns which slot limits the NIC, if it does.
fn limit_of_slot(measure: &LinkMeasure, nic: &LinkFigure) -> Option<String> {
    let (max, slot_value) = (nic.max?, nic.max_of_upper?);
    let is_limit = slot_value < max && nic.current? < max;
    let slot = &nic.link?.upper.address;
    let [slot_text, max] = [slot_value, max].map(measure.text);
    is_limit.then(|| format!("limited by the slot {slot}, {slot_text}; the NIC can do {max}"))
}

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

/// The counts of a bridge, each with its address and what it counts.
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

/// The total of a list such as `RxErr 0`, whose last line may be `TOTAL_ERR_COR 0`.
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
mod pcie_errors_tests {
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

#[cfg(test)]
#[path = "pcie_tests.rs"]
mod tests;
