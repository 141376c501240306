//! The checks of many nodes as text: the verdict, the groups of nodes, what most nodes have; and as
//! comma-separated values.

use crate::fleet_document::{FleetCheck, Majority, NodeVerdict};
use facts::error::Failure;
use facts::severity::Severity;
use facts::text::plural;
use health::ITEMS;
use health::majority::common_text;
use page::csv::document;
use page::page::{Page, Words};

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
