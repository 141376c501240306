//! Changes as text: what was compared, a table, remarks.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::change::Change;
use super::{Changes, ComparedDocument, ComparedKind};
use crate::summary::line_in;
use crate::table::{self, Align, TextStyle};

/// Rows of the table.
const MOST_ROWS: usize = 100;

/// Documents of a side that are described.
const MOST_DOCUMENTS: usize = 3;

/// Writes changes.
pub fn write(out: &mut impl Write, changes: &Changes, form: TextStyle) -> io::Result<()> {
    for (label, side) in [("Base", &changes.base), ("New", &changes.new)] {
        for compared in side.iter().take(MOST_DOCUMENTS) {
            line_in(form, out, label, described(compared))?;
        }
        if let more @ 1.. = side.len().saturating_sub(MOST_DOCUMENTS) {
            line_in(form, out, label, format_args!("and {more} more"))?;
        }
    }
    let noise = match changes.kind {
        ComparedKind::Survey => ", and by their noise",
        ComparedKind::Check => "",
    };
    let limit = format!("figures may change by {}%{noise}", changes.limit_percent);
    line_in(form, out, "Limit", limit)?;
    writeln!(out)?;
    if changes.changes.is_empty() {
        writeln!(out, "No change.")?;
    } else {
        let titles = ["Part", "What", "Base", "New", "Change", "Verdict"];
        let left = Align::Left;
        let align = [left, left, Align::Right, Align::Right, Align::Right, left];
        let rows = changes.changes.iter().take(MOST_ROWS).map(row).collect();
        for line in table::lines_in(form, &titles, rows, &align) {
            writeln!(out, "{line}")?;
        }
        if let more @ 1.. = changes.changes.len().saturating_sub(MOST_ROWS) {
            writeln!(out, "\nand {more} more")?;
        }
    }
    for remark in &changes.remarks {
        writeln!(out, "\n{remark}")?;
    }
    Ok(())
}

fn described(document: &ComparedDocument) -> String {
    // The year 9999 is the last one with four digits.
    let seconds = (document.started_unix_ms / 1000).min(253_402_300_799);
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    format!("{} ({time}): {}", document.file, document.summary)
}

fn row(item: &Change) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let change = match (item.increase, item.change_percent) {
        (Some(increase), _) => format!("{increase:+}"),
        (None, Some(percent)) => format!("{percent:+.1}%"),
        (None, None) => "-".into(),
    };
    vec![
        item.part.clone(),
        item.what.clone(),
        or_dash(&item.base),
        or_dash(&item.new),
        change,
        item.verdict.text().into(),
    ]
}
