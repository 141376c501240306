//! Changes as text: what was compared, a table, remarks.

use super::change::{Change, ChangeVerdict};
use super::{Changes, ComparedDocument, ComparedKind};
use facts::severity::Severity;
use facts::time_of_day::rfc3339;
use page::page::{Page, Words};

/// Rows of the table.
const MOST_ROWS: usize = 100;

/// Documents of a side that are described.
const MOST_DOCUMENTS: usize = 3;

/// Returns the page of changes.
pub fn page(changes: &Changes) -> Page {
    let mut page = Page::default();
    for (label, side) in [("Base", &changes.base), ("New", &changes.new)] {
        let documents: Vec<String> = side.iter().map(described).collect();
        page.facts(label, &documents, MOST_DOCUMENTS);
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
        let columns = ["Part", "What", ">Base", ">New", ">Change", "Verdict"];
        page.table(&columns, changes.changes.iter().take(MOST_ROWS).map(row));
        if changes.changes.len() > MOST_ROWS {
            page.empty_line();
            page.and_more(changes.changes.len(), MOST_ROWS);
        }
    }
    page.lines(changes.remarks.iter().map(|remark| format!("\n{remark}")));
    page
}

fn described(document: &ComparedDocument) -> String {
    let ComparedDocument { file, summary, .. } = document;
    format!("{file} ({}): {summary}", rfc3339(document.started_unix_ms))
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
