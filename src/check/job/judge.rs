//! Evidence about a process -> findings: what the rules say, and what libfabric.conf has.

use super::document::{FindingSeverity, SettingFinding};
use super::evidence::Evidence;
use super::rules::RULES;

/// Returns what is found, bad findings first.
pub fn findings(evidence: &Evidence) -> Vec<SettingFinding> {
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
