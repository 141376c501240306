//! The settings of a job, as data and as JSON, text and metrics. The doc comments of the types are
//! the descriptions in their schema, docs/check-job.schema.json.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, LibfabricAnswer};
use super::rules::RULES;
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

/// Notes that the first line names.
const NAMED_NOTES: usize = 3;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// A setting has no effect, is replaced, or breaks something.
    Bad,
    /// A setting differs from a newer default or from a recommendation.
    Note,
}

impl FindingSeverity {
    fn name(self) -> &'static str {
        if self == Self::Bad { "bad" } else { "note" }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Bad, Self::Note].into_iter().find(|severity| severity.name() == name)
    }
}

/// What is found about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SettingFinding {
    /// The rule, such as L13 (docs/settings.md).
    pub code: String,
    /// bad or note.
    pub severity: FindingSeverity,
    /// What kind of finding it is: no-effect, replaced, misread, contradiction, leaves-nic, missing,
    /// default, differs or breaks.
    pub kind: String,
    /// Name of the setting.
    pub setting: String,
    /// Its value; null if it is unset, or not the same everywhere.
    pub value: Option<String>,
    /// What happens really.
    pub text: String,
    /// What to write instead; null if nothing else is to be written.
    pub instead: Option<String>,
    /// Where the rule comes from.
    pub source: String,
    /// Number of processes.
    pub processes: usize,
    /// Their nodes, as a host list.
    pub nodes: String,
}

/// What is found about a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessSettings {
    pub settings: BTreeMap<String, String>,
    /// Path and version of its libfabric.
    pub libfabric: Option<(String, String)>,
    /// Why libfabric was not asked.
    pub untested: Option<String>,
    pub findings: Vec<SettingFinding>,
}

impl ProcessSettings {
    pub fn new(evidence: &Evidence, untested: Option<String>) -> Self {
        let path = |library: &LibfabricAnswer| (library.path.clone(), library.version.clone());
        Self {
            settings: evidence.settings.clone(),
            libfabric: evidence.library.as_ref().map(path),
            untested,
            findings: super::judge::findings(evidence),
        }
    }
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
    /// The libfabrics that were asked.
    pub libfabric: Vec<AskedLibfabric>,
    /// What could not be checked.
    pub untested: Vec<UntestedProcesses>,
    /// What was found, bad findings first.
    pub findings: Vec<SettingFinding>,
}

/// A libfabric that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct AskedLibfabric {
    /// Path of the file.
    pub path: String,
    /// Major and minor version.
    pub version: String,
    /// Number of processes that use it.
    pub processes: usize,
}

/// Processes that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct UntestedProcesses {
    /// Why.
    pub reason: String,
    /// Number of processes.
    pub processes: usize,
    /// Their nodes, as a host list.
    pub nodes: String,
}

/// The name of the node of each process, and what was found or why there is nothing.
pub type Answers = Vec<(String, Result<ProcessSettings, String>)>;

impl JobCheck {
    pub fn new(started: SystemTime, elapsed: Duration, answers: &Answers) -> Self {
        let mut found: Vec<(&SettingFinding, Vec<&str>)> = Vec::new();
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut libraries: BTreeMap<&(String, String), Vec<&str>> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (node, answer) in answers {
            let process = match answer {
                Ok(process) => process,
                Err(reason) => {
                    reasons.entry(reason).or_default().push(node);
                    continue;
                }
            };
            names.extend(process.settings.keys());
            if let Some(reason) = &process.untested {
                reasons.entry(reason).or_default().push(node);
            }
            if let Some(library) = &process.libfabric {
                libraries.entry(library).or_default().push(node);
            }
            for finding in &process.findings {
                match found.iter_mut().find(|(known, _)| *known == finding) {
                    Some((_, nodes)) => nodes.push(node),
                    None => found.push((finding, vec![node])),
                }
            }
        }
        let found = found.into_iter().map(|(finding, nodes)| finding.clone().at(&nodes));
        let mut findings: Vec<SettingFinding> = found.collect();
        findings.extend(differences(answers, &libraries));
        findings.sort_by_key(|found| found.severity);
        let untested = reasons.into_iter().map(|(reason, nodes)| UntestedProcesses {
            reason: reason.to_owned(),
            processes: nodes.len(),
            nodes: host_list::compress(nodes),
        });
        let libraries = libraries.into_iter().map(|((path, version), nodes)| AskedLibfabric {
            path: path.clone(),
            version: version.clone(),
            processes: nodes.len(),
        });
        let mut check = Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            exit_status: 0,
            summary: String::new(),
            processes: answers.len(),
            settings: names.len(),
            libfabric: libraries.collect(),
            untested: untested.collect(),
            findings,
        };
        (check.exit_status, check.summary) = check.conclusion();
        check
    }

    fn conclusion(&self) -> (u8, String) {
        let (bad, notes): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|found| found.severity == FindingSeverity::Bad);
        if let [first, others @ ..] = bad.as_slice() {
            let SettingFinding { code, text, .. } = first;
            let others = match others.len() {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            return (3, format!("FAIL {code} {}: {text}{others}", first.subject()));
        }
        if let Some(UntestedProcesses { reason, .. }) = self.untested.first() {
            return (UNDECIDED, format!("UNDECIDED {UNTESTED} job: {reason}"));
        }
        let libraries = self.libfabric.iter().map(|AskedLibfabric { path, version, .. }| {
            format!("; libfabric {version} at {path} knows all names")
        });
        let libraries: String = libraries.collect();
        let notes: BTreeSet<String> =
            notes.iter().map(|found| format!("{} {}", found.code, found.setting)).collect();
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

    /// Returns whether nothing is bad.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

impl SettingFinding {
    /// Returns `NAME=VALUE`, or the name alone.
    fn subject(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.setting),
            None => self.setting.clone(),
        }
    }

    /// Returns the finding of processes on these nodes.
    fn at(self, nodes: &[&str]) -> Self {
        Self { processes: nodes.len(), nodes: host_list::compress(nodes.iter().copied()), ..self }
    }
}

/// Returns the settings, and the libfabrics, that are not the same in all processes.
fn differences(
    answers: &Answers,
    libraries: &BTreeMap<&(String, String), Vec<&str>>,
) -> Vec<SettingFinding> {
    let processes = answers.iter().filter_map(|(node, answer)| Some((node, answer.as_ref().ok()?)));
    let processes: Vec<_> = processes.collect();
    let names: BTreeSet<&String> =
        processes.iter().flat_map(|(_, process)| process.settings.keys()).collect();
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| !RULES.has("may-differ", name)) {
        // The library takes 1 for OPTIMIZED_MRS where it is unset.
        let is_agreed = name == "FI_CXI_OPTIMIZED_MRS";
        let mut nodes_by_value: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, process) in &processes {
            let value = process.settings.get(name);
            let value = match value {
                value if is_agreed => {
                    let is_on = value.is_none_or(|value| boolean(value).unwrap_or(true));
                    u8::from(is_on).to_string()
                }
                Some(value) => value.clone(),
                None => "unset".into(),
            };
            nodes_by_value.entry(value).or_default().push(node);
        }
        if nodes_by_value.len() > 1 {
            let is_bad = is_agreed || RULES.has("must-agree", name);
            let (code, beginning, source) = match is_agreed {
                true => ("L51", "must be equal in all processes", "libfabric man/fi_cxi.7.md:886"),
                false => ("R1", "differs", "this job"),
            };
            let severity = if is_bad { FindingSeverity::Bad } else { FindingSeverity::Note };
            found.push(difference(code, severity, name, beginning, source, nodes_by_value));
        }
    }
    if libraries.len() > 1 {
        let by_name = libraries
            .iter()
            .map(|((path, version), nodes)| (format!("{version} at {path}"), nodes.clone()));
        let (bad, beginning) = (FindingSeverity::Bad, "differs");
        found.push(difference("R2", bad, "libfabric", beginning, "this job", by_name.collect()));
    }
    found
}

/// Returns a finding that names each value, with the nodes of all but the most frequent one.
fn difference(
    code: &str,
    severity: FindingSeverity,
    setting: &str,
    beginning: &str,
    source: &str,
    nodes_by_value: BTreeMap<String, Vec<&str>>,
) -> SettingFinding {
    let mut values: Vec<(String, Vec<&str>)> = nodes_by_value.into_iter().collect();
    values.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let words = values.iter().enumerate().map(|(place, (value, nodes))| {
        let count = nodes.len();
        let ranks = if place == 0 { format!(" rank{}", plural(count)) } else { String::new() };
        let nodes = match place {
            0 => String::new(),
            _ => format!(" ({})", host_list::compress(nodes.iter().copied())),
        };
        format!("{value} on {count}{ranks}{nodes}")
    });
    let words: Vec<String> = words.collect();
    let finding = SettingFinding {
        code: code.to_owned(),
        severity,
        kind: "differs".into(),
        setting: setting.to_owned(),
        value: None,
        text: format!("{beginning}: {}.", words.join(", ")),
        instead: None,
        source: source.to_owned(),
        processes: 0,
        nodes: String::new(),
    };
    let others: Vec<&str> = values.into_iter().skip(1).flat_map(|(_, nodes)| nodes).collect();
    finding.at(&others)
}

#[cfg(any(test, feature = "testing"))]
impl JobCheck {
    /// Returns a check with one finding.
    pub fn with_a_finding() -> Self {
        let settings = [("FI_CXI_FOO".to_owned(), "1".to_owned())];
        let library = LibfabricAnswer {
            path: "/opt/cray/libfabric/2.3.1/lib64/libfabric.so.1".into(),
            version: "2.3".into(),
            ..LibfabricAnswer::default()
        };
        let evidence = Evidence::new(settings, Some(library), BTreeMap::new());
        let process = ProcessSettings::new(&evidence, None);
        Self::new(SystemTime::UNIX_EPOCH, Duration::ZERO, &vec![("nid1".into(), Ok(process))])
    }
}

/// Returns the page of a check of settings.
pub fn page(check: &JobCheck) -> Page {
    let mut page = Page::headline(&check.summary, check.exit_status);
    for finding in &check.findings {
        let severity = match finding.severity {
            FindingSeverity::Bad => Severity::Bad,
            FindingSeverity::Note => Severity::Suspect,
        };
        let title = Words::verdict(severity, finding.severity.name().to_uppercase());
        page.empty_line();
        page.line(title.and(format!(" {} {}", finding.code, finding.subject())));
        page.indented(&finding.text, "");
        if let Some(instead) = &finding.instead {
            page.indented(instead, "");
        }
        if check.processes > 1 {
            let (count, all, nodes) = (finding.processes, check.processes, &finding.nodes);
            page.indented(&format!("in {count} of {all} processes: {nodes}"), "");
        }
        page.indented(&format!("Source: {}", finding.source), "");
    }
    for UntestedProcesses { reason, processes, nodes } in &check.untested {
        page.empty_line();
        let title = Words::verdict(Severity::Suspect, "NOT TESTED");
        let place =
            if check.processes > 1 { format!(" ({processes} on {nodes})") } else { String::new() };
        page.paragraph(title.and(format!("{place}: {reason}")), "  ");
    }
    page
}

/// Returns the metrics of a check of settings.
pub fn families(check: &JobCheck) -> Vec<Family> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for finding in &check.findings {
        *counts.entry((&finding.code, finding.severity.name())).or_default() += 1;
    }
    let samples = counts.into_iter().map(|((code, severity), count)| Sample {
        labels: vec![("rule", code.to_owned()), ("verdict", severity.to_owned())],
        value: count as f64,
    });
    vec![
        Family::single(
            SERIES,
            "Exit status of the check of settings: 0 passed, 3 a setting is bad, 4 not tested.",
            check.exit_status.into(),
        ),
        Family::single("cxidiag_job_processes", "Processes.", check.processes as f64),
        Family::single("cxidiag_job_settings", "Different settings.", check.settings as f64),
        Family::gauge("cxidiag_job_findings", "Findings about settings by rule.", samples),
    ]
}
