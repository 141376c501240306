//! The documents of a run, a survey or a command: opened before the work begins, so that a place
//! that cannot be written is an error at once, and each written whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::destination::{self, Destination, Place};
use super::json::{self, JsonLines};
use super::openmetrics::{self, Dialect, Family, MetricsFile};
use super::page::Page;
use super::problem::Problem;
use super::table::TextStyle;
use facts::error::Failure;
use facts::interrupt;

/// Where documents go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// `--json`: the results at the end.
    pub json: Option<Place>,
    /// `--jsonl`: a line for each run, or for each measurement of a survey.
    pub jsonl: Option<PathBuf>,
    /// `--csv`: a row for each size, or for each measurement of a survey.
    pub csv: Option<Place>,
    /// `--openmetrics`: metrics at the end.
    pub metrics: Option<MetricsFile>,
    /// `--hdr-log`: a log of histograms.
    pub hdr_log: Option<PathBuf>,
    /// `--samples`: a row for each sample.
    pub samples: Option<PathBuf>,
    /// `--bad-nodes`: a list of hosts.
    pub bad_nodes: Option<Place>,
    /// `--ticket`: a page of Markdown.
    pub ticket: Option<Place>,
}

/// Documents that can be written.
#[derive(Default)]
pub struct Documents {
    /// The results at the end.
    pub json: Option<Destination>,
    /// A line for each run, or for each measurement of a survey.
    pub jsonl: Option<JsonLines>,
    /// A row for each size, or for each measurement of a survey.
    pub csv: Option<Destination>,
    /// Metrics at the end, in this form.
    pub metrics: Option<(Destination, Dialect)>,
    /// A log of histograms.
    pub hdr_log: Option<Destination>,
    /// A row for each sample.
    pub samples: Option<Destination>,
    /// A list of hosts.
    pub bad_nodes: Option<Destination>,
    /// A page of Markdown.
    pub ticket: Option<Destination>,
}

impl Documents {
    /// Checks that all documents can be written.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or two have standard output.
    pub fn open(places: &Places) -> Result<Self, Failure> {
        let mut documents = Self::default();
        documents.open_all(places)?;
        Ok(documents)
    }

    /// Checks that the document of a command can be written to `json`, if there is to be one.
    pub fn open_json(json: Option<&Place>) -> Result<Self, Failure> {
        Self::open(&Places { json: json.cloned(), ..Places::default() })
    }

    /// Checks that all documents of `places` can be written. After an error, the documents that
    /// were opened before can be written.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or two have standard output.
    pub fn open_all(&mut self, places: &Places) -> Result<(), Failure> {
        let all = [&places.json, &places.csv, &places.bad_nodes, &places.ticket];
        if all.into_iter().flatten().filter(|place| **place == Place::Stdout).count() > 1 {
            return Err(Failure::usage(
                "only one document can go to standard output: name a file for the others, --json=FILE",
            ));
        }
        // Standard output first: it gets its document even if the others fail.
        for is_stdout in [true, false] {
            let own = [&mut self.json, &mut self.csv, &mut self.bad_nodes, &mut self.ticket];
            for (place, destination) in all.into_iter().zip(own) {
                if let Some(place) = place
                    && (*place == Place::Stdout) == is_stdout
                {
                    *destination = Some(Destination::open(place)?);
                }
            }
        }
        if let Some(path) = &places.jsonl {
            self.jsonl = Some(JsonLines::open(path)?);
        }
        if let Some(file) = &places.metrics {
            file.check_neighbours()?;
            self.metrics = Some((Destination::file(&file.path)?, file.dialect));
        }
        if let Some(path) = &places.hdr_log {
            self.hdr_log = Some(Destination::file(path)?);
        }
        if let Some(path) = &places.samples {
            self.samples = Some(Destination::file(path)?);
        }
        self.check_distinct()
    }

    fn destinations(&self) -> impl Iterator<Item = &Destination> {
        let metrics = self.metrics.as_ref().map(|(destination, _)| destination);
        let others =
            [&self.json, &self.csv, &self.hdr_log, &self.samples, &self.bad_nodes, &self.ticket];
        let others = others.map(Option::as_ref);
        others.into_iter().chain([metrics]).flatten()
    }

    /// Checks that no file is written by two documents.
    fn check_distinct(&self) -> Result<(), Failure> {
        let files = self.destinations().filter_map(Destination::target);
        let lines = self.jsonl.as_ref().map(JsonLines::target);
        check_distinct(files.chain(lines))
    }

    /// Checks that no document has the file of another destination.
    ///
    /// # Errors
    ///
    /// The file of both.
    pub fn check_distinct_from<'a>(
        &'a self,
        others: impl Iterator<Item = &'a Destination>,
    ) -> Result<(), Failure> {
        let files = self.destinations().chain(others);
        check_distinct(files.filter_map(Destination::target))
    }

    /// Whether a document has standard output, in place of the text.
    pub fn has_stdout(&self) -> bool {
        self.destinations().any(|destination| matches!(destination, Destination::Stdout))
    }

    /// Prints a page, unless a document has standard output.
    ///
    /// # Errors
    ///
    /// Standard output that cannot be written.
    pub fn print_page(&self, style: TextStyle, page: &Page) -> Result<(), Failure> {
        if self.has_stdout() { Ok(()) } else { page.print(style) }
    }

    /// Prints what `text` writes, unless a document has standard output.
    pub fn print(&self, text: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<(), Failure> {
        if self.has_stdout() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        text(&mut bytes)
            .and_then(|()| destination::write_text(&bytes))
            .map_err(interrupt::output_failed)
    }

    /// Returns what a command has concluded. Its text says it already, unless a document has
    /// standard output.
    pub fn conclude(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        result.map_err(|failure| if self.has_stdout() { failure } else { failure.printed() })
    }

    /// Writes the results as JSON, if they are asked for.
    pub fn write_json(&self, results: &impl Serialize) -> Result<(), Failure> {
        match &self.json {
            // A document of many nodes has a hundred megabytes: memory holds no copy of it.
            Some(to) => to.write_by(|out| json::write_document(out, results)).map(drop),
            None => Ok(()),
        }
    }

    /// Writes the failure of a command in place of its results, if they are asked for. An error is
    /// no further failure: the failure itself goes to standard error in any case.
    pub fn write_failure(&self, failure: &Failure) {
        let _ = self.write_json(&FailureDocument {
            schema_version: 1,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            error: failure.into(),
        });
    }

    /// Writes the metrics that `families` returns, if they are asked for.
    pub fn write_metrics(&self, families: impl FnOnce() -> Vec<Family>) -> Result<(), Failure> {
        match &self.metrics {
            Some((to, dialect)) => {
                to.write_for_all(openmetrics::text(&families(), *dialect).as_bytes())
            }
            None => Ok(()),
        }
    }
}

/// The document of a command that fails before it has results.
#[derive(Debug, Serialize)]
struct FailureDocument {
    schema_version: u32,
    cxidiag_version: &'static str,
    error: Problem,
}

/// Checks that all files differ.
fn check_distinct<'a>(files: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut files: Vec<&Path> = files.collect();
    files.sort_unstable();
    match files.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Failure::usage(format!(
            "two documents cannot be written to the same file, {}",
            two[0].display()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(places: &Places) -> String {
        Documents::open(places).err().unwrap().message()
    }

    #[test]
    fn refuses_one_place_for_two_documents() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut places = Places {
            json: Some(Place::File(path("a.json"))),
            jsonl: Some(path("a.jsonl")),
            csv: Some(Place::File(path("a.csv"))),
            metrics: Some(MetricsFile::of(path("a.prom"))),
            bad_nodes: Some(Place::File(path("a.jsonl"))),
            ..Places::default()
        };
        assert!(refused(&places).starts_with("two documents cannot be written to the same file"));
        places.bad_nodes = None;
        assert!(!Documents::open(&places).unwrap().has_stdout());
        places.hdr_log = Some(path("a.prom"));
        assert!(refused(&places).starts_with("two documents cannot be written to the same file"));
        places.hdr_log = None;
        places.bad_nodes = Some(Place::Stdout);
        assert!(Documents::open(&places).unwrap().has_stdout());
        places.csv = Some(Place::Stdout);
        assert!(refused(&places).starts_with("only one document can go to standard output"));
    }

    #[test]
    fn keeps_documents_that_were_opened_before_an_error() {
        let mut documents = Documents::default();
        let opened = documents.open_all(&Places {
            json: Some(Place::File("/no/such/file".into())),
            csv: Some(Place::Stdout),
            ..Places::default()
        });
        assert!(opened.is_err() && documents.json.is_none());
        assert!(documents.csv.is_some());
    }
}
