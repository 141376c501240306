//! The links of NICs as text: one row or one block for each.

use crate::document::{Link, LinkReport, Rates};
use check::document::{DeviceResult, UNKNOWN_LINK};
use check::text::{block, clock_line, remedies, wrong_item};
use facts::severity::Severity;
use health::{Item, code_words, identity, link, pcie, presence, temperature_power};
use page::page::{Page, Words};

/// The columns of the row of a NIC.
const COLUMNS: [&str; 11] = [
    "NIC",
    "State",
    ">Speed",
    ">BER corr.",
    ">BER uncorr.",
    ">Replays",
    "Pause",
    ">PCIe",
    ">Temp.",
    "Firmware",
    "Health",
];

/// The columns that a narrow terminal does not show: the blocks of --verbose have them.
const OPTIONAL: &[&str] = &["Firmware", "Temp.", "Pause", "Replays", "PCIe", "BER corr."];

/// The columns of the rates of a NIC.
const RATE_COLUMNS: [&str; 6] =
    ["NIC", ">Good/s", ">Corrected/s", ">Uncorrected/s", ">RX paused", ">TX paused"];

/// The verdict in one line.
pub fn verdict(report: &LinkReport) -> Page {
    Page::headline(&report.check.summary, report.check.exit_status)
}

/// The page of links: a block for each if it is `verbose`, else a row. `has_rates` asks for rates,
/// too.
pub fn page(report: &LinkReport, is_verbose: bool, has_rates: bool) -> Page {
    let mut page = Page::default();
    let devices = report.check.devices.iter().zip(&report.links);
    if report.check.is_without_hardware() {
        page.line("No Cassini hardware on this machine; software NICs:\n");
    }
    if is_verbose {
        for (number, (device, link)) in devices.clone().enumerate() {
            if number > 0 {
                page.empty_line();
            }
            verbose(&mut page, device, link);
        }
    } else {
        page.table(&COLUMNS, devices.clone().map(|(device, link)| row(device, link)));
        page.fit_table(OPTIONAL);
    }
    if has_rates {
        page.line("\nCode words, and the priority that was paused most:");
        let rates = devices.map(|(device, link)| rate_row(device, link.rates.as_ref()));
        page.table(&RATE_COLUMNS, rates);
    }
    clock_line(&mut page, &report.check);
    remedies(&mut page, &report.check);
    page
}

fn row(device: &DeviceResult, link: &Link) -> Vec<Words> {
    let value = |code: &str| device.value(code);
    // What follows in a value is in the block of the NIC.
    let start = |code: &str, end: &str| {
        let value = value(code)?;
        Some(value.split(end).next().unwrap_or(value))
    };
    let pcie: Vec<&str> =
        [&pcie::SPEED, &pcie::WIDTH].iter().filter_map(|item| value(item.code)).collect();
    let temperatures =
        match [&temperature_power::ASIC, &temperature_power::MEDIA].map(|item| value(item.code)) {
            [Some(chip), Some(cable)] => Some(format!("{chip}, {cable}")),
            [None, Some(cable)] => Some(format!("cable {cable}")),
            [chip, None] => chip.map(str::to_owned),
        };
    // A link that is down has no errors to show, although its counters stand still.
    let rates = |item: &Item| link.rates.as_ref().filter(|_| value(item.code).is_some());
    let bit_errors = |item, ratio: fn(&Rates) -> Option<f64>| {
        let rates = rates(item)?;
        bit_error_text(ratio(rates)?, rates.smallest_bit_error_ratio)
    };
    let replays = rates(&code_words::REPLAYS)
        .and_then(|rates| Some(replay_text(rates.replays_sent?, rates.replays_received?)));
    let cells = [
        Some(device.name.clone()),
        start(link::STATE.code, ",").map(str::to_owned),
        start(link::SPEED.code, " (").map(str::to_owned),
        bit_errors(&code_words::CORRECTED, |rates| rates.corrected_bit_error_ratio),
        bit_errors(&code_words::UNCORRECTED, |rates| rates.uncorrected_bit_error_ratio),
        replays,
        start(link::PAUSE.code, "/").map(str::to_owned),
        Some(pcie.join(" ")).filter(|text| !text.is_empty()),
        temperatures,
        value(identity::FIRMWARE.code).map(str::to_owned),
    ];
    cells.map(|cell| or_dash(cell).into()).into_iter().chain([health(device)]).collect()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn replay_text(sent: u64, received: u64) -> String {
    match (sent, received) {
        (0, 0) => "0".into(),
        (sent, received) => format!("{sent} tx, {received} rx"),
    }
}

/// A bit error rate. For none, it is below the smallest one that would have been seen, if that is
/// known.
fn bit_error_text(ratio: f64, smallest: Option<f64>) -> Option<String> {
    if ratio == 0.0 { Some(format!("<{:.1e}", smallest?)) } else { Some(format!("{ratio:.1e}")) }
}

/// Returns what is wrong with a NIC, the worst first, with limits; or that nothing is.
fn health(device: &DeviceResult) -> Words {
    let mut lines: Vec<Words> = Vec::new();
    for verdict in [Severity::Bad, Severity::Suspect] {
        let items = device.items.iter().filter(|item| item.verdict == verdict);
        lines.extend(items.map(|item| {
            // Which NICs there are in place of a missing one.
            let note = item.note.as_ref().filter(|_| item.code == presence::DEVICE.code);
            let note = note.map_or(String::new(), |note| format!("; {note}"));
            wrong_item(verdict, item).and(format!(": {}{note}", item.described()))
        }));
    }
    if let Some(error) = &device.error {
        let untested = Words::verdict(Severity::Suspect, "not tested");
        lines.push(untested.and(format!(": {}", error.message)));
    }
    let is_bad = device.items.iter().any(|item| item.verdict == Severity::Bad);
    if !is_bad && device.error.is_none() && device.has_unknown_link() {
        lines.push(Words::verdict(Severity::Suspect, "unknown").and(format!(": {UNKNOWN_LINK}")));
    } else if lines.is_empty() {
        let is_counted = device.has_verdict(&code_words::UNCORRECTED);
        lines.push(match device.has_verdict(&link::STATE) {
            false => "virtual function: no link of its own".into(),
            true if is_counted => "good".into(),
            true => "good (errors not counted)".into(),
        });
    }
    let mut lines = lines.into_iter();
    let first = lines.next().unwrap_or_default();
    let software = if device.is_software { "; software NIC" } else { "" };
    lines.fold(first.and(software), |all, line| all.and("\n").and(line))
}

fn rate_row(device: &DeviceResult, rates: Option<&Rates>) -> Vec<String> {
    let per_second = |rate: Option<f64>| rate.map(|rate| format!("{rate:.1}"));
    let cells = [
        Some(device.name.clone()),
        rates.and_then(|rates| per_second(rates.good_code_words_per_s)),
        rates.and_then(|rates| per_second(rates.corrected_code_words_per_s)),
        rates.and_then(|rates| per_second(rates.uncorrected_code_words_per_s)),
        rates.and_then(|rates| most_paused(&rates.rx_paused_ratio)),
        rates.and_then(|rates| most_paused(&rates.tx_paused_ratio)),
    ];
    cells.map(or_dash).to_vec()
}

/// The share of the priority that was paused most, and which one it is.
fn most_paused(ratios: &[Option<f64>]) -> Option<String> {
    let known = ratios.iter().enumerate().filter_map(|(pcp, ratio)| Some((pcp, (*ratio)?)));
    let (pcp, most) = known.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let which = if most == 0.0 { String::new() } else { format!(" (PCP {pcp})") };
    Some(format!("{:.1} %{which}", 100.0 * most))
}

/// Adds all that is known of a link.
fn verbose(page: &mut Page, device: &DeviceResult, link: &Link) {
    page.fact("Device", &device.name);
    if device.is_software {
        page.fact("Platform", "software NIC (no Cassini hardware involved)");
    }
    if let Some(error) = &device.error {
        page.fact("Not Tested", &error.message);
    }
    let nid = link.nid.map(|nid| format!("{nid:#x}"));
    for (label, value) in [
        ("Description", &link.description),
        ("Part Number", &link.part_number),
        ("Network Device", &link.network_device),
        ("MAC Address", &link.mac_address),
        ("NIC Address", &nid),
    ] {
        if let Some(value) = value {
            page.fact(label, value);
        }
    }
    block(page, &device.items);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::testing::report;
    use check::document::testing::good;
    use health::Finding;
    use page::table::TextStyle;

    fn text(findings: Vec<Finding>, is_verbose: bool) -> String {
        page(&report(findings), is_verbose, true).text(TextStyle::Plain)
    }

    #[test]
    fn shows_a_row_and_rates_of_each_nic() {
        let items = [&code_words::UNCORRECTED, &code_words::CORRECTED, &code_words::REPLAYS];
        let counted = items.map(|item| Finding::compared(item, "", "", Severity::Good));
        let expected = "\
NIC   State  Speed  BER corr.  BER uncorr.     Replays  Pause  PCIe  Health
cxi0  up         -    9.4e-12     <1.2e-12  3 tx, 0 rx  -         -  good

Code words, and the priority that was paused most:
NIC       Good/s  Corrected/s  Uncorrected/s  RX paused       TX paused
cxi0  39062500.0          2.0            0.0      0.0 %  12.5 % (PCP 1)
";
        assert_eq!(text([&[good()], &counted[..]].concat(), false), expected);
    }

    /// A link whose errors were not counted is not called good without a word about it.
    #[test]
    fn health_says_what_was_not_read() {
        assert!(text(vec![good()], false).contains("  good (errors not"));
        let unknown = text(vec![Finding::absent(&link::STATE)], false);
        assert!(unknown.contains("  unknown: the driver\n"), "{unknown}");
    }

    /// The temperature of a cable is not taken for the temperature of a chip.
    #[test]
    fn names_temperature_of_cable_without_chip() {
        let [chip, cable] =
            [(&temperature_power::ASIC, "51 C"), (&temperature_power::MEDIA, "38 C")]
                .map(|(item, value)| Finding::compared(item, value, "", Severity::Good));
        for (findings, cell) in [
            (vec![chip.clone(), cable.clone()], "51 C, 38 C"),
            (vec![chip], "51 C"),
            (vec![cable], "cable 38 C"),
            (vec![], "-"),
        ] {
            let report = report(findings);
            assert_eq!(row(&report.check.devices[0], &report.links[0])[8], Words::from(cell));
        }
    }

    #[test]
    fn block_has_items_and_then_rates() {
        let text = text(vec![good()], true);
        assert!(text.starts_with("Device           : cxi0\nItem "), "{text}");
        for line in [
            "link state  up     up     cxi_healthcheck  good",
            "cxi0  39062500.0          2.0            0.0      0.0 %  12.5 % (PCP 1)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
