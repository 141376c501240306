//! What changed between two surveys, or between checks: what got worse first. The doc comments of
//! the types are the descriptions in their schema, docs/changes.schema.json.
//!
//! * `surveys`: states of NICs, medians of classes and of NICs; `checks`: items.
//! * `text`: the changes as text.

mod checks;
mod surveys;
pub mod text;

use serde::Serialize;

use super::check_record::CheckRecord;
use super::survey::Survey;
use facts::error::Failure;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Parts that the message about worse results names.
const NAMED_PARTS: usize = 5;

/// The changes between surveys or checks, as `cxidiag compare --json` writes them. A value that does
/// not apply is null.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changes {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// What was compared.
    pub(super) kind: ComparedKind,
    /// --max-regress: smaller changes of figures are no changes, in percent of the base.
    pub(super) limit_percent: f64,
    /// The documents of the base.
    pub(super) base: Vec<ComparedDocument>,
    /// The new documents.
    pub(super) new: Vec<ComparedDocument>,
    /// The changes, what got worse first.
    pub(super) changes: Vec<Change>,
    /// What could not be compared, in sentences.
    pub(super) remarks: Vec<String>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum ComparedKind {
    /// Two surveys.
    Survey,
    /// Checks of one host or of many.
    Check,
}

/// A document that was compared.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ComparedDocument {
    /// The file that it was read from; - for standard input.
    pub(super) file: String,
    /// Start of the survey or check, in milliseconds since 1970-01-01 (UTC).
    pub(super) started_unix_ms: u64,
    /// The first line of its text.
    pub(super) summary: String,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Change {
    /// The NIC, the host, or the test and class of a survey.
    pub(super) part: String,
    /// What changed: state, median, or an item of a check.
    pub(super) what: String,
    /// In the base, as texts show it; null without.
    pub(super) base: Option<String>,
    /// In the new document.
    pub(super) new: Option<String>,
    /// Change in percent of the base; null without figures.
    pub(super) change_percent: Option<f64>,
    /// Growth of a counter that only grows; null for other values.
    pub(super) increase: Option<f64>,
    /// What the change means.
    pub(super) verdict: ChangeVerdict,
}

/// What a change means, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeVerdict {
    /// Worse than in the base.
    Worse,
    /// Better than in the base.
    Better,
    /// Different, but neither worse nor better.
    Changed,
    /// No change beyond the limit and the noise.
    Ok,
}

impl ChangeVerdict {
    /// Returns the verdict in words.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Changed => "changed",
            Self::Ok => "ok",
        }
    }
}

impl Change {
    /// Returns a change without figures.
    fn of_words(part: &str, what: &str, words: [Option<&str>; 2], verdict: ChangeVerdict) -> Self {
        let [base, new] = words.map(|of| of.map(str::to_owned));
        Self {
            part: part.into(),
            what: what.into(),
            base,
            new,
            change_percent: None,
            increase: None,
            verdict,
        }
    }
}

impl Changes {
    /// Compares two surveys, which were read from files with these names.
    pub fn of_surveys(base: (&str, &Survey), new: (&str, &Survey), limit_percent: f64) -> Self {
        let document = |(file, survey): (&str, &Survey)| ComparedDocument {
            file: file.into(),
            started_unix_ms: survey.started_unix_ms,
            summary: survey.summary.clone(),
        };
        let (changes, remarks) = surveys::changes(base.1, new.1, limit_percent);
        let documents = [base, new].map(|of| vec![document(of)]);
        Self::new(
            ComparedKind::Survey,
            documents,
            (changes, remarks),
            limit_percent,
        )
    }

    /// Compares the latest check of each host of both sides. Each has the name of its file.
    pub fn of_checks(
        base: &[(String, CheckRecord)],
        new: &[(String, CheckRecord)],
        limit_percent: f64,
    ) -> Self {
        let document = |(file, check): &(String, CheckRecord)| ComparedDocument {
            file: file.clone(),
            started_unix_ms: check.started_unix_ms,
            summary: check.summary.clone(),
        };
        let documents = [base, new].map(|side| side.iter().map(document).collect());
        let found = checks::changes(base, new, limit_percent);
        Self::new(ComparedKind::Check, documents, found, limit_percent)
    }

    fn new(
        kind: ComparedKind,
        [base, new]: [Vec<ComparedDocument>; 2],
        (mut changes, remarks): (Vec<Change>, Vec<String>),
        limit_percent: f64,
    ) -> Self {
        changes.sort_by_key(|of| of.verdict);
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            kind,
            limit_percent,
            base,
            new,
            changes,
            remarks,
        }
    }

    /// Returns whether nothing got worse.
    ///
    /// # Errors
    ///
    /// Something got worse.
    pub fn result(&self) -> Result<(), Failure> {
        let worse = self
            .changes
            .iter()
            .filter(|of| of.verdict == ChangeVerdict::Worse);
        let mut parts: Vec<&str> = worse.map(|of| of.part.as_str()).collect();
        parts.dedup();
        let named = parts.len().min(NAMED_PARTS);
        let more = match parts.len() - named {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match parts.as_slice() {
            [] => Ok(()),
            parts => Err(Failure::unmet(format!(
                "worse than the base: {}{more}",
                parts[..named].join(", ")
            ))),
        }
    }
}

/// Returns the change from `base` to `new` in percent. `None` if the base is 0.
fn percent(base: f64, new: f64) -> Option<f64> {
    (base != 0.0).then(|| (new - base) / base * 100.0)
}
