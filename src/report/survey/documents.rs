//! The documents of a survey: opened before it begins, written while it measures and at its end.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lines::{Header, Line};
use super::metrics::families;
use super::nics::bad_nodes;
use super::pair_table::PairTable;
use super::{Setup, Survey};
use crate::destination::Destination;
use crate::documents::check_distinct;
use crate::json;
use crate::json_lines::JsonLines;
use crate::openmetrics::{self, Dialect};
use cluster::survey::answer::PairResult;
use cluster::survey::findings::Test;
use cluster::survey::roster::Roster;
use facts::error::Failure;
use plan::outputs::Place;

/// Where the documents of a survey go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// `--json`: the survey at its end.
    pub json: Option<Place>,
    /// `--jsonl`: a line for each measurement.
    pub jsonl: Option<PathBuf>,
    /// `--csv`: a row for each measurement.
    pub csv: Option<Place>,
    /// `--openmetrics`: metrics at the end, in this form.
    pub metrics: Option<(Place, Dialect)>,
    /// `--bad-nodes`: a list of hosts.
    pub bad_nodes: Option<Place>,
}

impl Places {
    fn all(&self) -> [Option<&Place>; 4] {
        let metrics = self.metrics.as_ref().map(|(place, _)| place);
        [
            self.json.as_ref(),
            self.csv.as_ref(),
            metrics,
            self.bad_nodes.as_ref(),
        ]
    }

    /// Returns whether a document has standard output, in place of the text.
    pub fn has_stdout(&self) -> bool {
        self.all().contains(&Some(&Place::Stdout))
    }
}

/// The documents of a survey.
#[derive(Default)]
pub struct SurveyDocuments {
    json: Option<Destination>,
    jsonl: Option<JsonLines>,
    csv: Option<PairTable>,
    metrics: Option<(Destination, Dialect)>,
    bad_nodes: Option<Destination>,
}

impl SurveyDocuments {
    /// Checks that all documents can be written.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or two have standard output.
    pub fn open(places: &Places) -> Result<Self, Failure> {
        let on_stdout = |place: &Option<&Place>| *place == Some(&Place::Stdout);
        if places.all().into_iter().filter(on_stdout).count() > 1 {
            return Err(Failure::usage(
                "only one document can go to standard output: name a file for the others, --json=FILE",
            ));
        }
        let [json, csv, metrics, bad_nodes] =
            places.all().map(|place| place.map(Destination::open));
        let dialect = places.metrics.as_ref().map(|(_, dialect)| *dialect);
        let documents = Self {
            json: json.transpose()?,
            jsonl: places.jsonl.as_deref().map(JsonLines::open).transpose()?,
            csv: csv.transpose()?.map(PairTable::begin).transpose()?,
            metrics: metrics.transpose()?.zip(dialect),
            bad_nodes: bad_nodes.transpose()?,
        };
        documents.check_distinct()?;
        Ok(documents)
    }

    fn check_distinct(&self) -> Result<(), Failure> {
        let metrics = self.metrics.as_ref().map(|(destination, _)| destination);
        let csv = self.csv.as_ref().map(PairTable::destination);
        let all = [self.json.as_ref(), csv, metrics, self.bad_nodes.as_ref()];
        let files = all.into_iter().flatten().filter_map(Destination::target);
        let lines = self.jsonl.as_ref().map(JsonLines::target);
        check_distinct(files.chain(lines).collect::<Vec<&Path>>())
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
        match &self.jsonl {
            Some(lines) => lines.append(&Header::new(started, setup, roster)),
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
        if let Some(lines) = &self.jsonl {
            let of_results = results.iter().map(|of| Line::new(of, roster, tests));
            lines.append_all(of_results)?;
        }
        match &mut self.csv {
            Some(table) => results
                .iter()
                .try_for_each(|result| table.add(result, roster, tests)),
            None => Ok(()),
        }
    }

    /// Writes the documents of a survey that has ended. Returns the failures.
    pub fn end(self, survey: &Survey) -> Vec<Failure> {
        let written = [
            self.json.map(|to| to.write(&json::document(survey)?)),
            self.csv.map(PairTable::end),
            self.metrics.map(|(to, dialect)| {
                openmetrics::write(&to, &openmetrics::text(&families(survey), dialect))
            }),
            self.bad_nodes
                .map(|to| to.write(bad_nodes(survey).as_bytes())),
        ];
        let written = written.into_iter().flatten();
        written.filter_map(Result::err).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::lines::Earlier;
    use super::super::testing::{mixed, result, roster, setup, survey, tests};
    use super::*;

    fn places(directory: &Path) -> Places {
        let place = |name: &str| Place::File(directory.join(name));
        Places {
            json: Some(place("a.json")),
            jsonl: Some(directory.join("a.jsonl")),
            csv: Some(place("a.csv")),
            metrics: Some((place("a.prom"), Dialect::NodeExporter)),
            bad_nodes: Some(place("bad")),
        }
    }

    #[test]
    fn writes_all_documents() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let places = places(directory.path());
        assert!(!places.has_stdout());
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

    #[test]
    fn refuses_one_place_for_two_documents() {
        let directory = tempfile::tempdir().unwrap();
        let mut places = places(directory.path());
        places.bad_nodes = Some(Place::File(directory.path().join("a.jsonl")));
        let refused = |places: &Places| SurveyDocuments::open(places).err().unwrap().message();
        assert!(refused(&places).starts_with("two documents cannot be written to the same file"));
        places.bad_nodes = Some(Place::Stdout);
        assert!(places.has_stdout() && SurveyDocuments::open(&places).is_ok());
        places.csv = Some(Place::Stdout);
        assert!(refused(&places).starts_with("only one document can go to standard output"));
    }
}
