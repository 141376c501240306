//! Lanes and speed of the PCIe links between NIC and host (health.md 2.2).
//!
//! A link is degraded if it does less than both of its ends can do. A link that does less than the
//! NIC can because of the slot is not: it is as good as this machine permits.

use super::item::{Finding, Item, LIMIT, unless_good};
use facts::severity::Severity;
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::pcie_path::{PciDevice, PcieLink, PciePath};
use node::nic::pcie_speed::PcieSpeed;

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

    /// Returns the share of what both ends can do, if it is less than all.
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

/// Returns the links above the link of the NIC.
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

#[cfg(test)]
#[path = "pcie_tests.rs"]
mod tests;
