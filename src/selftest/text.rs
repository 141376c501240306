//! The text of `selftest`: what does not hold, a line for each group, the file of `--report`, and
//! what the selected checks do to the NIC, as tables for `--dry-run`.

use std::collections::BTreeMap;

use super::document::{FactResult, FactVerdict, SelfTest};
use super::run::{CheckSelection, full_name};
use super::table::CheckEffect;
use facts::error_flag::ErrorFlag;
use facts::number::and_more;
use facts::severity::Severity;
use page::page::{Page, Words};
use page::table::wrapped;

/// Width of a sentence beside its name.
const WIDTH: usize = 88;

/// Width of a row of 16 bytes.
const ROW: usize = 47;

/// Rows of bytes that a terminal shows.
const FEW_ROWS: usize = 4;

/// Returns what a terminal shows.
pub fn page(report: &SelfTest) -> Page {
    let mut page = Page::default();
    let not_examined = report.with(FactVerdict::NotExamined).count();
    if not_examined > 0 {
        let line = format!("{not_examined} not examined: time");
        page.line(Words::first(Severity::Suspect, &line));
        page.empty_line();
    }
    groups(&mut page, report);
    for verdict in [FactVerdict::NotExamined, FactVerdict::Skipped, FactVerdict::Refused] {
        let checks: Vec<&FactResult> = report.with(verdict).collect();
        for alike in checks.chunk_by(|one, next| one.reason == next.reason) {
            let [first, others @ ..] = alike else {
                continue;
            };
            let more = and_more(others.len());
            let reason = first.reason.as_deref().unwrap_or_default();
            page.line(format!("{} {}{more}: {reason}", verdict.name(), first.full_name()));
        }
    }
    for check in report.with(FactVerdict::Differs) {
        page.empty_line();
        difference(&mut page, check, FEW_ROWS);
    }
    aftermath(&mut page, report);
    page.line(format!("\n{}", report.summary()));
    page
}

/// Adds what the checks have changed for other users of the NIC.
fn aftermath(page: &mut Page, report: &SelfTest) {
    for sentence in report.aftermath.sentences() {
        page.empty_line();
        page.paragraph(Words::first(Severity::Suspect, &format!("WARNING: {sentence}")), "");
    }
}

/// The file of `--report`: the NIC and its software, and each check.
pub fn report_page(report: &SelfTest) -> Page {
    let nic = &report.nic;
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let kind =
        if nic.is_software { "software NIC (no Cassini hardware involved)" } else { "hardware" };
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut page = Page::default();
    page.line("Report of cxidiag selftest\n");
    let mut lines = vec![
        ("cxidiag", report.release()),
        ("NIC", format!("{}, {kind}", nic.device)),
        ("Generation", nic.generation.clone()),
        ("Board", nic.board.clone()),
        ("Driver", format!("{} {}", nic.driver, optional(&nic.driver_version))),
        ("Firmware", optional(&nic.firmware)),
        ("Library", optional(&nic.library)),
        ("Kernel", format!("{} {}", optional(&nic.kernel), nic.architecture)),
        ("Page", format!("{} bytes", nic.page_bytes)),
        ("PID bits", nic.pid_bits.to_string()),
        ("Retry handler", yes(nic.has_retry_handler).into()),
        ("Virtual function", yes(nic.is_virtual_function).into()),
        ("Root", yes(nic.is_root).into()),
        ("Service", nic.svc_id.to_string()),
        ("VNI", nic.vni.to_string()),
        ("Traffic class", nic.traffic_class.clone()),
    ];
    if let (Some(host), Some(address), Some(pci)) = (&nic.host, nic.nic_address, &nic.pci_address) {
        lines.push(("Host", host.clone()));
        lines.push(("NIC address", format!("{address:#x}")));
        lines.push(("PCI address", pci.clone()));
    } else {
        lines.push(("Names", "left out; the NIC address is 0 in all bytes".into()));
    }
    for (name, value) in lines {
        page.fact(name, value);
    }
    page.empty_line();
    groups(&mut page, report);
    aftermath(&mut page, report);
    page.line(format!("\n{}\n", report.summary()));
    use FactVerdict::{Differs, Holds, NotExamined, Refused, Skipped};
    for verdict in [Differs, NotExamined, Refused, Skipped, Holds] {
        for check in report.with(verdict) {
            match verdict {
                FactVerdict::Differs => difference(&mut page, check, usize::MAX),
                _ => page.line(title(check)),
            }
            page.lines(check.reason.as_ref().map(|reason| format!("  {reason}")));
        }
    }
    page
}

/// Adds how many checks of each group have which verdict.
fn groups(page: &mut Page, report: &SelfTest) {
    use FactVerdict::{Differs, Holds, NotExamined, Refused, Skipped};
    let mut columns =
        vec![(">Hold", Holds), (">Differ", Differs), (">Refused", Refused), (">Skipped", Skipped)];
    if report.with(NotExamined).next().is_some() {
        columns.push((">Not examined", NotExamined));
    }
    let mut names: Vec<&str> = report.checks.iter().map(|check| check.group).collect();
    names.dedup();
    let rows = names.iter().map(|name| {
        let counts = columns.iter().map(|(_, verdict)| {
            let group_results = report.with(*verdict).filter(|check| check.group == *name);
            match group_results.count() {
                0 => "-".to_owned(),
                count => count.to_string(),
            }
        });
        std::iter::once((*name).to_owned()).chain(counts).collect()
    });
    let titles = std::iter::once("Group").chain(columns.iter().map(|(title, _)| *title));
    page.table(&titles.collect::<Vec<_>>(), rows);
}

fn title(check: &FactResult) -> String {
    let (verdict, certainty) = (check.verdict.name(), check.fact.certainty.name());
    format!("{verdict:7} {} ({}, {certainty})", check.full_name(), check.fact.sections)
}

/// Adds what a check has seen, with at most `rows` rows of each command and event.
fn difference(page: &mut Page, check: &FactResult, rows: usize) {
    page.line(Words::first(Severity::Bad, &title(check).replacen("differs", "DIFFERS", 1)));
    let sentences = [
        ("fact", Some(check.fact.statement)),
        ("expected", check.expected.as_deref()),
        ("seen", check.seen.as_deref()),
    ];
    for (name, text) in sentences {
        named(page, name, wrapped(text.unwrap_or_default(), WIDTH, ""));
    }
    for (name, bytes) in [("command", &check.command), ("event", &check.event)] {
        let Some(bytes) = bytes else { continue };
        let mut lines = wrapped(bytes, ROW, "");
        if lines.len() > rows {
            lines.truncate(rows);
            lines.push("... (--report and --json have all bytes)".into());
        }
        named(page, name, lines);
    }
}

/// Adds lines beside a name.
fn named(page: &mut Page, name: &str, lines: Vec<String>) {
    let names = std::iter::once(format!("{name}:")).chain(std::iter::repeat(String::new()));
    page.lines(lines.iter().zip(names).map(|(line, name)| format!("  {name:9} {line}")));
}

/// A text in lines of a column.
pub fn column(text: &str) -> String {
    wrapped(text, 60, "").join("\n")
}

/// Names of the effects and what they mean, from the least to the most.
const EFFECTS: [(&str, &str); 5] = [
    ("reads", "reads what the library and the driver say"),
    ("own objects", "allocates and uses more objects; all operations succeed"),
    ("errors", "provokes failures of its own operations, which may set error flags"),
    ("PCIe atomics", "raises PCIe (AER) errors where nothing completes AtomicOps; needs --risky"),
    ("risky", "stops a queue in a way that no other program does; needs --risky"),
];

fn place(effect: CheckEffect) -> usize {
    match effect {
        CheckEffect::Reads => 0,
        CheckEffect::OwnResources => 1,
        CheckEffect::Errors(_) => 2,
        CheckEffect::PcieAtomic(_) => 3,
        CheckEffect::Risky => 4,
    }
}

pub fn effect_name(effect: CheckEffect) -> &'static str {
    EFFECTS[place(effect)].0
}

/// A row for each effect that a selected check has: its name, how many have it, and which.
pub fn effects(selection: &CheckSelection) -> Vec<Vec<String>> {
    let rows = EFFECTS.into_iter().enumerate().map(|(number, (name, what))| {
        let checks = selection.checks().filter(|(_, check)| place(check.effect) == number);
        let checks: Vec<_> = checks.collect();
        let names: Vec<String> = if number == place(CheckEffect::OwnResources) {
            let groups = checks.chunk_by(|one, next| one.0.name == next.0.name);
            groups.map(|checks| format!("{} {}", checks[0].0.name, checks.len())).collect()
        } else {
            checks.iter().map(|(group, check)| full_name(group, check)).collect()
        };
        let what = format!("{what}:\n{}", column(&names.join(", ")));
        (!checks.is_empty()).then(|| vec![name.to_owned(), checks.len().to_string(), what])
    });
    rows.flatten().collect()
}

/// A row for each error flag that the selected checks set: how often at most, and which checks.
pub fn flags(selection: &CheckSelection) -> Vec<Vec<String>> {
    let mut found: BTreeMap<ErrorFlag, (u32, Vec<String>)> = BTreeMap::new();
    for (group, check) in selection.checks() {
        for (flag, times) in check.effect.flags() {
            let (sum, checks) = found.entry(*flag).or_default();
            *sum += times;
            checks.push(full_name(group, check));
        }
    }
    let row = |(flag, (times, checks)): (ErrorFlag, (u32, Vec<String>))| {
        vec![flag.full_name(), times.to_string(), column(&checks.join(", "))]
    };
    found.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bench::MOST;
    use super::super::document::tests::report;
    use super::super::document::{Aftermath, MaskedFlag};
    use super::*;
    use page::table::TextStyle;

    #[test]
    fn ends_with_number_of_facts_that_hold() {
        use FactVerdict::{Differs, Holds, Skipped};
        let text = page(&report(&[Holds, Differs, Skipped])).text(TextStyle::Plain);
        let expected = "\
Group  Hold  Differ  Refused  Skipped
moves     1       1        -        1
skipped moves/ack: text

DIFFERS moves/ack (nic.md 6.4, stated)
  fact:     a put ends with one ACK
  expected: text
  seen:     text
  command:  15 00

1 of 2 facts hold, 1 skipped
";
        assert_eq!(text, expected);
    }

    #[test]
    fn begins_with_what_was_not_examined() {
        use FactVerdict::{Holds, NotExamined};
        let text = page(&report(&[Holds, NotExamined, NotExamined])).text(TextStyle::Plain);
        let expected = "\
2 not examined: time

Group  Hold  Differ  Refused  Skipped  Not examined
moves     1       -        -        -             2
not examined moves/ack and 1 more: text
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\n1 of 1 facts hold, 2 not examined\n"), "{text}");
    }

    #[test]
    fn names_what_has_changed_for_other_users() {
        let mut results = report(&[FactVerdict::Holds]);
        results.aftermath = Aftermath {
            masked_error_flags: vec![
                MaskedFlag { block: "lpe".into(), bit: 16, name: Some("no_space") },
                MaskedFlag { block: "oxe".into(), bit: 3, name: None },
            ],
            lost_rgids: 1,
        };
        let text = page(&results).text(TextStyle::Plain);
        for words in [
            "\nWARNING: error flag lpe.no_space was switched off after too many interrupts: ",
            "\nWARNING: error flag oxe.bit 3 was switched off",
            "\nWARNING: RGIDs available: 1 fewer than before",
            "Tell your administrator",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn report_leaves_out_names_unless_they_are_given() {
        let mut report = report(&[FactVerdict::Holds]);
        let text = |report: &SelfTest| report_page(report).text(TextStyle::Plain);
        assert!(text(&report).contains("left out"));
        report.nic.host = Some("node7".into());
        report.nic.nic_address = Some(0x123);
        report.nic.pci_address = Some("0000:c1:00.0".into());
        for name in ["node7", "0x123", "0000:c1:00.0"] {
            assert!(text(&report).contains(name), "{}", text(&report));
        }
    }

    /// No flag is provoked more often than a run may, by all checks together.
    #[test]
    fn checks_declare_at_most_three_errors_of_a_flag() {
        for row in flags(&CheckSelection::default()) {
            assert!(row[1].parse::<usize>().unwrap() <= MOST, "{}", row[0]);
        }
    }
}
