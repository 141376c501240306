//! The health of NICs as text: the line that callers read, a table for each NIC, what to do.

use crate::document::Check;
use facts::severity::Severity;
use facts::time_of_day::step_text;
use health::{Finding, ITEMS, Item};
use page::page::{Page, Words};

pub fn page(check: &Check) -> Page {
    let mut page = Page::headline(&check.summary, check.exit_status);
    for (name, items) in check.blocks() {
        let device = check.device(name);
        if items.is_empty() && device.is_none_or(|device| device.error.is_none()) {
            continue;
        }
        let software = match device {
            Some(device) if device.is_software => " (software NIC: no Cassini hardware involved)",
            _ => "",
        };
        page.empty_line();
        page.line(format!("{name}{software}"));
        if let Some(error) = device.and_then(|device| device.error.as_ref()) {
            page.line(format!("Not tested: {}", error.message));
            page.lines(error.hint.as_ref().map(|hint| format!("hint: {hint}")));
        }
        block(&mut page, items);
    }
    clock_line(&mut page, check);
    remedies(&mut page, check);
    page
}

/// Adds what the clock of the host did, if it did not go on as others do.
pub fn clock_line(page: &mut Page, check: &Check) {
    if let Some(step) = check.clock_step_s {
        page.empty_line();
        page.line(step_text("this host", step));
    }
}

/// Adds the table of one NIC, and what has no value in it.
pub fn block(page: &mut Page, items: &[Finding]) {
    let (with_value, without): (Vec<&Finding>, Vec<&Finding>) =
        items.iter().partition(|item| item.verdict != Severity::NotAvailable);
    if !with_value.is_empty() {
        let titles = ["Item", "Value", "Limit", "Source", "Verdict"];
        let rows = with_value.iter().map(|item| row(item));
        page.table(&titles, rows);
        page.fit_table(&["Source"]);
    }
    for item in &with_value {
        if let Some(note) = &item.note {
            page.paragraph(format!("{}: {note}", item.name), "  ");
        }
    }
    let mut notes: Vec<Option<&str>> = Vec::new();
    for item in &without {
        if !notes.contains(&item.note.as_deref()) {
            notes.push(item.note.as_deref());
        }
    }
    for note in notes {
        let note_results = without.iter().filter(|item| item.note.as_deref() == note);
        let names: Vec<&str> = note_results.map(|item| item.name.as_str()).collect();
        let why = note.map_or(String::new(), |note| format!(" ({note})"));
        page.paragraph(format!("Not available{why}: {}", names.join(", ")), "  ");
    }
}

fn row(item: &Finding) -> Vec<Words> {
    let or_dash = |text: Option<&str>| text.unwrap_or("-").into();
    let verdict = match item.verdict {
        Severity::Shown => "-".into(),
        Severity::NotAvailable => "not available".into(),
        Severity::Good => "good".into(),
        wrong => wrong_item(wrong, item),
    };
    let without_value = match item.verdict {
        Severity::Bad => Some("failed"),
        Severity::Suspect => Some("unknown"),
        Severity::Shown | Severity::NotAvailable | Severity::Good => None,
    };
    vec![
        item.name.as_str().into(),
        or_dash(item.value.as_deref().or(without_value)),
        or_dash(item.limit.as_deref()),
        or_dash(item.source.as_deref()),
        verdict,
    ]
}

/// The verdict on an item that is not as it should be, with its code.
pub fn wrong_item(verdict: Severity, item: &Finding) -> Words {
    Words::verdict(verdict, verdict.name().to_uppercase()).and(format!(" {}", item.code))
}

/// Adds what to do about hardware that is not as it should be, once for each item.
pub fn remedies(page: &mut Page, check: &Check) {
    let software = |name: &str| check.device(name).is_some_and(|device| device.is_software);
    let mut seen = Vec::new();
    for (name, items) in check.blocks().filter(|(name, _)| !software(name)) {
        for item in items.iter().filter(|item| item.verdict.is_wrong()) {
            let known = ITEMS.iter().find(|known| known.code == item.code);
            if let Some(Item { code, remedy, .. }) = known
                && !seen.contains(code)
            {
                if seen.is_empty() {
                    page.empty_line();
                }
                seen.push(*code);
                page.paragraph(format!("{code} {name}: {remedy}"), "  ");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::testing::{bad, check, good, suspect};
    use facts::error::Failure;
    use health::{link, traffic};
    use page::table::TextStyle;

    fn text(check: &Check) -> String {
        page(check).text(TextStyle::Plain)
    }

    #[test]
    fn shows_items_with_values_and_what_to_do() {
        let skipped = Finding::untested(&traffic::READ, "--no-traffic");
        let nic_findings = vec![good(), bad(), Finding::absent(&link::LANES), skipped];
        let expected = "\
FAIL pcie-width cxi0: PCIe width x8, expected x16

cxi0
Item        Value  Limit  Source           Verdict
link state  up     up     cxi_healthcheck  good
PCIe width  x8     x16    cxidiag          BAD pcie-width
Not available: link lanes
Not available (--no-traffic): read latency

host
Item          Value      Limit        Source  Verdict
CPU governor  powersave  performance  HPE     SUSPECT governor

pcie-width cxi0: a degraded link: reboot the node, then reseat the card, and
  check slot and riser; fewer lanes than on other nodes: compare slot and riser
governor host: latencies vary with the frequency: set the governor 'performance'
";
        assert_eq!(text(&check(nic_findings, vec![suspect()], None)), expected);
    }

    #[test]
    fn shows_what_a_run_reported_behind_the_table() {
        let failed = Finding {
            verdict: Severity::Bad,
            ..Finding::untested(&traffic::READ, "the NIC reported PT_DISABLED")
        };
        let text = text(&check(vec![failed], vec![], None));
        let expected = "\
FAIL loopback-read cxi0: the NIC reported PT_DISABLED

cxi0
Item          Value   Limit  Source  Verdict
read latency  failed  -      -       BAD loopback-read
read latency: the NIC reported PT_DISABLED
";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn says_that_the_clock_was_stepped_without_a_verdict() {
        let mut check = check(vec![good()], vec![], None);
        check.clock_step_s = Some(0.3);
        let text = text(&check);
        assert!(text.starts_with("OK cxi0\n"), "{text}");
        let line = "\n\nthe clock of this host was stepped by +0.300 s meanwhile: rates use the \
                    monotonic clock\n";
        assert!(text.ends_with(line), "{text}");
    }

    #[test]
    fn shows_why_a_nic_was_not_tested() {
        let failure = Failure::environment("no device cxi0").with_hint("load the driver");
        let expected = "\
UNDECIDED untested cxi0: no device cxi0

cxi0
Not tested: no device cxi0
hint: load the driver
";
        assert_eq!(text(&check(vec![], vec![], Some(failure))), expected);
    }
}
