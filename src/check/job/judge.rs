//! Evidence about processes -> findings: what the rules say, and what libfabric.conf has. A process
//! asks libfabric for all of its node.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::document::{JobAnswers, ProcessSettings};
use super::evidence::{JobEvidence, LibfabricAnswer};
use super::finding::{FindingSeverity, LIBFABRIC, OWN, SettingFinding};
use super::table::RULES;

/// The name of the node of each process, and what is known of it or why nothing is.
pub type JobEvidences = Vec<(String, Result<JobEvidence, String>)>;

/// Judges the processes of a job.
pub fn judged(mut processes: JobEvidences) -> JobAnswers {
    share(&mut processes);
    // Most ranks of a node are alike.
    let mut known: BTreeMap<String, Rc<ProcessSettings>> = BTreeMap::new();
    let mut judge = |evidence: JobEvidence| {
        let known = known.entry(format!("{evidence:?}"));
        Rc::clone(known.or_insert_with(|| Rc::new(ProcessSettings::new(&evidence))))
    };
    processes.into_iter().map(|(node, evidence)| (node, evidence.map(&mut judge))).collect()
}

/// Gives the processes that have not asked libfabric what another one of their node was told by the
/// same file. The sizes of the queues are shared where both ask for the same.
fn share(processes: &mut JobEvidences) {
    let key = |node: &str, evidence: &JobEvidence| {
        let path = evidence.settings.get("FI_PROVIDER_PATH").cloned();
        (node.to_owned(), evidence.file.clone(), path)
    };
    let all = processes.iter().filter_map(|(node, evidence)| Some((node, evidence.as_ref().ok()?)));
    let askers = all.filter(|(_, evidence)| !evidence.is_asked_elsewhere);
    let askers: BTreeMap<_, JobEvidence> =
        askers.map(|(node, evidence)| (key(node, evidence), evidence.clone())).collect();
    for (node, evidence) in processes {
        let Ok(evidence) = evidence else { continue };
        if !std::mem::take(&mut evidence.is_asked_elsewhere) {
            continue;
        }
        let Some(asker) = askers.get(&key(node, evidence)) else {
            let message = format!("{}: not asked by the first process of the node", evidence.file);
            evidence.untested.push(message);
            continue;
        };
        let is_alike = |name: &&str| evidence.settings.get(*name) == asker.settings.get(*name);
        let shared = |size: Option<u64>, name: &str| size.filter(|_| is_alike(&name));
        evidence.library = asker.library.clone().map(|library| LibfabricAnswer {
            tx_size: shared(library.tx_size, "FI_CXI_DEFAULT_TX_SIZE"),
            rx_size: shared(library.rx_size, "FI_CXI_DEFAULT_RX_SIZE"),
            ..library
        });
        (evidence.conf, evidence.untested) = (asker.conf.clone(), asker.untested.clone());
    }
}

impl ProcessSettings {
    /// Returns what is found by this evidence.
    pub fn new(evidence: &JobEvidence) -> Self {
        let mut judged = evidence.with_library(evidence.library.as_ref());
        let libraries = || evidence.library.iter().chain(&evidence.other_libraries);
        let others = evidence.other_libraries.iter();
        let others: Vec<String> =
            others.map(|library| format!("{} ({})", library.path, library.version)).collect();
        let mut found =
            Self { findings: Vec::new(), settings: judged.settings.clone(), ..Self::default() };
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
