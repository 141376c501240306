//! The diagnosis of one NIC, as data, as JSON and as text. The doc comments of the types are the
//! descriptions in their schema, docs/why.schema.json.

#[cfg(test)]
#[path = "nic_diagnosis_tests.rs"]
mod tests;

use std::time::{Duration, SystemTime};

use DiagnosisConclusion::{Bad, Good, Undecided};
use serde::Serialize;

use super::result::ticket;
use super::result::why_text::{add_lines, shown, shown_unit, stated};
use campaign::quiet::roster::{NicId, Roster};
use facts::device::DeviceName;
use facts::error::{Failure, UNDECIDED};
use facts::severity::Severity;
use facts::time_of_day::{milliseconds, unix_ms};
use page::page::{Page, Words};
use why::causes::cause::{Confidence, Why};
use why::causes::comparison::{Compared, Comparison, TestFigures, compare, own_figure};
use why::causes::procedure::{Column, TESTS, TestRoute, TestStep};
use why::causes::table::cause;
use why::culprits::Explanation;
use why::suspect::SuspectFindings;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Most words of the first line.
const MOST_WORDS: usize = 25;

/// Measurements of a NIC that was slower in each of them, from which on busy CPUs are no excuse.
const OFTEN: usize = 3;

/// What the diagnosis of a NIC amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisConclusion {
    /// It is as good NICs in all tests and files.
    Good,
    /// It fails, it is slower, or a cause was found.
    Bad,
    /// Nothing bad was found, and not everything could be compared.
    Undecided,
}

/// A test of the NIC, or how much longer one test takes than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TestResult {
    /// Its code: L1, or L2-L1 for a difference.
    pub test: String,
    /// It in words.
    pub name: String,
    /// Unit of the figures: ns or B/s.
    pub unit: &'static str,
    /// The figure of the NIC; null if it failed, or was not measured.
    pub own: Option<f64>,
    /// The figure of good NICs; null without any.
    pub others: Option<f64>,
    /// How they compare; null without a figure of good NICs.
    pub outcome: Option<Compared>,
    /// Why an operation of the NIC failed; null if none did.
    pub failure: Option<String>,
    /// Whether the NIC is bad if it is slower here, and undecided without a figure. Other
    /// processes make single operations late, and a test in another way has a limit of its own.
    #[serde(skip)]
    is_decisive: bool,
    /// Whether it allows for processes that waited for CPUs.
    #[serde(skip)]
    is_beside_busy: bool,
    /// Whether it counts beside busy CPUs: it allows for waiting, or was measured often.
    #[serde(skip)]
    is_proven: bool,
    /// Whether it is a test, and no difference of two tests.
    #[serde(skip)]
    is_direct: bool,
}

/// The diagnosis of one NIC, as `cxidiag why --json` writes it. A value that is unknown is null.
/// NICs and nodes are named by their index in the roster.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NicDiagnosis {
    /// Version of this layout.
    schema_version: u32,
    /// Name of the command: why.
    command: &'static str,
    /// Version of cxidiag.
    pub cxidiag_version: &'static str,
    /// What it amounts to.
    pub conclusion: DiagnosisConclusion,
    /// Exit status of the program: 0 good, 3 bad, 4 undecided.
    pub(super) exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// Start of the diagnosis, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// Its duration, in milliseconds.
    elapsed_ms: u64,
    /// Whether a NIC is a software NIC, so that no Cassini hardware was involved there.
    pub is_software: bool,
    /// Arguments of the command, as typed.
    pub arguments: Vec<String>,
    /// The nodes and NICs.
    pub roster: Roster,
    /// The NIC.
    pub suspect: NicId,
    /// Good NICs whose files were read; it was measured beside the first two.
    pub controls: Vec<NicId>,
    /// The tests and differences of tests.
    pub tests: Vec<TestResult>,
    /// Why the NIC is slow, as in the document of a survey: one entry.
    pub why: Vec<Explanation>,
}

impl NicDiagnosis {
    /// The diagnosis of a NIC that began at `started` and took `elapsed`.
    pub fn new(
        arguments: Vec<String>,
        started: SystemTime,
        elapsed: Duration,
        found: SuspectFindings,
    ) -> Self {
        let tests = results(&found);
        let (conclusion, summary) = concluded(&found, &tests);
        let is_software =
            |device: &String| DeviceName::names(device, |platform| platform.is_simulated);
        let mut explanation = found.explanation;
        let is_slow = tests.iter().any(TestResult::is_bad);
        explanation.causes.retain(|why| is_slow || why.confidence < Confidence::Transient);
        Self {
            schema_version: SCHEMA_VERSION,
            command: "why",
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            exit_status: match conclusion {
                DiagnosisConclusion::Good => 0,
                DiagnosisConclusion::Bad => 3,
                DiagnosisConclusion::Undecided => UNDECIDED,
            },
            conclusion,
            summary,
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            is_software: found.roster.nics.iter().any(|nic| is_software(&nic.device)),
            arguments,
            roster: found.roster,
            suspect: found.suspect,
            controls: found.controls,
            tests,
            why: vec![explanation],
        }
    }

    /// Whether the NIC is good.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

impl TestResult {
    /// Whether the NIC fails, or is slow because of itself.
    fn is_bad(&self) -> bool {
        let is_slower = self.outcome == Some(Compared::Slower);
        self.is_decisive && (is_slower || self.failure.is_some())
    }
}

/// The result of each column whose test was planned, and of others with a figure.
fn results(found: &SuspectFindings) -> Vec<TestResult> {
    let comparisons = compare(&found.measured);
    let result = |column: Column| {
        let (test, base) = column.tests();
        // Copies of memory and tests in another way are measured if they may say something.
        let always = TESTS.iter().find(|candidate| {
            candidate.code == test
                && candidate.repeats.is_none()
                && candidate.step != TestStep::OfLinks
        });
        let is_planned = always
            .is_some_and(|test| test.route == TestRoute::Loopback || found.controls.len() > 1);
        let is_of_single = matches!(column, Column::Tail | Column::Waiting);
        let is_direct = base.is_none() && !is_of_single;
        let figures = found.measured.get(&test);
        let failure = figures.and_then(|figures| figures.failure.clone()).filter(|_| !is_of_single);
        let comparison = comparisons.iter().find(|comparison| comparison.column == column);
        let own = own_figure(column, &found.measured);
        let own = comparison.map(|comparison| comparison.own).or(own);
        let outcome = comparison.map(|comparison| {
            let healthy = found.healthy.iter().find(|figure| figure.test == test);
            match (comparison.outcome, healthy) {
                (Compared::Slower, _) => Compared::Slower,
                (_, Some(healthy)) if comparison.own < healthy.least => Compared::Unclear,
                (_, Some(_)) => Compared::Same,
                (outcome, None) => outcome,
            }
        });
        let is_bandwidth = match figures {
            Some(figures) => figures.is_bandwidth,
            None => always.is_some_and(|test| test.tool.ends_with("-bw")),
        };
        let is_beside_busy = comparison.is_some_and(|comparison| comparison.is_beside_busy);
        let is_shown = own.is_some() || is_planned && !is_of_single;
        is_shown.then(|| TestResult {
            test: column.code(),
            name: comparison.map_or_else(|| column.name().to_owned(), Comparison::name),
            unit: if is_bandwidth { "B/s" } else { "ns" },
            own,
            others: comparison.map(|comparison| comparison.others),
            outcome,
            failure,
            is_decisive: !is_of_single && always.is_some(),
            is_direct,
            is_beside_busy,
            is_proven: is_beside_busy || figures.is_some_and(|figures| figures.own.len() >= OFTEN),
        })
    };
    Column::ALL.into_iter().filter_map(result).collect()
}

/// The conclusion, and the first line.
fn concluded(found: &SuspectFindings, tests: &[TestResult]) -> (DiagnosisConclusion, String) {
    let (conclusion, what) = if let Some(why) = probable_cause(found) {
        // The NIC is innocent of what makes figures say nothing about it.
        let is_innocent = why.cause.as_deref().and_then(cause).is_some_and(|cause| cause.voids);
        (if is_innocent { Undecided } else { Bad }, format!(": {}", stated(why)))
    } else if tests.iter().any(TestResult::is_bad) {
        concluded_from_bad_tests(found, tests)
    } else {
        concluded_without_bad_tests(found, tests)
    };
    let word = match conclusion {
        Good => "good",
        Bad => "bad",
        Undecided => "undecided",
    };
    let name = &found.roster.nic(found.suspect).device;
    (conclusion, shortened(format!("{word}: {name}{what}")))
}

/// The first cause that is at least probable.
fn probable_cause(found: &SuspectFindings) -> Option<&Why> {
    found.explanation.causes.iter().find(|why| why.confidence <= Confidence::Probably)
}

fn causes(found: &SuspectFindings, confidence: Confidence) -> impl Iterator<Item = &Why> {
    found.explanation.causes.iter().filter(move |why| why.confidence == confidence)
}

/// The conclusion about a NIC with slow or failed tests, and the first line after its name.
fn concluded_from_bad_tests(
    found: &SuspectFindings,
    tests: &[TestResult],
) -> (DiagnosisConclusion, String) {
    let beside = beside(found);
    let bad = || tests.iter().filter(|test| test.is_bad());
    if found.is_disturbed && !bad().any(|test| test.is_proven) {
        let what = format!(" seems slower than {beside}; CPUs are busy: measure again. Slow: ");
        return (Undecided, listed(what, &names(tests, TestResult::is_bad)));
    }
    if let Some(failed) = bad().find_map(|test| test.failure.as_ref()) {
        return (Bad, format!(" fails: {failed}"));
    }
    let possible: Vec<&Why> = causes(found, Confidence::Possibly).collect();
    let seen = found.explanation.causes.first().and_then(|why| why.what.as_deref());
    let cause = match (possible.is_empty(), seen) {
        (false, _) => format!(", possibly {}", subjects(&possible)),
        (true, Some(seen)) => format!(": {seen}"),
        (true, None) => ", for an unknown cause".to_owned(),
    };
    (Bad, format!(" is slower than {beside}{cause}"))
}

/// The conclusion about a NIC with no slow and no failed test, and the first line after its name.
fn concluded_without_bad_tests(
    found: &SuspectFindings,
    tests: &[TestResult],
) -> (DiagnosisConclusion, String) {
    let beside = beside(found);
    let is_missing = |result: &TestResult| {
        let is_compared = found.controls.is_empty() || result.others.is_some();
        result.is_decisive && (result.own.is_none() || !is_compared)
    };
    let missing = names(tests, is_missing);
    let is_unclear =
        |result: &TestResult| result.is_direct && result.outcome == Some(Compared::Unclear);
    let unclear = names(tests, is_unclear);
    // A slow NIC would have been seen only in tests with a clear outcome.
    let but = match (missing.is_empty(), unclear.is_empty()) {
        (true, true) => " is not slow;",
        (true, false) => ": not known whether it is slow;",
        (false, _) => ":",
    };
    if let Some(also) = causes(found, Confidence::AlsoFound).next() {
        return (Bad, format!("{but} {}", stated(also)));
    }
    if let Some(possible) = causes(found, Confidence::Possibly).next() {
        return (Undecided, format!("{but} {}", stated(possible)));
    }
    if found.controls.is_empty() && found.healthy.is_empty() {
        let generation = found.generation.as_deref().unwrap_or("NICs of unknown kind");
        let what = format!(
            " cannot be compared: no figures of a healthy {generation} are known; use --peer"
        );
        return (Undecided, what);
    }
    if !missing.is_empty() {
        let why = if found.measured.values().any(TestFigures::has_waited) {
            ": not measured, CPUs busy: "
        } else {
            ": not measured: "
        };
        return (Undecided, listed(why.into(), &missing));
    }
    if !unclear.is_empty() {
        let what = format!(" is about as fast as {beside}; unclear: ");
        return (Undecided, listed(what, &unclear));
    }
    let is_busy = tests.iter().any(|test| test.is_decisive && test.is_beside_busy);
    let by = if is_busy { " (CPUs busy: minima)" } else { "" };
    (Good, format!(" is as fast as {beside}{by}"))
}

/// A sentence that ends with these names: as many as the first line has room for.
fn listed(sentence: String, names: &[&str]) -> String {
    let words = |text: &str| text.split_whitespace().count();
    // "undecided:", the NIC, and "and 9 more tests".
    let room = MOST_WORDS.saturating_sub(words(&sentence) + 6);
    let mut used = 0;
    let fitting = names.iter().take_while(|name| {
        used += words(name);
        used <= room
    });
    let shown: Vec<&str> = fitting.copied().collect();
    let more = names.len() - shown.len();
    let counted = words_of_more(more, shown.is_empty());
    format!("{sentence}{}{counted}", shown.join(", "))
}

/// Returns how many names are left out; nothing without any.
fn words_of_more(more: usize, is_all: bool) -> String {
    match (more, is_all) {
        (0, _) => String::new(),
        (1, true) => "1 test".into(),
        (_, true) => format!("{more} tests"),
        (_, false) => format!(" and {more} more"),
    }
}

/// Returns what possible causes are about.
fn subjects(possible: &[&Why]) -> String {
    let ids = possible.iter().filter_map(|why| why.cause.as_deref());
    let subjects: Vec<&str> = ids.filter_map(cause).map(|cause| cause.subject).collect();
    match subjects.as_slice() {
        [] => "an unknown cause".into(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A line of at most `MOST_WORDS` words.
fn shortened(line: String) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() <= MOST_WORDS {
        return line;
    }
    format!("{} ...", words[..MOST_WORDS - 1].join(" "))
}

/// Returns what the NIC was compared with.
fn beside(found: &SuspectFindings) -> String {
    let roster = &found.roster;
    match found.controls.as_slice() {
        [] => {
            let generation = found.generation.as_deref().unwrap_or_default();
            format!("a healthy {generation} in bandwidth")
        }
        [one] => format!("{} of {}", roster.nic(*one).device, roster.node_of(*one).host),
        several => format!("{} good NICs", several.len()),
    }
}

fn names(tests: &[TestResult], is_meant: impl Fn(&TestResult) -> bool) -> Vec<&str> {
    let meant = tests.iter().filter(|test| is_meant(test));
    meant.map(|result| result.name.as_str()).collect()
}

/// The page: the first line, the tests, and why the NIC is slow.
pub fn page(diagnosis: &NicDiagnosis) -> Page {
    let mut page = Page::headline(&diagnosis.summary, diagnosis.exit_status);
    if diagnosis.is_software {
        page.line("software NIC: no Cassini hardware involved");
    }
    if !diagnosis.tests.is_empty() {
        page.empty_line();
        tests(&mut page, diagnosis);
    }
    for test in &diagnosis.tests {
        if let Some(failure) = &test.failure {
            page.paragraph(format!("{} failed: {failure}", test.test), "    ");
        }
    }
    for why in &diagnosis.why {
        if !why.causes.is_empty() {
            page.line("\nWhy");
            add_lines(&mut page, &diagnosis.roster, why);
        } else if let Some(note) = &why.left_out {
            page.empty_line();
            page.paragraph(format!("note: {note}"), "    ");
        }
    }
    page
}

/// Adds the table of the tests.
fn tests(page: &mut Page, diagnosis: &NicDiagnosis) {
    let device = &diagnosis.roster.nic(diagnosis.suspect).device;
    let others = if diagnosis.controls.is_empty() { ">healthy" } else { ">good NICs" };
    let columns = ["", "", &format!(">{device}"), others, "", ""];
    let is_compared = !diagnosis.controls.is_empty();
    page.table(&columns, diagnosis.tests.iter().map(|test| row(test, is_compared)));
}

/// The row of a test; `is_compared` if there are good NICs.
fn row(result: &TestResult, is_compared: bool) -> Vec<Words> {
    let is_bandwidth = result.unit == "B/s";
    let figure = |value: Option<f64>| value.map(|value| shown(value, is_bandwidth));
    let outcome = match (&result.failure, result.outcome) {
        (Some(_), _) => Words::verdict(Severity::Bad, "FAILED"),
        (None, Some(Compared::Slower)) => Words::verdict(Severity::Bad, "SLOWER"),
        (None, Some(Compared::Unclear)) => Words::verdict(Severity::Suspect, "unclear"),
        (None, Some(Compared::Same)) => "same".into(),
        (None, None) if result.own.is_none() => "not measured".into(),
        (None, None) if is_compared => "not compared".into(),
        (None, None) => Words::default(),
    };
    vec![
        result.test.as_str().into(),
        result.name.as_str().into(),
        figure(result.own).map_or_else(|| "-".into(), Words::from),
        figure(result.others).map_or_else(|| "-".into(), Words::from),
        shown_unit(is_bandwidth).into(),
        outcome,
    ]
}

/// The page for a ticket: the first line, how it was found, and the text.
pub fn ticket(diagnosis: &NicDiagnosis) -> Page {
    let mut text = Page::default();
    text.heading(1, &diagnosis.summary);
    let NicDiagnosis { arguments, cxidiag_version, started_unix_ms, .. } = diagnosis;
    ticket::origin(&mut text, "why", arguments, cxidiag_version, *started_unix_ms);
    text.empty_line();
    text.preformatted(&page(diagnosis));
    text
}
