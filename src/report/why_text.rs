//! The diagnosis of one NIC as text.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::survey::why_text::{lines, shown, shown_unit};
use super::table::{self, Align};
use super::why::{NicDiagnosis, TestResult};
use super::wrap::wrapped;
use diagnosis::comparison::Compared;
use facts::text::markdown;

/// Width of lines.
const WIDTH: usize = 80;

/// Writes the first line, the tests, and why the NIC is slow.
pub fn write(out: &mut impl Write, diagnosis: &NicDiagnosis) -> io::Result<()> {
    writeln!(out, "{}", diagnosis.summary)?;
    if diagnosis.is_software {
        writeln!(out, "software NIC: no Cassini hardware involved")?;
    }
    if !diagnosis.tests.is_empty() {
        writeln!(out)?;
    }
    for line in tests(diagnosis) {
        writeln!(out, "{line}")?;
    }
    for test in &diagnosis.tests {
        if let Some(failure) = &test.failure {
            let text = format!("{} failed: {failure}", test.test);
            for line in wrapped(&text, WIDTH, "    ") {
                writeln!(out, "{line}")?;
            }
        }
    }
    for why in &diagnosis.why {
        if !why.causes.is_empty() {
            writeln!(out, "\nWhy")?;
            for line in lines(&diagnosis.roster, why) {
                writeln!(out, "{line}")?;
            }
        } else if let Some(note) = &why.left_out {
            writeln!(out)?;
            for line in wrapped(&format!("note: {note}"), WIDTH, "    ") {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// Returns the table of the tests.
fn tests(diagnosis: &NicDiagnosis) -> Vec<String> {
    if diagnosis.tests.is_empty() {
        return Vec::new();
    }
    let device = &diagnosis.roster.nic(diagnosis.suspect).device;
    let others = if diagnosis.controls.is_empty() { "healthy" } else { "good NICs" };
    let titles = ["", "", device.as_str(), others, "", ""];
    let align = [Align::Left, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left];
    table::lines(
        &titles,
        diagnosis.tests.iter().map(|test| row(test, !diagnosis.controls.is_empty())).collect(),
        &align,
    )
}

/// Returns the row of a test; `is_compared` if there are good NICs.
fn row(result: &TestResult, is_compared: bool) -> Vec<String> {
    let is_bandwidth = result.unit == "B/s";
    let figure = |value: Option<f64>| value.map(|value| shown(value, is_bandwidth));
    let outcome = match (&result.failure, result.outcome) {
        (Some(_), _) => "FAILED".into(),
        (None, Some(Compared::Slower)) => "SLOWER".into(),
        (None, Some(Compared::Unclear)) => "unclear".into(),
        (None, Some(Compared::Same)) => "same".into(),
        (None, None) if result.own.is_none() => "not measured".into(),
        (None, None) if is_compared => "not compared".into(),
        (None, None) => String::new(),
    };
    vec![
        result.test.clone(),
        result.name.clone(),
        figure(result.own).unwrap_or_else(|| "-".into()),
        figure(result.others).unwrap_or_else(|| "-".into()),
        shown_unit(is_bandwidth).into(),
        outcome,
    ]
}

/// Returns a page of Markdown for a ticket: the first line, how it was found, and the text.
pub fn page(diagnosis: &NicDiagnosis) -> String {
    let began = UNIX_EPOCH + Duration::from_millis(diagnosis.started_unix_ms);
    let began = humantime::format_rfc3339_seconds(began);
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut text, diagnosis);
    let head = format!(
        "# {}\n\n    cxidiag why {}\n\ncxidiag {}, {began}\n",
        diagnosis.summary,
        diagnosis.arguments.join(" "),
        diagnosis.cxidiag_version,
    );
    // A name must not end the block.
    let text = String::from_utf8_lossy(&text).replace("```", "` ``");
    format!("{}\n```text\n{text}```\n", markdown(&head))
}
