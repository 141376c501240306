//! The checks of many nodes as text: the verdict, the groups of nodes, what most nodes have; and as
//! comma-separated values.

use std::io::{self, Write};

use super::check_fleet::{FleetCheck, Majority, NodeVerdict};
use super::table::{self, Align};
use super::wrap::wrapped;
use diagnosis::majority::common_text;
use facts::error::{Context, Failure};
use facts::text::{cell, plural};
use node::nic::health::ITEMS;

/// Width of lines of words. Host lists may be longer, to be copied.
const WIDTH: usize = 100;

/// Writes the check of many nodes.
pub fn write(out: &mut impl Write, check: &FleetCheck) -> io::Result<()> {
    writeln!(out, "{}", check.summary)?;
    for group in &check.groups {
        let mut title = group.verdict.text().to_uppercase();
        if group.verdict != NodeVerdict::NoAnswer {
            title += &format!(" {} {}", group.code, group.devices);
        }
        let text = format!("{title} ({} node{}): {}", group.count, plural(group.count), group.what);
        writeln!(out)?;
        for line in wrapped(&text, WIDTH, "  ") {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "  {}", group.nodes)?;
    }
    majority(out, &check.majority)?;
    remedies(out, check)
}

/// Writes what most nodes have, where others have something else.
fn majority(out: &mut impl Write, all: &[Majority]) -> io::Result<()> {
    let differs = |majority: &&Majority| majority.value.is_none() || majority.count < majority.of;
    let different: Vec<&Majority> = all.iter().filter(differs).collect();
    if different.is_empty() {
        return Ok(());
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
    writeln!(out)?;
    let rows = different.iter().map(row).collect();
    for line in table::lines(&["Most have", "Value", "Count"], rows, &[Align::Left; 3]) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes what to do about each code that is bad or suspect.
fn remedies(out: &mut impl Write, check: &FleetCheck) -> io::Result<()> {
    let found = |code: &str| check.groups.iter().any(|group| group.code == code);
    let items = ITEMS.iter().filter(|item| item.source != "-" && found(item.code));
    for (index, item) in items.enumerate() {
        if index == 0 {
            writeln!(out)?;
        }
        for line in wrapped(&format!("{}: {}", item.code, item.remedy), WIDTH, "  ") {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Returns a table with a row for each finding, and one for each node without findings.
///
/// # Errors
///
/// None in practice: the table is made in memory.
pub fn csv(check: &FleetCheck) -> Result<Vec<u8>, Failure> {
    const WHAT: &str = "cannot write CSV";
    let mut writer = csv::Writer::from_writer(Vec::new());
    let titles = ["node", "verdict", "code", "device", "what"];
    writer.write_record(titles).environment(WHAT)?;
    for node in &check.nodes {
        if node.findings.is_empty() {
            let row = [&cell(&node.node), node.verdict.name(), "", "", ""];
            writer.write_record(row).environment(WHAT)?;
        }
        for found in &node.findings {
            let row = [&node.node, found.verdict.name(), &found.code, &found.device, &found.what];
            let cells = row.map(|text| cell(text).into_owned());
            writer.write_record(cells).environment(WHAT)?;
        }
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error).environment(WHAT)
}
