//! Evidence about a process -> findings: what the rules say, and what follows from the names and
//! types that libfabric reports.

use super::document::{FindingSeverity, SettingFinding};
use super::evidence::{Evidence, LibfabricAnswer, ParameterType, SECRET};
use super::rules::{RULES, dotted};
use super::values::{boolean, is_like, meant, nearest_name, strtol};

const BAD: FindingSeverity = FindingSeverity::Bad;
const NOTE: FindingSeverity = FindingSeverity::Note;

/// Sources of rules about all names and types.
const NAMES: &str = "fi_getparams of this library";
const READER: &str = "libfabric src/var.c:256-403";

/// Returns what is found, bad findings first.
pub fn findings(evidence: &Evidence) -> Vec<SettingFinding> {
    let mut found = RULES.findings(evidence, true);
    if let Some(library) = &evidence.library {
        if !library.has_cxi() {
            let text = format!(
                "the libfabric at {} has no cxi provider; the job cannot use the Slingshot NIC \
                 through it.",
                library.path
            );
            found.push(finding("L7", BAD, "missing", ("libfabric", None), text, NAMES));
        }
        for (name, value) in &evidence.settings {
            if !found.iter().any(|finding| finding.setting == *name) {
                let known = evidence.knows(name);
                found.extend(if known {
                    unreadable(evidence, name, value)
                } else {
                    unknown(library, evidence, name, value)
                });
            }
        }
    }
    let is_judged = |name: &str| found.iter().any(|finding| finding.setting == name);
    let mut by_rules = RULES.findings(evidence, false);
    by_rules.retain(|finding| !is_judged(&finding.setting));
    found.extend(by_rules);
    for (name, value) in &evidence.settings {
        if !found.iter().any(|finding| finding.setting == *name) {
            found.extend(below_default(evidence, name, value));
        }
    }
    found.extend(configured(evidence));
    if let (Some(library), [_, ..]) = (&evidence.library, evidence.other_libraries.as_slice()) {
        let others = evidence.other_libraries.join(", ");
        let (path, version) = (&library.path, &library.version);
        let text = format!("this process has several libfabrics: {path} ({version}), {others}.");
        found.push(finding(
            "L49",
            NOTE,
            "contradiction",
            ("libfabric", None),
            text,
            "/proc/PID/maps",
        ));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

fn finding(
    code: &str,
    severity: FindingSeverity,
    kind: &str,
    (setting, value): (&str, Option<&str>),
    text: String,
    source: &str,
) -> SettingFinding {
    SettingFinding {
        code: code.into(),
        severity,
        kind: kind.into(),
        setting: setting.into(),
        value: value.map(str::to_owned),
        text,
        instead: None,
        source: source.into(),
    }
}

/// Judges a name that libfabric does not know.
fn unknown(
    library: &LibfabricAnswer,
    evidence: &Evidence,
    name: &str,
    value: &str,
) -> Option<SettingFinding> {
    let is_cxi = name.starts_with("FI_CXI_");
    if !name.starts_with("FI_") || is_cxi && !library.has_cxi() {
        return None;
    }
    let version = &library.version;
    let bad =
        |code, text: String| finding(code, BAD, "no-effect", (name, Some(value)), text, NAMES);
    let facts = RULES.names.get(name);
    let own = evidence.version();
    if let Some(facts) = facts {
        if facts.has("harmless") {
            let text = "no effect in this libfabric; harmless.".to_owned();
            let note = finding("L4", NOTE, "no-effect", (name, Some(value)), text, NAMES);
            return Some(SettingFinding { instead: Some("Remove it.".into()), ..note });
        }
        if let Some(until) = facts.text("until").filter(|until| dotted(until) < own) {
            let opposite = if boolean(value) == Some(true) { "0" } else { "1" };
            let successor =
                facts.text("use").map(|name| format!("Use {}.", name.replace('!', opposite)));
            let instead = successor.unwrap_or_else(|| "Remove it.".into());
            let gone = bad("L3", format!("known to libfabric up to {until} only."));
            return Some(SettingFinding { instead: Some(instead), ..gone });
        }
        if let Some(since) = facts.text("since").filter(|since| dotted(since) > own) {
            let text = format!("needs libfabric {since} or later; this is {version}.");
            return Some(bad("L5", text));
        }
    }
    for list in RULES.lists("gpu") {
        let [kind, patterns @ ..] = list else { continue };
        let is_built = library.names.keys().any(|known| is_gpu_name(patterns, known));
        if is_gpu_name(patterns, name) && !is_built {
            let kind = kind.replace('-', " ");
            return Some(bad("L6", format!("this libfabric is built without {kind}; no effect.")));
        }
    }
    let text = format!("libfabric {version} does not know this name; it has no effect.");
    let unreported = RULES.lists("unreported").flatten().map(|name| *name);
    let known = library.names.keys().map(String::as_str).chain(unreported);
    let near = nearest_name(name, known.filter(|known| !known.contains('*')));
    let Some(near) = near.filter(|_| facts.is_none()) else {
        return Some(bad("L2", text));
    };
    let default = RULES.names.get(near).and_then(|facts| facts.default_in(own));
    let default = default.map_or(String::new(), |default| format!(" (default {default})"));
    let instead = Some(format!("Did you mean {near}{default}?"));
    Some(SettingFinding { instead, ..bad("L1", text) })
}

fn is_gpu_name(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| is_like(pattern, name))
}

/// Judges a value that libfabric reads in another way than it is meant.
fn unreadable(evidence: &Evidence, name: &str, value: &str) -> Option<SettingFinding> {
    if value == SECRET {
        return None;
    }
    let kind = evidence.parameter(name)?;
    let bad = |code, text: String, instead: Option<String>| {
        let finding = finding(code, BAD, "misread", (name, Some(value)), text, READER);
        Some(SettingFinding { instead, ..finding })
    };
    match kind {
        ParameterType::Text => return None,
        ParameterType::Bool if boolean(value).is_some() => return None,
        ParameterType::Bool => {
            let text = "not one of 0 1 yes no true false on off; ignored.".to_owned();
            return bad("L11", text, Some("Write 0 or 1.".into()));
        }
        ParameterType::Int | ParameterType::Size => {}
    }
    let Some((number, rest)) = strtol(value) else {
        let effective = RULES.effective(evidence, name).filter(|effective| effective != value);
        let used =
            effective.map_or(String::new(), |used| format!(", replaced by the default {used}"));
        return bad("L10", format!("read as 0{used}."), None);
    };
    let write = || meant(value).map(|meant| format!("Write {meant}."));
    if value.trim().len() > 1
        && value.trim().bytes().take(2).all(|byte| byte.is_ascii_digit())
        && value.trim().starts_with('0')
    {
        return bad("L9", format!("read as octal: {number}."), write());
    }
    if rest.is_empty() {
        return None;
    }
    let is_bytes = RULES.names.get(name).is_some_and(|facts| facts.has("bytes"));
    let unit = if is_bytes { " (bytes)" } else { "" };
    let what =
        if rest.bytes().all(|byte| byte.is_ascii_alphabetic()) { "letters are" } else { "rest is" };
    bad("L8", format!("read as {number}{unit}, the {what} ignored."), write())
}

/// Notes a size below the default of this libfabric.
fn below_default(evidence: &Evidence, name: &str, value: &str) -> Option<SettingFinding> {
    let facts = RULES.names.get(name).filter(|facts| facts.has("low"))?;
    let own = evidence.version()?;
    // Cray MPICH sets the defaults of 2.2 with any libfabric.
    let is_cray = evidence.facts.contains_key("cray_mpich") && Some(own) < dotted("2.2");
    let version = if is_cray { dotted("2.2") } else { Some(own) };
    let default = facts.default_in(version)?;
    let number = strtol(value)?.0;
    if number == 0 || number >= default.parse().ok()? {
        return None;
    }
    let old = facts.default_in(dotted("2.1")).filter(|old| *old != default);
    let old = old.map_or(String::new(), |old| format!(" (the default was {old} up to 2.1)"));
    let owner = if is_cray { "Cray MPICH" } else { "this libfabric" };
    let text = format!("lower than the default {default} of {owner}{old}.");
    let source = "libfabric prov/cxi/src/cxip_info.c";
    let note = finding("L31", NOTE, "default", (name, Some(value)), text, source);
    let instead = Some("Remove the setting unless it is meant.".into());
    Some(SettingFinding { instead, ..note })
}

/// Notes names that libfabric.conf and the environment set to different values.
fn configured(evidence: &Evidence) -> Vec<SettingFinding> {
    let prefers = evidence.prefers_file();
    let differing = evidence.conf.iter().filter_map(|(name, value)| {
        let own = evidence.settings.get(name).filter(|own| *own != value)?;
        let (file, own, verb) =
            if prefers { (own, value, "is not used") } else { (value, own, "is used") };
        let text =
            format!("libfabric.conf has {name}={file}; the environment's {name}={own} {verb}.");
        let source = "libfabric src/var.c:45-48";
        Some(finding("L50", NOTE, "contradiction", (name, Some(own)), text, source))
    });
    differing.collect()
}
