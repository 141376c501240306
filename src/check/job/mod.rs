//! `check --job`: whether the settings of a job take effect (docs/settings.md). Rules and facts
//! about settings are data, in `settings.txt`; evidence about processes becomes findings: what the
//! rules say, and what libfabric.conf has. A process asks libfabric for all of its node.

pub mod document;
mod evidence;
mod library;
mod process;
mod rules;
pub mod table;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use crate::job::document::{JobAnswers, JobCheck, ProcessSettings};
use crate::job::evidence::{JobEvidence, LibfabricAnswer};
use crate::job::table::{FindingSeverity, LIBFABRIC, OWN, RULES, SettingFinding};
use crate::options::{CheckRequest, JobProcess};
use cli::output;
use crew::launcher::LauncherTask;
use facts::error::Failure;
use facts::host::host_name;
use page::documents::{Documents, Places};
use page::json;

pub use crate::job::library::answer_parent;

/// Checks the settings of a process, or of the processes of a launcher.
///
/// # Errors
///
/// A file that cannot be written, a process that cannot be read, a setting that is bad.
pub fn run(
    request: &CheckRequest,
    process: JobProcess,
    task: Option<&LauncherTask>,
) -> Result<(), Failure> {
    match task {
        Some(task) if process == JobProcess::Own => {
            let document = || json::line(&process::read(process, &request.command, Some(task))?);
            let read = |document: &[u8]| json::read::<JobEvidence>(document);
            request.gathering().run(task, &document, &read, |gather| report(request, gather))
        }
        _ => report(request, || {
            Ok(vec![(host_name(), Ok(process::read(process, &request.command, None)?))])
        }),
    }
}

/// Checks the settings of this process.
///
/// # Errors
///
/// Files of this process that cannot be read.
pub fn check_own_settings() -> Result<JobCheck, Failure> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let evidence = process::read(JobProcess::Own, &[], None)?;
    let answers = judged(vec![(host_name(), Ok(evidence))]);
    Ok(JobCheck::new(started, clock.elapsed(), &answers))
}

/// Gathers what was found, prints it, and writes the documents.
fn report(
    request: &CheckRequest,
    gather: impl FnOnce() -> Result<JobEvidences, Failure>,
) -> Result<(), Failure> {
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(document::SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let answers = judged(output::or_failure(&documents, gather())?);
    let check = JobCheck::new(started, clock.elapsed(), &answers);
    documents.write_metrics(|| document::families(&check))?;
    output::write(&documents, &check, request.is_quiet, document::page)?;
    documents.conclude(check.result())
}

/// The name of the node of each process, and what is known of it or why nothing is.
pub type JobEvidences = Vec<(String, Result<JobEvidence, String>)>;

/// Judges the processes of a job.
pub fn judged(processes: JobEvidences) -> JobAnswers {
    let all = processes.iter().filter_map(|(node, evidence)| Some((node, evidence.as_ref().ok()?)));
    let askers = all.filter(|(_, evidence)| !evidence.is_asked_elsewhere);
    let askers: BTreeMap<_, JobEvidence> =
        askers.map(|(node, evidence)| (shared_library(node, evidence), evidence.clone())).collect();
    // Most ranks of a node are alike.
    let mut known: BTreeMap<String, Rc<ProcessSettings>> = BTreeMap::new();
    let mut judge = |node: &str, evidence: JobEvidence| {
        let asker = askers.get(&shared_library(node, &evidence));
        let evidence = if evidence.is_asked_elsewhere { told(evidence, asker) } else { evidence };
        let known = known.entry(format!("{evidence:?}"));
        Rc::clone(known.or_insert_with(|| Rc::new(ProcessSettings::new(&evidence))))
    };
    let processes = processes.into_iter();
    let answers = processes.map(|(node, evidence)| {
        let settings = evidence.map(|evidence| judge(&node, evidence));
        (node, settings)
    });
    answers.collect()
}

/// Returns what processes have in common to which libfabric gives the same answer.
fn shared_library(node: &str, evidence: &JobEvidence) -> (String, String, Option<String>) {
    let providers = evidence.settings.get("FI_PROVIDER_PATH").cloned();
    (node.to_owned(), evidence.file.clone(), providers)
}

/// Adds to what is known of a process what libfabric told `asker`. The sizes of the queues are for
/// both if both ask for the same.
fn told(evidence: JobEvidence, asker: Option<&JobEvidence>) -> JobEvidence {
    let Some(asker) = asker else {
        let why = format!("{}: not asked by the first process of the node", evidence.file);
        return JobEvidence { untested: vec![why], is_asked_elsewhere: false, ..evidence };
    };
    let is_alike = |name: &str| evidence.settings.get(name) == asker.settings.get(name);
    let shared = |size: Option<u64>, name: &str| size.filter(|_| is_alike(name));
    let library = asker.library.clone().map(|library| LibfabricAnswer {
        tx_size: shared(library.tx_size, "FI_CXI_DEFAULT_TX_SIZE"),
        rx_size: shared(library.rx_size, "FI_CXI_DEFAULT_RX_SIZE"),
        ..library
    });
    let (conf, untested) = (asker.conf.clone(), asker.untested.clone());
    JobEvidence { library, conf, untested, is_asked_elsewhere: false, ..evidence }
}

impl ProcessSettings {
    /// Returns what is found by this evidence.
    pub fn new(evidence: &JobEvidence) -> Self {
        let mut judged = evidence.with_library(evidence.library.as_ref());
        let libraries = || evidence.library.iter().chain(&evidence.other_libraries);
        let others = evidence.other_libraries.iter();
        let others: Vec<String> =
            others.map(|library| format!("{} ({})", library.path, library.version)).collect();
        let mut found = Self { settings: judged.settings.clone(), ..Self::default() };
        if !others.is_empty() {
            judged.facts.insert("other_libfabrics".into(), others.join(", "));
        }
        found.findings = findings(&judged);
        for library in &evidence.other_libraries {
            let also = findings(&evidence.with_library(Some(library)));
            let new = also.into_iter().filter(|finding| !found.findings.contains(finding));
            found.findings.extend(new.collect::<Vec<_>>());
        }
        found.findings.extend(evidence.untested.iter().map(|why| SettingFinding::untested(why)));
        let own = judged.settings.keys().filter(|name| name.starts_with(OWN));
        found.unknown =
            own.filter(|name| judged.library.is_some() && !judged.knows(name)).cloned().collect();
        let named =
            libraries().map(|library| format!("libfabric {} at {}", library.version, library.path));
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            found.libfabric =
                named.iter().map(|name| format!("{name} ({})", evidence.origin)).collect();
            found.settings.insert(LIBFABRIC.into(), named.join(" and "));
        }
        found
    }
}

/// Returns what is found, bad findings first.
pub fn findings(evidence: &JobEvidence) -> Vec<SettingFinding> {
    let mut found = RULES.findings(evidence);
    for (name, value) in &evidence.conf {
        let Some(own) = evidence.settings.get(name).filter(|own| *own != value) else { continue };
        let (file, own, verb) = if evidence.prefers_file() {
            (own, value, "is not used")
        } else {
            (value, own, "is used")
        };
        found.push(SettingFinding {
            code: "L50".into(),
            severity: FindingSeverity::Note,
            kind: "contradiction".into(),
            setting: name.clone(),
            value: Some(own.clone()),
            text: format!(
                "libfabric.conf has {name}={file}; the environment's {name}={own} {verb}."
            ),
            source: "libfabric src/var.c:45-48".into(),
            ..SettingFinding::default()
        });
    }
    found.sort_by_key(|finding| finding.severity);
    found
}
