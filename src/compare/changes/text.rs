//! Changes as text: what was compared, a table, remarks.

use std::time::{Duration, UNIX_EPOCH};

use super::change::{Change, ChangeVerdict};
use super::{Changes, ComparedDocument, ComparedKind};
use facts::severity::Severity;
use page::page::{Page, Words};
use page::table::Align;

/// Rows of the table.
const MOST_ROWS: usize = 100;

/// Documents of a side that are described.
const MOST_DOCUMENTS: usize = 3;

/// Returns the page of changes.
pub fn page(changes: &Changes) -> Page {
    let mut page = Page::default();
    for (label, side) in [("Base", &changes.base), ("New", &changes.new)] {
        for compared in side.iter().take(MOST_DOCUMENTS) {
            page.fact(label, described(compared));
        }
        if let more @ 1.. = side.len().saturating_sub(MOST_DOCUMENTS) {
            page.fact(label, format!("and {more} more"));
        }
    }
    let noise = match changes.kind {
        ComparedKind::Survey => ", and by their noise",
        ComparedKind::Check => "",
    };
    let limit = format!("figures may change by {}%{noise}", changes.limit_percent);
    page.fact("Limit", limit);
    page.empty_line();
    if changes.changes.is_empty() {
        page.line("No change.");
    } else {
        let columns = [
            ("Part", Align::Left),
            ("What", Align::Left),
            ("Base", Align::Right),
            ("New", Align::Right),
            ("Change", Align::Right),
            ("Verdict", Align::Left),
        ];
        page.table(&columns, changes.changes.iter().take(MOST_ROWS).map(row));
        if let more @ 1.. = changes.changes.len().saturating_sub(MOST_ROWS) {
            page.line(format!("\nand {more} more"));
        }
    }
    page.lines(changes.remarks.iter().map(|remark| format!("\n{remark}")));
    page
}

fn described(document: &ComparedDocument) -> String {
    // The year 9999 is the last one with four digits.
    let seconds = (document.started_unix_ms / 1000).min(253_402_300_799);
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    format!("{} ({time}): {}", document.file, document.summary)
}

fn row(item: &Change) -> Vec<Words> {
    let or_dash = |text: &Option<String>| text.as_deref().unwrap_or("-").into();
    let severity = match item.verdict {
        ChangeVerdict::Worse => Severity::Bad,
        ChangeVerdict::Unclear => Severity::Suspect,
        ChangeVerdict::Better | ChangeVerdict::Changed | ChangeVerdict::Ok => Severity::Good,
    };
    let change = match (item.increase, item.change_percent) {
        (Some(increase), _) => format!("{increase:+}"),
        (None, Some(percent)) => format!("{percent:+.1}%"),
        (None, None) => "-".into(),
    };
    vec![
        item.part.as_str().into(),
        item.what.as_str().into(),
        or_dash(&item.base),
        or_dash(&item.new),
        change.into(),
        Words::verdict(severity, item.verdict.text()),
    ]
}
