//! The checks of many nodes in one, as text, comma-separated values, metrics and documents.

use std::io::{self, Write};
use std::time::{Instant, SystemTime};

use super::document::Check;
use super::fleet_document::{FleetCheck, Majority, NodeVerdict, with_verdict};
use super::request::CheckRequest;
use cli::output;
use facts::error::Failure;
use facts::severity::Severity;
use facts::text::plural;
use health::ITEMS;
use health::majority::common_text;
use page::csv::document;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::openmetrics::{Family, Sample};
use page::page::{Page, Words};
use page::table::TextStyle;

/// The name of each node, and its check or why there is none.
pub type Answers = Vec<(String, Result<Check, String>)>;

/// Gathers checks by `gather`, prints what they amount to, and writes the documents.
///
/// # Errors
///
/// A file that cannot be written, a failure of `gather`, a node that is bad or cannot be tested.
pub fn report(
    request: &CheckRequest,
    gather: impl FnOnce() -> Result<Answers, Failure>,
) -> Result<(), Failure> {
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        csv: request.csv.clone(),
        bad_nodes: request.bad_nodes.clone().map(Place::File),
        metrics: request.metrics.file_with(SERIES)?,
        ..Places::default()
    });
    let mut documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let answers = output::or_failure(&documents, gather())?;
    let check = FleetCheck::new(started, clock.elapsed(), answers);
    if request.is_before_survey {
        let page = page(&check);
        let page = if request.is_quiet { page.first_line() } else { page };
        let text = page.text(TextStyle::Plain);
        let _ = writeln!(io::stderr(), "cxidiag survey: check: {text}");
    } else {
        output::write(&documents, &check, request.is_quiet, page)?;
    }
    documents.write_metrics(|| families(&check))?;
    let has_text = !documents.has_stdout();
    if let Some(to) = documents.csv.take() {
        to.write(&csv(&check)?)?;
    }
    if let Some(to) = documents.bad_nodes.take() {
        to.write(check.bad_nodes().as_bytes())?;
    }
    check.result().map_err(|failure| if has_text { failure.printed() } else { failure })
}

/// A series without labels that all files of a check of many nodes have.
pub const SERIES: &str = "cxidiag_fleet_exit_status";

/// Returns the metrics of the check of many nodes.
pub fn families(check: &FleetCheck) -> Vec<Family> {
    let verdicts = NodeVerdict::ALL.into_iter().rev().map(|verdict| {
        let labels = [("verdict", verdict.name().to_owned())];
        Sample::new(labels, with_verdict(&check.nodes, verdict) as f64)
    });
    let found =
        check.nodes.iter().flat_map(|node| node.findings.iter().map(move |one| (node, one)));
    let found = found.map(|(node, finding)| {
        let labels = [
            ("node", node.node.clone()),
            ("device", finding.device.clone()),
            ("check", finding.code.clone()),
            ("verdict", finding.verdict.name().to_owned()),
        ];
        Sample::new(labels, true)
    });
    let status =
        "Exit status of the check of all nodes: 0 passed, 3 a node is bad, 4 a node not tested.";
    let times = [check.started_unix_ms, check.elapsed_ms];
    let mut families =
        Vec::from(Family::times((SERIES, status), check.exit_status, "check", times));
    families.extend([
        Family::new("cxidiag_fleet_nodes", "Number of nodes by verdict.", verdicts),
        Family::new("cxidiag_fleet_finding", "What was found on a node, always 1.", found),
    ]);
    families
}

/// Returns the page of the check of many nodes.
pub fn page(check: &FleetCheck) -> Page {
    let mut page = Page::headline(&check.summary, check.exit_status);
    for group in &check.groups {
        let severity = match group.verdict {
            NodeVerdict::Bad => Severity::Bad,
            NodeVerdict::Suspect | NodeVerdict::Untested | NodeVerdict::NoAnswer => {
                Severity::Suspect
            }
            NodeVerdict::Good => Severity::Good,
        };
        let title = Words::verdict(severity, group.verdict.text().to_uppercase());
        let place = match group.verdict {
            NodeVerdict::NoAnswer => String::new(),
            _ => format!(" {} {}", group.code, group.devices),
        };
        let count = format!("({} node{})", group.count, plural(group.count));
        page.empty_line();
        page.paragraph(title.and(format!("{place} {count}: {}", group.what)), "  ");
        page.line(format!("  {}", group.nodes));
    }
    majority(&mut page, &check.majority);
    remedies(&mut page, check);
    page
}

/// Adds what most nodes have, where others have something else.
fn majority(page: &mut Page, all: &[Majority]) {
    let differs = |majority: &&Majority| majority.value.is_none() || majority.count < majority.of;
    let different: Vec<&Majority> = all.iter().filter(differs).collect();
    if different.is_empty() {
        return;
    }
    let has_several = {
        let mut generations = all.iter().filter_map(|majority| majority.generation.as_deref());
        let first = generations.next();
        generations.any(|other| Some(other) != first)
    };
    let row = |majority: &&Majority| {
        let generation = majority.generation.as_ref().filter(|_| has_several);
        let generation = generation.map_or(String::new(), |generation| format!(", {generation}"));
        vec![
            format!("{}{generation}", majority.item),
            majority
                .value
                .as_ref()
                .map_or_else(|| "no majority".into(), |value| common_text(&majority.code, value)),
            match majority.value {
                Some(_) => format!("{} of {} {}", majority.count, majority.of, majority.unit),
                None => format!("of {} {}", majority.of, majority.unit),
            },
        ]
    };
    page.empty_line();
    page.table(&["Most have", "Value", "Count"], different.iter().map(row));
}

/// Adds what to do about each code that is bad or suspect.
fn remedies(page: &mut Page, check: &FleetCheck) {
    let found = |code: &str| check.groups.iter().any(|group| group.code == code);
    let items = ITEMS.iter().filter(|item| item.source != "-" && found(item.code));
    for (index, item) in items.enumerate() {
        if index == 0 {
            page.empty_line();
        }
        page.paragraph(format!("{}: {}", item.code, item.remedy), "  ");
    }
}

/// Returns a table with a row for each finding, and one for each node without findings.
///
/// # Errors
///
/// None in practice: the table is made in memory.
pub fn csv(check: &FleetCheck) -> Result<Vec<u8>, Failure> {
    let mut rows = vec![["node", "verdict", "code", "device", "what"]];
    for node in &check.nodes {
        if node.findings.is_empty() {
            rows.push([&*node.node, node.verdict.name(), "", "", ""]);
        }
        rows.extend(node.findings.iter().map(|found| {
            [&*node.node, found.verdict.name(), &found.code, &found.device, &found.what]
        }));
    }
    document(rows.into_iter().map(|row| row.map(str::to_owned)))
}
