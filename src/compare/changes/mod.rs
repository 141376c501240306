//! What changed between two surveys, or between checks: what got worse first; also as text. The doc
//! comments of the types are the descriptions in their schema, docs/changes.schema.json.
//!
//! * `change`: one change.
//! * `surveys`: states of NICs, medians of classes and of NICs; `load`: figures under load;
//!   `checks`: items.

mod change;
mod checks;
mod load;
mod surveys;

use serde::Serialize;

use change::{Change, ChangeVerdict};
use check::document::Check;
use facts::error::Failure;
use facts::number::listed;
use facts::severity::Severity;
use facts::time_of_day::rfc3339;
use page::page::{Page, Words};
use survey::result::Survey;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Parts that the message about worse results names.
const NAMED_PARTS: usize = 5;

/// The changes between surveys or checks, as `cxidiag compare --json` writes them. A value that
/// does not apply is null.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Changes {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// What was compared.
    kind: ComparedKind,
    /// --max-regress: smaller changes of figures are no changes, in percent of the base.
    limit_percent: f64,
    /// The documents of the base.
    base: Vec<ComparedDocument>,
    /// The new documents.
    new: Vec<ComparedDocument>,
    /// The changes, what got worse first.
    changes: Vec<Change>,
    /// What could not be compared, in sentences.
    remarks: Vec<String>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ComparedKind {
    /// Two surveys.
    Survey,
    /// Checks of one host or of many.
    Check,
}

/// A document that was compared.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct ComparedDocument {
    /// The file that it was read from; - for standard input.
    file: String,
    /// Start of the survey or check, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// The first line of its text.
    summary: String,
}

impl Changes {
    /// Compares two surveys, which were read from files with these names.
    pub fn from_surveys(base: (&str, &Survey), new: (&str, &Survey), limit_percent: f64) -> Self {
        let document = |(file, survey): (&str, &Survey)| ComparedDocument {
            file: file.into(),
            started_unix_ms: survey.started_unix_ms,
            summary: survey.summary.clone(),
        };
        let (mut changes, mut remarks) = surveys::changes(base.1, new.1, limit_percent);
        let (under_load, further) = load::changes(base.1, new.1, limit_percent);
        changes.extend(under_load);
        remarks.extend(further);
        let documents = [base, new].map(|entry| vec![document(entry)]);
        Self::new(ComparedKind::Survey, documents, (changes, remarks), limit_percent)
    }

    /// Compares the latest check of each host of both sides. Each has the name of its file.
    pub fn from_checks(
        base: &[(String, Check)],
        new: &[(String, Check)],
        limit_percent: f64,
    ) -> Self {
        let document = |(file, check): &(String, Check)| ComparedDocument {
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
        changes.sort_by_key(|change| change.verdict);
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

    /// Whether nothing got worse.
    ///
    /// # Errors
    ///
    /// Something got worse, or it is unclear whether something did.
    pub fn result(&self) -> Result<(), Failure> {
        let parts = |verdict: ChangeVerdict| {
            let parts = self.changes.iter().filter(move |change| change.verdict == verdict);
            let mut parts: Vec<&str> = parts.map(|change| change.part.as_str()).collect();
            parts.dedup();
            parts
        };
        let (worse, unclear) = (parts(ChangeVerdict::Worse), parts(ChangeVerdict::Unclear));
        match (worse.as_slice(), unclear.as_slice()) {
            ([], []) => Ok(()),
            ([], unclear) => {
                Err(Failure::undecided(format!("unclear: {}", listed(unclear, NAMED_PARTS))))
            }
            (worse, _) => {
                Err(Failure::unmet(format!("worse than the base: {}", listed(worse, NAMED_PARTS))))
            }
        }
    }
}

/// Rows of the table.
const MOST_ROWS: usize = 100;

/// Documents of a side that are described.
const MOST_DOCUMENTS: usize = 3;

pub fn page(changes: &Changes) -> Page {
    let mut page = Page::default();
    for (label, side) in [("Base", &changes.base), ("New", &changes.new)] {
        let documents: Vec<String> = side.iter().map(described).collect();
        page.facts(label, &documents, MOST_DOCUMENTS);
    }
    let noise = match changes.kind {
        ComparedKind::Survey => ", and by their noise",
        ComparedKind::Check => "",
    };
    let limit = format!("figures may change by {}%{noise}", changes.limit_percent);
    page.fact("Limit", limit);
    page.empty_line();
    if changes.changes.is_empty() {
        page.line("No change.");
    } else {
        let columns = ["Part", "What", ">Base", ">New", ">Change", "Verdict"];
        page.table(&columns, changes.changes.iter().take(MOST_ROWS).map(row));
        if changes.changes.len() > MOST_ROWS {
            page.empty_line();
            page.and_more(changes.changes.len(), MOST_ROWS);
        }
    }
    page.lines(changes.remarks.iter().map(|remark| format!("\n{remark}")));
    page
}

fn described(document: &ComparedDocument) -> String {
    let ComparedDocument { file, summary, .. } = document;
    format!("{file} ({}): {summary}", rfc3339(document.started_unix_ms))
}

fn row(item: &Change) -> Vec<Words> {
    let or_dash = |text: &Option<String>| text.as_deref().unwrap_or("-").into();
    let severity = match item.verdict {
        ChangeVerdict::Worse => Severity::Bad,
        ChangeVerdict::Unclear => Severity::Suspect,
        ChangeVerdict::Better | ChangeVerdict::Changed | ChangeVerdict::Ok => Severity::Good,
    };
    let change = match (item.increase, item.change_percent) {
        (Some(increase), _) => format!("{increase:+}"),
        (None, Some(percent)) => format!("{percent:+.1}%"),
        (None, None) => "-".into(),
    };
    vec![
        item.part.as_str().into(),
        item.what.as_str().into(),
        or_dash(&item.base),
        or_dash(&item.new),
        change.into(),
        Words::verdict(severity, item.verdict.text()),
    ]
}
