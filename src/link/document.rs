//! The links of NICs, as JSON (docs/link.md): the health of their items as `check` evaluates it,
//! and what the counters did between two moments. The doc comments of the types are the
//! descriptions in their schema, docs/link.schema.json. As metrics (docs/metrics.md lists them):
//! the metrics of `check` about the same items, and the rates.

use std::time::Duration;

use check::document::{Check, DeviceResult};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::time_of_day::since_1970;
use health::code_words::{self, CodeWords};
use health::link_rates::{self, LinkRates, PRIORITIES, code_words, pause};
use health::{identity, link, pcie, presence, temperature_power};
use node::backend;
use node::machine::Machine;
use node::nic::counters::{CounterReadings, NicFacts};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::pcie_path::PciePath;
use page::openmetrics::{Family, Sample};
use page::problem::Problem;
use serde::Serialize;

use crate::options::LinkRequest;

/// The links of the NICs of a machine, as `cxidiag link --json` writes them: the document of
/// `cxidiag check`, with the items of the link, and `links`. A value that is unknown is null.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LinkReport {
    #[serde(flatten)]
    pub(super) check: Check,
    /// Names and rates of each NIC, in the order of `devices`.
    pub(super) links: Vec<Link>,
}

/// Names and rates of one NIC.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Link {
    /// Name of the device.
    name: String,
    /// Description of the card.
    pub(super) description: Option<String>,
    /// Part number of the card.
    pub(super) part_number: Option<String>,
    /// Name of the network interface.
    pub(super) network_device: Option<String>,
    /// MAC address of the network interface.
    pub(super) mac_address: Option<String>,
    /// Address on the fabric.
    pub(super) nid: Option<u32>,
    /// What the counters of the link did; null if they were read once.
    pub(super) rates: Option<Rates>,
}

/// What the counters of a link did between two readings. A rate is null if the NIC does not have
/// the counter, or if it was reset.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub(super) struct Rates {
    /// Time between the readings, in seconds.
    pub(super) seconds: f64,
    /// Code words without errors per second.
    pub(super) good_code_words_per_s: Option<f64>,
    /// Code words per second whose errors were corrected.
    pub(super) corrected_code_words_per_s: Option<f64>,
    /// Code words per second whose errors were not corrected.
    pub(super) uncorrected_code_words_per_s: Option<f64>,
    /// Corrected code words per bit.
    pub(super) corrected_bit_error_ratio: Option<f64>,
    /// Uncorrected code words per bit.
    pub(super) uncorrected_bit_error_ratio: Option<f64>,
    /// One code word in this time, per bit: a lower ratio cannot be seen. Null if no
    /// errors were counted, and for a mode of the link whose bit rate is not known.
    pub(super) smallest_bit_error_ratio: Option<f64>,
    /// Packets that this side of the link has sent again.
    pub(super) replays_sent: Option<u64>,
    /// Packets that the other side has sent again.
    pub(super) replays_received: Option<u64>,
    /// Share of the time in which this NIC held off its sender, for each priority (PCP).
    pub(super) rx_paused_ratio: [Option<f64>; PRIORITIES],
    /// Share of the time in which the switch stopped this NIC, for each priority (PCP).
    pub(super) tx_paused_ratio: [Option<f64>; PRIORITIES],
}

impl LinkReport {
    /// The health of links, with names and rates of each NIC.
    pub fn new(check: Check, links: Vec<Link>) -> Self {
        Self { check, links }
    }

    /// Whether no link is bad or untested.
    ///
    /// # Errors
    ///
    /// The summary, if a link is bad or untested. It is not printed again if the report was printed
    /// as text (`has_text`) and the NICs are those that the user asked for.
    pub fn result(&self, has_text: bool) -> Result<(), Failure> {
        let is_printed = has_text && !self.check.is_without_hardware();
        let result = self.check.result();
        result.map_err(|failure| if is_printed { failure.printed() } else { failure })
    }
}

impl Link {
    /// Returns what the files of a NIC show, and what its counters did in this number of seconds.
    pub fn new(name: String, files: Option<&Files>, rates: Option<(&LinkRates, f64)>) -> Self {
        let text = |file| files?.text(file);
        Self {
            name,
            description: text("fru/description"),
            part_number: text("fru/part_number"),
            network_device: files.and_then(Files::interface_name),
            mac_address: files.and_then(|files| files.interface_text("address")),
            nid: files.and_then(Files::nid),
            rates: rates.map(|(rates, seconds)| Rates::new(rates, seconds)),
        }
    }
}

impl Rates {
    fn new(rates: &LinkRates, seconds: f64) -> Self {
        let [good, corrected, uncorrected] =
            ["good", "corrected", "uncorrected"].map(|kind| rates.per_second(&code_words(kind)));
        let bit_errors = |per_second: Option<f64>| Some(rates.bit_error_rate(per_second?));
        let paused =
            |direction| std::array::from_fn(|priority| rates.share(&pause(direction, priority)));
        let replays = rates.replays();
        let is_known = corrected.or(uncorrected).is_some() && rates.unknown_mode().is_none();
        Self {
            seconds,
            good_code_words_per_s: good,
            corrected_code_words_per_s: corrected,
            uncorrected_code_words_per_s: uncorrected,
            corrected_bit_error_ratio: bit_errors(corrected),
            uncorrected_bit_error_ratio: bit_errors(uncorrected),
            smallest_bit_error_ratio: is_known.then(|| rates.bit_error_rate(1.0 / seconds)),
            replays_sent: replays.map(|[sent, _]| sent),
            replays_received: replays.map(|[_, received]| received),
            rx_paused_ratio: paused("rx"),
            tx_paused_ratio: paused("tx"),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Links with known rates.

    use super::*;
    use check::document::testing::check;
    use health::Finding;

    /// The link of cxi0 with these findings, and with rates.
    pub fn report(findings: Vec<Finding>) -> LinkReport {
        let rates = Rates {
            seconds: 4.0,
            good_code_words_per_s: Some(39_062_500.0),
            corrected_code_words_per_s: Some(2.0),
            uncorrected_code_words_per_s: Some(0.0),
            corrected_bit_error_ratio: Some(9.412e-12),
            uncorrected_bit_error_ratio: Some(0.0),
            smallest_bit_error_ratio: Some(1.176e-12),
            replays_sent: Some(3),
            replays_received: Some(0),
            rx_paused_ratio: [Some(0.0); PRIORITIES],
            tx_paused_ratio: std::array::from_fn(|priority| (priority < 2).then_some(0.125)),
        };
        let link = Link { rates: Some(rates), ..Link::new("cxi0".into(), None, None) };
        LinkReport::new(check(findings, Vec::new(), None), vec![link])
    }
}

/// The metrics of links.
pub fn families(report: &LinkReport) -> Vec<Family> {
    let mut families = check::metrics::families_of("link", &report.check);
    let devices = report.check.devices.iter().zip(&report.links);
    let known = devices.filter_map(|(device, link)| Some((&device.name, link.rates.as_ref()?)));
    let mut code_words = Vec::new();
    let mut paused = Vec::new();
    for (name, rates) in known {
        for (kind, value) in [
            ("good", rates.good_code_words_per_s),
            ("corrected", rates.corrected_code_words_per_s),
            ("uncorrected", rates.uncorrected_code_words_per_s),
        ] {
            let labels = [("device", name.clone()), ("kind", kind.to_owned())];
            code_words.extend(value.map(|value| Sample::new(labels, value)));
        }
        for (direction, ratios) in
            [("received", rates.rx_paused_ratio), ("sent", rates.tx_paused_ratio)]
        {
            for (pcp, value) in ratios.into_iter().enumerate() {
                let labels = [
                    ("device", name.clone()),
                    ("direction", direction.to_owned()),
                    ("pcp", pcp.to_string()),
                ];
                paused.extend(value.map(|value| Sample::new(labels, value)));
            }
        }
    }
    families.extend([
        Family::new(
            "cxidiag_link_code_words_per_second",
            "Code words of the link per second.",
            code_words,
        ),
        Family::new(
            "cxidiag_link_paused_ratio",
            "Share of the time for which a priority of the link was paused.",
            paused,
        ),
    ]);
    families
}

/// A NIC at one moment.
pub struct CountedNic {
    device: DeviceName,
    is_software: bool,
    /// Its files and counters, or why they cannot be read; `None` if the NIC does not exist.
    read: Result<Option<CounterMoment>, String>,
}

struct CounterMoment {
    files: Files,
    code_words: CodeWords,
    readings: CounterReadings,
    at: Duration,
}

/// The counters of rates and of verdicts, each once: both are about one reading.
fn names() -> Vec<String> {
    let mut names: Vec<String> = link_rates::names().collect();
    for name in code_words::names() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl CountedNic {
    /// Reads the files of a NIC.
    pub fn read(device: DeviceName, machine: &Machine) -> Self {
        let files = check::files_with(device, machine, link_rates::is_link_counter);
        let read = files.map_err(|failure| failure.message()).map(|files| {
            files.map(|files| {
                let at = since_1970();
                let readings = CounterReadings::of(&files, names());
                CounterMoment { at, code_words: CodeWords::of(&readings), readings, files }
            })
        });
        Self { device, is_software: backend::is_software(device, machine), read }
    }

    /// The health of the NIC `after` this moment, and what its counters did until then.
    pub fn until(
        &self,
        after: &Self,
        request: &LinkRequest,
        machine: &Machine,
    ) -> (DeviceResult, Link) {
        let (device, is_software) = (self.device, self.is_software);
        let name = device.to_string();
        let result = |items, failure: Option<&Failure>| DeviceResult {
            name: device.to_string(),
            is_software,
            error: failure.map(Problem::from),
            items,
        };
        let (before, after) = match (&self.read, &after.read) {
            (Ok(Some(before)), Ok(Some(after))) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                let failure = Failure::environment(why);
                return (result(Vec::new(), Some(&failure)), Link::new(name, None, None));
            }
            _ => {
                let absent = presence::absent(check::others(device, machine));
                return (result(vec![absent], None), Link::new(name, None, None));
            }
        };
        let files = &after.files;
        // A software NIC has no generation; the one in its files is for other programs.
        let generation = Generation::of(files).filter(|_| !is_software);
        let mut findings = vec![presence::present()];
        findings.extend(link::all(files, generation, request.link_gigabits));
        findings.extend(if request.is_quick {
            code_words::left_out("--quick")
        } else {
            code_words::evaluate(files, &before.code_words, &after.code_words)
        });
        let path = PciePath::read(files);
        findings.push(pcie::width(files, &path));
        findings.push(pcie::speed(files, &path, generation));
        findings.extend(pcie::aer(files));
        findings.extend(temperature_power::temperatures(files));
        findings.extend(identity::versions(files, generation, is_software));
        findings.extend(temperature_power::supplies(files));
        let nic = NicFacts::read(files, name.clone(), is_software);
        let rates = LinkRates::between(nic, &before.readings, &after.readings);
        let seconds = after.at.saturating_sub(before.at).as_secs_f64();
        let rates = (!request.is_quick).then_some((&rates, seconds));
        (result(findings, None), Link::new(name, Some(files), rates))
    }
}

#[cfg(test)]
mod tests {
    use check::document::testing::bad;
    use page::openmetrics::{Dialect, text};

    use super::*;
    use crate::document::testing::report;

    #[test]
    fn has_the_items_of_check_and_rates() {
        let text = text(&families(&report(vec![bad()])), Dialect::NodeExporter);
        for line in [
            "cxidiag_build_info{command=\"link\",version=\"0.1.0\"} 1",
            "cxidiag_check_exit_status 3",
            "cxidiag_check_ok{device=\"cxi0\",check=\"pcie-width\"} 0",
            "cxidiag_link_code_words_per_second{device=\"cxi0\",kind=\"good\"} 39062500",
            "cxidiag_link_paused_ratio{device=\"cxi0\",direction=\"received\",pcp=\"7\"} 0",
            "cxidiag_link_paused_ratio{device=\"cxi0\",direction=\"sent\",pcp=\"1\"} 0.125",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("direction=\"sent\",pcp=\"2\""), "unknown is not 0: {text}");
    }
}
