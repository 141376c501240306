//! The diagnosis of one NIC as text.

use crate::nic_diagnosis::{NicDiagnosis, TestResult};
use crate::result::ticket;
use crate::result::why_text::{add_lines, shown, shown_unit};
use facts::severity::Severity;
use page::page::{Page, Words};
use why::causes::comparison::Compared;

/// Returns the page: the first line, the tests, and why the NIC is slow.
pub fn page(diagnosis: &NicDiagnosis) -> Page {
    let mut page = Page::headline(&diagnosis.summary, diagnosis.exit_status);
    if diagnosis.is_software {
        page.line("software NIC: no Cassini hardware involved");
    }
    if !diagnosis.tests.is_empty() {
        page.empty_line();
        tests(&mut page, diagnosis);
    }
    for test in &diagnosis.tests {
        if let Some(failure) = &test.failure {
            page.paragraph(format!("{} failed: {failure}", test.test), "    ");
        }
    }
    for why in &diagnosis.why {
        if !why.causes.is_empty() {
            page.line("\nWhy");
            add_lines(&mut page, &diagnosis.roster, why);
        } else if let Some(note) = &why.left_out {
            page.empty_line();
            page.paragraph(format!("note: {note}"), "    ");
        }
    }
    page
}

/// Adds the table of the tests.
fn tests(page: &mut Page, diagnosis: &NicDiagnosis) {
    let device = &diagnosis.roster.nic(diagnosis.suspect).device;
    let others = if diagnosis.controls.is_empty() { ">healthy" } else { ">good NICs" };
    let columns = ["", "", &format!(">{device}"), others, "", ""];
    let is_compared = !diagnosis.controls.is_empty();
    page.table(&columns, diagnosis.tests.iter().map(|test| row(test, is_compared)));
}

/// Returns the row of a test; `is_compared` if there are good NICs.
fn row(result: &TestResult, is_compared: bool) -> Vec<Words> {
    let is_bandwidth = result.unit == "B/s";
    let figure = |value: Option<f64>| value.map(|value| shown(value, is_bandwidth));
    let outcome = match (&result.failure, result.outcome) {
        (Some(_), _) => Words::verdict(Severity::Bad, "FAILED"),
        (None, Some(Compared::Slower)) => Words::verdict(Severity::Bad, "SLOWER"),
        (None, Some(Compared::Unclear)) => Words::verdict(Severity::Suspect, "unclear"),
        (None, Some(Compared::Same)) => "same".into(),
        (None, None) if result.own.is_none() => "not measured".into(),
        (None, None) if is_compared => "not compared".into(),
        (None, None) => Words::default(),
    };
    vec![
        result.test.as_str().into(),
        result.name.as_str().into(),
        figure(result.own).map_or_else(|| "-".into(), Words::from),
        figure(result.others).map_or_else(|| "-".into(), Words::from),
        shown_unit(is_bandwidth).into(),
        outcome,
    ]
}

/// Returns the page for a ticket: the first line, how it was found, and the text.
pub fn ticket(diagnosis: &NicDiagnosis) -> Page {
    let mut text = Page::default();
    text.heading(1, &diagnosis.summary);
    let NicDiagnosis { arguments, cxidiag_version, started_unix_ms, .. } = diagnosis;
    ticket::origin(&mut text, "why", arguments, cxidiag_version, *started_unix_ms);
    text.empty_line();
    text.preformatted(&page(diagnosis));
    text
}
