//! The checks of many nodes in one, as text, comma-separated values, metrics and documents; and the
//! checks of other hosts through `cxidiag serve`: the client, and the process that the server has
//! started there.

use std::io::{self, Write};
use std::time::{Instant, SystemTime};

use cli::output;
use diag::run::serve::{Taken, take_client};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::severity::Severity;
use facts::text::plural;
use health::ITEMS;
use health::majority::common_text;
use page::csv::document;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::json;
use page::openmetrics::{Family, Sample};
use page::page::{Page, Words};
use page::table::TextStyle;
use session::requests::{CheckOrder, Question};

use crate::document::Check;
use crate::fleet_document::{FleetCheck, Majority, NodeVerdict, with_verdict};
use crate::of_node;
use crate::options::{CheckRequest, SiteSettings};

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
const SERIES: &str = "cxidiag_fleet_exit_status";

/// The metrics of the check of many nodes.
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

/// The page of the check of many nodes.
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

/// A table with a row for each finding, and one for each node without findings.
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

/// Why a host was not asked before a survey.
const NOT_ASKED: &str = "not asked: a quarter of --time-limit was over";

/// Asks the server on each host for a check, until the time of the checks is over.
pub fn ask_all(hosts: &[String], request: &CheckRequest) -> Result<Answers, Failure> {
    let order = CheckOrder {
        devices: request.devices.iter().map(DeviceName::to_string).collect(),
        expected_nics: request.site.expected_nics,
        link_gigabits: request.site.link_gigabits,
    };
    let last = request.until.map(|until| (until, NOT_ASKED));
    Question::check(&order, last).ask_all(hosts, request.port, Check::read)
}

/// Checks this node for the client of this process. `own` has the NIC of the server, which is
/// checked if the client names none and the NIC is a software NIC.
///
/// # Errors
///
/// A client that ends or sends no order, a check that is not possible, and an interruption.
pub fn run_ordered(own: CheckRequest) -> Result<(), Failure> {
    let Taken { caller, .. } = take_client()?;
    let order = caller.order()?;
    let checked = request(own, order).and_then(of_node::check);
    match checked.and_then(|check| json::line(&check)) {
        Ok(document) => caller.send_document(&document),
        Err(failure) => Err(caller.refuse(failure)),
    }
}

/// Returns what the client may ask for: a quick check without traffic, of NICs of the kind that the
/// server has.
fn request(own: CheckRequest, order: CheckOrder) -> Result<CheckRequest, Failure> {
    let named = order.devices.iter().map(|name| name.parse());
    let named = named.collect::<Result<Vec<DeviceName>, _>>();
    let named = named.map_err(|why| Failure::environment(format!("invalid device: {why}")))?;
    let is_software = |device: &DeviceName| device.platform().is_simulated;
    let serves_software = own.devices.iter().any(is_software);
    if let Some(other) = named.iter().find(|device| is_software(device) != serves_software) {
        let own = own.devices.first().map_or(String::new(), DeviceName::to_string);
        let message = format!("this server has no {other}: it has NICs such as {own}");
        return Err(Failure::environment(message));
    }
    Ok(CheckRequest {
        devices: if named.is_empty() && serves_software { own.devices } else { named },
        is_quick: true,
        site: SiteSettings {
            expected_nics: order.expected_nics,
            link_gigabits: order.link_gigabits,
        },
        ..CheckRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(own: &str, order: &str) -> Result<CheckRequest, String> {
        let own = CheckRequest { devices: vec![own.parse().unwrap()], ..CheckRequest::default() };
        let order = serde_json::from_str(order).unwrap();
        request(own, order).map_err(|failure| failure.message())
    }

    #[test]
    fn client_chooses_nics_and_what_they_must_have() {
        let order =
            r#"{"devices": [], "expected_nics": 4, "link_gigabits": 100.0, "quick": false}"#;
        let found = requested("soft1", order).unwrap();
        assert_eq!(found.devices, [DeviceName::software(1)]);
        assert!(!found.has_traffic() && !found.has_window());
        assert_eq!((found.site.expected_nics, found.site.link_gigabits), (Some(4), Some(100.0)));
        assert_eq!(requested("cxi0", order).unwrap().devices, []);
        let named = r#"{"devices": ["cxi1"], "expected_nics": null, "link_gigabits": null}"#;
        assert_eq!(requested("cxi0", named).unwrap().devices.len(), 1);
        let refusal = "this server has no cxi1: it has NICs such as soft1";
        assert_eq!(requested("soft1", named).unwrap_err(), refusal);
    }
}
