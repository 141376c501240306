//! Evidence about a process -> findings: what the rules say, and what libfabric.conf has.

use super::document::ProcessSettings;
use super::evidence::JobEvidence;
use super::finding::{FindingSeverity, LIBFABRIC, OWN, SettingFinding};
use super::table::RULES;

impl ProcessSettings {
    /// Returns what is found by this evidence. `untested` is why libfabric was not asked.
    pub fn new(evidence: &JobEvidence, untested: Option<&str>) -> Self {
        let mut settings = evidence.settings.clone();
        settings.extend(evidence.library.as_ref().map(|library| {
            (LIBFABRIC.into(), format!("libfabric {} at {}", library.version, library.path))
        }));
        let own = evidence.settings.keys().filter(|name| name.starts_with(OWN));
        let unknown = own.filter(|name| evidence.library.is_some() && !evidence.knows(name));
        let mut findings = findings(evidence);
        findings.extend(untested.map(SettingFinding::untested));
        Self { settings, unknown: unknown.cloned().collect(), findings }
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
