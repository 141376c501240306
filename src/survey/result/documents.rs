//! The documents of a survey: opened before it begins, written while it measures and at its end.

use std::time::SystemTime;

use super::lines::{ResultLine, SurveyHeader};
use super::metrics::families;
use super::nics::bad_nodes;
use super::pair_table::PairTable;
use super::{Setup, Survey, ticket};
use campaign::quiet::answer::PairResult;
use campaign::quiet::findings::Test;
use campaign::quiet::roster::Roster;
use facts::error::Failure;
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// The documents of a survey. The table of measurements grows during the survey.
#[derive(Default)]
pub struct SurveyDocuments {
    documents: Documents,
    csv: Option<PairTable>,
    /// Whether a document has standard output, in place of the text.
    pub has_stdout: bool,
}

impl SurveyDocuments {
    /// Checks that all documents can be written.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or two have standard output.
    pub fn open(places: &Places) -> Result<Self, Failure> {
        let mut documents = Documents::open(places)?;
        let has_stdout = documents.has_stdout();
        let csv = documents.csv.take();
        Ok(Self { has_stdout, csv: csv.map(PairTable::begin).transpose()?, documents })
    }

    /// Writes the failure of a survey without results in place of its document.
    pub fn write_failure(&self, failure: &Failure) {
        self.documents.write_failure(failure);
    }

    /// Writes what is known before the first pair.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn begin(
        &self,
        started: SystemTime,
        setup: &Setup,
        roster: &Roster,
    ) -> Result<(), Failure> {
        match &self.documents.jsonl {
            Some(lines) => lines.append(&SurveyHeader::new(started, setup, roster)),
            None => Ok(()),
        }
    }

    /// Writes measurements. Many measurements in one call need fewer writes.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn add(
        &mut self,
        results: &[PairResult],
        roster: &Roster,
        tests: &[Test],
    ) -> Result<(), Failure> {
        if let Some(lines) = &self.documents.jsonl {
            let result_lines = results.iter().map(|result| ResultLine::new(result, roster, tests));
            lines.append_all(result_lines)?;
        }
        match &mut self.csv {
            Some(table) => results.iter().try_for_each(|result| table.add(result, roster, tests)),
            None => Ok(()),
        }
    }

    /// Writes the documents of a survey that has ended. Returns the failures.
    pub fn end(self, survey: &Survey) -> Vec<Failure> {
        let Self { documents, csv, .. } = self;
        let written = [
            Some(documents.write_json(survey)),
            csv.map(PairTable::end),
            Some(documents.write_metrics(|| families(survey))),
            documents.bad_nodes.map(|to| to.write(bad_nodes(survey).as_bytes())),
            documents
                .ticket
                .map(|to| to.write(ticket::page(survey).text(TextStyle::Markdown).as_bytes())),
        ];
        let written = written.into_iter().flatten();
        written.filter_map(Result::err).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::super::lines::Earlier;
    use super::super::testing::{mixed, result, roster, setup, survey, tests};
    use super::*;
    use page::destination::Place;
    use page::openmetrics::MetricsFile;

    fn places(directory: &Path) -> Places {
        let place = |name: &str| Place::File(directory.join(name));
        Places {
            json: Some(place("a.json")),
            jsonl: Some(directory.join("a.jsonl")),
            csv: Some(place("a.csv")),
            metrics: Some(MetricsFile::of(directory.join("a.prom"))),
            bad_nodes: Some(place("bad")),
            ticket: Some(place("ticket")),
            ..Places::default()
        }
    }

    #[test]
    fn writes_all_documents() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let places = places(directory.path());
        let mut documents = SurveyDocuments::open(&places).unwrap();
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        documents.begin(started, &setup(), &roster()).unwrap();
        let two = [result(), result()];
        documents.add(&two, &roster(), &tests()).unwrap();
        assert_eq!(read("a.jsonl").lines().count(), 3);
        let failures = documents.end(&survey(mixed(), Ok(())));
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!(read("a.csv").lines().count(), 3);
        assert_eq!(read("bad"), "nid000417\n");
        assert!(read("a.prom").contains("\ncxidiag_survey_exit_status 3\n"));
        let survey: Survey = serde_json::from_str(&read("a.json")).unwrap();
        assert_eq!((survey.verdict, survey.setup), (mixed(), setup()));
        let mut resumed = Vec::new();
        let earlier = Earlier::open(&directory.path().join("a.jsonl")).unwrap();
        let taken = earlier.results(&roster(), &tests(), |result| resumed.push(result));
        assert_eq!((taken.unwrap().results, resumed), (2, two.to_vec()));
    }
}
