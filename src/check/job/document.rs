//! The settings of a job, as data and as JSON, text and metrics. The doc comments of the types are
//! the descriptions in their schema, docs/check-job.schema.json.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::table::{FindingSeverity, LIBFABRIC, OWN, RULES, SettingFinding};
use super::values::boolean;
use crate::document::UNTESTED;
use crew::host_list;
use facts::error::{Failure, UNDECIDED};
use facts::severity::Severity;
use facts::text::plural;
use facts::time_of_day::{milliseconds, unix_ms};
use page::openmetrics::{Family, Sample};
use page::page::{Page, Words};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A series without labels that all files of a check of settings have.
pub const SERIES: &str = "cxidiag_job_exit_status";

/// Kind of the findings that name the ranks themselves.
const DIFFERS: &str = "differs";

/// Notes that the first line names.
const NAMED_NOTES: usize = 3;

/// Values that a finding about ranks names beside the most frequent one.
const NAMED_VALUES: usize = 3;

/// What is found about a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessSettings {
    /// Values by name; version and path of libfabric below `libfabric`.
    pub settings: BTreeMap<String, String>,
    /// Version, path and origin of each libfabric that was asked.
    pub libfabric: Vec<String>,
    /// Names that begin with `FI_` and that its libfabric does not know.
    pub unknown: BTreeSet<String>,
    pub findings: Vec<SettingFinding>,
}

/// The settings of a job, as `cxidiag check --job --json` writes them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct JobCheck {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Start of the check, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// Duration of the check, in milliseconds.
    elapsed_ms: u64,
    /// Exit status of the program: 0 if nothing is bad, 3 if a setting is, 4 if nothing is bad but
    /// libfabric could not be asked or a process has not answered.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// Number of processes.
    pub processes: usize,
    /// Number of different settings.
    pub settings: usize,
    /// Number of these whose names begin with FI_: libfabric's own.
    pub libfabric_settings: usize,
    /// Names of libfabric_settings that the libfabric of a process does not know.
    pub unknown: BTreeSet<String>,
    /// Version and path of each libfabric that was asked, and how it was found.
    pub libfabric: BTreeSet<String>,
    /// What was found, bad findings first.
    pub findings: Vec<SettingFinding>,
}

/// The name of the node of each process, and what was found or why there is nothing.
pub type JobAnswers = Vec<(String, Result<Rc<ProcessSettings>, String>)>;

impl JobCheck {
    pub fn new(started: SystemTime, elapsed: Duration, answers: &JobAnswers) -> Self {
        let mut found: Vec<(SettingFinding, Vec<&str>)> = Vec::new();
        for (node, answer) in answers {
            let unanswered = |reason: &String| vec![SettingFinding::untested(reason)];
            let findings = answer.as_ref().map_or_else(unanswered, |found| found.findings.clone());
            for finding in findings {
                match found.iter_mut().find(|(known, _)| *known == finding) {
                    Some((_, nodes)) => nodes.push(node),
                    None => found.push((finding, vec![node])),
                }
            }
        }
        let processes = answers.iter();
        let processes =
            processes.filter_map(|(node, answer)| Some((&**node, &**answer.as_ref().ok()?)));
        let processes: Vec<(&str, &ProcessSettings)> = processes.collect();
        let names = processes.iter().flat_map(|(_, process)| process.settings.keys());
        let mut names: BTreeSet<&str> = names.map(String::as_str).collect();
        found.extend(names.iter().filter_map(|name| difference(name, &processes)));
        names.remove(LIBFABRIC);
        let mut findings: Vec<SettingFinding> = found
            .into_iter()
            .map(|(finding, nodes)| SettingFinding {
                processes: nodes.len(),
                nodes: host_list::compress(nodes),
                ..finding
            })
            .collect();
        // What differs between libfabrics explains the rest.
        findings.sort_by_key(|found| (found.severity, found.setting != LIBFABRIC));
        let mut check = Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            exit_status: 0,
            summary: String::new(),
            processes: answers.len(),
            settings: names.len(),
            libfabric_settings: names.iter().filter(|name| name.starts_with(OWN)).count(),
            unknown: processes.iter().flat_map(|(_, process)| process.unknown.clone()).collect(),
            libfabric: processes
                .iter()
                .flat_map(|(_, process)| process.libfabric.clone())
                .collect(),
            findings,
        };
        (check.exit_status, check.summary) = check.conclusion();
        check
    }

    fn conclusion(&self) -> (u8, String) {
        let count =
            |severity| self.findings.iter().filter(|found| found.severity == severity).count();
        if let Some(first) = self.findings.first() {
            let SettingFinding { code, text, .. } = first;
            match first.severity {
                FindingSeverity::Bad => {
                    let others = match count(FindingSeverity::Bad) - 1 {
                        0 => String::new(),
                        others => format!(" (and {others} more)"),
                    };
                    return (3, format!("FAIL {code} {}: {text}{others}", first.subject()));
                }
                FindingSeverity::Untested => {
                    return (UNDECIDED, format!("UNDECIDED {UNTESTED} job: {text}"));
                }
                FindingSeverity::Note => {}
            }
        }
        let known = match self.libfabric_settings {
            0 => "",
            _ if !self.unknown.is_empty() => "",
            own if own == self.settings => " knows all names",
            _ => " knows all FI_ names",
        };
        let libraries: String =
            self.libfabric.iter().map(|library| format!("; {library}{known}")).collect();
        let notes: BTreeSet<String> =
            self.findings.iter().map(|found| format!("{} {}", found.code, found.setting)).collect();
        let mut named: Vec<String> = notes.iter().take(NAMED_NOTES).cloned().collect();
        if let more @ 1.. = notes.len().saturating_sub(NAMED_NOTES) {
            named.push(format!("{more} more"));
        }
        let notes = match named.as_slice() {
            [] => String::new(),
            named => format!(" (notes: {})", named.join(", ")),
        };
        let processes = match self.processes {
            1 => String::new(),
            processes => format!(" in {processes} processes"),
        };
        let count = self.settings;
        (0, format!("OK {count} setting{}{processes}{libraries}{notes}", plural(count)))
    }

    /// Whether nothing is bad.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

/// A finding that names each value of a setting, and the nodes of all but the most frequent one, if
/// the setting is not the same in all processes.
fn difference<'a>(
    name: &str,
    processes: &[(&'a str, &ProcessSettings)],
) -> Option<(SettingFinding, Vec<&'a str>)> {
    let (code, beginning, source) = match name {
        "FI_CXI_OPTIMIZED_MRS" => {
            ("L51", "must be equal in all processes", "libfabric man/fi_cxi.7.md:886")
        }
        LIBFABRIC => ("R2", "differs", ""),
        _ => ("R1", "differs", ""),
    };
    let mut nodes_by_value: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, process) in processes {
        let value = match (code, process.settings.get(name)) {
            // Where it is unset, it is 1.
            ("L51", value) if value.is_some_and(|value| boolean(value) == Some(false)) => "0",
            ("L51", _) => "1",
            ("R2", None) => continue,
            (_, value) => value.map_or("unset", String::as_str),
        };
        nodes_by_value.entry(value).or_default().push(node);
    }
    if nodes_by_value.len() < 2 || RULES.has("may-differ", name) {
        return None;
    }
    let mut values: Vec<(&str, Vec<&str>)> = nodes_by_value.into_iter().collect();
    values.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let (most, most_nodes) = values.remove(0);
    let others = values.iter().take(NAMED_VALUES).map(|(value, nodes)| {
        let list = host_list::compress(nodes.iter().copied());
        format!(", {value} on {} ({list})", nodes.len())
    });
    let (mut others, count): (String, usize) = (others.collect(), most_nodes.len());
    if let more @ 1.. = values.len().saturating_sub(NAMED_VALUES) {
        others += &format!(", {more} more value{}", plural(more));
    }
    let is_bad = RULES.has("must-agree", name);
    let finding = SettingFinding {
        code: code.into(),
        severity: if is_bad { FindingSeverity::Bad } else { FindingSeverity::Note },
        kind: DIFFERS.into(),
        setting: name.into(),
        text: format!("{beginning}: {most} on {count} rank{}{others}.", plural(count)),
        source: source.into(),
        ..SettingFinding::default()
    };
    Some((finding, values.into_iter().flat_map(|(_, nodes)| nodes).collect()))
}

/// The page of a check of settings.
pub fn page(check: &JobCheck) -> Page {
    let mut page = Page::headline(&check.summary, check.exit_status);
    for finding in &check.findings {
        let SettingFinding { code, text, instead, source, processes, nodes, .. } = finding;
        page.empty_line();
        page.line(
            match finding.severity {
                FindingSeverity::Bad => Words::verdict(Severity::Bad, "BAD"),
                FindingSeverity::Untested => Words::verdict(Severity::Suspect, "UNDECIDED"),
                FindingSeverity::Note => Words::from("NOTE"),
            }
            .and(format!(" {code} {}", finding.subject())),
        );
        let place = format!("in {processes} of {} processes: {nodes}", check.processes);
        let place = Some(place).filter(|_| check.processes > 1 && finding.kind != DIFFERS);
        let source = Some(format!("Source: {source}")).filter(|_| !finding.source.is_empty());
        let lines = [Some(text.clone()), instead.clone(), place, source];
        lines.iter().flatten().for_each(|line| page.indented(line, ""));
    }
    if check.exit_status != 0 && !check.libfabric.is_empty() {
        page.empty_line();
        page.lines(check.libfabric.iter().map(|library| format!("Asked: {library}")));
    }
    page
}

/// The metrics of a check of settings.
pub fn families(check: &JobCheck) -> Vec<Family> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for finding in &check.findings {
        *counts.entry((&finding.code, finding.severity.name())).or_default() += 1;
    }
    let samples = counts.into_iter().map(|((code, severity), count)| {
        let labels = [("rule", code.to_owned()), ("verdict", severity.to_owned())];
        Sample::new(labels, count as f64)
    });
    let single = |name, help, value: f64| Family::new(name, help, [value.into()]);
    vec![
        single(
            SERIES,
            "Exit status of the check of settings: 0 passed, 3 a setting is bad, 4 not tested.",
            check.exit_status.into(),
        ),
        single("cxidiag_job_processes", "Processes.", check.processes as f64),
        single("cxidiag_job_settings", "Different settings.", check.settings as f64),
        Family::new("cxidiag_job_findings", "Findings about settings by rule.", samples),
    ]
}
