//! The report of a job that makes no progress, as data, JSON and text. The doc comments of the
//! types are the descriptions in their schema, docs/hang.schema.json.

use serde::{Deserialize, Serialize};

use crate::finding::{Certainty, HangFinding, RankGroup, groups};
use crate::nics::{Motion, NicState};
use crate::reading::{NodeReading, UnansweredNodes};
use crate::table::findings;
use facts::error::{Failure, UNDECIDED};
use facts::number::counted;
use page::json;
use page::page::Page;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Exit status if the cause of a hang was found.
const HUNG: u8 = 3;

/// Groups, further findings, NICs and unreadable things in the text.
const MOST_LINES: usize = 3;

/// Why a job makes no progress, as `cxidiag why --job --json` writes it. A value that is unknown is
/// null.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct HangReport {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: String,
    /// Always why --job.
    command: String,
    /// Exit status of the program: 0 if data moves, 3 if the cause of a hang was found, 4 if it is
    /// undecided.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// What the readings say, the surest first.
    pub findings: Vec<HangFinding>,
    /// The ranks in groups that do the same: outliers first, then the largest group first.
    pub groups: Vec<RankGroup>,
    /// What was read.
    pub node: NodeReading,
}

impl HangReport {
    /// Judges what was read on a node.
    pub fn new(node: NodeReading) -> Self {
        let findings = findings(&node);
        let (exit_status, summary) = match findings.first() {
            Some(first) => verdict(first),
            None => (UNDECIDED, "undecided: nothing was read".into()),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: "why --job".to_owned(),
            exit_status,
            summary,
            findings,
            groups: groups(&node.ranks),
            node,
        }
    }

    /// Reads a document; a reason if it is none of this version.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(document: &[u8]) -> Result<Self, String> {
        let report: Self = json::read(document)?;
        let version = report.schema_version;
        (version == SCHEMA_VERSION)
            .then_some(report)
            .ok_or_else(|| format!("schema_version {version} instead of {SCHEMA_VERSION}"))
    }

    /// Fails with the summary unless data moves.
    ///
    /// # Errors
    ///
    /// The summary.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary).map_err(Failure::printed)
    }
}

/// The exit status and the first line.
fn verdict(first: &HangFinding) -> (u8, String) {
    let HangFinding { certainty, text, .. } = first;
    match certainty {
        Certainty::Because | Certainty::Probably => {
            (HUNG, format!("hung: {} {text}", certainty.name()))
        }
        Certainty::Moving => (0, format!("moving: {text}")),
        Certainty::Possibly => (UNDECIDED, format!("undecided: possibly {text}")),
        Certainty::Open => (UNDECIDED, format!("undecided: {text}")),
    }
}

/// The text of a report: at most some fifteen lines.
pub fn page(report: &HangReport) -> Page {
    let HangReport { node, findings, groups, .. } = report;
    let mut page = Page::headline(&report.summary, report.exit_status);
    if node.nics.iter().any(|nic| nic.is_software) {
        page.line("software NIC: no Cassini hardware involved");
    }
    page.fact("node", place(node));
    for group in groups.iter().take(MOST_LINES) {
        let label = counted(group.count.into(), "rank");
        let stands_out = if group.is_outlier { " (stands out)" } else { "" };
        page.fact(&label, format!("{}: {}{stands_out}", group.names, group.does));
    }
    page.and_more(groups.len(), MOST_LINES.min(groups.len()));
    let missing = |group: &UnansweredNodes| {
        format!("{} ({}): {}", group.nodes, counted(group.count.into(), "node"), group.why)
    };
    let missing: Vec<String> = node.without_answer.iter().map(missing).collect();
    page.facts("without answer", &missing, MOST_LINES);
    page.facts("NIC", &node.nics.iter().map(nic_text).collect::<Vec<_>>(), MOST_LINES);
    if let Some(first) = findings.first() {
        page.fact("proof", &first.proof);
        page.fact("do not conclude", &first.exclusion);
        page.fact("next", &first.next);
    }
    // Groups without a cause are above.
    let is_new = |other: &&HangFinding| other.certainty != Certainty::Open || other.row == 8;
    for other in findings.iter().skip(1).filter(is_new).take(MOST_LINES - 1) {
        let certainty = match other.certainty {
            Certainty::Moving | Certainty::Open => String::new(),
            certainty => format!("{} ", certainty.name()),
        };
        page.fact("also", format!("{certainty}{} ({})", other.text, other.proof));
    }
    if report.exit_status == UNDECIDED {
        for what in node.unreadable.iter().take(MOST_LINES - 1) {
            page.fact("not read", format!("{}; {} can: {}", what.what, what.reader, what.command));
        }
    }
    page
}

pub fn ticket(report: &HangReport) -> Page {
    let mut text = Page::default();
    text.heading(1, &report.summary);
    text.empty_line();
    text.preformatted(&page(report));
    text
}

/// Returns which part of the job this node has.
fn place(node: &NodeReading) -> String {
    let job = node.job.as_ref().map_or(String::new(), |job| format!(", {job}"));
    let count = node.ranks.len() as u64;
    let ranks = match node.size {
        Some(size) => format!("{count} of {}", counted(size.into(), "rank")),
        None => counted_processes(count),
    };
    let hidden = match node.hidden.len() {
        0 => String::new(),
        hidden => format!(", {} hidden", counted_processes(hidden as u64)),
    };
    format!("{}{job}, {ranks}{hidden}, {:.0} s", node.host, node.seconds)
}

fn counted_processes(count: u64) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

fn nic_text(nic: &NicState) -> String {
    let mut parts = vec![format!("{} {}", nic.device, nic.motion.name())];
    if let Some(rate) = nic.packets_per_s.filter(|_| nic.motion != Motion::Silent) {
        parts.push(format!("{rate:.0} packets/s"));
    }
    let tables = nic.tables.iter().filter(|(_, table)| table.last > 0);
    let tables: Vec<String> =
        tables.map(|(name, table)| format!("{name} {}", table.last)).collect();
    if nic.has_nothing_outstanding() {
        parts.push("nothing outstanding".into());
    } else if !tables.is_empty() {
        parts.push(tables.join(" "));
    }
    let nearest = nic.services.iter().max_by(|one, other| one.share().total_cmp(&other.share()));
    if let Some(used) = nearest {
        parts.push(format!(
            "service {} uses {} of {} {}",
            used.service, used.in_use, used.limit, used.resource
        ));
    }
    parts.join(", ")
}
