//! The outputs of a survey: its documents, notes, a line of progress, and the text at its end.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use crate::result::documents::SurveyDocuments;
use crate::result::{Setup, Survey, progress, text};
use campaign::quiet::answer::PairResult;
use campaign::quiet::conductor::SurveyProgress;
use campaign::quiet::roster::Roster;
use campaign::slots::quiet::ResultRecorder;
use facts::error::Failure;
use page::documents::Places;
use page::page::style_of_stdout;
use page::progress_line::ProgressLine;

/// Time between two drawings of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Lines that are not part of the result, and a line of progress.
pub struct Notes {
    /// The command, before each line.
    command: &'static str,
    is_quiet: bool,
    pub progress: ProgressLine<io::Stderr>,
}

impl Notes {
    /// The notes of `command`; none if it is quiet.
    pub fn new(command: &'static str, is_quiet: bool) -> Self {
        Self {
            command,
            is_quiet,
            progress: ProgressLine::new(io::stderr(), !is_quiet, PROGRESS_INTERVAL),
        }
    }

    /// Prints a line.
    pub fn add(&mut self, line: &str) {
        self.progress.hide();
        if !self.is_quiet {
            self.write(line);
        }
    }

    /// Prints a warning, also if the command is quiet.
    pub fn warn(&mut self, line: &str) {
        self.progress.hide();
        self.write(&format!("warning: {line}"));
    }

    fn write(&self, line: &str) {
        // The survey goes on if a line cannot be written.
        let _ = writeln!(io::stderr(), "cxidiag {}: {line}", self.command);
    }
}

/// The outputs of a survey while it measures.
pub struct SurveyRecorder<'a> {
    pub outputs: &'a mut SurveyOutputs,
    pub started: SystemTime,
    pub setup: &'a Setup,
}

impl ResultRecorder for SurveyRecorder<'_> {
    fn begin(&mut self, roster: &Roster) -> Result<(), Failure> {
        self.outputs.documents.begin(self.started, self.setup, roster)
    }

    fn add(&mut self, results: &[PairResult], roster: &Roster) -> Result<(), Failure> {
        self.outputs.documents.add(results, roster, &self.setup.tests)
    }

    fn line(
        &self,
        progress: &SurveyProgress,
        left: Option<Duration>,
        roster: &Roster,
        width: usize,
    ) -> String {
        progress::measuring(progress, left, roster, &self.setup.tests, width)
    }
}

/// The outputs of a survey, all of them open.
pub struct SurveyOutputs {
    documents: SurveyDocuments,
    /// Whether the text goes to standard output: no document goes there.
    has_text: bool,
    is_quiet: bool,
}

impl SurveyOutputs {
    /// Opens all documents. A quiet survey prints its first line only.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and two documents for one place.
    pub fn open(places: &Places, is_quiet: bool) -> Result<Self, Failure> {
        let documents = SurveyDocuments::open(places)?;
        Ok(Self { has_text: !documents.has_stdout, documents, is_quiet })
    }

    /// Returns `outcome`; a failure is written to the document of `--json`, too.
    pub fn or_failure<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.inspect_err(|failure| self.documents.write_failure(failure))
    }

    /// Writes text and documents.
    ///
    /// # Errors
    ///
    /// The first output that cannot be written, and what the survey has found.
    pub fn end(self, survey: &Survey) -> Result<(), Failure> {
        let mut failures = self.documents.end(survey).into_iter();
        if self.has_text {
            let page = text::page(survey);
            let page = if self.is_quiet { page.first_line() } else { page };
            page.print(style_of_stdout())?;
        } else if survey.result().is_ok() {
            // A verdict that is not good is the message of the failure.
            let _ = writeln!(io::stderr(), "cxidiag survey: {}", survey.summary);
        }
        match failures.next() {
            Some(failure) => Err(failure),
            None => survey
                .result()
                .map_err(|failure| if self.has_text { failure.printed() } else { failure }),
        }
    }
}
