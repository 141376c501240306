//! The text of `selftest`: what does not hold, a line for each group, and the file of `--report`.

use std::io::{self, Write};

use super::selftest::{FactResult, FactVerdict, SelfTest};
use super::table::{self, Align};
use super::wrap::wrapped;

/// Width of a sentence beside its name.
const WIDTH: usize = 88;

/// Width of a row of 16 bytes.
const ROW: usize = 47;

/// Rows of bytes that a terminal shows.
const FEW_ROWS: usize = 4;

/// Writes what a terminal shows.
pub fn write(out: &mut Vec<u8>, report: &SelfTest) -> io::Result<()> {
    groups(out, report)?;
    for verdict in [FactVerdict::Skipped, FactVerdict::Refused] {
        let checks: Vec<&FactResult> = report.with(verdict).collect();
        for alike in checks.chunk_by(|one, next| one.reason == next.reason) {
            let [first, others @ ..] = alike else {
                continue;
            };
            let more = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let reason = first.reason.as_deref().unwrap_or_default();
            writeln!(out, "{} {}{more}: {reason}", verdict.name(), first.full_name())?;
        }
    }
    for check in report.with(FactVerdict::Differs) {
        writeln!(out)?;
        difference(out, check, FEW_ROWS)?;
    }
    aftermath(out, report)?;
    writeln!(out, "\n{}", report.summary())
}

/// Writes what the checks have changed for other users of the NIC.
fn aftermath(out: &mut Vec<u8>, report: &SelfTest) -> io::Result<()> {
    for sentence in report.aftermath.sentences() {
        let lines = wrapped(&format!("WARNING: {sentence}"), WIDTH, "");
        writeln!(out, "\n{}", lines.join("\n"))?;
    }
    Ok(())
}

/// Writes the file of `--report`: the NIC and its software, and each check.
pub fn write_report(out: &mut Vec<u8>, report: &SelfTest) -> io::Result<()> {
    let nic = &report.nic;
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let kind =
        if nic.is_software { "software NIC (no Cassini hardware involved)" } else { "hardware" };
    let yes = |is: bool| if is { "yes" } else { "no" };
    writeln!(out, "Report of cxidiag selftest\n")?;
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
        writeln!(out, "{name:17}: {value}")?;
    }
    writeln!(out)?;
    groups(out, report)?;
    aftermath(out, report)?;
    writeln!(out, "\n{}\n", report.summary())?;
    for verdict in FactVerdict::ALL {
        for check in report.with(verdict) {
            match verdict {
                FactVerdict::Differs => difference(out, check, usize::MAX)?,
                _ => writeln!(out, "{}", title(check))?,
            }
            if let Some(reason) = &check.reason {
                writeln!(out, "  {reason}")?;
            }
        }
    }
    Ok(())
}

/// Writes how many checks of each group have which verdict.
fn groups(out: &mut Vec<u8>, report: &SelfTest) -> io::Result<()> {
    let mut names: Vec<&str> = report.checks.iter().map(|check| check.group).collect();
    names.dedup();
    let rows = names.iter().map(|name| {
        let count = |verdict| {
            let group_results = report.with(verdict).filter(|check| check.group == *name);
            match group_results.count() {
                0 => "-".to_owned(),
                count => count.to_string(),
            }
        };
        use FactVerdict::{Differs, Holds, Refused, Skipped};
        let counts = [Holds, Differs, Refused, Skipped].map(count);
        [vec![(*name).to_owned()], counts.to_vec()].concat()
    });
    let titles = ["Group", "Hold", "Differ", "Refused", "Skipped"];
    let align = [[Align::Left].as_slice(), &[Align::Right; 4]].concat();
    for line in table::lines(&titles, rows.collect(), &align) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn title(check: &FactResult) -> String {
    let FactResult { verdict, fact, certainty, .. } = check;
    let (verdict, certainty) = (verdict.name(), certainty.name());
    format!("{verdict:7} {} ({fact}, {certainty})", check.full_name())
}

/// Writes what a check has seen, with at most `rows` rows of each command and event.
fn difference(out: &mut Vec<u8>, check: &FactResult, rows: usize) -> io::Result<()> {
    writeln!(out, "{}", title(check).replacen("differs", "DIFFERS", 1))?;
    let sentences = [
        ("fact", Some(check.statement)),
        ("expected", check.expected.as_deref()),
        ("seen", check.seen.as_deref()),
    ];
    for (name, text) in sentences {
        named(out, name, wrapped(text.unwrap_or_default(), WIDTH, ""))?;
    }
    for (name, bytes) in [("command", &check.command), ("event", &check.event)] {
        let Some(bytes) = bytes else { continue };
        let mut lines = wrapped(bytes, ROW, "");
        if lines.len() > rows {
            lines.truncate(rows);
            lines.push("... (--report and --json have all bytes)".into());
        }
        named(out, name, lines)?;
    }
    Ok(())
}

/// Writes lines beside a name.
fn named(out: &mut Vec<u8>, name: &str, lines: Vec<String>) -> io::Result<()> {
    let names = std::iter::once(format!("{name}:")).chain(std::iter::repeat(String::new()));
    for (line, name) in lines.iter().zip(names) {
        writeln!(out, "  {name:9} {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::selftest::tests::report;
    use super::super::selftest::{Aftermath, MaskedFlag};
    use super::*;

    #[test]
    fn ends_with_number_of_facts_that_hold() {
        use FactVerdict::{Differs, Holds, Skipped};
        let mut text = Vec::new();
        write(&mut text, &report(&[Holds, Differs, Skipped])).unwrap();
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
        assert_eq!(String::from_utf8(text).unwrap(), expected);
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
        let mut text = Vec::new();
        write(&mut text, &results).unwrap();
        let text = String::from_utf8(text).unwrap();
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
        let text = |report: &SelfTest| {
            let mut text = Vec::new();
            write_report(&mut text, report).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(text(&report).contains("left out"));
        report.nic.host = Some("node7".into());
        report.nic.nic_address = Some(0x123);
        report.nic.pci_address = Some("0000:c1:00.0".into());
        for name in ["node7", "0x123", "0000:c1:00.0"] {
            assert!(text(&report).contains(name), "{}", text(&report));
        }
    }
}
